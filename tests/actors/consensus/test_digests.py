"""What a replica does whose state is not that of the majority (D-17)."""

from levrier.actors.consensus.effects import Apply, Effect, Note, Publish, Severity, TellTransfer
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import Status
from levrier.actors.state_transfer.messages import FetchRequired
from levrier.wire.replica_headers import ExtensionHeader, StartViewChangeHeader
from levrier.wire.state_digest import COMMAND, StateDigest
from tests.actors.consensus.builders import of_type, sealed_chain
from tests.actors.consensus.peers import (
    CLUSTER,
    GROUP,
    acknowledged,
    do_view_change,
    member,
    sent_of,
    settle_disk,
    start_view_change,
    ticks,
)

CHAIN = sealed_chain(from_op=1, to_op=4)


def hear(replica: Replica, sender: int, op: int, digest: int) -> list[Effect]:
    """Another member tells its digest."""
    header = ExtensionHeader(command=COMMAND, group=GROUP, cluster=CLUSTER, replica=sender)
    return replica.on_frame(header, StateDigest(op, digest).encode())


def in_minority(index: int) -> tuple[Replica, list[Effect]]:
    """A member of three, at op 4, that the two others contradict."""
    replica = member(index, chain=CHAIN, commit=4)
    effects = replica.on_digest_noted(4, 1)
    for other in range(3):
        if other != index:
            effects += hear(replica, other, 4, 2)
    return replica, settle_disk(replica, effects)


def test_a_digest_is_told_to_everybody() -> None:
    """Once, when it is noted here."""
    [(to, header)] = sent_of(member(1).on_digest_noted(4, 1), ExtensionHeader)
    assert to is None
    assert isinstance(header, ExtensionHeader)
    assert header.command == COMMAND


def test_a_backup_in_the_minority_neither_acknowledges_nor_applies() -> None:
    """BR-50: its log goes on, so that it has the entries when its state is right again."""
    replica, effects = in_minority(1)
    assert [note.severity for note in of_type(effects, Note)] == [Severity.ERROR]
    [prepare] = sealed_chain(from_op=5, to_op=5, parent=CHAIN[-1].header.checksum, commit=4)
    replica.state.commit_max = 5
    effects = settle_disk(replica, replica.on_prepare(prepare))
    assert replica.state.mirror.is_durable(5)
    assert acknowledged(effects) == []
    assert of_type(effects, Apply) == []


def test_it_is_not_ready_and_fetches_the_state_of_the_primary() -> None:
    """Whoever asks it who leads is told of nobody."""
    replica, _ = in_minority(1)
    assert [each.leadership.leader for each in of_type(replica.publish(), Publish)] == [None]
    wanted = [each.message for each in of_type(ticks(replica, 2), TellTransfer)]
    assert [each.peer for each in wanted if isinstance(each, FetchRequired)] == [0]


def test_a_primary_in_the_minority_leaves_the_lead() -> None:
    """It asks for the next view at once."""
    replica, effects = in_minority(0)
    assert replica.state.status is Status.VIEW_CHANGE
    assert [header.view for _, header in sent_of(effects, StartViewChangeHeader)] == [1]


def test_it_does_not_take_the_lead_when_its_turn_comes() -> None:
    """Replica 1 is the one of view 1: the votes are there, and it asks for view 2."""
    replica, _ = in_minority(1)
    settle_disk(replica, replica.on_frame(start_view_change(2, 1), b""))
    settle_disk(replica, replica.on_frame(*do_view_change(2, 1, commit=4, chain=CHAIN[3:])))
    assert (replica.state.status, replica.state.view) == (Status.VIEW_CHANGE, 2)


def test_a_frame_that_is_no_digest_changes_nothing() -> None:
    """It is told of, and dropped."""
    replica = member(1, chain=CHAIN, commit=4)
    replica.on_digest_noted(4, 1)
    header = ExtensionHeader(command=COMMAND, group=GROUP, cluster=CLUSTER, replica=0)
    effects = replica.on_frame(header, b"\xc1")
    assert [note.severity for note in of_type(effects, Note)] == [Severity.WARNING]
    assert not replica.state.is_corrupt


def test_an_alarm_ends_when_all_agree_again() -> None:
    """At a later op."""
    replica = member(1, chain=CHAIN, commit=4)
    replica.on_digest_noted(4, 1)
    hear(replica, 0, 4, 2)
    hear(replica, 2, 4, 3)
    assert "no majority" in replica.state.digests.alarm
    replica.on_digest_noted(8, 5)
    assert replica.state.digests.alarm, "one member alone agrees with itself"
    hear(replica, 0, 8, 5)
    hear(replica, 2, 8, 5)
    assert replica.state.digests.alarm == ""


def test_the_same_difference_is_told_once() -> None:
    """However often it is found; the status keeps saying it."""
    replica = member(1, chain=CHAIN, commit=4)
    told = []
    for op in (4, 8, 12):
        effects = replica.on_digest_noted(op, 1)
        effects += hear(replica, 0, op, 2)
        effects += hear(replica, 2, op, 3)
        told += [note.text for note in of_type(effects, Note)]
    assert len(told) == 1
    assert replica.state.digests.alarm == told[0]
