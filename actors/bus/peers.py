"""The core of the replica link: every peer, every connection on the replica port. Pure, as the core of the Bus is.

What holds: a connection whose handshake is not over is told nothing beyond the handshake, has at
most 256 bytes held, and is closed after a few seconds or when too many others wait beside it; nothing else of this node
changes because of it. A peer has at most one link, the newest that proved itself. Frames to a peer without a link are
dropped and counted: replicas repeat what matters, and what is old when a link comes up matters least.

Without a shared secret a dialler's link may carry frames as soon as it stands. Its pauses go back to the shortest only when
the peer has said something that could be verified, or has kept the link for a while: one that closes each link at once is
not hammered. A peer that refuses us, or whom we refuse, is dialled ever less often until it is admitted; one that cannot be
reached is not: it may be back at any moment.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from levrier.actors.bus import messages as bus
from levrier.actors.bus.handshake import CHALLENGE, Acceptor, Dialer, LinkIdentity, Refusal, Step
from levrier.actors.bus.link_frames import Dropped, DropReason, FrameReader, Inbound
from levrier.actors.bus.peer_link import BackOff, Link, Peer, PeerAddress, PeerReport, PeerState
from levrier.actors.bus.send_queue import FRAMES_MAX, SIZE_MAX, SendQueue
from levrier.wire.errors import FrameSizeOutOfRange
from levrier.wire.framing import COMMAND_OFFSET, FRAME_SIZE_MAX, HEADER_SIZE, FrameDecoder


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Every bound of the replica port. Sizes in bytes, times in ticks of one second."""

    anonymous_max: int = 64
    """Connections whose handshake is not over; one more closes the oldest of them."""

    handshake_ticks: int = 3
    write_stall_ticks: int = 10
    """How long a peer may leave unread what was written to it."""

    frame_size_max: int = FRAME_SIZE_MAX
    queue_frames_max: int = FRAMES_MAX
    queue_size_max: int = SIZE_MAX

    def __post_init__(self) -> None:
        assert self.anonymous_max >= 1
        assert self.handshake_ticks >= 1
        assert self.write_stall_ticks >= 1
        assert self.frame_size_max >= HEADER_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """Connect to the peer; answered by `on_dialled` or `on_dial_failed`."""

    where: PeerAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class RedialAfter:
    """Call `on_redial` after the pause."""

    replica: int
    milliseconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLink:
    """Write bytes of a handshake, now."""

    link: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseLink:
    """Close the connection; `abort` drops what was not written yet."""

    link: int
    reason: str
    abort: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Somebody was refused, or refuses us: to be logged, for it takes an operator to end it."""

    address: str
    refusal: Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameDropped:
    """A frame of that peer went nowhere: to be logged for debugging."""

    replica: int
    dropped: Dropped


PeerEffect: TypeAlias = Inbound | bus.PeerEvent | Dial | RedialAfter | WriteLink | CloseLink | Refused | FrameDropped
"""What the core may want done; a message for another actor is its own effect."""

_WRITE_SIZE_MAX: Final = 1024 * 1024
"""Bytes that are joined into one write, but for the frame that goes beyond them."""

_DIAL_FIRST: Final = 1
"""Milliseconds before the first dial of a peer."""


class Peers:
    """All peers of one node. `chance` gives numbers in [0, 1) for jitter, `entropy` bytes that nobody can guess."""

    def __init__(
        self,
        *,
        identity: LinkIdentity,
        roster: Sequence[PeerAddress],
        entropy: Callable[[int], bytes],
        chance: Callable[[], float],
        limits: LinkLimits | None = None,
        hurried: bool = False,
    ) -> None:
        """`roster` lists every member, this one included or not; it is never its own peer (BR-53)."""
        self._identity = identity
        self._entropy = entropy
        self._limits = LinkLimits() if limits is None else limits
        self._reader = FrameReader(identity)
        others = sorted((where for where in roster if where.replica != identity.replica), key=lambda at: at.replica)
        expected = [replica for replica in range(identity.replica_count) if replica != identity.replica]
        assert [where.replica for where in others] == expected, "a roster names each member once"
        self._peers = {
            where.replica: Peer(
                where,
                dials=identity.replica < where.replica,
                queue=SendQueue(frames_max=self._limits.queue_frames_max, size_max=self._limits.queue_size_max),
                back_off=BackOff(chance, hurried=hurried),
            )
            for where in others
        }
        self._all = tuple(self._peers.values())
        self._links: dict[int, Link] = {}
        self._anonymous: dict[int, Link] = {}
        self._shaking: dict[int, Link] = {}
        self._dirty: list[Peer] = []
        self.urgent = False
        """Whether enough waits for a peer that reads: write now, before the batch ends and the queue runs over."""
        self._tick = 0
        self._assert_invariants()

    # What others ask.

    @property
    def replica(self) -> int:
        """The id of this node."""
        return self._identity.replica

    def report(self) -> tuple[PeerReport, ...]:
        """How every peer stands, by id."""
        return tuple(peer.report() for peer in self._all)

    @property
    def links(self) -> int:
        """How many connections are open."""
        return len(self._links)

    @property
    def anonymous(self) -> int:
        """How many of them were accepted and have not shown who they are."""
        return len(self._anonymous)

    @property
    def held_size(self) -> int:
        """Bytes held of frames that are not whole yet, over all connections."""
        return sum(link.held + (link.decoder.buffered if link.decoder else 0) for link in self._links.values())

    def is_up(self, replica: int) -> bool:
        """Whether there is a link to the peer that carries frames."""
        return self._peers[replica].link is not None

    # Sending.

    def send(self, replica: int, frame: bytes) -> None:
        """Queue a frame. It leaves with `take_outgoing`."""
        assert replica in self._peers, f"replica {replica} is no peer of replica {self._identity.replica}"
        self._push(self._peers[replica], frame)

    def broadcast(self, frame: bytes) -> None:
        """Queue a frame for every peer."""
        for peer in self._all:
            self._push(peer, frame)

    def take_outgoing(self) -> list[tuple[int, bytes]]:
        """What is to be written now, joined per link."""
        self.urgent = False
        if not self._dirty:
            return []
        dirty, self._dirty = self._dirty, []
        outgoing = []
        for peer in dirty:
            peer.dirty = False
            link = peer.link
            if link is not None and link.blocked_since is None and len(peer.queue):
                peer.frames_sent += len(peer.queue)
                peer.bytes_sent += peer.queue.size
                outgoing.append((link.number, peer.queue.take()))
            self._assert_peer(peer)
        return outgoing

    def on_blocked(self, number: int) -> None:
        """More than should waits for the peer in the transport; `on_resumed` follows. Frames are queued until then."""
        link = self._links.get(number)
        if link is not None and link.blocked_since is None:
            link.blocked_since = self._tick
            if link.peer is not None:
                self._assert_peer(link.peer)

    def on_resumed(self, number: int) -> None:
        """The peer reads again."""
        link = self._links.get(number)
        if link is None or link.blocked_since is None:
            return
        link.blocked_since = None
        if link.peer is not None:
            self._mark(link.peer)
            self._assert_peer(link.peer)

    # Connections.

    def on_start(self) -> list[PeerEffect]:
        """Dial whoever has a higher id."""
        return [RedialAfter(replica=peer.replica, milliseconds=_DIAL_FIRST) for peer in self._all if peer.dials]

    def on_redial(self, replica: int) -> list[PeerEffect]:
        """The pause before the next dial is over."""
        peer = self._peers[replica]
        assert peer.dials
        assert peer.state is PeerState.PAUSED
        peer.state = PeerState.DIALLING
        self._assert_invariants()
        return [Dial(where=peer.where)]

    def on_dial_failed(self, replica: int, reason: str) -> list[PeerEffect]:
        """Nobody answers there."""
        peer = self._peers[replica]
        assert peer.state is PeerState.DIALLING
        peer.failure = reason
        effects: list[PeerEffect] = [self._pause(peer)]
        self._assert_invariants()
        return effects

    def on_dialled(self, number: int, replica: int, address: str) -> list[PeerEffect]:
        """The peer's address answers: introduce ourselves."""
        peer = self._peers[replica]
        assert peer.state is PeerState.DIALLING
        dialer = Dialer(self._identity, peer=replica, entropy=self._entropy)
        link = self._open(number, address, dialer)
        link.peer = peer
        peer.state = PeerState.SHAKING
        effects: list[PeerEffect] = [WriteLink(link=number, data=dialer.hello())]
        if dialer.authenticates:
            self._shaking[number] = link
        else:
            self._establish(link, peer, effects)
        self._assert_invariants()
        return effects

    def on_accepted(self, number: int, address: str) -> list[PeerEffect]:
        """Somebody dialled us."""
        effects: list[PeerEffect] = []
        if len(self._anonymous) >= self._limits.anonymous_max:
            oldest = next(iter(self._anonymous.values()))
            self._close(oldest, f"more than {self._limits.anonymous_max} handshakes at once", effects)
        link = self._open(number, address, Acceptor(self._identity, entropy=self._entropy))
        self._anonymous[number] = link
        self._assert_invariants()
        return effects

    def on_closed(self, number: int) -> list[PeerEffect]:
        """The connection is gone, whoever closed it."""
        link = self._links.get(number)
        effects: list[PeerEffect] = []
        if link is None:
            return effects
        if isinstance(link.handshake, Acceptor):
            refusal = link.handshake.on_end()
            if refusal is not None:
                effects.append(Refused(address=link.address, refusal=refusal))
        self._forget(link, self._guess(link), effects)
        self._assert_invariants()
        return effects

    def on_received(self, number: int, data: bytes) -> list[PeerEffect]:
        """Bytes arrived. Bytes of a connection that was closed here are dropped."""
        link = self._links.get(number)
        if link is None:
            return []
        effects: list[PeerEffect] = []
        if link.handshake is not None:
            data = self._shake(link, data, effects)
            if effects:  # A step of the handshake, of which a link has few.
                self._assert_invariants()
            if not data:
                return effects
        peer, decoder = link.peer, link.decoder
        assert peer is not None
        assert decoder is not None
        peer.bytes_received += len(data)
        broken: str | None = None
        frames: Sequence[bytes]
        try:
            frames = decoder.feed(data)
        except FrameSizeOutOfRange as error:
            frames, broken = error.frames, str(error)
        for frame in frames:
            if not self._take(link, peer, frame, effects):
                broken = None
                break
        if broken is not None:
            self._close(link, broken, effects)
        self._assert_peer(peer)
        return effects

    def on_tick(self) -> list[PeerEffect]:
        """A second has passed."""
        self._tick += 1
        effects: list[PeerEffect] = []
        slow = [
            link
            for link in (*self._anonymous.values(), *self._shaking.values())
            if self._tick - link.opened_tick > self._limits.handshake_ticks
        ]
        for link in slow:
            self._close(link, f"no handshake in {self._limits.handshake_ticks} s", effects)
        for peer in self._all:
            stalled = peer.link
            if stalled is None or stalled.blocked_since is None:
                continue
            if self._tick - stalled.blocked_since > self._limits.write_stall_ticks:
                self._close(stalled, f"nothing was read for {self._limits.write_stall_ticks} s", effects)
        self._assert_invariants()
        return effects

    # What actors tell.

    def drop_peer(self, replica: int, reason: str) -> list[PeerEffect]:
        """End the link: the peer is no member of this cluster. It is told once for each reason, until it was a member."""
        peer = self._peers[replica]
        link = peer.link
        effects: list[PeerEffect] = []
        if peer.unwanted_for != reason:
            peer.unwanted_for = reason
            address = str(peer.where) if link is None else link.address
            effects.append(Refused(address=address, refusal=Refusal(reason=reason)))
        if link is None:  # The peer has ended it first, for the same reason.
            peer.failure = reason
            peer.back_off.exhaust()
            return effects
        effects.append(CloseLink(link=link.number, reason=reason, abort=True))
        self._forget(link, reason, effects, wanted=False)
        self._assert_invariants()
        return effects

    def welcome(self, replica: int) -> None:
        """The peer turned out to be a member of this cluster."""
        peer = self._peers[replica]
        peer.unwanted_for = ""
        peer.back_off.welcome()
        self._assert_peer(peer)

    def set_pace(self, *, hurried: bool) -> None:
        """Dial without doubling the pauses, or with it."""
        for peer in self._all:
            peer.back_off.hurried = hurried
            if hurried:
                peer.back_off.reset()
        self._assert_invariants()

    def nobody_takes(self, replica: int) -> None:
        """A verified frame of the peer has no recipient in this node."""
        self._peers[replica].dropped(DropReason.NO_RECIPIENT)

    # Within.

    def _open(self, number: int, address: str, handshake: Acceptor | Dialer) -> Link:
        assert number not in self._links, "link numbers are never reused"
        link = self._links[number] = Link(number, address=address, handshake=handshake, tick=self._tick)
        return link

    def _shake(self, link: Link, data: bytes, effects: list[PeerEffect]) -> bytes:
        """Go on with a handshake. Gives the bytes behind it once it is over."""
        frame, rest = link.collect(data)
        if not frame:
            return b""
        handshake = link.handshake
        assert handshake is not None
        step = handshake.on_frame(frame)
        if step.reply:
            effects.append(WriteLink(link=link.number, data=step.reply))
        if step.refused is not None:
            self._refuse(link, step, step.refused, effects)
            return b""
        if step.peer is None:
            if rest:
                self._close(link, "bytes before the proof", effects)
            return b""
        link.spoken = isinstance(handshake, Dialer)
        self._establish(link, self._peers[step.peer], effects)
        return rest

    def _refuse(self, link: Link, step: Step, refusal: Refusal, effects: list[PeerEffect]) -> None:
        effects.append(Refused(address=link.address, refusal=refusal))
        self._close(link, refusal.reason, effects, abort=not step.reply, wanted=False)

    def _establish(self, link: Link, peer: Peer, effects: list[PeerEffect]) -> None:
        """The link may carry frames. One that the peer had before ends: the peer dials anew only if it lost that one."""
        self._shaken(link)
        before = peer.link
        if before is not None:
            assert not peer.dials, "one dial at a time"
            self._close(before, "replaced by a newer link", effects)
        link.handshake = None
        link.peer = peer
        link.decoder = FrameDecoder(self._limits.frame_size_max)
        peer.link = link
        peer.state = PeerState.UP
        peer.failure = ""
        if link.spoken:
            peer.back_off.reset()
        assert not len(peer.queue)
        effects.append(bus.PeerUp(replica=peer.replica))

    def _take(self, link: Link, peer: Peer, frame: bytes, effects: list[PeerEffect]) -> bool:
        """Judge one frame of an established link. False when the link was closed because of it."""
        peer.frames_received += 1
        read = self._reader.read(frame, sender=peer.replica)
        if not isinstance(read, Dropped):
            if not link.spoken:
                link.spoken = True
                peer.back_off.reset()
            effects.append(read)
            return True
        peer.dropped(read.reason)
        effects.append(FrameDropped(replica=peer.replica, dropped=read))
        if link.spoken or not peer.dials:
            return True
        return self._bear_with(link, peer, frame, read, effects)

    def _bear_with(self, link: Link, peer: Peer, frame: bytes, read: Dropped, effects: list[PeerEffect]) -> bool:
        """A peer that we dialled begins with a frame that cannot be its own: it refuses us, or it is somebody else."""
        if frame[COMMAND_OFFSET] == CHALLENGE:
            refused = Dialer(self._identity, peer=peer.replica, entropy=self._entropy).on_frame(frame).refused
            if refused is not None:
                effects.append(Refused(address=link.address, refusal=refused))
                self._close(link, refused.reason, effects, wanted=False)
                return False
        if read.reason is DropReason.SENDER or read.reason is DropReason.CLUSTER:
            effects.append(Refused(address=link.address, refusal=Refusal(reason=read.detail)))
            self._close(link, read.detail, effects, wanted=False)
            return False
        return True

    def _close(
        self, link: Link, reason: str, effects: list[PeerEffect], *, abort: bool = True, wanted: bool = True
    ) -> None:
        if link.number in self._links:
            effects.append(CloseLink(link=link.number, reason=reason, abort=abort))
            self._forget(link, reason, effects, wanted=wanted)

    def _forget(self, link: Link, reason: str, effects: list[PeerEffect], *, wanted: bool = True) -> None:
        """Drop the connection and, where it was the one of a peer, what waits for it; dial again where that is ours."""
        del self._links[link.number]
        self._shaken(link)
        peer = link.peer
        if peer is None:
            return
        peer.failure = reason
        if not wanted:
            peer.back_off.exhaust()
        if peer.link is link:
            peer.link = None
            if self._is_old(link):
                peer.back_off.reset()
            peer.dropped(DropReason.NOT_CONNECTED, peer.queue.clear())
            effects.append(bus.PeerDown(replica=peer.replica, reason=reason))
        if peer.dials:
            effects.append(self._pause(peer))
        else:
            peer.state = PeerState.AWAITED

    def _shaken(self, link: Link) -> None:
        self._anonymous.pop(link.number, None)
        self._shaking.pop(link.number, None)

    def _pause(self, peer: Peer) -> RedialAfter:
        peer.state = PeerState.PAUSED
        return RedialAfter(replica=peer.replica, milliseconds=peer.back_off.pause())

    def _is_old(self, link: Link) -> bool:
        """Whether it stood for so long that the peer must have meant it."""
        return self._tick - link.opened_tick > self._limits.handshake_ticks

    def _guess(self, link: Link) -> str:
        """Why the other side may have closed the connection."""
        if link.peer is not None and link.peer.dials and not link.spoken and not self._is_old(link):
            return "it closed the connection before it said anything; do cluster name and shared secret agree?"
        return "the connection was lost"

    def _push(self, peer: Peer, frame: bytes) -> None:
        link = peer.link
        if link is None:
            peer.dropped(DropReason.NOT_CONNECTED)
            return
        queue = peer.queue
        dropped = queue.push(frame)
        if dropped:
            peer.dropped(DropReason.QUEUE_FULL, dropped)
        if link.blocked_since is None and (
            2 * len(queue) >= self._limits.queue_frames_max or queue.size >= _WRITE_SIZE_MAX
        ):
            self.urgent = True
        self._mark(peer)

    def _mark(self, peer: Peer) -> None:
        if not peer.dirty:
            peer.dirty = True
            self._dirty.append(peer)

    def _assert_invariants(self) -> None:
        """Looks at every peer: for whatever is not done once a frame."""
        assert self._anonymous.keys() <= self._links.keys()
        assert self._shaking.keys() <= self._links.keys()
        assert len(self._anonymous) <= self._limits.anonymous_max
        established = [peer for peer in self._all if peer.link is not None]
        assert len(self._links) == len(self._anonymous) + len(self._shaking) + len(established)
        assert len(self._shaking) == sum(peer.state is PeerState.SHAKING for peer in self._all)
        assert all(peer.dirty for peer in self._dirty)
        assert len(self._dirty) == sum(peer.dirty for peer in self._all)
        for peer in self._all:
            self._assert_peer(peer)

    def _assert_peer(self, peer: Peer) -> None:
        """What is done once a read or a write of a link has this alone at its end."""
        link = peer.link
        if link is None:
            assert peer.state is not PeerState.UP
            assert not len(peer.queue)
            return
        assert peer.state is PeerState.UP
        assert link.peer is peer
        assert link.handshake is None
        assert self._links.get(link.number) is link
        if len(peer.queue):
            assert peer.dirty or link.blocked_since is not None, "what waits for a peer that reads is written"
