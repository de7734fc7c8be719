"""`levrier streams ...` and `levrier topics ...`: the catalogue of a running node."""

from typing import Annotated

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.option_values import parse_options, shown_options
from levrier.cluster.cli.output import CommandFailed, print_done, print_record, print_rows
from levrier.wire.identifiers import Identifier
from levrier.wire.responses.streams import StreamHeader
from levrier.wire.responses.topics import TopicDetails, TopicHeader

streams = typer.Typer(help="Streams: list, get, create, update, delete, purge.", no_args_is_help=True)
topics = typer.Typer(help="Topics of a stream: list, get, create, update, delete, purge.", no_args_is_help=True)

StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream, or #ID.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic, or #ID.")]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="The new name.")]
Partitions = Annotated[int, typer.Option("--partitions", min=0, max=1000, help="How many partitions.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="KEY=VALUE", help="A topic option, for example message_expiry=7days. Repeatable."
    ),
]


def identifier(text: str) -> Identifier:
    """`#7` is the id 7, anything else a name."""
    if text.startswith("#") and text[1:].isdigit():
        number = int(text[1:])
        if number < 2**32:
            return Identifier(number)
    if not 1 <= len(text.encode()) <= 255:
        raise CommandFailed(f"{text!r} is no name: 1 to 255 bytes are allowed")
    return Identifier(text)


@asks(streams, "list")
def list_streams(
    asking: Asking,
) -> None:
    """List all streams."""
    found = asking.run(lambda client: client.get_streams())
    print_rows([_stream_row(stream) for stream in found], as_json=asking.as_json, empty="no streams")


@asks(streams, "get")
def get_stream(
    asking: Asking,
    stream: StreamName,
) -> None:
    """Show one stream and its topics."""
    found = asking.run(lambda client: client.get_stream(identifier(stream)))
    if found is None:
        raise CommandFailed(f"no stream {stream} on {asking.connect}")
    names = [topic.name for topic in found.topics]
    print_record(
        {**_stream_row(found.stream), "topic_names": names if asking.as_json else ", ".join(names)},
        as_json=asking.as_json,
    )


@asks(streams, "create")
def create_stream(
    asking: Asking,
    name: NewName,
) -> None:
    """Create a stream."""
    created = asking.run(lambda client: client.create_stream(name))
    print_record(_stream_row(created), as_json=asking.as_json)


@asks(streams, "update")
def update_stream(
    asking: Asking,
    stream: StreamName,
    name: NewName,
) -> None:
    """Rename a stream."""
    asking.run(lambda client: client.update_stream(identifier(stream), name))
    print_done(f"renamed stream {stream} to {name}", {"stream": stream, "name": name}, as_json=asking.as_json)


@asks(streams, "delete")
def delete_stream(
    asking: Asking,
    stream: StreamName,
) -> None:
    """Delete a stream with everything in it."""
    asking.run(lambda client: client.delete_stream(identifier(stream)))
    print_done(f"deleted stream {stream}", {"stream": stream}, as_json=asking.as_json)


@asks(streams, "purge")
def purge_stream(
    asking: Asking,
    stream: StreamName,
) -> None:
    """Drop the messages of all topics of a stream; the topics stay."""
    asking.run(lambda client: client.purge_stream(identifier(stream)))
    print_done(f"purged stream {stream}", {"stream": stream}, as_json=asking.as_json)


@asks(topics, "list")
def list_topics(
    asking: Asking,
    stream: StreamName,
) -> None:
    """List the topics of a stream."""
    found = asking.run(lambda client: client.get_stream(identifier(stream)))
    if found is None:
        raise CommandFailed(f"no stream {stream} on {asking.connect}")
    print_rows([_topic_row(topic) for topic in found.topics], as_json=asking.as_json, empty=f"no topics in {stream}")


@asks(topics, "get")
def get_topic(
    asking: Asking,
    stream: StreamName,
    topic: TopicName,
) -> None:
    """Show one topic, its options and its partitions."""
    found = asking.run(lambda client: client.get_topic(identifier(stream), identifier(topic)))
    if found is None:
        raise CommandFailed(f"no topic {topic} in stream {stream} on {asking.connect}")
    print_record(_topic_record(found, as_json=asking.as_json), as_json=asking.as_json)


@asks(topics, "create")
def create_topic(
    asking: Asking,
    stream: StreamName,
    name: NewName,
    partitions: Partitions = 1,
    option: Options = None,
) -> None:
    """Create a topic.

    Example: `levrier topics create orders placed --partitions 3 -o message_expiry=7days -o max_topic_size=10GiB`
    """
    entries = parse_options(option or [])
    created = asking.run(
        lambda client: client.create_topic(identifier(stream), name, partitions_count=partitions, options=entries)
    )
    print_record(_topic_record(created, as_json=asking.as_json), as_json=asking.as_json)


@asks(topics, "update")
def update_topic(
    asking: Asking,
    stream: StreamName,
    topic: TopicName,
    name: NewName,
    option: Options = None,
) -> None:
    """Rename a topic (its own name is fine) and change the options that are named."""
    entries = parse_options(option or [])
    asking.run(lambda client: client.update_topic(identifier(stream), identifier(topic), name, options=entries))
    print_done(f"updated topic {topic}", {"stream": stream, "topic": topic, "name": name}, as_json=asking.as_json)


@asks(topics, "delete")
def delete_topic(
    asking: Asking,
    stream: StreamName,
    topic: TopicName,
) -> None:
    """Delete a topic."""
    asking.run(lambda client: client.delete_topic(identifier(stream), identifier(topic)))
    print_done(f"deleted topic {topic}", {"stream": stream, "topic": topic}, as_json=asking.as_json)


@asks(topics, "purge")
def purge_topic(
    asking: Asking,
    stream: StreamName,
    topic: TopicName,
) -> None:
    """Drop the messages of a topic; the topic stays."""
    asking.run(lambda client: client.purge_topic(identifier(stream), identifier(topic)))
    print_done(f"purged topic {topic}", {"stream": stream, "topic": topic}, as_json=asking.as_json)


def _stream_row(stream: StreamHeader) -> dict[str, object]:
    return {
        "id": stream.id,
        "name": stream.name,
        "topics": stream.topics_count,
        "messages": stream.messages_count,
        "bytes": stream.size_bytes,
        "created_at": stream.created_at,
    }


def _topic_row(topic: TopicHeader) -> dict[str, object]:
    return {
        "id": topic.id,
        "name": topic.name,
        "partitions": topic.partitions_count,
        "messages": topic.messages_count,
        "bytes": topic.size_bytes,
        "created_at": topic.created_at,
    }


def _topic_record(details: TopicDetails, *, as_json: bool) -> dict[str, object]:
    record = _topic_row(details.topic)
    options = shown_options(details.topic)
    ids = [partition.id for partition in details.partitions]
    if as_json:
        return {**record, "options": options, "partition_ids": ids}
    return {**record, **options, "partition_ids": ", ".join(map(str, ids))}
