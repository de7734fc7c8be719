"""Who watches: after each step it sees what was handled, follows every replica, and writes the readable trace.

What the replicas apply is told to the commit observer; a change of a replica's view, status or checkpoint becomes a line of the
trace and a number in the summary.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Final, Protocol

from levrier.actors.client_table import messages as client_table
from levrier.actors.client_table.table import ClientTable
from levrier.actors.consensus import messages as consensus
from levrier.actors.consensus.actor import ConsensusActor
from levrier.actors.consensus.state import ReplicaState, Status, TransferStage
from levrier.actors.journal import messages as journal
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.runtime import SteppedRuntime
from levrier.actors.runtime.stepped_node import Seat, SteppedNode
from levrier.cluster.boot import Booted
from levrier.cluster.simulate.checkers import CAPTURE_EVERY, EncodedState, LiveReplica, operation_name
from levrier.wire.acknowledgement import Frontier
from levrier.wire.prepare import Prepare

EVENTS_MAX: Final = 20_000
UNJUDGED: Final = ("bus", "acknowledgements", "plugin", "worker")
"""Beginnings of the names of actors whose steps change nothing that the invariants are about."""

_NANOS: Final = 1_000_000_000

_Shown = tuple[int, int, int, bool, int, int, int]


class Moment(Enum):
    """What takes a member several steps, and may be met by a crash."""

    CHECKPOINT = 0
    TRANSFER = 1
    VIEW_CHANGE = 2


class Commits(Protocol):
    """Who judges the commit streams."""

    def applied(self, replica: int, incarnation: int, op: int, prepare: bytes, reply: bytes | None) -> None:
        """An entry was applied."""
        ...

    def installed(self, replica: int, incarnation: int, op: int) -> None:
        """A state transfer was installed."""
        ...

    def restarted(self, replica: int, incarnation: int, floor_op: int, replayed: Iterable[bytes] = ()) -> None:
        """A member has booted."""
        ...


@dataclass(slots=True)
class Counts:
    """What a simulation has seen."""

    commits: int = 0
    crashes: int = 0
    crashes_in_checkpoint: int = 0
    """How many of them met a member that had a checkpoint under way."""
    crashes_in_transfer: int = 0
    """How many of them met a member that was replacing its state."""
    crashes_in_view_change: int = 0
    """How many of them met a member between two views."""
    cores: int = 0
    """How often a core had to make progress while others stayed away."""
    view_changes: int = 0
    checkpoints: int = 0
    transfers: int = 0
    sweeps: int = 0
    completions: int = 0
    archive_bytes_max: int = 0
    """The most that the archive of one member ever held."""
    disk_bytes_max: int = 0
    """The most that the disk of one member ever held."""

    def add(self, other: "Counts") -> None:
        """Count another simulation in."""
        for each in fields(self):
            mine, more = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, max(mine, more) if each.name.endswith("_max") else mine + more)


@dataclass(slots=True)
class _Life:
    """One incarnation of a member, as it was seen last."""

    replica: int
    incarnation: int
    live: LiveReplica
    node: SteppedNode
    shown: _Shown
    prepares: dict[int, Prepare] = field(default_factory=dict)
    """Applied by the state machine, not yet recorded by the client table."""
    captured: EncodedState | None = None
    """The state at an op whose clients are not recorded yet."""


@dataclass(slots=True)
class Trace:
    """The last events, each `t=12.345s who what`."""

    world: SteppedRuntime
    events: deque[str] = field(default_factory=lambda: deque(maxlen=EVENTS_MAX))

    def tell(self, who: str, what: str) -> None:
        """Add an event."""
        self.events.append(f"t={self.world.now_nanos / _NANOS:.3f}s {who} {what}")


class Watch:
    """Set as the observer of the stepped runtime. `check` is called with a member that has done something, and with all that are
    up.
    """

    def __init__(
        self,
        world: SteppedRuntime,
        commits: Commits,
        trace: Trace,
        *,
        check: Callable[[LiveReplica, Sequence[LiveReplica]], None],
        encoded: Callable[[int, EncodedState], None],
        reclaims: Callable[[int, Frontier], None],
    ) -> None:
        self.counts = Counts()
        self.highest = 0
        self.passed_over: dict[int, int] = {}
        """By member: up to which op a state transfer spared it the log."""
        self.on_moment: Callable[[int, Moment], None] = lambda _replica, _moment: None
        """Hears what begins at which member."""
        self._commits = commits
        self._trace = trace
        self._check = check
        self._encoded = encoded
        self._reclaims = reclaims
        self._up: tuple[LiveReplica, ...] = ()
        self._lives: dict[str, _Life] = {}
        self._incarnations: dict[int, int] = {}
        world.observer = self.on_step

    def born(self, replica: int, node: SteppedNode, booted: Booted, replayed: Iterable[bytes]) -> None:
        """A member has booted."""
        actor = node.actor("consensus")
        assert isinstance(actor, ConsensusActor)
        incarnation = self._incarnations[replica] = self._incarnations.get(replica, 0) + 1
        state = actor.state
        live = LiveReplica(
            state=state, journal=booted.journal, superblock=booted.superblock, table=booted.recovered.table
        )
        floor_op = booted.recovered.applied
        if booted.pairing.op and booted.journal.header(booted.pairing.op) is None:
            self.passed_over[replica] = booted.pairing.op  # The snapshot came from a peer.
        self._lives[node.name] = _Life(replica, incarnation, live, node, _shown(state))
        self._up = tuple([life.live for life in self._lives.values()])
        self._commits.restarted(replica, incarnation, floor_op, replayed)
        self._trace.tell(
            node.name,
            f"starts, view {state.view}, op {state.sequencer}, applied {floor_op}, snapshot {state.checkpoint.snapshot_op}",
        )

    def count_crash(self, replica: int) -> None:
        """A member crashes, whatever it has under way."""
        counts = self.counts
        counts.crashes += 1
        counts.crashes_in_checkpoint += self.is_in(replica, Moment.CHECKPOINT)
        counts.crashes_in_transfer += self.is_in(replica, Moment.TRANSFER)
        counts.crashes_in_view_change += self.is_in(replica, Moment.VIEW_CHANGE)

    def is_in(self, replica: int, moment: Moment) -> bool:
        """Whether a member that is up has this under way."""
        live = self.live(replica)
        if live is None:
            return False
        state = live.state
        match moment:
            case Moment.CHECKPOINT:
                return state.checkpoint.in_flight is not None
            case Moment.TRANSFER:
                return state.is_transferring
            case Moment.VIEW_CHANGE:
                return state.status is Status.VIEW_CHANGE

    def gone(self, name: str) -> None:
        """A member is down."""
        self._lives.pop(name, None)
        self._up = tuple([life.live for life in self._lives.values()])

    def live(self, replica: int) -> LiveReplica | None:
        """A member that is up."""
        life = self._lives.get(f"node-{replica}")
        return None if life is None else life.live

    def ends(self) -> dict[int, EncodedState]:
        """What everybody holds. Nothing may be under way."""
        found = {}
        for life in self._lives.values():
            table = life.live.table
            assert table is not None
            state = encoded_state(life.node, life.live.state.commit_min)
            found[life.replica] = replace(state, clients=encoded_clients(table, state.op))
        return found

    def states(self) -> dict[int, ReplicaState]:
        """The live replicas."""
        return {life.replica: life.live.state for life in self._lives.values()}

    def on_step(self, seat: Seat, message: object) -> None:
        """Something was handled."""
        if not seat.cell.alive:
            return
        kind = message.__class__
        if kind is client_table.Commit:
            self._on_commit(seat, message)
        elif kind is metadata.Apply:
            assert isinstance(message, metadata.Apply)
            self._on_apply(self._lives[seat.node.name], message.prepare)
        elif kind is journal.Reclaim:
            assert isinstance(message, journal.Reclaim)
            self._reclaims(self._lives[seat.node.name].replica, message.frontier)
        elif kind is consensus.Installed:
            assert isinstance(message, consensus.Installed)
            self._on_installed(seat, message)
        if seat.cell.name.startswith(UNJUDGED):
            return
        life = self._lives.get(seat.node.name)
        if life is None:
            return
        if seat.cell.name == "consensus":
            shown = _shown(life.live.state)
            if shown != life.shown:
                self._on_change(seat.node.name, life, shown)
        self._check(life.live, self._up)

    def _on_apply(self, life: _Life, prepare: Prepare) -> None:
        op = prepare.header.op
        life.prepares[op] = prepare
        if op % CAPTURE_EVERY == 0:
            life.captured = encoded_state(life.node, op)

    def _on_commit(self, seat: Seat, message: object) -> None:
        assert isinstance(message, client_table.Commit)
        life, op = self._lives[seat.node.name], message.header.op
        prepare = life.prepares.pop(op)
        self._commits.applied(life.replica, life.incarnation, op, prepare.frame, message.reply)
        captured = life.captured
        if captured is not None and captured.op == op:
            life.captured = None
            assert life.live.table is not None
            self._encoded(life.replica, replace(captured, clients=encoded_clients(life.live.table, op)))
        if op > self.highest:
            self.highest = op
            self.counts.commits += 1
            self._trace.tell(
                seat.node.name, f"is the first to apply op {op} ({operation_name(message.header.operation)})"
            )

    def _on_installed(self, seat: Seat, message: consensus.Installed) -> None:
        life = self._lives[seat.node.name]
        self.counts.transfers += 1
        self.passed_over[life.replica] = message.applied_op
        self._commits.installed(life.replica, life.incarnation, message.applied_op)
        self._trace.tell(seat.node.name, f"has installed the state at op {message.applied_op}")

    def _on_change(self, name: str, life: _Life, shown: _Shown) -> None:
        view, log_view, status, _, completed, transfer, in_flight = life.shown
        life_state, life.shown = life.live.state, shown
        parts = []
        if shown[0] != view:
            parts.append(f"view {view} -> {shown[0]}")
        parts.append(life_state.status.name.lower().replace("_", " "))
        if shown[1] != log_view:
            parts.append(f"log view {log_view} -> {shown[1]}")
            if life_state.is_primary:
                self.counts.view_changes += 1
                parts.append("leads")
        if shown[4] != completed:
            self.counts.checkpoints += 1
            parts.append(f"checkpoint at op {life_state.checkpoint.snapshot_op}")
        if shown[5] != TransferStage.IDLE:
            parts.append(f"transfer {TransferStage(shown[5]).name.lower().replace('_', ' ')}")
        parts.append(f"op {life_state.sequencer} commit {life_state.commit_max} applied {life_state.commit_min}")
        self._trace.tell(name, ", ".join(parts))
        if shown[2] == Status.VIEW_CHANGE != status:
            self.on_moment(life.replica, Moment.VIEW_CHANGE)
        if shown[5] not in {TransferStage.IDLE, transfer}:
            self.on_moment(life.replica, Moment.TRANSFER)
        if shown[6] not in {0, in_flight}:
            self.on_moment(life.replica, Moment.CHECKPOINT)


def encoded_state(node: SteppedNode, op: int) -> EncodedState:
    """What the state machine of a member encodes, which stands at this op."""
    actor = node.actor("metadata")
    assert isinstance(actor, MetadataActor)
    captured = actor.machine.capture(op, 0)
    return EncodedState(
        op=op,
        users=b"".join(captured.users()),
        streams=b"".join(captured.streams()),
        consensus_group_high=captured.consensus_group_high,
        next_user_id=captured.next_user_id,
    )


def encoded_clients(table: ClientTable, op: int) -> bytes | None:
    """What the client table of a member encodes, None for one that came ahead of its snapshot and reflects later ops."""
    return b"".join(table.capture().chunks()) if table.frontier <= op else None


def _shown(state: ReplicaState) -> _Shown:
    return (
        state.view,
        state.log_view,
        int(state.status),
        state.voter,
        state.checkpoint.completed,
        int(state.transfer_stage),
        state.checkpoint.in_flight or 0,
    )
