"""Log entries for the tests of the log: small, chained, sealed unless a test says otherwise."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random

from levrier.persistence.journal import PrepareJournal
from levrier.persistence.storage import Storage
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare

GROUP = METADATA_GROUP
STEP = 4096
DIRECTORY = Path("/data/metadata")
JOURNAL = DIRECTORY / "journal.wal"


def prepare(op: int, *, parent: int = 0, body: bytes = b"body", view: int = 0, commit: int | None = None) -> Prepare:
    """A sealed entry."""
    header = PrepareHeader(
        op=op,
        client=7,
        request=op,
        timestamp=1_000_000 + op,
        commit=max(0, op - 1) if commit is None else commit,
        view=view,
        group=GROUP,
        parent=parent,
        cluster=3,
        user_id=1,
    )
    return Prepare.seal(header, body)


def chain(first: int, last: int, *, parent: int = 0, body: bytes = b"body", view: int = 0) -> list[Prepare]:
    """Entries `first` to `last`, each naming the one before it."""
    entries: list[Prepare] = []
    for op in range(first, last + 1):
        entries.append(prepare(op, parent=parent, body=body + b"." * (op % 9), view=view))
        parent = entries[-1].header.checksum
    return entries


def unsealed(op: int, *, body: bytes = b"body", identity: bool = False, parent: int = 0) -> Prepare:
    """An entry without a body checksum, and without an identity unless asked for."""
    sealed = prepare(op, body=body, parent=parent)
    header = dataclasses.replace(sealed.header, checksum=0, checksum_body=0, view=0)
    if identity:
        return Prepare.seal(dataclasses.replace(header, group=1), body)
    return Prepare(header, body, header.encode() + body)


def open_journal(
    storage: Storage,
    path: Path = JOURNAL,
    *,
    snapshot_op: int = 0,
    slots: int = 16,
    seed: int = 0,
    group: int = GROUP,
    step: int = STEP,
) -> PrepareJournal:
    """Open with small slots and a small preallocation step."""
    storage.make_directory(path.parent)
    random = Random(seed)
    return PrepareJournal.open(
        storage,
        path,
        group=group,
        snapshot_op=snapshot_op,
        slots=slots,
        epoch_source=lambda: random.getrandbits(64),
        preallocate_step=step,
    )


def ops(journal: PrepareJournal) -> list[int]:
    """The ops that a log holds."""
    return [header.op for header in journal.headers_from(0)]


def frames(journal: PrepareJournal) -> dict[int, bytes]:
    """The bytes of everything that a log holds; fails if one is unreadable."""
    found: dict[int, bytes] = {}
    for header in journal.headers_from(0):
        entry = journal.entry_at(header)
        assert entry is not None
        found[header.op] = entry.frame
    return found
