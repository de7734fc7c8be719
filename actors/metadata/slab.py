"""Named records under small reusable ids: streams of a cluster, topics of a stream.

The next id is the lowest unoccupied one, else one past the highest ever used (state-machine 4, D-02). That depends on the
set of occupied ids alone, so it survives a snapshot. Iteration is ascending by id. Records are immutable: a change
replaces the record. `freeze` hands out the records as they stand at the cost of copying one list of pointers, which is
what a checkpoint captures; `fork` gives a table of its own to whoever must change one that a capture may still read.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from levrier.actors.metadata.options import OptionMap


class Named(Protocol):
    """What a slab needs to know of a record."""

    @property
    def id(self) -> int:
        """The key of the record in its slab."""

    @property
    def name(self) -> str:
        """Unique within the slab."""


R = TypeVar("R", bound=Named)


class Encoded(NamedTuple):
    """A stream in a snapshot with all that is under it, valid for this owner where the option maps have these numbers.

    `owner` holds the fields of the stream but its topics; `digest` is the part of the stream and of all that is under it.
    """

    pieces: tuple[bytes, ...]
    owner: tuple[object, ...]
    numbers: tuple[tuple[OptionMap, int], ...]
    digest: int


class Slab(Generic[R]):
    """Records by id and by name. `stamp` is the capture generation in which this table was made or forked.

    `encoded` is kept by whoever encodes captures, on a table of topics that a capture has seen and that will hence not
    change any more; a fork starts without.
    """

    __slots__ = ("_free", "_ids", "_items", "encoded", "stamp")

    def __init__(self, *, stamp: int = 0) -> None:
        self.stamp = stamp
        self.encoded: Encoded | None = None
        self._items: list[R | None] = []
        self._ids: dict[str, int] = {}
        self._free: list[int] = []

    @classmethod
    def restore(cls, records: Iterable[R], *, stamp: int = 0) -> Self:
        """Rebuild from records in ascending order of id; the gaps become free.

        Raises `ValueError` when ids do not ascend or a name stands twice: no slab was ever in such a state.
        """
        slab = cls(stamp=stamp)
        items = slab._items
        for record in records:
            if record.id < len(items):
                raise ValueError(f"id {record.id} does not follow {len(items) - 1}")
            if record.name in slab._ids:
                raise ValueError(f"the name {record.name!r} stands twice")
            while len(items) < record.id:
                slab._free.append(len(items))  # Ascending, hence already a heap.
                items.append(None)
            items.append(record)
            slab._ids[record.name] = record.id
        return slab

    def fork(self, stamp: int) -> "Slab[R]":
        """This table with a list of its own. The old one may only be read by id order from now on (`freeze`d parts)."""
        forked: Slab[R] = Slab(stamp=stamp)
        forked._items = self._items.copy()
        forked._ids = self._ids
        forked._free = self._free
        return forked

    def freeze(self) -> list[R | None]:
        """The records by id, None where an id is free, as they stand now. The list is the caller's own."""
        return self._items.copy()

    def vacant(self) -> int:
        """The id that the next insert must have."""
        return self._free[0] if self._free else len(self._items)

    def insert(self, record: R) -> None:
        """Add a record under the vacant id and a name that is unused."""
        assert record.id == self.vacant()
        assert record.name not in self._ids
        if self._free:
            self._items[heappop(self._free)] = record
        else:
            self._items.append(record)
        self._ids[record.name] = record.id

    def replace(self, record: R) -> None:
        """Put a changed record, perhaps under another unused name, in the place of the one with its id."""
        old = self._items[record.id]
        assert old is not None
        self._items[record.id] = record
        if old.name != record.name:
            assert record.name not in self._ids
            del self._ids[old.name]
            self._ids[record.name] = record.id

    def remove(self, record_id: int) -> R | None:
        """Take a record out and free its id; None when there is none."""
        record = self.get(record_id)
        if record is None:
            return None
        self._items[record_id] = None
        del self._ids[record.name]
        heappush(self._free, record_id)
        return record

    def get(self, record_id: int) -> R | None:
        """The record with this id, or None."""
        items = self._items
        return items[record_id] if 0 <= record_id < len(items) else None

    def id_of(self, name: str) -> int | None:
        """The id of the record with this name, or None."""
        return self._ids.get(name)

    def find(self, key: int | str) -> R | None:
        """The record with this id, or with this name, or None; the two kinds of key never match each other."""
        if isinstance(key, str):
            record_id = self._ids.get(key)
            return None if record_id is None else self._items[record_id]
        return self.get(key)

    def __contains__(self, record_id: int) -> bool:
        return self.get(record_id) is not None

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[R]:
        return (record for record in self._items if record is not None)
