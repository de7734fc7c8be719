"""The replicated records of the streams machine (state-machine 2.2): immutable, so that a capture may keep reading them.

A change builds a new record and puts it into the place of the old one. Tuples, because a catalogue of a million topics
lives in them: nothing but the fields is stored, and equal option maps are shared.
"""

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


class Topic(NamedTuple):
    """One topic. `message_expiry` in microseconds and `max_topic_size` in bytes: 0 server default, u64 max no limit.

    `compression` is the code 1 or 2 of requests 1.7. Partitions stand in the order in which they were appended.
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


class Stream(NamedTuple):
    """One stream. `topics` is None until it gets its first one: most of the weight of an empty table would be waste."""

    id: int
    name: str
    created_at: int
    options: OptionMap
    topics: Slab[Topic] | None = None
