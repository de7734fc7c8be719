"""The Bus actor: moves messages between the pure core, the transport and the neighbours.

It runs on the dispatcher that owns the event loop, so a real transport hands it bytes directly, in its own thread, without
a message in between. Frames are written once per batch: at the end of a turn of the mailbox, or right after the bytes of a
connection were handled.
"""

from collections.abc import Callable
from typing import Any, Final, get_args

from loguru import logger

from levrier.actors.bus import archive
from levrier.actors.bus import link_messages as link
from levrier.actors.bus import messages as bus
from levrier.actors.bus.bus import Bus
from levrier.actors.bus.effects import (
    BuildArchive,
    CloseConnection,
    Effect,
    HashPassword,
    PauseReading,
    ResumeReading,
    VerifyPassword,
)
from levrier.actors.bus.passwords import SALT_SIZE, hash_password, verify_password
from levrier.actors.bus.ports import Transport
from levrier.actors.bus.replica_side import ReplicaSide, ReplicaWiring
from levrier.actors.client_table.messages import Preflight
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata import messages as metadata_messages
from levrier.actors.plugins import messages as plugins_messages
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime, Timer, WorkFailed

TICK_MILLISECONDS: Final = 1000
PASSWORDS_MAX: Final = 64
"""Passwords that may wait for a worker, to be compared or hashed; beyond it a client is told to try again (57)."""


class BusActor(NodeActor):
    """Owns the sockets of the clients and, where the node has peers (`replicas`), of the links to them."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        core: Bus,
        transport: Transport,
        client_table: Recipient[Preflight],
        metadata: Recipient[metadata_messages.Question],
        consensus: Recipient[StatusQuery],
        verify: Callable[[str, str], bool] = verify_password,
        passwords_max: int = PASSWORDS_MAX,
        hasher: Callable[[str, bytes], str] = hash_password,
        diagnostics: Callable[[], archive.Files] = dict,
        replicas: ReplicaWiring | None = None,
        plugins: Recipient[plugins_messages.SilentAnswer] | None = None,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._core = core
        self._transport = transport
        self._plugins = plugins
        self._verify = verify
        self._hasher = hasher
        self._diagnostics = diagnostics
        self._ticker: Timer | None = None
        self._passwords_waiting = 0
        self._passwords_max = passwords_max
        self._log = (
            logger.bind(actor=name) if replicas is None else logger.bind(actor=name, replica=replicas.peers.replica)
        )
        self._replicas = (
            None if replicas is None else ReplicaSide(replicas, runtime=runtime, address=self.address, log=self._log)
        )
        self._executors: dict[type, Callable[[Any], None]] = {
            Preflight: client_table.tell,
            **dict.fromkeys(get_args(metadata_messages.Question), metadata.tell),
            StatusQuery: consensus.tell,
            VerifyPassword: self._verify_password,
            HashPassword: self._hash_password,
            BuildArchive: self._build_archive,
            CloseConnection: self._on_close,
            PauseReading: lambda effect: transport.pause_reading(effect.connection),
            ResumeReading: lambda effect: transport.resume_reading(effect.connection),
        }
        self._handlers = Handlers(bus.Command | bus.ReplicaCommand | link.LinkEvent)
        finished: dict[type, Callable[[Any], None]] = {
            bus.PasswordVerified: self._on_password_verified,
            bus.PasswordHashed: self._on_password_hashed,
        }
        for answer in get_args(bus.Answer):
            self._handlers.on(answer, finished.get(answer, self._on_answer))
        self._handlers.on(bus.Opened, self._on_opened)
        self._handlers.on(bus.Received, self._on_received)
        self._handlers.on(bus.Closed, self._on_closed)
        self._handlers.on(bus.WriteResumed, self._on_write_resumed)
        self._handlers.on(bus.Tick, self._on_tick)
        self._handlers.on(bus.HistoryChanged, core.on_history)
        self._handlers.on(bus.FindSilent, self._on_find_silent)
        self._handlers.on(bus.EndSilent, self._on_end_silent)
        for message, handler in self._replica_handlers().items():
            self._handlers.on(message, handler)
        self._handlers.seal()

    def on_start(self) -> None:
        """Begin to accept, and to tick."""
        self._ticker = self.runtime.every(TICK_MILLISECONDS, self.address, bus.Tick())
        self._transport.start(self)
        if self._replicas is not None:
            self._replicas.start()

    def on_stop(self) -> None:
        """Close every connection; their sessions stay, as after a crash."""
        if self._ticker is not None:
            self._ticker.cancel()
        self._transport.stop()
        if self._replicas is not None:
            self._replicas.stop()

    def receive(self, message: object) -> None:
        """Handle one message."""
        self._handlers.dispatch(message)

    def on_batch_end(self) -> None:
        """Write what the answers of this batch add up to, one write for each connection."""
        # What was flushed lets waiting requests start, and those may be answered at once.
        while outgoing := self._core.take_outgoing():
            for connection, data in outgoing:
                flowing = self._transport.write(connection, data)
                self._execute(self._core.on_written(connection, blocked=not flowing))
        if self._replicas is not None:
            self._replicas.flush()

    # What a real transport calls in this actor's thread.

    def opened(self, connection: int, peer: str) -> None:
        """A connection was accepted."""
        self._execute(self._core.on_opened(connection, peer))

    def received(self, connection: int, data: bytes) -> None:
        """Bytes arrived."""
        self._execute(self._core.on_received(connection, data))
        self.on_batch_end()

    def closed(self, connection: int) -> None:
        """A connection is gone."""
        self._execute(self._core.on_closed(connection))

    def write_resumed(self, connection: int) -> None:
        """A peer reads again."""
        self._execute(self._core.on_write_resumed(connection))
        self.on_batch_end()

    # Messages.

    def _on_answer(self, message: bus.Answer) -> None:
        effects = self._core.on_answer(message)
        if effects:
            self._execute(effects)

    def _on_opened(self, message: bus.Opened) -> None:
        self.opened(message.connection, message.peer)

    def _on_received(self, message: bus.Received) -> None:
        self._execute(self._core.on_received(message.connection, message.data))

    def _on_closed(self, message: bus.Closed) -> None:
        self.closed(message.connection)

    def _on_write_resumed(self, message: bus.WriteResumed) -> None:
        self._execute(self._core.on_write_resumed(message.connection))

    def _on_tick(self, _message: bus.Tick) -> None:
        self._execute(self._core.on_tick())
        if self._replicas is not None:
            self._replicas.tick()

    def _on_find_silent(self, message: bus.FindSilent) -> None:
        self._tell_silent(message.ticket, self._core.silent(message.seconds))

    def _on_end_silent(self, message: bus.EndSilent) -> None:
        ended, effects = self._core.end_silent(message.sessions, message.seconds)
        self._execute(effects)
        self._tell_silent(message.ticket, ended)

    def _tell_silent(self, ticket: bus.Ticket, sessions: tuple[bus.SilentSession, ...]) -> None:
        assert self._plugins is not None, "only plugins ask for silent sessions"
        self._plugins.tell(plugins_messages.SilentAnswer(ticket=ticket, sessions=sessions))

    def _replica_handlers(self) -> dict[type, Callable[[Any], None]]:
        if self._replicas is not None:
            return self._replicas.handlers()
        return dict.fromkeys(get_args(bus.ReplicaCommand | link.LinkEvent), _without_peers)

    # Effects.

    def _execute(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._executors[effect.__class__](effect)

    def _on_password_verified(self, message: bus.PasswordVerified) -> None:
        self._passwords_waiting -= 1
        self._on_answer(message)

    def _verify_password(self, effect: VerifyPassword) -> None:
        ticket = effect.ticket
        if self._passwords_waiting >= self._passwords_max:
            # A flood of guesses must not make everybody else's login wait behind it.
            self._on_answer(bus.PasswordVerified(ticket=ticket, matches=None))
            return
        self._passwords_waiting += 1

        def deliver(result: bool | WorkFailed) -> bus.PasswordVerified:
            return bus.PasswordVerified(ticket=ticket, matches=None if isinstance(result, WorkFailed) else result)

        verify = self._verify
        self.runtime.offload(lambda: verify(effect.password_hash, effect.password), deliver, self.address)

    def _on_password_hashed(self, message: bus.PasswordHashed) -> None:
        self._passwords_waiting -= 1
        self._on_answer(message)

    def _hash_password(self, effect: HashPassword) -> None:
        ticket = effect.ticket
        if self._passwords_waiting >= self._passwords_max:
            self._on_answer(bus.PasswordHashed(ticket=ticket, password_hash=""))
            return
        self._passwords_waiting += 1
        salt = self.runtime.entropy(SALT_SIZE)

        def deliver(result: str | WorkFailed) -> bus.PasswordHashed:
            return bus.PasswordHashed(ticket=ticket, password_hash=result if isinstance(result, str) else "")

        hasher = self._hasher
        self.runtime.offload(lambda: hasher(effect.password, salt), deliver, self.address)

    def _build_archive(self, effect: BuildArchive) -> None:
        ticket = effect.ticket

        def deliver(result: bytes | WorkFailed) -> bus.ArchiveBuilt:
            if isinstance(result, WorkFailed):
                self._log.warning("the diagnostics archive could not be built: {}", result.reason)
                return bus.ArchiveBuilt(ticket=ticket, archive=None)
            return bus.ArchiveBuilt(ticket=ticket, archive=result)

        diagnostics = self._diagnostics
        self.runtime.offload(lambda: archive.build(effect.request, effect.status, diagnostics()), deliver, self.address)

    def _on_close(self, effect: CloseConnection) -> None:
        self._log.debug("connection {} is closed: {}", effect.connection, effect.reason)
        # A frame that was answered before the offence still goes out.
        if not effect.abort:
            self.on_batch_end()
        self._transport.close(effect.connection, abort=effect.abort)


def _without_peers(message: bus.ReplicaCommand | link.LinkEvent) -> None:
    """A node of one replica has nobody to send to; whoever broadcasts need not know."""
    assert isinstance(message, bus.Broadcast | bus.SetDialPace), f"{message!r} in a node without peers"
