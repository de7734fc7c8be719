"""What a member took is answered in bounded time, or its connection is closed."""

from random import Random

import pytest

from levrier.cluster.simulate import run
from levrier.cluster.simulate.checkers import AnswerCheck, Rule, Violation, answer_bound_ms
from levrier.cluster.simulate.cluster import SimulatedCluster
from levrier.cluster.simulate.faults import Fault
from levrier.cluster.simulate.frames import request
from levrier.cluster.simulate.outsiders import Core, Suffering
from levrier.cluster.simulate.run import Settings, Simulation
from levrier.wire.codes import Operation
from tests.simulation.test_cluster_seeds import told

FRAME = request(Operation.CREATE_STREAM, client=7, session=5, number=3)
SECOND = 1_000_000_000


@pytest.fixture
def check() -> AnswerCheck:
    check = AnswerCheck(1_000)
    check.asked(1, who="client-1", replica=2, frame=FRAME, now_nanos=5 * SECOND)
    return check


def fit(_replica: int) -> bool:
    return True


def test_a_request_that_waits_for_too_long_is_found(check: AnswerCheck) -> None:
    check.look(6 * SECOND, fit)
    with pytest.raises(Violation) as found:
        check.look(6 * SECOND + 1, fit)
    assert found.value.rule == Rule.EVERY_REQUEST_IS_ANSWERED
    assert found.value.text.startswith("node-2 took create_stream (request 3) of client-1 at t=5.000s")


def test_an_answer_settles_a_request(check: AnswerCheck) -> None:
    check.settled(1)
    check.look(60 * SECOND, fit)


def test_the_bound_counts_from_the_moment_a_member_is_fit(check: AnswerCheck) -> None:
    check.look(60 * SECOND, lambda replica: replica != 2)
    check.look(61 * SECOND, fit)
    with pytest.raises(Violation):
        check.look(61 * SECOND + 1, fit)


def test_the_bound_is_longer_than_an_election() -> None:
    assert answer_bound_ms(heartbeat_ticks=200, view_change_ticks=50, tick_milliseconds=10) == 9_500
    assert answer_bound_ms(heartbeat_ticks=200, view_change_ticks=50, tick_milliseconds=100) == 95_000


def test_a_member_that_answers_nothing_is_found() -> None:
    """Its clients are patient; nothing else is wrong with it."""
    simulation = Simulation(1, Settings(operations=20, faults=()))
    carry = simulation.client_links.connect

    def to_nobody(name: str, replica: int, on_event: object) -> object:
        connection = carry(name, replica, on_event)  # type: ignore[arg-type]
        transport = simulation.cluster.transports[replica]
        transport.write = lambda connection, data: True  # type: ignore[method-assign]  # noqa: ARG005
        return connection

    simulation.client_links.connect = to_nobody  # type: ignore[method-assign, assignment]
    verdict = simulation.play()
    assert verdict.rule == Rule.EVERY_REQUEST_IS_ANSWERED, told(verdict)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("suffering", [Suffering.CUT_OFF, Suffering.DEAF, Suffering.MUTE])
def test_a_primary_that_is_parted_from_the_others_answers_all_the_same(
    seed: int, suffering: Suffering, monkeypatch: pytest.MonkeyPatch
) -> None:
    def the_primary(_random: Random, cluster: SimulatedCluster, **_others: object) -> Core:
        states = simulation.watch.states()
        leader = max((replica for replica, state in states.items() if state.is_primary), key=lambda r: states[r].view)
        others = tuple(replica for replica in range(cluster.count) if replica != leader)
        return Core(members=others, outsiders={leader: suffering})

    monkeypatch.setattr(run, "draw_core", the_primary)
    monkeypatch.setattr(run, "PATIENT_ODDS", 1.0)
    simulation = Simulation(seed, Settings(operations=20, faults=(Fault.DELAY,)))
    verdict = simulation.play()
    assert verdict.rule is None, told(verdict)
    assert verdict.counts.cores == 1
