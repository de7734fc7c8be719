"""The snapshot file: layout, versions, damage, atomic replacement (persistence 4, D-22, D-26, D-35)."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
from pathlib import Path
from random import Random

import msgpack
import pytest
from xxhash import xxh3_64_intdigest

from levrier.persistence.errors import SnapshotDamaged, SnapshotNotWritten, SnapshotSuperseded, UnsupportedVersion
from levrier.persistence.pairing import Accept, Pairing, check_pairing
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage, Tear
from levrier.persistence.snapshot import (
    ABSENT_SECTION,
    FIELD_COUNT,
    FORMAT_VERSION,
    SYNC_SIZE,
    TRAILER_SIZE,
    SnapshotFields,
    SnapshotInfo,
    SnapshotWriter,
    decode_payload,
    decode_u128,
    encode_payload,
    encode_u128,
    peek_version,
    read_payload,
    read_snapshot,
    trailer,
    write_snapshot,
)
from levrier.persistence.storage import DiskStorage
from levrier.persistence.superblock import VsrState

DIRECTORY = Path("/data/metadata")
SNAPSHOT = DIRECTORY / "snapshot.bin"
SCRATCH = DIRECTORY / "snapshot.bin.tmp"

FIELDS = SnapshotFields(
    sequence=42,
    created_at=1_700_000_000_000_000,
    writer_release=0x2C00,
    consensus_group_high_water=17,
    next_user_id=3,
    acknowledgement_frontier=((0, 40), (2, 42)),
    acknowledgement_high_water=((0, 16), (2, 17)),
    table_frontier=42,
    birth_id=(1 << 127) + 5,
)
EMPTY = SnapshotFields(sequence=42, created_at=7, writer_release=0x2C00)
SECTIONS = (msgpack.packb([[1, ["root", b"hash"]]]), msgpack.packb([{(1, "a"): 2}, 5]), msgpack.packb([[], []]))


def disk(seed: int = 1, faults: DiskFaults | None = None) -> SimulatedStorage:
    storage = SimulatedStorage(Random(seed), faults)
    storage.make_directory(DIRECTORY)
    return storage


def at(sequence: int) -> SnapshotFields:
    return dataclasses.replace(EMPTY, sequence=sequence, created_at=sequence)


def absent() -> list[bytes]:
    return [ABSENT_SECTION] * 3


def sealed(payload: bytes) -> bytes:
    return payload + trailer(xxh3_64_intdigest(payload))


# Layout


def test_s089_s092_an_empty_snapshot_survives_the_round_trip() -> None:
    """S-089, S-092: op, version and release survive, all sections are absent."""
    snapshot = decode_payload(encode_payload(EMPTY))
    assert (snapshot.op, snapshot.fields) == (42, EMPTY)
    assert (snapshot.users, snapshot.streams, snapshot.client_table) == (None, None, None)


def test_s090_s094_the_frame_is_a_short_array_that_starts_with_the_version() -> None:
    """S-090 and S-094 in our format (D-35): 13 fields, version 1."""
    payload = encode_payload(EMPTY)
    assert payload[0] == 0x90 | FIELD_COUNT == 0x9D
    assert payload[1] == FORMAT_VERSION == 1
    assert len(msgpack.unpackb(payload)) == 13


def test_the_order_of_the_fields_is_fixed() -> None:
    """D-22, D-35: written out by hand, so that a change of shape cannot pass unseen."""
    payload = encode_payload(FIELDS, users=b"\x01", streams=b"\x02", client_table=b"\x03")
    assert msgpack.unpackb(payload) == [
        1,
        1_700_000_000_000_000,
        42,
        1,
        2,
        3,
        0x2C00,
        17,
        3,
        [[0, 40], [2, 42]],
        [[0, 16], [2, 17]],
        42,
        b"\x05" + bytes(14) + b"\x80",
    ]


def test_every_field_and_section_is_read_back() -> None:
    storage = disk()
    info = write_snapshot(storage, DIRECTORY, FIELDS, SECTIONS)
    snapshot = read_snapshot(storage, SNAPSHOT)
    assert snapshot is not None
    assert snapshot.fields == FIELDS
    assert snapshot.users == ((1, ("root", b"hash")),)
    assert snapshot.streams == ({(1, "a"): 2}, 5)
    assert snapshot.client_table == ((), ())
    assert (snapshot.op, snapshot.checksum, snapshot.size) == (info.op, info.checksum, info.size)


def test_s093_equal_content_gives_equal_bytes() -> None:
    """S-093: however the sections are sliced."""
    one, other = disk(1), disk(2)
    write_snapshot(one, DIRECTORY, FIELDS, SECTIONS)
    write_snapshot(other, DIRECTORY, FIELDS, [bytes((byte,)) for byte in b"".join(SECTIONS)])
    assert one.content(SNAPSHOT) == other.content(SNAPSHOT)
    users, streams, client_table = SECTIONS
    payload = encode_payload(FIELDS, users=users, streams=streams, client_table=client_table)
    assert one.content(SNAPSHOT) == sealed(payload)


def test_s095_no_version_is_peeked_where_there_is_none() -> None:
    """S-095, and other things that are no version."""
    for payload in (b"", b"\xa3abc", b"\x91\xc0", b"\x90", b"\x91\xff", b"\x91\xc3", b"\x91", b"\x9d\xcd\x01", b"\xc1"):
        assert peek_version(payload) is None
    assert peek_version(encode_payload(EMPTY)) == 1
    assert peek_version(b"\x91\x04") == 4


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_s096_another_version_is_named(version: int) -> None:
    """S-096."""
    payload = bytes((0x9D, version)) + encode_payload(EMPTY)[2:]
    with pytest.raises(UnsupportedVersion) as caught:
        decode_payload(payload)
    assert (caught.value.found, caught.value.expected) == (version, 1)


def test_s097_another_version_is_named_whatever_follows() -> None:
    """S-097: an extra element, nonsense, or nothing at all."""
    for payload in (b"\x9e\x04" + encode_payload(EMPTY)[2:] + b"\x01", b"\x9d\x04\xc1\xc1", b"\x9d\x04"):
        with pytest.raises(UnsupportedVersion):
            decode_payload(payload)


def test_s098_bytes_without_a_version_are_damaged() -> None:
    """S-098."""
    for payload in (b"", b"\xa3abc", b"\x91\xc0", b"nonsense"):
        with pytest.raises(SnapshotDamaged, match="no format version"):
            decode_payload(payload)


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (1, None),
        (1, -1),
        (2, "42"),
        (2, True),
        (6, 1.5),
        (9, None),
        (9, [[1]]),
        (9, [[1, 2, 3]]),
        (9, [[1, None]]),
        (9, [[2, 1], [1, 1]]),
        (10, [1]),
        (11, b""),
        (12, b"short"),
        (12, 0),
    ],
)
def test_a_field_of_the_wrong_kind_is_damage(index: int, value: object) -> None:
    values = msgpack.unpackb(encode_payload(FIELDS))
    values[index] = value
    with pytest.raises(SnapshotDamaged):
        decode_payload(msgpack.packb(values))


def test_too_few_fields_or_bytes_behind_the_end_are_damage() -> None:
    payload = encode_payload(EMPTY)
    for bad in (msgpack.packb(msgpack.unpackb(payload)[:-1]), payload + b"\x01", payload[:-1], b"\x91\x01"):
        with pytest.raises(SnapshotDamaged):
            decode_payload(bad)


def test_128_bit_integers_are_16_little_endian_bytes() -> None:
    """D-35."""
    assert encode_u128(0x0102) == b"\x02\x01" + bytes(14)
    for value in (0, 1, 1 << 64, (1 << 128) - 1):
        assert decode_u128(encode_u128(value)) == value
    for bad in (b"", bytes(15), bytes(17), 5, "x" * 16, None):
        with pytest.raises(ValueError, match="16 bytes"):
            decode_u128(bad)


# The file


def test_s113_what_was_written_is_loaded_and_any_flip_is_noticed() -> None:
    """S-113: op and payload hash match; every single byte is covered, the trailer included."""
    storage = disk()
    info = write_snapshot(storage, DIRECTORY, dataclasses.replace(FIELDS, sequence=99), SECTIONS)
    content = storage.content(SNAPSHOT) or b""
    assert info == SnapshotInfo(op=99, checksum=xxh3_64_intdigest(content[:-TRAILER_SIZE]), size=len(content) - 20)
    assert content[-TRAILER_SIZE : -TRAILER_SIZE + 4] == (0x49534E50).to_bytes(4, "little")
    snapshot = read_snapshot(storage, SNAPSHOT)
    assert snapshot is not None
    assert (snapshot.op, snapshot.checksum) == (info.op, info.checksum)
    for offset in range(len(content)):
        storage.put(SNAPSHOT, content)
        storage.flip(SNAPSHOT, offset, offset % 8)
        with pytest.raises(SnapshotDamaged) as caught:
            read_snapshot(storage, SNAPSHOT)
        assert "snapshot.bin" in str(caught.value)
        assert "start from a copy" in str(caught.value)


def test_a_snapshot_cut_at_any_length_is_damaged() -> None:
    content = sealed(encode_payload(EMPTY))
    storage = disk()
    for size in range(len(content)):
        storage.put(SNAPSHOT, content[:size])
        with pytest.raises(SnapshotDamaged):
            read_snapshot(storage, SNAPSHOT)


def test_no_file_is_no_snapshot() -> None:
    assert read_snapshot(disk(), SNAPSHOT) is None
    assert read_payload(disk(), SNAPSHOT) is None


def test_s118_a_sealed_snapshot_of_another_version_is_refused() -> None:
    """S-118: though its trailer, and a superblock that names it, are right."""
    storage = disk()
    payload = b"\x9d\x04" + encode_payload(EMPTY)[2:]
    storage.put(SNAPSHOT, sealed(payload))
    with pytest.raises(UnsupportedVersion) as caught:
        read_snapshot(storage, SNAPSHOT)
    assert (caught.value.found, caught.value.expected) == (4, 1)


def test_s119_the_checksum_is_that_of_the_bytes_on_disk() -> None:
    """S-119: the version in a wider form is accepted, and nothing is hashed over a re-encoding."""
    storage = disk()
    payload = b"\x9d\xcd\x00\x01" + encode_payload(EMPTY)[2:]
    storage.put(SNAPSHOT, sealed(payload))
    snapshot = read_snapshot(storage, SNAPSHOT)
    assert snapshot is not None
    assert snapshot.checksum == xxh3_64_intdigest(payload) != xxh3_64_intdigest(encode_payload(EMPTY))
    state = VsrState(
        cluster=1, replica_id=0, replica_count=1, checkpoint_op=42, checkpoint_checksum=xxh3_64_intdigest(payload)
    )
    assert check_pairing(state, Pairing(op=snapshot.op, checksum=snapshot.checksum)) == Accept()


# Writing


def test_a_received_snapshot_is_stored_verbatim() -> None:
    """Persistence 7: the payload of a peer, with our own trailer."""
    storage = disk()
    payload = b"\x9d\xcd\x00\x01" + encode_payload(EMPTY)[2:]
    writer = SnapshotWriter(storage, DIRECTORY)
    writer.begin_received(42)
    for offset in range(0, len(payload), 5):
        writer.write(payload[offset : offset + 5])
    assert writer.size == len(payload)
    info = writer.finish()
    assert info == SnapshotInfo(op=42, checksum=xxh3_64_intdigest(payload), size=len(payload))
    assert read_payload(storage, SNAPSHOT) == payload


def test_large_sections_are_written_in_bounded_pieces() -> None:
    storage = disk()
    chunk = msgpack.packb(bytes(1000))[:-1000] + bytes(1000)
    writer = SnapshotWriter(storage, DIRECTORY)
    writer.begin(EMPTY)
    writer.write(msgpack.Packer().pack_array_header(3000))
    for _ in range(3000):
        writer.write(chunk)
    writer.write(ABSENT_SECTION)
    writer.write(ABSENT_SECTION)
    writer.finish()
    sizes = [call.size for call in storage.audit if call.name == "write"]
    assert len(sizes) > 10
    assert max(sizes) < 300_000
    snapshot = read_snapshot(storage, SNAPSHOT)
    assert snapshot is not None
    assert snapshot.users == (bytes(1000),) * 3000


def test_a_large_snapshot_is_synced_as_it_grows() -> None:
    """The log shares the disk: a sync of all at the end would keep its appends waiting for as long as it takes."""
    storage = disk()
    writer = SnapshotWriter(storage, DIRECTORY)
    writer.begin(FIELDS)
    piece = msgpack.packb(b"x" * 100_000)
    writer.write(msgpack.Packer().pack_array_header(50))
    for _ in range(50):
        writer.write(piece)
    writer.write(ABSENT_SECTION)
    writer.write(ABSENT_SECTION)
    writer.finish()
    unsynced = largest = 0
    for call in storage.audit:
        if call.path == SCRATCH:
            unsynced = 0 if call.name in {"datasync", "sync"} else unsynced + call.size
            largest = max(largest, unsynced)
    assert 0 < largest < 2 * SYNC_SIZE
    assert read_snapshot(storage, SNAPSHOT) is not None


def test_a_sync_that_fails_on_the_way_gives_the_snapshot_up() -> None:
    storage = disk()
    write_snapshot(storage, DIRECTORY, EMPTY, absent())
    before = storage.content(SNAPSHOT)
    writer = SnapshotWriter(storage, DIRECTORY)
    writer.begin(at(43))
    storage.faults.fail_at[storage.calls + 2] = errno.EIO
    with pytest.raises(SnapshotNotWritten) as caught:
        writer.write(bytes(SYNC_SIZE))
    assert caught.value.stage == "sync"
    assert not writer.writing
    assert storage.content(SNAPSHOT) == before
    assert storage.content(SCRATCH) is None


def test_an_aborted_snapshot_leaves_the_old_one_and_no_trace() -> None:
    storage = disk()
    write_snapshot(storage, DIRECTORY, at(1), absent())
    writer = SnapshotWriter(storage, DIRECTORY)
    writer.abort()
    writer.begin(at(2))
    writer.write(ABSENT_SECTION)
    assert writer.writing
    writer.abort()
    assert not writer.writing
    assert storage.list(DIRECTORY) == ("snapshot.bin",)
    writer.begin(at(3))
    for chunk in absent():
        writer.write(chunk)
    assert writer.finish().op == 3


def test_an_encoder_that_raises_leaves_the_old_snapshot() -> None:
    storage = disk()
    write_snapshot(storage, DIRECTORY, at(1), absent())

    def broken() -> list[bytes]:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        write_snapshot(storage, DIRECTORY, at(2), (chunk for chunk in (b"\xc0", *broken())))
    assert storage.list(DIRECTORY) == ("snapshot.bin",)


def test_d26_a_superseded_snapshot_is_given_up_before_the_rename() -> None:
    """D-26: asked when everything is written and synced, right before the rename."""
    storage = disk()
    write_snapshot(storage, DIRECTORY, at(9), absent())
    before = storage.content(SNAPSHOT)
    asked: list[str] = []

    def may_replace() -> bool:
        asked.append(storage.audit[-1].name)
        return False

    with pytest.raises(SnapshotSuperseded) as caught:
        write_snapshot(storage, DIRECTORY, at(5), absent(), may_replace)
    assert asked == ["sync"]
    assert caught.value.op == 5
    assert storage.content(SNAPSHOT) == before
    assert storage.list(DIRECTORY) == ("snapshot.bin",)
    assert write_snapshot(storage, DIRECTORY, at(10), absent(), lambda: True).op == 10


def test_two_snapshots_at_once_are_our_own_mistake() -> None:
    writer = SnapshotWriter(disk(), DIRECTORY)
    writer.begin(at(1))
    with pytest.raises(AssertionError):
        writer.begin(at(2))


@pytest.mark.parametrize(
    ("call", "stage"),
    [(1, "create"), (2, "create"), (3, "write"), (4, "write"), (5, "sync"), (6, "rename"), (7, "sync-directory")],
)
def test_each_failure_names_its_stage(call: int, stage: str) -> None:
    """Persistence 4.2."""
    storage = disk()
    write_snapshot(storage, DIRECTORY, at(1), absent())
    storage.faults.fail_at = {storage.calls + call: errno.EIO}
    with pytest.raises(SnapshotNotWritten) as caught:
        write_snapshot(storage, DIRECTORY, at(2), absent())
    assert caught.value.stage == stage
    assert stage in str(caught.value)
    assert "snapshot.bin" in str(caught.value)
    snapshot = read_snapshot(storage, SNAPSHOT)
    assert snapshot is not None
    assert snapshot.op == (2 if stage == "sync-directory" else 1)


# Every call, every byte


def calls_of_a_write() -> int:
    storage = disk()
    write_snapshot(storage, DIRECTORY, at(1), absent())
    before = storage.calls
    write_snapshot(storage, DIRECTORY, at(2), absent())
    return storage.calls - before


@pytest.mark.parametrize("tear", [None, *Tear])
def test_br19_a_crash_behind_any_call_leaves_the_old_or_the_new(tear: Tear | None) -> None:
    """BR-19 at the snapshot: never neither, and the new one once it was acknowledged."""
    for call in range(calls_of_a_write() + 1):
        storage = disk(call)
        write_snapshot(storage, DIRECTORY, at(1), absent())
        storage.faults.crash_after = storage.calls + call
        done = False
        with contextlib.suppress(Crashed):
            write_snapshot(storage, DIRECTORY, at(2), absent())
            done = True
        if tear is None:
            storage.kill()
        else:
            storage.crash(tear=tear)
        snapshot = read_snapshot(storage, SNAPSHOT)
        assert snapshot is not None
        assert snapshot.op in ((2,) if done else (1, 2))
        assert write_snapshot(storage, DIRECTORY, at(3), absent()).op == 3
        storage.crash(tear=Tear.LOSE)
        snapshot = read_snapshot(storage, SNAPSHOT)
        assert snapshot is not None
        assert snapshot.op == 3


def test_br51_no_space_at_any_byte_of_a_snapshot() -> None:
    """BR-51: the old snapshot stays, freeing the disk is enough."""
    size = len(sealed(encode_payload(at(2))))
    for budget in range(size):
        storage = disk(budget)
        write_snapshot(storage, DIRECTORY, at(1), absent())
        storage.faults.write_budget = budget
        with pytest.raises(SnapshotNotWritten) as caught:
            write_snapshot(storage, DIRECTORY, at(2), absent())
        assert caught.value.stage == "write"
        assert "free space" in str(caught.value)
        storage.faults.write_budget = None
        if budget % 2:
            storage.crash()
        snapshot = read_snapshot(storage, SNAPSHOT)
        assert snapshot is not None
        assert snapshot.op == 1
        assert write_snapshot(storage, DIRECTORY, at(2), absent()).op == 2


def test_the_real_disk_keeps_a_snapshot(tmp_path: Path) -> None:
    storage = DiskStorage()
    write_snapshot(storage, tmp_path, at(1), absent())
    info = write_snapshot(storage, tmp_path, FIELDS, SECTIONS)
    snapshot = read_snapshot(storage, tmp_path / "snapshot.bin")
    assert snapshot is not None
    assert (snapshot.fields, snapshot.checksum) == (FIELDS, info.checksum)
    assert storage.list(tmp_path) == ("snapshot.bin",)


def test_a_stale_temporary_file_is_overwritten() -> None:
    storage = disk()
    storage.put(SCRATCH, bytes(10_000))
    write_snapshot(storage, DIRECTORY, at(1), absent())
    assert read_snapshot(storage, SNAPSHOT) is not None
