"""What the statements permit: a table of the cases, and properties (acknowledgements 3)."""

from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.acknowledgements.evidence import evidence, required_union
from levrier.actors.acknowledgements.messages import Blocked, SafeThrough
from levrier.actors.acknowledgements.report import report
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.wire.acknowledgement import Acknowledgement, Frontier
from tests.actors.acknowledgements.replicas import A, B, C, said


def test_a003_whoever_has_said_nothing_blocks() -> None:
    """A-003: in order."""
    assert evidence(["ra", "rb", "rc"], [said("rb", {A: 3}, "ra", "rb", "rc")]) == Blocked(waiting_on=("ra", "rc"))


def test_a004_a_replica_known_only_from_another_view_is_required() -> None:
    """A-004."""
    known = [said("ra", {A: 3}, "ra", "rb"), said("rb", {A: 3}, "ra", "rb", "rc")]
    assert required_union(["ra", "rb"], {each.replica_id: each for each in known}) == ("ra", "rb", "rc")
    assert evidence(["ra", "rb"], known) == Blocked(waiting_on=("rc",))


def test_a005_no_membership_is_no_permission() -> None:
    """A-005: Blocked, not SafeThrough."""
    assert evidence([], []) == Blocked(waiting_on=())


def test_a006_age_decides_nothing() -> None:
    """A-006: rb spoke at time 0 and sets the frontier."""
    known = [said("ra", {A: 7}, "ra", "rb", at=10**12), said("rb", {A: 2}, "ra", "rb", at=0)]
    assert evidence(["ra", "rb"], known) == SafeThrough(frontier=Frontier(((A, 2),)), covered=("ra", "rb"))


def test_a007_the_safe_frontier_is_the_minimum_for_each_origin() -> None:
    """A-007."""
    known = [said("ra", {A: 9, B: 4}, "ra", "rb"), said("rb", {A: 5, B: 6}, "ra", "rb")]
    assert evidence(["ra", "rb"], known) == SafeThrough(frontier=Frontier(((A, 5), (B, 4))), covered=("ra", "rb"))


def test_a008_an_origin_that_one_replica_lacks_is_not_there_at_all() -> None:
    """A-008."""
    known = [said("ra", {A: 4, C: 9}, "ra", "rb"), said("rb", {A: 4}, "ra", "rb")]
    found = evidence(["ra", "rb"], known)
    assert isinstance(found, SafeThrough)
    assert found.frontier.positions == ((A, 4),)


def test_a009_what_was_learned_of_others_survives_a_restart() -> None:
    """A-009: rb's view named rc; after the restart ra and rc still block."""
    storage = SimulatedStorage(Random(1))
    storage.make_directory(Path("/data"))
    file = Path("/data/acknowledgements.bin")
    AcknowledgementStore.open(storage, file).record(said("rb", {A: 3}, "ra", "rb", "rc"))
    storage.crash()
    assert evidence(["ra", "rb"], AcknowledgementStore.open(storage, file).all()) == Blocked(waiting_on=("ra", "rc"))


def test_whoever_holds_back_one_origin_does_not_hold_back_the_others() -> None:
    """C-264: what rb says of A does not come any more."""
    before = [said("ra", {A: 9, B: 4}, "ra", "rb"), said("rb", {A: 5, B: 4}, "ra", "rb")]
    after = [said("ra", {A: 12, B: 8}, "ra", "rb"), said("rb", {A: 5, B: 7}, "ra", "rb")]
    assert evidence(["ra", "rb"], before) == SafeThrough(frontier=Frontier(((A, 5), (B, 4))), covered=("ra", "rb"))
    assert evidence(["ra", "rb"], after) == SafeThrough(frontier=Frontier(((A, 5), (B, 7))), covered=("ra", "rb"))


def test_an_empty_safe_frontier_is_not_a_blocked_one() -> None:
    known = [said("ra", {A: 4}, "ra", "rb"), said("rb", {}, "ra", "rb")]
    assert evidence(["ra", "rb"], known) == SafeThrough(frontier=Frontier(), covered=("ra", "rb"))


names = st.sampled_from(["ra", "rb", "rc", "rd"])
statements = st.dictionaries(
    names, st.tuples(st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 9)), st.lists(names, max_size=3))
).map(lambda table: [said(name, frontier, *view) for name, (frontier, view) in sorted(table.items())])


@given(required=st.lists(names, max_size=4, unique=True), known=statements)
def test_evidence_never_exceeds_what_any_required_replica_said(
    required: list[str], known: list[Acknowledgement]
) -> None:
    found = evidence(required, known)
    latest = {each.replica_id: each for each in known}
    union = set(required).union(*[each.membership_view for each in known])
    if isinstance(found, Blocked):
        assert found.waiting_on == tuple(sorted(union - latest.keys()))
        assert found.waiting_on or not union
    else:
        assert found.covered == tuple(sorted(union))
        assert all(latest[each].applied_frontier.dominates(found.frontier) for each in union)


@given(
    origins=st.lists(st.sampled_from([A, B, C]), min_size=4, max_size=12),
    moves=st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 30)), max_size=60),
)
def test_br_15_what_may_be_reclaimed_is_never_above_what_somebody_lacks(
    origins: list[int], moves: list[tuple[int, bool, int]]
) -> None:
    """Statements that come late, twice, in any order or never; the store restarts between any two. It never goes back either."""
    view = ("ra", "rb", "rc")
    storage, file = SimulatedStorage(Random(1)), Path("/m/acknowledgements.bin")
    storage.make_directory(file.parent)
    applied = [0, 0, 0]
    stated: list[Acknowledgement] = []
    floor = 0
    for replica, applies, which in moves:
        if applies:
            applied[replica] = min(applied[replica] + 1, len(origins))
            prefix = {origin: op for op, origin in enumerate(origins[: applied[replica]], start=1)}
            stated.append(said(view[replica], prefix, *view))
            continue
        store = AcknowledgementStore.open(storage, file)
        if stated:
            store.record(stated[which % len(stated)])
        told = report(view, store.all(), own="ra", names={}, refused=0)
        storage.crash()
        assert floor <= (told.safe_op or 0) <= min(applied)
        floor = told.safe_op or 0


def _blocking(required: list[str], known: list[Acknowledgement]) -> list[tuple[str, int]]:
    told = report(required, known, own="ra", names={"rc": "node-c"}, refused=0)
    return [(each.node, each.blocks_from) for each in told.replicas if each.blocks_from]


def test_the_report_names_who_holds_reclaiming_back_and_from_which_op() -> None:
    """Whoever is silent blocks from op 1 on; else the furthest behind, from the op after its last; nobody when all are even."""
    view = ("ra", "rb", "rc")
    ra, rb, rc = said("ra", {A: 9}, *view), said("rb", {A: 5}, *view), said("rc", {A: 9}, *view)
    assert _blocking([*view], [ra, rb]) == [("node-c", 1)]
    assert _blocking([*view], [ra, rb, rc]) == [("RB", 6)]
    assert _blocking([*view], [ra, rc, said("rb", {A: 9}, *view)]) == []
    told = report([*view], [ra, rb, rc], own="ra", names={}, refused=3)
    assert (told.safe_op, told.frontier, told.applied, told.frames_refused) == (5, ((A, 5),), 9, 3)
    assert report([*view], [ra, rb], own="ra", names={}, refused=0).safe_op is None
