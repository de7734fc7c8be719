"""`levrier serve` as its user meets it: what it accepts, what it refuses, what it prints. The life of the process itself is
tested in `tests/cluster/test_process_lifecycle.py`.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from levrier.cluster.cli.output import CommandFailed
from levrier.cluster.cli.serve import noted, root_user
from levrier.cluster.config import RootUser
from levrier.cluster.refused import ConfigError
from tests.cluster.processes import ROOT, NotReady, Spawn
from tests.cluster.raw_client import RawClient, code

READY = re.compile(r"^ready tcp=\S+ http=- data=\S+ pid=\d+$")
REFUSAL_SECONDS = 60.0


def serve(data: Path, *arguments: str, python: tuple[str, ...] = (), **environment: str) -> tuple[int, str]:
    """Run a `serve` that must not start; its status and stderr. Nothing may stand on stdout."""
    command = [
        sys.executable,
        *python,
        "-m",
        "levrier.cluster",
        "serve",
        "--data",
        str(data),
        "--listen",
        "127.0.0.1:0",
    ]
    ended = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=REFUSAL_SECONDS,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_one_line_on_stdout_then_a_signal_ends_it_with_0(spawn: Spawn, tmp_path: Path, number: signal.Signals) -> None:
    with spawn(tmp_path / "data") as node:
        assert node.popen.stdout is not None
        line = node.popen.stdout.readline().decode()
        assert READY.match(line.rstrip("\n"))
        facts = dict(word.split("=", 1) for word in line.split()[1:])
        assert (facts["data"], facts["pid"]) == (str(tmp_path / "data"), str(node.popen.pid))
        node.popen.send_signal(number)
        assert node.popen.stdout.read() == b""
        ended = node.wait()
    assert ended.status == 0
    assert "Traceback" not in ended.log


def test_a_signal_that_comes_before_anybody_waits_for_it_is_not_lost() -> None:
    """Nor does it interrupt what is being started; and afterwards it does what it did before."""
    before = signal.getsignal(signal.SIGINT)
    with noted({signal.SIGINT}) as arrived:
        signal.raise_signal(signal.SIGINT)
        assert arrived.recv(1) == bytes([signal.SIGINT])
    assert signal.getsignal(signal.SIGINT) is before


def test_what_a_node_starts_can_be_ended_by_the_same_signals() -> None:
    """A plugin may start a program; a signal that is blocked or ignored here would be so there too."""
    look = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    with noted({signal.SIGTERM, signal.SIGINT}):
        ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ran.stdout == "set() True\n"


@pytest.mark.process
def test_the_default_password_is_warned_about_once(spawn: Spawn, tmp_path: Path) -> None:
    """D-01."""
    with spawn(tmp_path / "data").ready() as node:
        ended = node.terminate()
    assert ended.log.count("the first user is iggy with the password iggy") == 1


@pytest.mark.process
def test_a_password_file_is_read_and_its_password_never_logged(spawn: Spawn, tmp_path: Path) -> None:
    """D-01, D-20; every address may be listened on then."""
    secret = tmp_path / "secret"
    secret.write_text("p4ssw0rd-of-mine\n")
    environment = {"IGGY_ROOT_PASSWORD_FILE": str(secret)}
    with (
        spawn(tmp_path / "data", listen="0.0.0.0:0", environment=environment).ready() as node,
        RawClient("127.0.0.1", node.port) as client,
    ):
        assert code(client.register(username="iggy", password="p4ssw0rd-of-mine")) == 0
        ended = node.terminate()
    assert "p4ssw0rd-of-mine" not in ended.log


@pytest.mark.process
def test_half_a_root_user_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    status, said = serve(tmp_path / "data", IGGY_ROOT_USERNAME="admin")
    assert status == 2
    assert said == "levrier: IGGY_ROOT_USERNAME is set without IGGY_ROOT_PASSWORD: set both\n"
    assert not (tmp_path / "data").exists()


@pytest.mark.process
def test_a_log_level_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    status, said = serve(tmp_path / "data", "--log-level", "LOUD")
    assert (status, said) == (2, "levrier: log level 'LOUD': DEBUG, INFO, WARNING or ERROR is expected\n")


@pytest.mark.process
def test_python_without_its_assertions_is_refused(tmp_path: Path) -> None:
    status, said = serve(tmp_path / "data", python=("-O",))
    assert (status, said) == (2, "levrier: runs without its assertions are refused: start Python without -O\n")


@pytest.mark.process
def test_a_blank_node_that_others_can_reach_needs_a_password(spawn: Spawn, tmp_path: Path) -> None:
    """D-01."""
    node = spawn(tmp_path / "data", listen="0.0.0.0:0")
    with pytest.raises(NotReady):
        node.ready()
    ended = node.wait()
    assert ended.status == 2
    assert "levrier: no root password is set, and 0.0.0.0:0 can be reached from other machines" in ended.log
    assert "Traceback" not in ended.log


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    status, said = serve(tmp_path / "data", "--listen", "8090")
    assert status == 2
    assert "address '8090': HOST:PORT is expected" in said


@pytest.mark.process
def test_a_host_that_does_not_exist_is_refused_with_15(tmp_path: Path) -> None:
    status, said = serve(tmp_path / "data", "--listen", "no-such-host.invalid:0")
    assert status == 15
    assert "levrier: cannot listen on no-such-host.invalid:0: " in said
    assert "Unknown error" not in said
    assert "Traceback" not in said


def test_nobody_configured_a_root_user() -> None:
    assert root_user({}) is None


def test_name_and_password() -> None:
    assert root_user({"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "secret"}) == RootUser(
        username="admin", password="secret"
    )


def test_a_password_alone_is_that_of_iggy() -> None:
    assert root_user({"IGGY_ROOT_PASSWORD": "secret"}) == RootUser(username="iggy", password="secret")


def test_the_line_end_of_a_password_file_is_no_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_bytes(b" secret \r\n")
    found = root_user({"IGGY_ROOT_PASSWORD_FILE": str(file), "IGGY_ROOT_USERNAME": "admin"})
    assert found == RootUser(username="admin", password=" secret ")


def test_two_passwords_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="are both set: unset one") as refused:
        root_user({"IGGY_ROOT_PASSWORD": "a", "IGGY_ROOT_PASSWORD_FILE": str(tmp_path / "b")})
    assert refused.value.status == 2


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfd"], ids=["missing", "no text"])
def test_a_password_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CommandFailed, match="IGGY_ROOT_PASSWORD_FILE: ") as refused:
        root_user({"IGGY_ROOT_PASSWORD_FILE": str(file)})
    assert refused.value.status == 2


def test_an_empty_password_is_refused() -> None:
    with pytest.raises(ConfigError, match="3 to 100 bytes"):
        root_user({"IGGY_ROOT_PASSWORD": ""})
