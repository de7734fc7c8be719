"""The client table: who may execute what, what was already executed, and with which answer (client-table 1 to 7).

Owns one entry for each session, the fences of reclaimed ones, and the order in which sessions are evicted. It records
committed facts only and is changed only by applying committed operations and by an install. It refuses to know what is in
flight (that is the pipeline's), connections, time and files.

Invariants: a client has one slot; the index is in order of (latest commit, slot) unless `_order_lost`; every slot is free
or occupied; no fence beyond the slot count; a ring has one to five replies with distinct request numbers, none above the
watermark.

Deviations from the reference: a fence of the same client and epoch is consulted before NoSession, an eviction leaves a
fence also where nothing was committed yet (both D-29), and a deleted user takes sessions and fences with it (D-02).

The index doubles as the eviction order. Ops rise, so whatever commits moves to the end; where they do not (only synthetic
tables) the order is restored by sorting at the next eviction.
"""

from collections import OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from heapq import heappop, heappush
from typing import Final, NamedTuple

from levrier.actors.client_table.capture import CapturedTable
from levrier.actors.client_table.entries import (
    REGISTER_REQUEST,
    RING_MAX,
    SLOT_COUNT_MAX,
    Entry,
    Fence,
    Reply,
    conflict,
    fence_of,
)
from levrier.actors.client_table.fences import Fences
from levrier.actors.client_table.messages import DISCONNECT_REQUEST


class Answer(IntEnum):
    """What the table says of a request (client-table 3)."""

    NEW = 0
    DUPLICATE = 1
    ALREADY_APPLIED = 2
    CHECKSUM_MISMATCH = 3
    NO_SESSION = 4
    FENCED = 5
    EPOCH_AHEAD = 6


class Check(NamedTuple):
    """An answer and its grounds: `have` is what the table holds, `got` what the request said.

    They are epochs for FENCED and EPOCH_AHEAD, request numbers for ALREADY_APPLIED and CHECKSUM_MISMATCH, else 0. `reply`
    is there for DUPLICATE only.
    """

    answer: Answer
    have: int = 0
    got: int = 0
    reply: Reply | None = None


class CommitResult(IntEnum):
    """What a committed reply did to the table (client-table 5)."""

    CACHED = 0
    ADVANCED_FENCE = 1
    NO_ENTRY = 2
    SKIPPED_REGRESSION = 3


class Committed(NamedTuple):
    """A result and its grounds: for SKIPPED_REGRESSION, what the table holds and what came."""

    result: CommitResult
    have: int = 0
    got: int = 0


class Registered(NamedTuple):
    """What a register displaced: the evicted entry, and the fences that fell out of retention."""

    evicted: Entry | None = None
    forgotten: tuple[Fence, ...] = ()


class SessionEnd(IntEnum):
    """How a session ends (client-table 7)."""

    EXPLICIT = 0
    DISCONNECT_CLEANUP = 1

    @classmethod
    def of_request(cls, request: int) -> "SessionEnd":
        """The kind of end that a Logout's request number means."""
        return cls.DISCONNECT_CLEANUP if request == DISCONNECT_REQUEST else cls.EXPLICIT


_NEW: Final = Check(Answer.NEW)
_NO_SESSION: Final = Check(Answer.NO_SESSION)
_CACHED: Final = Committed(CommitResult.CACHED)
_NO_ENTRY: Final = Committed(CommitResult.NO_ENTRY)
_ADVANCED_FENCE: Final = Committed(CommitResult.ADVANCED_FENCE)
_NOTHING_DISPLACED: Final = Registered()


class ClientTable:
    """Sessions by client id. `capacity` is the number of slots, 1 to 65536."""

    __slots__ = ("_capacity", "_fences", "_free", "_frontier", "_index", "_newest_commit", "_order_lost", "_slots")

    def __init__(self, capacity: int) -> None:
        self._frontier = 0
        self._reset(capacity)

    @classmethod
    def rebuild(cls, capacity: int, placed: Iterable[tuple[int, Entry]], fences: Fences) -> "ClientTable":
        """A table with these entries in these slots; the caller has checked clients, slots and rings."""
        table = cls(capacity)
        entries = sorted(placed, key=lambda pair: (pair[1].latest_commit, pair[0]))
        for slot, entry in entries:
            assert table._slots[slot] is None
            assert entry.client not in table._index
            table._slots[slot] = entry
            table._index[entry.client] = slot
        if entries:
            table._newest_commit = entries[-1][1].latest_commit
        table._free = [slot for slot, entry in enumerate(table._slots) if entry is None]
        fences.trim(capacity)
        table._fences = fences
        table._assert_invariants()
        return table

    @property
    def capacity(self) -> int:
        """The number of slots."""
        return self._capacity

    @property
    def count(self) -> int:
        """The number of sessions."""
        return len(self._index)

    @property
    def frontier(self) -> int:
        """The op that an installed table reflects already; 0 without an install."""
        return self._frontier

    @property
    def fences(self) -> tuple[Fence, ...]:
        """All fences, oldest first."""
        return self._fences.all()

    def reflects(self, op: int) -> bool:
        """Whether the effects of `op` came with an installed table; they must not be repeated."""
        return op <= self._frontier

    def entry_of(self, client: int) -> Entry | None:
        """The session of a client."""
        slot = self._index.get(client)
        return None if slot is None else self._slots[slot]

    def user_of(self, client: int) -> int | None:
        """The acting user of a client's session, or None without one."""
        slot = self._index.get(client)
        return None if slot is None else self._occupied(slot).user_id

    def epoch_of(self, client: int) -> int | None:
        """The epoch of a client's session, or None without one."""
        slot = self._index.get(client)
        return None if slot is None else self._occupied(slot).epoch

    def owner_of_session(self, client: int, epoch: int) -> int | None:
        """The user of exactly this session, live or remembered by a fence."""
        entry = self.entry_of(client)
        if entry is not None and entry.epoch == epoch:
            return entry.user_id
        fence = self._fences.find_session(client, epoch)
        return None if fence is None else fence.user_id

    def check_epoch(self, client: int, epoch: int) -> Check:
        """Whether this is the live session: the part of `check_request` that a disconnect logout needs.

        Its request number is the highest there is, so comparing it with the watermark would say nothing.
        """
        entry = self.entry_of(client)
        if entry is None:
            return _NO_SESSION
        if epoch < entry.epoch:
            return Check(Answer.FENCED, entry.epoch, epoch)
        if epoch > entry.epoch:
            return Check(Answer.EPOCH_AHEAD, entry.epoch, epoch)
        return _NEW

    def check_request(self, client: int, epoch: int, request: int, request_checksum: int) -> Check:
        """May this request execute (client-table 3)? Changes nothing. A register never comes here."""
        assert client != 0
        slot = self._index.get(client)
        if slot is None:
            return self._check_fence(client, epoch, request, request_checksum)
        _, current, _, watermark, watermark_checksum, ring = self._occupied(slot)
        if epoch < current:
            return Check(Answer.FENCED, current, epoch)
        if epoch > current:
            return Check(Answer.EPOCH_AHEAD, current, epoch)
        if request > watermark:
            return _NEW
        if request == watermark and conflict(watermark_checksum, request_checksum):
            # Before the ring, so that a reused number is caught also when its reply has aged out.
            return Check(Answer.CHECKSUM_MISMATCH, watermark, request)
        return _check_ring(ring, watermark, request, request_checksum)

    def commit_register(self, client: int, user_id: int, reply: Reply) -> Registered:
        """Make or rebind the session of a client; its epoch is the op of the register (client-table 4)."""
        assert client != 0
        assert reply.request == REGISTER_REQUEST
        slot = self._index.get(client)
        displaced = _NOTHING_DISPLACED
        if slot is None:
            slot, displaced = self._add(client, user_id, reply)
        else:
            entry = self._occupied(slot)
            assert reply.commit > entry.epoch, "an epoch only rises"
            ring = _push(tuple(old for old in entry.ring if old.request != REGISTER_REQUEST), reply)
            self._slots[slot] = entry._replace(epoch=reply.commit, user_id=user_id, ring=ring)
        self._move_up(client, reply.commit)
        self._assert_invariants(slot)
        return displaced

    def commit_reply(self, client: int, user_id: int, reply: Reply) -> Committed:
        """Cache a committed reply (client-table 5). Never fails on what this replica happens to hold."""
        assert client != 0
        assert reply.request > REGISTER_REQUEST
        slot = self._index.get(client)
        if slot is None:
            return self._commit_behind(client, user_id, reply)
        entry = self._slots[slot]
        assert entry is not None
        _, epoch, owner, watermark, _, ring = entry
        latest = ring[-1].commit
        _, request, request_checksum, commit = reply
        if commit < latest:
            return Committed(CommitResult.SKIPPED_REGRESSION, latest, commit)
        if request < watermark:
            return Committed(CommitResult.SKIPPED_REGRESSION, watermark, request)
        ring = _push(ring, reply) if request > watermark else _replace_or_push(ring, reply)
        self._slots[slot] = Entry(client, epoch, owner, request, request_checksum, ring)
        if ring[-1] is reply and commit != latest:
            self._move_up(client, commit)
        assert entry.client == client
        assert len(ring) <= RING_MAX
        return _CACHED

    def remove_client(self, client: int, user_id: int, end: SessionEnd) -> bool:
        """End a session because its Logout committed (client-table 7). Returns whether there was one.

        `user_id` is the owner that the primary stamped: for an explicit end without a live entry it names the fence that
        goes too; 0 names none. A disconnect leaves a fence, so that the client may come back and retry.
        """
        assert client != 0
        slot = self._index.pop(client, None)
        entry = None
        if slot is not None:
            entry = self._clear(slot)
        if end is SessionEnd.EXPLICIT:
            owner = user_id if entry is None else entry.user_id
            if owner != 0:
                self._fences.take(client, owner)
        elif entry is not None and entry.watermark != 0:
            # Nothing of this session can still be on its way: its requests committed before this Logout.
            self._fences.remember(fence_of(entry))
            self._fences.trim(self._capacity)
        self._assert_invariants()
        return entry is not None

    def drop_user(self, user_id: int) -> tuple[int, ...]:
        """End every session and fence of a deleted user (D-02). Returns the clients, in slot order."""
        assert user_id != 0, "root is never deleted"
        clients = []
        for slot, entry in enumerate(self._slots):
            if entry is not None and entry.user_id == user_id:
                del self._index[entry.client]
                self._clear(slot)
                clients.append(entry.client)
        self._fences.drop_user(user_id)
        self._assert_invariants()
        return tuple(clients)

    def set_capacity(self, capacity: int) -> None:
        """Change the number of slots of an empty table."""
        assert not self._index, "only an empty table may be resized"
        assert not self._fences, "only an empty table may be resized"
        self._reset(capacity)

    def install(self, other: "ClientTable", frontier: int) -> None:
        """Become `other`, which reflects everything up to `frontier` (client-table 11). `other` is used up."""
        for name in ClientTable.__slots__:
            setattr(self, name, getattr(other, name))
        self._frontier = frontier
        other._reset(other._capacity)
        self._assert_invariants()

    def capture(self) -> CapturedTable:
        """The table as it stands, for another thread to encode. Copies references only."""
        return CapturedTable(tuple(self._slots), self._fences.all())

    def verify(self) -> None:
        """Assert every invariant. Looks at each slot: for tests and the simulator."""
        self._assert_invariants()
        occupied = {entry.client: slot for slot, entry in enumerate(self._slots) if entry is not None}
        assert occupied == dict(self._index)
        assert sorted(self._free) == [slot for slot, entry in enumerate(self._slots) if entry is None]
        for slot in self._index.values():
            self._assert_entry(slot)
        if not self._order_lost:
            order = [self._rank(slot) for slot in self._index.values()]
            assert order == sorted(order)
        for fence in self._fences.all():
            assert fence.reply is None or fence.reply.request == fence.watermark
            assert fence.reply is None or fence.watermark != REGISTER_REQUEST

    def _reset(self, capacity: int) -> None:
        assert 1 <= capacity <= SLOT_COUNT_MAX
        self._capacity = capacity
        self._slots: list[Entry | None] = [None] * capacity
        self._free = list(range(capacity))
        self._index: OrderedDict[int, int] = OrderedDict()
        self._newest_commit = 0
        self._order_lost = False
        self._fences = Fences()

    def _occupied(self, slot: int) -> Entry:
        entry = self._slots[slot]
        assert entry is not None
        return entry

    def _check_fence(self, client: int, epoch: int, request: int, request_checksum: int) -> Check:
        fence = self._fences.find_session(client, epoch)
        if fence is None or request > fence.watermark:
            return _NO_SESSION
        if request == fence.watermark:
            if conflict(fence.watermark_checksum, request_checksum):
                return Check(Answer.CHECKSUM_MISMATCH, fence.watermark, request)
            if fence.reply is not None:
                return Check(Answer.DUPLICATE, fence.watermark, request, fence.reply)
        return Check(Answer.ALREADY_APPLIED, fence.watermark, request)

    def _add(self, client: int, user_id: int, reply: Reply) -> tuple[int, Registered]:
        # The fence is taken first: the eviction leaves one and may push out this very one.
        fence = self._fences.take(client, user_id)
        displaced = _NOTHING_DISPLACED
        if self._free:
            slot = heappop(self._free)
        else:
            slot, displaced = self._evict()
        entry = Entry(client, reply.commit, user_id, 0, 0, (reply,))
        if fence is not None:
            assert reply.commit > fence.epoch, "an epoch only rises"
            ring = (reply,) if fence.reply is None else (fence.reply, reply)
            entry = entry._replace(watermark=fence.watermark, watermark_checksum=fence.watermark_checksum, ring=ring)
        self._slots[slot] = entry
        self._index[client] = slot
        return slot, displaced

    def _evict(self) -> tuple[int, Registered]:
        if self._order_lost:
            self._index = OrderedDict(sorted(self._index.items(), key=lambda item: self._rank(item[1])))
            self._order_lost = False
        _, slot = self._index.popitem(last=False)
        victim = self._occupied(slot)
        self._slots[slot] = None
        self._fences.remember(fence_of(victim))
        return slot, Registered(victim, self._fences.trim(self._capacity))

    def _clear(self, slot: int) -> Entry:
        entry = self._occupied(slot)
        self._slots[slot] = None
        heappush(self._free, slot)
        return entry

    def _commit_behind(self, client: int, user_id: int, reply: Reply) -> Committed:
        """A reply whose session lost its slot after the request was prepared: its fence must not stay behind."""
        fence = self._fences.find(client, user_id)
        if fence is None:
            return _NO_ENTRY
        if reply.request < fence.watermark:
            return Committed(CommitResult.SKIPPED_REGRESSION, fence.watermark, reply.request)
        self._fences.advance(fence, reply)
        return _ADVANCED_FENCE

    def _move_up(self, client: int, commit: int) -> None:
        if commit > self._newest_commit:
            self._newest_commit = commit
            self._index.move_to_end(client)
        else:
            self._order_lost = True

    def _rank(self, slot: int) -> tuple[int, int]:
        return self._occupied(slot).latest_commit, slot

    def _assert_invariants(self, slot: int | None = None) -> None:
        assert len(self._index) + len(self._free) == self._capacity
        assert len(self._fences) <= self._capacity
        if slot is not None:
            self._assert_entry(slot)

    def _assert_entry(self, slot: int) -> None:
        entry = self._occupied(slot)
        assert self._index[entry.client] == slot
        assert 1 <= len(entry.ring) <= RING_MAX
        assert entry.ring[-1].request <= entry.watermark


def _check_ring(ring: tuple[Reply, ...], watermark: int, request: int, request_checksum: int) -> Check:
    """What the cached replies say of a request that is not above the watermark."""
    for reply in ring:
        if reply.request == request:
            if conflict(reply.request_checksum, request_checksum):
                return Check(Answer.CHECKSUM_MISMATCH, watermark, request)
            return Check(Answer.DUPLICATE, watermark, request, reply)
    return Check(Answer.ALREADY_APPLIED, watermark, request)


def _push(ring: tuple[Reply, ...], reply: Reply) -> tuple[Reply, ...]:
    return (*ring[1:], reply) if len(ring) == RING_MAX else (*ring, reply)


def _replace_or_push(ring: tuple[Reply, ...], reply: Reply) -> tuple[Reply, ...]:
    for index, old in enumerate(ring):
        if old.request == reply.request:
            return (*ring[:index], reply, *ring[index + 1 :])
    return _push(ring, reply)
