"""What every replica last said that it has durably applied, one file, written as a whole (acknowledgements 2).

File: a msgpack array `[version, [acknowledgement, ...]]`, the acknowledgements as in `levrier.wire.acknowledgement` and
ascending by replica id, then the trailer of a snapshot: magic and XXH3 of the payload. A missing file is an empty store; one
that cannot be read or decoded refuses the boot, it is never taken for an empty store.

An acknowledgement counts from the moment the rename is durable: a write that failed leaves the store in memory as it was.
On the disk the new content may be there all the same; what it says is true, and the next write says more.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgpack
import xxhash

from levrier.persistence.data_dir import temporary
from levrier.persistence.errors import AcknowledgementsDamaged, StorageError, UnsupportedVersion
from levrier.persistence.snapshot import read_sealed, trailer
from levrier.persistence.storage import Storage
from levrier.persistence.superblock import remove_quietly
from levrier.wire.acknowledgement import Acknowledgement
from levrier.wire.errors import WireError

FORMAT_VERSION: Final = 1
REPLICAS_MAX: Final = 256


class AcknowledgementStore:
    """The latest acknowledgement of each replica. One writer."""

    def __init__(self, storage: Storage, path: Path, acknowledgements: Iterable[Acknowledgement]) -> None:
        self._storage = storage
        self._path = path
        self._latest = {each.replica_id: each for each in acknowledgements}

    @classmethod
    def open(cls, storage: Storage, path: Path) -> AcknowledgementStore:
        """Read the file. Raises `AcknowledgementsDamaged` or `UnsupportedVersion`, naming it."""
        if not storage.exists(path):
            return cls(storage, path, ())
        return cls(storage, path, _decode(storage.read_all(path), path))

    def get(self, replica_id: str) -> Acknowledgement | None:
        """What this replica last said; None if it never did."""
        return self._latest.get(replica_id)

    def all(self) -> tuple[Acknowledgement, ...]:
        """Every replica's, ascending by replica id."""
        return tuple([self._latest[each] for each in sorted(self._latest)])

    def record(self, acknowledgement: Acknowledgement) -> bool:
        """Keep it durably; False when it would go backwards, and nothing changes then. Raises `StorageError`."""
        return self.record_all((acknowledgement,))[0]

    def record_all(
        self, acknowledgements: Iterable[Acknowledgement], *, forgotten: Iterable[str] = ()
    ) -> tuple[bool, ...]:
        """Several in one write, each judged behind the ones before it. All of them count afterwards, or none.

        First, what the `forgotten` replicas said is dropped: their disks were lost, and with them what it was about.
        """
        forgotten = frozenset(forgotten)
        latest = {key: value for key, value in self._latest.items() if key not in forgotten}
        kept = []
        for each in acknowledgements:
            existing = latest.get(each.replica_id)
            advances = existing is None or each.applied_frontier.dominates(existing.applied_frontier)
            if advances:
                latest[each.replica_id] = each
            kept.append(advances)
        if any(kept) or len(latest) != len(self._latest):
            self._replace(latest)
        return tuple(kept)

    def _replace(self, latest: dict[str, Acknowledgement]) -> None:
        assert len(latest) <= REPLICAS_MAX
        payload = _encode(latest[each] for each in sorted(latest))
        scratch = temporary(self._path)
        try:
            file = self._storage.open(scratch, create=True)
            try:
                file.truncate(0)
                file.write(0, payload + trailer(xxhash.xxh3_64_intdigest(payload)))
                file.sync()
            finally:
                file.close()
            self._storage.replace(scratch, self._path)
        except StorageError:
            remove_quietly(self._storage, scratch)
            raise
        self._storage.sync_directory(self._path.parent)
        self._latest = latest


def _encode(acknowledgements: Iterable[Acknowledgement]) -> bytes:
    payload: bytes = msgpack.packb([FORMAT_VERSION, [each.values() for each in acknowledgements]])
    return payload


def _decode(content: bytes, path: Path) -> list[Acknowledgement]:
    payload = read_sealed(content)
    if isinstance(payload, str):
        raise AcknowledgementsDamaged(file=path, reason=payload)
    try:
        values = msgpack.unpackb(payload, raw=False, use_list=False)
    except (ValueError, msgpack.UnpackException) as error:
        raise AcknowledgementsDamaged(file=path, reason=f"no msgpack: {error}") from error
    if not isinstance(values, tuple) or len(values) != 2 or not isinstance(values[1], tuple):
        raise AcknowledgementsDamaged(file=path, reason="no array of version and acknowledgements")
    version, entries = values
    if version != FORMAT_VERSION or isinstance(version, bool):
        written = version if isinstance(version, int) else 0
        raise UnsupportedVersion(file=path, found=written, expected=FORMAT_VERSION)
    try:
        found = [Acknowledgement.from_values(entry) for entry in entries]
    except WireError as error:
        raise AcknowledgementsDamaged(file=path, reason=str(error)) from error
    names = [each.replica_id for each in found]
    if names != sorted(set(names)):
        raise AcknowledgementsDamaged(file=path, reason="replicas out of order")
    return found
