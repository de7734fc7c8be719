"""The body of a MemberState frame (command 65, decision D-34): what members tell each other of themselves.

A msgpack array that begins with the kind. 128-bit numbers are 16 bytes, little-endian (D-35).

    [0, phase, birth id, voter, replica count, admits]     Hello: who I am; `admits`: I have heard who you are
    [1, nonce]                                             Ask: of a learner
    [2, nonce, view, is primary, op, checksum]             Answer: of a voter; its head counts when it is the primary
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

import msgpack

from levrier.wire.errors import WireError

COMMAND: Final = 65
BODY_SIZE_MAX: Final = 256
_U64: Final = 1 << 64


class MemberPhase(IntEnum):
    """How far the birth got on a member."""

    BLANK = 0
    PREPARED = 1
    BORN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Who the sender durably is. `birth_id` is 0 exactly while it is blank."""

    phase: MemberPhase
    birth_id: int
    voter: bool
    replica_count: int
    admits: bool

    def encode(self) -> bytes:
        """The body."""
        return _pack([0, int(self.phase), _u128(self.birth_id), self.voter, self.replica_count, self.admits])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A learner wants to know what it may have promised."""

    nonce: int

    def encode(self) -> bytes:
        """The body."""
        return _pack([1, _u128(self.nonce)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a voter knows: its view and, where it is the primary of that view, the durable head of its log."""

    nonce: int
    view: int
    is_primary: bool
    op: int
    checksum: int

    def encode(self) -> bytes:
        """The body."""
        return _pack([2, _u128(self.nonce), self.view, self.is_primary, self.op, _u128(self.checksum)])


MemberState: TypeAlias = Hello | Ask | Answer


def decode(body: bytes) -> MemberState:
    """Read a body. Raises `WireError` for anything that `encode` does not make."""
    if len(body) > BODY_SIZE_MAX:
        raise WireError(f"{len(body)} bytes, at most {BODY_SIZE_MAX} are expected", "member_state")
    try:
        values = msgpack.unpackb(body, raw=False, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise WireError(f"no msgpack: {error}", "member_state") from error
    if not isinstance(values, list) or not values:
        raise WireError("no array", "member_state")
    match values:
        case [0, int(phase), bytes(birth_id), bool(voter), int(replica_count), bool(admits)]:
            return _hello(phase, birth_id, voter, replica_count, admits)
        case [1, bytes(nonce)]:
            return Ask(nonce=_number(nonce))
        case [2, bytes(nonce), int(view), bool(is_primary), int(op), bytes(checksum)]:
            if not (0 <= view < 1 << 32 and 0 <= op < _U64):
                raise WireError(f"view {view}, op {op}", "member_state")
            return Answer(nonce=_number(nonce), view=view, is_primary=is_primary, op=op, checksum=_number(checksum))
        case _:
            raise WireError("no MemberState that is known", "member_state")


def _hello(phase: int, birth_id: bytes, voter: bool, replica_count: int, admits: bool) -> Hello:
    known = _number(birth_id)
    if phase not in _PHASES or (known == 0) != (phase == MemberPhase.BLANK):
        raise WireError(f"phase {phase} with birth id {known:#x}", "member_state")
    return Hello(phase=_PHASES[phase], birth_id=known, voter=voter, replica_count=replica_count, admits=admits)


def _number(value: bytes) -> int:
    if len(value) != 16:
        raise WireError(f"a number of {len(value)} bytes", "member_state")
    return int.from_bytes(value, "little")


def _u128(value: int) -> bytes:
    return value.to_bytes(16, "little")


def _pack(values: list[Any]) -> bytes:
    packed: bytes = msgpack.packb(values)
    return packed


_PHASES: Final = {int(phase): phase for phase in MemberPhase}
