"""Personal access tokens in the replicated state (state-machine 2.1, 5; D-04)."""

import pytest

from levrier.actors.metadata import queries
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.restore import SnapshotInvalid
from levrier.wire.codes import CommandCode
from levrier.wire.requests.replicated import CreatePersonalAccessTokenReplicated, DeletePersonalAccessTokenReplicated
from tests.actors.metadata.support import encoded, restored, sections
from tests.actors.metadata.user_log import NEVER, UserLog, token_hash, with_alice


def users(count: int) -> UserLog:
    """Root and users 1 to `count`."""
    log = UserLog()
    for number in range(1, count + 1):
        log.create_user(f"user{number}")
    return log


def indexed(log: UserLog) -> tuple[int, int, int]:
    """How many tokens each of the three structures holds."""
    tokens = log.machine.users.tokens
    owned = sum(tokens.count(user.id) for user in log.machine.users.freeze())
    return owned, len(tokens), len(tokens.expired(2**64))


def test_a_create_body_survives_its_encoding() -> None:
    """S-024."""
    body = CreatePersonalAccessTokenReplicated(user_id=7, name="ci", expiry=5, token_hash=token_hash(9))
    assert len(body.encode()) == 4 + 1 + 2 + 8 + 64
    assert CreatePersonalAccessTokenReplicated.decode(body.encode()) == body
    assert token_hash(9) not in repr(body)


def test_a_delete_body_survives_its_encoding() -> None:
    """S-025."""
    body = DeletePersonalAccessTokenReplicated(user_id=11, name="ci", only_if_expired=True)
    assert len(body.encode()) == 4 + 1 + 2 + 1
    assert DeletePersonalAccessTokenReplicated.decode(body.encode()) == body


def test_create_and_delete() -> None:
    """S-026: stored under its owner only, and gone without residue."""
    log = users(5)
    assert log.create_token(5, "ci").code == 0
    tokens = log.machine.users.tokens
    assert [tokens.count(user) for user in range(6)] == [0, 0, 0, 0, 0, 1]
    token = tokens.find(token_hash(1))
    assert token is not None
    assert (token.user_id, token.name, token.expires_at) == (5, "ci", None)
    assert log.delete_token(5, "ci").code == 0
    assert indexed(log) == (0, 0, 0)
    assert tokens.find(token_hash(1)) is None


def test_counting() -> None:
    """S-027."""
    log = users(9)
    log.create_token(9, "one", number=1)
    log.create_token(9, "two", number=2)
    tokens = log.machine.users.tokens
    assert (tokens.count(9), tokens.count(8), tokens.count(77)) == (2, 0, 0)
    log.delete_token(9, "one")
    assert tokens.count(9) == 1


def test_an_expiring_token_leaves_the_expiry_index() -> None:
    """S-028."""
    log = users(1)
    log.create_token(1, "soon", 5)
    assert indexed(log) == (1, 1, 1)
    log.delete_token(1, "soon")
    assert indexed(log) == (0, 0, 0)


def test_a_gated_delete_waits_for_the_expiry() -> None:
    """S-029: judged by the timestamp of the op, at which it has expired when the two are equal."""
    log = users(1)
    log.create_token(1, "soon", 3)
    expires_at = log.now + 3
    while log.now + 1 < expires_at:
        before = encoded(log.machine)
        assert log.delete_token(1, "soon", only_if_expired=True).code == 0
        assert encoded(log.machine) == before
    assert log.delete_token(1, "soon", only_if_expired=True).code == 0
    assert log.now == expires_at
    assert indexed(log) == (0, 0, 0)


def test_a_gated_delete_of_what_is_gone_or_never_expires_changes_nothing() -> None:
    log = users(1)
    log.create_token(1, "never", NEVER)
    before = encoded(log.machine)
    assert log.delete_token(1, "never", only_if_expired=True).code == 0
    assert log.delete_token(1, "absent", only_if_expired=True).code == 0
    assert encoded(log.machine) == before


def test_which_tokens_have_expired() -> None:
    """S-030: the earliest first, and in passes of a given size."""
    log = users(2)
    log.create_token(1, "never")
    log.create_token(1, "late", 9, number=2)
    log.create_token(2, "early", 5, number=3)
    tokens = log.machine.users.tokens
    early, late = log.now + 5, log.now - 1 + 9
    assert tokens.expired(early - 1) == []
    assert tokens.expired(early) == [(2, "early")]
    assert tokens.expired(late) == [(2, "early"), (1, "late")]
    assert tokens.expired(late, 1) == [(2, "early")]


def test_listing() -> None:
    """S-031: by name, the caller's own, 0 for never."""
    log = users(9)
    log.create_token(5, "zeta", NEVER, number=1)
    log.create_token(5, "alpha", 100, number=2)
    expires_at = log.now + 100
    log.create_token(9, "other", number=3)
    assert log.own_tokens(5) == [("alpha", expires_at), ("zeta", 0)]
    assert log.own_tokens(4) == []
    assert log.own_tokens(0) == []


def test_a_listing_shows_no_hash_and_takes_no_body() -> None:
    log = users(1)
    log.create_token(1, "ci")
    ask = CommandCode.GET_PERSONAL_ACCESS_TOKENS
    assert token_hash(1).encode() not in queries.answer(log.machine, 1, 7, ask, b"")[1]
    assert queries.answer(log.machine, 1, 7, ask, b"\x00") == (3, b"")


@pytest.mark.parametrize("expiry", [0, NEVER])
def test_two_expiries_mean_never(expiry: int) -> None:
    log = users(1)
    log.create_token(1, "ci", expiry)
    assert log.own_tokens(1) == [("ci", 0)]


def test_an_expiry_past_the_end_of_time_is_not_in_the_future() -> None:
    log = users(1)
    last = 2**64 - 1 - (log.now + 1)
    assert log.create_token(1, "ci", last + 1).code == 56
    assert log.create_token(1, "ci", last - 1).code == 0


def test_a_name_stands_once_per_user() -> None:
    log = users(2)
    log.create_token(1, "ci", number=1)
    before = encoded(log.machine)
    assert log.create_token(1, "ci", number=2).code == 51
    assert encoded(log.machine) == before
    assert log.create_token(2, "ci", number=2).code == 0


def test_a_taken_name_comes_before_a_bad_expiry() -> None:
    log = users(1)
    log.create_token(1, "ci")
    assert log.create_token(1, "ci", NEVER - 1, number=2).code == 51


def test_a_hash_stands_once() -> None:
    """Never minted twice; were it, the first token would be out of reach of its deletion."""
    log = users(2)
    log.create_token(1, "ci")
    assert log.create_token(2, "other").code == 51


def test_a_token_of_nobody_is_refused() -> None:
    """D-04: also for a user who was deleted, so that nothing is left for whoever comes next."""
    log = users(1)
    assert log.create_token(2, "ci").code == 20
    log.delete_user(1)
    assert log.create_token(1, "ci").code == 20
    assert indexed(log) == (0, 0, 0)


@pytest.mark.parametrize(("owner", "name"), [(1, "absent"), (2, "ci"), (77, "ci")])
@pytest.mark.parametrize("gated", [False, True])
def test_deleting_what_is_not_there(owner: int, name: str, gated: bool) -> None:
    log = users(2)
    log.create_token(1, "ci")
    expected = 0 if gated and owner != 77 else 20
    assert log.delete_token(owner, name, only_if_expired=gated).code == expected


def test_tokens_are_everybodys_own_business() -> None:
    """S-022: no right is needed."""
    log = users(1)
    assert log.create_token(1, "ci", user=1).code == 0
    assert log.delete_token(1, "ci", user=1).code == 0


def test_a_snapshot_brings_all_three_structures_back() -> None:
    """D-05: whatever the order of creation, and the bytes are those of the order of names."""
    logs = [users(3), users(3)]
    for log, names in zip(logs, [("zeta", "alpha", "mid"), ("mid", "zeta", "alpha")], strict=True):
        for name in names:
            log.create_token(2, name, number=len(name) * 100 + ord(name[0]))
        log.create_token(3, "soon", 10, number=7)
    assert encoded(logs[0].machine) == encoded(logs[1].machine)
    copy = restored(logs[0].machine)
    assert encoded(copy) == encoded(logs[0].machine)
    expires_at = logs[0].now + 10
    logs[0].machine = copy
    assert indexed(logs[0]) == (4, 4, 1)
    assert logs[0].own_tokens(3) == [("soon", expires_at)]
    assert logs[0].delete_token(3, "soon").code == 0
    assert indexed(logs[0]) == (3, 3, 0)


TOKEN = ["ci", [1, "ci", token_hash(1), None]]


@pytest.mark.parametrize(
    "tokens",
    [
        [["ci", [1, "other", token_hash(1), None]]],
        [["ci", [2, "ci", token_hash(1), None]]],
        [["ci", [1, "ci", token_hash(1)[1:], None]]],
        [["ci", [1, "ci", "X" * 64, None]]],
        [["ci", [1, "ci", None, None]]],
        [["ci", [1, "ci", token_hash(1), -1]]],
        [["", [1, "", token_hash(1), None]]],
        [["ci", [1, "ci", token_hash(1)]]],
        [TOKEN, ["aa", [1, "aa", token_hash(2), None]]],
        [TOKEN, ["ci", [1, "ci", token_hash(2), None]]],
        [TOKEN, ["dd", [1, "dd", token_hash(1), None]]],
        [["ci"]],
        "tokens",
    ],
)
def test_a_snapshot_that_no_machine_made_is_refused(tokens: object) -> None:
    stored, streams = sections(users(1).machine)
    stored[1][1][1] = tokens
    with pytest.raises(SnapshotInvalid):
        MetadataMachine.restore(users=stored, streams=streams, consensus_group_high=0, next_user_id=2)


def test_a_snapshot_with_a_token_is_accepted() -> None:
    """The counterpart of the refusals above."""
    stored, streams = sections(with_alice().machine)
    stored[1][1][1] = [TOKEN]
    machine = MetadataMachine.restore(users=stored, streams=streams, consensus_group_high=0, next_user_id=2)
    assert machine.users.tokens.count(1) == 1
