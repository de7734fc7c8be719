"""The invariants of consensus specification 16 over live replicas, their logs, superblocks and client tables.

`moved` is called after each step of a member; what must only ever rise is remembered from one call to the next. `sent` judges
every frame between replicas. The numbers I1 to I16 are the specification's. What an actor asserts of itself at each step (I4,
I8, I11 to I13, I16) is not repeated here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from levrier.actors.client_table.table import ClientTable
from levrier.actors.consensus.quorum import quorums_of
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.cluster.simulate.checkers.commits import CommitObserver
from levrier.cluster.simulate.checkers.violation import Rule, Violation
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.superblock import SuperblockStore, VsrState
from levrier.wire.codes import Command
from levrier.wire.framing import COMMAND_OFFSET
from levrier.wire.replica_headers import PrepareOkHeader

_VIEW: Final = slice(52, 56)
_PREPARE_OK: Final = int(Command.PREPARE_OK)
_GATED: Final = frozenset(
    {
        int(Command.PREPARE),
        _PREPARE_OK,
        int(Command.COMMIT),
        int(Command.START_VIEW_CHANGE),
        int(Command.DO_VIEW_CHANGE),
        int(Command.START_VIEW),
        int(Command.REQUEST_START_VIEW),
    }
)
"""Frames that carry a view, and so wait until it is durable (section 9, D-11)."""

TABLE_CHECKS_EVERY: Final = 256
"""A client table is looked at slot by slot, so after one of so many steps of its member only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveReplica:
    """One member that is up, as far as it may be looked at."""

    state: ReplicaState
    journal: PrepareJournal | None = None
    superblock: SuperblockStore | None = None
    table: ClientTable | None = None

    @property
    def replica(self) -> int:
        """Which member."""
        return self.state.config.replica


@dataclass(slots=True)
class _Known:
    """What one life of a member had reached when it was looked at last."""

    state: ReplicaState
    view: int = 0
    log_view: int = 0
    commit_min: int = 0
    commit_max: int = 0
    checkpoint: int = 0
    sequence: int = -1
    record: VsrState | None = None
    booted_from: int = 0
    """The op of the snapshot that the boot found durable: it may be newer than the superblock says (S-101)."""
    steps: int = 0


@dataclass(slots=True)
class InvariantChecker:
    """Keeps what must not go back. `observer` has the committed log that every member's log is compared with."""

    observer: CommitObserver
    replica_count: int
    _known: dict[int, _Known] = field(default_factory=dict)
    _leads: dict[int, tuple[int, int]] = field(default_factory=dict)
    _sent: dict[int, int] = field(default_factory=dict)
    _lost: set[int] = field(default_factory=set)

    def check(self, live: Sequence[LiveReplica]) -> None:
        """Judge everything that is up. Raises `Violation`."""
        for each in live:
            self.moved(each, live)

    def moved(self, each: LiveReplica, live: Sequence[LiveReplica]) -> None:
        """Judge a member that has done something, beside everything that is up. Raises `Violation`."""
        known = self._life(each)
        known.steps += 1
        record = _record(each, known)
        _check_frontiers(each, known)
        _check_pipeline(each)
        _check_log(each)
        if record is not None:
            _check_durable(each, record, known.booted_from)
        self._check_committed(each, known)
        self._check_lead(each.state)
        if each.table is not None and known.steps % TABLE_CHECKS_EVERY == 0:
            _check_table(each, each.table)
        self._check_quorum(each, known, live)
        _remember(known, each.state)

    def sent(self, sender: LiveReplica, frame: bytes) -> None:
        """A member sends a frame to others; it is judged before it can arrive. Raises `Violation`."""
        command = frame[COMMAND_OFFSET]
        if command not in _GATED or sender.superblock is None:
            return
        view = int.from_bytes(frame[_VIEW], "little")
        record = _record(sender, self._life(sender))
        durable = 0 if record is None else record.view
        if view > durable:
            raise Violation(
                Rule.VIEW_IS_DURABLE,
                f"replica {sender.replica} sends {Command(command).name} of view {view}, but its superblock has view {durable}",
            )
        self._sent[sender.replica] = max(self._sent.get(sender.replica, 0), view)
        if command == _PREPARE_OK:
            _check_acknowledgement(sender, PrepareOkHeader.decode(frame), record)

    def wiped(self, replica: int) -> None:
        """The disk of a member is lost: it comes back without a past and keeps no promise."""
        self._known.pop(replica, None)
        self._sent.pop(replica, None)
        self._lost.add(replica)

    def _life(self, each: LiveReplica) -> _Known:
        """What is known of this life. A new one starts no lower than what the life before has sent and stored (I2, I15)."""
        replica, state = each.replica, each.state
        known = self._known.get(replica)
        if known is not None and known.state is state:
            return known
        sent = self._sent.get(replica, 0)
        if state.view < sent:
            raise Violation(
                Rule.VIEW_IS_DURABLE,
                f"replica {replica} boots into view {state.view}, it had sent frames of view {sent}",
            )
        stored = 0 if known is None or known.record is None else known.record.checkpoint_op
        if state.checkpoint.snapshot_op < stored:
            raise _broken(state, "I15", f"checkpoint {state.checkpoint.snapshot_op} after a boot", f"at least {stored}")
        known = self._known[replica] = _Known(state, booted_from=state.checkpoint.snapshot_op)
        return known

    def _check_committed(self, each: LiveReplica, known: _Known) -> None:
        """The log agrees with what anybody has ever applied, and the commit stream with what was seen of it (I7, I9, rule 2)."""
        state = each.state
        applied = self.observer.applied_op(each.replica)
        if not state.is_transferring and not state.commit_min <= applied <= state.apply_sent:
            found = f"the state machine is at op {applied}"
            raise _broken(state, "I1", found, f"one from {state.commit_min} to {state.apply_sent}")
        for op in range(max(known.commit_min, state.mirror.snapshot_op) + 1, state.commit_min + 1):
            header, committed = state.mirror.header(op), self.observer.at(op)
            if header is not None and committed is not None and header.checksum != committed.header.checksum:
                raise _broken(
                    state, "I7", f"{header.checksum:#x} in its log at op {op}", f"{committed.header.checksum:#x}"
                )

    def _check_quorum(self, each: LiveReplica, known: _Known, live: Sequence[LiveReplica]) -> None:
        """What a primary has newly counted as committed is on the disks of a quorum (I6, I10). Who is down may hold it."""
        state = each.state
        if not state.is_acting_primary or any(other.journal is None for other in live):
            return
        away = self.replica_count - len(live)
        quorum = quorums_of(self.replica_count).replication
        for op in range(max(known.commit_max, state.mirror.snapshot_op) + 1, state.commit_max + 1):
            header = state.mirror.header(op)
            if header is None:
                continue
            holders = [
                other.replica for other in live if other.replica in self._lost or _holds(other, op, header.checksum)
            ]
            if len(holders) + away < quorum:
                raise _broken(
                    state, "I6", f"op {op} committed, held by {holders} and perhaps {away} that are down", quorum
                )

    def _check_lead(self, state: ReplicaState) -> None:
        """A view is led by one life of one member: a restart gives the lead up, even of a view of its own."""
        if not state.is_acting_primary or state.is_alone or state.view == 0:
            return
        own = (state.config.replica, state.config.incarnation)
        first = self._leads.setdefault(state.view, own)
        if first != own:
            raise Violation(
                Rule.ONE_PRIMARY,
                f"view {state.view} is led by replica {own[0]} in life {own[1]:#x} and by replica {first[0]} in {first[1]:#x}",
            )


def _broken(state: ReplicaState, number: str, found: str, expected: object) -> Violation:
    config = state.config
    return Violation(
        Rule.INVARIANT,
        f"{number}, replica {config.replica} in view {state.view} ({state.status.name}): expected {expected}, found {found}",
    )


def _record(each: LiveReplica, known: _Known) -> VsrState | None:
    """What the superblock has; decoded again only after a write."""
    store = each.superblock
    if store is None or store.degraded:
        return None
    if store.sequence != known.sequence:
        known.sequence, known.record = store.sequence, store.read()
    return known.record


def _remember(known: _Known, state: ReplicaState) -> None:
    known.view, known.log_view = state.view, state.log_view
    known.commit_min, known.commit_max = state.commit_min, state.commit_max
    known.checkpoint = state.checkpoint.snapshot_op


def _check_frontiers(each: LiveReplica, known: _Known) -> None:
    """I1, I2, I14: how the frontiers stand to each other, and that none goes back."""
    state = each.state
    gate = state.gate
    ladder = (state.checkpoint.snapshot_op, state.commit_min, state.apply_sent, state.commit_max)
    if list(ladder) != sorted(ladder):
        raise _broken(state, "I1", f"{ladder}", "checkpoint <= commit_min <= apply_sent <= commit_max")
    if not gate.log_view_durable <= state.log_view <= state.view or gate.view_durable > state.view:
        found = f"view {state.view}, log_view {state.log_view}, durable {gate.view_durable}, {gate.log_view_durable}"
        raise _broken(state, "I2", found, "durable <= live, log_view <= view")
    if state.status is Status.NORMAL and not state.is_alone and state.log_view != state.view:
        raise _broken(state, "I2", f"log_view {state.log_view}", f"{state.view} in a normal replica")
    now = (state.view, state.log_view, state.commit_min, state.commit_max, state.checkpoint.snapshot_op)
    before = (known.view, known.log_view, known.commit_min, known.commit_max, known.checkpoint)
    for name, value, floor in zip(
        ("view", "log_view", "commit_min", "commit_max", "checkpoint"), now, before, strict=True
    ):
        if value < floor:
            raise _broken(state, "I1", f"{name} {value}", f"at least {floor}, which it had reached")


def _check_pipeline(each: LiveReplica) -> None:
    """I3, I5: a run of consecutive chained ops above what is applied, on an acting primary only.

    A new primary takes in only what is not known to be committed; the rest goes to the state machine from its log.
    """
    state = each.state
    pipeline = state.pipeline
    prepares = pipeline.prepares
    if len(prepares) + pipeline.reserved > pipeline.depth or len(pipeline.requests) > pipeline.requests_max:
        found = f"{len(prepares)} prepares, {pipeline.reserved} reserved, {len(pipeline.requests)} requests"
        raise _broken(state, "I3", found, f"a depth of {pipeline.depth}")
    if not state.is_acting_primary:
        if prepares or pipeline.requests:
            raise _broken(
                state, "I3", f"{len(prepares)} prepares, {len(pipeline.requests)} requests", "none: it does not lead"
            )
        return
    if state.timeouts.prepare.ticking == pipeline.is_empty:
        raise _broken(
            state, "I5", f"ticking {state.timeouts.prepare.ticking} with {len(prepares)} prepares", "the contrary"
        )
    op, parent = state.commit_min, None
    if prepares and op < prepares[0].prepare.header.op <= state.commit_max + 1:
        op = prepares[0].prepare.header.op - 1
    for entry in prepares:
        header = entry.prepare.header
        if header.op != op + 1 or parent not in (None, header.parent):
            raise _broken(state, "I3", f"op {header.op} with parent {header.parent:#x}", f"op {op + 1} on {parent}")
        held = state.mirror.header(header.op)
        if held is None or held.checksum != header.checksum:
            raise _broken(state, "I10", f"op {header.op} in the pipeline", "the same entry in its log")
        op, parent = header.op, header.checksum
    if op > state.sequencer:
        raise _broken(state, "I3", f"op {op} in the pipeline", f"none above the head {state.sequencer}")


def _check_log(each: LiveReplica) -> None:
    """I9, and that the mirror is the log: above what is applied, proven entries chain and durable ones are on the disk."""
    state = each.state
    mirror, journal = state.mirror, each.journal
    if journal is not None and (journal.poisoned is not None or state.truncation is not None):
        journal = None
    previous = mirror.header(state.commit_min)
    for op in range(state.commit_min + 1, mirror.last_op + 1):
        header = mirror.header(op)
        if header is not None and op not in state.unverified:
            if previous is not None and header.parent != previous.checksum:
                raise _broken(state, "I9", f"op {op} with parent {header.parent:#x}", f"{previous.checksum:#x}")
            previous = header
        else:
            previous = None
        if header is not None and journal is not None and mirror.is_durable(op):
            stored = journal.header(op)
            if stored is None or stored.checksum != header.checksum:
                raise _broken(state, "I6", f"op {op} taken for durable", f"{header.checksum:#x} on the disk")


def _check_durable(each: LiveReplica, record: VsrState, booted_from: int) -> None:
    """I2, I15: the disk says what the replica believes it says; the log goes only after the snapshot has its place.

    An install is no checkpoint: the snapshot that it placed may be named by the superblock later (11, step 11).
    """
    state, gate = each.state, each.state.gate
    if gate.view_durable > record.view or gate.log_view_durable > record.log_view:
        found = f"({gate.view_durable}, {gate.log_view_durable}) taken for durable"
        raise _broken(state, "I2", found, f"({record.view}, {record.log_view}) as in the superblock")
    placed = max(record.checkpoint_op, booted_from)
    if each.journal is not None and each.journal.snapshot_op > placed:
        found = f"a log drained up to op {each.journal.snapshot_op}"
        raise _broken(state, "I15", found, f"at most checkpoint {placed}, which the superblock or the boot names")


def _check_table(each: LiveReplica, table: ClientTable) -> None:
    try:
        table.verify()
    except AssertionError as error:
        raise _broken(
            each.state, "client table", str(error) or "a slot that contradicts the index", "its invariants"
        ) from error


def _check_acknowledgement(sender: LiveReplica, header: PrepareOkHeader, record: VsrState | None) -> None:
    """I6: that exact entry is durable here, and so are view and log_view. Of a view that has passed nothing is known."""
    state = sender.state
    if header.view != state.view or state.truncation is not None:
        return
    if not _holds(sender, header.op, header.prepare_checksum):
        raise _broken(state, "I6", f"an acknowledgement of op {header.op}", f"{header.prepare_checksum:#x} on its disk")
    if record is not None and record.log_view < header.view:
        raise _broken(
            state, "I6", f"an acknowledgement of view {header.view}", f"none above log_view {record.log_view}"
        )


def _holds(each: LiveReplica, op: int, checksum: int) -> bool:
    """Whether a member holds this entry: in its log, or in a snapshot that covers it."""
    if op <= each.state.checkpoint.snapshot_op:
        return True
    journal = each.journal
    if journal is None:
        return each.state.mirror.holds(op, checksum)
    stored = journal.header(op)
    return (stored is not None and stored.checksum == checksum) or op <= journal.snapshot_op
