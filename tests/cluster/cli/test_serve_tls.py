"""`levrier serve --tls-certificate --tls-key`: clients over TLS and nobody else, and files that do not do."""

import socket
import ssl
from pathlib import Path

import pytest

from levrier.cluster.cli.output import CommandFailed
from levrier.cluster.cli.serve import client_tls
from levrier.wire.codes import CommandCode
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import ReplyHeader
from tests.actors.bus import tls_identity
from tests.cluster.processes import NodeProcess, serve_command
from tests.cluster.raw_client import request

ANSWER_SECONDS = 60.0
PING = request(0, client=1, code=CommandCode.PING)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for localhost and its key."""
    certificate, key = tmp_path / "node.pem", tmp_path / "node.key"
    certificate.write_text(tls_identity.CERTIFICATE)
    key.write_text(tls_identity.KEY)
    return certificate, key


@pytest.mark.process
def test_clients_are_served_over_tls_and_in_no_other_way(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """Wire 1: the same bytes inside TLS; a plain frame is no handshake, and its connection is closed."""
    certificate, key = pair
    trusting = ssl.create_default_context(cadata=tls_identity.CERTIFICATE)
    command = serve_command(tmp_path / "data", "127.0.0.1:0")
    command += ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    with NodeProcess(command, tmp_path / "log").ready() as node:
        with (
            socket.create_connection((node.host, node.port), ANSWER_SECONDS) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as secure,
        ):
            secure.sendall(PING)
            answer = b""
            while len(answer) < HEADER_SIZE:
                answer += secure.recv(HEADER_SIZE)
            assert ReplyHeader.decode(answer).size == HEADER_SIZE
        with socket.create_connection((node.host, node.port), ANSWER_SECONDS) as plain:
            plain.sendall(PING)
            answer = b""
            while received := plain.recv(HEADER_SIZE):
                answer += received
            assert len(answer) < HEADER_SIZE, "an alert of TLS at most"
        assert node.terminate().status == 0


def test_without_files_clients_are_served_in_the_clear() -> None:
    assert client_tls(None, None) is None


def test_half_a_pair_is_misuse(pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    for half in ((certificate, None), (None, key)):
        with pytest.raises(CommandFailed, match="give both"):
            client_tls(*half)


def test_a_file_that_is_not_there_is_named(pair: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"absent\.key: No such file"):
        client_tls(pair[0], tmp_path / "absent.key")


def test_files_that_are_no_pair_are_refused(pair: tuple[Path, Path]) -> None:
    certificate, key = pair
    for wrong in ((key, certificate), (certificate, certificate)):
        with pytest.raises(CommandFailed, match="no PEM certificate with its unencrypted PEM key"):
            client_tls(*wrong)
