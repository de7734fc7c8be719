"""`levrier users ...`: who may log in."""

from typing import Annotated, Final

import typer

from levrier.cluster.cli import permission_notation as notation
from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.catalogue import checked_name, identifier
from levrier.cluster.cli.output import (
    CommandFailed,
    Exit,
    Instant,
    Row,
    print_done,
    print_json,
    print_record,
    print_rows,
)
from levrier.cluster.cli.permissions import Global, OfStreams, UserName, Wanted, absent, rows_of, set_permissions
from levrier.cluster.cli.secrets_given import SecretSource, checked_password
from levrier.cluster.client import Client
from levrier.wire.codes import ErrorCode, UserStatus
from levrier.wire.names import USERNAME_SIZE_MAX, USERNAME_SIZE_MIN, is_valid_username
from levrier.wire.responses.users import User, UserDetails

users = typer.Typer(help="Users: list, get, create, update, delete, change-password.", no_args_is_help=True)

_NEW: Final = SecretSource(
    what="new password", option="--new-password", variable="LEVRIER_NEW_PASSWORD", confirmed=True
)
_CURRENT: Final = SecretSource(
    what="current password", option="--current-password", variable="LEVRIER_CURRENT_PASSWORD"
)

NewUserName = Annotated[str, typer.Argument(metavar="NAME", help="The new name, 3 to 50 bytes.")]
NewPassword = Annotated[
    str | None,
    typer.Option(
        _NEW.option, metavar="TEXT", envvar=_NEW.variable, show_default=False, help="The new password, 3 to 100 bytes."
    ),
]
NewPasswordFile = Annotated[
    str | None, typer.Option(f"{_NEW.option}-file", metavar="FILE", help="A file with the new password; - is stdin.")
]
CurrentPassword = Annotated[
    str | None,
    typer.Option(
        _CURRENT.option, metavar="TEXT", envvar=_CURRENT.variable, show_default=False, help="The password until now."
    ),
]
CurrentPasswordFile = Annotated[
    str | None,
    typer.Option(f"{_CURRENT.option}-file", metavar="FILE", help="A file with the password until now; - is stdin."),
]


def checked_username(text: str) -> str:
    """A name that a user can have. Raises `CommandFailed`."""
    if not is_valid_username(checked_name(text)):
        raise CommandFailed(
            f"{text!r}: the name of a user has {USERNAME_SIZE_MIN} to {USERNAME_SIZE_MAX} bytes", Exit.COULD_NOT_ASK
        )
    return text


@asks(users, "list")
def list_users(asking: Asking) -> None:
    """List all users.

    Example: `levrier users list --json`
    """
    found = asking.run(lambda client: client.get_users())
    print_rows([_row(user) for user in found], as_json=asking.as_json, empty="no users")


@asks(users, "get")
def get_user(asking: Asking, user: UserName) -> None:
    """Show one user and what it may do.

    Example: `levrier users get alice`
    """
    which = identifier(user)

    async def find(client: Client) -> tuple[UserDetails, list[Row]] | None:
        found = await client.get_user(which)
        return None if found is None else (found, await _permission_rows(asking, client, found))

    answer = asking.run(find)
    if answer is None:
        raise CommandFailed(f"no user {user} on {asking.connect}")
    _print_user(asking, *answer)


@asks(users, "create")
def create_user(  # noqa: PLR0917 - each is an option of the command line.
    asking: Asking,
    name: NewUserName,
    new_password: NewPassword = None,
    new_password_file: NewPasswordFile = None,
    inactive: Annotated[
        bool, typer.Option("--inactive", metavar="", help="It may not log in until it is activated.")
    ] = False,
    everywhere: Global = None,
    stream: OfStreams = None,
    permissions_file: Annotated[
        str | None,
        typer.Option(
            "--permissions-file",
            metavar="FILE",
            help="JSON as `levrier permissions show --json` prints it; - is stdin.",
        ),
    ] = None,
) -> None:
    """Create a user. Its password is asked for where no option, file or variable gives it.

    Permissions are written as for `levrier permissions set`; without any, the user may log in and do nothing.

    Example: `levrier users create alice --new-password-file alice.txt --global read_streams`
    """
    new, wanted = checked_username(name), Wanted(everywhere, stream, permissions_file)
    password = checked_password(_NEW.read(new_password, new_password_file, typed=asking.typed))

    async def create(client: Client) -> tuple[UserDetails, list[Row]]:
        permissions = await wanted.found_with(client)
        created = await client.create_user(new, password, active=not inactive, permissions=permissions)
        return created, await _permission_rows(asking, client, created)

    exists: dict[int, str] = {ErrorCode.USER_ALREADY_EXISTS: f"a user {new} exists; `levrier users get {new}` shows it"}
    _print_user(asking, *asking.run(create, refused=exists))


@asks(users, "update")
def update_user(
    asking: Asking,
    user: UserName,
    name: Annotated[str | None, typer.Option("--name", "-n", metavar="NAME", help="Its new name.")] = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", metavar="", show_default=False, help="Whether it may log in.")
    ] = None,
) -> None:
    """Rename a user, or let it log in or not; what is not named stays.

    Example: `levrier users update alice --name alicia --inactive`
    """
    which, new = identifier(user), None if name is None else checked_username(name)
    if new is None and active is None:
        raise CommandFailed("nothing to change is named: use --name, --active or --inactive", Exit.COULD_NOT_ASK)
    asking.run(
        lambda client: client.update_user(which, username=new, active=active),
        refused={**absent(user), ErrorCode.USER_ALREADY_EXISTS: f"a user {new} exists"},
    )
    status = None if active is None else _status(UserStatus.ACTIVE if active else UserStatus.INACTIVE)
    told = [*([f"now called {new}"] if new else []), *([f"now {status}"] if status else [])]
    what = {"user": user, **({"username": new} if new else {}), **({"status": status} if status else {})}
    print_done(f"updated user {user}, {', '.join(told)}", what, as_json=asking.as_json)


@asks(users, "delete")
def delete_user(asking: Asking, user: UserName) -> None:
    """Delete a user with its tokens and group memberships; its sessions end.

    Example: `levrier users delete alice`
    """
    which = identifier(user)
    asking.run(lambda client: client.delete_user(which), refused=absent(user))
    print_done(f"deleted user {user}", {"user": user}, as_json=asking.as_json)


@asks(users, "change-password")
def change_password(  # noqa: PLR0917 - each is an option of the command line.
    asking: Asking,
    user: UserName,
    new_password: NewPassword = None,
    new_password_file: NewPasswordFile = None,
    current_password: CurrentPassword = None,
    current_password_file: CurrentPasswordFile = None,
) -> None:
    """Change the password of a user. The current one is needed, whoever asks.

    What no option, file or variable gives is asked for; the current password of the user that logs in is known already.

    Example: `levrier users change-password iggy --new-password-file new.txt`
    """
    which = identifier(user)
    current = _CURRENT.find(current_password, current_password_file, typed=asking.typed)
    if current is None and asking.token is None and user == asking.username:
        current = asking.password
    if current is None:
        current = _CURRENT.read(None, None, typed=asking.typed)
    new = checked_password(_NEW.read(new_password, new_password_file, typed=asking.typed))
    wrong: dict[int, str] = {ErrorCode.INVALID_CREDENTIALS: f"this is not the current password of user {user}"}
    asking.run(lambda client: client.change_password(which, current, new), refused={**absent(user), **wrong})
    print_done(f"changed the password of user {user}", {"user": user}, as_json=asking.as_json)


# The same under the names that Iggy's own tool has for it.


@asks(users, "name", hidden=True)
def rename_user(asking: Asking, user: UserName, name: NewUserName) -> None:
    """Rename a user, as `update --name` does.

    Example: `levrier user name alice alicia`
    """
    update_user(asking, user, name=name)


@asks(users, "status", hidden=True)
def set_status(
    asking: Asking,
    user: UserName,
    status: Annotated[str, typer.Argument(metavar="STATUS", help="active or inactive.")],
) -> None:
    """Let a user log in or not, as `update --active` and `--inactive` do.

    Example: `levrier user status alice inactive`
    """
    if status not in {"active", "inactive"}:
        raise CommandFailed(f"{status!r} is no status: it is active or inactive", Exit.COULD_NOT_ASK)
    update_user(asking, user, active=status == "active")


asks(users, "password", hidden=True)(change_password)
asks(users, "permissions", hidden=True)(set_permissions)


def _status(status: int) -> str:
    return {int(UserStatus.ACTIVE): "active", int(UserStatus.INACTIVE): "inactive"}.get(status, f"unknown ({status})")


def _row(user: User) -> dict[str, object]:
    return {
        "id": user.id,
        "username": user.username,
        "status": _status(user.status),
        "created_at": Instant(user.created_at),
    }


async def _permission_rows(asking: Asking, client: Client, user: UserDetails) -> list[Row]:
    return [] if asking.as_json else await rows_of(client, user.permissions)


def _print_user(asking: Asking, details: UserDetails, rows: list[Row]) -> None:
    """A user, and behind it what it may do: an object of its own in JSON, a second table otherwise."""
    if asking.as_json:
        print_json({**_row(details.user), "permissions": notation.as_json(details.permissions)})
        return
    print_record(_row(details.user), as_json=False)
    typer.echo()
    print_rows(rows, as_json=False, empty="no permissions")
