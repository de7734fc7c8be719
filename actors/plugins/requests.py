"""What a plugin may submit, and the checks that stand before the log.

A body that does not decode in the log is damage, so nothing gets there that was not decoded here first, and what admission
asks of a client's request is asked of a plugin's as well (state-machine 9, 11). Requests whose log form needs a password
hash, a minted secret or a connection are not for plugins.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from levrier.wire.body import Body
from levrier.wire.codes import Operation
from levrier.wire.errors import WireError
from levrier.wire.options import KIND_STRING, OptionEntry, encode_block, refuse_options
from levrier.wire.requests.groups import CreateConsumerGroup, DeleteConsumerGroup
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.replicated import (
    CompleteConsumerGroupRevocation,
    CreatePartitionsWithAssignments,
    CreateTopicWithAssignments,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
    RemoveConsumerGroupMember,
    TruncatePartition,
)
from levrier.wire.requests.replicated import DeletePersonalAccessTokenReplicated as DeleteToken
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from levrier.wire.requests.users import DeleteUser, UpdatePermissions, UpdateUser
from levrier.wire.topic_options import UNLIMITED, admit_create, check_partitions_count, parse_strictly

__all__ = [
    "CompleteConsumerGroupRevocation",
    "CreateConsumerGroup",
    "CreatePartitions",
    "CreateStream",
    "CreateTopic",
    "DeleteConsumerGroup",
    "DeletePartitions",
    "DeleteStream",
    "DeleteToken",
    "DeleteTopic",
    "DeleteUser",
    "InvalidRequest",
    "PurgeStream",
    "PurgeTopic",
    "RemoveConsumerGroupMember",
    "TruncatePartition",
    "UpdatePermissions",
    "UpdateStream",
    "UpdateTopic",
    "UpdateUser",
    "options",
]

BODY_SIZE_MAX: Final = 128 * 1024


class InvalidRequest(ValueError):
    """A request that can never go into the log; the message says what is wrong with it."""


class Prepared(NamedTuple):
    """A checked request, as it is submitted."""

    operation: int
    body: bytes


def _nothing(_: Any) -> None:
    """Decoding was all that had to be asked."""


def _check_topic(request: CreateTopic) -> None:
    admit_create(request.options, partitions_count=request.partitions_count)


def _check_topic_update(request: UpdateTopic) -> None:
    if not request.options:
        return
    cap = parse_strictly(request.options, updating=True).max_topic_size
    if cap is not None and cap != UNLIMITED:
        raise InvalidRequest(
            "a plugin cannot set max_topic_size to a limit: it is judged by the segment size of the topic"
        )


def _check_count(request: CreatePartitions | DeletePartitions) -> None:
    check_partitions_count(request.partitions_count, minimum=1)


def _check_options(request: CreateStream | UpdateStream | UpdateUser) -> None:
    if request.options:
        refuse_options(request.options)


_FORMS: Final[dict[type[Body], tuple[Operation, Callable[[Any], None]]]] = {
    CreateStream: (Operation.CREATE_STREAM, _check_options),
    UpdateStream: (Operation.UPDATE_STREAM, _check_options),
    DeleteStream: (Operation.DELETE_STREAM, _nothing),
    PurgeStream: (Operation.PURGE_STREAM, _nothing),
    CreateTopic: (Operation.CREATE_TOPIC, _check_topic),
    UpdateTopic: (Operation.UPDATE_TOPIC, _check_topic_update),
    DeleteTopic: (Operation.DELETE_TOPIC, _nothing),
    PurgeTopic: (Operation.PURGE_TOPIC, _nothing),
    CreatePartitions: (Operation.CREATE_PARTITIONS, _check_count),
    DeletePartitions: (Operation.DELETE_PARTITIONS, _check_count),
    TruncatePartition: (Operation.TRUNCATE_PARTITION, _nothing),
    CreateConsumerGroup: (Operation.CREATE_CONSUMER_GROUP, _nothing),
    DeleteConsumerGroup: (Operation.DELETE_CONSUMER_GROUP, _nothing),
    UpdateUser: (Operation.UPDATE_USER, _check_options),
    DeleteUser: (Operation.DELETE_USER, _nothing),
    UpdatePermissions: (Operation.UPDATE_PERMISSIONS, _nothing),
    DeleteToken: (Operation.DELETE_PERSONAL_ACCESS_TOKEN, _nothing),
    RemoveConsumerGroupMember: (Operation.REMOVE_CONSUMER_GROUP_MEMBER, _nothing),
    CompleteConsumerGroupRevocation: (Operation.COMPLETE_CONSUMER_GROUP_REVOCATION, _nothing),
}

WITHOUT_KEY: Final = frozenset(
    {
        int(Operation.REMOVE_CONSUMER_GROUP_MEMBER),
        int(Operation.COMPLETE_CONSUMER_GROUP_REVOCATION),
    }
)
"""Operations of the node, which no session may carry. Doing them twice does no harm."""

_LOGGED: Final[dict[int, Callable[[bytes], Body]]] = {
    **{int(operation): form.decode for form, (operation, _) in _FORMS.items()},
    int(Operation.JOIN_CONSUMER_GROUP): JoinConsumerGroupReplicated.decode,
    int(Operation.LEAVE_CONSUMER_GROUP): LeaveConsumerGroupReplicated.decode,
}


def options(**texts: str) -> bytes:
    """The options of a CreateTopic or UpdateTopic, as the command line takes them: `options(message_expiry="7days")`."""
    return encode_block(OptionEntry(key, KIND_STRING, text.encode()) for key, text in texts.items())


def prepare(request: object) -> Prepared:
    """Check a request. Raises `InvalidRequest`."""
    found = _FORMS.get(type(request))  # type: ignore[arg-type]  # Whatever a plugin hands over is looked up.
    if found is None:
        known = ", ".join(sorted(form.__name__ for form in _FORMS))
        raise InvalidRequest(f"{type(request).__name__} cannot be submitted; these can: {known}")
    assert isinstance(request, Body)
    operation, check = found
    try:
        body = request.encode()
        check(type(request).decode_whole(body))
    except WireError as error:
        raise InvalidRequest(f"{type(request).__name__}: {error}") from error
    if len(body) > BODY_SIZE_MAX:
        raise InvalidRequest(f"{type(request).__name__}: {len(body)} bytes, {BODY_SIZE_MAX} are allowed")
    return Prepared(int(operation), body)


def decode_logged(operation: int, body: bytes) -> Body | None:
    """What was asked, from the body in the log; None where it would hold a secret, or is no request of a plugin's kind.

    Creations of topics and partitions are given as they were asked for, without what the primary assigned.
    """
    if operation == Operation.CREATE_TOPIC_WITH_ASSIGNMENTS:
        return CreateTopicWithAssignments.decode(body).request
    if operation == Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS:
        return CreatePartitionsWithAssignments.decode(body).request
    decode = _LOGGED.get(operation)
    return None if decode is None else decode(body)
