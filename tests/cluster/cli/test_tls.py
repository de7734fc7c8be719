"""`--tls`, `--tls-ca`, `--tls-server-name`: every command that asks, the benchmark, and what is said when TLS fails."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from levrier.cluster.address import Address
from levrier.cluster.cli.output import Exit
from levrier.cluster.client import Client, ClientTls
from levrier.cluster.client_errors import ProtocolViolation, TlsFailed, TlsProblem
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.node import Node
from tests.actors.bus import tls_identity
from tests.cluster.cli.running import CommandLine, Ran


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "node.pem", directory / "node.key"
    certificate.write_text(tls_identity.CERTIFICATE)
    key.write_text(tls_identity.KEY)
    return certificate, key


@pytest.fixture(scope="module")
def secure(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that serves clients over TLS only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    config = NodeConfig(data=tmp_path_factory.mktemp("data") / "node", listen=Address(port=0), root=RootUser())
    node = Node(config, client_tls=context)
    yield node
    node.stop()


@pytest.fixture
def ask(secure: Node, levrier: CommandLine) -> "Asking":
    """Runs a command against that node."""
    return Asking(levrier, secure)


class Asking:
    """The command line with the address of the secure node."""

    def __init__(self, line: CommandLine, node: Node) -> None:
        self.line = line
        self.port = node.address.port

    def __call__(self, *arguments: str, host: str = "localhost") -> Ran:
        """Run it."""
        return self.line(*arguments, "--connect", f"{host}:{self.port}")


def test_every_command_that_asks_reaches_it(ask: Asking, files: tuple[Path, Path]) -> None:
    """--tls-ca alone says that TLS is wanted."""
    trust = ("--tls-ca", str(files[0]))
    assert ask("streams", "create", "over-tls", *trust).status == 0
    listed = ask("streams", "list", *trust, "--json")
    assert "over-tls" in listed.out
    status = ask("status", *trust, "--json")
    assert (status.status, json.loads(status.out)["nodes"][0]["role"]) == (0, "primary")


def test_the_name_on_the_certificate_may_be_given(ask: Asking, files: tuple[Path, Path]) -> None:
    """127.0.0.1 is not what it is for."""
    trust = ("--tls-ca", str(files[0]))
    refused = ask("streams", "list", *trust, host="127.0.0.1")
    assert refused.status == Exit.COULD_NOT_ASK
    assert "another name than 127.0.0.1" in refused.complaint
    assert "--tls-server-name" in refused.complaint
    assert ask("streams", "list", *trust, "--tls-server-name", "localhost", host="127.0.0.1").status == 0


def test_the_environment_may_say_it(ask: Asking, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the other shared options."""
    monkeypatch.setenv("LEVRIER_TLS_CA", str(files[0]))
    assert ask("streams", "list").status == 0


def test_a_certificate_that_nobody_vouches_for_is_refused(ask: Asking) -> None:
    """Nothing is sent, no password either."""
    refused = ask("streams", "list", "--tls")
    assert refused.status == Exit.COULD_NOT_ASK
    assert "not trusted by the authorities of this system" in refused.complaint
    assert refused.complaint.endswith("give the certificate of the authority that signed it with --tls-ca FILE")


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_file_that_does_not_do_is_named(ask: Asking, tmp_path: Path, content: str | None) -> None:
    """Before anybody is asked."""
    authority = tmp_path / "ca.pem"
    if content is not None:
        authority.write_text(content)
    refused = ask("streams", "list", "--tls-ca", str(authority))
    assert refused.status == Exit.COULD_NOT_ASK
    assert str(authority) in refused.complaint


def test_a_node_that_serves_plain_tcp_is_told_from_one_that_is_not_there(
    levrier: CommandLine, files: tuple[Path, Path]
) -> None:
    """It takes the handshake for a broken frame."""
    refused = levrier.ask("streams", "list", "--tls-ca", str(files[0]))
    assert refused.status == Exit.COULD_NOT_ASK
    assert "leave out --tls" in refused.complaint


def test_the_benchmark_loads_it(ask: Asking, files: tuple[Path, Path]) -> None:
    """Observer and load alike."""
    trust = ("--tls-ca", str(files[0]))
    ran = ask("bench", *trust, "--operations", "20", "--streams", "2", "--concurrency", "2", "--json")
    assert ran.status == 0, ran.err
    assert json.loads(ran.out)["errors"] == 0


def test_our_client_resumes_over_tls(secure: Node, files: tuple[Path, Path]) -> None:
    """A reconnect is made as the first connection was."""

    async def body() -> None:
        tls = ClientTls(authority=files[0])
        async with await Client.connect("localhost", secure.address.port, tls=tls) as client:
            await client.login("iggy", "iggy")
            await client.reconnect()
            await client.ping()

    asyncio.run(body())


def test_what_tls_failed_at_is_known_to_a_program(secure: Node) -> None:
    """`problem` says which of the three."""

    async def body() -> None:
        await Client.connect("localhost", secure.address.port, tls=ClientTls())

    with pytest.raises(TlsFailed) as caught:
        asyncio.run(body())
    assert caught.value.problem is TlsProblem.TRUST
    assert not isinstance(caught.value, ProtocolViolation)
