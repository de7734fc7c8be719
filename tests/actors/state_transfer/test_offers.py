"""What is served to whom, for how long, and what is refused (section 11, BR-17)."""

from levrier.actors.state_transfer.offers import (
    EXPIRY_RETRIES,
    SERVED_EXPIRY_RETRIES,
    AskVerdict,
    Grant,
    Ignore,
    LoadSnapshot,
    OfferEffect,
    Offers,
    Release,
    SendChunk,
    SendTarget,
)
from levrier.wire.manifest import Artifact, decode_manifest

RETRY = 10
SIZES = (600_000, 40)


def artifacts(op: int) -> tuple[Artifact, ...]:
    return tuple(Artifact(kind=kind, frontier=op, size=size, checksum=kind) for kind, size in enumerate(SIZES))


def grant(snapshot_op: int = 50) -> Grant:
    return Grant(snapshot_op=snapshot_op, commit_op=60, commit_max=61)


def offer(core: Offers, requester: int, nonce: int, *, token: int, op: int = 50) -> SendTarget:
    """Serve that requester the snapshot of `op`, and give the descriptor."""
    core.on_request(requester, nonce)
    effects = core.on_verdict(token, grant(op))
    if effects == [LoadSnapshot(token=token)]:
        effects = core.on_loaded(token, op, artifacts(op))
    (sent,) = effects
    assert isinstance(sent, SendTarget)
    return sent


def ticks(core: Offers, count: int) -> list[OfferEffect]:
    effects = [effect for _ in range(count) for effect in core.on_tick()]
    return [effect for effect in effects if not isinstance(effect, Ignore)]


def is_ignored(effects: list[OfferEffect]) -> bool:
    return len(effects) == 1 and isinstance(effects[0], Ignore)


def test_an_offer_from_the_request_to_the_descriptor() -> None:
    core = Offers(retry_ticks=RETRY)

    assert core.on_request(1, 77) == [AskVerdict(token=1)]
    assert core.on_verdict(1, grant()) == [LoadSnapshot(token=1)]
    (sent,) = core.on_loaded(1, 50, artifacts(50))

    assert isinstance(sent, SendTarget)
    assert (sent.requester, sent.nonce, sent.commit_op, sent.commit_max) == (1, 77, 60, 61)
    assert decode_manifest(sent.manifest) == artifacts(50)


def test_the_same_nonce_gets_the_same_descriptor() -> None:
    """The first wins: another one could be shorter than what the peer has already."""
    core = Offers(retry_ticks=RETRY)
    sent = offer(core, 1, 77, token=1)

    assert core.on_request(1, 77) == [sent]


def test_a_repeated_request_waits_for_the_verdict_of_the_first() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)

    assert is_ignored(core.on_request(1, 77))


def test_one_snapshot_is_read_once_for_all_who_want_it() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)
    core.on_request(2, 88)

    (sent,) = core.on_verdict(2, grant())

    assert isinstance(sent, SendTarget)
    assert sent.requester == 2
    assert core.held == (50,)


def test_a_newer_snapshot_leaves_the_offers_of_the_older_one_alone() -> None:
    """BR-17 (a): a checkpoint of the server takes nothing from a slow peer."""
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)
    offer(core, 2, 88, token=2, op=55)

    assert core.held == (50, 55)
    (chunk,) = core.on_chunk_wanted(1, 77, 0, 0, 10)
    assert isinstance(chunk, SendChunk)
    assert chunk.op == 50


def test_a_file_that_is_newer_than_the_verdict_raises_the_commit_point() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)
    core.on_verdict(1, grant())

    (sent,) = core.on_loaded(1, 70, artifacts(70))

    assert isinstance(sent, SendTarget)
    assert (sent.commit_op, sent.commit_max) == (70, 70)


def test_a_refusal_of_consensus_is_passed_on() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)

    assert core.on_verdict(1, None) == [SendTarget(requester=1, nonce=77)]
    assert core.count == 0


def test_a_file_that_cannot_be_read_is_a_refusal() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)
    core.on_verdict(1, grant())

    assert core.on_unreadable(1) == [SendTarget(requester=1, nonce=77)]
    assert core.count == 0


def test_a_new_nonce_replaces_the_offer_and_voids_its_verdict() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)

    assert core.on_request(1, 78) == [AskVerdict(token=2)]

    assert is_ignored(core.on_verdict(1, grant()))
    assert core.count == 1


def test_a_new_nonce_releases_what_only_the_old_one_held() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)

    assert core.on_request(1, 78) == [Release(op=50), AskVerdict(token=2)]


def test_chunks_are_bounded_by_the_artifact_and_by_256_kib() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)

    def sizes(artifact: int, offset: int, size: int) -> list[int]:
        return [
            effect.size
            for effect in core.on_chunk_wanted(1, 77, artifact, offset, size)
            if isinstance(effect, SendChunk)
        ]

    assert sizes(0, 0, 100) == [100]
    assert sizes(0, 0, 1 << 30) == [262_144]
    assert sizes(0, 599_990, 100) == [10]
    assert sizes(0, 600_000, 100) == []
    assert sizes(1, 0, 100) == [40]
    assert sizes(2, 0, 100) == []


def test_bytes_of_an_unknown_offer_are_unavailable_for_now() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)

    for requester, nonce in ((1, 78), (2, 77)):
        assert core.on_chunk_wanted(requester, nonce, 0, 0, 10) == [
            SendTarget(requester=requester, nonce=nonce, is_transient=True)
        ]


def test_bytes_before_the_descriptor_are_not_given() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)

    assert is_ignored(core.on_chunk_wanted(1, 77, 0, 0, 10))


def test_bytes_that_cannot_be_read_any_more_end_the_offer() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)

    assert core.on_read_failed(1, 77) == [SendTarget(requester=1, nonce=77, is_transient=True), Release(op=50)]


def test_br17_an_offer_that_nobody_fetches_expires_and_frees_its_snapshot() -> None:
    """BR-17 (c): ten retry intervals without a request for bytes."""
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)
    ticks(core, EXPIRY_RETRIES * RETRY - 1)
    core.on_chunk_wanted(1, 77, 0, 0, 10)

    assert ticks(core, EXPIRY_RETRIES * RETRY - 1) == []
    assert ticks(core, 1) == [Release(op=50)]
    assert (core.count, core.held) == (0, ())


def test_an_offer_served_to_its_end_expires_sooner() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)
    core.on_chunk_wanted(1, 77, 1, 0, 40)

    assert ticks(core, SERVED_EXPIRY_RETRIES * RETRY - 1) == []
    assert ticks(core, 1) == [Release(op=50)]


def test_a_snapshot_is_held_as_long_as_anybody_fetches_it() -> None:
    core = Offers(retry_ticks=RETRY)
    offer(core, 1, 77, token=1)
    offer(core, 2, 88, token=2)
    core.on_chunk_wanted(1, 77, 1, 0, 40)

    assert ticks(core, SERVED_EXPIRY_RETRIES * RETRY) == []
    assert core.held == (50,)
    assert ticks(core, EXPIRY_RETRIES * RETRY) == [Release(op=50)]


def test_an_offer_that_waits_for_its_verdict_expires_too() -> None:
    core = Offers(retry_ticks=RETRY)
    core.on_request(1, 77)

    assert ticks(core, EXPIRY_RETRIES * RETRY) == []

    assert core.count == 0
    assert is_ignored(core.on_verdict(1, grant()))
