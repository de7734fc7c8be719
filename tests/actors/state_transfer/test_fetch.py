"""The fetch session as a table: every message in every stage, both budgets, and what is stale (section 11, D-13)."""

import pytest

from levrier.actors.state_transfer.assembly import ChunkRange
from levrier.actors.state_transfer.fetch import (
    DECODE_RETRIES_MAX,
    STALL_RETRIES_MAX,
    Discard,
    Drop,
    Fetch,
    FetchEffect,
    FinishPlaced,
    Judge,
    Place,
    ReportAccepted,
    ReportFailed,
    ReportPlaced,
    RequestChunk,
    RequestTarget,
    Stage,
    Store,
    Target,
)
from levrier.wire.manifest import Artifact, encode_manifest

PEER, ATTEMPT, RETRY = 2, 7, 10


def manifest(op: int = 50, size: int = 6) -> bytes:
    return encode_manifest(
        (Artifact(kind=0, frontier=op, size=size, checksum=1), Artifact(kind=1, frontier=op, size=2, checksum=2))
    )


def target(nonce: int, *, body: bytes | None = None, is_available: bool = True) -> Target:
    body = manifest() if body is None else body
    return Target(nonce=nonce, is_available=is_available, commit_op=60, commit_max=61, body=body)


class Bench:
    """A session of attempt 7 with replica 2, whose nonces are 1, 2, 3 and so on."""

    def __init__(self) -> None:
        self.nonce = 0
        self.core = Fetch(new_nonce=self._next, retry_ticks=RETRY, chunk_size_max=4)

    def _next(self) -> int:
        self.nonce += 1
        return self.nonce

    def required(self, attempt: int = ATTEMPT) -> list[FetchEffect]:
        return self.core.on_required(attempt, PEER)

    def fetching(self) -> None:
        """Up to the accepted descriptor."""
        self.required()
        self.core.on_target(PEER, target(self.nonce))
        assert self.core.stage is Stage.FETCHING

    def fetched(self) -> list[FetchEffect]:
        """All chunks, whatever there is to come."""
        effects: list[FetchEffect] = []
        while (wanted := self.core.assembly.next_range(4)) is not None:
            effects = self.core.on_chunk(PEER, self.nonce, wanted.artifact, wanted.offset, b"x" * wanted.size)
        return effects

    def ready(self) -> None:
        self.fetching()
        self.fetched()
        self.core.on_good()

    def placing(self) -> None:
        self.ready()
        self.core.on_place(ATTEMPT)

    def placed(self) -> None:
        self.placing()
        self.core.on_placed(ATTEMPT)

    def ticks(self, count: int) -> list[FetchEffect]:
        return [effect for _ in range(count) for effect in self.core.on_tick()]


def is_dropped(effects: list[FetchEffect]) -> bool:
    return len(effects) == 1 and isinstance(effects[0], Drop)


def failure(effects: list[FetchEffect]) -> ReportFailed:
    """The last of the effects."""
    assert isinstance(effects[-1], ReportFailed)
    return effects[-1]


def test_a_fetch_from_beginning_to_end() -> None:
    bench = Bench()

    assert bench.required() == [RequestTarget(peer=PEER, nonce=1)]
    assert bench.core.on_target(PEER, target(1)) == [
        ReportAccepted(attempt=ATTEMPT),
        RequestChunk(peer=PEER, nonce=1, range=ChunkRange(0, 0, 4)),
    ]
    assert bench.core.on_chunk(PEER, 1, 0, 0, b"abcd") == [
        Store(artifact=0, offset=0, data=b"abcd"),
        RequestChunk(peer=PEER, nonce=1, range=ChunkRange(0, 4, 2)),
    ]
    assert bench.core.on_chunk(PEER, 1, 0, 4, b"ef")[1] == RequestChunk(peer=PEER, nonce=1, range=ChunkRange(1, 0, 2))
    assert bench.core.on_chunk(PEER, 1, 1, 0, b"gh") == [
        Store(artifact=1, offset=0, data=b"gh"),
        Judge(attempt=ATTEMPT),
    ]
    assert (bench.core.commit_op, bench.core.commit_max) == (60, 61)
    bench.core.on_good()
    assert bench.core.on_place(ATTEMPT) == [Place(attempt=ATTEMPT)]
    assert bench.core.on_placed(ATTEMPT) == [ReportPlaced(attempt=ATTEMPT)]
    assert bench.core.on_finished(ATTEMPT, is_ahead=True) == [FinishPlaced(), Discard()]
    assert bench.core.stage is None


def test_behind_the_local_state_nothing_is_placed_or_named() -> None:
    bench = Bench()
    bench.ready()

    assert bench.core.on_finished(ATTEMPT, is_ahead=False) == [Discard()]


@pytest.mark.parametrize(("sender", "nonce"), [(PEER, 2), (1, 1)], ids=["another nonce", "another replica"])
def test_answers_to_others_have_no_effect(sender: int, nonce: int) -> None:
    bench = Bench()
    bench.required()

    assert is_dropped(bench.core.on_target(sender, target(nonce)))
    assert is_dropped(bench.core.on_target(sender, target(nonce, is_available=False)))
    bench.core.on_target(PEER, target(1))
    assert is_dropped(bench.core.on_chunk(sender, nonce, 0, 0, b"abcd"))
    assert bench.core.received == (0, 0)


def test_a_refusal_ends_the_attempt() -> None:
    bench = Bench()
    bench.required()

    report = failure(bench.core.on_target(PEER, target(1, is_available=False)))

    assert (report.attempt, report.is_refused) == (ATTEMPT, True)
    assert bench.core.stage is None


def test_an_offer_that_expired_meanwhile_ends_the_attempt() -> None:
    bench = Bench()
    bench.fetching()

    effects = bench.core.on_target(PEER, target(1, is_available=False, body=b""))

    assert effects[0] == Discard()
    assert failure(effects).is_refused


def test_the_fetch_after_a_refusal_waits_for_the_retry_interval() -> None:
    """Consensus arms again within a round trip; the two of them must not run in a circle."""
    bench = Bench()
    bench.required()
    bench.core.on_target(PEER, target(1, is_available=False))
    bench.ticks(3)

    assert bench.required(8) == []
    assert bench.ticks(RETRY - 4) == []
    assert bench.ticks(1) == [RequestTarget(peer=PEER, nonce=2)]
    bench.core.on_canceled(8)
    bench.ticks(RETRY)
    assert bench.required(9) == [RequestTarget(peer=PEER, nonce=3)]


def test_after_a_refusal_another_peer_is_asked_at_once() -> None:
    bench = Bench()
    bench.required()
    bench.core.on_target(PEER, target(1, is_available=False))

    assert bench.core.on_required(8, PEER + 1) == [RequestTarget(peer=PEER + 1, nonce=2)]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="no manifest"),
        pytest.param(manifest()[:-1], id="cut"),
        pytest.param(manifest(size=2**30 + 1), id="beyond the bound"),
        pytest.param(encode_manifest((Artifact(kind=1, frontier=5, size=2, checksum=2),)), id="no snapshot"),
    ],
)
def test_a_descriptor_that_cannot_be_fetched_is_left_to_the_stall_timer(body: bytes) -> None:
    bench = Bench()
    bench.required()

    assert is_dropped(bench.core.on_target(PEER, target(1, body=body)))

    assert bench.core.stage is Stage.AWAITING_TARGET
    assert bench.ticks(RETRY) == [RequestTarget(peer=PEER, nonce=1)]


def test_the_first_descriptor_wins() -> None:
    bench = Bench()
    bench.fetching()
    bench.core.on_chunk(PEER, 1, 0, 0, b"abcd")

    assert is_dropped(bench.core.on_target(PEER, target(1, body=manifest(op=51, size=9))))

    assert bench.core.received == (4, 0)
    assert bench.core.assembly.artifacts[0].size == 6


def test_a_chunk_that_is_not_the_next_changes_nothing_and_is_no_progress() -> None:
    """C-221"""
    bench = Bench()
    bench.fetching()
    bench.ticks(RETRY - 1)

    assert is_dropped(bench.core.on_chunk(PEER, 1, 1, 0, b"gh"))
    assert is_dropped(bench.core.on_chunk(PEER, 1, 0, 4, b"ef"))

    assert bench.ticks(1) == [RequestChunk(peer=PEER, nonce=1, range=ChunkRange(0, 0, 4))]


def test_a_chunk_before_the_descriptor_has_no_effect() -> None:
    bench = Bench()
    bench.required()

    assert is_dropped(bench.core.on_chunk(PEER, 1, 0, 0, b"abcd"))


def test_silence_is_answered_by_asking_again_and_then_by_giving_up() -> None:
    """BR-17 (c): a transfer without progress is dropped."""
    bench = Bench()
    bench.fetching()
    again = RequestChunk(peer=PEER, nonce=1, range=ChunkRange(0, 0, 4))

    assert bench.ticks(RETRY * STALL_RETRIES_MAX) == [again] * STALL_RETRIES_MAX
    effects = bench.ticks(RETRY)

    assert effects[0] == Discard()
    assert not failure(effects).is_refused
    assert bench.ticks(RETRY) == []


def test_progress_forgives_earlier_stalls() -> None:
    bench = Bench()
    bench.fetching()
    bench.ticks(RETRY * STALL_RETRIES_MAX)

    bench.core.on_chunk(PEER, 1, 0, 0, b"abcd")

    assert len(bench.ticks(RETRY * STALL_RETRIES_MAX)) == STALL_RETRIES_MAX
    assert bench.core.stage is Stage.FETCHING


def test_a_damaged_state_is_fetched_anew_under_a_fresh_nonce() -> None:
    bench = Bench()
    bench.fetching()
    bench.fetched()

    assert bench.core.on_damaged("bad") == [Discard(), RequestTarget(peer=PEER, nonce=2)]

    assert is_dropped(bench.core.on_target(PEER, target(1)))
    assert bench.core.on_target(PEER, target(2))[0] == ReportAccepted(attempt=ATTEMPT)
    assert bench.core.received == (0, 0)


def spend(bench: Bench) -> list[FetchEffect]:
    """Receive damaged bytes until the budget is spent."""
    bench.fetching()
    effects: list[FetchEffect] = []
    for _ in range(DECODE_RETRIES_MAX + 1):
        bench.fetched()
        effects = bench.core.on_damaged("bad")
        if bench.core.stage is not None:
            bench.core.on_target(PEER, target(bench.nonce))
    return effects


def test_d13_the_decode_budget_of_a_generation_is_spent_at_last() -> None:
    """D-13: the generation is that of the accepted descriptor, so the budget is charged where it belongs."""
    bench = Bench()

    report = failure(spend(bench))

    assert f"{DECODE_RETRIES_MAX + 1} times" in report.reason
    bench.required(8)
    assert is_dropped(bench.core.on_target(PEER, target(bench.nonce)))
    assert bench.core.on_target(PEER, target(bench.nonce, body=manifest(op=51)))[0] == ReportAccepted(attempt=8)


def test_a_new_attempt_replaces_the_old_one() -> None:
    bench = Bench()
    bench.fetching()

    assert bench.required(8) == [Discard(), RequestTarget(peer=PEER, nonce=2)]

    assert is_dropped(bench.core.on_chunk(PEER, 1, 0, 0, b"abcd"))
    assert is_dropped(bench.core.on_canceled(ATTEMPT))
    assert bench.core.on_canceled(8) == []


@pytest.mark.parametrize("stage", ["required", "fetching", "ready", "placing", "placed"])
def test_a_cancellation_ends_it_in_every_stage(stage: str) -> None:
    bench = Bench()
    getattr(bench, stage)()

    effects = bench.core.on_canceled(ATTEMPT)

    assert effects == ([] if stage == "required" else [Discard()])
    assert bench.core.stage is None
    assert is_dropped(bench.core.on_placed(ATTEMPT))


def test_no_stall_is_counted_once_everything_is_here() -> None:
    bench = Bench()
    bench.ready()

    assert bench.ticks(RETRY * (STALL_RETRIES_MAX + 2)) == []


def test_descriptors_and_chunks_have_no_effect_once_everything_is_here() -> None:
    bench = Bench()
    bench.ready()

    assert is_dropped(bench.core.on_target(PEER, target(1, is_available=False)))
    assert is_dropped(bench.core.on_chunk(PEER, 1, 0, 0, b"abcd"))


def test_steps_of_another_attempt_or_out_of_turn_have_no_effect() -> None:
    bench = Bench()
    bench.ready()

    assert is_dropped(bench.core.on_place(ATTEMPT - 1))
    assert is_dropped(bench.core.on_placed(ATTEMPT))
    assert is_dropped(bench.core.on_not_placed(ATTEMPT, "no"))
    assert is_dropped(bench.core.on_finished(ATTEMPT, is_ahead=True))
    assert is_dropped(bench.core.on_finished(ATTEMPT - 1, is_ahead=False))
    assert bench.core.stage is Stage.READY


def test_a_snapshot_that_is_not_placed_fails_the_attempt() -> None:
    bench = Bench()
    bench.placing()

    assert bench.core.on_not_placed(ATTEMPT, "the disk is full") == [
        Discard(),
        ReportFailed(attempt=ATTEMPT, reason="the disk is full"),
    ]


def test_our_own_disk_and_an_incoherent_manifest_fail_the_attempt_at_once() -> None:
    for end in (Fetch.on_storage_failed, Fetch.on_incoherent):
        bench = Bench()
        bench.fetching()
        bench.fetched()
        assert end(bench.core, "why") == [Discard(), ReportFailed(attempt=ATTEMPT, reason="why")]


def test_after_a_failure_of_our_own_disk_no_peer_is_asked_before_the_retry_interval() -> None:
    """Repair finds the log left behind again at once and asks for the next attempt: without a pause both would spin."""
    bench = Bench()
    bench.fetching()
    bench.core.on_storage_failed("no space left")
    assert bench.core.on_required(ATTEMPT + 1, PEER + 1) == []
    for _ in range(RETRY - 1):
        assert bench.core.on_tick() == []
    assert bench.core.on_tick() == [RequestTarget(peer=PEER + 1, nonce=bench.nonce)]


def test_a_stage_that_does_not_fit_what_arrived_is_found() -> None:
    bench = Bench()
    bench.fetching()
    assert bench.core._session is not None
    bench.core._session.stage = Stage.READY
    with pytest.raises(AssertionError):
        bench.core.on_place(ATTEMPT)
