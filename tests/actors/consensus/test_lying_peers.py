"""Frames of a peer that no replica would send: they end nothing, and what comes after them is taken."""

import pytest

from levrier.actors.consensus.effects import Append, Note, PersistView
from levrier.actors.consensus.replica import VIEW_LEAP_MAX, Replica
from levrier.actors.consensus.state import Status
from levrier.actors.consensus.timeouts import (
    COMMIT_MESSAGE_TICKS,
    NORMAL_HEARTBEAT_TICKS,
    REQUEST_START_VIEW_TICKS,
    VIEW_CHANGE_STATUS_TICKS,
)
from levrier.wire.codes import Operation
from levrier.wire.control import ControlHeader
from levrier.wire.headers import U64_MAX
from levrier.wire.prepare import METADATA_GROUP, Prepare, project, restamp_view
from levrier.wire.replica_headers import CommitHeader
from tests.actors.consensus.builders import of_type, sealed_chain
from tests.actors.consensus.peers import (
    CLUSTER,
    do_view_change,
    heartbeat,
    member,
    probe,
    sent_of,
    settle_disk,
    start_view,
    start_view_change,
    ticks,
)

VIEW_MAX = 2**32 - 1
"""The last one; replica 0 would lead it."""


def undecodable(operation: Operation) -> Prepare:
    """The next entry of an empty log, with a body that its operation cannot have."""
    return project(
        cluster=CLUSTER,
        view=0,
        replica=0,
        client=5,
        parent=0,
        request_checksum=0,
        op=1,
        commit=0,
        timestamp=10,
        request=1,
        operation=int(operation),
        group=METADATA_GROUP,
        user_id=1,
        body=b"\xff\xff",
    )


def live(replica: Replica) -> None:
    """Let a backup run into a view change, and on through two more that nobody joins."""
    settle_disk(replica, ticks(replica, NORMAL_HEARTBEAT_TICKS))
    for _ in range(2):
        settle_disk(replica, ticks(replica, VIEW_CHANGE_STATUS_TICKS))


@pytest.mark.parametrize(
    "frame",
    [
        (start_view_change(0, VIEW_MAX), b""),
        do_view_change(0, VIEW_MAX),
        start_view(0, VIEW_MAX, op=0, commit=0),
        (heartbeat(0, VIEW_MAX), b""),
        (probe(2, VIEW_MAX), b""),
        (start_view_change(0, VIEW_LEAP_MAX + 1), b""),
    ],
    ids=lambda frame: type(frame[0]).__name__,
)
def test_a_view_that_there_cannot_be_is_not_entered_and_not_written_down(frame: tuple[ControlHeader, bytes]) -> None:
    """There is no number above the last one, so a member that had made it its own could never elect again."""
    backup = member(1)
    effects = backup.on_frame(*frame)
    assert of_type(effects, PersistView) == []
    assert (backup.state.view, backup.state.observed_newer_view, backup.state.status) == (0, 0, Status.NORMAL)
    [note] = of_type(effects, Note)
    assert "not believed" in note.text
    assert backup.on_frame(*frame) == [], "said once"
    live(backup)
    assert backup.state.view == 3


def test_a_prepare_of_a_view_that_there_cannot_be_is_not_remembered() -> None:
    """It would have this member ask for that view, again and again."""
    backup = member(1)
    [prepare] = sealed_chain(from_op=1, to_op=1, view=VIEW_MAX)
    backup.on_prepare(prepare)
    assert backup.state.observed_newer_view == 0


def test_a_view_as_far_ahead_as_a_sleeper_may_find_it_is_entered() -> None:
    """The bound is for numbers that were made up."""
    backup = member(1)
    backup.on_frame(start_view_change(2, VIEW_LEAP_MAX), b"")
    assert backup.state.view == VIEW_LEAP_MAX


def test_a_view_far_ahead_that_several_speak_of_is_believed() -> None:
    """Whoever was left behind by all others finds them again; one that says more than the others is not followed."""
    backup = member(2)
    backup.on_frame(start_view_change(0, VIEW_MAX), b"")
    backup.on_frame(start_view_change(1, VIEW_LEAP_MAX + 7), b"")
    assert backup.state.view == VIEW_LEAP_MAX + 7


def test_the_number_of_members_that_one_view_takes_grows_with_those_that_may_fail() -> None:
    """Of five, two may be wrong."""
    backup = member(4, count=5)
    for sender in (0, 1):
        backup.on_frame(start_view_change(sender, VIEW_MAX), b"")
    assert backup.state.view == 0
    backup.on_frame(start_view_change(2, VIEW_LEAP_MAX + 7), b"")
    assert backup.state.view == VIEW_LEAP_MAX + 7


def test_a_newer_view_that_nobody_has_is_asked_for_once() -> None:
    """Else each primary below that view would ask for it instead of leading."""
    primary = member(0, count=2)
    primary.on_frame(heartbeat(1, 999), b"")
    ticks(primary, COMMIT_MESSAGE_TICKS)
    assert primary.state.status is Status.RECOVERING
    ticks(primary, REQUEST_START_VIEW_TICKS)
    settle_disk(primary, primary.on_frame(*start_view(1, 1, op=0, commit=0)))
    settle_disk(primary, primary.on_frame(start_view_change(1, 2), b""))
    settle_disk(primary, primary.on_frame(*do_view_change(1, 2)))
    assert (primary.state.status, primary.state.view) == (Status.NORMAL, 2)
    effects = ticks(primary, COMMIT_MESSAGE_TICKS)
    assert len(sent_of(effects, CommitHeader)) == 1


def test_a_heartbeat_with_the_last_number_is_followed_by_those_of_the_next_primary() -> None:
    """The next primary begins to count anew: there is no number above the last one."""
    backup = member(1)
    backup.on_frame(heartbeat(0, 0, number=U64_MAX), b"")
    settle_disk(backup, backup.on_frame(start_view_change(2, 1), b""))
    settle_disk(backup, backup.on_frame(*do_view_change(2, 1)))
    assert (backup.state.status, backup.state.view) == (Status.NORMAL, 1)
    [(_, header)] = sent_of(ticks(backup, COMMIT_MESSAGE_TICKS), CommitHeader)
    assert isinstance(header, CommitHeader)
    assert header.timestamp_monotonic == 1


@pytest.mark.parametrize(
    "operation", [Operation.CREATE_TOPIC_WITH_ASSIGNMENTS, Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS]
)
def test_an_entry_that_assigns_nothing_where_it_has_to_is_dropped(operation: Operation) -> None:
    """What follows it is taken: the entry of the primary has its place."""
    backup = member(1)
    effects = backup.on_prepare(undecodable(operation))
    assert of_type(effects, Append) == []
    [note] = of_type(effects, Note)
    assert "is dropped" in note.text
    [prepare] = sealed_chain(from_op=1, to_op=1)
    assert len(of_type(backup.on_prepare(prepare), Append)) == 1


def test_a_repaired_entry_with_the_stamp_of_a_view_to_come_is_dropped() -> None:
    """The checksum of an entry does not cover its view, so whoever serves a repair may stamp a true entry as he likes."""
    first, second = sealed_chain(from_op=1, to_op=2)
    backup = member(1)
    settle_disk(backup, backup.on_frame(heartbeat(0, 0, commit=2), b""))
    assert backup.state.repair is not None
    restamped = Prepare.decode(restamp_view(first.frame, 3))
    for served, taken in ((restamped, 0), (first, 1), (second, 1)):
        effects = backup.on_repair_prepare(served)
        assert len(of_type(effects, Append)) == taken
        settle_disk(backup, effects)
    assert backup.state.mirror.is_durable(2)
