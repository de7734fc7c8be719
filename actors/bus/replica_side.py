"""The replicas' side of the Bus actor: moves between the core of the links, their transport and the neighbours.

A node without other members has none: no port, no timer, and nothing on the path of a request but one test for None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from levrier.actors.bus import link_messages as link
from levrier.actors.bus import messages as bus
from levrier.actors.bus.directory import ClusterDirectory
from levrier.actors.bus.link_frames import DropReason
from levrier.actors.bus.peer_link import PeerReport
from levrier.actors.bus.peers import (
    CloseLink,
    Dial,
    FrameDropped,
    PeerEffect,
    Peers,
    RedialAfter,
    Refused,
    WriteLink,
)
from levrier.actors.bus.ports import ReplicaTransport
from levrier.actors.consensus.messages import FrameReceived, FramesReceived, PrepareReceived, RepairPrepareReceived
from levrier.actors.runtime import Recipient, Runtime
from levrier.wire.state_digest import COMMAND as STATE_DIGEST

if TYPE_CHECKING:
    from loguru import Logger  # It exists in the stub alone.

REFUSALS_LOGGED_MAX: Final = 8
"""Refusals that are worth a line in one second; whoever dials on and on does not fill the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRoutes:
    """Who is told what arrives.

    `consensus` gets prepares, repairs, and every control frame that no other recipient is named for, those of one read as one
    message, except the extension frames 64 and 65 (decision D-34): those have no recipient but a named one. `watchers` are told of links,
    `admissions` of peers whose frames are passed on from now on. With `admission` only MemberState of a peer is passed on until
    AdmitPeer says that it is a member of this very cluster.
    """

    consensus: Recipient[PrepareReceived | RepairPrepareReceived | FrameReceived | FramesReceived]
    by_command: Mapping[int, Recipient[bus.ReplicaFrame]] = field(default_factory=dict)
    watchers: Sequence[Recipient[bus.PeerEvent]] = ()
    admissions: Sequence[Recipient[bus.PeerAdmitted]] = ()
    admission: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaWiring:
    """What a Bus of a node with peers is given."""

    peers: Peers
    transport: ReplicaTransport
    routes: ReplicaRoutes
    directory: ClusterDirectory | None = None


_EXTENSIONS: Final = 64
MEMBER_STATE: Final = 65


class ReplicaSide:
    """Satisfies `ReplicaSink`. `address` is the Bus actor's own, for its timers; `log` is bound to actor and replica."""

    def __init__(
        self, wiring: ReplicaWiring, *, runtime: Runtime, address: Recipient[link.RedialDue], log: "Logger"
    ) -> None:
        self._peers = wiring.peers
        self._transport = wiring.transport
        self._routes = wiring.routes
        self._runtime = runtime
        self._address = address
        self._refusals = 0
        self._stopped = False
        self._log = log
        self._directory = wiring.directory
        self._waiting = ""
        self._leads: tuple[int, int] | None = None
        self._admitted: set[int] = set()
        self._for_consensus: list[PrepareReceived | RepairPrepareReceived | FrameReceived] = []
        if not wiring.routes.admission:
            self._admitted.update(peer.replica for peer in wiring.peers.report())
        self._executors: dict[type, Callable[[Any], None]] = {
            PrepareReceived: self._pass_prepare,
            RepairPrepareReceived: self._pass_prepare,
            bus.ReplicaFrame: self._route,
            bus.PeerUp: self._on_up,
            bus.PeerDown: self._on_down,
            Dial: self._dial,
            RedialAfter: self._redial_after,
            WriteLink: self._write,
            CloseLink: self._close,
            Refused: self._log_refusal,
            FrameDropped: self._log_drop,
        }

    def start(self) -> None:
        """Begin to accept, and to dial."""
        self._transport.start(self)
        self._execute(self._peers.on_start())

    def stop(self) -> None:
        """Close every link."""
        self._stopped = True
        self._transport.stop()

    def report(self) -> tuple[PeerReport, ...]:
        """How the ways to all peers stand."""
        return self._peers.report()

    def flush(self) -> None:
        """Write what waits, one write for each link."""
        for number, data in self._peers.take_outgoing():
            if not self._transport.write(number, data):
                self._peers.on_blocked(number)

    def tick(self) -> None:
        """A second has passed."""
        if self._refusals > REFUSALS_LOGGED_MAX:
            self._log.warning("{} more refusals on the replica port", self._refusals - REFUSALS_LOGGED_MAX)
        self._refusals = 0
        self._execute(self._peers.on_tick())

    # What a real transport calls in this actor's thread.

    def opened(self, connection: int, peer: str) -> None:
        """A link was accepted."""
        self._execute(self._peers.on_accepted(connection, peer))

    def dialled(self, link: int, replica: int, peer: str) -> None:
        """A dial succeeded."""
        self._execute(self._peers.on_dialled(link, replica, peer))

    def dial_failed(self, replica: int, reason: str) -> None:
        """A dial failed."""
        self._execute(self._peers.on_dial_failed(replica, reason))

    def received(self, connection: int, data: bytes) -> None:
        """Bytes arrived."""
        self._execute(self._peers.on_received(connection, data))

    def closed(self, connection: int) -> None:
        """A link is gone."""
        self._execute(self._peers.on_closed(connection))

    def write_resumed(self, connection: int) -> None:
        """A peer reads again."""
        self._peers.on_resumed(connection)
        self.flush()

    # Messages.

    def handlers(self) -> dict[type, Callable[[Any], None]]:
        """What of the Bus's protocol ends here."""
        return {
            bus.SendToReplica: self._on_send,
            bus.Broadcast: self._on_broadcast,
            bus.FlushLinks: lambda _: self.flush(),
            bus.DropPeer: self._on_drop_peer,
            bus.SetDialPace: self._on_set_pace,
            bus.AdmitPeer: self._on_admit_peer,
            bus.Leadership: self._on_leadership,
            bus.MembershipNote: self._on_membership_note,
            link.LinkAccepted: lambda event: self.opened(event.link, event.peer),
            link.LinkDialled: lambda event: self.dialled(event.link, event.replica, event.peer),
            link.DialFailed: lambda event: self.dial_failed(event.replica, event.reason),
            link.LinkReceived: self._on_received,
            link.LinkClosed: lambda event: self.closed(event.link),
            link.LinkResumed: lambda event: self.write_resumed(event.link),
            link.RedialDue: self._on_redial_due,
        }

    def _on_send(self, message: bus.SendToReplica) -> None:
        self._peers.send(message.replica, message.frame)
        if self._peers.urgent:
            self.flush()

    def _on_broadcast(self, message: bus.Broadcast) -> None:
        self._peers.broadcast(message.frame)
        if self._peers.urgent:
            self.flush()

    def _on_drop_peer(self, message: bus.DropPeer) -> None:
        self._execute(self._peers.drop_peer(message.replica, message.reason))

    def _on_set_pace(self, message: bus.SetDialPace) -> None:
        self._peers.set_pace(hurried=message.hurried)

    def _on_admit_peer(self, message: bus.AdmitPeer) -> None:
        if not self._peers.is_up(message.replica):
            return  # The link has ended meanwhile; the next one is judged anew.
        self._admitted.add(message.replica)
        self._peers.welcome(message.replica)
        for watcher in self._routes.admissions:
            watcher.tell(bus.PeerAdmitted(replica=message.replica, voter=message.voter))
        if self._directory is not None:
            self._directory.on_admitted(message.replica, voter=message.voter)
            self._explain()

    def _on_leadership(self, message: bus.Leadership) -> None:
        if self._directory is not None:
            self._directory.on_leadership(message)
            self._explain()

    def _on_membership_note(self, message: bus.MembershipNote) -> None:
        if self._directory is not None:
            self._directory.on_note(message.waiting)
            self._waiting = message.waiting  # The member-state actor has logged it.
            self._explain()

    def _explain(self) -> None:
        """Log what this node waits for, or who leads, when that has changed."""
        directory = self._directory
        assert directory is not None
        waiting, leads = directory.waiting, directory.leads
        if waiting != self._waiting:
            self._waiting = waiting
            self._leads = None
            if waiting:
                self._log.info("{}", waiting)
        if leads is not None and not waiting and leads != self._leads:
            self._leads = leads
            self._log.info("view {}: replica {} leads", *leads)

    def _on_received(self, message: link.LinkReceived) -> None:
        self._execute(self._peers.on_received(message.link, message.data))

    def _on_redial_due(self, message: link.RedialDue) -> None:
        self._execute(self._peers.on_redial(message.replica))

    # Effects.

    def _execute(self, effects: list[PeerEffect]) -> None:
        for effect in effects:
            self._executors[effect.__class__](effect)
        gathered = self._for_consensus
        if gathered:
            self._for_consensus = []
            self._routes.consensus.tell(gathered[0] if len(gathered) == 1 else FramesReceived(frames=tuple(gathered)))

    def _pass_prepare(self, message: PrepareReceived | RepairPrepareReceived) -> None:
        if message.sender in self._admitted:
            self._for_consensus.append(message)
        else:
            self._peers.nobody_takes(message.sender)

    def _route(self, frame: bus.ReplicaFrame) -> None:
        if frame.sender not in self._admitted and frame.command != MEMBER_STATE:
            self._peers.nobody_takes(frame.sender)
            return
        recipient = self._routes.by_command.get(frame.command)
        if recipient is not None:
            recipient.tell(frame)
        elif frame.command < _EXTENSIONS or frame.command == STATE_DIGEST:
            self._for_consensus.append(FrameReceived(header=frame.header, body=frame.body, sender=frame.sender))
        else:
            self._peers.nobody_takes(frame.sender)
            self._log.debug("nobody takes command {} of replica {}", frame.command, frame.sender)

    def _on_up(self, event: bus.PeerUp) -> None:
        self._log.info("replica {} is connected", event.replica)
        self._forget(event.replica)
        for watcher in self._routes.watchers:
            watcher.tell(event)

    def _on_down(self, event: bus.PeerDown) -> None:
        self._log.info("replica {} is disconnected: {}", event.replica, event.reason)
        self._forget(event.replica)
        for watcher in self._routes.watchers:
            watcher.tell(event)

    def _forget(self, replica: int) -> None:
        """A link begins or has ended: who is at its other end is to be seen."""
        if self._routes.admission:
            self._admitted.discard(replica)
        if self._directory is not None:
            self._directory.on_down(replica)
            self._explain()

    def _dial(self, effect: Dial) -> None:
        if not self._stopped:
            self._transport.dial(effect.where.replica, effect.where.host, effect.where.port)

    def _redial_after(self, effect: RedialAfter) -> None:
        self._runtime.after(effect.milliseconds, self._address, link.RedialDue(replica=effect.replica))

    def _write(self, effect: WriteLink) -> None:
        if not self._transport.write(effect.link, effect.data):
            self._peers.on_blocked(effect.link)

    def _close(self, effect: CloseLink) -> None:
        self._log.debug("link {} is closed: {}", effect.link, effect.reason)
        self._transport.close(effect.link, abort=effect.abort)

    def _log_refusal(self, effect: Refused) -> None:
        self._refusals += 1
        if self._refusals <= REFUSALS_LOGGED_MAX:
            self._log.warning("refused on the replica port, {}: {}", effect.address, effect.refusal.reason)

    def _log_drop(self, effect: FrameDropped) -> None:
        dropped = effect.dropped
        self._log.debug(
            "a frame of replica {} was dropped, {}: {}", effect.replica, DropReason(dropped.reason).name, dropped.detail
        )
