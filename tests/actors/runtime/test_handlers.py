"""The sealed table: complete, exact, or the actor does not start."""

from dataclasses import dataclass

import pytest

from levrier.actors.runtime import Handlers


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    client: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    number: int


class LateReturn(Return):
    pass


def ignore(_message: object) -> None:
    pass


def test_each_message_goes_to_the_handler_of_its_type() -> None:
    taken: list[Take] = []
    returned: list[Return] = []
    handlers = Handlers(Take | Return)
    handlers.on(Take, taken.append)
    handlers.on(Return, returned.append)
    handlers.seal()

    handlers.dispatch(Take(client=1))
    handlers.dispatch(Return(number=2))

    assert (taken, returned) == ([Take(client=1)], [Return(number=2)])


def test_a_protocol_may_be_one_class() -> None:
    taken: list[Take] = []
    handlers = Handlers(Take)
    handlers.on(Take, taken.append)
    handlers.seal()

    handlers.dispatch(Take(client=1))

    assert taken == [Take(client=1)]


def test_a_missing_handler_is_named_when_the_table_is_sealed() -> None:
    handlers = Handlers(Take | Return)
    handlers.on(Take, ignore)

    with pytest.raises(AssertionError, match="no handler for Return"):
        handlers.seal()


def test_a_surplus_handler_is_named_when_the_table_is_sealed() -> None:
    handlers = Handlers(Take)
    handlers.on(Take, ignore)
    handlers.on(Return, ignore)

    with pytest.raises(AssertionError, match="outside the protocol: Return"):
        handlers.seal()


def test_a_type_has_one_handler() -> None:
    handlers = Handlers(Take)
    handlers.on(Take, ignore)

    with pytest.raises(AssertionError, match="Take has two handlers"):
        handlers.on(Take, ignore)


def test_a_sealed_table_takes_no_more_handlers() -> None:
    handlers = Handlers(Take)
    handlers.on(Take, ignore)
    handlers.seal()

    with pytest.raises(AssertionError, match="sealed"):
        handlers.on(Return, ignore)


@pytest.mark.parametrize("message", [LateReturn(number=1), "Return", None], ids=["subclass", "string", "none"])
def test_a_message_of_another_type_is_our_bug(message: object) -> None:
    handlers = Handlers(Take | Return)
    handlers.on(Take, ignore)
    handlers.on(Return, ignore)
    handlers.seal()

    with pytest.raises(AssertionError, match=f"no handler for {type(message).__name__}"):
        handlers.dispatch(message)


def test_a_key_error_inside_a_handler_stays_a_key_error() -> None:
    table: dict[int, int] = {}
    handlers = Handlers(Take)
    handlers.on(Take, lambda message: ignore(table[message.client]))
    handlers.seal()

    with pytest.raises(KeyError):
        handlers.dispatch(Take(client=7))
