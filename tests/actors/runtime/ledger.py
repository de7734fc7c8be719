"""A small bank that runs in every arrangement: savers tell the bank, the bank the book, the book writes in batches."""

from __future__ import annotations

from dataclasses import dataclass

from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime

SAVERS = ("ann", "bob", "cid")
ACTORS = (*SAVERS, "bank", "book", "audit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    deposits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deposit:
    saver: str
    number: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    lines: tuple[Deposit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    saver: str
    numbers: tuple[int, ...]
    balance: int


class Saver(NodeActor):
    """Deposits in pairs: two at once, the next two when both are confirmed."""

    def __init__(self, *, name: str, runtime: Runtime, bank: Recipient[Deposit]) -> None:
        super().__init__(name=name, runtime=runtime)
        self._bank = bank
        self._left = 0
        self._number = 0
        self._handlers = Handlers(Begin | Confirmed)
        self._handlers.on(Begin, self._on_begin)
        self._handlers.on(Confirmed, self._on_confirmed)
        self._handlers.seal()

    def receive(self, message: object) -> None:
        self._handlers.dispatch(message)

    def _on_begin(self, message: Begin) -> None:
        self._left = message.deposits
        self._deposit_pair()

    def _on_confirmed(self, message: Confirmed) -> None:
        if message.number == self._number:
            self._deposit_pair()

    def _deposit_pair(self) -> None:
        for _ in range(min(2, self._left)):
            self._left -= 1
            self._number += 1
            self._bank.tell(Deposit(saver=self.name, number=self._number, amount=self._number))


class Bank(NodeActor):
    """Has the book write each deposit; confirms what is written; states an account when it has `deposits` of them."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        book: Recipient[Deposit],
        audit: Recipient[Statement],
        savers: dict[str, Recipient[Confirmed]],
        deposits: int,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._book = book
        self._audit = audit
        self._savers = savers
        self._deposits = deposits
        self._numbers: dict[str, list[int]] = {saver: [] for saver in savers}
        self._handlers = Handlers(Deposit | Written)
        self._handlers.on(Deposit, book.tell)
        self._handlers.on(Written, self._on_written)
        self._handlers.seal()

    def receive(self, message: object) -> None:
        self._handlers.dispatch(message)

    def _on_written(self, message: Written) -> None:
        for line in message.lines:
            numbers = self._numbers[line.saver]
            numbers.append(line.number)
            self._savers[line.saver].tell(Confirmed(number=line.number))
            if len(numbers) == self._deposits:
                self._audit.tell(Statement(saver=line.saver, numbers=tuple(numbers), balance=sum(numbers)))


class Book(NodeActor):
    """Writes once for all the deposits of a batch."""

    def __init__(self, *, name: str, runtime: Runtime, bank: Recipient[Written]) -> None:
        super().__init__(name=name, runtime=runtime)
        self._bank = bank
        self._lines: list[Deposit] = []

    def receive(self, message: object) -> None:
        assert isinstance(message, Deposit)
        self._lines.append(message)

    def on_batch_end(self) -> None:
        assert self._lines, "a batch end without a batch"
        self._bank.tell(Written(lines=tuple(self._lines)))
        self._lines.clear()


class Audit(NodeActor):
    """Hands the statements to the outside, in the order of the savers' names once all are there."""

    def __init__(self, *, name: str, runtime: Runtime, outside: Recipient[tuple[Statement, ...]]) -> None:
        super().__init__(name=name, runtime=runtime)
        self._outside = outside
        self._statements: dict[str, Statement] = {}

    def receive(self, message: object) -> None:
        assert isinstance(message, Statement)
        self._statements[message.saver] = message
        if len(self._statements) == len(SAVERS):
            self._outside.tell(tuple(self._statements[saver] for saver in SAVERS))


def open_bank(runtime: Runtime, outside: Recipient[tuple[Statement, ...]], *, deposits: int) -> None:
    """Start the actors, savers first although they tell the bank, and have the savers begin."""
    for saver in SAVERS:
        Saver.start(name=saver, runtime=runtime, bank=runtime.address("bank"))
    Bank.start(
        name="bank",
        runtime=runtime,
        book=runtime.address("book"),
        audit=runtime.address("audit"),
        savers={saver: runtime.address(saver) for saver in SAVERS},
        deposits=deposits,
    )
    Book.start(name="book", runtime=runtime, bank=runtime.address("bank"))
    Audit.start(name="audit", runtime=runtime, outside=outside)
    for saver in SAVERS:
        runtime.address(saver).tell(Begin(deposits=deposits))


def expected(*, deposits: int) -> tuple[Statement, ...]:
    """What the audit must find, in every arrangement."""
    numbers = tuple(range(1, deposits + 1))
    return tuple(Statement(saver=saver, numbers=numbers, balance=sum(numbers)) for saver in SAVERS)
