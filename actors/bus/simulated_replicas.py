"""The network between the nodes of a stepped runtime, frame by frame, as faulty as its policy says.

Connections stand and fall as TCP's do; what is carried on them is whole frames, each of which the policy may lose, repeat
or delay, so that two frames may also overtake each other. Only the frames of a handshake are spared that: they arrive at
once and in order, or not at all while the way is cut. Everything else here is exact: nothing is decided that the policy and
the order of calls do not decide.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from levrier.actors.bus import link_messages as link
from levrier.actors.bus.ports import ReplicaSink
from levrier.actors.runtime import Recipient, Runtime
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE, SIZE_OFFSET

IN_FLIGHT_MAX: Final = 64
"""Delayed frames on their way from one node to another; one more is lost, as on a link with a bounded queue (C-276)."""

_HANDSHAKE: Final = range(14, 17)


class LinkPolicy(Protocol):
    """What a simulator decides about the way from one replica to another. Directions are independent of each other."""

    def is_cut(self, source: int, target: int) -> bool:
        """Whether nothing gets through now. Asked when a frame is sent, and again when a delayed one arrives."""
        ...

    def copies(self, source: int, target: int, frame: bytes) -> Sequence[int]:
        """The delays in virtual milliseconds of each copy that arrives; none: lost. `(0,)`: at once, in order."""
        ...


class PerfectLinks:
    """A policy without faults."""

    def is_cut(self, source: int, target: int) -> bool:  # noqa: ARG002
        """Everything gets through."""
        return False

    def copies(self, source: int, target: int, frame: bytes) -> Sequence[int]:  # noqa: ARG002
        """One copy, at once."""
        return (0,)


class _End:
    """One end of a connection."""

    __slots__ = ("number", "owner", "peer")

    def __init__(self, number: int, owner: "SimulatedReplicaTransport") -> None:
        self.number = number
        self.owner = owner
        self.peer: _End | None = None


class _Arrival:
    """A delayed frame; told when it is due."""

    __slots__ = ("_network", "_source", "_target")

    def __init__(self, network: "ReplicaNetwork", *, source: "SimulatedReplicaTransport", target: _End) -> None:
        self._network = network
        self._source = source.replica
        self._target = target

    def tell(self, message: link.LinkReceived, /) -> None:
        """The frame arrives, unless the way has been cut or the link has ended since."""
        owner = self._target.owner
        self._network.landed(self._source, owner.replica)
        if self._target.peer is not None and not self._network.policy.is_cut(self._source, owner.replica):
            owner.bus.tell(message)


class ReplicaNetwork:
    """All links of a simulated cluster. `policy` may be replaced at any time."""

    def __init__(self, policy: LinkPolicy | None = None) -> None:
        self.policy: LinkPolicy = PerfectLinks() if policy is None else policy
        self.lost = 0
        """Frames that never arrived, for whatever reason."""
        self._members: dict[tuple[str, int], SimulatedReplicaTransport] = {}
        self._in_flight: dict[tuple[int, int], int] = {}
        self._numbers = 0

    def join(
        self, replica: int, *, host: str, port: int, runtime: Runtime, bus: Recipient[link.LinkEvent]
    ) -> "SimulatedReplicaTransport":
        """The transport of a node that comes up at that address. `bus` is the address of its Bus actor."""
        assert (host, port) not in self._members, f"{host}:{port} is taken"
        member = SimulatedReplicaTransport(self, replica=replica, runtime=runtime, bus=bus)
        self._members[host, port] = member
        return member

    def leave(self, replica: int) -> None:
        """The node is gone, stopped or crashed: the other ends of its links are told, and nobody answers its dials."""
        for address, member in list(self._members.items()):
            if member.replica == replica:
                del self._members[address]
                member.hang_up()

    def at(self, host: str, port: int) -> "SimulatedReplicaTransport | None":
        """Who listens there."""
        member = self._members.get((host, port))
        return member if member is not None and member.listening else None

    def number(self) -> int:
        """A new link number."""
        self._numbers += 1
        return self._numbers

    def carry(self, end: _End, frame: bytes) -> None:
        """Send one frame over a connection."""
        target, source = end.peer, end.owner
        assert target is not None
        message = link.LinkReceived(link=target.number, data=frame)
        member = target.owner
        if self.policy.is_cut(source.replica, member.replica):
            self.lost += 1
            return
        if frame[COMMAND_OFFSET] in _HANDSHAKE:
            member.bus.tell(message)
            return
        delays = self.policy.copies(source.replica, member.replica, frame)
        if not delays:
            self.lost += 1
        for delay in delays:
            if delay == 0:
                member.bus.tell(message)
            elif self._take_off(source.replica, member.replica):
                member.runtime.after(delay, _Arrival(self, source=source, target=target), message)
            else:
                self.lost += 1

    def landed(self, source: int, target: int) -> None:
        """A delayed frame is no longer on its way."""
        pair = (source, target)
        self._in_flight[pair] = max(0, self._in_flight.get(pair, 0) - 1)

    def _take_off(self, source: int, target: int) -> bool:
        count = self._in_flight.get((source, target), 0)
        if count >= IN_FLIGHT_MAX:
            return False
        self._in_flight[source, target] = count + 1
        return True

    def forget_flights(self, target: int) -> None:
        """The timers of a node that is gone never fire: nothing is on its way to it any more."""
        for pair in self._in_flight:
            if pair[1] == target:
                self._in_flight[pair] = 0


class SimulatedReplicaTransport:
    """One node's links. Satisfies `ReplicaTransport`; the Bus is told of them by messages."""

    def __init__(
        self, network: ReplicaNetwork, *, replica: int, runtime: Runtime, bus: Recipient[link.LinkEvent]
    ) -> None:
        self.replica = replica
        self.runtime = runtime
        self.bus = bus
        self.listening = False
        self.writes = 0
        self._network = network
        self._ends: dict[int, _End] = {}

    @property
    def connections(self) -> int:
        """How many links are open."""
        return len(self._ends)

    # What the Bus calls.

    def start(self, sink: ReplicaSink) -> None:  # noqa: ARG002
        """Links are told to the address, not to the sink."""
        assert not self.listening
        self.listening = True

    def dial(self, replica: int, host: str, port: int) -> None:
        """Connect at once, or fail at once."""
        network = self._network
        other = network.at(host, port)
        if other is None or network.policy.is_cut(self.replica, other.replica):
            self.bus.tell(link.DialFailed(replica=replica, reason=f"{host}:{port}: nobody answers"))
            return
        own, far = _End(network.number(), self), _End(network.number(), other)
        own.peer, far.peer = far, own
        self._ends[own.number] = own
        other.accept(far, f"{self.replica}.replica:1")
        self.bus.tell(link.LinkDialled(link=own.number, replica=replica, peer=f"{host}:{port}"))

    def write(self, link: int, data: bytes) -> bool:
        """Send whole frames, joined."""
        end = self._ends.get(link)
        if end is None:
            return True
        self.writes += 1
        offset = 0
        while offset < len(data):
            size = int.from_bytes(data[offset + SIZE_OFFSET : offset + SIZE_OFFSET + 4], "little")
            assert size >= HEADER_SIZE, "a Bus writes whole frames"
            self._network.carry(end, data[offset : offset + size])
            offset += size
        return True

    def close(self, link: int, *, abort: bool) -> None:  # noqa: ARG002
        """End the link; the other side is told at once, whatever the policy says."""
        end = self._ends.get(link)
        if end is not None:
            self._part(end)

    def stop(self) -> None:
        """The node is stopped in order."""
        self._network.leave(self.replica)

    # What the network calls.

    def accept(self, end: _End, peer: str) -> None:
        """Somebody dialled this node."""
        self._ends[end.number] = end
        self.bus.tell(link.LinkAccepted(link=end.number, peer=peer))

    def hang_up(self) -> None:
        """End every link."""
        self.listening = False
        for end in list(self._ends.values()):
            self._part(end)
        self._network.forget_flights(self.replica)

    def release(self, number: int) -> None:
        """The other side ended the link."""
        if self._ends.pop(number, None) is not None:
            self.bus.tell(link.LinkClosed(link=number))

    def _part(self, end: _End) -> None:
        del self._ends[end.number]
        far = end.peer
        assert far is not None
        end.peer = far.peer = None
        far.owner.release(far.number)
