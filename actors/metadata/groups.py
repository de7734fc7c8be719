"""What clients do with consumer groups, and what befalls their memberships (state-machine 7; D-02).

Groups are data of their topic, so these are functions on the streams machine. Each decides first and changes afterwards:
stream (1009), topic (2010), group (5000), then the rest. They return 0 or the code of the rejection, or what they created
instead of 0. A member is a client of the headers; ids of members are the lowest free in their group.
"""

from bisect import insort
from typing import Final, NamedTuple

from levrier.actors.metadata import rebalance
from levrier.actors.metadata.records import ConsumerGroup, Member
from levrier.actors.metadata.streams import StreamsMachine, TopicPath
from levrier.wire.error_codes import ErrorCode
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import CreateConsumerGroup, DeleteConsumerGroup
from levrier.wire.requests.replicated import (
    CompleteConsumerGroupRevocation,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
)

_NO_GROUP: Final = int(ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND)
_GROUP_EXISTS: Final = int(ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
_NO_MEMBER: Final = int(ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND)


class GroupPath(NamedTuple):
    """A group and the topic that it is part of."""

    at: TopicPath
    group: ConsumerGroup


def find(streams: StreamsMachine, stream: Identifier, topic: Identifier, group: Identifier) -> GroupPath | int:
    """The group that these identifiers name, or the code that says which of them is missing."""
    at = streams.find_topic(stream, topic)
    if isinstance(at, int):
        return at
    groups = at.topic.groups
    record = None if groups is None else groups.find(group.value)
    return _NO_GROUP if record is None else GroupPath(at, record)


def create(streams: StreamsMachine, request: CreateConsumerGroup) -> tuple[ConsumerGroup, int] | int:
    """139: stream (1009), topic (2010), name free (5004). The group, and how many partitions its topic has."""
    at = streams.find_topic(request.stream, request.topic)
    if isinstance(at, int):
        return at
    groups = at.topic.groups
    if groups is not None and groups.id_of(request.name) is not None:
        return _GROUP_EXISTS
    return streams.add_group(at, request.name), len(at.topic.partitions)


def delete(streams: StreamsMachine, request: DeleteConsumerGroup) -> int:
    """140: stream (1009), topic (2010), group (5000). The revision moves, since stored offsets are to be dropped."""
    path = find(streams, request.stream, request.topic, request.group)
    if isinstance(path, int):
        return path
    streams.remove_group(path.at, path.group)
    streams.bump()
    return 0


def join(streams: StreamsMachine, request: JoinConsumerGroupReplicated, *, user_id: int, timestamp: int) -> int:
    """148: stream (1009), topic (2010), group (5000). Joining again changes nothing."""
    path = find(streams, request.stream, request.topic, request.group)
    if isinstance(path, int):
        return path
    at, group = path
    if group.member_of(request.client) is not None:
        return 0
    taken = {member.id for member in group.members}
    member_id = next(key for key in range(len(taken) + 1) if key not in taken)
    members = list(group.members)
    insort(members, Member(member_id, request.client, user_id), key=lambda member: member.id)
    joined = rebalance.cooperative(
        group._replace(members=tuple(members)),
        at.topic.partition_ids,
        in_flight=frozenset(request.in_flight),
        now=timestamp,
    )
    streams.put_group(at, joined)
    return 0


def leave(streams: StreamsMachine, request: LeaveConsumerGroupReplicated) -> int:
    """149: stream (1009), topic (2010), group (5000), membership (5006)."""
    path = find(streams, request.stream, request.topic, request.group)
    if isinstance(path, int):
        return path
    if path.group.member_of(request.client) is None:
        return _NO_MEMBER
    _remove_member(streams, path, request.client)
    return 0


def remove_client(streams: StreamsMachine, client: int) -> None:
    """66, and the part of a committed Logout: the client leaves all its groups, no other group changes (7.4)."""
    places = streams.memberships.of_client(client)
    for place in places:
        at = streams.topic_at(place)
        _remove_member(streams, _group_at(at, place.group_id), client)
    if places:
        streams.bump()


def remove_user(streams: StreamsMachine, user_id: int) -> None:
    """A user was deleted: every membership of that user ends in the same apply, as by a Logout (D-02)."""
    memberships = streams.memberships.of_user(user_id)
    for place, client in memberships:
        at = streams.topic_at(place)
        _remove_member(streams, _group_at(at, place.group_id), client)
    if memberships:
        streams.bump()


def complete_revocation(streams: StreamsMachine, request: CompleteConsumerGroupRevocation) -> None:
    """67: hand a partition over to its target, or do nothing when anything that it names is missing (7.4)."""
    at = streams.find_topic(request.stream, request.topic)
    if isinstance(at, int) or at.topic.groups is None:
        return
    group = at.topic.groups.find(request.group_id)
    if group is None:
        return
    completed = rebalance.complete(group, request.source_client, request.partition_id)
    if completed is not None:
        streams.put_group(at, completed)
        streams.bump()


def _group_at(at: TopicPath, group_id: int) -> GroupPath:
    assert at.topic.groups is not None
    group = at.topic.groups.find(group_id)
    assert group is not None
    return GroupPath(at, group)


def _remove_member(streams: StreamsMachine, path: GroupPath, client: int) -> None:
    members = tuple(member for member in path.group.members if member.client != client)
    assert len(members) == len(path.group.members) - 1
    remaining = path.group._replace(members=members)
    streams.put_group(path.at, rebalance.eager(remaining, path.at.topic.partition_ids))
