"""The plugin host and the actors of the plugins.

The host shares no thread with a plugin, and each plugin has one of its own, so a handler that never returns costs a thread and
nothing else. Whatever a plugin raises is caught where it is called; the plugin object is dropped and, when the desk says so,
replaced by a new one. A plugin reaches nothing but its context.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from loguru import logger

from levrier.actors.acknowledgements import messages as acknowledgements_messages
from levrier.actors.bus import messages as bus_messages
from levrier.actors.client_table import messages as client_table_messages
from levrier.actors.consensus import messages as consensus_messages
from levrier.actors.metadata import messages as metadata_messages
from levrier.actors.plugins import messages as plugins
from levrier.actors.plugins import questions
from levrier.actors.plugins.api import Context, Metrics, Notice, Plugin
from levrier.actors.plugins.desk import Effect, Inquire, PluginDesk, TellPlugin, Warn
from levrier.actors.plugins.limits import WATCH_MILLISECONDS
from levrier.actors.plugins.report import PluginBoard
from levrier.actors.runtime import FailurePolicy, Handlers, NodeActor, Recipient, Runtime, Timer
from levrier.actors.runtime.attempts import attempt

PLUGIN_HOST = "plugins"
"""The name of the plugin host's actor."""

ROOT_USER_ID = 0
REPORT_WATCHES = 5
"""The board is written anew every half second."""

AnyPlugin = Plugin[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enabled:
    """A plugin that runs on this node: how another object of it is made, and what it is told of."""

    name: str
    make: Callable[[], AnyPlugin]
    watches: frozenset[int]
    interval_milliseconds: int | None

    @property
    def actor_name(self) -> str:
        """The name of its actor."""
        return actor_name(self.name)


def actor_name(plugin: str) -> str:
    """The name of the actor of a plugin."""
    return f"plugin.{plugin}"


class PluginActor(NodeActor):
    """One plugin, in a thread of its own."""

    failure_policy = FailurePolicy.REPORT

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        plugin: Enabled,
        host: Recipient[plugins.Submit | plugins.Ask | plugins.Handled],
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._enabled = plugin
        self._host = host
        self._plugin: AnyPlugin | None = None
        self._context: Context | None = None
        self._life = 0
        self._metrics = Metrics()

    def receive(self, message: object) -> None:
        """Handle one delivery to its end, and say so."""
        assert isinstance(message, plugins.Deliver)
        failure = attempt(partial(self._handle, message), whose=f"plugin {self._enabled.name}")
        if failure:
            self._drop()
        context = self._context
        self._host.tell(
            plugins.Handled(
                plugin=self._enabled.name,
                delivery=message.delivery,
                failure=failure,
                metrics=self._metrics.values,
                is_syncing=context is not None and context.is_syncing,
                refused=0 if context is None else context.take_refused(),
            )
        )

    def on_stop(self) -> None:
        """Let the plugin give back what it holds."""
        self._drop()

    # What the context calls.

    def submit(self, submit: plugins.Submit) -> None:
        """Pass a submit on."""
        self._host.tell(submit)

    def inquire(self, ask: plugins.Ask) -> None:
        """Pass a question on."""
        self._host.tell(ask)

    def _handle(self, message: plugins.Deliver) -> None:
        if message.life != self._life:
            self._life = message.life
            self._context = Context(
                plugin=self._enabled.name,
                life=message.life,
                desk=self,
                clock=self.runtime.clock,
                log=logger.bind(plugin=self._enabled.name),
                metrics=self._metrics,
            )
            self._plugin = self._enabled.make()
        assert self._plugin is not None
        assert self._context is not None
        for event in message.events:
            dispatch(self._plugin, self._context, event)

    def _drop(self) -> None:
        dropped, self._plugin = self._plugin, None
        if dropped is not None:
            attempt(dropped.on_stop, whose=f"plugin {self._enabled.name}, stopping,")


def dispatch(plugin: AnyPlugin, context: Context, event: plugins.Event) -> None:
    """Call the handler that an event is for."""
    match event:
        case plugins.Committed():
            for notice in event.notices:
                plugin.on_commit(context, Notice(notice))
        case plugins.Settled():
            context.settled(event.number, event.outcome)
        case plugins.Answered():
            context.answered(event.number, event.answer)
        case plugins.Ticked():
            plugin.on_tick(context)
        case plugins.RoleChanged():
            if context.take_role(is_leader=event.is_leader, is_settled=event.is_settled):
                plugin.on_role(context, context.role)
        case plugins.Resync():
            context.look(plugin.on_resync)
        case plugins.Started():
            plugin.on_start(context)
        case _:
            assert_never(event)


class PluginHostActor(NodeActor):
    """All plugins of a node as the node sees them."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        enabled: tuple[Enabled, ...],
        board: PluginBoard,
        consensus: Recipient[consensus_messages.SubmitOwn],
        client_table: Recipient[client_table_messages.Preflight],
        metadata: Recipient[metadata_messages.Question | metadata_messages.PluginQuestion],
        bus: Recipient[bus_messages.PluginCommand],
        acknowledgements: Recipient[acknowledgements_messages.EvidenceQuery],
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = logger.bind(actor=name)
        self._clock = runtime.clock
        self._desk = PluginDesk([(each.name, each.watches) for each in enabled], now=self._clock.monotonic_nanos())
        self._enabled = enabled
        self._board = board
        self._consensus = consensus
        self._client_table = client_table
        self._metadata = metadata
        self._bus = bus
        self._acknowledgements = acknowledgements
        self._actors: Mapping[str, Recipient[plugins.Deliver]] = {
            each.name: runtime.address(each.actor_name) for each in enabled
        }
        self._timers: list[Timer] = []
        self._watches = 0
        self._handlers = Handlers(plugins.Command)
        self._handlers.on(plugins.CommitNotice, self._on_notice)
        self._handlers.on(plugins.RoleChanged, self._on_role)
        self._handlers.on(plugins.StateReplaced, self._on_state_replaced)
        self._handlers.on(bus_messages.Reply, self._on_settlement)
        self._handlers.on(bus_messages.Deny, self._on_settlement)
        self._handlers.on(bus_messages.Evict, self._on_settlement)
        self._handlers.on(bus_messages.QueryAnswer, self._on_query_answer)
        self._handlers.on(plugins.CatalogueAnswer, lambda answer: self._on_answer(answer, answer.catalogue))
        self._handlers.on(plugins.ExpiredTokensAnswer, lambda answer: self._on_answer(answer, answer.tokens))
        self._handlers.on(plugins.RevocationsAnswer, lambda answer: self._on_answer(answer, answer.revocations))
        self._handlers.on(plugins.MembershipsAnswer, lambda answer: self._on_answer(answer, answer.clients))
        self._handlers.on(plugins.SilentAnswer, lambda answer: self._on_answer(answer, answer.sessions))
        self._handlers.on(acknowledgements_messages.EvidenceAnswer, self._on_evidence)
        self._handlers.on(plugins.Submit, self._on_submit)
        self._handlers.on(plugins.Ask, self._on_ask)
        self._handlers.on(plugins.Handled, self._on_handled)
        self._handlers.on(plugins.TickDue, self._on_tick_due)
        self._handlers.on(plugins.Watch, self._on_watch)
        self._handlers.seal()

    def on_start(self) -> None:
        """Begin to watch, and to tick."""
        every, address = self.runtime.every, self.address
        self._timers = [every(WATCH_MILLISECONDS, address, plugins.Watch())]
        for each in self._enabled:
            if each.interval_milliseconds is not None:
                self._timers.append(every(each.interval_milliseconds, address, plugins.TickDue(plugin=each.name)))
        self._execute(self._desk.on_watch(self._now()))
        self._board.publish(self._desk.statuses)

    def on_stop(self) -> None:
        """Tick no more."""
        for timer in self._timers:
            timer.cancel()

    def receive(self, message: object) -> None:
        """Handle one message."""
        self._handlers.dispatch(message)

    def _now(self) -> int:
        return self._clock.monotonic_nanos()

    def _on_notice(self, message: plugins.CommitNotice) -> None:
        self._execute(self._desk.on_notice(message, self._now()))

    def _on_role(self, message: plugins.RoleChanged) -> None:
        self._execute(self._desk.on_role(message, self._now()))

    def _on_state_replaced(self, _message: plugins.StateReplaced) -> None:
        self._execute(self._desk.on_state_replaced(self._now()))

    def _on_settlement(self, message: bus_messages.Reply | bus_messages.Deny | bus_messages.Evict) -> None:
        self._execute(self._desk.on_settlement(message, self._now()))

    def _on_query_answer(self, message: bus_messages.QueryAnswer) -> None:
        self._on_answer(message, None if message.status else message.body)

    def _on_evidence(self, message: acknowledgements_messages.EvidenceAnswer) -> None:
        ticket = bus_messages.Ticket(connection=plugins.PLUGIN_CONNECTION, number=message.token)
        self._execute(self._desk.on_answer(ticket, message.evidence, self._now()))

    def _on_answer(self, message: bus_messages.QueryAnswer | plugins.Answer, found: object) -> None:
        self._execute(self._desk.on_answer(message.ticket, found, self._now()))

    def _on_submit(self, message: plugins.Submit) -> None:
        self._execute(self._desk.on_submit(message, self._now()))

    def _on_ask(self, message: plugins.Ask) -> None:
        self._execute(self._desk.on_ask(message, self._now()))

    def _on_handled(self, message: plugins.Handled) -> None:
        self._execute(self._desk.on_handled(message, self._now()))

    def _on_tick_due(self, message: plugins.TickDue) -> None:
        self._execute(self._desk.on_tick_due(message.plugin, self._now()))

    def _on_watch(self, _message: plugins.Watch) -> None:
        self._execute(self._desk.on_watch(self._now()))
        self._watches += 1
        if self._watches % REPORT_WATCHES == 0:
            self._board.publish(self._desk.statuses)

    def _execute(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case TellPlugin():
                    self._actors[effect.plugin].tell(effect.message)
                case Inquire():
                    self._inquire(effect.ticket, effect.question)
                case consensus_messages.SubmitOwn():
                    self._consensus.tell(effect)
                case client_table_messages.ClientRequest():
                    self._client_table.tell(client_table_messages.Preflight(request=effect))
                case Warn():
                    self._log.warning("{}", effect.text)
                case _:
                    assert_never(effect)

    def _inquire(self, ticket: bus_messages.Ticket, question: object) -> None:
        match question:
            case questions.Read():
                self._metadata.tell(
                    metadata_messages.Query(
                        ticket=ticket, user_id=ROOT_USER_ID, client=0, code=question.code, body=question.body
                    )
                )
            case questions.ExpiredTokens():
                self._metadata.tell(
                    metadata_messages.FindExpiredTokens(ticket=ticket, now=question.now, limit=question.limit)
                )
            case questions.PendingRevocations():
                self._metadata.tell(metadata_messages.FindRevocations(ticket=ticket, limit=question.limit))
            case questions.Catalogue():
                self._metadata.tell(
                    metadata_messages.FreezeCatalogue(ticket=ticket, unless_revision=question.unless_revision)
                )
            case questions.GroupMembers():
                self._metadata.tell(metadata_messages.FindMembers(ticket=ticket, clients=question.clients))
            case questions.SilentSessions():
                self._bus.tell(bus_messages.FindSilent(ticket=ticket, seconds=question.seconds))
            case questions.EndSilent():
                self._bus.tell(
                    bus_messages.EndSilent(ticket=ticket, sessions=question.sessions, seconds=question.seconds)
                )
            case questions.WhatIsSafe():
                self._acknowledgements.tell(
                    acknowledgements_messages.EvidenceQuery(token=ticket.number, reply_to=self.address)
                )
            case _:
                raise AssertionError(f"the context let {question!r} through")


class AnswerRouter:
    """What the core actors have in the place of the Bus: answers for plugins go to their host, all others to the Bus."""

    __slots__ = ("_bus", "_plugins")

    def __init__(self, *, bus: Recipient[bus_messages.Command], plugins: Recipient[plugins.Command]) -> None:
        self._bus = bus
        self._plugins = plugins

    def tell(self, message: Any, /) -> None:
        """Pass the answer on; the order of one sender stays."""
        if message.ticket.connection == plugins.PLUGIN_CONNECTION:
            self._plugins.tell(message)
        else:
            self._bus.tell(message)
