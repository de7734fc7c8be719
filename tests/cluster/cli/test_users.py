"""`levrier users`: every command, where its passwords come from, and what it refuses."""

import io
import re
from pathlib import Path

import pytest

from tests.cluster.cli.running import CommandLine

USER_KEYS = ["id", "username", "status", "created_at"]
PASSWORD = "correct horse"


@pytest.fixture
def password_file(tmp_path: Path) -> str:
    """A file as an editor leaves it, with a line break at the end."""
    path = tmp_path / "password"
    path.write_text(f"{PASSWORD}\n")
    return str(path)


@pytest.fixture
def user(request: pytest.FixtureRequest, levrier: CommandLine, password_file: str) -> str:
    """A user that no other test knows."""
    name = re.sub(r"\W+", "-", f"u-{request.node.name.removeprefix('test_')}")[:40]
    assert levrier.ask("users", "create", name, "--new-password-file", password_file).status == 0
    return name


def test_a_created_user_is_shown_in_json(levrier: CommandLine, password_file: str) -> None:
    created = levrier.read("users", "create", "json-user", "--new-password-file", password_file, "--inactive")
    assert list(created) == [*USER_KEYS, "permissions"]
    assert (created["username"], created["status"], created["permissions"]) == ("json-user", "inactive", None)
    assert isinstance(created["created_at"], int)


def test_a_user_is_created_with_its_permissions(levrier: CommandLine, password_file: str) -> None:
    ran = levrier.ask("users", "create", "can-read", "--new-password-file", password_file, "-g", "read_streams,p_msg")
    assert ran.status == 0
    assert ran.lines[-2:] == ["on          granted", "everything  read_streams, poll_messages"]


def test_users_are_listed(levrier: CommandLine, user: str) -> None:
    lines = levrier.ask("users", "list").lines
    assert lines[0].split() == ["id", "username", "status", "created", "at"]
    assert next(line.split() for line in lines if user in line)[1:3] == [user, "active"]
    found = next(row for row in levrier.read("users", "list") if row["username"] == user)
    assert list(found) == USER_KEYS


def test_one_user_is_shown_with_what_it_may_do(levrier: CommandLine, user: str) -> None:
    lines = levrier.ask("users", "get", user).lines
    assert lines[1] == f"username    {user}"
    assert lines[-1] == "no permissions"
    assert levrier.ask("users", "get", "iggy").lines[-1] == "everything  all"


def test_a_user_is_found_by_its_id(levrier: CommandLine) -> None:
    assert levrier.read("users", "get", "id:0")["username"] == "iggy"


def test_the_password_of_a_file_is_that_without_its_line_break(levrier: CommandLine, user: str) -> None:
    assert levrier.ask("me", "--username", user, "--password", PASSWORD).status == 0


def test_to_log_in_a_file_names_the_password_too(levrier: CommandLine, user: str, password_file: str) -> None:
    number = levrier.read("users", "get", user)["id"]
    assert levrier.read("me", "--username", user, "--password-file", password_file)["user_id"] == number


def test_a_new_password_comes_from_the_environment(levrier: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVRIER_NEW_PASSWORD", PASSWORD)
    assert levrier.ask("users", "create", "of-the-env").status == 0
    assert levrier.ask("me", "--username", "of-the-env", "--password", PASSWORD).status == 0


def test_a_new_password_comes_from_stdin(levrier: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
    assert levrier.ask("users", "create", "of-stdin", "--new-password-file", "-").status == 0
    assert levrier.ask("me", "--username", "of-stdin", "--password", PASSWORD).status == 0


def test_a_new_password_is_asked_for_twice_at_a_terminal(levrier: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool, bool]] = []

    def answer(text: str, *, hide_input: bool, confirmation_prompt: bool, err: bool) -> str:
        assert err
        asked.append((text, hide_input, confirmation_prompt))
        return PASSWORD

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", answer)
    assert levrier.ask("users", "create", "of-prompt").status == 0
    assert asked == [("new password", True, True)]


def test_without_a_terminal_the_ways_to_give_a_password_are_named(levrier: CommandLine) -> None:
    ran = levrier("users", "create", "nobody-new", "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert "--new-password-file" in ran.complaint
    assert "LEVRIER_NEW_PASSWORD" in ran.complaint


def test_the_password_of_another_than_the_first_user_is_not_guessed(levrier: CommandLine) -> None:
    ran = levrier("users", "list", "--username", "alice", "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert ran.complaint.startswith("no password of alice: ")


def test_a_user_is_renamed_and_locked_out(levrier: CommandLine, user: str) -> None:
    ran = levrier.ask("users", "update", user, "--name", "renamed", "--inactive")
    assert ran.out == f"updated user {user}, now called renamed, now inactive\n"
    found = levrier.read("users", "get", "renamed")
    assert found["status"] == "inactive"
    assert levrier.ask("me", "--username", "renamed", "--password", PASSWORD).status == 1


def test_an_update_says_in_json_what_it_changed(levrier: CommandLine, user: str) -> None:
    assert levrier.read("users", "update", user, "--inactive") == {"user": user, "status": "inactive"}
    assert levrier.read("users", "update", user, "--active") == {"user": user, "status": "active"}


def test_the_names_of_iggys_own_tool_do_the_same(levrier: CommandLine, user: str, password_file: str) -> None:
    assert levrier.ask("user", "status", user, "inactive").out == f"updated user {user}, now inactive\n"
    assert levrier.ask("user", "status", user, "active").out == f"updated user {user}, now active\n"
    assert levrier.ask("user", "name", user, "by-alias").out == f"updated user {user}, now called by-alias\n"
    assert levrier.ask("user", "permissions", "by-alias", "-g", "r_str").status == 0
    changed = levrier.ask(
        *("user", "password", "by-alias", "--current-password-file", password_file, "--new-password", "another one")
    )
    assert changed.out == "changed the password of user by-alias\n"
    assert levrier.read("user", "get", "by-alias")["permissions"]["global"]["read_streams"] is True
    assert levrier.ask("me", "--username", "by-alias", "--password", "another one").status == 0


def test_who_logs_in_with_a_password_need_not_repeat_it_to_change_it(levrier: CommandLine, user: str) -> None:
    ran = levrier.ask(
        *("users", "change-password", user, "--new-password", "fresh one", "--username", user, "--password", PASSWORD)
    )
    assert ran.status == 0
    assert levrier.ask("me", "--username", user, "--password", PASSWORD).status == 1
    assert levrier.ask("me", "--username", user, "--password", "fresh one").status == 0


def test_a_wrong_current_password_is_told_from_a_wrong_login(levrier: CommandLine, user: str) -> None:
    ran = levrier.ask("users", "change-password", user, "--current-password", "wrong", "--new-password", "fresh one")
    assert ran.status == 1
    assert ran.complaint == (f"{levrier.address} refused: this is not the current password of user {user} (code 42)")


def test_a_user_is_deleted(levrier: CommandLine, user: str) -> None:
    assert levrier.read("users", "delete", user) == {"user": user}
    assert levrier.ask("users", "get", user).complaint == f"no user {user} on {levrier.address}"


def test_a_user_can_delete_itself(levrier: CommandLine, user: str) -> None:
    """Its session ends with it, which is no failure of the command."""
    assert levrier.ask("permissions", "set", user, "-g", "manage_users").status == 0
    ran = levrier.ask("users", "delete", user, "--username", user, "--password", PASSWORD)
    assert (ran.status, ran.out, ran.err) == (0, f"deleted user {user}\n", "")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("users", "update", "nobody", "--active"), "there is no user nobody (code 20)"),
        (("users", "delete", "nobody"), "there is no user nobody (code 20)"),
        (("users", "delete", "iggy"), "the first user cannot be deleted (code 48)"),
        (("users", "create", "iggy", "--new-password", "abc"), "a user iggy exists; `levrier users get iggy` shows it"),
        (
            ("users", "change-password", "nobody", "--current-password", "abc", "--new-password", "abc"),
            "there is no user nobody (code 20)",
        ),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, tuple) else "",
)
def test_a_refusal_names_the_user(levrier: CommandLine, command: tuple[str, ...], said: str) -> None:
    ran = levrier.ask(*command)
    assert ran.status == 1
    assert ran.complaint.startswith(f"{levrier.address} refused: ")
    assert said in ran.complaint


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("create", "al", "--new-password", "abc"), "'al': the name of a user has 3 to 50 bytes"),
        (("create", "x" * 51, "--new-password", "abc"), "the name of a user has 3 to 50 bytes"),
        (("create", "alice", "--new-password", "ab"), "a password has 3 to 100 bytes, this one has 2"),
        (("create", "alice", "--new-password", "p" * 101), "a password has 3 to 100 bytes, this one has 101"),
        (("create", "alice", "--new-password-file", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("create", "alice", "--new-password-file", "/dev/null"), "/dev/null: it is empty"),
        (("create", "alice", "--new-password-file", "/dev/zero"), "/dev/zero: larger than 4096 bytes"),
        (
            ("create", "alice", "--new-password", "abc", "--new-password-file", "/dev/null"),
            "--new-password and --new-password-file: use one of them",
        ),
        (("update", "alice"), "nothing to change is named: use --name, --active or --inactive"),
        (("status", "alice", "asleep"), "'asleep' is no status: it is active or inactive"),
        (("list", "--password", "a", "--password-file", "/dev/null"), "--password and --password-file: use one of"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_misuse_is_found_before_anybody_is_asked(levrier: CommandLine, command: tuple[str, ...], said: str) -> None:
    ran = levrier("users", *command, "--connect", "127.0.0.1:1")
    assert ran.status == 2
    assert said in ran.complaint


def test_a_file_goes_before_a_variable(
    levrier: CommandLine, password_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVRIER_NEW_PASSWORD", "of the variable")
    assert levrier.ask("users", "create", "of-both", "--new-password-file", password_file).status == 0
    assert levrier.ask("me", "--username", "of-both", "--password", PASSWORD).status == 0


def test_no_password_is_said_back(levrier: CommandLine, user: str) -> None:
    ran = levrier.ask("users", "change-password", user, "--current-password", "zz-not-it", "--new-password", "zz-new")
    assert "zz-" not in ran.out + ran.err
