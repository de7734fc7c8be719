"""The sealed headers by which a backup has the primary log a Register or a Logout (wire specification 4.15)."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from levrier.wire.control import ControlHeader, Layout
from levrier.wire.errors import WireError


class RegisterOutcome(IntEnum):
    """What became of a forwarded Register. Only `CLIENT_ID_OWNED_BY_ANOTHER_USER` is final."""

    OK = 0
    NOT_PRIMARY = 1
    NOT_CAUGHT_UP = 2
    PIPELINE_FULL = 3
    IN_PROGRESS = 4
    CANCELED = 5
    CLIENT_ID_OWNED_BY_ANOTHER_USER = 6


class LogoutOutcome(IntEnum):
    """What became of a forwarded Logout."""

    OK = 0
    NOT_PRIMARY = 1
    PIPELINE_FULL = 2
    IN_PROGRESS = 3
    CANCELED = 4


def _check_pair(client: int, nonce: int) -> None:
    if client == 0:
        raise WireError("zero is not a client id", "client")
    if nonce == 0:
        raise WireError("zero is not a nonce", "nonce")


def _check_outcome(outcome: int, last: int, *values: int) -> None:
    if outcome > last:
        raise WireError(f"{outcome} is not an outcome", "outcome")
    if outcome and any(values):
        raise WireError("a value beside a failure", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardRegisterHeader(ControlHeader):
    """A user that the sender has authenticated wants a session."""

    COMMANDS: ClassVar = (26,)
    LAYOUT: ClassVar = Layout(("client", "u128"), ("nonce", "u128"), ("user_id", "u32"), ("reserved", 92))
    RESERVED_CHECKED: ClassVar = True

    client: int
    nonce: int
    user_id: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """Neither client nor nonce is 0."""
        del body_size
        _check_pair(self.client, self.nonce)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardRegisterResultHeader(ControlHeader):
    """The answer to a forwarded Register; `epoch` and `watermark` only with outcome Ok."""

    COMMANDS: ClassVar = (27,)
    LAYOUT: ClassVar = Layout(
        ("nonce", "u128"),
        ("client", "u128"),
        ("epoch", "u64"),
        ("watermark", "u64"),
        ("reserved", 79),
        ("outcome", "u8"),
    )
    RESERVED_CHECKED: ClassVar = True

    nonce: int
    client: int
    outcome: int
    epoch: int = 0
    watermark: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """A known outcome, and values only with Ok."""
        del body_size
        _check_pair(self.client, self.nonce)
        _check_outcome(self.outcome, 6, self.epoch, self.watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLogoutHeader(ControlHeader):
    """A client of the sender ends its session."""

    COMMANDS: ClassVar = (28,)
    LAYOUT: ClassVar = Layout(
        ("client", "u128"), ("nonce", "u128"), ("session", "u64"), ("request", "u64"), ("reserved", 80)
    )
    RESERVED_CHECKED: ClassVar = True

    client: int
    nonce: int
    session: int
    request: int
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """None of the four is 0."""
        del body_size
        _check_pair(self.client, self.nonce)
        if self.session == 0 or self.request == 0:
            raise WireError("zero in a Logout", "session")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardLogoutResultHeader(ControlHeader):
    """The answer to a forwarded Logout; `commit` only with outcome Ok."""

    COMMANDS: ClassVar = (29,)
    LAYOUT: ClassVar = Layout(
        ("nonce", "u128"), ("client", "u128"), ("commit", "u64"), ("reserved", 87), ("outcome", "u8")
    )
    RESERVED_CHECKED: ClassVar = True

    nonce: int
    client: int
    outcome: int
    commit: int = 0
    cluster: int = 0
    view: int = 0
    release: int = 0
    replica: int = 0

    def validate(self, body_size: int) -> None:
        """A known outcome, and a value only with Ok."""
        del body_size
        _check_pair(self.client, self.nonce)
        _check_outcome(self.outcome, 4, self.commit)
