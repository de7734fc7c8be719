"""The artifacts of one fetch: what is here, what to ask for next, which bytes are taken (consensus specification 11).

One chunk is in flight at a time, so the only chunk that is taken is the one that continues the first incomplete artifact
exactly where it ends. Anything else is stale, repeated or made up, and has no effect. Knows lengths, never bytes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from levrier.wire.checksums import xxh3
from levrier.wire.errors import WireError
from levrier.wire.manifest import Artifact, ArtifactKind, decode_manifest
from levrier.wire.transfer_headers import STATE_CHUNK_SIZE_MAX

ARTIFACT_SIZE_MAX: Final = 1 << 30
"""No receiver takes more for one artifact, in bytes."""
MANIFEST_SIZE_MAX: Final = 1 << 32
"""No receiver takes more for all artifacts together, in bytes."""

assert STATE_CHUNK_SIZE_MAX <= ARTIFACT_SIZE_MAX <= MANIFEST_SIZE_MAX

_KINDS: Final = (int(ArtifactKind.METADATA_SNAPSHOT), int(ArtifactKind.CLIENT_TABLE))


class ChunkRange(NamedTuple):
    """`size` bytes of artifact number `artifact` from `offset`."""

    artifact: int
    offset: int
    size: int


class Assembly:
    """How far each artifact has come."""

    __slots__ = ("_received", "artifacts")

    def __init__(self, artifacts: Sequence[Artifact]) -> None:
        self.artifacts = tuple(artifacts)
        self._received = [0] * len(self.artifacts)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return self._incomplete() is None

    @property
    def received(self) -> tuple[int, ...]:
        """Bytes of each artifact."""
        return tuple(self._received)

    def next_range(self, chunk_size_max: int) -> ChunkRange | None:
        """The next chunk to ask for; None when nothing is missing."""
        assert chunk_size_max > 0
        index = self._incomplete()
        if index is None:
            return None
        have = self._received[index]
        return ChunkRange(index, have, min(self.artifacts[index].size - have, chunk_size_max))

    def take(self, artifact: int, offset: int, size: int) -> bool:
        """Whether a chunk of that size is the one that goes on; then it counts as received."""
        if size == 0 or artifact != self._incomplete() or offset != self._received[artifact]:
            return False
        if offset + size > self.artifacts[artifact].size:
            return False
        self._received[artifact] += size
        assert self._received[artifact] <= self.artifacts[artifact].size
        return True

    def _incomplete(self) -> int | None:
        for index, artifact in enumerate(self.artifacts):
            if self._received[index] < artifact.size:
                return index
        return None


def accepted_manifest(body: bytes) -> tuple[Artifact, Artifact]:
    """The snapshot and the client table that a descriptor offers. Raises `WireError` for what is not to be fetched.

    Besides what does not decode these are artifacts beyond the bounds, and any but one snapshot followed by one table:
    nothing else could be installed, so it is refused before it is fetched, not after.
    """
    artifacts = decode_manifest(body)
    if any(artifact.size > ARTIFACT_SIZE_MAX for artifact in artifacts):
        raise WireError(f"an artifact above {ARTIFACT_SIZE_MAX} bytes", "manifest.len")
    if sum(artifact.size for artifact in artifacts) > MANIFEST_SIZE_MAX:
        raise WireError(f"more than {MANIFEST_SIZE_MAX} bytes together", "manifest.len")
    if tuple(artifact.kind for artifact in artifacts) != _KINDS:
        raise WireError(
            f"kinds {[artifact.kind for artifact in artifacts]}, not a snapshot and a table", "manifest.kind"
        )
    snapshot, table = artifacts
    return snapshot, table


def matches(artifact: Artifact, data: bytes) -> bool:
    """Whether these are the bytes that the manifest promises: the length and the checksum."""
    return len(data) == artifact.size and xxh3(data) == artifact.checksum
