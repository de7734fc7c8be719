"""Members of a cluster as the link tests know them, and frames that they send each other."""

from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from levrier.actors.bus.handshake import Acceptor, Dialer, LinkIdentity, LinkSecret, Step
from levrier.actors.bus.peer_link import PeerAddress, PeerReport
from levrier.actors.bus.peers import LinkLimits, PeerEffect, Peers, RedialAfter
from levrier.wire.handshake import Handshake
from levrier.wire.identity import cluster_id
from levrier.wire.prepare import METADATA_GROUP, project
from levrier.wire.replica_headers import (
    CommitHeader,
    DoViewChangeHeader,
    ExtensionHeader,
    PrepareOkHeader,
    StartViewHeader,
)

NAME = "prod"
CLUSTER = cluster_id(NAME)
GROUP = METADATA_GROUP
SECRET = LinkSecret.of(b"first")
NEXT_SECRET = LinkSecret.of(b"second")

E = TypeVar("E")


def identity(
    replica: int, *, name: str = NAME, members: int = 3, secret: LinkSecret | None = None, secure: bool = False
) -> LinkIdentity:
    """A member."""
    return LinkIdentity(
        cluster_name=name, replica=replica, replica_count=members, group=GROUP, secret=secret, secure=secure
    )


class Entropy:
    """Bytes that differ each time, and say that somebody asked for them."""

    def __init__(self, start: int = 1) -> None:
        self._count = count(start)
        self.calls = 0

    def __call__(self, size: int) -> bytes:
        """The next bytes."""
        self.calls += 1
        return next(self._count).to_bytes(size, "little")


def dialer(me: LinkIdentity, peer: int, *, start: int = 1) -> Dialer:
    """The dialing side."""
    return Dialer(me, peer=peer, entropy=Entropy(start))


def acceptor(me: LinkIdentity, *, start: int = 1_000) -> Acceptor:
    """The accepting side."""
    return Acceptor(me, entropy=Entropy(start))


def roster(members: int = 3) -> tuple[PeerAddress, ...]:
    """Where they all listen."""
    return tuple(PeerAddress(replica=replica, host=f"node{replica}", port=9000) for replica in range(members))


def prepare(
    op: int = 1, *, replica: int = 0, cluster: int = CLUSTER, group: int = GROUP, body: bytes = b"body"
) -> bytes:
    """A sealed entry."""
    return project(
        cluster=cluster,
        view=0,
        replica=replica,
        client=7,
        parent=3,
        request_checksum=0,
        op=op,
        commit=op - 1,
        timestamp=op,
        request=op,
        operation=128,
        group=group,
        user_id=0,
        body=body,
    ).frame


def prepare_ok(*, replica: int = 0, cluster: int = CLUSTER, group: int = GROUP, op: int = 1) -> bytes:
    """An acknowledgement of one entry."""
    return PrepareOkHeader(
        parent=3,
        prepare_checksum=4,
        op=op,
        commit=0,
        timestamp=1,
        request=1,
        operation=128,
        group=group,
        cluster=cluster,
        replica=replica,
    ).encode()


def heartbeat(*, replica: int = 0, commit: int = 1) -> bytes:
    """A commit broadcast."""
    return CommitHeader(
        commit=commit, timestamp_monotonic=commit, group=GROUP, cluster=CLUSTER, replica=replica
    ).encode()


def vote(body: bytes, *, replica: int = 0, op: int = 1) -> bytes:
    """A DoViewChange whose body is whatever is given; it need only be a whole number of headers."""
    return DoViewChangeHeader(
        op=op, commit=0, log_view=0, group=GROUP, cluster=CLUSTER, view=1, replica=replica
    ).encode(body)


def start_view(body: bytes = b"", *, replica: int = 0) -> bytes:
    """A StartView."""
    return StartViewHeader(op=1, commit=0, group=GROUP, cluster=CLUSTER, view=1, replica=replica).encode(body)


def extension(command: int = 64, body: bytes = b"\x80", *, replica: int = 0) -> bytes:
    """A frame of our own."""
    return ExtensionHeader(command=command, group=GROUP, cluster=CLUSTER, replica=replica).encode(body)


def flip(frame: bytes, offset: int) -> bytes:
    """The frame with one bit of one byte changed."""
    return frame[:offset] + bytes((frame[offset] ^ 1,)) + frame[offset + 1 :]


def status_of(step: Step) -> int:
    """The status in the frame that a refusal sends."""
    return Handshake.decode(step.reply).status


@dataclass
class PeersRig:
    """The core of one member's links, with the effects of each call."""

    replica: int = 1
    members: int = 3
    secret: LinkSecret | None = None
    limits: LinkLimits | None = None
    hurried: bool = False
    chance: float = 0.5
    """0.5 means no jitter."""
    effects: list[PeerEffect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.entropy = Entropy(5_000 + self.replica)
        self.me = identity(self.replica, members=self.members, secret=self.secret)
        self.peers = Peers(
            identity=self.me,
            roster=roster(self.members),
            entropy=self.entropy,
            chance=lambda: self.chance,
            limits=self.limits,
            hurried=self.hurried,
        )
        self.numbers = count(1)

    def keep(self, effects: list[PeerEffect]) -> None:
        """Remember what was wanted."""
        self.effects.extend(effects)

    def take(self, kind: type[E]) -> list[E]:
        """What was wanted of that kind since the last look; the rest is forgotten."""
        found: list[E] = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects.clear()
        return found

    def accept(self) -> int:
        """Somebody dials in."""
        number = next(self.numbers)
        self.keep(self.peers.on_accepted(number, f"192.0.2.1:{number}"))
        return number

    def receive(self, link: int, data: bytes) -> None:
        """Bytes arrive."""
        self.keep(self.peers.on_received(link, data))

    def accept_peer(self, peer: int) -> int:
        """A link of a lower member, past its handshake. Without a secret."""
        link = self.accept()
        self.receive(link, dialer(identity(peer, members=self.members), self.replica).hello())
        return link

    def dial(self, peer: int) -> int:
        """A link that this member dialled."""
        self.keep(self.peers.on_redial(peer))
        number = next(self.numbers)
        self.keep(self.peers.on_dialled(number, peer, f"192.0.2.{peer}:9000"))
        return number

    def peer(self, replica: int) -> PeerReport:
        """How the way to that peer stands."""
        return next(report for report in self.peers.report() if report.replica == replica)


def pauses(rig: PeersRig, peer: int, dials: int) -> list[int]:
    """The pauses after that many failed dials."""
    found = []
    for _ in range(dials):
        rig.keep(rig.peers.on_redial(peer))
        rig.effects.clear()
        rig.keep(rig.peers.on_dial_failed(peer, "refused"))
        found += [effect.milliseconds for effect in rig.take(RedialAfter)]
    return found
