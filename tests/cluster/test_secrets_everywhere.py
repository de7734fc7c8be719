"""The whole life of a password and of a token, and then a search of everything that a node wrote, sent, said or passed on.

D-20, BR-33 on one node. Where a hash has to be (the journal and the snapshot) only hashes are found.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import FrameType
from zipfile import ZipFile

import pytest
from loguru import logger

from levrier.actors.bus.tokens import hash_token
from levrier.actors.runtime import NodeActor
from levrier.cluster.cli.app import run
from levrier.cluster.config import NodeConfig
from levrier.cluster.testing import Server
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.identifiers import Identifier
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_payload
from levrier.wire.requests.login import LoginWithToken
from levrier.wire.requests.system import GetSnapshotFile
from levrier.wire.requests.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from levrier.wire.requests.users import ChangePassword, CreateUser, DeleteUser, GetUser
from levrier.wire.responses.tokens import CreatedToken
from tests.cluster.raw_client import EVICTED, RawClient, code, create_stream

ROOT, NEW_ROOT, FIRST, SECOND, WRONG = (
    f"{which}-MARKER-password" for which in ("root", "new-root", "first", "second", "wrong")
)
SMALL = NodeConfig(journal_slots=256)
TO_A_CHECKPOINT = 150
USERS = ("kept-user", "deleted-user")
INSPECTIONS = ("journal", "superblock", "snapshot")


@dataclass
class Recorded:
    """What was seen of a node: every frame that it sent, every log line, the text of every message between its actors."""

    frames: list[bytes] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    tokens: list[str] = field(default_factory=list)


class Recording(RawClient):
    """A client that keeps each frame, but that which shows a token is kept without it."""

    record: Recorded

    @classmethod
    def to(cls, server: Server, record: Recorded, *, client: int) -> "Recording":
        connection = cls(server.host, server.port, client=client)
        connection.record = record
        return connection

    def receive(self) -> bytes:
        frame = super().receive()
        self.record.frames.append(frame)
        return frame

    def mint(self, name: str, *, number: int) -> str:
        """A new token."""
        shown = self.call(
            Operation.CREATE_PERSONAL_ACCESS_TOKEN,
            CreatePersonalAccessToken(name=name, expiry=0).encode(),
            number=number,
        )
        token = CreatedToken.decode(result_payload(shown[HEADER_SIZE:])).token
        assert self.record.frames.pop() == shown
        self.record.frames.append(shown.replace(token.encode(), b""))
        self.record.tokens.append(token)
        return token


@contextmanager
def watched(record: Recorded) -> Iterator[None]:
    """Every message that an actor of a thread started in here receives, as text; every line that is logged, at any level."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name == "receive" and isinstance(frame.f_locals["self"], NodeActor):
            message = frame.f_locals["message"]
            record.received.add(type(message).__name__)
            record.messages.add(repr(message))

    sink = logger.add(record.lines.append, level=0, backtrace=True, diagnose=True)
    before = threading.getprofile()
    threading.setprofile(note)
    try:
        yield
    finally:
        threading.setprofile(before)
        logger.remove(sink)


def live(server: Server, record: Recorded) -> None:
    """Create, log in, change, fail, mint, log in with a token; delete one of two users and one of two tokens."""
    with Recording.to(server, record, client=1) as root:
        assert code(root.register(password=WRONG)) == EVICTED - EvictionReason.INVALID_CREDENTIALS
        assert code(root.register(password=ROOT)) == 0
        for number, name in enumerate(USERS, start=1):
            body = CreateUser(username=name, password=FIRST).encode()
            assert code(root.call(Operation.CREATE_USER, body, number=number)) == 0
            live_as(server, record, name)
            root.query(CommandCode.GET_USER, GetUser(user=Identifier(name)).encode())
        assert code(root.call(Operation.DELETE_USER, DeleteUser(user=Identifier(USERS[1])).encode(), number=3)) == 0
        assert code(root.call(Operation.CHANGE_PASSWORD, change("iggy", ROOT, NEW_ROOT), number=4)) == 0
        bodies = [create_stream(f"s{number}") for number in range(TO_A_CHECKPOINT)]
        assert {code(answer) for answer in root.pipeline(Operation.CREATE_STREAM, bodies, number=5)} == {0}
        for command in (CommandCode.GET_USERS, CommandCode.GET_STATS, CommandCode.GET_CLIENTS, CommandCode.GET_ME):
            root.query(command)


def live_as(server: Server, record: Recorded, name: str) -> None:
    with Recording.to(server, record, client=2) as session:
        assert code(session.register(username=name, password=FIRST)) == 0
        assert code(session.call(Operation.CHANGE_PASSWORD, change(name, WRONG, SECOND), number=1)) == 42
        assert code(session.call(Operation.CHANGE_PASSWORD, change(name, FIRST, SECOND), number=2)) == 0
        session.mint("kept", number=3)
        deleted = session.mint("deleted", number=4)
        body = DeletePersonalAccessToken(name="deleted").encode()
        assert code(session.call(Operation.DELETE_PERSONAL_ACCESS_TOKEN, body, number=5)) == 0
        session.query(CommandCode.GET_PERSONAL_ACCESS_TOKENS)
        assert code(session.call(Operation.LOGOUT, b"", number=6)) == 0
    for client, token, expected in ((3, record.tokens[-2], 0), (4, deleted, EVICTED - EvictionReason.INVALID_TOKEN)):
        with Recording.to(server, record, client=client) as bearer:
            assert code(bearer.exchange(bearer.frame(Operation.REGISTER, token_login(token), number=0))) == expected


def change(user: str, current: str, new: str) -> bytes:
    return ChangePassword(user=Identifier(user), current_password=current, new_password=new).encode()


def token_login(token: str) -> bytes:
    return LoginWithToken(protocol_version=CURRENT, sdk_name="raw", sdk_version="1", token=token).encode()


def archive_of(server: Server, record: Recorded) -> dict[str, bytes]:
    """The diagnostics archive, unpacked."""
    with Recording.to(server, record, client=8) as root:
        assert code(root.register(password=NEW_ROOT)) == 0
        archive = root.query(CommandCode.GET_SNAPSHOT_FILE, GetSnapshotFile(compression=1, types=(100,)).encode())
    with ZipFile(BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_no_secret_is_found_in_anything_a_node_leaves_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D-20, BR-33: files, frames, log lines, messages, the archive and what `inspect` prints."""
    record = Recorded()
    data = tmp_path / "node"
    with watched(record), Server(data=data, config=SMALL, password=ROOT) as server:
        live(server, record)
        server.restart()
        archive = archive_of(server, record)
    capsys.readouterr()
    for what in INSPECTIONS:
        assert run(["inspect", what, str(data)]) == 0
        assert run(["inspect", what, str(data), "--json"]) == 0
    printed = capsys.readouterr()
    files = {path.name: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
    found_in_snapshot_and_log(files, record)
    places = {
        **files,
        **archive,
        "frames": b"".join(record.frames),
        "log": "".join(record.lines).encode(),
        "messages": "\n".join(sorted(record.messages)).encode(),
        "inspect": (printed.out + printed.err).encode(),
    }
    secrets = [b"MARKER", *(token.encode() for token in record.tokens)]
    assert {name: secret for name, content in places.items() for secret in secrets if secret in content} == {}
    hashes = [b"$argon2", *(hash_token(token).encode() for token in record.tokens)]
    shown = {name: content for name, content in places.items() if name not in {"journal.wal", "snapshot.bin"}}
    assert {name: secret for name, content in shown.items() for secret in hashes if secret in content} == {}


def found_in_snapshot_and_log(files: dict[str, bytes], record: Recorded) -> None:
    """The search below looks at the right things: what may be there is there."""
    assert {"journal.wal", "snapshot.bin", "superblock.a", "superblock.b"} <= files.keys()
    assert USERS[0].encode() in files["snapshot.bin"]
    assert hash_token(record.tokens[0]).encode() in files["snapshot.bin"]
    assert b"$argon2id$" in files["snapshot.bin"]
    assert len(record.tokens) == 2 * len(USERS)
    assert len(record.frames) > TO_A_CHECKPOINT
    assert any("serves on" in line for line in record.lines)
    assert {
        "Preflight",
        "Verdict",
        "Append",
        "Apply",
        "Commit",
        "Credentials",
        "TokenOwner",
    } <= record.received
    assert "PasswordHashed" in record.received
    assert sys.getprofile() is None
