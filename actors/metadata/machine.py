"""The replicated state machine of the metadata group: users and streams behind one gate (state-machine 1, 3, 10.3).

Apply is a pure function of state, header and body. A rejection is an outcome like any other: it occupies its op, changes
nothing (but the consensus-group high water, D-07) and is replayed. A body that does not decode is no rejection: admission
guarantees that it does, so the log is corrupt and `LogCorrupted` ends the node or refuses the boot.

Register and Logout pass through with an empty body, but a Register of a user who was deleted since its credentials were
verified: it gets 41, and names the user among those whose sessions end, so that none is left of it (D-02). A Logout ends the group
memberships of its client (12). What is no operation of this group commits code 5.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from levrier.actors.metadata import groups, permissions, replies, restore
from levrier.actors.metadata.capture import MetadataCapture
from levrier.actors.metadata.digest import Numbers, combined
from levrier.actors.metadata.frontier import AppliedFrontier, Pairs
from levrier.actors.metadata.options import OptionPool
from levrier.actors.metadata.permissions import Rule
from levrier.actors.metadata.streams import StreamsMachine
from levrier.actors.metadata.users import UsersMachine
from levrier.wire.body import Body
from levrier.wire.codes import Operation
from levrier.wire.error_codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.headers import PrepareHeader
from levrier.wire.replies import result_rejection, result_success
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


class LogCorrupted(Exception):
    """A committed body does not decode. Never a rejection: replicas would differ in what they make of it."""

    def __init__(self, header: PrepareHeader, cause: WireError) -> None:
        super().__init__(f"op {header.op} (operation {header.operation}) does not decode: {cause}")
        self.op = header.op
        self.operation = header.operation


class Applied(NamedTuple):
    """What an op came to: 0 or the code of its rejection, the reply's body, and the users that it deleted (D-02)."""

    code: int
    body: bytes
    dropped_users: tuple[int, ...] = ()


Target = Callable[["MetadataMachine", Any], tuple[int | None, int | None] | None]


class _Entry(NamedTuple):
    """How one operation is decoded, gated and applied.

    `target` gives the ids that the rule looks at, or None when something is missing: apply then says so itself. An entry
    without a rule is for operations of the node and for those that concern the caller alone.
    """

    decode: Callable[[bytes], Body]
    apply: Callable[["MetadataMachine", Any, PrepareHeader], Applied]
    rule: Rule | None
    target: Target


_SUCCESS: Final = Applied(0, result_success())
_PASSED_THROUGH: Final = Applied(0, b"")
_UNAUTHORIZED: Final = Applied(int(ErrorCode.UNAUTHORIZED), result_rejection(int(ErrorCode.UNAUTHORIZED)))
_UNAVAILABLE: Final = Applied(int(ErrorCode.FEATURE_UNAVAILABLE), result_rejection(int(ErrorCode.FEATURE_UNAVAILABLE)))

_REGISTER: Final = int(Operation.REGISTER)
_LOGOUT: Final = int(Operation.LOGOUT)
_WITHOUT_EFFECT: Final = frozenset(
    {int(Operation.RESERVED), int(Operation.REGISTER), int(Operation.NON_REPLICATED), int(Operation.LOGOUT)}
)
"""Operations that neither part of the machine owns (state-machine 1, 12)."""


class MetadataMachine:
    """Everything that is replicated, except the client table.

    Two machines that applied the same ops encode the same bytes, restored in between or not.
    """

    __slots__ = ("_pool", "frontier", "streams", "users")

    def __init__(self) -> None:
        self._pool = OptionPool()
        self.users = UsersMachine(self._pool)
        self.streams = StreamsMachine(self._pool)
        self.frontier = AppliedFrontier()

    @classmethod
    def restore(
        cls,
        *,
        users: object,
        streams: object,
        consensus_group_high: int,
        next_user_id: int,
        frontier: Pairs = (),
        high_water: Pairs = (),
    ) -> "MetadataMachine":
        """Rebuild from the two decoded sections of a snapshot and what stands beside them (D-22).

        Arrays may be lists or tuples. Raises `restore.SnapshotInvalid` when they are not the state of any machine.
        """
        machine = cls()
        machine.users = restore.users(users, machine._pool, next_user_id=next_user_id)
        machine.streams = restore.streams(streams, machine._pool, consensus_group_high=consensus_group_high)
        machine.frontier = restore.frontier(frontier, high_water)
        return machine

    def apply(self, header: PrepareHeader, body: bytes) -> Applied:
        """Apply one committed op. Raises `LogCorrupted` for a body that does not decode."""
        operation = header.operation
        self.frontier.note(header.replica, header.op)
        entry = _TABLE.get(operation)
        if entry is None:
            return self._apply_other(header)
        try:
            request = entry.decode(body)
        except WireError as error:
            raise LogCorrupted(header, error) from error
        if operation in _ASSIGNING:
            assert isinstance(request, CreateTopicWithAssignments | CreatePartitionsWithAssignments)
            self.streams.raise_group_high(request.assignments)
            self.frontier.note_identities(header.replica, request.assignments)
        if header.user_id and not self._permits(header.user_id, entry, request):
            return _UNAUTHORIZED
        return entry.apply(self, request, header)

    def capture(self, op: int, timestamp: int) -> MetadataCapture:
        """The state as it stands, which is the state at `op`, at the cost of copying two lists of pointers."""
        return MetadataCapture(
            op=op,
            timestamp=timestamp,
            consensus_group_high=self.streams.consensus_group_high,
            next_user_id=self.users.next_user_id,
            frontier=self.frontier.positions(),
            high_water=self.frontier.identities(),
            captured_users=self.users.freeze(),
            captured_tokens=self.users.tokens.freeze(),
            captured_streams=self.streams.freeze(),
            revision=self.streams.revision,
            users_digest=self.users.digest.value,
            streams_digest=self.streams.digest.value,
        )

    def digest(self) -> int:
        """The digest of everything replicated here, 64 bits (D-17): equal on every replica at the same op."""
        streams = self.streams
        numbers = Numbers(
            streams.revision,
            streams.consensus_group_high,
            self.users.next_user_id,
            self.frontier.positions(),
            self.frontier.identities(),
        )
        return combined(self.users.digest.value, streams.digest.value, numbers)

    def allows(self, user_id: int, rule: Rule, stream_id: int | None = None, topic_id: int | None = None) -> bool:
        """Whether the user passes the rule at this point of the log. Root always does; a deleted user never."""
        return self.users.permissioner.allows(user_id, rule, stream_id, topic_id)

    def _apply_other(self, header: PrepareHeader) -> Applied:
        if header.operation == _REGISTER and header.user_id and self.users.get(header.user_id) is None:
            return _UNAUTHORIZED._replace(dropped_users=(header.user_id,))
        if header.operation == _LOGOUT:
            groups.remove_client(self.streams, header.client)
        if header.operation in _WITHOUT_EFFECT:
            return _PASSED_THROUGH
        if header.user_id and self.users.get(header.user_id) is None:
            return _UNAUTHORIZED
        return _UNAVAILABLE

    def _permits(self, user_id: int, entry: _Entry, request: Body) -> bool:
        """The gate (state-machine 10.3). A deleted user is refused before anything else is looked at (D-02)."""
        if self.users.get(user_id) is None:
            return False
        if entry.rule is None:
            return True
        target = entry.target(self, request)
        return target is None or self.allows(user_id, entry.rule, *target)

    # One method an operation

    def _bootstrap_root(self, request: BootstrapRoot, header: PrepareHeader) -> Applied:
        self.users.bootstrap_root(request.username, request.password_hash, header.timestamp)
        return _SUCCESS

    def _create_stream(self, request: CreateStream, header: PrepareHeader) -> Applied:
        stream = self.streams.create_stream(request, header.timestamp)
        if isinstance(stream, int):
            return _rejected(stream)
        return Applied(0, result_success(replies.created_stream(stream, request.options)))

    def _update_stream(self, request: UpdateStream, _: PrepareHeader) -> Applied:
        return _outcome(self.streams.update_stream(request))

    def _delete_stream(self, request: DeleteStream, _: PrepareHeader) -> Applied:
        stream = self.streams.delete_stream(request)
        if isinstance(stream, int):
            return _rejected(stream)
        self.users.forget_stream(stream.id)
        return _SUCCESS

    def _purge_stream(self, request: PurgeStream, _: PrepareHeader) -> Applied:
        return _outcome(self.streams.purge_stream(request))

    def _create_topic(self, request: CreateTopicWithAssignments, header: PrepareHeader) -> Applied:
        topic = self.streams.create_topic(request, header.timestamp)
        if isinstance(topic, int):
            return _rejected(topic)
        return Applied(0, result_success(replies.created_topic(topic)))

    def _update_topic(self, request: UpdateTopic, _: PrepareHeader) -> Applied:
        return _outcome(self.streams.update_topic(request))

    def _delete_topic(self, request: DeleteTopic, _: PrepareHeader) -> Applied:
        path = self.streams.delete_topic(request)
        if isinstance(path, int):
            return _rejected(path)
        self.users.forget_topic(path.stream.id, path.topic.id)
        return _SUCCESS

    def _purge_topic(self, request: PurgeTopic, _: PrepareHeader) -> Applied:
        return _outcome(self.streams.purge_topic(request))

    def _create_partitions(self, request: CreatePartitionsWithAssignments, header: PrepareHeader) -> Applied:
        return _outcome(self.streams.create_partitions(request, header.timestamp))

    def _delete_partitions(self, request: DeletePartitions, _: PrepareHeader) -> Applied:
        return _outcome(self.streams.delete_partitions(request))

    def _truncate_partition(self, request: TruncatePartition, _: PrepareHeader) -> Applied:
        return _outcome(self.streams.truncate_partition(request))

    def _create_user(self, request: CreateUser, header: PrepareHeader) -> Applied:
        user = self.users.create(request, header.timestamp)
        if isinstance(user, int):
            return _rejected(user)
        return Applied(0, result_success(replies.created_user(user, request.status, request.options)))

    def _update_user(self, request: UpdateUser, _: PrepareHeader) -> Applied:
        return _outcome(self.users.update(request))

    def _delete_user(self, request: DeleteUser, _: PrepareHeader) -> Applied:
        user = self.users.delete(request)
        if isinstance(user, int):
            return _rejected(user)
        groups.remove_user(self.streams, user.id)
        return _SUCCESS._replace(dropped_users=(user.id,))

    def _change_password(self, request: ChangePassword, header: PrepareHeader) -> Applied:
        user = self.users.resolve(request.user)
        own = user is None or user.id == header.user_id  # A missing target is reported to anybody (10.3).
        if not own and not self.allows(header.user_id, permissions.MANAGE_USERS):
            return _UNAUTHORIZED
        return _outcome(self.users.change_password(request))

    def _update_permissions(self, request: UpdatePermissions, _: PrepareHeader) -> Applied:
        return _outcome(self.users.update_permissions(request))

    def _create_token(self, request: CreatePersonalAccessTokenReplicated, header: PrepareHeader) -> Applied:
        return _outcome(self.users.tokens.create(request, header.timestamp))

    def _delete_token(self, request: DeletePersonalAccessTokenReplicated, header: PrepareHeader) -> Applied:
        return _outcome(self.users.tokens.delete(request, header.timestamp))

    def _create_group(self, request: CreateConsumerGroup, _: PrepareHeader) -> Applied:
        created = groups.create(self.streams, request)
        if isinstance(created, int):
            return _rejected(created)
        group, partitions_count = created
        return Applied(0, result_success(replies.group_details(group, partitions_count)))

    def _delete_group(self, request: DeleteConsumerGroup, _: PrepareHeader) -> Applied:
        return _outcome(groups.delete(self.streams, request))

    def _join_group(self, request: JoinConsumerGroupReplicated, header: PrepareHeader) -> Applied:
        return _outcome(groups.join(self.streams, request, user_id=header.user_id, timestamp=header.timestamp))

    def _leave_group(self, request: LeaveConsumerGroupReplicated, _: PrepareHeader) -> Applied:
        return _outcome(groups.leave(self.streams, request))

    def _remove_member(self, request: RemoveConsumerGroupMember, _: PrepareHeader) -> Applied:
        groups.remove_client(self.streams, request.client)
        return _SUCCESS

    def _complete_revocation(self, request: CompleteConsumerGroupRevocation, _: PrepareHeader) -> Applied:
        groups.complete_revocation(self.streams, request)
        return _SUCCESS

    # What a rule looks at

    def _no_target(self, _: Body) -> tuple[int | None, int | None]:
        return None, None

    def _stream_target(
        self, request: UpdateStream | DeleteStream | PurgeStream
    ) -> tuple[int | None, int | None] | None:
        stream = self.streams.find(request.stream)
        return None if stream is None else (stream.id, None)

    def _new_topic_target(self, request: CreateTopicWithAssignments) -> tuple[int | None, int | None] | None:
        stream = self.streams.find(request.request.stream)
        return None if stream is None else (stream.id, None)

    def _topic_target(
        self,
        request: UpdateTopic
        | DeleteTopic
        | PurgeTopic
        | DeletePartitions
        | TruncatePartition
        | CreateConsumerGroup
        | DeleteConsumerGroup
        | JoinConsumerGroupReplicated
        | LeaveConsumerGroupReplicated,
    ) -> tuple[int | None, int | None] | None:
        path = self.streams.find_topic(request.stream, request.topic)
        return None if isinstance(path, int) else (path.stream.id, path.topic.id)

    def _new_partitions_target(self, request: CreatePartitionsWithAssignments) -> tuple[int | None, int | None] | None:
        path = self.streams.find_topic(request.request.stream, request.request.topic)
        return None if isinstance(path, int) else (path.stream.id, path.topic.id)


def _rejected(code: int) -> Applied:
    return Applied(code, result_rejection(code))


def _outcome(code: int) -> Applied:
    return _rejected(code) if code else _SUCCESS


_M = MetadataMachine
_TABLE: Final[dict[int, _Entry]] = {
    int(operation): entry
    for operation, entry in {
        Operation.UPDATE_STREAM: _Entry(
            UpdateStream.decode, _M._update_stream, permissions.MANAGE_STREAM, _M._stream_target
        ),
        Operation.CREATE_STREAM: _Entry(
            CreateStream.decode, _M._create_stream, permissions.CREATE_STREAM, _M._no_target
        ),
        Operation.DELETE_STREAM: _Entry(
            DeleteStream.decode, _M._delete_stream, permissions.MANAGE_STREAM, _M._stream_target
        ),
        Operation.PURGE_STREAM: _Entry(
            PurgeStream.decode, _M._purge_stream, permissions.MANAGE_STREAM, _M._stream_target
        ),
        Operation.CREATE_TOPIC_WITH_ASSIGNMENTS: _Entry(
            CreateTopicWithAssignments.decode, _M._create_topic, permissions.CREATE_TOPIC, _M._new_topic_target
        ),
        Operation.UPDATE_TOPIC: _Entry(
            UpdateTopic.decode, _M._update_topic, permissions.MANAGE_TOPIC, _M._topic_target
        ),
        Operation.DELETE_TOPIC: _Entry(
            DeleteTopic.decode, _M._delete_topic, permissions.MANAGE_TOPIC, _M._topic_target
        ),
        Operation.PURGE_TOPIC: _Entry(PurgeTopic.decode, _M._purge_topic, permissions.MANAGE_TOPIC, _M._topic_target),
        Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS: _Entry(
            CreatePartitionsWithAssignments.decode,
            _M._create_partitions,
            permissions.MANAGE_TOPIC,
            _M._new_partitions_target,
        ),
        Operation.DELETE_PARTITIONS: _Entry(
            DeletePartitions.decode, _M._delete_partitions, permissions.MANAGE_TOPIC, _M._topic_target
        ),
        Operation.TRUNCATE_PARTITION: _Entry(
            TruncatePartition.decode, _M._truncate_partition, permissions.MANAGE_TOPIC, _M._topic_target
        ),
        Operation.CREATE_USER: _Entry(CreateUser.decode, _M._create_user, permissions.MANAGE_USERS, _M._no_target),
        Operation.UPDATE_USER: _Entry(UpdateUser.decode, _M._update_user, permissions.MANAGE_USERS, _M._no_target),
        Operation.DELETE_USER: _Entry(DeleteUser.decode, _M._delete_user, permissions.MANAGE_USERS, _M._no_target),
        Operation.CHANGE_PASSWORD: _Entry(ChangePassword.decode, _M._change_password, None, _M._no_target),
        Operation.UPDATE_PERMISSIONS: _Entry(
            UpdatePermissions.decode, _M._update_permissions, permissions.MANAGE_USERS, _M._no_target
        ),
        Operation.CREATE_PERSONAL_ACCESS_TOKEN: _Entry(
            CreatePersonalAccessTokenReplicated.decode, _M._create_token, None, _M._no_target
        ),
        Operation.DELETE_PERSONAL_ACCESS_TOKEN: _Entry(
            DeletePersonalAccessTokenReplicated.decode, _M._delete_token, None, _M._no_target
        ),
        Operation.CREATE_CONSUMER_GROUP: _Entry(
            CreateConsumerGroup.decode, _M._create_group, permissions.READ_TOPIC, _M._topic_target
        ),
        Operation.DELETE_CONSUMER_GROUP: _Entry(
            DeleteConsumerGroup.decode, _M._delete_group, permissions.READ_TOPIC, _M._topic_target
        ),
        Operation.JOIN_CONSUMER_GROUP: _Entry(
            JoinConsumerGroupReplicated.decode, _M._join_group, permissions.READ_TOPIC, _M._topic_target
        ),
        Operation.LEAVE_CONSUMER_GROUP: _Entry(
            LeaveConsumerGroupReplicated.decode, _M._leave_group, permissions.READ_TOPIC, _M._topic_target
        ),
        Operation.REMOVE_CONSUMER_GROUP_MEMBER: _Entry(
            RemoveConsumerGroupMember.decode, _M._remove_member, None, _M._no_target
        ),
        Operation.COMPLETE_CONSUMER_GROUP_REVOCATION: _Entry(
            CompleteConsumerGroupRevocation.decode, _M._complete_revocation, None, _M._no_target
        ),
        Operation.BOOTSTRAP_ROOT: _Entry(BootstrapRoot.decode, _M._bootstrap_root, None, _M._no_target),
    }.items()
}
_ASSIGNING: Final = frozenset(
    {int(Operation.CREATE_TOPIC_WITH_ASSIGNMENTS), int(Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS)}
)
assert _TABLE.keys() >= _ASSIGNING
assert not _WITHOUT_EFFECT & _TABLE.keys()
