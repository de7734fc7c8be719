"""A disk that gives wrong bits for a while: a member refuses them or repairs what it needs, and passes on none."""

from dataclasses import replace

import pytest

from levrier.cluster.simulate import nemesis
from levrier.cluster.simulate.faults import Fault
from levrier.cluster.simulate.run import Settings, Simulation
from tests.simulation.test_cluster_cases import beside
from tests.simulation.test_cluster_seeds import told

SEEDS = (4, 5, 8)


def misread(seed: int) -> Simulation:
    """A story in which what disks give rots again and again, and nothing else happens."""
    simulation = Simulation(seed, Settings(operations=60, faults=(Fault.BIT_ROT,)))
    plan = replace(simulation.plan, chosen=(Fault.BIT_ROT,), mean_ms={Fault.BIT_ROT: 1_000.0})
    simulation.plan = simulation.nemesis._plan = plan
    return simulation


def flipping(simulation: Simulation) -> set[int]:
    """Whose disk gives wrong bits now."""
    storages = enumerate(simulation.cluster.storages)
    return {replica for replica, storage in storages if storage.faults.read_flip_probability}


def test_wrong_bits_from_a_disk_are_refused_or_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nemesis, "MISREAD_ODDS", 1.0)
    events: list[str] = []
    struck: set[int] = set()

    def look(simulation: Simulation) -> None:
        now = flipping(simulation)
        assert now <= {simulation.nemesis.impaired}, "one member at a time, and the one that is impaired"
        struck.update(now)

    for seed in SEEDS:
        simulation = misread(seed)
        beside(simulation, look)
        verdict = simulation.play()
        assert verdict.rule is None, told(verdict)
        assert not flipping(simulation)
        events += verdict.events
    assert struck
    for mark in ("of reads for", "refuses to boot", "is given an empty disk", "has everything back"):
        assert any(mark in event for event in events), mark


def test_some_of_what_rots_is_what_a_disk_holds_and_some_what_it_gives() -> None:
    events = [event for seed in SEEDS for event in misread(seed).play().events]
    assert any("has a wrong bit in" in event for event in events)
    assert any("of reads for" in event for event in events)
