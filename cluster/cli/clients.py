"""`levrier clients ...` and `levrier me`: who is connected to a node."""

from typing import Annotated, Final

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.output import CommandFailed, print_json, print_record, print_rows
from levrier.wire.responses.system import ClientDetails, ClientInfo

clients = typer.Typer(help="Connections to the node: list, get.", no_args_is_help=True)

_NOBODY: Final = (1 << 32) - 1
_TRANSPORTS: Final = {1: "tcp", 2: "quic", 4: "websocket"}

ClientId = Annotated[
    int, typer.Argument(min=0, max=(1 << 32) - 1, metavar="CLIENT", help="Id that `levrier clients list` shows.")
]


@asks(clients, "list")
def list_clients(asking: Asking) -> None:
    """List the connections of the node that is asked; this one is among them.

    Example: `levrier clients list`
    """
    found = asking.run(lambda client: client.get_clients())
    print_rows([_row(client) for client in found], as_json=asking.as_json, empty="no clients")


@asks(clients, "get")
def get_client(asking: Asking, client: ClientId) -> None:
    """Show one connection and the consumer groups that it is a member of.

    Example: `levrier clients get 7`
    """
    found = asking.run(lambda asked: asked.get_client(client))
    if found is None:
        raise CommandFailed(f"no client {client} on {asking.connect}")
    _print_client(asking, found)


def me(asking: Asking) -> None:
    """Show the connection of this command as the node sees it.

    Example: `levrier me --username alice`
    """
    _print_client(asking, asking.run(lambda client: client.get_me()))


def _row(client: ClientInfo) -> dict[str, object]:
    return {
        "client_id": client.client_id,
        "user_id": None if client.user_id == _NOBODY else client.user_id,
        "transport": _TRANSPORTS.get(client.transport, f"unknown ({client.transport})"),
        "address": client.address,
        "groups": client.consumer_groups_count,
    }


def _print_client(asking: Asking, details: ClientDetails) -> None:
    rows = [
        {"stream_id": group.stream_id, "topic_id": group.topic_id, "group_id": group.group_id}
        for group in details.groups
    ]
    if asking.as_json:
        print_json({**_row(details.client), "memberships": rows})
        return
    print_record(_row(details.client), as_json=False)
    if rows:
        typer.echo()
        print_rows(rows, as_json=False, empty="")
