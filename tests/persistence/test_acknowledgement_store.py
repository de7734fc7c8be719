"""The store of acknowledgements: what counts, what does not, and what a crash leaves (acknowledgements 2)."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from random import Random

import msgpack
import pytest
from xxhash import xxh3_64_intdigest

from levrier.persistence.acknowledgement_store import FORMAT_VERSION, AcknowledgementStore
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.errors import AcknowledgementsDamaged, IoFailed, StorageError, UnsupportedVersion
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage, Tear
from levrier.persistence.snapshot import trailer
from levrier.persistence.storage import DiskStorage
from levrier.wire.acknowledgement import Acknowledgement, Frontier

DIRECTORY = Path("/data/metadata")
FILE = GroupPaths(DIRECTORY).acknowledgements
A, B = 0, 1


def disk(seed: int = 1, faults: DiskFaults | None = None) -> SimulatedStorage:
    storage = SimulatedStorage(Random(seed), faults)
    storage.make_directory(DIRECTORY)
    return storage


def opened(storage: SimulatedStorage) -> AcknowledgementStore:
    return AcknowledgementStore.open(storage, FILE)


def said(
    replica: str = "rb",
    frontier: dict[int, int] | None = None,
    *,
    view: tuple[str, ...] = ("ra", "rb"),
    high_water: dict[int, int] | None = None,
    at: int = 1,
) -> Acknowledgement:
    return Acknowledgement(
        replica_id=replica,
        node_id=replica.upper(),
        applied_frontier=Frontier.of({A: 3} if frontier is None else frontier),
        origin_sequence_high_water=Frontier.of(high_water or {}),
        membership_view=view,
        produced_at_ms=at,
    )


def sealed(payload: bytes) -> bytes:
    return payload + trailer(xxh3_64_intdigest(payload))


def test_a001_what_was_recorded_is_read_back_after_a_restart() -> None:
    """A-001, and A-010: with its high-water marks."""
    storage = disk()
    assert opened(storage).record(said(high_water={A: 7}))
    storage.crash()
    found = opened(storage).get("rb")
    assert found is not None
    assert found.applied_frontier.at(A) == 3
    assert found.membership_view == ("ra", "rb")
    assert found.origin_sequence_high_water.at(A) == 7
    assert found == said(high_water={A: 7})


def test_a002_an_acknowledgement_never_goes_backwards() -> None:
    """A-002: 2 after 5 is refused and nothing changes; 5 again is kept, so its time moves."""
    storage = disk()
    store = opened(storage)
    assert store.record(said(frontier={A: 5}, at=1))
    before = storage.content(FILE)
    assert not store.record(said(frontier={A: 2}, at=2))
    assert store.get("rb") == said(frontier={A: 5}, at=1)
    assert storage.content(FILE) == before
    assert store.record(said(frontier={A: 5}, at=3))
    assert opened(storage).get("rb") == said(frontier={A: 5}, at=3)


def test_a011_an_incomparable_frontier_is_refused() -> None:
    """A-011."""
    store = opened(disk())
    assert store.record(said(frontier={A: 5, B: 1}))
    assert not store.record(said(frontier={A: 6}))
    assert store.get("rb") == said(frontier={A: 5, B: 1})


def test_several_are_judged_in_order_and_written_at_once() -> None:
    storage = disk()
    store = opened(storage)
    calls = storage.calls
    kept = store.record_all((said("rc"), said("rb", {A: 5}), said("rb", {A: 4}), said("rb", {A: 6})))
    assert kept == (True, True, False, True)
    assert sum(each.name == "rename" for each in storage.audit if each.number > calls) == 1
    assert store.all() == opened(storage).all() == (said("rb", {A: 6}), said("rc"))
    calls = storage.calls
    assert store.record_all((said("rb", {A: 1}),)) == (False,)
    assert storage.calls == calls


def test_what_a_lost_disk_said_is_forgotten_and_it_may_begin_anew() -> None:
    storage = disk()
    store = opened(storage)
    store.record_all((said("ra"), said("rb", {A: 9})))
    assert store.record_all((said("rb", {A: 1}),), forgotten=("rb", "never heard of")) == (True,)
    assert opened(storage).all() == (said("ra"), said("rb", {A: 1}))
    assert store.record_all((), forgotten=("ra",)) == ()
    assert opened(storage).all() == (said("rb", {A: 1}),)


def test_a_missing_file_is_an_empty_store() -> None:
    storage = disk()
    assert opened(storage).all() == ()
    assert opened(storage).get("rb") is None
    assert not storage.exists(FILE)


def test_the_real_disk_keeps_it_too(tmp_path: Path) -> None:
    path = tmp_path / "acknowledgements.bin"
    assert AcknowledgementStore.open(DiskStorage(), path).record(said())
    assert AcknowledgementStore.open(DiskStorage(), path).all() == (said(),)
    assert [each.name for each in tmp_path.iterdir()] == ["acknowledgements.bin"]


REWRITE = ["create", "truncate", "write", "sync", "rename", "sync_directory"]


def test_a_rewrite_makes_these_calls() -> None:
    storage = disk()
    store = opened(storage)
    calls = storage.calls
    store.record(said())
    assert [each.name for each in storage.audit if each.number > calls] == REWRITE


@pytest.mark.parametrize("index", range(len(REWRITE)), ids=REWRITE)
def test_a012_a_write_that_fails_leaves_the_memory_as_it_was(index: int) -> None:
    """A-012: the caller is told, the old acknowledgement still answers, and the next one is written."""
    storage = disk()
    store = opened(storage)
    store.record(said(frontier={A: 5}))
    storage.faults.fail_at[storage.calls + 1 + index] = errno.EIO
    with pytest.raises(IoFailed):
        store.record(said(frontier={A: 6}))
    assert store.all() == (said(frontier={A: 5}),)
    assert store.record(said(frontier={A: 7}))
    assert opened(storage).all() == (said(frontier={A: 7}),)


@pytest.mark.parametrize("after", range(len(REWRITE) + 1))
def test_a016_a_crash_at_every_byte_leaves_the_old_or_the_new_store(after: int) -> None:
    """A-016: at every call, with every number of unsynced bytes on the disk: never a third store, never none."""
    old, new = (said(frontier={A: 5}),), (said("ra"), said(frontier={A: 6}))
    seen = set()
    for keep_bytes in range(220):
        for tear in (Tear.LOSE, Tear.KEEP):
            storage = disk()
            store = opened(storage)
            store.record_all(old)
            storage.faults.crash_after = storage.calls + after
            with contextlib.suppress(Crashed):
                store.record_all(new)
            storage.crash(tear=tear, keep_bytes=keep_bytes)
            seen.add(opened(storage).all())
    assert seen <= {old, new}
    assert (new in seen) == (after > REWRITE.index("rename"))


def test_a016_any_prefix_of_the_temporary_file_is_never_read() -> None:
    """A-016: cut at every byte, the rewrite that was not renamed changes nothing."""
    storage = disk()
    opened(storage).record(said(frontier={A: 5}))
    whole = sealed(msgpack.packb([FORMAT_VERSION, [said(frontier={A: 6}).values()]]))
    scratch = FILE.with_name(FILE.name + ".tmp")
    for size in range(len(whole) + 1):
        file = storage.open(scratch, create=True)
        file.truncate(0)
        file.write(0, whole[:size])
        file.sync()
        assert opened(storage).all() == (said(frontier={A: 5}),)
    assert opened(storage).record(said(frontier={A: 7}))
    assert not storage.exists(scratch)


def test_a_file_that_is_cut_or_changed_anywhere_is_refused_with_its_path() -> None:
    storage = disk()
    opened(storage).record(said())
    whole = storage.content(FILE)
    assert whole is not None
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for content in damaged:
        file = storage.open(FILE, create=True)
        file.truncate(0)
        file.write(0, content)
        with pytest.raises(StorageError, match=str(FILE)):
            opened(storage)


VALID = said().values()
SEALED_BAD: list[tuple[str, bytes]] = [
    ("no msgpack", b"\xc1"),
    ("no array", msgpack.packb(7)),
    ("too few", msgpack.packb([FORMAT_VERSION])),
    ("no list", msgpack.packb([FORMAT_VERSION, 7])),
    ("no acknowledgement", msgpack.packb([FORMAT_VERSION, [7]])),
    ("twice the same", msgpack.packb([FORMAT_VERSION, [VALID, VALID]])),
]


@pytest.mark.parametrize(("name", "payload"), SEALED_BAD, ids=[row[0] for row in SEALED_BAD])
def test_a_sealed_file_that_makes_no_sense_is_refused(name: str, payload: bytes) -> None:
    storage = disk()
    storage.open(FILE, create=True).write(0, sealed(payload))
    with pytest.raises(AcknowledgementsDamaged, match="damaged acknowledgements"):
        opened(storage)


def test_another_format_version_is_named() -> None:
    storage = disk()
    storage.open(FILE, create=True).write(0, sealed(msgpack.packb([FORMAT_VERSION + 1, []])))
    with pytest.raises(UnsupportedVersion, match=f"format version {FORMAT_VERSION + 1}, expected {FORMAT_VERSION}"):
        opened(storage)
