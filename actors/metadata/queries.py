"""Reads of applied state, behind the read gate (state-machine 10.4, requests 3, 5 to 7, 9.5, 10; D-18,
D-19).

What is asked for is looked up before the caller's rights are: a missing stream or topic is reported as such to anybody who
is logged in. Status 0 with an empty body is the answer for one thing that does not exist.
"""

from collections.abc import Callable
from typing import Final

from levrier.actors.bus.messages import Surveyed
from levrier.actors.metadata import groups, permissions, replies
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.messages import Survey
from levrier.actors.metadata.permissions import ROOT_USER_ID
from levrier.wire.codes import CommandCode, OptionScope
from levrier.wire.error_codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.requests.groups import GetConsumerGroup, GetConsumerGroups, SyncConsumerGroup
from levrier.wire.requests.streams import GetStream
from levrier.wire.requests.system import DescribeOptions
from levrier.wire.requests.topics import GetTopic, GetTopics
from levrier.wire.requests.users import GetUser
from levrier.wire.responses.system import OptionDescriptions
from levrier.wire.topic_options import describe_topic_options

Answer = tuple[int, bytes]
"""Status and body: 0 and a plain body, or an error code and nothing."""

_NOT_FOUND: Final[Answer] = (0, b"")
_MALFORMED: Final[Answer] = (int(ErrorCode.INVALID_COMMAND), b"")
_UNAVAILABLE: Final[Answer] = (int(ErrorCode.FEATURE_UNAVAILABLE), b"")
_UNAUTHORIZED: Final[Answer] = (int(ErrorCode.UNAUTHORIZED), b"")


def answer(machine: MetadataMachine, user_id: int, client: int, code: int, body: bytes) -> Answer:
    """Answer a read of a logged-in user. An unknown code or a malformed body is status 3, a code not served here 5.

    A user who was deleted meanwhile has no rights (D-02), and is told so, or that there is no such user (BR-35, BR-38).
    `client` matters to SYNC_CONSUMER_GROUP alone, which tells a client what it owns.
    """
    query = _QUERIES.get(code)
    if query is None and code != _SYNC_GROUP:
        return _UNAVAILABLE if code in _KNOWN_CODES else _MALFORMED
    if user_id != ROOT_USER_ID and machine.users.get(user_id) is None and code != _GET_USER:
        return _UNAUTHORIZED
    try:
        return _sync_group(machine, client, body) if query is None else query(machine, user_id, body)
    except WireError as error:
        return int(error.code), b""


def survey(machine: MetadataMachine, question: Survey, commit: int) -> Surveyed:
    """What commands about the node need of the replicated state. `commit` is the applied op."""
    user_id = question.user_id
    permitted = user_id == ROOT_USER_ID or (
        machine.users.get(user_id) is not None
        and (not question.restricted or machine.allows(user_id, permissions.READ_SERVERS))
    )
    streams = machine.streams
    memberships = {
        client: tuple(places) for client in question.clients if (places := streams.memberships.of_client(client))
    }
    return Surveyed(
        ticket=question.ticket,
        permitted=permitted,
        streams=streams.count,
        topics=streams.topics_count,
        partitions=streams.partitions_count,
        groups=streams.memberships.groups_count,
        memberships=memberships if permitted else {},
        commit=commit,
    )


def _get_stream(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    stream = machine.streams.find(GetStream.decode(body).stream)
    if stream is None:
        return _NOT_FOUND
    if not machine.allows(user_id, permissions.READ_STREAM, stream.id):
        return _UNAUTHORIZED
    return 0, replies.stream_details(stream)


def _get_streams(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    if body:
        return _MALFORMED
    if not machine.allows(user_id, permissions.READ_STREAMS):
        return _UNAUTHORIZED
    return 0, replies.stream_list(machine.streams.all())


def _get_topic(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    request = GetTopic.decode(body)
    path = machine.streams.find_topic(request.stream, request.topic)
    if isinstance(path, int):
        return _NOT_FOUND
    if not machine.allows(user_id, permissions.READ_TOPIC, path.stream.id, path.topic.id):
        return _UNAUTHORIZED
    return 0, replies.topic_details(path.topic)


def _get_topics(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    stream = machine.streams.find(GetTopics.decode(body).stream)
    if stream is not None and not machine.allows(user_id, permissions.READ_TOPICS, stream.id):
        return _UNAUTHORIZED
    return 0, replies.topic_list(stream)


def _get_user(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    user = machine.users.resolve(GetUser.decode(body).user)
    if user is None:
        return _NOT_FOUND
    if user.id != user_id and not machine.allows(user_id, permissions.READ_USERS):
        return _UNAUTHORIZED
    return 0, replies.user_details(user)


def _get_users(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    if body:
        return _MALFORMED
    if not machine.allows(user_id, permissions.READ_USERS):
        return _UNAUTHORIZED
    return 0, replies.user_list(machine.users.freeze())


def _get_tokens(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    if body:
        return _MALFORMED
    return 0, replies.token_list(machine.users.tokens.of_user(user_id))


def _get_group(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    request = GetConsumerGroup.decode(body)
    at = machine.streams.find_topic(request.stream, request.topic)
    if isinstance(at, int):
        return at, b""
    if not machine.allows(user_id, permissions.READ_TOPIC, at.stream.id, at.topic.id):
        return _UNAUTHORIZED
    path = groups.find(machine.streams, request.stream, request.topic, request.group)
    if isinstance(path, int):
        return _NOT_FOUND
    return 0, replies.group_details(path.group, len(at.topic.partitions))


def _get_groups(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    request = GetConsumerGroups.decode(body)
    at = machine.streams.find_topic(request.stream, request.topic)
    if isinstance(at, int):
        return at, b""
    if not machine.allows(user_id, permissions.READ_TOPIC, at.stream.id, at.topic.id):
        return _UNAUTHORIZED
    partitions_count = len(at.topic.partitions)
    return 0, b"".join(replies.group_header(group, partitions_count) for group in at.topic.groups or ())


def _sync_group(machine: MetadataMachine, client: int, body: bytes) -> Answer:
    """Nothing at all for whoever is no member, of whatever is missing: the SDK makes code 5006 of it (requests 10)."""
    request = SyncConsumerGroup.decode(body)
    path = groups.find(machine.streams, request.stream, request.topic, request.group)
    if isinstance(path, int):
        return _NOT_FOUND
    member = path.group.member_of(client)
    return _NOT_FOUND if member is None else (0, replies.group_assignment(path.group, member))


def _describe_options(machine: MetadataMachine, user_id: int, body: bytes) -> Answer:
    del machine, user_id  # Every logged-in user may ask.
    scope = DescribeOptions.decode(body).scope
    described = _DESCRIBED.get(scope)
    return _MALFORMED if described is None else (0, described)


_GET_USER: Final = int(CommandCode.GET_USER)
_SYNC_GROUP: Final = int(CommandCode.SYNC_CONSUMER_GROUP)
_DESCRIBED: Final[dict[int, bytes]] = {
    int(OptionScope.TOPIC): OptionDescriptions(options=describe_topic_options()).encode(),
    int(OptionScope.STREAM): bytes(4),
    int(OptionScope.USER): bytes(4),
}
"""The answers of DESCRIBE_OPTIONS by scope: the catalogue of streams and of users is empty."""

_QUERIES: Final[dict[int, Callable[[MetadataMachine, int, bytes], Answer]]] = {
    int(CommandCode.GET_STREAM): _get_stream,
    int(CommandCode.GET_STREAMS): _get_streams,
    int(CommandCode.GET_TOPIC): _get_topic,
    int(CommandCode.GET_TOPICS): _get_topics,
    int(CommandCode.DESCRIBE_OPTIONS): _describe_options,
    int(CommandCode.GET_USER): _get_user,
    int(CommandCode.GET_USERS): _get_users,
    int(CommandCode.GET_PERSONAL_ACCESS_TOKENS): _get_tokens,
    int(CommandCode.GET_CONSUMER_GROUP): _get_group,
    int(CommandCode.GET_CONSUMER_GROUPS): _get_groups,
}
_KNOWN_CODES: Final = frozenset(int(code) for code in CommandCode)
