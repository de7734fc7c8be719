"""Who may do what, judged from the replicated state just before the op (state-machine 10; D-02, BR-32, BR-38, BR-41)."""

from collections.abc import Callable
from itertools import permutations

import pytest

from levrier.actors.metadata import permissions as rules
from levrier.actors.metadata.machine import Applied
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.permissions import GlobalPermissions, Permissions, StreamPermissions
from levrier.wire.requests.replicated import CompleteConsumerGroupRevocation
from tests.actors.metadata.support import HASH, encoded, restored
from tests.actors.metadata.user_log import MANAGE_STREAMS, MANAGE_USERS, POLL, UserLog, with_alice

ON_STREAM_0 = Permissions(streams=((0, StreamPermissions(manage_topics=True)),))
EVERYWHERE_AND_ON_STREAM = Permissions(
    GlobalPermissions(poll_messages=True, send_messages=True),
    ((3, StreamPermissions(poll_messages=True, send_messages=True)),),
)


def test_without_a_grant_no_stream_is_created() -> None:
    """S-017."""
    log = with_alice()
    assert log.create_stream("s", user=1).code == 41
    assert log.machine.streams.count == 0


def test_with_the_global_grant_a_stream_is_created() -> None:
    """S-018."""
    log = with_alice(MANAGE_STREAMS)
    assert log.create_stream("s", user=1).code == 0
    assert log.machine.streams.count == 1


def test_a_grant_on_one_stream_is_none_on_another() -> None:
    """S-019."""
    log = with_alice(ON_STREAM_0)
    log.create_stream("zero")
    log.create_stream("one")
    assert log.create_topic("zero", "t", [0], user=1).code == 0
    assert log.create_topic("one", "t", [0], user=1).code == 41


def test_everybody_changes_the_own_password_and_no_other() -> None:
    """S-020."""
    log = with_alice()
    log.create_user("bob")
    assert log.change_password("alice", "own", user=1).code == 0
    assert log.change_password(1, "own again", user=1).code == 0
    assert log.change_password("bob", "stolen", user=1).code == 41
    assert log.known("bob").password_hash == HASH
    assert log.change_password("absent", "", user=1).code == 20


def test_the_manager_of_users_changes_the_password_of_another() -> None:
    log = with_alice(MANAGE_USERS)
    log.create_user("bob")
    assert log.change_password("bob", "new", user=1).code == 0


def test_an_operation_of_the_node_passes() -> None:
    """S-021: user 0, whatever it finds."""
    body = CompleteConsumerGroupRevocation(
        stream=Identifier(0), topic=Identifier(0), group_id=0, source_client=1, partition_id=0
    )
    assert UserLog().apply(Operation.COMPLETE_CONSUMER_GROUP_REVOCATION, body, user=0, client=0).code == 0


def test_the_same_log_gives_the_same_codes_and_state() -> None:
    """S-023."""
    logs = [with_alice(), with_alice()]
    codes = [[log.create_stream("root's").code, log.create_stream("alice's", user=1).code] for log in logs]
    assert codes == [[0, 41], [0, 41]]
    assert [log.machine.streams.count for log in logs] == [1, 1]
    assert encoded(logs[0].machine) == encoded(logs[1].machine)


USERS_OPERATIONS: list[tuple[str, Callable[[UserLog], Applied]]] = [
    ("create", lambda log: log.create_user("carol", user=1)),
    ("update", lambda log: log.update_user("bob", "bobby", user=1)),
    ("delete", lambda log: log.delete_user("bob", user=1)),
    ("permissions", lambda log: log.update_permissions("bob", POLL, user=1)),
    ("password", lambda log: log.change_password("bob", "new", user=1)),
    ("update of nobody", lambda log: log.update_user("absent", "bobby", user=1)),
    ("delete of nobody", lambda log: log.delete_user("absent", user=1)),
    ("permissions of nobody", lambda log: log.update_permissions("absent", POLL, user=1)),
]


@pytest.mark.parametrize(("name", "act"), USERS_OPERATIONS, ids=[name for name, _ in USERS_OPERATIONS])
def test_users_are_for_those_who_manage_them(name: str, act: Callable[[UserLog], Applied]) -> None:
    """The caller learns of nobody's existence: only a password change says that there is no such user (10.3)."""
    stranger = with_alice(Permissions(GlobalPermissions(read_users=True, manage_streams=True)))
    stranger.create_user("bob")
    before = encoded(stranger.machine)
    assert act(stranger).code == 41
    assert encoded(stranger.machine) == before
    manager = with_alice(MANAGE_USERS)
    manager.create_user("bob")
    assert act(manager).code == (20 if "nobody" in name else 0)


def test_the_rights_of_root_cannot_be_changed_and_those_of_another_can() -> None:
    """S-036."""
    log = with_alice()
    before = log.known(0).permissions
    assert log.update_permissions("iggy", None).code == 49
    assert log.known(0).permissions == before == Permissions.root()
    assert log.create_stream("s").code == 0
    assert log.update_permissions("absent", None).code == 20
    assert log.update_permissions("alice", MANAGE_STREAMS).code == 0
    assert log.create_stream("t", user=1).code == 0


def test_global_poll_polls_everywhere() -> None:
    """S-037."""
    log = with_alice(POLL)
    assert log.machine.allows(1, rules.POLL, 17, 99)
    assert not log.machine.allows(1, rules.SEND, 17, 99)


def test_rights_taken_away_are_gone_with_the_next_op() -> None:
    """S-038, BR-38."""
    log = with_alice(Permissions(GlobalPermissions(poll_messages=True, manage_streams=True)))
    assert log.create_stream("s", user=1).code == 0
    assert log.update_permissions("alice", None).code == 0
    assert not log.machine.allows(1, rules.POLL, 0, 0)
    assert log.create_stream("t", user=1).code == 41
    assert restored(log.machine).users.permissioner.holders(0) == []


def test_a_deleted_user_is_in_no_index() -> None:
    """S-039."""
    log = with_alice(EVERYWHERE_AND_ON_STREAM)
    assert log.machine.users.permissioner.holders(3) == [1]
    log.delete_user("alice")
    assert log.machine.users.permissioner.holders(3) == []
    assert not log.machine.allows(1, rules.POLL, 3, 0)


def test_rights_are_rebuilt_from_a_snapshot() -> None:
    """S-040: the permission lists of the section are empty, the users' own records bring everything back."""
    log = with_alice(EVERYWHERE_AND_ON_STREAM)
    log.update_permissions("alice", Permissions(streams=EVERYWHERE_AND_ON_STREAM.streams))
    copy = restored(log.machine)
    assert copy.users.permissioner.holders(3) == [1]
    for machine in (log.machine, copy):
        assert machine.allows(1, rules.POLL, 3, 0)
        assert machine.allows(1, rules.SEND, 3, 0)
        assert not machine.allows(1, rules.POLL, 2, 0)
    log.machine = copy
    assert log.update_permissions("alice", POLL).code == 0
    assert copy.users.permissioner.holders(3) == []


def test_root_may_everything() -> None:
    """S-041."""
    machine = UserLog().machine
    for rule in (rules.CREATE_STREAM, rules.READ_SERVERS, rules.POLL, rules.MANAGE_USERS):
        assert machine.allows(0, rule, 1, 1)


def test_a_grant_goes_with_its_stream() -> None:
    """BR-41, D-02: whoever gets the freed id next is not covered by it, also after a restart."""
    log = UserLog()
    for number in range(4):
        log.create_stream(f"s{number}")
    log.create_user("alice", Permissions(streams=((3, StreamPermissions(manage_stream=True)),)))
    assert log.update_stream(3, "renamed", user=1).code == 0
    log.delete_stream(3)
    assert log.known("alice").permissions == Permissions()
    log.create_stream("newcomer")
    assert log.update_stream(3, "stolen", user=1).code == 41
    log.machine = restored(log.machine)
    assert log.update_stream(3, "stolen", user=1).code == 41


STEPS: list[Callable[[UserLog], Applied]] = [
    lambda log: log.update_permissions(1, MANAGE_STREAMS),
    lambda log: log.create_stream("first", user=1),
    lambda log: log.update_permissions(1, None),
    lambda log: log.create_stream("second", user=1),
    lambda log: log.delete_user(1),
    lambda log: log.create_user("bob", MANAGE_STREAMS, user=1),
]


def test_every_order_of_grants_and_acts_is_judged_alike_everywhere() -> None:
    """BR-32: on two replicas, and on one that was restored from a snapshot at any op."""
    outcomes = set()
    for number, order in enumerate(permutations(STEPS)):
        logs = [with_alice(), with_alice(), with_alice()]
        codes: list[list[int]] = [[], [], []]
        for index, step in enumerate(order):
            if index == number % len(STEPS):
                logs[2].machine = restored(logs[2].machine)
            for log, seen in zip(logs, codes, strict=True):
                seen.append(step(log).code)
        assert codes[0] == codes[1] == codes[2]
        states = [encoded(log.machine) for log in logs]
        assert states[0] == states[1] == states[2]
        outcomes.add(tuple(codes[0]))
    assert len(outcomes) > 10


@pytest.mark.parametrize("granted", [False, True])
def test_what_counts_is_the_right_just_before_the_op(granted: bool) -> None:
    """BR-38: a right that came or went while the request was under way."""
    log = with_alice(None if granted else MANAGE_STREAMS)
    log.update_permissions("alice", MANAGE_STREAMS if granted else None)
    assert log.create_stream("s", user=1).code == (0 if granted else 41)
