"""Who is who on the replica link (wire specification 6.1)."""

from typing import Final

from blake3 import blake3

from levrier.wire.errors import WireError

REPLICAS_MAX: Final = 32
STREAMS_MAX: Final = 1 << 20
TOPICS_PER_STREAM_MAX: Final = 1 << 12
PARTITIONS_PER_TOPIC_MAX: Final = 1_000_000

_TOPIC_SHIFT: Final = 20
_STREAM_SHIFT: Final = 32

assert PARTITIONS_PER_TOPIC_MAX <= 1 << _TOPIC_SHIFT
assert TOPICS_PER_STREAM_MAX <= 1 << (_STREAM_SHIFT - _TOPIC_SHIFT)


def cluster_id(name: str) -> int:
    """The 128-bit id of the cluster of that name."""
    return int.from_bytes(blake3(name.encode()).digest()[:16], "little")


def partition_group(stream_id: int, topic_id: int, partition_id: int) -> int:
    """The group id of a partition. Ids at or past the ceilings are refused with `WireError`, never masked."""
    if not 0 <= stream_id < STREAMS_MAX:
        raise WireError(f"{stream_id} is past the last stream", "stream")
    if not 0 <= topic_id < TOPICS_PER_STREAM_MAX:
        raise WireError(f"{topic_id} is past the last topic", "topic")
    if not 0 <= partition_id < PARTITIONS_PER_TOPIC_MAX:
        raise WireError(f"{partition_id} is past the last partition", "partition")
    return stream_id << _STREAM_SHIFT | topic_id << _TOPIC_SHIFT | partition_id
