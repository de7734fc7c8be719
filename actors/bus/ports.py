"""The transports as the Bus sees them, and the Bus as the transports see it. Each is real (asyncio) or simulated.

One carries clients, the other one replicas: that one dials as well.
"""

from typing import Protocol


class Sink(Protocol):
    """Told by a real transport what happens on its sockets, in the thread of the Bus actor."""

    def opened(self, connection: int, peer: str) -> None:
        """A connection was accepted. `connection` rises and is never reused; `peer` is `ip:port`."""

    def received(self, connection: int, data: bytes) -> None:
        """Bytes arrived."""

    def closed(self, connection: int) -> None:
        """The connection is gone."""

    def write_resumed(self, connection: int) -> None:
        """What was written has left, after `write` said that too much waits."""


class Transport(Protocol):
    """Moves bytes. Every call about a connection that is gone does nothing."""

    def start(self, sink: Sink) -> None:
        """Begin to accept. Called once, in the thread of the Bus actor."""

    def write(self, connection: int, data: bytes, /) -> bool:
        """Send bytes. False when more than the write limit waits for the peer: `write_resumed` follows once it left."""

    def pause_reading(self, connection: int) -> None:
        """Take no more bytes from the peer."""

    def resume_reading(self, connection: int) -> None:
        """Take bytes again."""

    def close(self, connection: int, /, *, abort: bool) -> None:
        """Close the connection, after what was written has left unless `abort`. `closed` follows."""

    def stop(self) -> None:
        """Accept no more and close every connection. Nothing is told to the sink afterwards."""


class ReplicaSink(Sink, Protocol):
    """Told by a real replica transport what happens; `opened` is a link that was accepted."""

    def dialled(self, link: int, replica: int, peer: str) -> None:
        """A dial succeeded; the link's number is new, as those of `opened` are. `peer` is `ip:port`."""

    def dial_failed(self, replica: int, reason: str) -> None:
        """A dial failed, or took too long."""


class ReplicaTransport(Protocol):
    """Moves bytes between replicas. Every call about a link that is gone does nothing."""

    def start(self, sink: ReplicaSink) -> None:
        """Begin to accept. Called once, in the thread of the Bus actor."""

    def dial(self, replica: int, host: str, port: int) -> None:
        """Connect; the host is resolved now. Exactly one of `dialled` and `dial_failed` follows."""

    def write(self, link: int, data: bytes, /) -> bool:
        """Send bytes. False when more than the write limit waits for the peer: `write_resumed` follows once it left."""

    def close(self, link: int, /, *, abort: bool) -> None:
        """Close the link, after what was written has left unless `abort`. `closed` may follow."""

    def stop(self) -> None:
        """Accept and dial no more and close every link. Nothing is told to the sink afterwards."""
