"""Where a node listens or is asked."""

from dataclasses import dataclass
from ipaddress import ip_address

from levrier.cluster.refused import ConfigError


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
