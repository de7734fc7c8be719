"""The core of the Bus: connections, tickets, limits and back-pressure. Pure: told what happened, returns what to do.

It owns the open connections, each with a frame decoder and a gateway, and the sessions that are still to be logged out.
Frames to write are collected per connection and handed out joined, so that one batch of answers costs one write.

Bounds (design 4, "Back-pressure"): a connection is read only while it has less than its share in flight and its peer reads
what it is owed; half frames are held up to a size that depends on whether the connection has logged in, up to a total over
all connections, and not for ever. Whoever breaks the framing or a bound is closed, and nobody else notices.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import (
    CloseConnection,
    Effect,
    GatewayEffect,
    PauseReading,
    ResumeReading,
    WriteFrame,
)
from levrier.actors.bus.gateway import Gateway
from levrier.actors.bus.logouts import NODE_CONNECTION, Logouts
from levrier.actors.bus.registry import ClientRegistry, CommitPoint
from levrier.actors.bus.settings import GatewaySettings
from levrier.wire.errors import FrameSizeOutOfRange
from levrier.wire.framing import FRAME_SIZE_MAX, HEADER_SIZE, FrameDecoder

_ANONYMOUS_FRAME_SIZE_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BusLimits:
    """Every bound of the Bus. Sizes in bytes, times in ticks of one second."""

    connections_max: int = 4_096
    frame_size_max: int = FRAME_SIZE_MAX
    anonymous_frame_size_max: int = _ANONYMOUS_FRAME_SIZE_MAX
    """The largest frame of a connection that has not logged in: no login is larger."""

    backlog_max: int = 16
    """Requests that may wait behind the one being handled before the connection is not read any more."""

    backlog_size_max: int = 1024 * 1024
    held_size_max: int = 256 * 1024 * 1024
    """Half frames and waiting requests of all connections together; who takes it beyond that is closed."""

    unread_size_max: int = 256 * 1024 * 1024
    """Answers that peers leave unread, of all connections together; beyond that who has not read for longest is closed."""

    half_frame_ticks: int = 30
    """How long a half frame is held without another byte of it."""

    write_stall_ticks: int = 60
    """How long a peer may leave unread what it is owed."""

    def __post_init__(self) -> None:
        assert self.connections_max >= 1
        assert self.backlog_max >= 1
        assert self.anonymous_frame_size_max >= HEADER_SIZE
        assert HEADER_SIZE <= self.frame_size_max <= self.held_size_max
        assert self.half_frame_ticks >= 1
        assert self.write_stall_ticks >= 1


class _Connection:
    """One open connection."""

    __slots__ = (
        "blocked_since",
        "decoder",
        "dirty",
        "gateway",
        "half_since",
        "held",
        "last_seen",
        "number",
        "outgoing",
        "paused",
        "unread",
    )

    def __init__(self, number: int, decoder: FrameDecoder, gateway: Gateway, tick: int) -> None:
        self.number = number
        self.decoder = decoder
        self.gateway = gateway
        self.outgoing: list[bytes] = []
        self.dirty = False
        self.paused = False
        self.held = 0
        self.half_since = 0
        self.blocked_since: int | None = None
        self.last_seen = tick
        self.unread = 0


class Bus:
    """All connections of one node."""

    def __init__(self, *, settings: GatewaySettings, limits: BusLimits) -> None:
        self._settings = settings
        self._limits = limits
        self._connections: dict[int, _Connection] = {}
        self._dirty: list[_Connection] = []
        self._registry = ClientRegistry()
        self._commit = CommitPoint()
        self._logouts = Logouts()
        self._highest = NODE_CONNECTION
        self._tick = 0
        self._held = 0
        self._blocked: dict[int, _Connection] = {}
        self._unread = 0

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def sessions(self) -> int:
        """How many of them are logged in."""
        return self._registry.sessions

    @property
    def unsettled_logouts(self) -> int:
        """Lost sessions that are not logged out yet."""
        return self._logouts.pending

    @property
    def held_size(self) -> int:
        """Bytes of half frames and of waiting requests, over all connections."""
        return self._held

    @property
    def unread_size(self) -> int:
        """Bytes of answers that peers which do not read are owed, at most: nobody tells how much of them has left."""
        return self._unread

    def on_opened(self, connection: int, peer: str) -> list[Effect]:
        """The transport accepted a connection, under a number that was never used before."""
        assert connection > self._highest, "connection numbers rise"
        self._highest = connection
        if len(self._connections) >= self._limits.connections_max:
            reason = f"{self._limits.connections_max} connections are open"
            return [CloseConnection(connection=connection, reason=reason, abort=True)]
        self._registry.opened(connection, peer)
        gateway = Gateway(connection=connection, settings=self._settings, registry=self._registry, commit=self._commit)
        decoder = FrameDecoder(self._limits.frame_size_max)
        self._connections[connection] = _Connection(connection, decoder, gateway, self._tick)
        return []

    def on_received(self, connection: int, data: bytes) -> list[Effect]:
        """Bytes arrived. Bytes of a connection that was closed here are dropped."""
        open_connection = self._connections.get(connection)
        if open_connection is None:
            return []
        broken: str | None = None
        frames: Iterable[bytes]
        try:
            frames = open_connection.decoder.feed(data)
        except FrameSizeOutOfRange as error:
            frames, broken = error.frames, str(error)
        effects: list[Effect] = []
        gateway = open_connection.gateway
        for frame in frames:
            open_connection.last_seen = self._tick
            self._take(open_connection, gateway.on_frame(frame), effects)
        if broken is not None:
            self._close(open_connection, broken, effects)
        elif gateway.backlog or open_connection.held or open_connection.decoder.buffered:
            # Nearly always nothing is held, neither before nor now.
            self._account(open_connection, effects)
        return effects

    def on_answer(self, answer: bus.Answer) -> list[Effect]:
        """An actor answered. What no open connection waits for is settled or dropped."""
        number = answer.ticket.connection
        connection = self._connections.get(number)
        effects: list[Effect] = []
        if connection is not None:
            self._take(connection, connection.gateway.on_answer(answer), effects)
            if connection.held or connection.paused:
                self._account(connection, effects)
        elif isinstance(answer, bus.Reply | bus.Deny | bus.Evict):
            if number == NODE_CONNECTION:
                effects.extend(self._logouts.answered(answer))
            else:
                effects.extend(self._logouts.login_answered(answer))
        return effects

    def on_closed(self, connection: int) -> list[Effect]:
        """The connection is gone, whoever closed it."""
        gone = self._connections.get(connection)
        effects: list[Effect] = []
        if gone is not None:
            self._forget(gone, effects)
        return effects

    def on_write_resumed(self, connection: int) -> list[Effect]:
        """The peer reads again, and what was written before has left."""
        resumed = self._connections.get(connection)
        effects: list[Effect] = []
        if resumed is not None and resumed.blocked_since is not None:
            self._unblock(resumed)
            self._take(resumed, resumed.gateway.on_flushed(), effects)
            self._account(resumed, effects)
        return effects

    def on_history(self, report: bus.HistoryChanged) -> None:
        """The Acknowledgements actor says what may be reclaimed now."""
        self._settings.history.put(report)

    def on_tick(self) -> list[Effect]:
        """A second has passed."""
        self._tick += 1
        effects: list[Effect] = list(self._logouts.tick())
        overdue = [
            (connection, reason) for connection in self._connections.values() if (reason := self._overdue(connection))
        ]
        for connection, reason in overdue:
            self._close(connection, reason, effects, abort=True)
        return effects

    def silent(self, seconds: float) -> tuple[bus.SilentSession, ...]:
        """The sessions that were not heard of for more than `seconds`, in the order of their connections."""
        return tuple(
            [
                bus.SilentSession(connection=connection.number, client=session.client, epoch=session.epoch)
                for connection in self._connections.values()
                if self._tick - connection.last_seen > seconds and (session := connection.gateway.session) is not None
            ]
        )

    def end_silent(
        self, sessions: tuple[bus.SilentSession, ...], seconds: float
    ) -> tuple[tuple[bus.SilentSession, ...], list[Effect]]:
        """Log out those of these sessions that are still silent. Which they are, and what is to be done."""
        still = set(self.silent(seconds))
        ended = tuple([session for session in sessions if session in still])
        effects: list[Effect] = []
        for session in ended:
            connection = self._connections[session.connection]
            self._take(connection, connection.gateway.on_silent(), effects)
            self._account(connection, effects)
            effects.extend(self._logouts.lost(client=session.client, epoch=session.epoch))
        return ended, effects

    def take_outgoing(self) -> list[tuple[int, bytes]]:
        """What is to be written now, joined per connection, in the order in which the first frame of each was made."""
        if not self._dirty:
            return []
        dirty, self._dirty = self._dirty, []
        outgoing = []
        for connection in dirty:
            connection.dirty = False
            parts = connection.outgoing
            if parts:
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                outgoing.append((connection.number, data))
                connection.outgoing = []
                connection.unread += len(data)
                if connection.blocked_since is not None:
                    self._unread += len(data)
        return outgoing

    def on_written(self, connection: int, *, blocked: bool) -> list[Effect]:
        """The transport took what `take_outgoing` gave for the connection. `blocked`: more of it waits for the peer than
        should, and `on_write_resumed` will follow."""
        written = self._connections.get(connection)
        if written is None:
            return []
        effects: list[Effect] = []
        if blocked:
            self._block(written, effects)
        elif written.blocked_since is None:
            written.unread = 0
            follow_up = written.gateway.on_flushed()
            if follow_up:
                self._take(written, follow_up, effects)
                self._account(written, effects)
        return effects

    def _take(self, connection: _Connection, wanted: list[GatewayEffect], effects: list[Effect]) -> None:
        """Keep what is to be written, pass everything else on."""
        for effect in wanted:
            if isinstance(effect, WriteFrame):
                connection.outgoing.append(effect.frame)
                if not connection.dirty:
                    connection.dirty = True
                    self._dirty.append(connection)
            elif isinstance(effect, CloseConnection):
                self._close(connection, effect.reason, effects)
            else:
                effects.append(effect)

    def _block(self, connection: _Connection, effects: list[Effect]) -> None:
        """A peer does not read what it is owed. Make room where all of them together are owed too much."""
        if connection.blocked_since is None:
            connection.blocked_since = self._tick
            self._blocked[connection.number] = connection
            self._unread += connection.unread
        self._account(connection, effects)
        while self._unread > self._limits.unread_size_max:
            longest = next(iter(self._blocked.values()))
            self._close(longest, "too much is left unread by the clients of this node", effects, abort=True)

    def _unblock(self, connection: _Connection) -> None:
        if connection.blocked_since is not None:
            connection.blocked_since = None
            del self._blocked[connection.number]
            self._unread -= connection.unread
            connection.unread = 0
            assert self._unread >= 0

    def _account(self, connection: _Connection, effects: list[Effect]) -> None:
        """Count what the connection holds, close it where that is too much, and stop or go on reading."""
        if connection.number not in self._connections:
            return
        limits = self._limits
        gateway = connection.gateway
        half = connection.decoder.buffered
        held = half + gateway.backlog_size
        self._held += held - connection.held
        connection.held = held
        assert self._held >= 0
        if half:
            connection.half_since = self._tick
        if half > limits.anonymous_frame_size_max and gateway.session is None:
            self._close(connection, "a large frame before login", effects, abort=True)
            return
        if self._held > limits.held_size_max:
            self._close(connection, "too much is held for the clients of this node", effects, abort=True)
            return
        pause = (
            gateway.backlog >= limits.backlog_max
            or gateway.backlog_size >= limits.backlog_size_max
            or connection.blocked_since is not None
        )
        if pause != connection.paused:
            connection.paused = pause
            effects.append(
                PauseReading(connection=connection.number) if pause else ResumeReading(connection=connection.number)
            )

    def _overdue(self, connection: _Connection) -> str | None:
        """Why the connection has waited for its peer long enough."""
        blocked_since = connection.blocked_since
        if blocked_since is not None and self._tick - blocked_since > self._limits.write_stall_ticks:
            return f"nothing was read for {self._limits.write_stall_ticks} s"
        stalled = connection.decoder.buffered and not connection.paused
        if stalled and self._tick - connection.half_since > self._limits.half_frame_ticks:
            return f"half a frame for {self._limits.half_frame_ticks} s"
        return None

    def _close(self, connection: _Connection, reason: str, effects: list[Effect], *, abort: bool = False) -> None:
        if connection.number in self._connections:
            self._forget(connection, effects)
            effects.append(CloseConnection(connection=connection.number, reason=reason, abort=abort))

    def _forget(self, connection: _Connection, effects: list[Effect]) -> None:
        """Drop the connection; its session is to be logged out. Answers already made are still handed out."""
        del self._connections[connection.number]
        self._held -= connection.held
        connection.held = 0
        self._unblock(connection)
        self._registry.closed(connection.number)
        ending = connection.gateway.on_closed()
        if ending.session is not None:
            effects.extend(self._logouts.lost(client=ending.session.client, epoch=ending.session.epoch))
        if ending.register is not None:
            self._logouts.login_lost(ticket=ending.register, client=ending.register_client)
