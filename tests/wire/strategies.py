"""Hypothesis strategies for every request and response body, by field name and width."""

from dataclasses import Field, fields, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from levrier.wire.body import Body
from levrier.wire.identifiers import Identifier
from levrier.wire.options import OptionEntry, encode_block
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from levrier.wire.requests import groups, login, partitions, replicated, streams, system, tokens, topics, users
from levrier.wire.responses import groups as group_responses
from levrier.wire.responses import login as login_responses
from levrier.wire.responses import stats as stats_responses
from levrier.wire.responses import streams as stream_responses
from levrier.wire.responses import system as system_responses
from levrier.wire.responses import tokens as token_responses
from levrier.wire.responses import topics as topic_responses
from levrier.wire.responses import users as user_responses

QUIET = settings(max_examples=50, deadline=None, database=None)
"""Leaves no files behind and does not mind a busy machine."""


def unsigned(bits: int) -> SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


u8, u16, u32, u64, u128 = (unsigned(bits) for bits in (8, 16, 32, 64, 128))

texts = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
identifiers = st.builds(Identifier, u32 | names)
entries = st.builds(OptionEntry, names, st.integers(1, 255), st.binary(min_size=1, max_size=20))
option_lists = st.lists(entries, max_size=4, unique_by=lambda entry: entry.key)
blocks = option_lists.map(encode_block)
floats = st.floats(width=32, allow_nan=False)

topic_permissions = st.builds(TopicPermissions, *[st.booleans()] * 4)
stream_permissions = st.builds(
    StreamPermissions,
    *[st.booleans()] * 6,
    st.dictionaries(u32, topic_permissions, max_size=3).map(lambda found: tuple(sorted(found.items()))),
)
permissions = st.builds(
    Permissions,
    st.builds(GlobalPermissions, *[st.booleans()] * 10),
    st.dictionaries(u32, stream_permissions, max_size=3).map(lambda found: tuple(sorted(found.items()))),
)

BY_WIDTH: dict[str, SearchStrategy[Any]] = {
    **dict.fromkeys(
        [
            "id",
            "client_id",
            "user_id",
            "stream_id",
            "topic_id",
            "partition_id",
            "segments_count",
            "protocol_version",
            "created_view",
            "topics_count",
            "members_count",
            "consumer_groups_count",
            "partitions_count",
            "process_id",
            "streams_count",
            "clients_count",
            "server_semver",
            "threads_count",
        ],
        u32,
    ),
    **dict.fromkeys(
        [
            "created_at",
            "size_bytes",
            "messages_count",
            "message_expiry",
            "max_topic_size",
            "current_offset",
            "expiry",
            "expires_at",
            "session",
            "generation",
            "up_to_offset",
            "memory_usage",
            "total_memory",
            "available_memory",
            "run_time",
            "start_time",
            "read_bytes",
            "written_bytes",
            "messages_size_bytes",
            "hits",
            "misses",
            "free_disk_space",
            "total_disk_space",
        ],
        u64,
    ),
    **dict.fromkeys(["client", "source_client"], u128),
    **dict.fromkeys(["status", "scope", "compression", "kind", "transport"], u8),
    **dict.fromkeys(["tcp", "quic", "http", "websocket"], u16),
    **dict.fromkeys(["stream", "topic", "group", "user"], identifiers),
    **dict.fromkeys(["name", "username", "sdk_name", "sdk_version", "server_version", "key"], names),
    **dict.fromkeys(["password", "current_password", "new_password", "token", "password_hash"], texts),
    **dict.fromkeys(["address", "ip", "description", "hostname", "os_name", "os_version", "kernel_version"], texts),
    **dict.fromkeys(["options", "derived_options", "explicit_options"], blocks),
    **dict.fromkeys(["cpu_usage", "total_cpu_usage", "hit_ratio"], floats),
    "context": st.binary(max_size=10),
    "default": st.binary(max_size=10),
    "compression_algorithm": st.sampled_from((1, 2)),
    "permissions": st.none() | permissions,
    "only_if_expired": st.booleans(),
    "token_hash": st.text("0123456789abcdef", min_size=64, max_size=64),
    "assignments": st.lists(st.tuples(u32, u64), max_size=4).map(tuple),
    "in_flight": st.lists(u32, max_size=4).map(tuple),
    "types": st.lists(u8, max_size=4).map(tuple),
}


def built(form: type[Any], **given: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Values of a dataclass, each field by its name unless given."""
    described: tuple[Field[Any], ...] = fields(form)
    by_name = BY_WIDTH | given
    return st.builds(form, **{field.name: by_name[field.name] for field in described})


def _tuples(item: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.lists(item, max_size=3).map(tuple)


_create_topic = built(topics.CreateTopic)
_create_partitions = built(partitions.CreatePartitions)
_topic_header = built(topic_responses.TopicHeader)
_stream_header = built(stream_responses.StreamHeader)
_partition = built(topic_responses.Partition)
_group = built(group_responses.ConsumerGroup)
_member = st.builds(group_responses.ConsumerGroupMember, id=u32, partitions=_tuples(u32))
_client = built(system_responses.ClientInfo)
_client_group = built(system_responses.ClientGroup, group_id=u32)
_node = built(
    system_responses.ClusterNode,
    name=texts,
    role=st.integers(0, 1),
    status=st.integers(0, 4),
)
_description = built(system_responses.OptionDescription)
_user = built(user_responses.User)
_metrics = built(stats_responses.CacheMetrics)


def _request_strategies() -> dict[type[Any], SearchStrategy[Any]]:
    special: dict[type[Any], SearchStrategy[Any]] = {
        users.UpdateUser: built(users.UpdateUser, username=st.none() | names, status=st.none() | u8),
        replicated.CreateTopicWithAssignments: built(replicated.CreateTopicWithAssignments, request=_create_topic),
        replicated.CreatePartitionsWithAssignments: built(
            replicated.CreatePartitionsWithAssignments, request=_create_partitions
        ),
        replicated.CompleteConsumerGroupRevocation: built(replicated.CompleteConsumerGroupRevocation, group_id=u64),
    }
    found = dict(special)
    for module in (streams, topics, partitions, groups, users, tokens, login, system, replicated):
        for form in vars(module).values():
            if not (isinstance(form, type) and issubclass(form, Body) and form.__module__ == module.__name__):
                continue
            if form not in special:
                found[form] = built(form)
    return found


REQUESTS = _request_strategies()
"""A strategy for every request body."""


def _counted(header: SearchStrategy[Any], items: SearchStrategy[Any], count: str) -> SearchStrategy[Any]:
    """Pairs of a header and its items, the header counting them."""
    return st.tuples(header, _tuples(items)).map(lambda pair: (replace(pair[0], **{count: len(pair[1])}), pair[1]))


RESPONSES: dict[type[Any], SearchStrategy[Any]] = {
    stream_responses.StreamHeader: _stream_header,
    stream_responses.TopicHeader: _topic_header,
    stream_responses.StreamDetails: _counted(_stream_header, _topic_header, "topics_count").map(
        lambda pair: stream_responses.StreamDetails(stream=pair[0], topics=pair[1])
    ),
    stream_responses.StreamList: st.builds(stream_responses.StreamList, streams=_tuples(_stream_header)),
    topic_responses.Partition: _partition,
    topic_responses.TopicDetails: _counted(_topic_header, _partition, "partitions_count").map(
        lambda pair: topic_responses.TopicDetails(topic=pair[0], partitions=pair[1])
    ),
    topic_responses.TopicList: st.builds(topic_responses.TopicList, topics=_tuples(_topic_header)),
    user_responses.User: _user,
    user_responses.UserDetails: st.builds(user_responses.UserDetails, user=_user, permissions=st.none() | permissions),
    user_responses.UserList: st.builds(user_responses.UserList, users=_tuples(_user)),
    token_responses.CreatedToken: built(token_responses.CreatedToken),
    token_responses.PersonalAccessToken: built(token_responses.PersonalAccessToken),
    token_responses.PersonalAccessTokenList: st.builds(
        token_responses.PersonalAccessTokenList, tokens=_tuples(built(token_responses.PersonalAccessToken))
    ),
    group_responses.ConsumerGroup: _group,
    group_responses.ConsumerGroupMember: _member,
    group_responses.ConsumerGroupDetails: _counted(_group, _member, "members_count").map(
        lambda pair: group_responses.ConsumerGroupDetails(group=pair[0], members=pair[1])
    ),
    group_responses.ConsumerGroupList: st.builds(group_responses.ConsumerGroupList, groups=_tuples(_group)),
    group_responses.ConsumerGroupAssignment: st.builds(
        group_responses.ConsumerGroupAssignment, generation=u64, partitions=_tuples(u32)
    ),
    login_responses.LoginResponse: built(login_responses.LoginResponse),
    system_responses.ClientInfo: _client,
    system_responses.ClientGroup: _client_group,
    system_responses.ClientDetails: _counted(_client, _client_group, "consumer_groups_count").map(
        lambda pair: system_responses.ClientDetails(client=pair[0], groups=pair[1])
    ),
    system_responses.ClientList: st.builds(system_responses.ClientList, clients=_tuples(_client)),
    system_responses.ClusterNode: _node,
    system_responses.ClusterMetadata: st.builds(system_responses.ClusterMetadata, name=texts, nodes=_tuples(_node)),
    system_responses.OptionDescription: _description,
    system_responses.OptionDescriptions: st.builds(system_responses.OptionDescriptions, options=_tuples(_description)),
    stats_responses.CacheMetrics: _metrics,
    stats_responses.Stats: built(
        stats_responses.Stats,
        topics_count=u32,
        messages_count=u64,
        server_version=texts,
        cache_metrics=_tuples(_metrics),
    ),
}
"""A strategy for every response body."""
