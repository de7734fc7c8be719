"""The birth of a cluster: one id, everybody prepared before anybody is born, whatever crashes when (B-001 to B-004)."""

from itertools import permutations

import pytest

from levrier.actors.birth import core
from levrier.actors.birth.core import BirthCore
from levrier.actors.birth.member_state import Hello, MemberPhase
from tests.actors.birth.members import BLANK, Members, prepared, voter


def born(members: Members) -> bool:
    """Everybody is born as a voter, with one id."""
    owns = list(members.disks.values())
    return len({own.birth_id for own in owns}) == 1 and all(own.phase is MemberPhase.BORN and own.voter for own in owns)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_members_are_born_in_whatever_order_they_come(order: tuple[int, ...]) -> None:
    """B-001."""
    members = Members([BLANK] * 3)
    for replica in order:
        members.start(replica)
        members.tick(3)
    assert born(members)
    for machine in members.up.values():
        assert machine.all(core.Begin) == [core.Begin(birth_id=101, voter=True)]
        assert {effect.replica for effect in machine.all(core.Admit)} == set(range(3)) - {machine.replica}


def test_nobody_is_born_before_everybody_is_prepared() -> None:
    """Each step of replica 0 waits for all: it writes BORN only when it heard PREPARED from both."""
    members = Members([BLANK] * 3)
    for replica in range(3):
        members.start(replica)
    while not any(own.phase is MemberPhase.BORN for own in members.disks.values()):
        assert members.step()
    phases = [own.phase for own in members.disks.values()]
    assert phases == [MemberPhase.BORN, MemberPhase.PREPARED, MemberPhase.PREPARED]


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_crash_after_any_single_step_changes_nothing(victim: int) -> None:
    """B-002 and B-003: restarted, the member goes on with the same id, and nobody took part before it was born."""
    steps = 0
    while True:
        members = Members([BLANK] * 3)
        for replica in range(3):
            members.start(replica)
        taken = sum(members.step() for _ in range(steps))
        if taken < steps:
            break
        before = {own.birth_id for own in members.disks.values()} - {0}
        members.crash(victim)
        members.run()
        members.start(victim)
        members.tick(30)
        assert born(members), steps
        assert not before or {own.birth_id for own in members.disks.values()} == before, steps
        steps += 1
    assert steps > 20


def test_two_of_three_wait_and_say_for_whom() -> None:
    """B-004."""
    members = Members([BLANK] * 3)
    for replica in (0, 1):
        members.start(replica)
    members.tick(200)
    assert [own.phase for own in members.disks.values()] == [MemberPhase.BLANK] * 3
    assert members.up[0].all(core.Waiting)[-1].text == (
        "waiting for first start: 2 of 3 members seen (missing: replica 2 at host-2:90)"
    )
    members.start(2)
    members.tick(2)
    assert born(members)
    assert members.up[0].all(core.Waiting)[-1].text == ""


def test_a_prepared_member_waits_for_replica_0() -> None:
    """It neither votes nor begins by itself, and says whom it has not seen."""
    members = Members([prepared(), prepared(), prepared()])
    members.start(1)
    members.start(2)
    members.tick(100)
    assert members.up[1].all(core.Begin) == []
    assert "replica 0 at host-0:90" in members.up[1].all(core.Waiting)[-1].text


def test_a_prepared_member_is_born_by_anybody_who_is() -> None:
    members = Members([prepared(), prepared(), voter()])
    members.start(1)
    members.start(2)
    members.tick(2)
    assert members.disks[1] == voter()
    assert members.up[1].all(core.Begin) == [core.Begin(birth_id=7, voter=True)]


def test_an_id_that_was_prepared_somewhere_is_used_again() -> None:
    members = Members([BLANK, prepared(44), BLANK]).started()
    assert born(members)
    assert members.disks[0].birth_id == 44


def test_two_prepared_ids_are_never_born() -> None:
    """Replica 0 invents no third one; both values are shown."""
    members = Members([BLANK, prepared(1), prepared(2)]).started()
    members.tick(100)
    assert [own.phase for own in members.disks.values()] == [
        MemberPhase.BLANK,
        MemberPhase.PREPARED,
        MemberPhase.PREPARED,
    ]
    text = members.up[0].all(core.Waiting)[-1].text
    assert f"{1:032x}" in text
    assert f"{2:032x}" in text


def test_a_failed_write_is_asked_for_again() -> None:
    one = BirthCore(replica=1, addresses=["a", "b"], own=BLANK, mint=lambda: 5)
    one.on_peer_up(0)
    hello = Hello(phase=MemberPhase.PREPARED, birth_id=9, voter=False, replica_count=2, admits=True)
    asked = core.Persist(birth_id=9, phase=MemberPhase.PREPARED, voter=False)
    assert asked in one.on_member_state(0, hello)
    assert one.on_persist_failed() == []
    assert asked in one.on_tick()


@pytest.mark.parametrize(
    ("hello", "both"),
    [
        (
            Hello(phase=MemberPhase.BORN, birth_id=8, voter=True, replica_count=3, admits=True),
            (f"{8:032x}", f"{7:032x}"),
        ),
        (Hello(phase=MemberPhase.BORN, birth_id=7, voter=True, replica_count=5, admits=True), ("5 members", "3 here")),
    ],
)
def test_a_member_of_another_cluster_is_refused(hello: Hello, both: tuple[str, str]) -> None:
    """B-009: with both values printed, and it is never admitted."""
    own = BirthCore(replica=1, addresses=["a", "b", "c"], own=voter(), mint=lambda: 5)
    own.on_peer_up(2)
    effects = own.on_member_state(2, hello)
    refused = [effect for effect in effects if isinstance(effect, core.Refuse)]
    assert [effect.replica for effect in refused] == [2]
    assert all(value in refused[0].reason for value in both)
    assert not [effect for effect in effects if isinstance(effect, core.Admit)]


def test_a_lost_hello_is_said_again() -> None:
    """Nothing depends on a frame that arrived: a member that was not heard is told at every tick who this one is."""
    own = BirthCore(replica=1, addresses=["a", "b", "c"], own=voter(), mint=lambda: 5)
    own.on_peer_up(2)
    said = [effect for effect in own.on_tick() if isinstance(effect, core.Send)]
    assert [(effect.replica, type(effect.body)) for effect in said] == [(2, Hello)]


def test_a_peer_that_is_admitted_unheard_is_found() -> None:
    members = Members([voter()] * 3)
    machine = members.start(0)
    machine.core._peers[1].is_admitted = True
    with pytest.raises(AssertionError):
        machine.core.on_tick()
