"""`levrier permissions ...`: what users may do."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from levrier.cluster.cli import permission_notation as notation
from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.catalogue import identifier
from levrier.cluster.cli.output import CommandFailed, Exit, Row, print_done, print_json, print_rows
from levrier.cluster.cli.secrets_given import read_text, reason
from levrier.cluster.client import Client, IggyError
from levrier.wire.codes import ErrorCode
from levrier.wire.identifiers import Identifier
from levrier.wire.permissions import Permissions
from levrier.wire.responses.streams import StreamDetails

permissions = typer.Typer(help="What users may do: show, set, clear.", no_args_is_help=True)

FILE_SIZE_MAX: Final = 16 << 20

UserName = Annotated[str, typer.Argument(metavar="USER", help="Name of the user, or id:N.")]
Global = Annotated[
    str | None,
    typer.Option(
        "--global", "-g", metavar="WORDS", help="What holds everywhere, for example read_streams,poll_messages; or all."
    ),
]
OfStreams = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        "-s",
        metavar="GRANT",
        help="What holds in one stream and in topics of it, STREAM:WORDS#TOPIC:WORDS. Repeatable.",
    ),
]
File = Annotated[
    str | None,
    typer.Option(
        "--file", "-f", metavar="FILE", help="JSON as `levrier permissions show --json` prints it; - is stdin."
    ),
]


class Wanted:
    """The permissions that a command line names, parsed before anybody is asked; ids are found out on the way."""

    def __init__(self, everywhere: str | None, streams: Sequence[str] | None, file: str | None) -> None:
        self._whole: Permissions | None = None
        self.named = file is not None or everywhere is not None or bool(streams)
        if file is not None:
            if everywhere is not None or streams:
                raise CommandFailed(
                    "a permissions file stands alone: leave out --global and --stream", Exit.COULD_NOT_ASK
                )
            self._whole = _read(file)
        self._everywhere = notation.parse_global(everywhere)
        self._streams = [notation.parse_stream(text) for text in streams or ()]

    async def found_with(self, client: Client) -> Permissions | None:
        """The permissions by id, None when none were named."""
        if self._whole is not None or not self.named:
            return self._whole
        return await notation.resolve(self._everywhere, self._streams, client.get_stream)


def _read(file: str) -> Permissions:
    try:
        return notation.from_json(read_text(file, size_max=FILE_SIZE_MAX))
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{file}: {reason(error)}", Exit.COULD_NOT_ASK) from error
    except CommandFailed as error:
        raise CommandFailed(f"{file}: {error}", error.status) from error


def absent(user: str) -> Mapping[int, str]:
    """What it means that something is not found where a user is all that is named."""
    return {ErrorCode.RESOURCE_NOT_FOUND: f"there is no user {user}"}


async def rows_of(client: Client, granted: Permissions | None) -> list[Row]:
    """Permissions as rows of a table; names of streams that the caller may not read are left out."""

    async def find(stream: Identifier) -> StreamDetails | None:
        try:
            return await client.get_stream(stream)
        except IggyError as error:
            if error.code != ErrorCode.UNAUTHORIZED:
                raise
            return None

    return [] if granted is None else await notation.rows(granted, find)


@asks(permissions, "show")
def show_permissions(asking: Asking, user: UserName) -> None:
    """Show what a user may do.

    Example: `levrier permissions show alice --json > alice.json`
    """
    which = identifier(user)

    async def find(client: Client) -> tuple[Permissions | None, list[Row]] | None:
        found = await client.get_user(which)
        if found is None:
            return None
        return found.permissions, [] if asking.as_json else await rows_of(client, found.permissions)

    answer = asking.run(find)
    if answer is None:
        raise CommandFailed(f"no user {user} on {asking.connect}")
    granted, rows = answer
    if asking.as_json:
        print_json(notation.as_json(granted))
    else:
        print_rows(rows, as_json=False, empty=f"{user} has no permissions")


@asks(permissions, "set")
def set_permissions(
    asking: Asking, user: UserName, everywhere: Global = None, stream: OfStreams = None, file: File = None
) -> None:
    """Replace what a user may do: what is not named here is taken away.

    A grant is STREAM:WORDS, and behind it for each topic #TOPIC:WORDS; streams and topics are names or id:N. The words that hold everywhere are manage_servers, read_servers, manage_users, read_users, manage_streams,
    read_streams, manage_topics, read_topics, poll_messages and send_messages; in a stream manage_stream, read_stream,
    manage_topics, read_topics, poll_messages and send_messages; in a topic manage_topic, read_topic, poll_messages and
    send_messages. The short words of Iggy's own tool (r_str) and the word all are understood.

    Example: `levrier permissions set alice --global read_streams --stream orders:read_topics#placed:poll_messages`

    Example: `levrier permissions set bob --file alice.json`
    """
    which, wanted = identifier(user), Wanted(everywhere, stream, file)
    if not wanted.named:
        raise CommandFailed(
            f"no permissions are named: use --global, --stream or --file; `levrier permissions clear {user}` takes all away",
            Exit.COULD_NOT_ASK,
        )

    async def change(client: Client) -> None:
        await client.update_permissions(which, await wanted.found_with(client))

    asking.run(change, refused=absent(user))
    print_done(f"set the permissions of user {user}", {"user": user}, as_json=asking.as_json)


@asks(permissions, "clear")
def clear_permissions(asking: Asking, user: UserName) -> None:
    """Take all permissions of a user away.

    Example: `levrier permissions clear alice`
    """
    which = identifier(user)
    asking.run(lambda client: client.update_permissions(which, None), refused=absent(user))
    print_done(f"took all permissions of user {user} away", {"user": user}, as_json=asking.as_json)
