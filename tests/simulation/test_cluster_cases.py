"""The cases about the simulator itself: what a simulated cluster goes through, and that its judges look at what really runs."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from levrier.actors.consensus.state import Status
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.runtime.stepped_node import Seat
from levrier.cluster.simulate.checkers import Rule, Violation
from levrier.cluster.simulate.checkers.invariants import InvariantChecker, LiveReplica
from levrier.cluster.simulate.checkers.sessions import SERVER_CLIENT_MIN
from levrier.cluster.simulate.faults import Fault
from levrier.cluster.simulate.run import Settings, Simulation
from levrier.cluster.simulate.watch import UNJUDGED
from levrier.wire.codes import ErrorCode, Operation
from levrier.wire.requests.streams import CreateStream

LINKS = (Fault.LOSS, Fault.DUPLICATE, Fault.REORDER, Fault.DELAY, Fault.PARTITION, Fault.ONE_WAY)
MACHINES = (Fault.CRASH, Fault.LOST_UNSYNCED, Fault.TORN, Fault.PAUSE)
DISKS = (Fault.EIO, Fault.ENOSPC, Fault.SLOW_DISK, Fault.HUNG_DISK, Fault.BIT_ROT)
OFTEN = frozenset(
    {
        Operation.CREATE_STREAM,
        Operation.UPDATE_STREAM,
        Operation.DELETE_STREAM,
        Operation.CREATE_TOPIC_WITH_ASSIGNMENTS,
        Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS,
        Operation.CREATE_CONSUMER_GROUP,
        Operation.JOIN_CONSUMER_GROUP,
        Operation.CREATE_USER,
        Operation.CREATE_PERSONAL_ACCESS_TOKEN,
    }
)
"""What 300 operations have some of, whatever the seed."""

KINDS_MIN = 18
"""Of the 21 kinds that the clients ask for; some are rare."""

LEADERS_CRASH_AT = (20, 35, 50)


def sound(
    seed: int, *faults: Fault, operations: int = 60, watch: Callable[[Simulation], None] | None = None
) -> Simulation:
    """A story that ended well. `watch` looks at it after each step."""
    simulation = Simulation(seed, Settings(operations=operations, faults=faults))
    if watch is not None:
        beside(simulation, watch)
    verdict = simulation.play()
    assert verdict.rule is None, f"seed {seed}: {verdict.rule}: {verdict.text}"
    return simulation


def beside(simulation: Simulation, watch: Callable[[Simulation], None]) -> None:
    """Have somebody else look after each step, too."""
    judged = simulation.world.observer
    assert judged is not None

    def both(seat: Seat, message: object) -> None:
        judged(seat, message)
        watch(simulation)

    simulation.world.observer = both


def leaders_crash(*ops: int) -> Callable[[Simulation], None]:
    """Whoever leads when one of these ops is first applied crashes a moment later."""
    wanted = list(ops)

    def look(simulation: Simulation) -> None:
        if not wanted or simulation.watch.highest < wanted[0]:
            return
        leaders = [live.replica for live in up(simulation) if live.state.is_acting_primary]
        if leaders:
            del wanted[0]
            node = simulation.world.node("assassin")
            address = node.listener(f"of-{len(wanted)}", lambda replica: crash(simulation, replica))
            node.after(1, address, max(leaders))

    return look


def crash(simulation: Simulation, replica: int) -> None:
    """The machine of a member stops, unless that has happened already."""
    if replica in simulation.cluster.booted:
        simulation.nemesis.crash(replica)


def up(simulation: Simulation) -> list[LiveReplica]:
    """The members that are up."""
    lives = [simulation.watch.live(replica) for replica in range(simulation.cluster.count)]
    return [live for live in lives if live is not None]


def streams_of(simulation: Simulation, replica: int) -> list[str]:
    """The streams that a member has in the end, sorted."""
    actor = simulation.cluster.node(replica).actor("metadata")
    assert isinstance(actor, MetadataActor)
    return sorted(stream.name for stream in actor.machine.streams.all())


@pytest.fixture(scope="module")
def calm() -> Simulation:
    """One story without faults."""
    return sound(1, operations=300)


def test_every_kind_of_operation_is_asked_for_and_nothing_fails(calm: Simulation) -> None:
    """C-247: the weights of the workload leave no kind out."""
    committed = {entry.header.operation for entry in calm.judges.commits.log}
    assert committed >= OFTEN
    assert len(committed - {Operation.REGISTER, Operation.LOGOUT, Operation.BOOTSTRAP_ROOT}) >= KINDS_MIN


def test_what_the_clients_were_told_is_the_catalogue_of_every_member(calm: Simulation) -> None:
    """C-250, C-273: what the clients expect from their answers alone, the model, and each member are the same in the end."""
    expected = sorted(name for client in calm.clients for name in client.wishes.own)
    assert expected
    assert sorted(stream.name for stream in calm.judges.commits.model.streams.values()) == expected
    assert [streams_of(calm, replica) for replica in range(3)] == [expected] * 3


def test_the_model_follows_the_streams_through_crashes() -> None:
    """C-252: also when creations and deletions are repeated and answered by another member."""
    story = sound(2, *MACHINES)
    expected = sorted(name for client in story.clients for name in client.wishes.own)
    assert sorted(stream.name for stream in story.judges.commits.model.streams.values()) == expected
    assert [streams_of(story, replica) for replica in range(3)] == [expected] * 3


def test_the_commits_of_several_clients_interleave(calm: Simulation) -> None:
    """C-253."""
    clients = [entry.header.client for entry in calm.judges.commits.log if 0 < entry.header.client < SERVER_CLIENT_MIN]
    assert len(set(clients)) >= 2
    assert sum(one != other for one, other in pairwise(clients)) > len(clients) // 4


def test_requests_for_what_is_not_there_commit_as_rejections(calm: Simulation) -> None:
    """C-254: each with the code that the model has for it; what every member answered was compared with the model's reply."""
    rejected = {entry.code for entry in calm.judges.commits.log if entry.code}
    assert rejected >= {ErrorCode.STREAM_ID_NOT_FOUND, ErrorCode.RESOURCE_NOT_FOUND}
    assert len(rejected) >= 3


def test_the_stamps_of_one_seed_are_the_same_each_time() -> None:
    """C-263."""
    stories = [sound(3, Fault.CLOCK_SKEW, Fault.CLOCK_JUMP, Fault.LOSS) for _ in range(2)]
    first, second = ([entry.header.timestamp for entry in story.judges.commits.log] for story in stories)
    assert len(first) > 60
    assert first == second


def test_no_more_is_in_flight_than_the_clients_have_asked_for_and_nothing_twice() -> None:
    """C-270, C-271: a client has one request under way, and so at most one in the queues of whoever leads."""
    seen: list[int] = []

    def look(simulation: Simulation) -> None:
        for live in up(simulation):
            pipeline = live.state.pipeline
            headers = [entry.prepare.header for entry in pipeline.prepares]
            asked = [(header.client, header.request) for header in headers if 0 < header.client < SERVER_CLIENT_MIN]
            asked += [(entry.request.header.client, entry.request.header.request) for entry in pipeline.requests]
            assert len({client for client, _ in asked}) == len(asked) <= len(simulation.clients), asked
            seen.append(len(asked))

    for seed in (1, 4):
        sound(seed, *LINKS, *MACHINES, watch=look)
    assert max(seen) > 1, "some requests were under way together"


def go_back(live: LiveReplica, name: str) -> None:
    """What is remembered of this member is more than it has now."""
    state = live.state
    if name == "commit":
        state.commit_max = state.apply_sent = state.commit_min = state.checkpoint.snapshot_op
    else:
        state.view = state.log_view = state.gate.view_durable = state.gate.log_view_durable = 0


@pytest.mark.parametrize("name", ["commit", "view"])
def test_a_live_member_whose_frontier_goes_back_is_found_while_the_cluster_runs(name: str) -> None:
    """C-248, C-268, C-269: those who judge have seen the members that run, so they see it when one of them breaks."""
    found: list[str] = []

    def look(simulation: Simulation) -> None:
        for live in up(simulation):
            state = live.state
            if not found and state.commit_max > 30 and state.view > 0 and state.status is Status.NORMAL:
                kept = {
                    each: getattr(state, each)
                    for each in ("view", "log_view", "commit_max", "commit_min", "apply_sent")
                }
                gate = state.gate.view_durable, state.gate.log_view_durable
                go_back(live, name)
                with pytest.raises(
                    Violation, match=f"replica {live.replica} .*which it had reached, found {name}"
                ) as violation:
                    simulation.judges.invariants.check(up(simulation))
                found.append(violation.value.text)
                for each, value in kept.items():
                    setattr(state, each, value)
                state.gate.view_durable, state.gate.log_view_durable = gate

    leader_crashes = leaders_crash(20)

    def watch(simulation: Simulation) -> None:
        leader_crashes(simulation)
        look(simulation)

    sound(1, watch=watch)
    assert len(found) == 1


def test_a_member_is_judged_after_each_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-248: not now and then."""
    steps, judged = [0], [0]
    moved = InvariantChecker.moved

    def counted(checker: InvariantChecker, each: LiveReplica, live: Sequence[LiveReplica]) -> None:
        judged[0] += 1
        moved(checker, each, live)

    monkeypatch.setattr(InvariantChecker, "moved", counted)
    simulation = Simulation(1, Settings(operations=60, faults=()))
    watching = simulation.world.observer
    assert watching is not None

    def count(seat: Seat, message: object) -> None:
        if seat.node.name.startswith("node-") and not seat.cell.name.startswith(UNJUDGED):
            steps[0] += 1
        watching(seat, message)

    simulation.world.observer = count
    assert simulation.play().rule is None
    assert judged[0] > 1_000
    assert judged == steps


def test_a_member_that_holds_something_else_in_the_end_is_found() -> None:
    """C-248, C-273: one stream that no op of the log made."""
    broken: list[int] = []

    def sabotage(simulation: Simulation) -> None:
        if not broken and 0 in simulation.cluster.booted and simulation.watch.highest > 30:
            actor = simulation.cluster.node(0).actor("metadata")
            assert isinstance(actor, MetadataActor)
            actor.machine.streams.create_stream(CreateStream(name="of-no-op"), 1)
            broken.append(0)

    simulation = Simulation(1, Settings(operations=60, faults=()))
    beside(simulation, sabotage)
    verdict = simulation.play()
    assert broken
    assert verdict.rule is not None
    assert verdict.rule in {Rule.SAME_DIGEST, Rule.SAME_STATE, Rule.REPLY_OF_MODEL, Rule.SAME_REPLY, Rule.READ_OF_MODEL}


@pytest.mark.parametrize("seed", range(4))
def test_crashes_spare_nobody_and_everybody_ends_at_the_same_op(seed: int) -> None:
    """C-249, C-251, C-272, C-277: whoever leads crashes, three times; in the end nobody is ahead of the others or behind."""
    story = sound(seed, *MACHINES, watch=leaders_crash(*LEADERS_CRASH_AT))
    commits = story.judges.commits
    assert {commits.applied_op(replica) for replica in range(3)} == {commits.highest}
    assert story.watch.counts.crashes >= len(LEADERS_CRASH_AT)
    assert story.watch.counts.view_changes > 0


def test_links_that_lose_repeat_delay_and_part_break_nothing() -> None:
    """C-276: every fault of the links in one of the seeds at least."""
    chosen: set[Fault] = set()
    for seed in range(6):
        chosen.update(sound(seed, *LINKS, operations=30).plan.chosen)
    assert chosen == set(LINKS)


def test_disks_that_fail_fill_up_hang_and_rot_break_nothing() -> None:
    """C-278: every fault of the disks in one of the seeds at least."""
    chosen: set[Fault] = set()
    for seed in range(6):
        chosen.update(sound(seed, *DISKS, operations=30).plan.chosen)
    assert chosen == set(DISKS)
