"""What StateTransfer is given by the wiring: who it is, and how the parts of a state are read and judged."""

from dataclasses import dataclass
from typing import Protocol

from levrier.persistence.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferIdentity:
    """Stamped on every frame."""

    cluster: int
    group: int
    replica: int


class StateCodec(Protocol):
    """Knows the layouts of state machine and client table, which are not StateTransfer's."""

    def table_artifact(self, section: object) -> bytes:
        """The client-table section of a snapshot in its transfer encoding (client-table 10). Raises `WireError`."""
        ...

    def check(self, snapshot: Snapshot, table: bytes) -> None:
        """Raise `WireError` unless every part of both could be installed."""
        ...
