"""The form in which a creation of topics or partitions stands in the log (section 5.2 step 4, D-07, D-33).

Everything that a replica may not decide by itself is decided here, once: absent options get their defaults, each new
partition gets a consensus group of its own, and the view that assigned them is named. Group ids are burned even if the
creation is rejected when it is applied; the allocator never goes back.
"""

from typing import Final

from levrier.actors.consensus.state import ReplicaState
from levrier.wire.codes import Operation
from levrier.wire.headers import U64_MAX
from levrier.wire.requests.partitions import CreatePartitions
from levrier.wire.requests.replicated import CreatePartitionsWithAssignments, CreateTopicWithAssignments
from levrier.wire.requests.topics import CreateTopic
from levrier.wire.topic_options import admit_create, check_partitions_count

_FORMS: Final[dict[int, type[CreateTopicWithAssignments] | type[CreatePartitionsWithAssignments]]] = {
    int(Operation.CREATE_TOPIC_WITH_ASSIGNMENTS): CreateTopicWithAssignments,
    int(Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS): CreatePartitionsWithAssignments,
}


def with_assignments(state: ReplicaState, operation: int, body: bytes) -> bytes:
    """The replicated body of a CreateTopic or CreatePartitions. Raises `WireError`, and then nothing was allocated."""
    if operation == Operation.CREATE_TOPIC:
        return _create_topic(state, CreateTopic.decode(body))
    assert operation == Operation.CREATE_PARTITIONS
    return _create_partitions(state, CreatePartitions.decode(body))


def observe_groups(state: ReplicaState, consensus_group: int) -> None:
    """Raise the allocator to an id seen in the log (D-07)."""
    state.consensus_group_high = max(state.consensus_group_high, consensus_group)


def observe_assignments(state: ReplicaState, operation: int, body: bytes) -> None:
    """Raise the allocator to what a creation in the log of another replica took."""
    form = _FORMS.get(operation)
    if form is None:
        return
    for _, consensus_group in form.decode(body).assignments:
        observe_groups(state, consensus_group)


def _create_topic(state: ReplicaState, request: CreateTopic) -> bytes:
    options = admit_create(request.options, partitions_count=request.partitions_count)
    return CreateTopicWithAssignments(
        request=CreateTopic(
            stream=request.stream,
            partitions_count=request.partitions_count,
            name=request.name,
            options=options.explicit,
        ),
        derived_options=options.derived,
        assignments=_assign(state, request.partitions_count),
        created_view=state.view,
    ).encode()


def _create_partitions(state: ReplicaState, request: CreatePartitions) -> bytes:
    check_partitions_count(request.partitions_count, minimum=1)
    return CreatePartitionsWithAssignments(
        request=request,
        assignments=_assign(state, request.partitions_count),
        created_view=state.view,
    ).encode()


def _assign(state: ReplicaState, count: int) -> tuple[tuple[int, int], ...]:
    """`count` new groups: partition ids or offsets from 0, each with the next id above the highest handed out."""
    first = state.consensus_group_high + 1
    assert first + count <= U64_MAX, "consensus group ids are used up"
    state.consensus_group_high += count
    return tuple((index, first + index) for index in range(count))
