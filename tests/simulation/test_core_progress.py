"""A core of a cluster makes progress while the others stay away; a cluster that needs all of its members is found."""

from dataclasses import replace
from random import Random

import pytest

from levrier.actors.consensus.quorum import quorums_of
from levrier.cluster.simulate import run
from levrier.cluster.simulate.checkers import Rule
from levrier.cluster.simulate.cluster import SimulatedCluster, cluster_config
from levrier.cluster.simulate.faults import Fault
from levrier.cluster.simulate.outsiders import Core, Suffering, draw_core
from levrier.cluster.simulate.run import Settings, Simulation
from tests.simulation.test_cluster_cases import beside
from tests.simulation.test_cluster_seeds import told

CAUSES = {
    Fault.CRASH: {Suffering.DOWN},
    Fault.PARTITION: {Suffering.CUT_OFF},
    Fault.ONE_WAY: {Suffering.DEAF, Suffering.MUTE},
    Fault.PAUSE: {Suffering.PAUSED},
    Fault.HUNG_DISK: {Suffering.HUNG},
    Fault.ENOSPC: {Suffering.FULL},
    Fault.EIO: {Suffering.FAILING},
}


def wait_for_all(simulation: Simulation) -> None:
    """Break the primary: it commits nothing that any member has not acknowledged."""
    for state in simulation.watch.states().values():
        state.quorums = replace(state.quorums, replication=simulation.cluster.count)


@pytest.mark.parametrize("fault", [Fault.CRASH, Fault.PARTITION])
def test_a_primary_that_waits_for_everybody_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PROGRESS_SECONDS_MAX", 20)
    simulation = Simulation(3, Settings(operations=20, faults=(fault,)))
    beside(simulation, wait_for_all)
    verdict = simulation.play()
    assert verdict.rule == Rule.PROGRESS_OF_A_CORE, told(verdict)
    assert verdict.text.startswith("the core of node-")
    assert any(f"node-{replica} {next(iter(CAUSES[fault]))}" in verdict.text for replica in range(3))


def test_a_primary_that_waits_for_everybody_gets_on_while_everybody_is_there() -> None:
    """So it is the core that finds it, nothing else."""
    simulation = Simulation(3, Settings(operations=20, faults=(Fault.REORDER,)))
    beside(simulation, wait_for_all)
    verdict = simulation.play()
    assert verdict.rule is None, told(verdict)
    assert verdict.counts.cores == 0


@pytest.mark.parametrize("fault", CAUSES)
def test_a_core_bears_whatever_the_others_suffer(fault: Fault) -> None:
    stories = [Simulation(seed, Settings(operations=20, faults=(fault,))).play() for seed in range(3)]
    for verdict in stories:
        assert verdict.rule is None, told(verdict)
    demands = [event for verdict in stories for event in verdict.events if "demands progress of" in event]
    assert len(demands) == sum(verdict.counts.cores for verdict in stories) > 0
    assert all(any(suffering in event for suffering in CAUSES[fault]) for event in demands)


def cores(count: int, whole: set[int], *, down: frozenset[int] = frozenset()) -> list[Core | None]:
    """What many seeds draw."""
    cluster = SimulatedCluster(1, cluster_config(count))
    return [draw_core(Random(seed), cluster, whole=whole, down=down, faults=tuple(Fault)) for seed in range(200)]


@pytest.mark.parametrize("count", [3, 4, 5, 7, 9])
def test_a_core_is_a_quorum_of_members_that_are_whole(count: int) -> None:
    drawn = cores(count, set(range(1, count)))
    found = [core for core in drawn if core is not None]
    assert 0 < len(found) < len(drawn)
    for core in found:
        assert 0 in core.outsiders
        assert sorted([*core.members, *core.outsiders]) == list(range(count))
        assert len(core.members) >= quorums_of(count).view_change
    assert {suffering for core in found for suffering in core.outsiders.values()} == set(Suffering)


def test_who_is_down_stays_down() -> None:
    found = [
        core for core in cores(5, {0, 1, 2, 3, 4}, down=frozenset({2})) if core is not None and 2 in core.outsiders
    ]
    assert found
    assert {core.outsiders[2] for core in found} == {Suffering.DOWN}


@pytest.mark.parametrize("seed", range(4))
def test_a_core_bears_a_primary_that_is_heard_and_hears_nobody(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeats would keep the others from electing for ever."""

    def the_primary_goes_deaf(_random: Random, cluster: SimulatedCluster, **_others: object) -> Core:
        states = simulation.watch.states()
        leader = max((replica for replica, state in states.items() if state.is_primary), key=lambda r: states[r].view)
        others = tuple(replica for replica in range(cluster.count) if replica != leader)
        return Core(members=others, outsiders={leader: Suffering.DEAF})

    monkeypatch.setattr(run, "draw_core", the_primary_goes_deaf)
    simulation = Simulation(seed, Settings(operations=20, faults=(Fault.ONE_WAY,)))
    verdict = simulation.play()
    assert verdict.rule is None, told(verdict)
    assert verdict.counts.cores == 1


@pytest.mark.parametrize(("count", "whole"), [(1, {0}), (2, {0, 1}), (3, {0}), (5, {0, 1})])
def test_there_is_no_core_where_nobody_can_be_spared(count: int, whole: set[int]) -> None:
    assert not any(cores(count, whole))
