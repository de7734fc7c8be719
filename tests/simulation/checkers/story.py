"""A committed log as the product makes it, entry by entry, for the checkers to be told of: right, or with one thing wrong."""

from dataclasses import replace

from levrier.actors.metadata.machine import MetadataMachine
from levrier.cluster.simulate.checkers import CommitObserver, History
from levrier.wire.checksums import xxh3
from levrier.wire.codes import CommandCode, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import PrepareHeader, RequestHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare
from levrier.wire.replies import committed_reply, query_reply, result_success, transient_result
from levrier.wire.requests.replicated import BootstrapRoot
from levrier.wire.requests.streams import CreateStream, GetStreams
from levrier.wire.responses.login import LoginResponse

CLUSTER = 99
CLIENT = 7
OTHER = 8
DISCONNECTED = 2**64 - 1


class Story:
    """The log so far. `prepares[n]` and `replies[n]` belong to op n + 1."""

    def __init__(self) -> None:
        self.machine = MetadataMachine()
        self.prepares: list[Prepare] = []
        self.replies: list[bytes] = []
        self.requests: dict[int, bytes] = {}
        """The frame of the request that became an op."""

    @property
    def op(self) -> int:
        return len(self.prepares)

    def commit(self, operation: int, body: bytes = b"", *, client: int = 0, request: int = 0, **fields: int) -> int:
        """One more op, applied by the product's own machine; its number."""
        previous = self.prepares[-1].header if self.prepares else None
        header = PrepareHeader(
            op=self.op + 1,
            operation=operation,
            client=client,
            request=request,
            user_id=0,
            timestamp=1_000 * (self.op + 1),
            commit=self.op,
            group=METADATA_GROUP,
            parent=0 if previous is None else previous.checksum,
            request_checksum=xxh3(body) if client and operation != Operation.REGISTER else 0,
            cluster=CLUSTER,
        )
        prepare = Prepare.seal(replace(header, **fields), body)
        self.prepares.append(prepare)
        self.replies.append(committed_reply(prepare.header, self.machine.apply(prepare.header, prepare.body).body))
        return self.op

    def bootstrap(self) -> int:
        """The root user, with whom every log begins."""
        return self.commit(Operation.BOOTSTRAP_ROOT, BootstrapRoot(username="iggy", password_hash="hash").encode())

    def login(self, client: int = CLIENT) -> int:
        """A session; its epoch."""
        return self.commit(Operation.REGISTER, client=client)

    def create(self, name: str, request: int, *, client: int = CLIENT, session: int = 2) -> int:
        """A stream, asked for in this session."""
        body = CreateStream(name=name).encode()
        op = self.commit(Operation.CREATE_STREAM, body, client=client, request=request)
        self.requests[op] = asked(Operation.CREATE_STREAM, body, client=client, request=request, session=session)
        return op

    def body(self, op: int) -> bytes:
        """The body of the reply of an op."""
        return self.replies[op - 1][HEADER_SIZE:]


def asked(operation: int, body: bytes = b"", *, client: int = CLIENT, request: int = 0, session: int = 0) -> bytes:
    """A request frame as a client sends it."""
    header = RequestHeader(
        client=client,
        request=request,
        operation=operation,
        session=session,
        request_checksum=xxh3(body),
        size=HEADER_SIZE + len(body),
    )
    return header.encode() + body


def transient(frame: bytes, code: int, commit: int = 0) -> bytes:
    """The answer 57, 58 or 59 to a request."""
    return transient_result(RequestHeader.decode(frame), code=code, commit=commit)


def login_answer(frame: bytes, session: int, user: int = 0) -> bytes:
    """The answer to a login."""
    body = result_success(LoginResponse(user_id=user, session=session, protocol_version=1, server_version="1").encode())
    return query_reply(RequestHeader.decode(frame), body, session=session, commit=session)


def get_streams(client: int = CLIENT, session: int = 2) -> bytes:
    """The frame of a read of all streams."""
    body = GetStreams().encode()
    return RequestHeader(
        client=client,
        request=0,
        operation=Operation.NON_REPLICATED,
        session=session,
        code=int(CommandCode.GET_STREAMS),
        size=HEADER_SIZE + len(body),
    ).encode()


def read_answer(frame: bytes, body: bytes, *, commit: int, session: int = 2) -> bytes:
    """The answer to a read."""
    return query_reply(RequestHeader.decode(frame), body, session=session, commit=commit)


class Watched:
    """A story of three replicas under the observer and the history. Each `tell` lets a replica apply up to an op."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.observer = CommitObserver(3)
        self.history = History(self.observer)
        for replica in range(3):
            self.observer.restarted(replica, 1, 0)

    def tell(self, op: int | None = None, *, replica: int = 0, incarnation: int = 1) -> None:
        """The replica applies everything up to this op, by default all."""
        for each in range(self.observer.applied_op(replica) + 1, (self.story.op if op is None else op) + 1):
            index = each - 1
            frame = self.story.prepares[index].frame
            self.observer.applied(replica, incarnation, each, frame, self.story.replies[index])

    def ask(self, op: int) -> None:
        """The client sends the request that becomes this op."""
        header = self.story.prepares[op - 1].header
        self.history.invoked(header.client, header.request, self.story.requests[op], op, 0)

    def answer(self, op: int, frame: bytes | None = None) -> None:
        """The client gets its reply, or this frame."""
        header = self.story.prepares[op - 1].header
        self.history.answered(
            header.client, header.request, self.story.replies[op - 1] if frame is None else frame, op, 0
        )

    def read(self, body: bytes, *, commit: int, session: int = 2, client: int = CLIENT) -> None:
        """The client asks for all streams and gets this."""
        frame = get_streams(client, session)
        self.history.read(client, frame, read_answer(frame, body, commit=commit, session=session), 1, 2, 0)
