"""`levrier groups ...`: the consumer groups of a topic.

Joining and leaving are missing on purpose: a membership ends with the session, and a command is one session.
"""

from typing import Annotated

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.catalogue import NewName, StreamName, TopicName, checked_name, identifier
from levrier.cluster.cli.output import CommandFailed, print_done, print_json, print_record, print_rows
from levrier.wire.responses.groups import ConsumerGroup

groups = typer.Typer(help="Consumer groups of a topic: list, get, create, delete.", no_args_is_help=True)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group, or id:N.")]


@asks(groups, "list")
def list_groups(asking: Asking, stream: StreamName, topic: TopicName) -> None:
    """List the consumer groups of a topic.

    Example: `levrier groups list orders placed`
    """
    parent, which = identifier(stream), identifier(topic)
    found = asking.run(lambda client: client.get_groups(parent, which))
    print_rows(
        [_row(group) for group in found], as_json=asking.as_json, empty=f"no groups in topic {topic} of stream {stream}"
    )


@asks(groups, "get")
def get_group(asking: Asking, stream: StreamName, topic: TopicName, group: GroupName) -> None:
    """Show one consumer group, its members, and the partitions that each may poll.

    Example: `levrier groups get orders placed billing`
    """
    parent, inner, which = identifier(stream), identifier(topic), identifier(group)
    found = asking.run(lambda client: client.get_group(parent, inner, which))
    if found is None:
        raise CommandFailed(f"no group {group} in topic {topic} of stream {stream} on {asking.connect}")
    rows = [{"member": member.id, "partition_ids": list(member.partitions)} for member in found.members]
    if asking.as_json:
        print_json({**_row(found.group), "members_with_partitions": rows})
        return
    print_record(_row(found.group), as_json=False)
    typer.echo()
    print_rows(rows, as_json=False, empty="no members")


@asks(groups, "create")
def create_group(asking: Asking, stream: StreamName, topic: TopicName, name: NewName) -> None:
    """Create a consumer group in a topic.

    Example: `levrier groups create orders placed billing`
    """
    parent, inner, new = identifier(stream), identifier(topic), checked_name(name)
    created = asking.run(lambda client: client.create_group(parent, inner, new))
    print_record(_row(created), as_json=asking.as_json)


@asks(groups, "delete")
def delete_group(asking: Asking, stream: StreamName, topic: TopicName, group: GroupName) -> None:
    """Delete a consumer group; its members lose their partitions.

    Example: `levrier groups delete orders placed billing`
    """
    parent, inner, which = identifier(stream), identifier(topic), identifier(group)
    asking.run(lambda client: client.delete_group(parent, inner, which))
    print_done(
        f"deleted group {group} of topic {topic} of stream {stream}",
        {"stream": stream, "topic": topic, "group": group},
        as_json=asking.as_json,
    )


def _row(group: ConsumerGroup) -> dict[str, object]:
    return {
        "id": group.id,
        "name": group.name,
        "partitions": group.partitions_count,
        "members": group.members_count,
    }
