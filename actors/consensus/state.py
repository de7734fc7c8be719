"""What one replica knows (consensus specification 2): a value that the modules of the core read and change.

Identity is fixed and comes from the configuration: cluster, replica, replica count and group. Nothing here says which
state machine the group replicates. Two frontiers stand beside the specification's: `apply_sent`, how far the commit stream
has been told (rule 2), and `admission_barrier`, the op that must be applied before anybody is admitted (rule 4).

A restarting replica hands in `RecoveredState`; everything else starts as the table of section 2 says.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import Final

from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus.digest_book import DigestBook
from levrier.actors.consensus.effects import Effect
from levrier.actors.consensus.log_mirror import LogMirror
from levrier.actors.consensus.merge import Vote
from levrier.actors.consensus.messages import InstallReady
from levrier.actors.consensus.pipeline import PREPARE_QUEUE_CEILING, Pipeline
from levrier.actors.consensus.quorum import REPLICAS_MAX, Quorums, quorums_of
from levrier.actors.consensus.spare import NEVER, SpareAcks, SpareForwards
from levrier.actors.consensus.timeouts import NORMAL_HEARTBEAT_TICKS, VIEW_CHANGE_STATUS_TICKS, Timeouts
from levrier.actors.plugins.messages import RoleChanged
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare

PREPARE_QUEUE_DEPTH: Final = 32
JOURNAL_SLOTS: Final = 16384
CHECKPOINT_LOG_GROWTH_MIN: Final = 64 * 1024 * 1024
"""A log smaller than this never causes a checkpoint by its size, in bytes."""

PROBE_ATTEMPTS_MAX: Final = 5
"""View probes without an answer before a restarted replica elects."""

SUPERBLOCK_FAILURES_MAX: Final = 120
"""Consecutive failed superblock writes after which the node ends (about two minutes); 0 never ends it."""


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
    incarnation: int = 1
    """Random and not 0, fresh for each boot: tells the answer to this boot's probe from an older one."""

    probe_attempts_max: int = PROBE_ATTEMPTS_MAX
    heartbeat_ticks: int = NORMAL_HEARTBEAT_TICKS
    view_change_ticks: int = VIEW_CHANGE_STATUS_TICKS

    @property
    def silence_ticks(self) -> int:
        """For how long a primary makes no progress before it falls silent: half of what its backups bear (D-15)."""
        return self.heartbeat_ticks // 2

    def __post_init__(self) -> None:
        assert 1 <= self.replica_count <= REPLICAS_MAX
        assert 0 <= self.replica < self.replica_count
        assert 0 < self.prepare_queue_depth <= PREPARE_QUEUE_CEILING
        assert self.incarnation != 0
        assert self.probe_attempts_max > 0
        assert self.journal_slots > 2 * self.prepare_queue_depth, "a checkpoint at half of the slots must leave room"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredState:
    """What boot found on the disk; the defaults are a blank replica.

    `commit` is applied already. `headers` are the entries of the log from `max(snapshot_op, 1)` or the first one kept to the
    head, ascending, all durable. `log_size` and `snapshot_size` are bytes. `timestamp_floor` is that of the last applied
    prepare, `consensus_group_high` covers the whole log (D-07).

    `commit_known` is the commit point that the superblock recorded with this view, None if nothing was: what the log holds
    from there on was reconciled with the view before the view was durable (D-16). `voter` is False for a learner.
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
    commit_known: int | None = None
    voter: bool = True
    born: bool = True
    """False until the birth of the cluster is durable here: then nothing is taken part in (birth)."""

    log_cut: bool = False
    """A boot, this one or an earlier one, cut bytes off the log, and no view has told since what they were (D-24)."""

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
    is_full: bool = False
    """The last write failed for want of space only."""
    retry_tick: int = 0
    commit_durable: int = 0
    """A commit point that the superblock names, at least."""
    commit_in_flight: int = 0
    cut_durable: bool = False
    """The superblock says that the log was cut; outlives `ReplicaState.log_cut` until the log of the view is held."""
    cut_in_flight: bool = False
    """The write under way takes that back."""


@dataclass(slots=True, kw_only=True, eq=False)
class TruncationState:
    """The one Truncate that may be outstanding. No Append is told meanwhile; completions at or above `from_op` are stale."""

    from_op: int
    settles: bool = True
    """Whether what is cut can never be committed any more, so that its requests are settled."""
    failures: int = 0
    retry_tick: int | None = None


class Owed(IntFlag):
    """Sends that waited for the view to be durable; judged again when it is, never replayed (D-11)."""

    NOTHING = 0
    START_VIEW_CHANGE = 1
    DO_VIEW_CHANGE = 2
    START_VIEW = 4
    ACKNOWLEDGEMENTS = 8
    FORWARDS = 16


class ReadPurpose(IntEnum):
    """Why entries were read from the journal."""

    COMMIT = 0
    VIEW_START = 1
    SERVE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRead:
    """One Read that the journal has not answered; it answers in order. The last four fields belong to `SERVE`."""

    purpose: ReadPurpose
    from_op: int
    to_op: int
    peer: int = 0
    nonce: int = 0
    asked_from: int = 0
    view: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class PendingLog:
    """The merged log that a primary-elect must hold before it starts its view (8.6).

    `named` are its headers by op, those committed elsewhere included; `headers` the announced ones, from the head down.
    `next_op` is the lowest op that is not known to be covered.
    """

    head: int
    commit_max: int
    headers: tuple[PrepareHeader, ...]
    named: dict[int, PrepareHeader]
    votes: tuple[Vote, ...]
    next_op: int
    reconciled: bool = False
    read_not_before: int = 0
    """The tick before which the disk is not asked again for an entry that it could not read."""


@dataclass(slots=True, kw_only=True, eq=False)
class RepairSession:
    """The one repair under way (section 10, D-12). `asked_from` is the first op of the last request."""

    nonce: int
    peer: int
    to_op: int
    asked_from: int
    idle_ticks: int = 0
    stalls: int = 0
    floor: int = 0
    """What lies below is held here, only not proven, and kept by nobody else; 0 where nobody said so, below 0 where it cannot be
    proven."""
    refused: bool = False
    """Whether an entry of the last answer had to wait for the superblock to name its commit point."""


@dataclass(slots=True, kw_only=True, eq=False)
class TransferState:
    """The one state transfer of this replica, as far as Consensus has a say in it (11)."""

    attempt: int = 0
    peer: int = 0
    ready: InstallReady | None = None
    is_ahead: bool = False
    is_told: bool = False
    """The install marker is in the commit stream."""


@dataclass(slots=True, kw_only=True, eq=False)
class DigestState:
    """How the state of this replica compares with that of the others (D-17)."""

    book: DigestBook
    corrupt_at: int = 0
    """The op at which more than half of the members agreed on another state; 0: none. Nothing is applied until replaced."""
    retry_tick: int = 0
    doubt: tuple[int, int] | None = None
    """An op at which members differ and silent ones may decide, and since which tick."""
    alarm: str = ""
    """The difference that an operator should know of, in words."""
    alarm_about: tuple[object, ...] = ()
    """What kind of difference that is, and with whom: the same one is not told again."""
    alarm_op: int = 0
    wrong: int = 0
    """Bit r: replica r has another state than the majority, so what it is offered has to be captured anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A forwarded session operation whose result is awaited until tick `deadline` (13)."""

    request: ClientRequest
    deadline: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """A session operation that replica `replica` forwarded here; nobody waits for its result after tick `deadline` (13)."""

    replica: int
    nonce: int
    client: int
    is_register: bool
    deadline: int


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
    digests: DigestState
    truncation: TruncationState | None = None
    unsettled: dict[tuple[int, int], Unsettled] = field(default_factory=dict)
    """By client and request number."""

    archive_first_op: int = 0
    """From which op on entries that have left the log can still be read; 0: none can."""
    ticks: int = 0
    progress_tick: int = 0
    """When a primary last committed something, or had nothing to commit."""
    progress_commit: int = 0
    fed_tick: int = NEVER
    """When a live prepare was taken last."""
    unhurried: set[int] = field(default_factory=set)
    """Ops under way to the disk that came after a pause: nothing is kept back for these."""
    disk_waiting_since: int | None = None
    """The tick of the last durable progress while something is owed by the disk; None when nothing is (D-15)."""

    voter: bool = True
    born: bool = True
    abstaining: int = 0
    """Bit r: replica r is a learner. Of two members, a view may start without its vote (B-014); of more, nobody waits for a
    body that only its lost disk may have had."""
    silent: int = 0
    """Bit r: replica r did not vote for the view before, which nobody has started."""
    published: tuple[int, int | None, bool, int] | None = None
    """What of the leadership was told last."""
    role_told: RoleChanged | None = None
    """What the plugins were told last."""
    distant: dict[int, int] = field(default_factory=dict)
    """By replica: the highest view that it spoke of and that was too far above to be believed of it alone."""
    probe_attempts: int = 0
    start_view_change_votes: int = 0
    """Bit r: replica r wants the present view."""
    do_view_change_votes: dict[int, Vote] = field(default_factory=dict)
    dvc_decided: bool = False
    dvc_wanted: bool = False
    """The own vote is due; it is cast once nothing is under way to the disk (rule 8)."""
    sent_dvc: bool = False
    pending: PendingLog | None = None
    view_head: int = 0
    """The head that the present view was announced with; 0 for a view that this replica started, or was in at boot."""
    log_cut: bool = False
    """What the log lacks may have been acknowledged and then cut at boot, so a vote denies nothing: neither by a nack nor by
    where its head is. Until a view is adopted or started, whose log is known not to depend on this disk (D-24)."""
    view_commit: int = 0
    """The commit point that the present view was announced with."""
    adopted: dict[int, PrepareHeader] = field(default_factory=dict)
    """What the adopted view named, by op."""
    unverified: set[int] = field(default_factory=set)
    """Ops of the log that the present view has not been seen to share (D-16)."""
    unpromised: set[int] = field(default_factory=set)
    """Of those, ops that this replica has acknowledged in no view for sure."""
    bodies: dict[int, Prepare] = field(default_factory=dict)
    """Prepares above `apply_sent` that are in memory and not in the pipeline."""
    applying: dict[int, int] = field(default_factory=dict)
    """Client to op: entries that left the pipeline in a view change while their Apply was under way."""
    owed: int = 0
    """Flags of `Owed`."""
    reads: deque[PendingRead] = field(default_factory=deque)
    parked: list[tuple[Prepare, bool]] = field(default_factory=list)
    """Prepares (True: of a repair) that came while the log was being cut; bounded by `PREPARE_QUEUE_CEILING`."""
    repair: RepairSession | None = None
    transfer: TransferState = field(default_factory=TransferState)
    waiters: dict[int, Waiter] = field(default_factory=dict)
    """By nonce, in order of their deadlines."""
    forwarded: dict[int, Forwarded] = field(default_factory=dict)
    """By the number of the ticket that it got here, in order of their deadlines."""
    offers: list[int] = field(default_factory=list)
    """Tokens of offers that wait for a capture."""
    next_nonce: int = 1
    spare_acks: SpareAcks = field(default_factory=SpareAcks)
    spare_forwards: SpareForwards = field(default_factory=SpareForwards)
    suspects: int = 0
    """Bit r: replica r did not acknowledge in time, so the chain is not relied upon."""

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
    def is_alone(self) -> bool:
        """Whether the group has this one replica only."""
        return self.config.replica_count == 1

    @property
    def is_corrupt(self) -> bool:
        """Whether the state here is known to be wrong, and waits to be replaced (D-17)."""
        return self.digests.corrupt_at != 0

    @property
    def everybody(self) -> int:
        """Bit r for each replica r."""
        return (1 << self.config.replica_count) - 1

    @property
    def primary(self) -> int:
        """The replica that leads the present view, by arithmetic."""
        return self.view % self.config.replica_count

    def mint_nonce(self) -> int:
        """A number that this replica has not used before, not in an earlier life either; never 0 (13)."""
        self.next_nonce = self.next_nonce + 1 & (1 << 64) - 1 or 1
        return self.config.replica << 64 | self.next_nonce

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
    commit_max = max(recovered.commit, recovered.commit_known or 0) if config.replica_count > 1 else recovered.commit
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
        commit_max=commit_max,
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
        timeouts=Timeouts(
            replica=config.replica,
            group=config.group,
            heartbeat_ticks=config.heartbeat_ticks,
            view_change_ticks=config.view_change_ticks,
        ),
        gate=GateState(
            view_durable=recovered.view,
            log_view_durable=recovered.log_view,
            commit_durable=recovered.commit_known or 0,
            cut_durable=recovered.log_cut,
        ),
        checkpoint=CheckpointState(
            snapshot_op=recovered.snapshot_op, snapshot_size=recovered.snapshot_size, log_size=recovered.log_size
        ),
        digests=DigestState(book=DigestBook(replica=config.replica, replica_count=config.replica_count)),
        voter=recovered.voter,
        born=recovered.born,
        log_cut=recovered.log_cut,
        next_nonce=config.incarnation & (1 << 64) - 1,
    )
    begin(state)
    return state


def begin(state: ReplicaState) -> None:
    """A member that has a past joins as a backup and asks for the view; a blank one begins in view 0 (12, step 9).

    One that is not born yet waits without a timer.
    """
    state.ceded_primaryship = False
    state.status = Status.NORMAL
    has_past = state.sequencer > 0 or state.view > 0 or not state.voter or state.log_cut
    if not state.born:
        state.status = Status.RECOVERING
        state.ceded_primaryship = True
    elif not state.is_alone and has_past:
        state.status = Status.RECOVERING
        state.ceded_primaryship = True
        state.timeouts.request_start_view.start()
    elif state.is_primary:
        state.timeouts.commit_message.start()
    else:
        state.timeouts.normal_heartbeat.start()


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
    if prepares and state.is_acting_primary:
        assert prepares[0].prepare.header.op > commit_min
        assert prepares[-1].prepare.header.op <= state.sequencer
        assert state.timeouts.prepare.ticking
    assert state.checkpoint.snapshot_op <= commit_min
    assert state.truncation is None or pipeline.reserved == 0
    if state.status is not Status.NORMAL or state.is_alone:
        return
    assert state.log_view == state.view
    if not state.is_primary:
        assert not prepares
        assert not pipeline.requests
