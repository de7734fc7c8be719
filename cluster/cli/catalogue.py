"""`levrier streams ...` and `levrier topics ...`: the catalogue of a running node."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.option_values import parse_options, shown_options
from levrier.cluster.cli.output import CommandFailed, Exit, Instant, Size, print_done, print_record, print_rows
from levrier.cluster.client import Client
from levrier.wire.errors import WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.names import encode_name
from levrier.wire.responses.streams import StreamHeader
from levrier.wire.responses.topics import TopicDetails, TopicHeader

streams = typer.Typer(help="Streams: list, get, create, update, delete, purge.", no_args_is_help=True)
topics = typer.Typer(help="Topics of a stream: list, get, create, update, delete, purge.", no_args_is_help=True)

StreamName = Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream, or id:N.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic, or id:N.")]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="The new name.")]
Partitions = Annotated[int, typer.Option("--partitions", metavar="N", min=0, max=1000, help="How many partitions.")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-o", metavar="KEY=VALUE", help="A topic option, for example message_expiry=7days. Repeatable."
    ),
]


def identifier(text: str) -> Identifier:
    """`id:7` is the id 7, anything else a name; `name:id:7` is the name id:7. Raises `CommandFailed`."""
    if text.startswith("id:"):
        digits = text.removeprefix("id:")
        if not (digits.isascii() and digits.isdigit()) or int(digits) >= 2**32:
            raise CommandFailed(f"{text!r}: a number is expected behind id:", Exit.COULD_NOT_ASK)
        return Identifier(int(digits))
    return Identifier(checked_name(text.removeprefix("name:")))


def checked_name(text: str) -> str:
    """A name that the wire can carry. Raises `CommandFailed`."""
    try:
        encode_name(text, "name")
    except WireError as error:
        raise CommandFailed(f"{text!r} is no name: {error.what}", Exit.COULD_NOT_ASK) from error
    return text


def _change(asking: Asking, change: Callable[[Client], Awaitable[None]], done: str, **what: str) -> None:
    """Have something done that has no answer of its own, and say so."""
    asking.run(change)
    print_done(done, what, as_json=asking.as_json)


@asks(streams, "list")
def list_streams(asking: Asking) -> None:
    """List all streams.

    Example: `levrier streams list --json`
    """
    found = asking.run(lambda client: client.get_streams())
    print_rows([_stream_row(stream) for stream in found], as_json=asking.as_json, empty="no streams")


@asks(streams, "get")
def get_stream(asking: Asking, stream: StreamName) -> None:
    """Show one stream and its topics.

    Example: `levrier streams get orders`
    """
    which = identifier(stream)
    found = asking.run(lambda client: client.get_stream(which))
    if found is None:
        raise CommandFailed(f"no stream {stream} on {asking.connect}")
    names = [topic.name for topic in found.topics]
    print_record({**_stream_row(found.stream), "topic_names": names}, as_json=asking.as_json)


@asks(streams, "create")
def create_stream(asking: Asking, name: NewName) -> None:
    """Create a stream.

    Example: `levrier streams create orders`
    """
    new = checked_name(name)
    created = asking.run(lambda client: client.create_stream(new))
    print_record(_stream_row(created), as_json=asking.as_json)


@asks(streams, "update")
def update_stream(asking: Asking, stream: StreamName, name: NewName) -> None:
    """Rename a stream.

    Example: `levrier streams update orders sales`
    """
    old, new = identifier(stream), checked_name(name)
    _change(
        asking,
        lambda client: client.update_stream(old, new),
        f"renamed stream {stream} to {name}",
        stream=stream,
        name=name,
    )


@asks(streams, "delete")
def delete_stream(asking: Asking, stream: StreamName) -> None:
    """Delete a stream with everything in it.

    Example: `levrier streams delete orders`
    """
    which = identifier(stream)
    _change(asking, lambda client: client.delete_stream(which), f"deleted stream {stream}", stream=stream)


@asks(streams, "purge")
def purge_stream(asking: Asking, stream: StreamName) -> None:
    """Drop the messages of all topics of a stream; the topics stay.

    Example: `levrier streams purge orders`
    """
    which = identifier(stream)
    _change(asking, lambda client: client.purge_stream(which), f"purged stream {stream}", stream=stream)


@asks(topics, "list")
def list_topics(asking: Asking, stream: StreamName) -> None:
    """List the topics of a stream.

    Example: `levrier topics list orders --json`
    """
    which = identifier(stream)
    found = asking.run(lambda client: client.get_stream(which))
    if found is None:
        raise CommandFailed(f"no stream {stream} on {asking.connect}")
    print_rows([_topic_row(topic) for topic in found.topics], as_json=asking.as_json, empty=f"no topics in {stream}")


@asks(topics, "get")
def get_topic(asking: Asking, stream: StreamName, topic: TopicName) -> None:
    """Show one topic, its options and its partitions.

    Example: `levrier topics get orders placed`
    """
    parent, which = identifier(stream), identifier(topic)
    found = asking.run(lambda client: client.get_topic(parent, which))
    if found is None:
        raise CommandFailed(f"no topic {topic} in stream {stream} on {asking.connect}")
    _print_topic(asking, found)


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
    parent, new = identifier(stream), checked_name(name)
    created = asking.run(lambda client: client.create_topic(parent, new, partitions_count=partitions, options=entries))
    _print_topic(asking, created)


@asks(topics, "update")
def update_topic(
    asking: Asking,
    stream: StreamName,
    topic: TopicName,
    name: NewName,
    option: Options = None,
) -> None:
    """Rename a topic (its own name is fine) and change the options that are named; the others stay.

    Example: `levrier topics update orders placed placed -o message_expiry=1day`
    """
    entries = parse_options(option or [])
    parent, old, new = identifier(stream), identifier(topic), checked_name(name)
    _change(
        asking,
        lambda client: client.update_topic(parent, old, new, options=entries),
        f"updated topic {topic} of stream {stream}" + (f", now called {name}" if name != topic else ""),
        stream=stream,
        topic=topic,
        name=name,
    )


@asks(topics, "delete")
def delete_topic(asking: Asking, stream: StreamName, topic: TopicName) -> None:
    """Delete a topic.

    Example: `levrier topics delete orders placed`
    """
    parent, which = identifier(stream), identifier(topic)
    _change(
        asking,
        lambda client: client.delete_topic(parent, which),
        f"deleted topic {topic} of stream {stream}",
        stream=stream,
        topic=topic,
    )


@asks(topics, "purge")
def purge_topic(asking: Asking, stream: StreamName, topic: TopicName) -> None:
    """Drop the messages of a topic; the topic stays.

    Example: `levrier topics purge orders placed`
    """
    parent, which = identifier(stream), identifier(topic)
    _change(
        asking,
        lambda client: client.purge_topic(parent, which),
        f"purged topic {topic} of stream {stream}",
        stream=stream,
        topic=topic,
    )


def _stream_row(stream: StreamHeader) -> dict[str, object]:
    return {
        "id": stream.id,
        "name": stream.name,
        "topics": stream.topics_count,
        "messages": stream.messages_count,
        "bytes": Size(stream.size_bytes),
        "created_at": Instant(stream.created_at),
    }


def _topic_row(topic: TopicHeader) -> dict[str, object]:
    return {
        "id": topic.id,
        "name": topic.name,
        "partitions": topic.partitions_count,
        "messages": topic.messages_count,
        "bytes": Size(topic.size_bytes),
        "created_at": Instant(topic.created_at),
    }


def _print_topic(asking: Asking, details: TopicDetails) -> None:
    """A topic with its options: an object of their own in JSON, lines among the others in a table."""
    options = shown_options(details.topic)
    ids = [partition.id for partition in details.partitions]
    shown = {"options": options} if asking.as_json else options
    print_record({**_topic_row(details.topic), "partition_ids": ids, **shown}, as_json=asking.as_json)
