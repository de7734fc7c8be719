"""`levrier tokens ...`: the personal access tokens of whoever logs in."""

from typing import Annotated

import typer

from levrier.cluster.cli.asking import Asking, asks
from levrier.cluster.cli.catalogue import checked_name
from levrier.cluster.cli.output import CommandFailed, Exit, Instant, print_done, print_json, print_rows, say
from levrier.cluster.client_users import NEVER_EXPIRES
from levrier.wire.codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.names import TOKEN_NAME_SIZE_MAX, TOKEN_NAME_SIZE_MIN
from levrier.wire.quantities import parse_duration_nanoseconds

tokens = typer.Typer(help="Personal access tokens of the user who logs in: list, create, delete.", no_args_is_help=True)

NEVER = frozenset({"never", "none", "unlimited"})
_MICROS_MAX = (1 << 63) - 1

TokenName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token.")]


class Expiry(Instant):
    """When a token ends; 0 is never."""

    def shown(self) -> str:
        return super().shown() if self else "never"


def parse_expiry(words: list[str]) -> int:
    """`7days`, or `1day 12h` in one or several words, in microseconds; none of them is never. Raises `CommandFailed`."""
    text = " ".join(words).strip()
    if not words or text in NEVER:
        return NEVER_EXPIRES
    try:
        micros = parse_duration_nanoseconds(text) // 1000
    except WireError as error:
        raise CommandFailed(
            f"{text!r} is no time to live; it is written like 7days, 12h or '1day 12h', or never", Exit.COULD_NOT_ASK
        ) from error
    if not 0 < micros <= _MICROS_MAX:
        raise CommandFailed(
            f"{text!r} cannot be a time to live; a token without one is created with never", Exit.COULD_NOT_ASK
        )
    return micros


def checked_token_name(text: str) -> str:
    """A name that a token can have. Raises `CommandFailed`."""
    if not TOKEN_NAME_SIZE_MIN <= len(checked_name(text).encode()) <= TOKEN_NAME_SIZE_MAX:
        raise CommandFailed(
            f"{text!r}: the name of a token has {TOKEN_NAME_SIZE_MIN} to {TOKEN_NAME_SIZE_MAX} bytes",
            Exit.COULD_NOT_ASK,
        )
    return text


@asks(tokens, "list")
def list_tokens(asking: Asking) -> None:
    """List the tokens of the user who logs in; their secrets are known to nobody.

    Example: `levrier tokens list --username alice`
    """
    found = asking.run(lambda client: client.get_tokens())
    rows = [{"name": token.name, "expires_at": Expiry(token.expires_at)} for token in found]
    print_rows(rows, as_json=asking.as_json, empty="no tokens")


@asks(tokens, "create")
def create_token(
    asking: Asking,
    name: TokenName,
    expiry: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXPIRY", help="How long it is good, for example 7days; without it, for ever."),
    ] = None,
) -> None:
    """Create a token and print its secret, this once.

    Only the secret stands on stdout. Log in with it by `--token` or LEVRIER_TOKEN.

    Example: `levrier tokens create pipeline 7days > pipeline.token`
    """
    new, micros = checked_token_name(name), parse_expiry(expiry or [])
    secret = asking.run(
        lambda client: client.create_token(new, expiry_micros=micros),
        refused={
            ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS: f"a token {new} exists; "
            f"`levrier tokens delete {new}` ends it, another name keeps it"
        },
    )
    end = f"expires in {' '.join(expiry or [])}" if micros else "never expires"
    say(f"token {new} {end}; its secret is shown this once and cannot be read again, so store it now")
    if asking.as_json:
        print_json({"name": new, "token": secret, "expiry": micros})
    else:
        typer.echo(secret)


@asks(tokens, "delete")
def delete_token(asking: Asking, name: TokenName) -> None:
    """Delete a token; nobody can log in with it any more.

    Example: `levrier tokens delete pipeline`
    """
    which = checked_name(name)
    asking.run(
        lambda client: client.delete_token(which),
        refused={ErrorCode.RESOURCE_NOT_FOUND: f"this user has no token {name}"},
    )
    print_done(f"deleted token {name}", {"name": name}, as_json=asking.as_json)
