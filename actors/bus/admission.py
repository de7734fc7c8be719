"""Admission: what may go into the log, and in which form (state-machine 9.3, 9.6, 11).

Apply never sees a body that does not decode, an option that the catalog does not know or a partition count out of bounds,
nor a password or a token: those are replaced here. A refusal costs nothing: it is not logged and does not move the client's
watermark.

Most bodies are judged at once and go into the log as they are. The others need something first, of the replicated state or
of a worker thread; they are a `Course`: a generator that yields one question after the other, is sent the answers, and
returns the body.

A course looks at applied state, and the same request may have changed that when it came for the first time. So its outcome
is an answer only behind the client table: what it admits is looked at there like any other request, and what it refuses is
handed on as a refusal, which a request that was executed does not get (design section 3, rules 3 and 4).
"""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from levrier.actors.bus import messages as bus
from levrier.actors.bus import tokens
from levrier.actors.bus.effects import BuildArchive, HashPassword, Question, VerifyPassword
from levrier.actors.bus.session import Session
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import (
    CountTokens,
    FindCredentials,
    FindPasswordHash,
    FindSegmentSize,
    FindToken,
    Survey,
)
from levrier.wire.codes import CLIENT_ALLOWED, ErrorCode, Operation
from levrier.wire.errors import WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.options import refuse_options
from levrier.wire.requests.groups import CreateConsumerGroup, DeleteConsumerGroup, JoinConsumerGroup, LeaveConsumerGroup
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions, DeleteSegments
from levrier.wire.requests.replicated import (
    CreatePersonalAccessTokenReplicated,
    DeletePersonalAccessTokenReplicated,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
    TruncatePartition,
)
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from levrier.wire.requests.users import ChangePassword, CreateUser, DeleteUser, UpdatePermissions, UpdateUser
from levrier.wire.topic_options import UNLIMITED, admit_create, admit_update, check_partitions_count, parse_strictly


class Admitted(NamedTuple):
    """What goes into the log, and the token that may be shown once it has committed; or, with a `refusal`, the status that
    the request gets if it was not executed before."""

    body: bytes
    minted: tokens.Minted | None = None
    refusal: int = 0


class Means(Protocol):
    """What a course may use beside its questions."""

    @property
    def entropy(self) -> Callable[[int], bytes]:
        """Random bytes, fit for secrets."""

    @property
    def max_tokens_per_user(self) -> int:
        """The cap on the tokens of a user, a soft one: two creations at once may both pass it."""


Course: TypeAlias = Generator[Question, Any, Admitted | bytes | ErrorCode]
"""Yields questions, each answered by the message of `ANSWERED_BY`; returns what is admitted, the body that answers a query,
or the status of the refusal.

A course may raise `WireError`, whose code is the status then."""

Start: TypeAlias = Callable[[bus.Ticket, Means], Course]

Admission: TypeAlias = Callable[[bytes, Session], bytes | Start]
"""Gives the body to replicate, or how to come by it. Raises `WireError`, whose code is the status of the refusal."""

ANSWERED_BY: Final[dict[type, type]] = {
    FindSegmentSize: bus.SegmentSize,
    FindPasswordHash: bus.Credentials,
    FindCredentials: bus.Credentials,
    FindToken: bus.TokenOwner,
    VerifyPassword: bus.PasswordVerified,
    HashPassword: bus.PasswordHashed,
    CountTokens: bus.TokenCount,
    Survey: bus.Surveyed,
    StatusQuery: bus.NodeStatus,
    BuildArchive: bus.ArchiveBuilt,
}


def _create_stream(body: bytes, _: Session) -> bytes:
    request = CreateStream.decode(body)
    if request.options:
        refuse_options(request.options)
    return body


def _update_stream(body: bytes, _: Session) -> bytes:
    request = UpdateStream.decode(body)
    if request.options:
        refuse_options(request.options)
    return body


def _create_topic(body: bytes, _: Session) -> bytes:
    request = CreateTopic.decode(body)
    admit_create(request.options, partitions_count=request.partitions_count)
    return body


def _update_topic(body: bytes, _: Session) -> bytes | Start:
    request = UpdateTopic.decode(body)
    if not request.options:
        return body
    cap = parse_strictly(request.options, updating=True).max_topic_size
    if cap is None or cap == UNLIMITED:
        return body

    def check_cap(ticket: bus.Ticket, _: Means) -> Course:
        answer: bus.SegmentSize = yield FindSegmentSize(ticket=ticket, stream=request.stream, topic=request.topic)
        admit_update(request.options, segment_size=answer.segment_size)
        return Admitted(body)

    return check_cap


def _create_partitions(body: bytes, _: Session) -> bytes:
    check_partitions_count(CreatePartitions.decode(body).partitions_count, minimum=1)
    return body


def _delete_partitions(body: bytes, _: Session) -> bytes:
    check_partitions_count(DeletePartitions.decode(body).partitions_count, minimum=1)
    return body


def _delete_segments(body: bytes, _: Session) -> bytes:
    """Committed as a truncation up to an offset (8.3). Without segments nothing is to be deleted: that is offset 0."""
    request = DeleteSegments.decode(body)
    return TruncatePartition(
        stream=request.stream, topic=request.topic, partition_id=request.partition_id, up_to_offset=0
    ).encode()


def _join_group(body: bytes, session: Session) -> bytes:
    """The log names who joins, and what is polled but uncommitted: without messages that is nothing (7.6)."""
    request = JoinConsumerGroup.decode(body)
    return JoinConsumerGroupReplicated(
        stream=request.stream, topic=request.topic, group=request.group, client=session.client
    ).encode()


def _leave_group(body: bytes, session: Session) -> bytes:
    request = LeaveConsumerGroup.decode(body)
    return LeaveConsumerGroupReplicated(
        stream=request.stream, topic=request.topic, group=request.group, client=session.client
    ).encode()


def _create_user(body: bytes, _: Session) -> Start:
    request = CreateUser.decode(body)
    refuse_options(request.options)

    def hash_password(ticket: bus.Ticket, _: Means) -> Course:
        hashed: bus.PasswordHashed = yield HashPassword(ticket=ticket, password=request.password)
        if not hashed.password_hash:
            return _TRY_AGAIN
        return Admitted(replace(request, password=hashed.password_hash).encode())

    return hash_password


def _update_user(body: bytes, _: Session) -> bytes:
    refuse_options(UpdateUser.decode(body).options)
    return body


def _change_password(body: bytes, _: Session) -> Start:
    """The log gets the new hash, or none where the current password is wrong: apply then says 42 (11.2).

    What was verified names the user by its number, which is never given to another one, whatever is renamed meanwhile.
    """
    request = ChangePassword.decode(body)

    def verify_and_hash(ticket: bus.Ticket, _: Means) -> Course:
        stored: bus.Credentials = yield FindPasswordHash(ticket=ticket, user=request.user)
        if stored.user_id is None:
            return Admitted(replace(request, current_password="", new_password="").encode())
        user = Identifier(stored.user_id)
        verified: bus.PasswordVerified = yield VerifyPassword(
            ticket=ticket, password=request.current_password, password_hash=stored.password_hash
        )
        if verified.matches is None:
            return _TRY_AGAIN
        if not verified.matches:
            return Admitted(ChangePassword(user=user, current_password="", new_password="").encode())
        hashed: bus.PasswordHashed = yield HashPassword(ticket=ticket, password=request.new_password)
        if not hashed.password_hash:
            return _TRY_AGAIN
        return Admitted(ChangePassword(user=user, current_password="", new_password=hashed.password_hash).encode())

    return verify_and_hash


def _create_token(body: bytes, session: Session) -> Start:
    request = CreatePersonalAccessToken.decode(body)

    def mint(ticket: bus.Ticket, means: Means) -> Course:
        answer: bus.TokenCount = yield CountTokens(ticket=ticket, user_id=session.user_id)
        if answer.count >= means.max_tokens_per_user:
            return ErrorCode.PERSONAL_ACCESS_TOKENS_LIMIT_REACHED
        secret = tokens.mint(means.entropy)
        replicated = CreatePersonalAccessTokenReplicated(
            user_id=session.user_id,
            name=request.name,
            expiry=request.expiry,
            token_hash=tokens.hash_token(secret),
        ).encode()
        return Admitted(replicated, tokens.minted(secret, replicated))

    return mint


def _delete_token(body: bytes, session: Session) -> bytes:
    request = DeletePersonalAccessToken.decode(body)
    return DeletePersonalAccessTokenReplicated(user_id=session.user_id, name=request.name).encode()


def judged(course: Course) -> Course:
    """The course of an operation, whose refusal is no answer yet: what it looked at may be the work of the same request."""
    outcome: Admitted | bytes | ErrorCode
    try:
        outcome = yield from course
    except WireError as error:
        outcome = error.code
    if isinstance(outcome, ErrorCode) and outcome is not _TRY_AGAIN:
        return Admitted(b"", refusal=int(outcome))
    return outcome


def _decodes(decode: Callable[[bytes], object]) -> Admission:
    def admit(body: bytes, _: Session) -> bytes:
        decode(body)
        return body

    return admit


_TRY_AGAIN: Final = ErrorCode.TRANSIENT_NOT_COMMITTED
"""No memory for a hash: nothing was started, and the same request may come again."""


BODY_SIZE_MAX: Final = 128 * 1024
"""The largest body that is decoded. An options block (100,000 bytes) fits, and grants on 10,000 streams; whoever is logged
in may send any body, and decoding the permissions of one as large as a frame would hold the loop for minutes."""

ADMISSIONS: Final[dict[int, Admission]] = {
    int(Operation.UPDATE_STREAM): _update_stream,
    int(Operation.CREATE_STREAM): _create_stream,
    int(Operation.DELETE_STREAM): _decodes(DeleteStream.decode),
    int(Operation.PURGE_STREAM): _decodes(PurgeStream.decode),
    int(Operation.CREATE_TOPIC): _create_topic,
    int(Operation.UPDATE_TOPIC): _update_topic,
    int(Operation.DELETE_TOPIC): _decodes(DeleteTopic.decode),
    int(Operation.PURGE_TOPIC): _decodes(PurgeTopic.decode),
    int(Operation.CREATE_PARTITIONS): _create_partitions,
    int(Operation.DELETE_PARTITIONS): _delete_partitions,
    int(Operation.DELETE_SEGMENTS): _delete_segments,
    int(Operation.CREATE_CONSUMER_GROUP): _decodes(CreateConsumerGroup.decode),
    int(Operation.DELETE_CONSUMER_GROUP): _decodes(DeleteConsumerGroup.decode),
    int(Operation.JOIN_CONSUMER_GROUP): _join_group,
    int(Operation.LEAVE_CONSUMER_GROUP): _leave_group,
    int(Operation.CREATE_USER): _create_user,
    int(Operation.UPDATE_USER): _update_user,
    int(Operation.DELETE_USER): _decodes(DeleteUser.decode),
    int(Operation.CHANGE_PASSWORD): _change_password,
    int(Operation.UPDATE_PERMISSIONS): _decodes(UpdatePermissions.decode),
    int(Operation.CREATE_PERSONAL_ACCESS_TOKEN): _create_token,
    int(Operation.DELETE_PERSONAL_ACCESS_TOKEN): _delete_token,
}
"""The operations that this node serves. Every other one that a client may send gets code 5 (D-18)."""

assert ADMISSIONS.keys() <= CLIENT_ALLOWED
