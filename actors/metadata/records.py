"""The replicated records of the streams machine (state-machine 2.2): immutable, so that a capture may keep reading them.

A change builds a new record and puts it into the place of the old one. Tuples, because a catalogue of a million topics
lives in them: nothing but the fields is stored, and equal option maps are shared.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from levrier.actors.metadata.options import OptionMap
from levrier.actors.metadata.slab import Slab


class Partition(NamedTuple):
    """One partition, fields in the order of the snapshot (persistence 4.1).

    `created_revision` tells an id's present incarnation from earlier ones; `deleted_up_to_offset` is the delete
    watermark; `purge_generation` counts purges.
    """

    id: int
    consensus_group_id: int
    created_at: int
    created_revision: int
    deleted_up_to_offset: int = 0
    purge_generation: int = 0


class Revocation(NamedTuple):
    """A partition that its owner has to give up, the key of the member that will get it, and since when (microseconds)."""

    partition_id: int
    target: int
    created_at: int


class Member(NamedTuple):
    """One member of a group. `id` is its key there, reused once free; `client` is the 128-bit id of the headers.

    `partitions` are owned, in the order in which they came; the pending ones among them are not to be polled any more.
    `user_id` is who joined: the membership ends with that user (D-02).
    """

    id: int
    client: int
    user_id: int
    partitions: tuple[int, ...] = ()
    pending: tuple[Revocation, ...] = ()

    @property
    def pollable(self) -> tuple[int, ...]:
        """What the member owns and need not give up."""
        if not self.pending:
            return self.partitions
        leaving = {revocation.partition_id for revocation in self.pending}
        return tuple(partition_id for partition_id in self.partitions if partition_id not in leaving)


class ConsumerGroup(NamedTuple):
    """One consumer group; members in ascending order of their keys. The generation grows with each assignment."""

    id: int
    name: str
    generation: int = 0
    members: tuple[Member, ...] = ()

    def member_of(self, client: int) -> Member | None:
        """The member that this client is, or None."""
        return next((member for member in self.members if member.client == client), None)

    @property
    def pending_count(self) -> int:
        """How many revocations are pending."""
        return sum(len(member.pending) for member in self.members)


class GroupTable:
    """The groups of one topic, ascending by id. Ids are not reused, so this is no slab.

    `stamp` is the capture generation in which this table was made or forked: an older one may be read by a capture, and
    must be forked before it changes.
    """

    __slots__ = ("_groups", "_ids", "stamp")

    def __init__(self, groups: Iterable[ConsumerGroup] = (), *, stamp: int = 0) -> None:
        self.stamp = stamp
        self._groups = {group.id: group for group in groups}
        self._ids = {group.name: group.id for group in self._groups.values()}

    def fork(self, stamp: int) -> "GroupTable":
        """This table with groups of its own. The old one may only be iterated from now on."""
        forked = GroupTable(stamp=stamp)
        forked._groups = self._groups.copy()
        forked._ids = self._ids
        return forked

    def id_of(self, name: str) -> int | None:
        """The id of the group with this name, or None."""
        return self._ids.get(name)

    def find(self, key: int | str) -> ConsumerGroup | None:
        """The group with this id, or with this name, or None; the two kinds of key never match each other."""
        group_id = self._ids.get(key) if isinstance(key, str) else key
        return None if group_id is None else self._groups.get(group_id)

    def put(self, group: ConsumerGroup) -> None:
        """Add a group under an id above all others, or put a changed one in the place of the one with its id."""
        assert self._ids.get(group.name, group.id) == group.id
        self._groups[group.id] = group
        self._ids[group.name] = group.id

    def remove(self, group: ConsumerGroup) -> None:
        """Take a group out; its id is not used again."""
        del self._groups[group.id]
        del self._ids[group.name]

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())


class Topic(NamedTuple):
    """One topic. `message_expiry` in microseconds and `max_topic_size` in bytes: 0 server default, u64 max no limit.

    `compression` is the code 1 or 2 of requests 1.7. Partitions stand in the order in which they were appended.
    `groups` is None until the topic gets its first consumer group.
    """

    id: int
    name: str
    created_at: int
    message_expiry: int
    compression: int
    max_topic_size: int
    options: OptionMap
    partitions: tuple[Partition, ...] = ()
    next_consumer_group_id: int = 0
    groups: GroupTable | None = None

    @property
    def partition_ids(self) -> tuple[int, ...]:
        """The ids of the partitions, in their order."""
        return tuple([partition.id for partition in self.partitions])


class Stream(NamedTuple):
    """One stream. `topics` is None until it gets its first one: most of the weight of an empty table would be waste."""

    id: int
    name: str
    created_at: int
    options: OptionMap
    topics: Slab[Topic] | None = None
