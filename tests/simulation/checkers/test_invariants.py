"""The checker of section 16's invariants fires on each kind of broken replica, log, superblock or frame, and on no sound one."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from levrier.actors.client_table.table import ClientTable
from levrier.actors.consensus.pipeline import PrepareEntry
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import ReplicaState, Status, TransferStage, TruncationState
from levrier.cluster.simulate.checkers import CommitObserver, InvariantChecker, LiveReplica, Rule, Violation
from levrier.cluster.simulate.checkers.invariants import TABLE_CHECKS_EVERY
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.superblock import SuperblockStore, VsrState
from levrier.wire.control import ControlHeader
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare
from tests.actors.consensus.builders import admit
from tests.actors.consensus.peers import heartbeat, member, prepare_ok, reborn
from tests.simulation.checkers.story import Story
from tests.simulation.checkers.test_commits import violates

FOLDER = Path("/metadata")
HEAD = 5
COMMIT = 3


def story() -> Story:
    story = Story()
    story.bootstrap()
    story.login()
    for number in range(1, HEAD - 1):
        story.create(f"s{number}", number)
    return story


@dataclass
class Member:
    """One member with a disk of its own, which holds what the core takes for durable."""

    replica: Replica
    storage: SimulatedStorage = field(default_factory=lambda: SimulatedStorage(Random(1)))

    def __post_init__(self) -> None:
        self.storage.make_directory(FOLDER)
        self.journal = PrepareJournal.open(
            self.storage,
            FOLDER / "journal.wal",
            group=METADATA_GROUP,
            snapshot_op=0,
            slots=64,
            epoch_source=partial(Random(2).getrandbits, 64),
            preallocate_step=4096,
        )
        self.superblock = SuperblockStore.open(self.storage, FOLDER)
        self.record(view=self.state.view, log_view=self.state.log_view)

    @property
    def state(self) -> ReplicaState:
        return self.replica.state

    @property
    def live(self) -> LiveReplica:
        return LiveReplica(state=self.state, journal=self.journal, superblock=self.superblock)

    def record(self, **fields: Any) -> None:
        self.superblock.write(replace(VsrState(cluster=1, replica_id=0, replica_count=3), **fields))


class Three:
    """Three members in view 3, led by replica 0: five ops in every log, three of them applied everywhere."""

    def __init__(self) -> None:
        self.story = story()
        self.observer = CommitObserver(3)
        self.checker = InvariantChecker(self.observer, 3)
        self.members = [Member(member(each, chain=self.story.prepares, commit=COMMIT, view=3)) for each in range(3)]
        for replica, each in enumerate(self.members):
            each.journal.append(self.story.prepares)
            each.state.unverified.clear()
            self.observer.restarted(replica, 1, COMMIT, [prepare.frame for prepare in self.story.prepares[:COMMIT]])

    def check(self) -> None:
        self.checker.check([each.live for each in self.members])

    @property
    def leader(self) -> ReplicaState:
        return self.members[0].state

    @property
    def backup(self) -> ReplicaState:
        return self.members[1].state

    def sent(self, header: ControlHeader, replica: int = 1) -> None:
        self.checker.sent(self.members[replica].live, header.encode())

    def lead_on(self, op: int) -> None:
        """The leader has an inherited entry in its pipeline."""
        for each in range(self.leader.commit_min + 1, op + 1):
            self.leader.pipeline.push_prepare(PrepareEntry(self.story.prepares[each - 1], None), is_inherited=True)
        self.leader.timeouts.prepare.start()


@pytest.fixture
def three() -> Three:
    three = Three()
    three.check()
    return three


def is_broken(number: str) -> Any:
    return pytest.raises(Violation, match=f"^{Rule.INVARIANT}: {number}, ")


def test_sound_members_are_sound_at_every_look(three: Three) -> None:
    three.check()
    three.lead_on(HEAD)
    three.check()
    for each in three.members:
        each.state.commit_max = each.state.apply_sent = 4
    three.check()


def test_a_leader_with_a_new_request_on_its_way_to_the_disk_is_sound(three: Three) -> None:
    three.leader.commit_min = three.leader.apply_sent = three.leader.commit_max = HEAD
    three.observer.applied(0, 1, 4, three.story.prepares[3].frame, None)
    three.observer.applied(0, 1, 5, three.story.prepares[4].frame, None)
    admit(three.members[0].replica, 9)
    assert three.leader.mirror.outstanding_count == 1
    three.check()


# I1, I2, I14


def _swap_commits(state: ReplicaState) -> None:
    state.commit_max = state.commit_min - 1


def _apply_unsent(state: ReplicaState) -> None:
    state.apply_sent = state.commit_min - 1


def _commit_back(state: ReplicaState) -> None:
    state.commit_min = state.apply_sent = 2


def _view_back(state: ReplicaState) -> None:
    state.view = state.log_view = state.gate.view_durable = state.gate.log_view_durable = 0


def _checkpoint_ahead(state: ReplicaState) -> None:
    state.checkpoint.snapshot_op = 4


@pytest.mark.parametrize("breaks", [_swap_commits, _apply_unsent, _commit_back, _view_back, _checkpoint_ahead])
def test_frontiers_that_pass_each_other_or_go_back_are_found(
    three: Three, breaks: Callable[[ReplicaState], None]
) -> None:
    breaks(three.backup)
    with is_broken("I1"):
        three.check()


def test_a_state_machine_that_is_not_where_the_replica_has_sent_it_is_found(three: Three) -> None:
    three.observer.applied(1, 1, 4, three.story.prepares[3].frame, None)
    with is_broken("I1"):
        three.check()


def _log_view_ahead(state: ReplicaState) -> None:
    state.log_view = 4


def _durable_ahead(state: ReplicaState) -> None:
    state.gate.view_durable = 4


def _normal_without_log(state: ReplicaState) -> None:
    state.log_view = state.gate.log_view_durable = 2


@pytest.mark.parametrize("breaks", [_log_view_ahead, _durable_ahead, _normal_without_log])
def test_views_that_pass_each_other_are_found(three: Three, breaks: Callable[[ReplicaState], None]) -> None:
    three.checker = InvariantChecker(three.observer, 3)
    breaks(three.backup)
    with is_broken("I2"):
        three.check()


def test_a_view_that_is_taken_for_durable_and_is_not_is_found(three: Three) -> None:
    for name in ("view", "log_view"):
        setattr(three.backup, name, 4)
        setattr(three.backup.gate, f"{name}_durable", 4)
    with is_broken("I2"):
        three.check()


# I3, I5, I10


def test_a_pipeline_on_a_backup_is_found(three: Three) -> None:
    three.backup.pipeline.push_prepare(PrepareEntry(three.story.prepares[3], None))
    with is_broken("I3"):
        three.check()


def test_a_pipeline_that_does_not_begin_above_what_is_applied_is_found(three: Three) -> None:
    three.leader.pipeline.push_prepare(PrepareEntry(three.story.prepares[4], None))
    three.leader.timeouts.prepare.start()
    with is_broken("I3"):
        three.check()


def test_a_pipeline_that_does_not_chain_is_found(three: Three) -> None:
    three.lead_on(HEAD)
    last = three.leader.pipeline.prepares[-1]
    last.prepare = Prepare.seal(replace(last.prepare.header, parent=1), last.prepare.body)
    with is_broken("I3"):
        three.check()


def test_a_pipeline_deeper_than_its_depth_is_found(three: Three) -> None:
    three.lead_on(HEAD)
    three.leader.pipeline.depth = 1
    with is_broken("I3"):
        three.check()


def test_a_pipeline_above_the_head_is_found(three: Three) -> None:
    three.lead_on(HEAD)
    three.leader.sequencer = 4
    with is_broken("I3"):
        three.check()


def test_an_entry_in_the_pipeline_that_its_log_does_not_have_is_found(three: Three) -> None:
    three.lead_on(HEAD)
    last = three.leader.pipeline.prepares[-1]
    last.prepare = Prepare.seal(replace(last.prepare.header, timestamp=9_999), last.prepare.body)
    with is_broken("I10"):
        three.check()


def test_a_prepare_timer_that_stands_still_behind_a_full_pipeline_is_found(three: Three) -> None:
    three.lead_on(HEAD)
    three.leader.timeouts.prepare.stop()
    with is_broken("I5"):
        three.check()


def test_a_prepare_timer_that_runs_for_nothing_is_found(three: Three) -> None:
    three.leader.timeouts.prepare.start()
    with is_broken("I5"):
        three.check()


# I6, I7, I9


def test_a_log_that_does_not_chain_is_found_unless_the_view_has_not_proven_it(three: Three) -> None:
    mirror = three.backup.mirror
    mirror.truncate_from(HEAD)
    other = Prepare.seal(replace(three.story.prepares[HEAD - 1].header, parent=1), b"").header
    mirror.submit(other)
    three.backup.unverified = {HEAD}
    three.check()
    three.backup.unverified.clear()
    with is_broken("I9"):
        three.check()


def test_an_entry_taken_for_durable_that_is_not_on_the_disk_is_found(three: Three) -> None:
    three.members[1].journal.truncate_from(HEAD)
    with is_broken("I6"):
        three.check()


def test_a_log_that_is_about_to_be_cut_may_be_shorter_on_the_disk(three: Three) -> None:
    three.members[1].journal.truncate_from(HEAD)
    three.backup.truncation = TruncationState(from_op=HEAD)
    three.check()


def test_a_log_with_another_entry_at_a_committed_op_is_found(three: Three) -> None:
    mirror = three.backup.mirror
    other = Prepare.seal(replace(three.story.prepares[COMMIT - 1].header, timestamp=9_999), b"").header
    mirror.truncate_from(COMMIT)
    mirror.submit(other)
    three.checker = InvariantChecker(three.observer, 3)
    with is_broken("I7"):
        three.check()


def commit_one_more(three: Three) -> None:
    three.leader.commit_max = three.leader.apply_sent = 4


def test_an_op_counted_as_committed_that_no_quorum_holds_is_found(three: Three) -> None:
    for each in three.members[1:]:
        each.state.mirror.truncate_from(4)
        each.journal.truncate_from(4)
    three.check()
    commit_one_more(three)
    with is_broken("I6"):
        three.check()


def test_an_op_counted_as_committed_may_be_held_by_who_is_down_or_lost_its_disk(three: Three) -> None:
    for each in three.members[1:]:
        each.state.mirror.truncate_from(4)
        each.journal.truncate_from(4)
    commit_one_more(three)
    three.checker.check([each.live for each in three.members[:2]])
    three.checker = InvariantChecker(three.observer, 3)
    three.checker.wiped(2)
    three.check()


# I15


def test_a_log_that_goes_before_its_snapshot_has_its_place_is_found(three: Three) -> None:
    three.members[1].journal.set_snapshot_op(2)
    with is_broken("I15"):
        three.check()
    three.members[1].record(view=3, log_view=3, checkpoint_op=2)
    three.check()


def test_a_boot_from_a_snapshot_that_the_superblock_does_not_name_yet_is_none(three: Three) -> None:
    """S-101: a crash in the middle of a checkpoint leaves that."""
    three.members[1].replica = member(1, chain=three.story.prepares, commit=COMMIT, view=3, snapshot_op=2)
    three.members[1].journal.set_snapshot_op(2)
    three.check()


def test_a_boot_with_an_older_checkpoint_is_found(three: Three) -> None:
    three.members[1].record(view=3, log_view=3, checkpoint_op=2)
    three.backup.checkpoint.snapshot_op = 2
    three.check()
    three.members[1].replica = member(1, chain=three.story.prepares, commit=COMMIT, view=3)
    with is_broken("I15"):
        three.check()


# One primary


def test_a_view_that_is_led_in_two_lives_is_found(three: Three) -> None:
    three.members[0].replica = member(0, chain=three.story.prepares, commit=COMMIT, view=3)
    three.leader.unverified.clear()
    three.leader.config = replace(three.leader.config, incarnation=2)
    with violates(Rule.ONE_PRIMARY):
        three.check()


def test_a_restarted_leader_that_does_not_lead_is_sound(three: Three) -> None:
    three.members[0].replica = reborn(0, chain=three.story.prepares, commit=COMMIT, view=3)
    assert three.leader.status is Status.RECOVERING
    three.check()


# Frames


def test_a_frame_of_a_view_that_is_not_durable_is_found(three: Three) -> None:
    three.sent(heartbeat(0, 3), replica=0)
    with violates(Rule.VIEW_IS_DURABLE):
        three.sent(heartbeat(0, 6), replica=0)


def test_a_frame_without_a_view_is_not_judged_by_it(three: Three) -> None:
    frame = bytearray(heartbeat(0, 6).encode())
    frame[60] = 18
    three.checker.sent(three.members[0].live, bytes(frame))


def test_a_boot_into_a_view_below_one_that_was_sent_is_found_unless_the_disk_is_lost(three: Three) -> None:
    """C-269, across a crash."""
    three.sent(heartbeat(1, 3))
    three.members[1].replica = member(1, chain=three.story.prepares, commit=COMMIT, view=1)
    with violates(Rule.VIEW_IS_DURABLE):
        three.check()
    three.checker.wiped(1)
    three.members[1].replica = member(1)
    three.observer.restarted(1, 2, 0)
    three.check()


def test_an_acknowledgement_of_what_is_on_the_disk_is_sound(three: Three) -> None:
    three.sent(prepare_ok(1, three.story.prepares[HEAD - 1], view=3))


def test_an_acknowledgement_of_what_is_not_on_the_disk_is_found(three: Three) -> None:
    other = Prepare.seal(replace(three.story.prepares[HEAD - 1].header, timestamp=9_999), b"")
    with is_broken("I6"):
        three.sent(prepare_ok(1, other, view=3))


def test_an_acknowledgement_in_a_view_whose_log_is_not_durable_is_found(three: Three) -> None:
    three.members[1].record(view=3, log_view=2)
    with is_broken("I6"):
        three.sent(prepare_ok(1, three.story.prepares[HEAD - 1], view=3))


def test_an_acknowledgement_of_a_view_that_has_passed_says_nothing_any_more(three: Three) -> None:
    three.members[1].record(view=4, log_view=3)
    three.backup.view = 4
    three.members[1].journal.truncate_from(HEAD)
    three.sent(prepare_ok(1, three.story.prepares[HEAD - 1], view=3))


# Client table, and a transfer


def test_a_client_table_that_contradicts_itself_is_found_now_and_then(three: Three) -> None:
    table = ClientTable(2)
    live = [replace(each.live, table=table) for each in three.members]
    for _ in range(2 * TABLE_CHECKS_EVERY - 2):  # One was made before.
        three.checker.check(live)
    table._free.pop()
    with is_broken("client table"):
        three.checker.check(live)


def test_during_a_transfer_the_state_machine_may_be_elsewhere(three: Three) -> None:
    three.backup.transfer_stage = TransferStage.INSTALLING
    three.observer.applied(0, 1, 4, three.story.prepares[3].frame, None)
    three.leader.commit_max = three.leader.apply_sent = 4
    three.observer.installed(1, 1, 4)
    three.check()


def test_headers_are_what_the_story_says() -> None:
    """The story that the members live in is one chain, or half of the above would prove nothing."""
    headers: list[PrepareHeader] = [prepare.header for prepare in story().prepares]
    assert [header.op for header in headers] == list(range(1, HEAD + 1))
    assert all(below.checksum == above.parent for below, above in pairwise(headers))
