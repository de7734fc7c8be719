"""From a request to a sealed prepare, and into the log: one handler, never apart (sections 5.2 and 5.3, rule 9).

A second request projected between the two would mint the same op and the same parent. The body of an op stays in memory
in its pipeline entry until it is applied, so nothing on the path of a write reads the journal.
"""

from typing import Final

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus.answers import evict, eviction_of
from levrier.actors.consensus.assignments import with_assignments
from levrier.actors.consensus.effects import Append, Note, Severity
from levrier.actors.consensus.gate import await_disk
from levrier.actors.consensus.pipeline import PrepareEntry
from levrier.actors.consensus.state import ReplicaState
from levrier.wire.codes import INTERNAL_OPERATIONS, METADATA_OPERATIONS, REPLICATED_FORM, Operation
from levrier.wire.errors import WireError
from levrier.wire.headers import U64_MAX, PrepareHeader
from levrier.wire.prepare import project

RECORD_OVERHEAD: Final = 48
"""What the log adds to an entry, at most, in bytes: an estimate that only says when a checkpoint is due."""

_ASSIGNED: Final = frozenset({int(Operation.CREATE_TOPIC), int(Operation.CREATE_PARTITIONS)})
_ADMISSIBLE: Final = (METADATA_OPERATIONS - INTERNAL_OPERATIONS) | {int(Operation.TRUNCATE_PARTITION)}
"""What a request may bring. The client's DeleteSegments has been resolved to a truncation before it comes here."""

_OWN: Final = (_ADMISSIBLE | INTERNAL_OPERATIONS) - {int(Operation.REGISTER), int(Operation.LOGOUT)}
"""What the node itself may bring: sessions begin and end by their clients."""

assert _ASSIGNED <= _ADMISSIBLE


def has_log_room(state: ReplicaState) -> bool:
    """Whether the log has a slot for one more op beside those that are reserved; the checkpoint op keeps its own."""
    distance = state.sequencer + state.pipeline.reserved + 1 - state.checkpoint.snapshot_op
    return distance < state.config.journal_slots


def push_request(state: ReplicaState, request: ClientRequest, user_id: int) -> bool:
    """Turn an admitted request into the next prepare and push it. False when its body refuses: it is answered then."""
    header = request.header
    operation = header.operation
    body = request.body
    if operation not in _ADMISSIBLE:
        evict(state, request.ticket, eviction_of(operation))
        return False
    if operation in _ASSIGNED:
        try:
            body = with_assignments(state, operation, body)
        except WireError as error:
            state.effects.append(Note(Severity.DEBUG, f"operation {operation} cannot be projected: {error}"))
            evict(state, request.ticket, eviction_of(operation))
            return False
        operation = int(REPLICATED_FORM[operation])
    _push(
        state,
        client=header.client,
        request=header.request,
        request_checksum=header.request_checksum,
        release=header.release,
        operation=operation,
        user_id=user_id,
        body=body,
        reply_to=request.ticket,
    )
    return True


def push_own(
    state: ReplicaState, *, operation: int, client: int, request: int, body: bytes, reply_to: Ticket | None = None
) -> None:
    """Put an operation of the node itself into the log (D-10, D-23). Its user is 0.

    `client` is 0 or of the reserved high range. Such an operation is never queued: whoever asks looks for a slot first.
    Raises `WireError` for a creation that cannot be projected, and then nothing was pushed.
    """
    assert operation in _OWN
    assert client == 0 or client >> 64 == U64_MAX
    if operation in _ASSIGNED:
        body = with_assignments(state, operation, body)
        operation = int(REPLICATED_FORM[operation])
    _push(
        state,
        client=client,
        request=request,
        request_checksum=0,
        release=0,
        operation=operation,
        user_id=0,
        body=body,
        reply_to=reply_to,
    )


def stamp(state: ReplicaState) -> int:
    """The timestamp of the next prepare, microseconds: the clock, but always above the last one."""
    now = state.now_micros()
    last = state.last_timestamp
    timestamp = now if now > last else min(last + 1, U64_MAX)
    state.last_timestamp = timestamp
    return timestamp


def observe_timestamp(state: ReplicaState, timestamp: int) -> None:
    """Lift the floor of the timestamps; it is never lowered."""
    state.last_timestamp = max(state.last_timestamp, timestamp)


def chain_target(state: ReplicaState, header: PrepareHeader) -> int | None:
    """Which replica a prepare is forwarded to (5.5); None at the end of the chain.

    Only a prepare that is not applied here yet has a target. The ring ends at the primary of the *header's* view.
    """
    assert header.op > state.commit_min, f"op {header.op} is committed: {state.commit_min} is applied"
    return following_member(state, header)


def following_member(state: ReplicaState, header: PrepareHeader) -> int | None:
    """Who comes after this replica in the ring; None for the last before the primary of the *header's* view."""
    replica_count = state.config.replica_count
    following = (state.config.replica + 1) % replica_count
    if following == header.view % replica_count:
        return None
    assert following != state.config.replica
    return following


def _push(
    state: ReplicaState,
    *,
    client: int,
    request: int,
    request_checksum: int,
    release: int,
    operation: int,
    user_id: int,
    body: bytes,
    reply_to: Ticket | None,
) -> None:
    config = state.config
    pipeline = state.pipeline
    assert state.is_acting_primary
    assert state.truncation is None, "no append while the log is being cut"
    assert pipeline.has_free_slot
    prepare = project(
        cluster=config.cluster,
        view=state.view,
        replica=config.replica,
        client=client,
        parent=state.last_prepare_checksum,
        request_checksum=request_checksum,
        op=state.sequencer + 1,
        commit=state.commit_max,
        timestamp=stamp(state),
        request=request,
        operation=operation,
        group=config.group,
        user_id=user_id,
        body=body,
        release=release,
    )
    header = prepare.header
    pipeline.push_prepare(PrepareEntry(prepare, reply_to))
    state.sequencer = header.op
    state.last_prepare_checksum = header.checksum
    state.mirror.submit(header)
    state.checkpoint.log_size += header.size + RECORD_OVERHEAD
    await_disk(state)
    timer = state.timeouts.prepare
    if not timer.ticking:
        timer.start()
    state.effects.append(Append(prepare, state.view))
