"""`levrier partitions ...` and `levrier segments ...`: how far a topic is divided, and what is dropped of its oldest part."""

from typing import Annotated

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.catalogue import StreamName, TopicName, identifier
from levrier.cluster.cli.output import print_done
from levrier.wire.codes import ErrorCode

partitions = typer.Typer(help="Partitions of a topic: create, delete.", no_args_is_help=True)
segments = typer.Typer(help="Segments of a partition: delete.", no_args_is_help=True)

_U32_MAX = (1 << 32) - 1

PartitionsCount = Annotated[int, typer.Argument(min=1, max=1000, metavar="COUNT", help="How many, 1 to 1000.")]
SegmentsCount = Annotated[int, typer.Argument(min=1, max=_U32_MAX, metavar="COUNT", help="How many, at least 1.")]
PartitionId = Annotated[int, typer.Argument(min=0, max=_U32_MAX, metavar="PARTITION", help="Id of the partition.")]


@asks(partitions, "create")
def create_partitions(asking: Asking, stream: StreamName, topic: TopicName, count: PartitionsCount) -> None:
    """Add partitions to a topic, behind those that it has.

    Example: `levrier partitions create orders placed 2`
    """
    parent, which = identifier(stream), identifier(topic)
    asking.run(lambda client: client.create_partitions(parent, which, count))
    print_done(
        f"added {count} partition{'' if count == 1 else 's'} to topic {topic} of stream {stream}",
        {"stream": stream, "topic": topic, "partitions_added": count},
        as_json=asking.as_json,
    )


@asks(partitions, "delete")
def delete_partitions(asking: Asking, stream: StreamName, topic: TopicName, count: PartitionsCount) -> None:
    """Delete the last partitions of a topic with everything in them.

    Example: `levrier partitions delete orders placed 1`
    """
    parent, which = identifier(stream), identifier(topic)
    asking.run(
        lambda client: client.delete_partitions(parent, which, count),
        refused={ErrorCode.INVALID_PARTITIONS_COUNT: f"topic {topic} has fewer than {count} partitions"},
    )
    print_done(
        f"deleted the last {_counted(count, 'partition')} of topic {topic} of stream {stream}",
        {"stream": stream, "topic": topic, "partitions_deleted": count},
        as_json=asking.as_json,
    )


@asks(segments, "delete")
def delete_segments(
    asking: Asking, stream: StreamName, topic: TopicName, partition: PartitionId, count: SegmentsCount
) -> None:
    """Have the oldest closed segments of a partition deleted.

    Example: `levrier segments delete orders placed 0 3`
    """
    parent, which = identifier(stream), identifier(topic)
    asking.run(lambda client: client.delete_segments(parent, which, partition, count))
    print_done(
        f"asked for the oldest {_counted(count, 'segment')} of partition {partition}, topic {topic} of stream {stream}, "
        "to be deleted",
        {"stream": stream, "topic": topic, "partition": partition, "segments": count},
        as_json=asking.as_json,
    )


def _counted(count: int, what: str) -> str:
    return what if count == 1 else f"{count} {what}s"
