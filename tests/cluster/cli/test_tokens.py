"""`levrier tokens`, and logging in with one."""

import json

import pytest

from tests.cluster.cli.running import CommandLine
from tests.cluster.cli.test_catalogue import ISO


def secret(levrier: CommandLine, name: str) -> str:
    """The secret of a new token, as a shell would read it."""
    ran = levrier.ask("tokens", "create", name)
    assert (ran.status, ran.out.count("\n")) == (0, 1)
    return ran.out.rstrip("\n")


def test_only_the_secret_stands_on_stdout(levrier: CommandLine) -> None:
    ran = levrier.ask("tokens", "create", "for-a-week", "7days")
    assert ran.status == 0
    assert ran.err == (
        "token for-a-week expires in 7days; its secret is shown this once and cannot be read again, so store it now\n"
    )
    (line,) = ran.lines
    assert line not in ran.err
    assert levrier.ask("me", "--token", line).status == 0


def test_a_token_in_json_names_itself(levrier: CommandLine) -> None:
    ran = levrier.ask("tokens", "create", "in-json", "1day", "12h", "--json")
    created = json.loads(ran.out)
    assert list(created) == ["name", "token", "expiry"]
    assert (created["name"], created["expiry"]) == ("in-json", 36 * 3_600_000_000)
    assert "shown this once" in ran.err


def test_tokens_are_listed_without_their_secrets(levrier: CommandLine) -> None:
    of_a_day = levrier.ask("tokens", "create", "of-a-day", "1day").out.strip()
    lines = levrier.ask("tokens", "list").lines
    assert ISO.fullmatch(next(line.split()[1] for line in lines if line.startswith("of-a-day ")))
    listed = levrier.ask("tokens", "list", "--json").out
    assert of_a_day not in listed
    assert list(levrier.read("tokens", "list")[0]) == ["name", "expires_at"]


def test_a_token_without_an_expiry_never_expires(levrier: CommandLine) -> None:
    assert "never expires" in levrier.ask("tokens", "create", "for-ever").err
    assert next(row for row in levrier.read("tokens", "list") if row["name"] == "for-ever")["expires_at"] == 0
    assert ["for-ever", "never"] in [line.split() for line in levrier.ask("tokens", "list").lines]


def test_a_deleted_token_logs_nobody_in(levrier: CommandLine) -> None:
    token = secret(levrier, "short-lived")
    assert levrier.read("tokens", "delete", "short-lived") == {"name": "short-lived"}
    ran = levrier.ask("me", "--token", token)
    assert ran.status == 1
    assert ran.complaint.startswith(f"{levrier.address} refused: the token is unknown, deleted or expired ")
    assert "--token or LEVRIER_TOKEN" in ran.complaint
    assert token not in ran.complaint


def test_every_command_logs_in_with_the_token_of_the_environment(
    levrier: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    levrier.ask("users", "create", "token-owner", "--new-password", "abc")
    created = levrier.ask("tokens", "create", "its-own", "--username", "token-owner", "--password", "abc")
    monkeypatch.setenv("LEVRIER_TOKEN", created.out.strip())
    number = levrier.read("me")["user_id"]
    assert number != 0
    assert levrier.ask("status").status == 0
    assert [row["name"] for row in levrier.read("tokens", "list")] == ["its-own"]


def test_a_typed_user_goes_before_the_token_of_the_environment(
    levrier: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVRIER_TOKEN", "nonsense")
    assert levrier.ask("me").status == 1
    assert levrier.read("me", "--username", "iggy")["user_id"] == 0


def test_a_typed_token_goes_before_the_user_of_the_environment(
    levrier: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = secret(levrier, "of-the-first")
    monkeypatch.setenv("LEVRIER_USERNAME", "nobody")
    assert levrier.read("me", "--token", token)["user_id"] == 0


def test_a_refusal_names_the_token(levrier: CommandLine) -> None:
    levrier.ask("tokens", "create", "there-twice")
    assert "a token there-twice exists; " in levrier.ask("tokens", "create", "there-twice").complaint
    ran = levrier.ask("tokens", "delete", "no-such")
    assert ran.status == 1
    assert ran.complaint == f"{levrier.address} refused: this user has no token no-such (code 20)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("tokens", "create", "ab"), "'ab': the name of a token has 3 to 30 bytes"),
        (("tokens", "create", "x" * 31), "the name of a token has 3 to 30 bytes"),
        (("tokens", "create", "abc", "soon"), "'soon' is no time to live; it is written like 7days"),
        (("tokens", "create", "abc", ""), "'' is no time to live"),
        (("tokens", "create", "abc", "0s"), "'0s' cannot be a time to live"),
        (("tokens", "create", "abc", "10ns"), "'10ns' cannot be a time to live"),
        (("tokens", "create", "abc", "300000years"), "'300000years' cannot be a time to live"),
        (("me", "--token", "abc", "--username", "iggy"), "--token logs in by itself"),
        (("me", "--token", "abc", "--password-file", "/dev/null"), "--token logs in by itself"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_misuse_is_found_before_anybody_is_asked(levrier: CommandLine, command: tuple[str, ...], said: str) -> None:
    ran = levrier(*command, "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert said in ran.complaint
