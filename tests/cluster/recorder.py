"""A client that keeps the bytes of every answer, to ask for them again under the same numbers after a crash."""

from dataclasses import dataclass, field
from random import Random

from levrier.wire.codes import ErrorCode, Operation
from tests.cluster.raw_client import RawClient, code, create_stream, created_id, delete_stream, rename_stream

REPLAYABLE = 3
"""Answers of one session that a killed node certainly still has: its ring holds five, one is the login's, and one may be
that of the request that was under way."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, by its number."""

    number: int
    operation: int
    body: bytes


@dataclass
class Recorder:
    """One client id over any number of connections. `streams` is what its answered requests made of its own streams."""

    random: Random
    client: int
    prefix: str = "recorded"
    answers: list[tuple[Asked, bytes]] = field(default_factory=list)
    under_way: Asked | None = None
    streams: dict[int, str] = field(default_factory=dict)
    number: int = 0

    def load(self, host: str, port: int) -> None:
        """Log in and ask for one thing after the other, until the connection breaks.

        The connection before this one was closed while the node ran. The fence that it left holds the last answer only.
        """
        del self.answers[:-1]
        try:
            with RawClient(host, port, client=self.client) as connection:
                assert code(connection.register()) == 0
                while True:
                    self.ask(connection)
        except OSError:
            return

    def ask(self, connection: RawClient) -> None:
        """One request."""
        asked = self.next()
        self.answered(connection.call(asked.operation, asked.body, number=asked.number))

    def next(self) -> Asked:
        """The next request; it is under way until it is answered."""
        assert self.under_way is None
        self.number += 1
        self.under_way = self._draw(self.number)
        return self.under_way

    def replay(self, connection: RawClient, *, checkpointed: bool = False) -> None:
        """Ask again, in a new session of the same client id, for what was answered and for what was not.

        AssertionError unless every answer has the same bytes as the first time, and nothing is executed by asking twice.
        `checkpointed`: the node may have started from a snapshot, which keeps a client's very last answer only; whatever
        is older may be told to be applied already, code 59.
        """
        before = connection.status()["op"]
        kept = 1 if self.under_way is None else 0
        for age, (asked, answer) in enumerate(reversed(self.answers[-REPLAYABLE:])):
            again = connection.call(asked.operation, asked.body, number=asked.number)
            forgotten = checkpointed and age >= kept and code(again) == ErrorCode.REQUEST_ALREADY_APPLIED
            assert again == answer or forgotten, f"request {asked.number} is answered otherwise"
        assert connection.status()["op"] == before, "a replay was executed"
        if self.under_way is not None:
            asked = self.under_way
            self.answered(connection.call(asked.operation, asked.body, number=asked.number))
            settled = connection.status()["op"]
            assert connection.call(asked.operation, asked.body, number=asked.number) == self.answers[-1][1]
            assert connection.status()["op"] == settled <= before + 1

    def answered(self, answer: bytes) -> None:
        """The answer of the request that is under way. AssertionError when it is a refusal: names are never reused."""
        asked = self.under_way
        assert asked is not None
        assert code(answer) == 0, f"request {asked.number} is refused with {code(answer)}"
        self.under_way = None
        self.answers.append((asked, answer))
        del self.answers[:-REPLAYABLE]
        if asked.operation == Operation.CREATE_STREAM:
            self.streams[created_id(answer)] = self._name(asked.number)
        elif asked.operation == Operation.UPDATE_STREAM:
            self.streams[self._target] = self._name(asked.number)
        else:
            del self.streams[self._target]

    def _draw(self, number: int) -> Asked:
        if self.streams:
            self._target = self.random.choice(list(self.streams))
            draw = self.random.random()
            if draw < 0.4:
                return Asked(number, Operation.UPDATE_STREAM, rename_stream(self._target, self._name(number)))
            if draw < 0.6:
                return Asked(number, Operation.DELETE_STREAM, delete_stream(self._target))
        return Asked(number, Operation.CREATE_STREAM, create_stream(self._name(number)))

    def _name(self, number: int) -> str:
        return f"{self.prefix}-{number}"
