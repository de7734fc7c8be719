"""The durable consensus record, in two files written in turns (persistence section 3).

Owns the record's framing, the choice between the copies, and the payload `VsrState`. A copy is never ignored because it
is damaged: rename is atomic, so damage is bit rot, and the lost copy may have been the newer one (D-08).

Record, little-endian: u32 magic, u16 version 1, u16 zero, u64 sequence, u64 zero, u32 payload length (<= 4096), payload,
u64 XXH3 of everything before. Payload lengths: 58 (no offset frontier), 66 (persistence 3.5), 84 (birth specification: the 66
bytes, then u128 birth id, u8 phase, u8 flags: 1 voter, 2 log cut). The shorter two come from members of a cluster that knew
no birth: they read as born voters with birth id 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Final, Self

import xxhash

from levrier.persistence.data_dir import GroupPaths, temporary
from levrier.persistence.errors import (
    InvalidInput,
    StorageError,
    SuperblockDegraded,
    SuperblockUndecodable,
    SuperblockUnreadable,
)
from levrier.persistence.storage import Storage

MAGIC: Final = 0x53424C4B
VERSION: Final = 1
PAYLOAD_SIZE_MAX: Final = 4096

_PREFIX = struct.Struct("<IHHQQI")
_VERSIONED = struct.Struct("<IH")
_HASH = struct.Struct("<Q")
RECORD_OVERHEAD: Final = _PREFIX.size + _HASH.size
RECORD_SIZE_MAX: Final = RECORD_OVERHEAD + PAYLOAD_SIZE_MAX

assert _PREFIX.size == 28
assert RECORD_SIZE_MAX == 4132

_STATE = struct.Struct("<16sBBIIQQ16s")
_STATE_FRONTIER = struct.Struct("<Q")
_STATE_BIRTH = struct.Struct("<16sBB")
_SIZE_WITHOUT_FRONTIER = _STATE.size
_SIZE_WITHOUT_BIRTH = _SIZE_WITHOUT_FRONTIER + _STATE_FRONTIER.size
STATE_SIZE: Final = _SIZE_WITHOUT_BIRTH + _STATE_BIRTH.size

_FLAG_VOTER: Final = 1
_FLAG_LOG_CUT: Final = 2

assert _SIZE_WITHOUT_FRONTIER == 58
assert _SIZE_WITHOUT_BIRTH == 66
assert STATE_SIZE == 84


class Phase(IntEnum):
    """How far the birth of the cluster got on this member (birth specification)."""

    PREPARED = 1
    BORN = 2


_PHASES = {int(phase): phase for phase in Phase}


@dataclass(frozen=True, slots=True, kw_only=True)
class VsrState:
    """What a replica must not forget.

    `cluster`, `replica_id` and `replica_count` are identity; `log_view <= view`; `commit_max` is a lower bound only;
    `checkpoint_op` (0 = none) and `checkpoint_checksum` name the paired snapshot; `offset_frontier` is for data groups.
    `log_cut`: a boot cut bytes off the log, and no view has told since what they may have been (D-24).
    """

    cluster: int
    replica_id: int
    replica_count: int
    view: int = 0
    log_view: int = 0
    commit_max: int = 0
    checkpoint_op: int = 0
    checkpoint_checksum: int = 0
    offset_frontier: int = 0
    birth_id: int = 0
    phase: Phase = Phase.BORN
    voter: bool = True
    log_cut: bool = False

    def encode(self) -> bytes:
        """The 84 payload bytes."""
        assert self.log_view <= self.view, (self.log_view, self.view)
        flags = self.voter * _FLAG_VOTER | self.log_cut * _FLAG_LOG_CUT
        return b"".join(
            (
                _STATE.pack(
                    self.cluster.to_bytes(16, "little"),
                    self.replica_id,
                    self.replica_count,
                    self.view,
                    self.log_view,
                    self.commit_max,
                    self.checkpoint_op,
                    self.checkpoint_checksum.to_bytes(16, "little"),
                ),
                _STATE_FRONTIER.pack(self.offset_frontier),
                _STATE_BIRTH.pack(self.birth_id.to_bytes(16, "little"), self.phase, flags),
            )
        )

    @classmethod
    def decode(cls, payload: bytes, *, file: Path | str = "superblock") -> Self:
        """Read 58, 66 or 84 bytes; anything else, or `log_view > view`, is `SuperblockUndecodable`."""
        size = len(payload)
        if size not in {_SIZE_WITHOUT_FRONTIER, _SIZE_WITHOUT_BIRTH, STATE_SIZE}:
            raise SuperblockUndecodable(file=file, reason=f"a payload of {size} bytes, expected {STATE_SIZE}")
        cluster, replica_id, replica_count, view, log_view, commit_max, op, checksum = _STATE.unpack_from(payload)
        if log_view > view:
            raise SuperblockUndecodable(file=file, reason=f"log_view {log_view} is above view {view}")
        frontier, birth_id, phase, flags = 0, bytes(16), int(Phase.BORN), _FLAG_VOTER
        if size >= _SIZE_WITHOUT_BIRTH:
            (frontier,) = _STATE_FRONTIER.unpack_from(payload, _SIZE_WITHOUT_FRONTIER)
        if size == STATE_SIZE:
            birth_id, phase, flags = _STATE_BIRTH.unpack_from(payload, _SIZE_WITHOUT_BIRTH)
        if phase not in _PHASES or flags & ~(_FLAG_VOTER | _FLAG_LOG_CUT):
            raise SuperblockUndecodable(file=file, reason=f"birth phase {phase}, flags {flags:#x}")
        return cls(
            cluster=int.from_bytes(cluster, "little"),
            replica_id=replica_id,
            replica_count=replica_count,
            view=view,
            log_view=log_view,
            commit_max=commit_max,
            checkpoint_op=op,
            checkpoint_checksum=int.from_bytes(checksum, "little"),
            offset_frontier=frontier,
            birth_id=int.from_bytes(birth_id, "little"),
            phase=_PHASES[phase],
            voter=bool(flags & _FLAG_VOTER),
            log_cut=bool(flags & _FLAG_LOG_CUT),
        )


@dataclass(frozen=True, slots=True)
class Absent:
    """No such copy, or a file of length zero."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A copy that is not a record. `version` is the foreign format version, when that is why."""

    version: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Valid:
    """A record."""

    sequence: int
    payload: bytes


Copy = Absent | Corrupt | Valid


class Slot(Enum):
    """Which of the two files."""

    A = "a"
    B = "b"


def encode_record(sequence: int, payload: bytes) -> bytes:
    """The file content for `payload` (at most `PAYLOAD_SIZE_MAX` bytes)."""
    assert len(payload) <= PAYLOAD_SIZE_MAX
    record = _PREFIX.pack(MAGIC, VERSION, 0, sequence, 0, len(payload)) + payload
    return record + _HASH.pack(xxhash.xxh3_64_intdigest(record))


def classify(content: bytes | None) -> Copy:  # noqa: PLR0911 - one reason a line.
    """Judge the content of one copy, None for a missing file (persistence 3.2)."""
    if not content:
        return Absent()
    if len(content) > RECORD_SIZE_MAX:
        return Corrupt(None, f"longer than any record ({RECORD_SIZE_MAX} bytes)")
    if len(content) < RECORD_OVERHEAD:
        return Corrupt(None, f"{len(content)} bytes are too short for a record")
    magic, version = _VERSIONED.unpack_from(content)
    if magic != MAGIC:
        return Corrupt(None, "it does not start like a record")
    if version != VERSION:
        return Corrupt(version, f"format version {version}, expected {VERSION}")
    _, _, reserved, sequence, parent, length = _PREFIX.unpack_from(content)
    if length > PAYLOAD_SIZE_MAX or len(content) != RECORD_OVERHEAD + length:
        return Corrupt(None, "its length field does not fit the file")
    (checksum,) = _HASH.unpack_from(content, len(content) - _HASH.size)
    if checksum != xxhash.xxh3_64_intdigest(memoryview(content)[: -_HASH.size]) or reserved or parent:
        return Corrupt(None, "its checksum does not match")
    return Valid(sequence, content[_PREFIX.size : _PREFIX.size + length])


def select(a: Copy, b: Copy) -> Copy:
    """The verdict over both copies (persistence 3.3); `Absent` means that nothing was ever written."""
    corrupt = [copy for copy in (a, b) if isinstance(copy, Corrupt)]
    for copy in corrupt:
        if copy.version is not None:
            return copy
    if corrupt:
        return corrupt[0]
    if isinstance(a, Valid) and isinstance(b, Valid):
        return b if b.sequence > a.sequence else a
    return a if isinstance(a, Valid) else b


class SuperblockStore:
    """The two copies in one directory. One writer; an overlap of two writes is an assertion."""

    def __init__(self, *, storage: Storage, directory: Path, a: Copy, b: Copy) -> None:
        self._storage = storage
        self._directory = directory
        paths = GroupPaths(directory)
        self._paths = {Slot.A: paths.superblock_a, Slot.B: paths.superblock_b}
        self._copies: dict[Slot, Copy] = {Slot.A: a, Slot.B: b}
        self._writing = False
        sequence_a, sequence_b = _sequence(a), _sequence(b)
        self._next_sequence = max(sequence_a, sequence_b) + 1
        newest_is_a = isinstance(a, Valid) and sequence_a >= sequence_b
        self._next_slot = Slot.B if newest_is_a else Slot.A

    @classmethod
    def open(cls, storage: Storage, directory: Path) -> SuperblockStore:
        """Read both copies. A damaged one is no error here, but every `write` is refused then; `read` says so.

        The directory is synced before: a rename that a killed process left unsynced must not be read and then get lost.
        """
        storage.sync_directory(directory)
        paths = GroupPaths(directory)
        a, b = (classify(_content(storage, path)) for path in (paths.superblock_a, paths.superblock_b))
        return cls(storage=storage, directory=directory, a=a, b=b)

    @property
    def degraded(self) -> bool:
        """Whether a copy was damaged when the store was opened: nothing is written any more."""
        return any(isinstance(copy, Corrupt) for copy in self._copies.values())

    @property
    def sequence(self) -> int:
        """The sequence number of the last record, 0 before the first."""
        return self._next_sequence - 1

    def read_payload(self) -> bytes | None:
        """The newest payload, None if nothing was ever written; `SuperblockUnreadable` if a copy is damaged."""
        verdict = select(self._copies[Slot.A], self._copies[Slot.B])
        if isinstance(verdict, Corrupt):
            slot = next(slot for slot, copy in self._copies.items() if copy is verdict)
            raise SuperblockUnreadable(file=self._paths[slot], version=verdict.version, reason=verdict.reason)
        return verdict.payload if isinstance(verdict, Valid) else None

    def read(self) -> VsrState | None:
        """As `read_payload`, decoded; `SuperblockUndecodable` if the payload makes no sense."""
        payload = self.read_payload()
        return None if payload is None else VsrState.decode(payload, file=self._directory / "superblock")

    def write(self, payload: bytes | VsrState) -> None:
        """Make `payload` the newest record, durably, or raise with the older one still in place or unclear on disk.

        After a failure the same copy is the target again, so a retry can never damage the other one.
        """
        content = payload.encode() if isinstance(payload, VsrState) else payload
        target = self._paths[self._next_slot]
        if len(content) > PAYLOAD_SIZE_MAX:
            reason = f"a payload of {len(content)} bytes"
            raise InvalidInput(file=target, what=reason, next_step=f"at most {PAYLOAD_SIZE_MAX} bytes fit")
        if self.degraded:
            raise SuperblockDegraded(file=target)
        assert not self._writing, "two superblock writes at once"
        self._writing = True
        try:
            self._replace(target, encode_record(self._next_sequence, content))
            self._copies[self._next_slot] = Valid(self._next_sequence, content)
            self._next_sequence += 1
            self._next_slot = Slot.B if self._next_slot is Slot.A else Slot.A
        finally:
            self._writing = False

    def _replace(self, target: Path, record: bytes) -> None:
        scratch = temporary(target)
        try:
            file = self._storage.open(scratch, create=True)
            try:
                file.truncate(0)
                file.write(0, record)
                file.sync()
            finally:
                file.close()
            self._storage.replace(scratch, target)
        except StorageError:
            remove_quietly(self._storage, scratch)
            raise
        self._storage.sync_directory(self._directory)


def remove_quietly(storage: Storage, path: Path) -> None:
    """Remove a temporary file after a failure; the failure is what gets reported, so this one's is not."""
    try:
        storage.remove(path)
    except StorageError:
        return


def _sequence(copy: Copy) -> int:
    return copy.sequence if isinstance(copy, Valid) else 0


def _content(storage: Storage, path: Path) -> bytes | None:
    """The content of a copy, at most one byte more than a record can have: a longer file is judged unread."""
    if not storage.exists(path):
        return None
    file = storage.open(path, create=False)
    try:
        return file.read(0, RECORD_SIZE_MAX + 1)
    finally:
        file.close()
