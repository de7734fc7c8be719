"""No password and no token is found anywhere but in the one answer that shows it (D-20, design section 3 rule 7).

These are the parts of BR-33 and BR-36 that one node and TCP can show.
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
from loguru import logger

from levrier.actors.bus.tokens import hash_token
from levrier.cluster.config import NodeConfig
from levrier.cluster.testing import Server
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.identifiers import Identifier
from levrier.wire.permissions import Permissions
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_payload
from levrier.wire.requests.login import LoginWithToken
from levrier.wire.requests.system import GetSnapshotFile
from levrier.wire.requests.tokens import CreatePersonalAccessToken
from levrier.wire.requests.users import ChangePassword, CreateUser, GetUser, UpdateUser
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.tokens import CreatedToken
from tests.cluster.raw_client import EVICTED, RawClient, code, create_stream, request

FIRST, SECOND, WRONG = "first-MARKER-password", "second-MARKER-password", "wrong-MARKER-password"
USER = "marked-user"
TOKEN_NAME = "marked-token"
ALICE = Identifier(USER)
SMALL = NodeConfig(journal_slots=256)
TO_A_CHECKPOINT = 160
ASK_ALL = GetSnapshotFile(compression=1, types=(100,)).encode()
CREATE_TOKEN = CreatePersonalAccessToken(name=TOKEN_NAME, expiry=0).encode()


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Everything that is logged, at every level."""
    collected: list[str] = []
    sink = logger.add(collected.append, level=0, backtrace=True, diagnose=True)
    yield collected
    logger.remove(sink)


def user_session(server: Server, password: str, client: int) -> RawClient:
    """A connection of the marked user."""
    connection = RawClient(server.host, server.port, client=client)
    assert code(connection.register(username=USER, password=password)) == 0
    return connection


def change(current: str, new: str) -> bytes:
    return ChangePassword(user=ALICE, current_password=current, new_password=new).encode()


def token_login(connection: RawClient, token: str) -> bytes:
    """The answer to a login with a token."""
    body = LoginWithToken(protocol_version=CURRENT, sdk_name="raw", sdk_version="1", token=token).encode()
    return connection.exchange(request(Operation.REGISTER, body, client=connection.client))


def write_secrets(server: Server, frames: list[bytes]) -> str:
    """Create the user, change its password, log in rightly and wrongly, make a token and use it; the token."""
    with RawClient(server.host, server.port, client=1) as root:
        frames.append(root.register())
        body = CreateUser(username=USER, password=FIRST, permissions=Permissions.root()).encode()
        frames.append(root.call(Operation.CREATE_USER, body, number=1))
        assert code(frames[-1]) == 0
        frames.append(root.call(Operation.CREATE_USER, body, number=2))
        assert code(frames[-1]) == 46
        frames.append(root.query(CommandCode.GET_USER, GetUser(user=ALICE).encode()))
    with user_session(server, FIRST, client=2) as session:
        frames.append(session.call(Operation.CHANGE_PASSWORD, change(WRONG, SECOND), number=1))
        assert code(frames[-1]) == 42
        frames.append(session.call(Operation.CHANGE_PASSWORD, change(FIRST, SECOND), number=2))
        assert code(frames[-1]) == 0
    with RawClient(server.host, server.port, client=3) as stranger:
        frames.append(stranger.register(username=USER, password=WRONG))
        assert code(frames[-1]) == EVICTED - EvictionReason.INVALID_CREDENTIALS
    with user_session(server, SECOND, client=4) as session:
        shown = session.call(Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN, number=1)
        token = CreatedToken.decode(result_payload(shown[HEADER_SIZE:])).token
        frames.append(session.call(Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN, number=1))
        assert code(frames[-1]) == 51
        frames.append(session.query(CommandCode.GET_PERSONAL_ACCESS_TOKENS))
    with RawClient(server.host, server.port, client=5) as bearer:
        frames.append(token_login(bearer, token))
        assert code(frames[-1]) == 0
        bearer.epoch = LoginResponse.decode(result_payload(frames[-1][HEADER_SIZE:])).session
        for answer in bearer.pipeline(
            Operation.CREATE_STREAM, [create_stream(f"s{n}") for n in range(TO_A_CHECKPOINT)], number=1
        ):
            assert code(answer) == 0
    return token


def test_secrets_are_in_no_log_line_no_file_and_no_other_frame(tmp_path: Path, lines: list[str]) -> None:
    """D-20: the markers are searched for in the log at every level, journal, snapshot, archive and all answers."""
    frames: list[bytes] = []
    data = tmp_path / "node"
    with Server(data=data, config=SMALL) as server:
        token = write_secrets(server, frames)
        server.restart()
        with user_session(server, SECOND, client=6) as session:
            frames.append(session.query(CommandCode.GET_USERS))
            archive = session.query(CommandCode.GET_SNAPSHOT_FILE, ASK_ALL)
        with RawClient(server.host, server.port, client=7) as bearer:
            assert code(token_login(bearer, token)) == 0
            assert code(token_login(bearer, token + "x")) == 0, "bound already"
    with ZipFile(BytesIO(archive)) as opened:
        frames += [opened.read(name) for name in opened.namelist()]
    files = {path.name: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}
    assert USER.encode() in files["snapshot.bin"], "nothing would be found, whatever it holds"
    assert TOKEN_NAME.encode() in files["snapshot.bin"]
    assert hash_token(token).encode() in files["snapshot.bin"]
    markers = [b"MARKER", token.encode()]
    holders = {name: marker for name, content in files.items() for marker in markers if marker in content}
    assert holders == {}
    assert not [frame for frame in frames for marker in markers if marker in frame]
    logged = "".join(lines)
    assert "serves on" in logged
    for secret in ("MARKER", token, hash_token(token), "$argon2"):
        assert secret not in logged


def test_a_token_is_shown_once_also_after_a_restart(tmp_path: Path) -> None:
    """C-229: the same request again, in the same session resumed, is refused with 51; the token stays good."""
    with Server(data=tmp_path / "node") as server:
        with RawClient(server.host, server.port, client=8) as session:
            session.register()
            shown = session.call(Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN, number=1)
        token = CreatedToken.decode(result_payload(shown[HEADER_SIZE:])).token
        server.restart()
        with RawClient(server.host, server.port, client=8) as session:
            session.register()
            again = session.call(Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN, number=1)
            assert code(again) == 51
        with RawClient(server.host, server.port, client=9) as bearer:
            assert code(token_login(bearer, token)) == 0


def test_the_cap_on_tokens_is_a_setting(tmp_path: Path) -> None:
    """State-machine 11.3: 52 before anything is logged; a delete makes room."""
    config = NodeConfig(max_tokens_per_user=2)
    with Server(data=tmp_path / "node", config=config) as server, RawClient(server.host, server.port) as session:
        session.register()
        create, delete = Operation.CREATE_PERSONAL_ACCESS_TOKEN, Operation.DELETE_PERSONAL_ACCESS_TOKEN
        bodies = [CreatePersonalAccessToken(name=f"t{n}", expiry=0).encode() for n in range(3)]
        codes = [code(session.call(create, body, number=n)) for n, body in enumerate(bodies, start=1)]
        assert codes == [0, 0, 52]
        assert code(session.call(delete, b"\x02t0", number=4)) == 0
        assert code(session.call(create, bodies[2], number=5)) == 0


def test_an_expired_token_does_not_log_in(tmp_path: Path) -> None:
    """Wire 9.2: one microsecond is over before the login comes."""
    with Server(data=tmp_path / "node") as server:
        with RawClient(server.host, server.port, client=8) as session:
            session.register()
            body = CreatePersonalAccessToken(name="brief", expiry=1).encode()
            shown = session.call(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body, number=1)
        token = CreatedToken.decode(result_payload(shown[HEADER_SIZE:])).token
        with RawClient(server.host, server.port, client=9) as bearer:
            assert code(token_login(bearer, token)) == EVICTED - EvictionReason.INVALID_TOKEN


def test_a_token_of_an_inactive_user_is_told_so(tmp_path: Path) -> None:
    """Wire 9.2: eviction 11 for a token, 9 for a password."""
    with Server(data=tmp_path / "node") as server:
        with RawClient(server.host, server.port, client=1) as root:
            root.register()
            root.call(Operation.CREATE_USER, CreateUser(username=USER, password=FIRST).encode(), number=1)
            with user_session(server, FIRST, client=2) as session:
                shown = session.call(Operation.CREATE_PERSONAL_ACCESS_TOKEN, CREATE_TOKEN, number=1)
            root.call(Operation.UPDATE_USER, UpdateUser(user=ALICE, status=2).encode(), number=2)
        token = CreatedToken.decode(result_payload(shown[HEADER_SIZE:])).token
        with RawClient(server.host, server.port, client=9) as bearer:
            assert code(token_login(bearer, token)) == EVICTED - EvictionReason.USER_INACTIVE
            assert code(bearer.register(username=USER, password=FIRST)) == EVICTED - EvictionReason.INVALID_CREDENTIALS
