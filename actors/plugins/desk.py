"""The plugin host without I/O: every plugin of a node, what waits for it, what it has under way, how it fares.

It isolates: a plugin gets one delivery at a time, and what it asks for is counted. One that raises is begun again after a
pause; one that takes too long is reported and waited for, by nobody but itself. It refuses to know threads and messages.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from levrier.actors.bus.messages import Deny, Evict, Reply, Ticket
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, ClientRequest
from levrier.actors.consensus.messages import SubmitOwn
from levrier.actors.plugins import limits
from levrier.actors.plugins.limits import NANOS_PER_SECOND, Bucket
from levrier.actors.plugins.messages import (
    PLUGIN_CONNECTION,
    Answered,
    Ask,
    CommitNotice,
    Deliver,
    Fate,
    Handled,
    Outcome,
    RoleChanged,
    Settled,
    Submit,
)
from levrier.actors.plugins.queue import PluginQueue
from levrier.actors.plugins.report import PluginState, PluginStatus
from levrier.actors.plugins.session import Keyed, KeyedSession, Told, committed_outcome
from levrier.wire.codes import ErrorCode

_NOT_ACCEPTED: Final = int(ErrorCode.TRANSIENT_NOT_ACCEPTED)
_NOT_COMMITTED: Final = int(ErrorCode.TRANSIENT_NOT_COMMITTED)


class TellPlugin(NamedTuple):
    """Hand a delivery to the actor of a plugin."""

    plugin: str
    message: Deliver


class Inquire(NamedTuple):
    """Ask whoever knows."""

    ticket: Ticket
    question: object


class Warn(NamedTuple):
    """A line for the log."""

    text: str


Effect = TellPlugin | Inquire | Warn | SubmitOwn | ClientRequest


class _Kind(Enum):
    OWN = 0
    SESSION = 1
    QUESTION = 2


@dataclass(slots=True, kw_only=True)
class _UnderWay:
    """One ticket that an answer is awaited for."""

    seat: "_Seat"
    kind: _Kind
    deadline: int
    life: int = 0
    number: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class _Seat:
    """One plugin."""

    name: str
    watches: frozenset[int]
    queue: PluginQueue
    session: KeyedSession
    bucket: Bucket
    status: PluginStatus
    life: int = 0
    delivery: int = 0
    out_since: int | None = None
    """Since when the present delivery is being handled; None when none is."""

    paused_until: int | None = 0
    """When the next life begins; None while one goes on."""

    is_syncing: bool = False
    failures: int = 0
    lived_since: int = 0
    under_way: dict[int, _UnderWay] = field(default_factory=dict)


class PluginDesk:
    """All plugins of a node. `now` is monotonic nanoseconds everywhere."""

    def __init__(self, plugins: Iterable[tuple[str, frozenset[int]]], *, now: int) -> None:
        self._seats = {
            name: _Seat(
                name=name,
                watches=watches,
                queue=PluginQueue(),
                session=KeyedSession(name),
                bucket=Bucket(
                    per_second=limits.SUBMITS_PER_SECOND_MAX, at_once=limits.SUBMITS_PER_SECOND_MAX // 10, now=now
                ),
                status=PluginStatus(name=name),
            )
            for name, watches in plugins
        }
        self._by_client = {seat.session.client: seat for seat in self._seats.values()}
        assert len(self._by_client) == len(self._seats), "two plugins with one session"
        self._role: RoleChanged | None = None
        self._tickets: dict[int, _UnderWay] = {}
        self._number = 0
        self._assert_invariants()

    @property
    def statuses(self) -> tuple[PluginStatus, ...]:
        """How each plugin fares, in the order in which they were given."""
        return tuple([seat.status.copy() for seat in self._seats.values()])

    # What happens in the node.

    def on_notice(self, notice: CommitNotice, now: int) -> list[Effect]:
        """An operation was committed."""
        effects: list[Effect] = []
        own = self._by_client.get(notice.client)
        if own is not None:
            self._tell(own, own.session.committed(notice.request))
            self._advance(own, now, effects)
            self._assert_seat(own)
        for seat in self._seats.values():
            if notice.operation in seat.watches and seat.paused_until is None:
                seat.queue.put_notice(notice)
                seat.status.notices_dropped = seat.queue.dropped
                self._deliver(seat, now, effects)
                self._assert_seat(seat)
        return effects

    def on_role(self, role: RoleChanged, now: int) -> list[Effect]:
        """The role of this node changed."""
        before, self._role = self._role, role
        effects: list[Effect] = []
        for seat in self._seats.values():
            if before is None or (before.is_leader, before.view) != (role.is_leader, role.view):
                self._forget_session_ticket(seat)
                seat.session.lead(role.is_leader)
            if seat.paused_until is None:
                seat.queue.put_role(role)
            self._advance(seat, now, effects)
        self._assert_invariants()
        return effects

    def on_state_replaced(self, now: int) -> list[Effect]:
        """A state transfer jumped over commits."""
        effects: list[Effect] = []
        for seat in self._seats.values():
            if seat.paused_until is None:
                seat.queue.put_resync()
                self._deliver(seat, now, effects)
        self._assert_invariants()
        return effects

    def on_settlement(self, answer: Reply | Deny | Evict, now: int) -> list[Effect]:
        """A submit was answered. One that nobody awaits any more says nothing."""
        under_way = self._take(answer.ticket)
        if under_way is None:
            return []
        seat = under_way.seat
        if under_way.kind is _Kind.SESSION:
            self._tell(seat, seat.session.answered(answer))
        else:
            self._settle(under_way, _outcome(answer))
        effects: list[Effect] = []
        # What was refused for the moment is sent again by the next watch, not by its refusal: that would never pause.
        if not isinstance(answer, Deny):
            self._send(seat, now, effects)
        self._deliver(seat, now, effects)
        self._assert_invariants()
        return effects

    def on_answer(self, ticket: Ticket, found: object, now: int) -> list[Effect]:
        """A question was answered with `found`."""
        under_way = self._take(ticket)
        if under_way is None:
            return []
        seat = under_way.seat
        if under_way.life == seat.life and seat.paused_until is None:
            seat.queue.put_answer(Answered(number=under_way.number, answer=found))
        effects: list[Effect] = []
        self._deliver(seat, now, effects)
        self._assert_invariants()
        return effects

    # What a plugin does.

    def on_submit(self, submit: Submit, now: int) -> list[Effect]:
        """A plugin wants something committed."""
        seat = self._seats[submit.plugin]
        effects: list[Effect] = []
        if submit.key:
            keyed = Keyed(
                key=submit.key, life=submit.life, number=submit.number, operation=submit.operation, body=submit.body
            )
            if seat.session.waiting >= limits.KEYED_SUBMITS_MAX:
                self._answer(seat, submit.life, Settled(number=submit.number, outcome=Outcome(fate=Fate.NOT_STARTED)))
            else:
                self._tell(seat, seat.session.submit(keyed))
        elif self._role is None or not self._role.is_leader or self._is_full(seat):
            self._answer(seat, submit.life, Settled(number=submit.number, outcome=Outcome(fate=Fate.NOT_STARTED)))
        else:
            ticket = self._mint(
                seat, _Kind.OWN, now + limits.SUBMIT_SECONDS * NANOS_PER_SECOND, submit.life, submit.number
            )
            effects.append(
                SubmitOwn(
                    ticket=ticket,
                    operation=submit.operation,
                    client=submit.client,
                    request=DISCONNECT_REQUEST,
                    body=submit.body,
                )
            )
        self._advance(seat, now, effects)
        self._assert_invariants()
        return effects

    def on_ask(self, ask: Ask, now: int) -> list[Effect]:
        """A plugin asks. Its context counts what is under way, and a new life begins with none of the old one's."""
        seat = self._seats[ask.plugin]
        if ask.life != seat.life:
            return []
        ticket = self._mint(seat, _Kind.QUESTION, now + _LIFE_LONG, ask.life, ask.number)
        self._assert_invariants()
        return [Inquire(ticket, ask.question)]

    def on_tick_due(self, plugin: str, now: int) -> list[Effect]:
        """The interval of a plugin has passed."""
        seat = self._seats[plugin]
        effects: list[Effect] = []
        if seat.paused_until is None:
            seat.queue.put_tick()
            self._deliver(seat, now, effects)
        self._assert_invariants()
        return effects

    def on_handled(self, handled: Handled, now: int) -> list[Effect]:
        """A plugin has handled its delivery, or raised."""
        seat = self._seats[handled.plugin]
        assert handled.delivery == seat.delivery, "one delivery is out at a time"
        assert seat.out_since is not None
        effects: list[Effect] = []
        status = seat.status
        if status.state is PluginState.BLOCKED:
            seconds = (now - seat.out_since) // NANOS_PER_SECOND
            effects.append(Warn(f"plugin {seat.name} goes on; it blocked for {seconds} s"))
        seat.out_since = None
        seat.is_syncing = handled.is_syncing
        status.state = PluginState.RUNNING
        status.refused += handled.refused
        status.metrics = dict(handled.metrics)
        if handled.failure:
            self._pause(seat, handled.failure, now, effects)
        self._deliver(seat, now, effects)
        self._assert_invariants()
        return effects

    def on_watch(self, now: int) -> list[Effect]:
        """A tenth of a second has passed."""
        effects: list[Effect] = []
        for seat in self._seats.values():
            if seat.paused_until is not None and now >= seat.paused_until:
                self._begin(seat, now)
            is_late = seat.out_since is not None and now - seat.out_since > limits.BLOCKED_SECONDS * NANOS_PER_SECOND
            if is_late and seat.status.state is not PluginState.BLOCKED:
                seat.status.state = PluginState.BLOCKED
                seat.status.blocked += 1
                effects.append(
                    Warn(f"plugin {seat.name} has been in a handler for more than {limits.BLOCKED_SECONDS} s")
                )
            self._expire(seat, now)
            self._advance(seat, now, effects)
        self._assert_invariants()
        return effects

    # Private.

    def _begin(self, seat: _Seat, now: int) -> None:
        seat.paused_until = None
        seat.is_syncing = False
        seat.life += 1
        seat.lived_since = now
        seat.status.state = PluginState.RUNNING
        seat.queue.restart(self._role)

    def _pause(self, seat: _Seat, failure: str, now: int, effects: list[Effect]) -> None:
        forgiven = now - seat.lived_since > limits.FORGIVEN_SECONDS * NANOS_PER_SECOND
        seat.failures = 1 if forgiven else seat.failures + 1
        pause = limits.back_off_seconds(seat.failures)
        seat.paused_until = now + pause * NANOS_PER_SECOND
        seat.queue.clear()
        status = seat.status
        status.state = PluginState.RESTARTING
        status.restarts += 1
        status.last_error = failure
        effects.append(Warn(f"plugin {seat.name} raised and begins again in {pause} s: {failure}"))

    def _advance(self, seat: _Seat, now: int, effects: list[Effect]) -> None:
        self._send(seat, now, effects)
        self._deliver(seat, now, effects)

    def _deliver(self, seat: _Seat, now: int, effects: list[Effect]) -> None:
        if seat.out_since is not None or seat.paused_until is not None:
            return
        if not seat.queue.has_any(is_syncing=seat.is_syncing):
            return
        seat.delivery += 1
        seat.out_since = now
        deliver = Deliver(delivery=seat.delivery, life=seat.life, events=seat.queue.take(is_syncing=seat.is_syncing))
        effects.append(TellPlugin(seat.name, deliver))

    def _send(self, seat: _Seat, now: int, effects: list[Effect]) -> None:
        """Send the next submit with a key, if there is one and none is under way."""
        session = seat.session
        seat.status.keyed_waiting = session.waiting
        if session.is_under_way or not session.waiting or not seat.bucket.take(now):
            return
        self._number += 1
        request = session.next(self._number)
        if request is None:
            return
        under_way = _UnderWay(seat=seat, kind=_Kind.SESSION, deadline=now + limits.SUBMIT_SECONDS * NANOS_PER_SECOND)
        self._tickets[self._number] = seat.under_way[self._number] = under_way
        effects.append(request)

    def _is_full(self, seat: _Seat) -> bool:
        """Submits of an earlier life count as well, so that raising is no way around the bound."""
        count = sum(1 for each in seat.under_way.values() if each.kind is _Kind.OWN)
        return count >= limits.SUBMITS_IN_FLIGHT_MAX

    def _mint(self, seat: _Seat, kind: _Kind, deadline: int, life: int, number: int) -> Ticket:
        self._number += 1
        under_way = _UnderWay(seat=seat, kind=kind, deadline=deadline, life=life, number=number)
        self._tickets[self._number] = seat.under_way[self._number] = under_way
        return Ticket(connection=PLUGIN_CONNECTION, number=self._number)

    def _take(self, ticket: Ticket) -> _UnderWay | None:
        under_way = self._tickets.pop(ticket.number, None)
        if under_way is not None:
            del under_way.seat.under_way[ticket.number]
        return under_way

    def _forget_session_ticket(self, seat: _Seat) -> None:
        for number, under_way in list(seat.under_way.items()):
            if under_way.kind is _Kind.SESSION:
                del seat.under_way[number], self._tickets[number]

    def _expire(self, seat: _Seat, now: int) -> None:
        late = [number for number, under_way in seat.under_way.items() if now >= under_way.deadline]
        for number in late:
            under_way = seat.under_way.pop(number)
            del self._tickets[number]
            if under_way.kind is _Kind.SESSION:
                seat.session.forget()
            elif under_way.kind is _Kind.OWN:
                self._settle(under_way, Outcome(fate=Fate.UNKNOWN))

    def _settle(self, under_way: _UnderWay, outcome: Outcome) -> None:
        if outcome.fate is Fate.COMMITTED:
            under_way.seat.status.committed += 1
        self._answer(under_way.seat, under_way.life, Settled(number=under_way.number, outcome=outcome))

    def _tell(self, seat: _Seat, told: list[Told]) -> None:
        for life, number, outcome in told:
            if outcome.fate is Fate.COMMITTED:
                seat.status.committed += 1
            self._answer(seat, life, Settled(number=number, outcome=outcome))

    def _answer(self, seat: _Seat, life: int, settled: Settled) -> None:
        if life == seat.life and seat.paused_until is None:
            seat.queue.put_answer(settled)

    def _assert_invariants(self) -> None:
        assert len(self._tickets) == sum(len(seat.under_way) for seat in self._seats.values())
        for seat in self._seats.values():
            self._assert_seat(seat)

    def _assert_seat(self, seat: _Seat) -> None:
        """What is done for every commit has this alone at its end."""
        assert self._by_client.get(seat.session.client) is seat
        assert seat.session.waiting <= limits.KEYED_SUBMITS_MAX
        if seat.paused_until is not None:
            assert seat.out_since is None, "nothing is told between two lives"
        if seat.out_since is None:
            assert seat.status.state is not PluginState.BLOCKED
            assert not seat.queue.has_any(is_syncing=seat.is_syncing), "whoever is free is told what waits"


_LIFE_LONG: Final = 1 << 62
"""Questions have no deadline: the node itself answers them."""


def _outcome(answer: Reply | Deny | Evict) -> Outcome:
    if isinstance(answer, Reply):
        return committed_outcome(answer)
    if isinstance(answer, Deny):
        return Outcome(fate=Fate.NOT_STARTED if answer.code == _NOT_ACCEPTED else Fate.UNKNOWN)
    return Outcome(fate=Fate.INVALID)
