"""A primary that no quorum acknowledges: what its clients hear, and what it says of itself."""

from levrier.actors.bus.messages import Leadership
from levrier.actors.consensus.effects import Effect, Publish
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.timeouts import VIEW_CHANGE_STATUS_TICKS
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import (
    admit,
    admit_many,
    config_of,
    denials,
    of_type,
    position,
    replica_of,
    request_of,
    sealed_chain,
    verdict_on,
    without_notes,
)
from tests.actors.consensus.peers import heartbeat, member, prepare_ok, start_view, start_view_change, ticks


def told(effects: list[Effect]) -> list[Leadership]:
    """What was published."""
    return [effect.leadership for effect in of_type(effects, Publish)]


def primary(depth: int = 4) -> tuple[Replica, list[Prepare]]:
    """A primary of three whose log holds four ops that nobody else has acknowledged."""
    replica = replica_of(config_of(replica_count=3, depth=depth))
    prepares = admit_many(replica, 4)
    replica.on_appended([position(prepare) for prepare in prepares])
    replica.publish()
    return replica, prepares


def wait(replica: Replica) -> list[Effect]:
    """As long as it takes to be unheeded."""
    return ticks(replica, replica.state.config.silence_ticks + 1)


def test_whoever_waits_is_answered_when_a_primary_turns_out_to_be_unheeded() -> None:
    """Rule 6: 57 for what is prepared, since it may be committed yet, and 58 for what was only queued; once."""
    replica, _ = primary()
    assert without_notes(replica.on_verdict(verdict_on(request_of(9)))) == []
    assert denials(ticks(replica, replica.state.config.silence_ticks)) == []
    assert denials(replica.on_tick()) == [(9, 58), (1, 57), (2, 57), (3, 57), (4, 57)]
    assert denials(wait(replica)) == []


def test_an_unheeded_primary_starts_nothing_new() -> None:
    """What it has started is 57 to whoever asks again, and anything else 58: a client may take it elsewhere."""
    replica, _ = primary(depth=8)
    wait(replica)
    assert denials(replica.on_verdict(verdict_on(request_of(7)))) == [(7, 58)]
    assert denials(replica.on_verdict(verdict_on(request_of(1, connection=50)))) == [(50, 57)]
    assert len(replica.state.pipeline.prepares) == 4


def test_what_a_quorum_acknowledges_after_all_is_committed_and_the_primary_serves_again() -> None:
    """The reply goes to nobody: it is in the client table for whoever asks again."""
    replica, prepares = primary(depth=8)
    assert told(replica.publish()) == []
    wait(replica)
    assert told(replica.publish()) == [Leadership(view=0, leader=0, serves=False, unheard=(1, 2))]
    effects = []
    for prepare in prepares:
        effects += replica.on_frame(prepare_ok(2, prepare), b"")
        effects += replica.on_applied(prepare.header.op)
    assert replica.state.commit_min == 4
    assert denials(effects) == []
    replica.on_tick()
    assert told(replica.publish()) == [Leadership(view=0, leader=0, serves=True)]
    assert admit(replica, 7).header.op == 5


def test_who_acknowledges_is_not_waited_for() -> None:
    """Of five, one is not enough."""
    replica = replica_of(config_of(replica_count=5))
    prepare = admit(replica, 1)
    replica.on_appended([position(prepare)])
    replica.on_frame(prepare_ok(3, prepare), b"")
    wait(replica)
    assert told(replica.publish()) == [Leadership(view=0, leader=0, serves=False, unheard=(1, 2, 4))]


def test_a_backup_believes_that_its_primary_serves_once_the_log_of_the_view_is_committed() -> None:
    """Wire 10.2: until then the primary answers nobody."""
    chain = sealed_chain(from_op=1, to_op=4, view=1, commit=0)
    backup = member(2, chain=chain[:3], commit=2)
    backup.on_frame(*start_view(1, 1, op=4, commit=2, chain=chain))
    assert told(backup.publish()) == [Leadership(view=1, leader=1, serves=False)]
    backup.on_frame(heartbeat(1, 1, commit=3), b"")
    assert told(backup.publish()) == []
    backup.on_frame(heartbeat(1, 1, commit=4, number=2), b"")
    assert told(backup.publish()) == [Leadership(view=1, leader=1, serves=True)]


def test_an_election_that_came_to_nothing_names_who_did_not_vote() -> None:
    """Not the one under way: its votes may be on their way."""
    candidate = member(1)
    candidate.on_frame(start_view_change(2, 1), b"")
    assert told(candidate.publish()) == [Leadership(view=1, leader=None, serves=False)]
    ticks(candidate, VIEW_CHANGE_STATUS_TICKS)
    assert candidate.state.view == 2
    assert told(candidate.publish()) == [Leadership(view=2, leader=None, serves=False, unheard=(0,))]
    ticks(candidate, VIEW_CHANGE_STATUS_TICKS)
    assert told(candidate.publish()) == [Leadership(view=3, leader=None, serves=False, unheard=(0, 2))]
