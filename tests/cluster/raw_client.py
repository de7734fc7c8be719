"""A client made of a blocking socket: every frame is the test's own, and every answer is kept as it came.

It knows just enough of the protocol (wire 1, 4, 9) to be exact about bytes; what a frame means is asked with `code`.
"""

import json
import socket
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from levrier.cluster.simulate.frames import EVICTED, NOT_ACCEPTED, NOT_COMMITTED, code, login_frame, request
from levrier.wire.codes import LEVRIER_STATUS, CommandCode, Operation
from levrier.wire.framing import HEADER_SIZE, FrameDecoder
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.streams import CreateStream, DeleteStream, UpdateStream
from levrier.wire.requests.topics import GetTopics
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.streams import StreamDetails, StreamList
from levrier.wire.responses.topics import TopicList

__all__ = ["EVICTED", "NOT_ACCEPTED", "NOT_COMMITTED", "RawClient", "code", "login_frame", "request"]

ANSWER_SECONDS = 60.0
RETRY_SECONDS = 0.01
PIPELINE = 100
_READ = 65536


def create_stream(name: str) -> bytes:
    """A body."""
    return CreateStream(name=name).encode()


def rename_stream(stream: int | str, name: str) -> bytes:
    """A body."""
    return UpdateStream(stream=Identifier(stream), name=name).encode()


def delete_stream(stream: int | str) -> bytes:
    """A body."""
    return DeleteStream(stream=Identifier(stream)).encode()


def created_id(answer: bytes) -> int:
    """The id of the stream that an answer to CreateStream tells."""
    return StreamDetails.decode(answer[HEADER_SIZE + 4 :]).stream.id


@dataclass
class RawClient:
    """One connection. A client id of 0 takes no part in sessions."""

    host: str
    port: int
    client: int = 0xC0FFEE
    epoch: int = 0
    decoder: FrameDecoder = field(default_factory=FrameDecoder)
    frames: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection((self.host, self.port), timeout=ANSWER_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """The next frame. `ConnectionError` when the node closes instead."""
        while not self.frames:
            data = self.socket.recv(_READ)
            if not data:
                raise ConnectionResetError("closed by the node")
            self.frames.extend(self.decoder.feed(data))
        return self.frames.pop(0)

    def is_closed_by_node(self) -> bool:
        """Wait for the end of the connection: True when it comes before the deadline and before any frame."""
        try:
            return self.socket.recv(_READ) == b""
        except ConnectionError:
            return True

    def exchange(self, frame: bytes) -> bytes:
        """Send a frame, and the same again while the answer is 57 or 58; the final answer."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            self.send(frame)
            answer = self.receive()
            if code(answer) not in (NOT_COMMITTED, NOT_ACCEPTED):
                return answer
            assert time.monotonic() < deadline, f"still refused with {code(answer)}"
            time.sleep(RETRY_SECONDS)

    def register(self, *, username: str = "iggy", password: str = "iggy") -> bytes:
        """Log in; the answer. A session is bound when it succeeds."""
        answer = self.exchange(login_frame(self.client, username, password))
        if code(answer) == 0:
            self.epoch = LoginResponse.decode(answer[HEADER_SIZE + 4 :]).session
        return answer

    def frame(self, operation: int, body: bytes, *, number: int) -> bytes:
        """A request of this session."""
        return request(operation, body, client=self.client, session=self.epoch, number=number)

    def call(self, operation: int, body: bytes, *, number: int) -> bytes:
        """A replicated request; its final answer."""
        return self.exchange(self.frame(operation, body, number=number))

    def pipeline(self, operation: int, bodies: list[bytes], *, number: int) -> list[bytes]:
        """Many requests, a batch of them under way at a time; their answers."""
        answers: list[bytes] = []
        for start in range(0, len(bodies), PIPELINE):
            batch = bodies[start : start + PIPELINE]
            self.send(b"".join(self.frame(operation, body, number=number + start + i) for i, body in enumerate(batch)))
            answers.extend(self.receive() for _ in batch)
        return answers

    def query(self, command: int, body: bytes = b"") -> bytes:
        """The body of the answer to a NonReplicated command. AssertionError when it is refused."""
        frame = request(Operation.NON_REPLICATED, body, client=self.client, session=self.epoch, code=command)
        answer = self.exchange(frame)
        assert code(answer) == 0
        return answer[HEADER_SIZE:]

    def status(self) -> dict[str, Any]:
        """What the node says of itself."""
        status: dict[str, Any] = json.loads(self.query(LEVRIER_STATUS))
        return status

    def streams(self) -> list[tuple[int, str]]:
        """Id and name of every stream."""
        listed = StreamList.decode(self.query(CommandCode.GET_STREAMS))
        return [(stream.id, stream.name) for stream in listed.streams]

    def topics(self, stream: int) -> list[str]:
        """The names of a stream's topics."""
        body = GetTopics(stream=Identifier(stream)).encode()
        return [topic.name for topic in TopicList.decode(self.query(CommandCode.GET_TOPICS, body)).topics]

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
