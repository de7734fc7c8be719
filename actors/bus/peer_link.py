"""One peer as this node sees it: how to reach it, the link to it if there is one, what waits for it, what was lost.

A link is a connection. It begins without a peer (somebody dialled us) or with one that is still to be believed (we dialled
it); until its handshake is over it holds at most one frame of 256 bytes, whatever the other side sends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from levrier.actors.bus.handshake import Acceptor, Dialer
from levrier.actors.bus.link_frames import DropReason
from levrier.actors.bus.send_queue import SendQueue
from levrier.wire.framing import HEADER_SIZE, FrameDecoder

BACK_OFF_FIRST_MILLISECONDS: Final = 50
BACK_OFF_MAX_MILLISECONDS: Final = 1_000
UNWANTED_MAX_MILLISECONDS: Final = 30_000
"""The longest pause before a peer is dialled that refused us, or was refused, or turned out to be no member of this cluster."""
_UNWANTED_DOUBLINGS_MAX: Final = 5
_JITTER: Final = 0.25

assert BACK_OFF_FIRST_MILLISECONDS <= BACK_OFF_MAX_MILLISECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerAddress:
    """Where a member listens for replicas. The host may be a name: it is resolved anew for each dial."""

    replica: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PeerState(Enum):
    """How far the way to a peer is. Whoever is dialled only waits, is up, or not."""

    AWAITED = "awaited"
    """It has the lower id: it dials us."""
    PAUSED = "paused"
    """The next dial is due later."""
    DIALLING = "dialling"
    SHAKING = "shaking hands"
    UP = "up"


class BackOff:
    """The pauses between two dials: doubled from 50 ms to 1 s, each a quarter shorter or longer by chance.

    For a peer that is not wanted they go on from there to 30 s: only an operator can change that, and nobody waits for it. It
    stays unwanted, whatever it says, until it is welcome; but one that is down meanwhile is dialled as any other.
    """

    __slots__ = ("_chance", "_next", "_unwanted", "hurried")

    def __init__(self, chance: Callable[[], float], *, hurried: bool) -> None:
        self.hurried = hurried
        self._chance = chance
        self._next = BACK_OFF_FIRST_MILLISECONDS
        self._unwanted = 0

    def reset(self) -> None:
        """The peer was reached and spoke. Of one that is not wanted that means nothing."""
        if not self._unwanted:
            self._next = BACK_OFF_FIRST_MILLISECONDS

    def exhaust(self) -> None:
        """The peer is not wanted: wait for long, and twice as long each time that it is found to be so."""
        doublings = min(self._unwanted, _UNWANTED_DOUBLINGS_MAX)
        self._next = min(BACK_OFF_MAX_MILLISECONDS << doublings, UNWANTED_MAX_MILLISECONDS)
        self._unwanted += 1

    def welcome(self) -> None:
        """The peer is a member: what it was before does not count."""
        self._unwanted = 0
        self._next = BACK_OFF_FIRST_MILLISECONDS

    def pause(self) -> int:
        """Milliseconds until the next dial."""
        pause = self._next
        self._next = BACK_OFF_FIRST_MILLISECONDS if self.hurried else min(2 * pause, BACK_OFF_MAX_MILLISECONDS)
        return max(1, round(pause * (1 - _JITTER + 2 * _JITTER * self._chance())))


class Link:
    """One connection on the replica port."""

    __slots__ = (
        "_head",
        "address",
        "blocked_since",
        "decoder",
        "handshake",
        "number",
        "opened_tick",
        "peer",
        "spoken",
    )

    def __init__(self, number: int, *, address: str, handshake: Acceptor | Dialer | None, tick: int) -> None:
        self.number = number
        self.address = address
        self.handshake = handshake
        """None once the link may carry frames."""
        self.peer: Peer | None = None
        self.decoder: FrameDecoder | None = None
        self.opened_tick = tick
        self.blocked_since: int | None = None
        self.spoken = False
        """Whether a frame of the peer was verified, or its proof."""
        self._head = b""

    def collect(self, data: bytes) -> tuple[bytes, bytes]:
        """Take bytes of a handshake. Gives the frame of 256 bytes that they complete, or nothing, and what follows it."""
        missing = HEADER_SIZE - len(self._head)
        self._head += data[:missing]
        if len(self._head) < HEADER_SIZE:
            return b"", b""
        frame, self._head = self._head, b""
        return frame, data[missing:]

    @property
    def held(self) -> int:
        """Bytes that are kept of a handshake."""
        return len(self._head)


class Peer:
    """Another member."""

    __slots__ = (
        "_dropped",
        "back_off",
        "bytes_received",
        "bytes_sent",
        "dials",
        "dirty",
        "failure",
        "frames_received",
        "frames_sent",
        "link",
        "queue",
        "state",
        "unwanted_for",
        "where",
    )

    def __init__(self, where: PeerAddress, *, dials: bool, queue: SendQueue, back_off: BackOff) -> None:
        self.where = where
        self.dials = dials
        """Whether this node is the one that dials."""
        self.queue = queue
        self.back_off = back_off
        self.state = PeerState.PAUSED if dials else PeerState.AWAITED
        self.link: Link | None = None
        """The link, once it may carry frames."""
        self.failure = ""
        """Why there is none, as far as known."""
        self.unwanted_for = ""
        """Why it was found to be no member, since it was one last."""
        self.dirty = False
        self.frames_sent = self.frames_received = 0
        self.bytes_sent = self.bytes_received = 0
        self._dropped = dict.fromkeys(DropReason, 0)

    @property
    def replica(self) -> int:
        """Its id."""
        return self.where.replica

    def dropped(self, reason: DropReason, count: int = 1) -> None:
        """Count frames that went nowhere."""
        self._dropped[reason] += count

    def report(self) -> "PeerReport":
        """How it stands."""
        link = self.link
        return PeerReport(
            replica=self.replica,
            where=str(self.where),
            state=self.state,
            address="" if link is None else link.address,
            failure=self.failure,
            queued=len(self.queue),
            frames_sent=self.frames_sent,
            frames_received=self.frames_received,
            bytes_sent=self.bytes_sent,
            bytes_received=self.bytes_received,
            dropped=tuple((reason, count) for reason, count in self._dropped.items() if count),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerReport:
    """How the way to one peer stands, for status and metrics. `address` is where its link comes from or leads to."""

    replica: int
    where: str
    state: PeerState
    address: str
    failure: str
    queued: int
    frames_sent: int
    frames_received: int
    bytes_sent: int
    bytes_received: int
    dropped: tuple[tuple[DropReason, int], ...]

    @property
    def up(self) -> bool:
        """Whether frames flow."""
        return self.state is PeerState.UP

    def drops(self, reason: DropReason) -> int:
        """How many frames went nowhere for that reason."""
        return dict(self.dropped).get(reason, 0)
