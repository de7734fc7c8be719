"""What a node is told before it starts: identity, addresses, limits.

A plain value: reading files and the environment is the command line's work. Every limit is checked once, here, and a wrong
one is refused with its name, the value and what is allowed.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from blake3 import blake3

from levrier.wire.framing import FRAME_SIZE_MAX

METADATA_GROUP = 1 << 63
"""Group id of the metadata log (wire 6.1)."""

USERNAME_BYTES = range(3, 51)
PASSWORD_BYTES = range(3, 101)
PREPARE_DEPTH = range(1, 128)
JOURNAL_SLOTS_MAX = 1 << 20
CLIENTS_TABLE = range(2, 65_537)
CHECKPOINT_MARGIN_MIN = 64


class ConfigError(ValueError):
    """A setting that cannot be used; the message says which, what it is and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootUser:
    """Name and password of the user that a blank cluster is born with (D-01)."""

    username: str = "iggy"
    password: str = field(default="iggy", repr=False)

    def __post_init__(self) -> None:
        if len(self.username.encode()) not in USERNAME_BYTES:
            raise ConfigError(f"root user name {self.username!r}: 3 to 50 bytes are allowed")
        if len(self.password.encode()) not in PASSWORD_BYTES:
            raise ConfigError("root password: 3 to 100 bytes are allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen. Port 0 lets the system choose; the node tells what it got."""

    host: str = "127.0.0.1"
    port: int = 8090

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ConfigError(f"port {self.port}: 0 to 65535 are allowed")

    @classmethod
    def parse(cls, text: str) -> "Address":
        """`HOST:PORT`, `[V6]:PORT` or `:PORT`."""
        host, colon, port = text.rpartition(":")
        if not colon or not (port.isascii() and port.isdigit()):
            raise ConfigError(f"address {text!r}: HOST:PORT is expected, for example 127.0.0.1:8090")
        return cls(host=host.strip("[]") or "127.0.0.1", port=int(port))

    @property
    def is_loopback(self) -> bool:
        """Only programs on this machine reach it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False  # A name that may stand for any address.

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node. Defaults are those of `levrier serve` without arguments.

    `root` is None when nobody configured it: a node that only this machine reaches then starts with `iggy` / `iggy`, any
    other one refuses to start a blank cluster (D-01).
    """

    data: Path = Path("levrier-data")
    listen: Address = Address()
    root: RootUser | None = None
    cluster_name: str = "single-node"
    node_name: str = "levrier-node"
    replica: int = 0
    replica_count: int = 1
    prepare_queue_depth: int = 32
    journal_slots: int = 16_384
    clients_table_max: int = 8_192
    connections_max: int = 4_096
    max_tokens_per_user: int = 100
    frame_size_max: int = FRAME_SIZE_MAX
    arrangement: tuple[tuple[str, str], ...] = (
        ("bus", "io"),
        ("client_table", "core"),
        ("consensus", "core"),
        ("metadata", "core"),
        ("journal", "journal"),
        ("superblock", "superblock"),
        ("checkpoint", "checkpoint"),
    )

    def __post_init__(self) -> None:
        if self.prepare_queue_depth not in PREPARE_DEPTH:
            raise ConfigError(f"prepare_queue_depth {self.prepare_queue_depth}: 1 to 127 are allowed")
        least = 4 * max(CHECKPOINT_MARGIN_MIN, self.prepare_queue_depth)
        if not least <= self.journal_slots <= JOURNAL_SLOTS_MAX:
            raise ConfigError(f"journal_slots {self.journal_slots}: {least} to {JOURNAL_SLOTS_MAX} are allowed")
        if self.clients_table_max not in CLIENTS_TABLE:
            raise ConfigError(f"clients_table_max {self.clients_table_max}: 2 to 65536 are allowed")
        if self.max_tokens_per_user < 1:
            raise ConfigError(f"max_tokens_per_user {self.max_tokens_per_user}: 1 or more are allowed")
        if not 1 <= self.replica_count <= 32:
            raise ConfigError(f"replica_count {self.replica_count}: 1 to 32 are allowed")
        if not 0 <= self.replica < self.replica_count:
            raise ConfigError(f"replica {self.replica}: 0 to {self.replica_count - 1} are allowed")

    @property
    def cluster_id(self) -> int:
        """First 16 bytes of BLAKE3 of the cluster name, little-endian (wire 6.1)."""
        return int.from_bytes(blake3(self.cluster_name.encode()).digest()[:16], "little")
