"""A gateway without a Bus around it, request frames to feed it, and readable answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import GatewayEffect, VerifyPassword, WriteFrame
from levrier.actors.bus.gateway import Gateway
from levrier.actors.bus.registry import ClientRegistry, CommitPoint
from levrier.actors.bus.settings import GatewaySettings
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import FindCredentials
from levrier.wire.checksums import xxh3
from levrier.wire.codes import EvictionReason, NodeRole, Operation
from levrier.wire.headers import EvictionHeader, PrepareHeader, ReplyHeader, RequestHeader
from levrier.wire.protocol_version import CURRENT, WINDOW
from levrier.wire.replies import committed_reply, result_code, result_success
from levrier.wire.requests.login import LoginWithPassword
from levrier.wire.responses.system import ClusterMetadata, ClusterNode

CLIENT = 0xC0FFEE
CONNECTION = 7
EPOCH = 11
ROOT = 0
NOW = 1_000_000

CLUSTER = ClusterMetadata(
    name="single-node", nodes=(ClusterNode(name="iggy-node", ip="127.0.0.1", tcp=8090, role=int(NodeRole.LEADER)),)
)
SETTINGS = GatewaySettings(
    cluster=lambda: CLUSTER,
    node_facts=lambda: {"tcp": "127.0.0.1:8090", "pid": 42},
    dummy_password_hash="dummy",
    window=WINDOW,
    server_version="0.1.0",
    entropy=lambda size: bytes(range(size)),
    now_micros=lambda: NOW,
)

E = TypeVar("E")


def request(
    operation: int,
    body: bytes = b"",
    *,
    client: int = CLIENT,
    session: int = EPOCH,
    number: int = 1,
    code: int = 0,
    checksum: int | None = None,
) -> bytes:
    """A request frame as the SDK makes it: NonReplicated ones carry no stamp."""
    stamp = (0 if operation == Operation.NON_REPLICATED else xxh3(body)) if checksum is None else checksum
    header = RequestHeader(
        client=client,
        request=number,
        operation=operation,
        session=session,
        request_checksum=stamp,
        code=code,
        size=256 + len(body),
        timestamp=99,
    )
    return header.encode() + body


def query(code: int, body: bytes = b"", *, client: int = CLIENT, session: int = EPOCH) -> bytes:
    """A NonReplicated request frame."""
    return request(Operation.NON_REPLICATED, body, client=client, session=session, code=code)


def login_body(*, username: str = "iggy", password: str = "iggy", version: int = CURRENT) -> bytes:
    """A login in the password form."""
    return LoginWithPassword(
        protocol_version=version, sdk_name="rust-sdk", sdk_version="0.11.0", username=username, password=password
    ).encode()


def register(body: bytes | None = None, *, client: int = CLIENT) -> bytes:
    """A Register frame."""
    return request(Operation.REGISTER, login_body() if body is None else body, client=client, session=0, number=0)


def committed(
    operation: int, *, op: int, client: int = CLIENT, number: int = 1, body: bytes = result_success()
) -> bytes:
    """The reply frame of a committed operation."""
    prepare = PrepareHeader(op=op, operation=operation, client=client, request=number, timestamp=5)
    return committed_reply(prepare, body)


@dataclass
class Answer:
    """One frame that a client was sent, decoded."""

    frame: bytes
    reply: ReplyHeader | None = None
    eviction: EvictionHeader | None = None
    body: bytes = b""

    @classmethod
    def of(cls, frame: bytes) -> "Answer":
        """Decode a Reply or an Eviction."""
        if frame[60] == 13:
            return cls(frame, eviction=EvictionHeader.decode(frame))
        return cls(frame, reply=ReplyHeader.decode(frame), body=frame[256:])

    @property
    def header(self) -> ReplyHeader:
        """The header of a Reply."""
        assert self.reply is not None, f"evicted: {self.eviction}"
        return self.reply

    @property
    def status(self) -> int:
        """The status of a Reply."""
        return self.header.status

    @property
    def reason(self) -> EvictionReason:
        """The reason of an Eviction."""
        assert self.eviction is not None, f"not evicted: {self.reply}"
        return EvictionReason(self.eviction.reason)

    @property
    def result(self) -> int:
        """The code of the result section."""
        assert self.status == 0
        return result_code(self.body)


@dataclass
class Rig:
    """One gateway and what it said."""

    settings: GatewaySettings = SETTINGS
    connection: int = CONNECTION
    registry: ClientRegistry = field(default_factory=ClientRegistry)
    commit: CommitPoint = field(default_factory=CommitPoint)
    asked: list[GatewayEffect] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.registry.opened(self.connection, "192.0.2.1:40000")
        self.gateway = Gateway(
            connection=self.connection, settings=self.settings, registry=self.registry, commit=self.commit
        )

    def keep(self, effects: list[GatewayEffect]) -> None:
        """Sort effects into questions and answers."""
        for effect in effects:
            if isinstance(effect, WriteFrame):
                self.answers.append(Answer.of(effect.frame))
            else:
                self.asked.append(effect)

    def send(self, frame: bytes) -> None:
        """A frame arrives."""
        self.keep(self.gateway.on_frame(frame))

    def tell(self, answer: bus.Answer) -> None:
        """An actor answers."""
        self.keep(self.gateway.on_answer(answer))

    def take(self, kind: type[E]) -> E:
        """The only question asked since the last look."""
        assert [type(effect) for effect in self.asked] == [kind]
        effect = self.asked.pop()
        assert isinstance(effect, kind)
        return effect

    def answer(self) -> Answer:
        """The only answer since the last look; nothing else was wanted."""
        assert self.asked == []
        assert len(self.answers) == 1
        return self.answers.pop()

    def ask(self, frame: bytes) -> Answer:
        """A frame that is answered at once."""
        self.send(frame)
        return self.answer()

    def assert_silent(self) -> None:
        """Nothing was asked and nothing answered."""
        assert self.asked == []
        assert self.answers == []

    def log_in(self, *, client: int = CLIENT, epoch: int = EPOCH, user_id: int = ROOT) -> Answer:
        """The whole login."""
        self.send(register(client=client))
        ticket = self.take(FindCredentials).ticket
        self.tell(credentials(ticket, user_id=user_id))
        self.tell(bus.PasswordVerified(ticket=self.take(VerifyPassword).ticket, matches=True))
        ticket = ticket_of(self.take(Preflight))
        self.tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=epoch, client=client, number=0)))
        return self.answer()


def credentials(
    ticket: bus.Ticket, *, user_id: int | None = ROOT, active: bool = True, bootstrapped: bool = True
) -> bus.Credentials:
    """What Metadata says of a user name."""
    return bus.Credentials(
        ticket=ticket,
        bootstrapped=bootstrapped,
        user_id=user_id,
        active=active,
        password_hash="" if user_id is None else "stored",
    )


def surveyed(
    ticket: bus.Ticket,
    *,
    permitted: bool = True,
    memberships: dict[int, tuple[tuple[int, int, int], ...]] | None = None,
    commit: int = 33,
) -> bus.Surveyed:
    """What Metadata says of a small catalogue, at commit 33 unless told."""
    return bus.Surveyed(
        ticket=ticket,
        permitted=permitted,
        streams=1,
        topics=2,
        partitions=3,
        groups=4,
        memberships={} if memberships is None else memberships,
        commit=commit,
    )


def node_status(ticket: bus.Ticket) -> bus.NodeStatus:
    """A healthy primary."""
    return bus.NodeStatus(
        ticket=ticket,
        replica=0,
        replica_count=1,
        is_primary=True,
        state="normal",
        view=2,
        log_view=2,
        op=21,
        commit=20,
        applied=20,
        checkpoint=10,
        checkpoints=1,
        log_bytes=4096,
        pipeline=1,
        queued=0,
    )


def ticket_of(preflight: Preflight) -> bus.Ticket:
    """The ticket of a request that somebody waits for."""
    ticket = preflight.request.ticket
    assert ticket is not None
    return ticket


Sender = Callable[[bytes], None]
