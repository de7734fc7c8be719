"""The two-copy superblock: record, choice, writes, crashes (persistence 3, birth specification, D-08)."""

from __future__ import annotations

import contextlib
import errno
import itertools
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from xxhash import xxh3_64_intdigest

from levrier.persistence.errors import (
    InvalidInput,
    IoFailed,
    StorageError,
    SuperblockDegraded,
    SuperblockUndecodable,
    SuperblockUnreadable,
)
from levrier.persistence.simulated_storage import Crashed, DiskFaults, SimulatedStorage, Tear
from levrier.persistence.storage import DiskStorage
from levrier.persistence.superblock import (
    MAGIC,
    PAYLOAD_SIZE_MAX,
    RECORD_SIZE_MAX,
    STATE_SIZE,
    Absent,
    Copy,
    Corrupt,
    Phase,
    SuperblockStore,
    Valid,
    VsrState,
    classify,
    encode_record,
    select,
)

DIRECTORY = Path("/data/metadata")
A, B = DIRECTORY / "superblock.a", DIRECTORY / "superblock.b"

STATE = VsrState(
    cluster=0x1F1E1D1C1B1A19181716151413121110,
    replica_id=2,
    replica_count=3,
    view=0x21222324,
    log_view=0x11121314,
    commit_max=0x3132333435363738,
    checkpoint_op=0x4142434445464748,
    checkpoint_checksum=0x5F5E5D5C5B5A59585756555453525150,
    offset_frontier=0x6162636465666768,
    birth_id=0x7F7E7D7C7B7A79787776757473727170,
    phase=Phase.PREPARED,
    voter=False,
)


def disk(seed: int = 1, faults: DiskFaults | None = None) -> SimulatedStorage:
    storage = SimulatedStorage(Random(seed), faults)
    storage.make_directory(DIRECTORY)
    return storage


def opened(storage: SimulatedStorage) -> SuperblockStore:
    return SuperblockStore.open(storage, DIRECTORY)


def written(*payloads: bytes) -> SimulatedStorage:
    storage = disk()
    store = opened(storage)
    for payload in payloads:
        store.write(payload)
    return storage


def contents(storage: SimulatedStorage) -> tuple[bytes | None, bytes | None]:
    return storage.content(A), storage.content(B)


# The payload


def test_c036_every_field_has_its_offset() -> None:
    """C-036, and the birth fields behind it."""
    payload = STATE.encode()
    assert len(payload) == STATE_SIZE == 84
    assert payload[0:16] == bytes(range(0x10, 0x20))
    assert payload[16:18] == bytes((2, 3))
    assert payload[18:22] == bytes((0x24, 0x23, 0x22, 0x21))
    assert payload[22:26] == bytes((0x14, 0x13, 0x12, 0x11))
    assert payload[26:34] == bytes(range(0x38, 0x30, -1))
    assert payload[34:42] == bytes(range(0x48, 0x40, -1))
    assert payload[42:58] == bytes(range(0x50, 0x60))
    assert payload[58:66] == bytes(range(0x68, 0x60, -1))
    assert payload[66:82] == bytes(range(0x70, 0x80))
    assert payload[82:84] == bytes((1, 0))
    assert VsrState.decode(payload) == STATE


@pytest.mark.parametrize("size", [0, 40, 57, 59, 65, 67, 83, 85])
def test_c036_c037_any_other_length_is_refused(size: int) -> None:
    """C-036 (one byte short), C-037 (40 bytes)."""
    with pytest.raises(SuperblockUndecodable, match=f"{size} bytes"):
        VsrState.decode((STATE.encode() + b"\0")[:size])


def test_c037_shorter_records_of_the_reference_are_accepted() -> None:
    """C-037: 58 bytes have frontier 0; 58 and 66 knew no birth and come from voters."""
    old = VsrState.decode(STATE.encode()[:58])
    assert old.offset_frontier == 0
    assert (old.cluster, old.checkpoint_checksum) == (STATE.cluster, STATE.checkpoint_checksum)
    newer = VsrState.decode(STATE.encode()[:66])
    assert newer.offset_frontier == STATE.offset_frontier
    for state in (old, newer):
        assert (state.birth_id, state.phase, state.voter) == (0, Phase.BORN, True)


def test_c038_a_log_view_above_the_view_is_refused() -> None:
    """C-038: naming both."""
    payload = bytearray(STATE.encode())
    payload[18:22], payload[22:26] = (5).to_bytes(4, "little"), (6).to_bytes(4, "little")
    with pytest.raises(SuperblockUndecodable) as caught:
        VsrState.decode(bytes(payload))
    assert "log_view 6" in str(caught.value)
    assert "view 5" in str(caught.value)


def test_the_last_byte_tells_voter_and_cut_log_apart() -> None:
    """D-24: each of the four survives, and what an older record says is a log that was not cut."""
    for voter in (False, True):
        for log_cut in (False, True):
            state = replace(STATE, voter=voter, log_cut=log_cut)
            assert VsrState.decode(state.encode()) == state
    assert not VsrState.decode(STATE.encode()[:66]).log_cut


@pytest.mark.parametrize(("at", "value"), [(82, 0), (82, 3), (83, 4)])
def test_an_unknown_birth_phase_is_refused(at: int, value: int) -> None:
    payload = bytearray(STATE.encode())
    payload[at] = value
    with pytest.raises(SuperblockUndecodable):
        VsrState.decode(bytes(payload))


# One copy


def test_a_record_has_the_bytes_of_the_reference() -> None:
    """Persistence 3.1."""
    record = encode_record(9, b"payload")
    assert record[:28] == (
        MAGIC.to_bytes(4, "little") + b"\x01\0\0\0" + (9).to_bytes(8, "little") + bytes(8) + (7).to_bytes(4, "little")
    )
    assert record[28:35] == b"payload"
    assert record[35:] == xxh3_64_intdigest(record[:35]).to_bytes(8, "little")
    assert classify(record) == Valid(9, b"payload")


def test_classification_of_what_is_no_record() -> None:
    """Persistence 3.2."""
    record = encode_record(1, b"payload")
    assert classify(None) == classify(b"") == Absent()
    for bad in (record[:-1], record + b"\0", record[:35], b"x" * 40, bytes(40), record[:1]):
        found = classify(bad)
        assert isinstance(found, Corrupt)
        assert found.version is None
    future = record[:4] + b"\x02" + record[5:]
    for content in (future, future[:36], future + b"more"):
        found = classify(content)
        assert isinstance(found, Corrupt)
        assert found.version == 2


def test_any_flipped_bit_of_a_record_is_noticed() -> None:
    record = encode_record(3, STATE.encode())
    for offset, bit in itertools.product(range(len(record)), range(8)):
        damaged = bytearray(record)
        damaged[offset] ^= 1 << bit
        assert isinstance(classify(bytes(damaged)), Corrupt), offset


OLD, NEW = Valid(1, b"old"), Valid(2, b"new")
BAD, FOREIGN = Corrupt(None, "bad"), Corrupt(2, "foreign")


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (OLD, NEW, NEW),
        (NEW, OLD, NEW),
        (Valid(1, b"a"), Valid(1, b"b"), Valid(1, b"a")),
        (OLD, Absent(), OLD),
        (Absent(), OLD, OLD),
        (Absent(), Absent(), Absent()),
        (OLD, BAD, BAD),
        (BAD, NEW, BAD),
        (BAD, Absent(), BAD),
        (BAD, BAD, BAD),
        (FOREIGN, NEW, FOREIGN),
        (BAD, FOREIGN, FOREIGN),
        (Absent(), FOREIGN, FOREIGN),
    ],
)
def test_the_choice_between_two_copies(a: Copy, b: Copy, verdict: Copy) -> None:
    """Persistence 3.3."""
    assert select(a, b) == verdict


# The store


def test_s157_each_newest_payload_in_turn() -> None:
    """S-157."""
    storage = disk()
    store = opened(storage)
    assert store.read_payload() is None
    store.write(b"1")
    assert store.read_payload() == b"1"
    store = opened(storage)
    assert store.read_payload() == b"1"
    for payload in (b"2", b"3"):
        store.write(payload)
        assert store.read_payload() == payload
        assert opened(storage).read_payload() == payload
    assert classify(storage.content(A)) == Valid(3, b"3")
    assert classify(storage.content(B)) == Valid(2, b"2")
    assert storage.list(DIRECTORY) == ("superblock.a", "superblock.b")


def test_s120_a_state_is_read_back() -> None:
    """S-120."""
    storage = disk()
    opened(storage).write(STATE)
    assert opened(storage).read() == STATE


def test_s158_no_fall_back_to_the_older_copy() -> None:
    """S-158."""
    storage = written(b"1", b"2")
    storage.flip(B, 28)
    with pytest.raises(SuperblockUnreadable) as caught:
        opened(storage).read_payload()
    assert "superblock.b" in str(caught.value)
    assert "start from a copy that was taken before" in str(caught.value)


def test_s159_a_damaged_copy_refuses_every_write() -> None:
    """S-159."""
    storage = written(b"1", b"2")
    storage.flip(B, 28)
    before = contents(storage)
    store = opened(storage)
    assert store.degraded
    with pytest.raises(SuperblockUnreadable):
        store.read_payload()
    for _ in range(2):
        with pytest.raises(SuperblockDegraded):
            store.write(b"3")
    assert contents(storage) == before


def test_s160_two_damaged_copies_are_unreadable() -> None:
    """S-160."""
    storage = written(b"1", b"2")
    storage.flip(A, 28)
    storage.flip(B, 28)
    with pytest.raises(SuperblockUnreadable) as caught:
        opened(storage).read_payload()
    assert caught.value.version is None


def test_s115_the_only_copy_with_a_broken_hash_is_unreadable() -> None:
    """S-115."""
    storage = written(b"1")
    storage.flip(A, len(storage.content(A) or b"") - 1)
    with pytest.raises(SuperblockUnreadable) as caught:
        opened(storage).read()
    assert caught.value.version is None


def test_s114_a_clean_record_that_is_too_short_is_undecodable() -> None:
    """S-114."""
    with pytest.raises(SuperblockUndecodable, match="5 bytes"):
        opened(written(b"short")).read()


def test_s161_a_foreign_version_is_named() -> None:
    """S-161."""
    storage = disk()
    record = encode_record(1, b"x")
    storage.put(A, record[:4] + b"\x02\0" + record[6:])
    for _ in range(2):
        with pytest.raises(SuperblockUnreadable) as caught:
            opened(storage).read_payload()
        assert caught.value.version == 2
        storage.put(B, encode_record(7, b"clean"))


def test_s162_raw_bytes_give_the_verdict_of_the_store() -> None:
    """S-162."""
    storage = written(b"1", b"2")
    verdict = select(*(classify(content) for content in contents(storage)))
    assert verdict == Valid(2, b"2")
    assert opened(storage).read_payload() == b"2"
    storage.flip(B, 20)
    assert isinstance(select(*(classify(content) for content in contents(storage))), Corrupt)
    with pytest.raises(SuperblockUnreadable):
        opened(storage).read_payload()


def test_s163_two_writes_at_once_trip_the_check() -> None:
    """S-163: the second write starts in the middle of the first one, from the hook of a slow sync."""
    seen: list[bool] = []

    def again(call: str, _path: Path, _delay: int) -> None:
        if call == "sync" and not seen:
            seen.append(True)
            with pytest.raises(AssertionError, match="two superblock writes"):
                store.write(b"second")

    storage = SimulatedStorage(Random(1), DiskFaults(sync_delay_us=1), on_delay=again)
    storage.make_directory(DIRECTORY)
    store = opened(storage)
    store.write(b"first")
    assert seen
    assert store.read_payload() == b"first"


def test_s164_after_a_write_that_was_broken_off_another_one_succeeds() -> None:
    """S-164."""
    storage = written(b"1")
    store = opened(storage)

    class Cancelled(BaseException):
        pass

    def cancel(call: str, _path: Path, _delay: int) -> None:
        if call == "sync":
            raise Cancelled

    storage.faults.sync_delay_us = 1
    storage.on_delay = cancel
    with pytest.raises(Cancelled):
        store.write(b"2")
    storage.on_delay = None
    store.write(b"3")
    assert store.read_payload() == opened(storage).read_payload() == b"3"


def test_s165_a_payload_above_the_limit_is_refused() -> None:
    """S-165."""
    storage = disk()
    store = opened(storage)
    with pytest.raises(InvalidInput):
        store.write(bytes(PAYLOAD_SIZE_MAX + 1))
    assert store.read_payload() is None
    assert contents(storage) == (None, None)
    store.write(bytes(PAYLOAD_SIZE_MAX))
    assert opened(storage).read_payload() == bytes(PAYLOAD_SIZE_MAX)


def test_s166_an_overlong_copy_is_not_read() -> None:
    """S-166: at most one byte more than a record can have is looked at."""
    storage = written(b"1")
    storage.put(B, encode_record(2, b"2") + bytes(100_000))
    before = contents(storage)
    calls = storage.calls
    store = opened(storage)
    read = [call.size for call in storage.audit if call.number > calls and call.name == "read"]
    assert max(read) == RECORD_SIZE_MAX + 1
    with pytest.raises(SuperblockUnreadable):
        store.read_payload()
    with pytest.raises(SuperblockDegraded):
        store.write(b"3")
    assert contents(storage) == before


def test_an_error_while_reading_a_copy_is_an_error() -> None:
    """Persistence 3.2, last sentence."""
    storage = written(b"1")
    for call in range(1, 5):
        storage.faults.fail_at = {storage.calls + call: errno.EIO}
        with pytest.raises(IoFailed):
            opened(storage)
    storage.faults.fail_at.clear()
    assert opened(storage).read_payload() == b"1"


# Every call, every byte

PAYLOADS = [b"one" * 9, b"two" * 9, b"three" * 9, b"four" * 9]


def run(storage: SimulatedStorage, done: list[bytes], store: SuperblockStore | None = None) -> None:
    store = store if store is not None else opened(storage)
    for payload in PAYLOADS:
        store.write(payload)
        done.append(payload)


def calls_of_run() -> int:
    storage = disk()
    run(storage, [])
    return storage.calls


def check(storage: SimulatedStorage, done: list[bytes]) -> None:
    """The newest payload that was acknowledged, or the one after it; and the store goes on."""
    store = opened(storage)
    found = store.read_payload()
    expected = [done[-1] if done else None, *PAYLOADS[len(done) : len(done) + 1]]
    assert found in expected
    store.write(b"next")
    storage.crash(tear=Tear.LOSE)
    assert opened(storage).read_payload() == b"next"


@pytest.mark.parametrize("tear", [None, *Tear])
def test_br19_a_crash_behind_any_call_keeps_the_old_or_the_new(tear: Tear | None) -> None:
    """BR-19 at the superblock; None kills the process only."""
    for call in range(2, calls_of_run() + 1):
        storage = disk(call, DiskFaults(crash_after=call))
        done: list[bytes] = []
        with contextlib.suppress(Crashed):
            run(storage, done)
        if tear is None:
            storage.kill()
        else:
            storage.crash(tear=tear)
        check(storage, done)


def test_what_a_start_read_after_a_kill_survives_a_loss_of_power() -> None:
    """The process was killed between rename and directory sync: who read the new view must never wake up in the old one."""
    storage = written(PAYLOADS[0])
    store = opened(storage)
    before = storage.calls
    store.write(PAYLOADS[1])
    renamed = next(call.number for call in storage.audit if call.number > before and call.name == "rename")
    storage = written(PAYLOADS[0])
    store = opened(storage)
    storage.faults.crash_after = renamed
    with pytest.raises(Crashed):
        store.write(PAYLOADS[1])
    storage.kill()
    assert opened(storage).read_payload() == PAYLOADS[1]
    storage.crash(tear=Tear.LOSE)
    assert opened(storage).read_payload() == PAYLOADS[1]


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_br51_a_refusal_of_any_call_can_be_retried_or_restarted(error: int) -> None:
    """BR-51 at the superblock: a failed write aims at the same copy again."""
    for call in range(2, calls_of_run() + 1):
        for restart in (False, True):
            storage = disk(call, DiskFaults(fail_at={call: error}))
            done: list[bytes] = []
            store = None
            try:
                store = opened(storage)
                run(storage, done, store)
            except StorageError:
                storage.faults.fail_at.clear()
            if restart or store is None:
                storage.crash()
                check(storage, done)
            else:
                store.write(b"again")
                assert store.read_payload() == b"again"
                check(storage, [b"again"])


def test_br51_no_space_at_any_byte_of_a_write() -> None:
    """BR-51."""
    size = len(encode_record(1, PAYLOADS[0]))
    for budget in range(size):
        storage = written(PAYLOADS[0], PAYLOADS[1])
        store = opened(storage)
        storage.faults.write_budget = budget
        with pytest.raises(IoFailed) as caught:
            store.write(PAYLOADS[2])
        assert caught.value.errno == errno.ENOSPC
        assert not storage.exists(A.with_name("superblock.a.tmp"))
        storage.faults.write_budget = None
        check(storage, PAYLOADS[:2])


def test_the_real_disk_keeps_a_superblock(tmp_path: Path) -> None:
    storage = DiskStorage()
    store = SuperblockStore.open(storage, tmp_path)
    store.write(STATE)
    store.write(b"newer")
    assert SuperblockStore.open(storage, tmp_path).read_payload() == b"newer"
    assert storage.list(tmp_path) == ("superblock.a", "superblock.b")
