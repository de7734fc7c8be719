"""The same request again, when what it was judged by is its own work: the bytes of the first answer, in whole members."""

from collections.abc import Iterator

import pytest
from loguru import logger

from levrier.cluster.simulate.frames import NOT_COMMITTED, code, request
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.tokens import CreatePersonalAccessToken
from levrier.wire.requests.users import ChangePassword
from tests.cluster.cluster_steps import Caller, SteppedCluster

TOKENS_MAX = 100


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Nobody reads the log of thousands of virtual seconds."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def served(seed: int) -> tuple[SteppedCluster, Caller]:
    """Three members and a client of the one that leads."""
    cluster = SteppedCluster(seed)
    for replica in range(3):
        cluster.start(replica)
    cluster.world.advance(1_000)
    caller = Caller(cluster, 1)
    assert caller.connect(0)
    assert caller.leader() == 0
    return cluster, caller


def settled(caller: Caller, frame: bytes) -> bytes:
    """The first answer that says more than 57, the same frame sent every 50 ms as an SDK does."""
    for _ in range(100):
        answer = caller.call(frame)
        assert answer is not None
        if code(answer) != NOT_COMMITTED:
            return answer
        caller.cluster.world.advance(50)
    raise AssertionError("57 for five seconds")


def change(caller: Caller, current: str, new: str) -> bytes:
    """The next request of the client: another password for the first user."""
    caller.number += 1
    body = ChangePassword(user=Identifier(0), current_password=current, new_password=new).encode()
    return request(Operation.CHANGE_PASSWORD, body, client=caller.client, session=caller.session, number=caller.number)


def create_token(caller: Caller, name: str) -> bytes:
    """The next request of the client: one more token."""
    caller.number += 1
    body = CreatePersonalAccessToken(name=name, expiry=0).encode()
    return request(
        Operation.CREATE_PERSONAL_ACCESS_TOKEN, body, client=caller.client, session=caller.session, number=caller.number
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_changed_password_is_changed_once(seed: int) -> None:
    """Its current password is wrong the second time, and that is no reason to say so."""
    cluster, caller = served(seed)
    frame = change(caller, "iggy", "other")
    first = caller.call(frame)
    assert first is not None
    assert code(first) == 0
    assert caller.call(frame) == first
    assert cluster.world.failures == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_wrong_password_stays_wrong_when_it_has_become_right(seed: int) -> None:
    _, caller = served(seed)
    wrong = change(caller, "other", "third")
    refused = caller.call(wrong)
    assert refused is not None
    assert code(refused) == 42
    right = caller.call(change(caller, "iggy", "other"))
    assert right is not None
    assert code(right) == 0
    assert caller.call(wrong) == refused


@pytest.mark.parametrize("seed", range(8))
def test_a_change_that_is_sent_twice_at_once_is_never_refused(seed: int) -> None:
    """The second one comes while the first is verified, prepared, applied or cached: 57, or what the first one gets."""
    cluster, caller = served(seed)
    frame = change(caller, "iggy", "other")
    connection = caller.connection
    assert connection is not None
    connection.send(frame)
    connection.send(frame)
    cluster.world.advance(500)
    answers = connection.take_all()
    assert [code(answer) for answer in answers] in ([0, 0], [0, NOT_COMMITTED])
    assert caller.call(frame) == answers[0]


def test_the_last_token_below_the_cap_exists_when_it_is_asked_for_again() -> None:
    """51, as for every token whose secret was shown; the next request is one token too many."""
    _, caller = served(4)
    frame = b""
    for number in range(TOKENS_MAX):
        frame = create_token(caller, f"t-{number}")
        answer = caller.call(frame)
        assert answer is not None
        assert code(answer) == 0
    again = caller.call(frame)
    assert again is not None
    assert code(again) == 51
    surplus = caller.call(create_token(caller, "surplus"))
    assert surplus is not None
    assert code(surplus) == 52


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_change_is_not_made_again_under_the_next_primary(seed: int) -> None:
    """The client logs in elsewhere, with the new password, and sends the same request number: a backup never says 58."""
    cluster, caller = served(seed)
    frame = change(caller, "iggy", "other")
    first = caller.call(frame)
    assert first is not None
    cluster.crash(0)
    cluster.world.advance(8_000)
    for replica in (1, 2):
        assert caller.connect(replica, password="other")
        caller.number -= 1
        assert settled(caller, change(caller, "iggy", "other")) == first


@pytest.mark.parametrize("seed", range(6))
def test_a_backup_that_is_behind_does_not_deny_what_was_executed(seed: int) -> None:
    """Rule 6: it has the login from the primary, and hears of the op that it follows later."""
    _, caller = served(seed)
    body = CreateStream(name="once").encode()

    def create() -> bytes:
        return request(Operation.CREATE_STREAM, body, client=caller.client, session=caller.session, number=1)

    first = caller.call(create())
    assert first is not None
    assert code(first) == 0
    assert caller.connect(2)
    assert settled(caller, create()) == first
