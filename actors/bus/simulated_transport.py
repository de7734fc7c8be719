"""The simulated transport: clients of a stepped runtime, without sockets.

A client sends bytes, reads frames, stops reading, closes. What the Bus does not want to read yet is held here, as a
kernel's buffer would, and goes on at the client's next action or at `pump`. Numbers rise in the order of the connects.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from levrier.actors.bus import messages as bus
from levrier.actors.bus.ports import Sink
from levrier.actors.runtime import Recipient
from levrier.wire.framing import FrameDecoder

WRITE_HIGH: Final = 256 * 1024


class SimulatedClient:
    """One scripted client. `on_event` is called when the node wrote or closed."""

    def __init__(
        self, transport: "SimulatedTransport", number: int, on_event: Callable[[], object] = lambda: None
    ) -> None:
        self.number = number
        self.on_event = on_event
        self.closed_by_node = False
        self.closed = False
        self.reading = True
        self.read_by_node = True
        self.writes = 0
        self._transport = transport
        self._decoder = FrameDecoder()
        self._frames: deque[bytes] = deque()
        self._unread = bytearray()
        self._unsent: deque[bytes] = deque()
        self._blocked = False

    @property
    def unread(self) -> int:
        """Bytes that the node wrote and this client has not read."""
        return len(self._unread)

    @property
    def unsent(self) -> int:
        """Bytes that the node has not taken."""
        return sum(map(len, self._unsent))

    def send(self, data: bytes) -> None:
        """Send bytes, cut as given."""
        assert not self.closed
        self._unsent.append(data)
        self.pump()

    def pump(self) -> bool:
        """Hand over what the node is ready to read; True when there was something."""
        if not self.read_by_node or not self._unsent or self.closed or self.closed_by_node:
            return False
        self._transport.bus.tell(bus.Received(connection=self.number, data=self._unsent.popleft()))
        return True

    def stop_reading(self) -> None:
        """Leave unread what the node writes."""
        self.reading = False

    def read_on(self) -> None:
        """Read what was left, and everything from now on."""
        self.reading = True
        waiting, self._unread = bytes(self._unread), bytearray()
        self._frames.extend(self._decoder.feed(waiting))
        if self._blocked:
            self._blocked = False
            self._transport.bus.tell(bus.WriteResumed(connection=self.number))

    def close(self) -> None:
        """Close the connection from this side."""
        if not self.closed:
            self.closed = True
            self._transport.forget(self.number)
            self._transport.bus.tell(bus.Closed(connection=self.number))

    def take(self) -> bytes:
        """The oldest frame not taken yet. AssertionError when there is none."""
        assert self._frames, f"client {self.number} was sent nothing"
        return self._frames.popleft()

    def take_all(self) -> list[bytes]:
        """All frames not taken yet."""
        frames = list(self._frames)
        self._frames.clear()
        return frames

    def assert_silent(self) -> None:
        """AssertionError when a frame was not taken."""
        assert not self._frames, f"client {self.number} was sent {len(self._frames)} frames"

    def deliver(self, data: bytes) -> bool:
        """The node writes. False when too much is unread."""
        self.writes += 1
        if self.reading:
            self._frames.extend(self._decoder.feed(data))
            self.on_event()
            return True
        self._unread += data
        self._blocked = len(self._unread) > WRITE_HIGH
        return not self._blocked


class SimulatedTransport:
    """Satisfies `Transport`. `bus` is the address of the Bus actor, which is told of its connections by messages."""

    def __init__(self, *, bus: Recipient[bus.Command]) -> None:
        self.bus = bus
        self._clients: dict[int, SimulatedClient] = {}
        self._highest = 0
        self._listening = False

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._clients)

    def connect(
        self, *, peer: str = "192.0.2.1:50000", on_event: Callable[[], object] = lambda: None
    ) -> SimulatedClient:
        """A new client connects."""
        self._highest += 1
        client = self._clients[self._highest] = SimulatedClient(self, self._highest, on_event)
        self.bus.tell(bus.Opened(connection=client.number, peer=peer))
        return client

    def pump(self) -> bool:
        """Hand over what clients hold and the node is ready to read; True when there was something."""
        pumped = [client.pump() for client in list(self._clients.values())]
        return True in pumped

    def forget(self, connection: int) -> None:
        """The client is gone."""
        self._clients.pop(connection, None)

    # What the Bus calls.

    def start(self, sink: Sink) -> None:  # noqa: ARG002
        """Connections are told to the address, not to the sink."""
        assert not self._listening
        self._listening = True

    def write(self, connection: int, data: bytes) -> bool:
        """Send bytes to the client."""
        client = self._clients.get(connection)
        return client is None or client.deliver(data)

    def pause_reading(self, connection: int) -> None:
        """Take no more from the client."""
        client = self._clients.get(connection)
        if client is not None:
            client.read_by_node = False

    def resume_reading(self, connection: int) -> None:
        """Take from the client again."""
        client = self._clients.get(connection)
        if client is not None:
            client.read_by_node = True

    def close(self, connection: int, *, abort: bool) -> None:  # noqa: ARG002
        """Close the client's connection."""
        client = self._clients.pop(connection, None)
        if client is not None:
            client.closed_by_node = True
            client.on_event()

    def stop(self) -> None:
        """Close every connection."""
        for connection in list(self._clients):
            self.close(connection, abort=True)
