"""Which bytes are asked for and taken, and which offers are worth fetching (cases C-216 to C-222)."""

import pytest

from levrier.actors.state_transfer.assembly import (
    ARTIFACT_SIZE_MAX,
    Assembly,
    ChunkRange,
    accepted_manifest,
    matches,
)
from levrier.wire.checksums import xxh3
from levrier.wire.errors import WireError
from levrier.wire.manifest import Artifact, ArtifactKind, encode_manifest

SNAPSHOT, TABLE = ArtifactKind.METADATA_SNAPSHOT, ArtifactKind.CLIENT_TABLE


def artifact(size: int, kind: int = SNAPSHOT, checksum: int = 0) -> Artifact:
    return Artifact(kind=kind, frontier=9, size=size, checksum=checksum)


def assembly(*sizes: int, received: tuple[int, ...] = ()) -> Assembly:
    """Artifacts of these sizes, of which so much has come."""
    made = Assembly([artifact(size) for size in sizes])
    for index, size in enumerate(received):
        assert size == 0 or made.take(index, 0, size)
    return made


@pytest.mark.parametrize(
    ("sizes", "received", "chunk", "expected"),
    [
        pytest.param((4, 10), (4, 3), 5, ChunkRange(1, 3, 5), id="the second goes on where it is"),
        pytest.param((8,), (6,), 64, ChunkRange(0, 6, 2), id="no more than is missing"),
        pytest.param((), (), 64, None, id="an empty manifest"),
        pytest.param((3, 2), (3, 2), 64, None, id="a complete one"),
        pytest.param((0, 5), (), 64, ChunkRange(1, 0, 5), id="an empty artifact is skipped"),
        pytest.param((0, 0), (), 64, None, id="nothing but empty ones"),
    ],
)
def test_what_is_asked_for_next(
    sizes: tuple[int, ...], received: tuple[int, ...], chunk: int, expected: ChunkRange | None
) -> None:
    """C-216, C-217, C-218, C-219"""
    made = assembly(*sizes, received=received)

    assert made.next_range(chunk) == expected
    assert made.is_complete == (expected is None)


def test_chunks_in_order_complete_it() -> None:
    """C-220"""
    made = assembly(5, 3)

    while (wanted := made.next_range(2)) is not None:
        assert not made.is_complete
        assert made.take(*wanted)

    assert made.is_complete
    assert made.received == (5, 3)


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param((1, 0, 2), id="another artifact"),
        pytest.param((2, 0, 2), id="no artifact"),
        pytest.param((0, 0, 2), id="stale"),
        pytest.param((0, 3, 2), id="future"),
        pytest.param((0, 2, 7), id="overrun"),
        pytest.param((0, 2, 0), id="empty"),
    ],
)
def test_any_other_chunk_has_no_effect(chunk: tuple[int, int, int]) -> None:
    """C-221"""
    made = assembly(8, 5, received=(2,))

    assert not made.take(*chunk)

    assert made.received == (2, 0)
    assert made.next_range(64) == ChunkRange(0, 2, 6)


@pytest.mark.parametrize(
    ("promised", "data", "expected"),
    [
        (artifact(5, checksum=xxh3(b"bytes")), b"bytes", True),
        (artifact(5, checksum=xxh3(b"bytes")), b"bytez", False),
        (artifact(6, checksum=xxh3(b"bytes")), b"bytes", False),
        (artifact(0, checksum=xxh3(b"")), b"", True),
    ],
)
def test_length_and_checksum_must_both_match(promised: Artifact, data: bytes, expected: bool) -> None:
    """C-222"""
    assert matches(promised, data) is expected


def test_a_snapshot_and_a_table_are_accepted() -> None:
    both = (artifact(7), artifact(3, TABLE))

    assert accepted_manifest(encode_manifest(both)) == both


@pytest.mark.parametrize(
    "artifacts",
    [
        pytest.param((), id="nothing"),
        pytest.param((artifact(3, TABLE),), id="no snapshot"),
        pytest.param((artifact(3),), id="no table"),
        pytest.param((artifact(3, TABLE), artifact(3)), id="the wrong order"),
        pytest.param(
            (artifact(3), artifact(3, TABLE), artifact(3, ArtifactKind.SEGMENT_LOG)), id="a kind of partitions"
        ),
        pytest.param((artifact(ARTIFACT_SIZE_MAX + 1), artifact(3, TABLE)), id="an artifact too large"),
        pytest.param(tuple(artifact(ARTIFACT_SIZE_MAX) for _ in range(5)), id="too large together"),
    ],
)
def test_what_could_not_be_installed_is_not_fetched(artifacts: tuple[Artifact, ...]) -> None:
    """C-213: bounds and kinds are judged before a byte is asked for."""
    with pytest.raises(WireError):
        accepted_manifest(encode_manifest(artifacts))
