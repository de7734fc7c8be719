"""The settings of a node: what is allowed, and how a refusal names it."""

from typing import Any

import pytest

from levrier.cluster.address import Address
from levrier.cluster.config import NodeConfig, RootUser
from levrier.cluster.refused import ConfigError


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("127.0.0.1:8090", "127.0.0.1", 8090, "127.0.0.1:8090"),
        (":0", "127.0.0.1", 0, "127.0.0.1:0"),
        ("0.0.0.0:65535", "0.0.0.0", 65535, "0.0.0.0:65535"),
        ("[::1]:8090", "::1", 8090, "[::1]:8090"),
        ("node-1.example:1", "node-1.example", 1, "node-1.example:1"),
    ],
)
def test_an_address(text: str, host: str, port: int, shown: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, str(address)) == (host, port, shown)
    assert Address.parse(shown) == address


@pytest.mark.parametrize(
    "text", ["", "8090", "localhost", "localhost:", "localhost:http", "localhost:-1", "h:1.5", "h:²"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT is expected"):
        Address.parse(text)


def test_a_port_has_16_bits() -> None:
    with pytest.raises(ConfigError, match="port 65536: 0 to 65535"):
        Address.parse("localhost:65536")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.example.org", False),
        ("localhost.example.org", False),
    ],
)
def test_who_reaches_an_address(host: str, loopback: bool) -> None:
    assert Address(host=host).is_loopback is loopback


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"prepare_queue_depth": 0}, "prepare_queue_depth 0: 1 to 127"),
        ({"prepare_queue_depth": 128}, "prepare_queue_depth 128: 1 to 127"),
        ({"journal_slots": 255}, "journal_slots 255: 256 to 1048576"),
        ({"journal_slots": 400, "prepare_queue_depth": 127}, "journal_slots 400: 508 to 1048576"),
        ({"journal_slots": (1 << 20) + 1}, "journal_slots 1048577: 256 to 1048576"),
        ({"clients_table_max": 1}, "clients_table_max 1: 2 to 65536"),
        ({"clients_table_max": 65_537}, "clients_table_max 65537: 2 to 65536"),
        ({"replica_count": 0}, "replica_count 0: 1 to 32"),
        ({"replica_count": 33}, "replica_count 33: 1 to 32"),
        ({"replica": 1}, "replica 1: 0 to 0"),
        ({"replica": 3, "replica_count": 3}, "replica 3: 0 to 2"),
        ({"replica": -1}, "replica -1: 0 to 0"),
    ],
    ids=repr,
)
def test_a_limit_that_is_passed_is_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        NodeConfig(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"prepare_queue_depth": 1},
        {"prepare_queue_depth": 127},
        {"journal_slots": 256},
        {"journal_slots": 1 << 20},
        {"clients_table_max": 2},
        {"clients_table_max": 65_536},
        {"replica": 31, "replica_count": 32},
    ],
    ids=repr,
)
def test_limits_themselves_are_allowed(settings: dict[str, Any]) -> None:
    config = NodeConfig(**settings)
    assert {name: getattr(config, name) for name in settings} == settings


def test_the_cluster_id_is_that_of_its_name() -> None:
    """The first 16 bytes of BLAKE3, little-endian (wire 6.1); these are the digests that the b3sum tool prints."""
    assert NodeConfig(cluster_name="").cluster_id.to_bytes(16, "little").hex() == "af1349b9f5f9a1a6a0404dea36dcc949"
    assert NodeConfig(cluster_name="abc").cluster_id.to_bytes(16, "little").hex() == "6437b3ac38465133ffb63b75273a8db5"


@pytest.mark.parametrize(
    ("username", "password", "said"),
    [
        ("ab", "secret", "root user name 'ab': 3 to 50 bytes"),
        ("a" * 51, "secret", "3 to 50 bytes"),
        ("é" * 26, "secret", "3 to 50 bytes"),
        ("root", "pw", "root password: 3 to 100 bytes"),
        ("root", "p" * 101, "root password: 3 to 100 bytes"),
    ],
)
def test_a_root_user_that_no_login_could_name(username: str, password: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RootUser(username=username, password=password)


def test_a_root_password_is_shown_nowhere() -> None:
    """D-20."""
    config = NodeConfig(root=RootUser(username="root", password="marker-password"))
    assert "marker-password" not in repr(config)
    with pytest.raises(ConfigError) as refused:
        RootUser(username="root", password="marker-password" * 9)
    assert "marker-password" not in str(refused.value)
