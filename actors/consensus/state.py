"""What one replica knows (consensus specification 2): a value that the modules of the core read and change.

Identity is fixed and comes from the configuration: cluster, replica, replica count and group. Nothing here says which
state machine the group replicates. Two frontiers stand beside the specification's: `apply_sent`, how far the commit stream
has been told (rule 2), and `admission_barrier`, the op that must be applied before anybody is admitted (rule 4).

A restarting replica hands in `RecoveredState`; everything else starts as the table of section 2 says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from levrier.actors.consensus.effects import Effect
from levrier.actors.consensus.log_mirror import LogMirror
from levrier.actors.consensus.pipeline import PREPARE_QUEUE_CEILING, Pipeline
from levrier.actors.consensus.quorum import REPLICAS_MAX, Quorums, quorums_of
from levrier.actors.consensus.timeouts import NORMAL_HEARTBEAT_TICKS, Timeouts
from levrier.wire.headers import PrepareHeader

PREPARE_QUEUE_DEPTH: Final = 32
JOURNAL_SLOTS: Final = 16384
CHECKPOINT_LOG_GROWTH_MIN: Final = 64 * 1024 * 1024
"""A log smaller than this never causes a checkpoint by its size, in bytes."""

SUPERBLOCK_FAILURES_MAX: Final = 120
"""Consecutive failed superblock writes after which the node ends (about two minutes); 0 never ends it."""

DISK_SILENCE_TICKS: Final = NORMAL_HEARTBEAT_TICKS // 2
"""A disk that made no progress for longer than this silences its primary (D-15)."""


class Status(IntEnum):
    """What a replica takes part in (8.11)."""

    NORMAL = 0
    VIEW_CHANGE = 1
    RECOVERING = 2


class TransferStage(IntEnum):
    """How far a state transfer has come (11)."""

    IDLE = 0
    AWAITING_TARGET = 1
    FETCHING = 2
    INSTALLING = 3


_TRANSFER_EDGES: Final = frozenset(
    {
        (TransferStage.IDLE, TransferStage.AWAITING_TARGET),
        (TransferStage.AWAITING_TARGET, TransferStage.FETCHING),
        (TransferStage.AWAITING_TARGET, TransferStage.IDLE),
        (TransferStage.FETCHING, TransferStage.INSTALLING),
        (TransferStage.FETCHING, TransferStage.AWAITING_TARGET),
        (TransferStage.FETCHING, TransferStage.IDLE),
        (TransferStage.INSTALLING, TransferStage.IDLE),
    }
)


def is_transfer_edge(before: TransferStage, after: TransferStage) -> bool:
    """Whether the transfer stage may move so."""
    return (before, after) in _TRANSFER_EDGES


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaConfig:
    """Who this replica is, and its limits.

    `bootstrap` is the body of operation 69 that a blank group commits before anything else (D-01), or None when nothing
    has to be seeded. `journal_slots` is how many ops the log holds above its checkpoint.
    """

    cluster: int
    replica: int
    replica_count: int
    group: int
    prepare_queue_depth: int = PREPARE_QUEUE_DEPTH
    journal_slots: int = JOURNAL_SLOTS
    checkpoint_log_growth_min: int = CHECKPOINT_LOG_GROWTH_MIN
    superblock_failures_max: int = SUPERBLOCK_FAILURES_MAX
    bootstrap: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        assert 1 <= self.replica_count <= REPLICAS_MAX
        assert 0 <= self.replica < self.replica_count
        assert 0 < self.prepare_queue_depth <= PREPARE_QUEUE_CEILING
        assert self.journal_slots > 2 * self.prepare_queue_depth, "a checkpoint at half of the slots must leave room"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """What boot found on the disk; the defaults are a blank replica.

    `commit` is applied already. `headers` are the entries of the log from `max(snapshot_op, 1)` or the first one kept to the
    head, ascending, all durable. `log_size` and `snapshot_size` are bytes. `timestamp_floor` is that of the last applied
    prepare, `consensus_group_high` covers the whole log (D-07).
    """

    view: int = 0
    log_view: int = 0
    commit: int = 0
    headers: tuple[PrepareHeader, ...] = ()
    snapshot_op: int = 0
    snapshot_size: int = 0
    log_size: int = 0
    timestamp_floor: int = 0
    consensus_group_high: int = 0

    @property
    def head_op(self) -> int:
        """The op of the head of the log, or of the snapshot when the log holds nothing above it."""
        return max(self.headers[-1].op, self.snapshot_op) if self.headers else self.snapshot_op


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A request that was prepared here and lost its entry: its fate is known once op `op` is settled (rule 6, D-29)."""

    op: int
    checksum: int


@dataclass(slots=True, kw_only=True, eq=False)
class CheckpointState:
    """The one checkpoint that may be under way, and what says when the next is due (design, path of a checkpoint)."""

    snapshot_op: int
    snapshot_size: int
    log_size: int
    in_flight: int | None = None
    failures: int = 0
    retry_tick: int = 0
    completed: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class GateState:
    """What of the view is durable, and the one superblock write that may be under way (section 9)."""

    view_durable: int
    log_view_durable: int
    in_flight: tuple[int, int] | None = None
    failures: int = 0
    retry_tick: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class TruncationState:
    """The one Truncate that may be outstanding. No Append is told meanwhile; completions at or above `from_op` are stale."""

    from_op: int
    failures: int = 0
    retry_tick: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class ReplicaState:
    """The fields of section 2, and the effects of the handler that is running."""

    config: ReplicaConfig
    quorums: Quorums
    now_micros: Callable[[], int]

    view: int
    log_view: int
    status: Status
    ceded_primaryship: bool
    observed_newer_view: int
    commit_min: int
    apply_sent: int
    commit_max: int
    sequencer: int
    last_prepare_checksum: int
    last_timestamp: int
    heartbeat_timestamp: int
    transfer_stage: TransferStage
    recovery_barrier: int
    admission_barrier: int
    consensus_group_high: int

    pipeline: Pipeline
    mirror: LogMirror
    timeouts: Timeouts
    gate: GateState
    checkpoint: CheckpointState
    truncation: TruncationState | None = None
    unsettled: dict[tuple[int, int], Unsettled] = field(default_factory=dict)
    """By client and request number."""

    ticks: int = 0
    disk_waiting_since: int | None = None
    """The tick of the last durable progress while something is owed by the disk; None when nothing is (D-15)."""

    failed: bool = False
    effects: list[Effect] = field(default_factory=list)

    @property
    def is_primary(self) -> bool:
        """Pure arithmetic: it says nothing about the status."""
        return self.view % self.config.replica_count == self.config.replica

    @property
    def is_acting_primary(self) -> bool:
        """Whether this replica may put requests into the log right now."""
        return (
            self.status is Status.NORMAL
            and self.view % self.config.replica_count == self.config.replica
            and not self.ceded_primaryship
            and self.transfer_stage is TransferStage.IDLE
        )

    @property
    def is_past_barrier(self) -> bool:
        """Whether everything inherited is applied here (rule 4, D-28)."""
        return self.commit_min >= self.admission_barrier

    @property
    def is_transferring(self) -> bool:
        """Whether a state transfer is under way."""
        return self.transfer_stage is not TransferStage.IDLE

    def set_transfer_stage(self, stage: TransferStage) -> None:
        """Move along a legal edge (I13)."""
        assert is_transfer_edge(self.transfer_stage, stage)
        self.transfer_stage = stage

    def observe_view(self, view: int) -> None:
        """Remember the newest view seen on traffic that had to be dropped because of it."""
        self.observed_newer_view = max(self.observed_newer_view, view)


def recovered_replica(
    *, config: ReplicaConfig, recovered: RecoveredState, now_micros: Callable[[], int]
) -> ReplicaState:
    """The state of a replica that begins, blank or restarted (sections 2 and 12, step 6 to 9)."""
    assert recovered.log_view <= recovered.view
    assert recovered.snapshot_op <= recovered.commit <= recovered.head_op
    if config.replica_count == 1:
        assert recovered.commit == recovered.head_op, "a single replica commits its whole log at boot"
    head = recovered.headers[-1] if recovered.headers else None
    head_op = recovered.head_op
    state = ReplicaState(
        config=config,
        quorums=quorums_of(config.replica_count),
        now_micros=now_micros,
        view=recovered.view,
        log_view=recovered.log_view,
        status=Status.NORMAL,
        ceded_primaryship=False,
        observed_newer_view=0,
        commit_min=recovered.commit,
        apply_sent=recovered.commit,
        commit_max=recovered.commit,
        sequencer=head_op,
        last_prepare_checksum=head.checksum if head is not None and head.op == head_op else 0,
        last_timestamp=max(recovered.timestamp_floor, head.timestamp if head is not None else 0),
        heartbeat_timestamp=0,
        transfer_stage=TransferStage.IDLE,
        recovery_barrier=head_op if recovered.commit < head_op else 0,
        admission_barrier=head_op,
        consensus_group_high=recovered.consensus_group_high,
        pipeline=Pipeline(depth=config.prepare_queue_depth),
        mirror=LogMirror(headers=recovered.headers, snapshot_op=recovered.snapshot_op),
        timeouts=Timeouts(replica=config.replica, group=config.group),
        gate=GateState(view_durable=recovered.view, log_view_durable=recovered.log_view),
        checkpoint=CheckpointState(
            snapshot_op=recovered.snapshot_op, snapshot_size=recovered.snapshot_size, log_size=recovered.log_size
        ),
    )
    if state.is_primary:
        state.timeouts.commit_message.start()
    else:
        state.timeouts.normal_heartbeat.start()
    return state


def assert_invariants(state: ReplicaState) -> None:
    """The cheap ones of section 16, at the end of every public method."""
    commit_min = state.commit_min
    assert commit_min <= state.apply_sent <= state.commit_max
    assert state.log_view <= state.view
    assert state.gate.view_durable <= state.view
    assert state.gate.log_view_durable <= state.log_view
    pipeline = state.pipeline
    prepares = pipeline.prepares
    assert len(prepares) + pipeline.reserved <= pipeline.depth
    if prepares and state.status is Status.NORMAL:
        assert prepares[0].prepare.header.op > commit_min
        assert prepares[-1].prepare.header.op <= state.sequencer
        assert state.timeouts.prepare.ticking
    assert state.checkpoint.snapshot_op <= commit_min
    assert state.truncation is None or pipeline.reserved == 0
