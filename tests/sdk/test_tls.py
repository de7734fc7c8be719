"""The official SDK over TLS, against a node that serves nothing else (wire 1)."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_iggy import IggyClient, TcpConfig, TcpReconnectionConfig

from levrier.cluster.address import Address
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.node import Node
from tests.actors.bus import tls_identity
from tests.sdk.running import run


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Its address, and the file of the authority to trust."""
    certificate, key = tmp_path / "node.pem", tmp_path / "node.key"
    certificate.write_text(tls_identity.CERTIFICATE)
    key.write_text(tls_identity.KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    node = Node(
        NodeConfig(data=tmp_path / "data", listen=Address(port=0), root=RootUser()),
        client_tls=context,
    )
    yield str(node.address), str(certificate)
    node.stop()


def client_of(address: str, authority: str) -> IggyClient:
    """An SDK client that trusts that authority."""
    return IggyClient(
        TcpConfig(
            server_address=address,
            reconnection=TcpReconnectionConfig(enabled=False),
            tls_enabled=True,
            tls_domain="localhost",
            tls_ca_file=authority,
            tls_validate_certificate=True,
        )
    )


def test_the_sdk_works_over_tls(secure: tuple[str, str]) -> None:
    """Login, a write, a read of it."""

    async def body() -> None:
        client = client_of(*secure)
        await client.connect()
        await client.login_user("iggy", "iggy")
        await client.create_stream("over-tls")
        assert await client.get_stream("over-tls") is not None
        await client.logout_user()

    run(body)
