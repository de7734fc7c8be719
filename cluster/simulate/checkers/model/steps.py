"""Entries of a log as steps for the reference model: the bodies of requests 2 to 12, taken apart field by field."""

from typing import Any, Final

from levrier.cluster.simulate.checkers.model import rights as rules
from levrier.cluster.simulate.checkers.model.machine import Step
from levrier.cluster.simulate.checkers.model.options import Block
from levrier.cluster.simulate.checkers.model.rights import Rights, StreamRights
from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.options import decode_block
from levrier.wire.permissions import Permissions
from levrier.wire.prepare_header import PrepareHeader
from levrier.wire.requests.groups import CreateConsumerGroup, DeleteConsumerGroup
from levrier.wire.requests.partitions import DeletePartitions
from levrier.wire.requests.replicated import (
    BootstrapRoot,
    CompleteConsumerGroupRevocation,
    CreatePartitionsWithAssignments,
    CreatePersonalAccessTokenReplicated,
    CreateTopicWithAssignments,
    DeletePersonalAccessTokenReplicated,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
    RemoveConsumerGroupMember,
    TruncatePartition,
)
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import DeleteTopic, PurgeTopic, UpdateTopic
from levrier.wire.requests.users import ChangePassword, CreateUser, DeleteUser, UpdatePermissions, UpdateUser


def step_of(header: PrepareHeader, body: bytes) -> Step:
    """The step that a committed entry is. Raises `WireError` for a body that does not decode."""
    kind = BODIES.get(header.operation)
    args: dict[str, Any] = {}
    if kind is not None:
        decode, fields = kind
        request = decode.decode(body)
        args = {ours: _plain(ours, _field(request, theirs)) for ours, theirs in fields.items()}
    return Step(header.operation, header.user_id, header.client, header.timestamp, args)


def _field(request: Any, path: str) -> Any:
    for name in path.split("."):
        request = getattr(request, name)
    return request


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Identifier):
        return value.value
    if name in {"options", "derived"}:
        return block(value)
    if isinstance(value, Permissions):
        return rights(value)
    return value


def block(data: bytes) -> Block:
    """The entries of an options block as they were sent."""
    return tuple((each.key, each.kind, each.value) for each in decode_block(data))


def rights(permissions: Permissions) -> Rights:
    """The permission record by the names of its flags."""
    streams = {
        stream_id: StreamRights(
            _named(rules.STREAM, stream.flags()),
            {topic_id: _named(rules.TOPIC, topic.flags()) for topic_id, topic in stream.topics},
        )
        for stream_id, stream in permissions.streams
    }
    return Rights(_named(rules.GLOBAL, permissions.global_permissions.flags()), streams)


def _named(names: list[str], flags: tuple[bool, ...]) -> set[str]:
    return {name for name, flag in zip(names, flags, strict=True) if flag}


def _same(*names: str, **others: str) -> dict[str, str]:
    return {name: name for name in names} | others


Kind = tuple[type[Body], dict[str, str]]
"""The body of an operation, and the path to each argument in it."""

BODIES: Final[dict[int, Kind]] = {
    64: (
        CreateTopicWithAssignments,
        {
            "stream": "request.stream",
            "name": "request.name",
            "options": "request.options",
            "derived": "derived_options",
            "assignments": "assignments",
        },
    ),
    65: (
        CreatePartitionsWithAssignments,
        {"stream": "request.stream", "topic": "request.topic", "assignments": "assignments"},
    ),
    66: (RemoveConsumerGroupMember, _same("client")),
    67: (
        CompleteConsumerGroupRevocation,
        _same("stream", "topic", "group_id", source="source_client", partition="partition_id"),
    ),
    68: (TruncatePartition, _same("stream", "topic", partition="partition_id", offset="up_to_offset")),
    69: (BootstrapRoot, {"name": "username", "hash": "password_hash"}),
    128: (CreateStream, _same("name", "options")),
    129: (UpdateStream, _same("stream", "name", "options")),
    130: (DeleteStream, _same("stream")),
    131: (PurgeStream, _same("stream")),
    133: (UpdateTopic, _same("stream", "topic", "name", "options")),
    134: (DeleteTopic, _same("stream", "topic")),
    135: (PurgeTopic, _same("stream", "topic")),
    137: (DeletePartitions, _same("stream", "topic", count="partitions_count")),
    139: (CreateConsumerGroup, _same("stream", "topic", "name")),
    140: (DeleteConsumerGroup, _same("stream", "topic", "group")),
    141: (CreateUser, _same("status", "options", name="username", hash="password", rights="permissions")),
    142: (UpdateUser, _same("status", "options", target="user", name="username")),
    143: (DeleteUser, {"target": "user"}),
    144: (ChangePassword, {"target": "user", "hash": "new_password"}),
    145: (UpdatePermissions, {"target": "user", "rights": "permissions"}),
    146: (CreatePersonalAccessTokenReplicated, _same("name", "expiry", owner="user_id", hash="token_hash")),
    147: (DeletePersonalAccessTokenReplicated, _same("name", "only_if_expired", owner="user_id")),
    148: (JoinConsumerGroupReplicated, _same("stream", "topic", "group", "client", "in_flight")),
    149: (LeaveConsumerGroupReplicated, _same("stream", "topic", "group", "client")),
}
