"""The bytes of one fetch on the disk, and the judgement of what they are (section 11).

Each artifact is written beside the files of the group as it arrives, so a large state does not have to fit into memory
twice. Nothing of it is synced or ever read by a boot: a fetch that a crash has cut short begins anew.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from levrier.actors.state_transfer.assembly import matches
from levrier.actors.state_transfer.errors import ArtifactDamaged, IncoherentManifest
from levrier.actors.state_transfer.ports import StateCodec
from levrier.persistence.errors import SnapshotDamaged, StorageError, UnsupportedVersion
from levrier.persistence.snapshot import Snapshot, decode_payload
from levrier.persistence.storage import File, Storage
from levrier.wire.manifest import Artifact

_READ_SIZE: Final = 256 * 1024
_NAMES: Final = ("received.snapshot", "received.table")
"""In the order of the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedPayload:
    """Implements `checkpoint.messages.ReceivedPayload`: the payload of a received snapshot, for another thread to read."""

    storage: Storage
    path: Path
    size: int

    def chunks(self) -> Iterator[bytes]:
        """The payload in pieces. Raises `StorageError`."""
        file = self.storage.open(self.path, create=False)
        try:
            for offset in range(0, self.size, _READ_SIZE):
                yield file.read(offset, min(_READ_SIZE, self.size - offset))
        finally:
            file.close()


class ReceivedFiles:
    """The files of a fetch in `directory`. Every method but `discard` may raise `StorageError`."""

    __slots__ = ("_directory", "_files", "_storage")

    def __init__(self, storage: Storage, directory: Path) -> None:
        self._storage = storage
        self._directory = directory
        self._files: list[File] = []

    def begin(self) -> None:
        """Make room for the artifacts of a new fetch."""
        self.discard()
        for name in _NAMES:
            file = self._storage.open(self._directory / name, create=True)
            self._files.append(file)
            file.truncate(0)

    def write(self, artifact: int, offset: int, data: bytes) -> None:
        """Keep a chunk."""
        self._files[artifact].write(offset, data)

    def read(self, artifact: int, size: int) -> bytes:
        """All of an artifact."""
        return self._files[artifact].read(0, size)

    def snapshot_payload(self, size: int) -> ReceivedPayload:
        """The snapshot, to be read elsewhere while its file is there."""
        return ReceivedPayload(storage=self._storage, path=self._directory / _NAMES[0], size=size)

    def discard(self) -> None:
        """Remove what is there, also what an earlier life left behind. A file that stays is overwritten by the next."""
        for file in self._files:
            file.close()
        self._files = []
        for name in _NAMES:
            try:
                if self._storage.exists(self._directory / name):
                    self._storage.remove(self._directory / name)
            except StorageError:
                continue


def judge(files: ReceivedFiles, artifacts: Sequence[Artifact], commit_op: int, codec: StateCodec) -> Snapshot:
    """The snapshot, ready to be installed: its client-table section is the received table in transfer encoding (bytes).

    Raises `ArtifactDamaged` for bytes that are no state, `IncoherentManifest` for frontiers that contradict each other,
    and `StorageError` when the files cannot be read. Nothing is changed by it.
    """
    snapshot_artifact, table_artifact = artifacts
    payload = _verified(files, 0, snapshot_artifact)
    table = _verified(files, 1, table_artifact)
    try:
        snapshot = decode_payload(payload)
    except (SnapshotDamaged, UnsupportedVersion) as error:
        raise ArtifactDamaged(str(error), "snapshot") from error
    if snapshot.op != snapshot_artifact.frontier or snapshot.op == 0:
        raise ArtifactDamaged(f"op {snapshot.op}, promised {snapshot_artifact.frontier}", "snapshot.sequence")
    codec.check(snapshot, table)
    if not snapshot.op <= table_artifact.frontier <= commit_op:
        raise IncoherentManifest(
            f"snapshot at {snapshot.op}, table at {table_artifact.frontier}, commit point {commit_op}", "manifest"
        )
    return replace(snapshot, client_table=table)


def _verified(files: ReceivedFiles, index: int, artifact: Artifact) -> bytes:
    data = files.read(index, artifact.size)
    if not matches(artifact, data):
        raise ArtifactDamaged(f"the {len(data)} bytes do not match the manifest", f"artifact {index}")
    return data
