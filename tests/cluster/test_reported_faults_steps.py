"""Faults that other systems had, in whole clusters in one thread: clocks that differ, secrets on the links, tokens everywhere."""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest
from loguru import logger

from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.plugins.builtin import TokenCleaner, token_cleaner
from levrier.cluster.config import PluginSetup
from levrier.cluster.simulate.frames import code, request
from levrier.cluster.simulate.watch import encoded_state
from levrier.wire.codes import Command, Operation
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE
from levrier.wire.identifiers import Identifier
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_payload
from levrier.wire.requests.login import LoginWithToken
from levrier.wire.requests.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from levrier.wire.requests.users import ChangePassword, CreateUser
from levrier.wire.responses.tokens import CreatedToken
from tests.cluster.cluster_steps import Caller, SteppedCluster
from tests.cluster.test_plugins_steps import ELECTION_MILLISECONDS, at_leader

HOUR_MICROS = 3_600_000_000
FAST_CLEANER = PluginSetup(plugin=TokenCleaner, settings=token_cleaner.Settings(interval=timedelta(seconds=1)))
TOKENS = 600
"""More than two passes of the cleaner delete."""

REJOIN_MILLISECONDS = 12_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def do(caller: Caller, operation: Operation, body: bytes) -> bytes:
    """Have something committed; what stands behind the header of the answer."""
    caller.number += 1
    frame = request(operation, body, client=caller.client, session=caller.session, number=caller.number)
    answer = caller.call(frame, milliseconds=5_000)
    assert answer is not None
    assert code(answer) == 0, code(answer)
    return answer[HEADER_SIZE:]


def mint(caller: Caller, name: str, *, expiry: int = 0) -> str:
    """A new token; 0: for ever, else microseconds."""
    body = CreatePersonalAccessToken(name=name, expiry=expiry).encode()
    return CreatedToken.decode(result_payload(do(caller, Operation.CREATE_PERSONAL_ACCESS_TOKEN, body))).token


def token_count(cluster: SteppedCluster, replica: int) -> int:
    """How many tokens of root a member has."""
    actor = cluster.node(replica).actor("metadata")
    assert isinstance(actor, MetadataActor)
    return actor.machine.users.tokens.count(0)


class TestClocksThatDiffer:
    """The time of an op is that of who leads; nobody else's clock decides anything."""

    def begin(self, *offsets: int, max_tokens: int = 100) -> tuple[SteppedCluster, Caller]:
        """Three members whose clocks are wrong by this much; a client at the first primary."""
        cluster = SteppedCluster(1, plugins=(FAST_CLEANER,), max_tokens_per_user=max_tokens)
        for replica, offset in enumerate(offsets):
            cluster.start(replica)
            cluster.node(replica).clock.offset_micros = offset
        cluster.world.advance(1_500)
        caller = at_leader(cluster, 1, among=(0, 1, 2))
        assert caller.at == 0
        return cluster, caller

    def test_a_backup_whose_clock_is_an_hour_ahead_deletes_nothing_until_it_leads(self) -> None:
        """BR-37: then the op carries its time, by which the token has expired for every member alike."""
        cluster, caller = self.begin(0, HOUR_MICROS, -HOUR_MICROS)
        mint(caller, "half an hour", expiry=HOUR_MICROS // 2)
        mint(caller, "a day", expiry=24 * HOUR_MICROS)
        cluster.world.advance(10_000)
        assert [token_count(cluster, replica) for replica in range(3)] == [2, 2, 2]
        cluster.crash(0)
        cluster.world.advance(ELECTION_MILLISECONDS)
        assert at_leader(cluster, 2, among=(1, 2)).at == 1
        cluster.start(0)
        cluster.world.advance(REJOIN_MILLISECONDS)
        assert [token_count(cluster, replica) for replica in range(3)] == [1, 1, 1]
        ends = [encoded_state(cluster.node(replica), 1).parts() for replica in range(3)]
        assert ends == [ends[0]] * 3

    def test_a_leader_whose_clock_is_behind_keeps_what_its_own_time_has_not_reached(self) -> None:
        """BR-37: two members would say that it has expired."""
        cluster, caller = self.begin(-HOUR_MICROS, HOUR_MICROS, HOUR_MICROS)
        mint(caller, "half an hour", expiry=HOUR_MICROS // 2)
        cluster.world.advance(10_000)
        assert [token_count(cluster, replica) for replica in range(3)] == [1, 1, 1]

    def test_many_expired_tokens_are_gone_in_passes_and_a_login_meanwhile_is_answered(self) -> None:
        """BR-37."""
        cluster, caller = self.begin(0, 0, 0, max_tokens=TOKENS)
        for number in range(TOKENS):
            mint(caller, f"t{number}", expiry=HOUR_MICROS)
        for replica in range(3):
            cluster.node(replica).clock.offset_micros = 2 * HOUR_MICROS
        assert cluster.world.run_until(lambda: 0 < token_count(cluster, 0) < TOKENS, max_milliseconds=5_000)
        assert Caller(cluster, 2).connect(0, attempts=1), "within 200 ms"
        assert token_count(cluster, 0) > 0, "the cleaner was still at it"
        cluster.world.advance(5_000)
        assert [token_count(cluster, replica) for replica in range(3)] == [0, 0, 0]


class Recorded:
    """Perfect links that keep what they carried."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def is_cut(self, source: int, target: int) -> bool:  # noqa: ARG002
        """Everything gets through."""
        return False

    def copies(self, source: int, target: int, frame: bytes) -> Sequence[int]:  # noqa: ARG002
        """One copy, at once."""
        self.frames.append(frame)
        return (0,)

    def commands(self) -> set[int]:
        """What kinds of frames there were."""
        return {frame[COMMAND_OFFSET] for frame in self.frames}


def test_no_secret_is_found_in_the_frames_between_members() -> None:
    """BR-33: prepares, forwarded logins and a state transfer. A hash of the simulator ends in its password; only there is it."""
    links = Recorded()
    cluster = SteppedCluster(1, policy=links, plugins=())
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_000)
    caller = at_leader(cluster, 1, among=(0, 1, 2))
    cluster.crash(2)
    do(caller, Operation.CREATE_USER, CreateUser(username="user", password="MARKER-first").encode())
    change = ChangePassword(user=Identifier("user"), current_password="MARKER-first", new_password="MARKER-second")
    do(caller, Operation.CHANGE_PASSWORD, change.encode())
    token = mint(caller, "t")
    for number in range(280):
        assert caller.create(f"s{number}")
    assert login_with_token(cluster, 1, token, number=5) == 0
    cluster.start(2)
    cluster.world.advance(REJOIN_MILLISECONDS)
    reader = Caller(cluster, 2)
    assert reader.connect(2)
    assert reader.status()["checkpoint"] > 0, "a state transfer brought it here"
    assert {Command.PREPARE, Command.STATE_CHUNK, Command.FORWARD_REGISTER} <= links.commands()
    carried = b"".join(links.frames)
    hashes = re.compile(rb"\$[0-9a-f]{32}\$MARKER-(first|second)")
    assert hashes.search(carried), "the search looks at the right frames"
    assert b"MARKER" not in hashes.sub(b"", carried)
    assert token.encode() not in carried


def login_with_token(cluster: SteppedCluster, replica: int, token: str, *, number: int) -> int:
    """What a member answers, 0 for success."""
    caller = Caller(cluster, number)
    caller.connection = cluster.transports[replica].connect()
    body = LoginWithToken(protocol_version=CURRENT, sdk_name="raw", sdk_version="1", token=token).encode()
    answer = caller.call(request(Operation.REGISTER, body, client=caller.client), milliseconds=2_000)
    assert answer is not None
    return code(answer)


def test_a_token_is_known_and_forgotten_on_every_member_and_after_a_restart_of_each() -> None:
    """BR-36: made through one member and another connection, since TCP is the one way to make and to use them."""
    cluster = SteppedCluster(1, plugins=())
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_000)
    caller = at_leader(cluster, 1, among=(0, 1, 2))
    kept, deleted = mint(caller, "kept"), mint(caller, "deleted")
    assert login_with_token(cluster, 0, kept, number=2) == 0
    cluster.world.advance(1_000)
    assert login_with_token(cluster, 1, kept, number=3) == 0
    do(caller, Operation.DELETE_PERSONAL_ACCESS_TOKEN, DeletePersonalAccessToken(name="deleted").encode())
    cluster.world.advance(1_000)
    for restarted in (None, 1, 0):
        if restarted is not None:
            cluster.crash(restarted)
            cluster.start(restarted)
            cluster.world.advance(REJOIN_MILLISECONDS)
        for replica in (0, 1):
            assert login_with_token(cluster, replica, kept, number=10 + replica) == 0
            assert login_with_token(cluster, replica, deleted, number=20 + replica) != 0
