"""What a replica says that it has durably applied, and the body of the frame that says so (acknowledgements 1 and 4).

Body of command 64 (`ExtensionHeader`, decision D-34), under `checksum_body`: one msgpack array of six, positional.

    0  replica_id                  str
    1  node_id                     str
    2  applied_frontier            array of [origin uint, position uint > 0], ascending by origin
    3  origin_sequence_high_water  array of [origin uint, identity uint > 0], ascending by origin
    4  membership_view             array of str
    5  produced_at_ms              uint

An origin is the replica that prepared an op. The store on disk keeps the same array for each replica.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgpack

from levrier.wire.errors import WireError

COMMAND: Final = 64
BODY_SIZE_MAX: Final = 64 * 1024
ORIGINS_MAX: Final = 256
VIEW_MAX: Final = 256
TEXT_SIZE_MAX: Final = 255
"""Bytes of an identity or of a node's name."""

_FIELD_COUNT: Final = 6
_U64: Final = 1 << 64

assert ORIGINS_MAX * 2 * 13 + VIEW_MAX < BODY_SIZE_MAX


@dataclass(frozen=True, slots=True)
class Frontier:
    """A vector clock: origin and position, ascending by origin; an origin that is not there stands at 0."""

    positions: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        reason = _reason(self.positions)
        assert reason is None, reason

    @classmethod
    def of(cls, positions: Mapping[int, int]) -> "Frontier":
        """From a mapping in any order; positions of 0 are left out."""
        return cls(tuple([pair for pair in sorted(positions.items()) if pair[1]]))

    def at(self, origin: int) -> int:
        """The position of that origin, 0 if it is not there."""
        for known, position in self.positions:
            if known == origin:
                return position
        return 0

    def dominates(self, other: "Frontier") -> bool:
        """Whether this one stands at or beyond the other for every origin; equal ones dominate each other."""
        own = dict(self.positions)
        return all(own.get(origin, 0) >= position for origin, position in other.positions)

    @property
    def highest(self) -> int:
        """The highest position of any origin, 0 when there is none.

        Positions are ops of one log and every frontier is that of a prefix, so this is the prefix.
        """
        return max([position for _, position in self.positions], default=0)


def least(frontiers: Iterable[Frontier]) -> Frontier:
    """The minimum for each origin; an origin that one of them lacks is left out. Of none at all: nothing."""
    common: dict[int, int] | None = None
    for frontier in frontiers:
        if common is None:
            common = dict(frontier.positions)
        else:
            own = dict(frontier.positions)
            common = {origin: min(position, own[origin]) for origin, position in common.items() if origin in own}
    return Frontier.of(common or {})


def replica_id(cluster: int, replica: int) -> str:
    """The identity under which a replica speaks: cluster and index, never an address. Sorts in the order of the indexes."""
    return f"{cluster:032x}-{replica:02d}"


def replica_of(identity: str, cluster: int) -> int | None:
    """The index of a replica of that cluster; None for any other identity."""
    index = identity.rpartition("-")[2]
    if not (index.isascii() and index.isdigit()) or identity != replica_id(cluster, int(index)):
        return None
    return int(index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """`replica_id` has durably applied everything that `applied_frontier` represents.

    `origin_sequence_high_water` is the highest identity committed for each origin, `membership_view` every replica that
    the speaker's membership names. `produced_at_ms` is for people and decides nothing.
    """

    replica_id: str
    node_id: str
    applied_frontier: Frontier
    origin_sequence_high_water: Frontier
    membership_view: tuple[str, ...]
    produced_at_ms: int

    def values(self) -> list[object]:
        """The six fields, as msgpack takes them."""
        return [
            self.replica_id,
            self.node_id,
            self.applied_frontier.positions,
            self.origin_sequence_high_water.positions,
            self.membership_view,
            self.produced_at_ms,
        ]

    def encode(self) -> bytes:
        """The body."""
        body: bytes = msgpack.packb(self.values())
        assert len(body) <= BODY_SIZE_MAX
        return body

    @classmethod
    def decode(cls, body: bytes) -> "Acknowledgement":
        """Read a body. Raises `WireError` for anything that `encode` does not make."""
        if len(body) > BODY_SIZE_MAX:
            raise WireError(f"{len(body)} bytes, at most {BODY_SIZE_MAX} are allowed", "acknowledgement")
        try:
            values = msgpack.unpackb(body, raw=False, use_list=False, strict_map_key=True)
        except (ValueError, msgpack.UnpackException) as error:
            raise WireError(f"no msgpack: {error}", "acknowledgement") from error
        return cls.from_values(values)

    @classmethod
    def from_values(cls, values: object) -> "Acknowledgement":
        """The six decoded fields; arrays are tuples. Raises `WireError`."""
        if not isinstance(values, tuple) or len(values) != _FIELD_COUNT:
            raise WireError(f"no array of {_FIELD_COUNT}", "acknowledgement")
        view = values[4]
        if not isinstance(view, tuple) or len(view) > VIEW_MAX:
            raise WireError(f"no array of at most {VIEW_MAX}", "membership_view")
        return cls(
            replica_id=_text(values[0], "replica_id"),
            node_id=_text(values[1], "node_id"),
            applied_frontier=_frontier(values[2], "applied_frontier"),
            origin_sequence_high_water=_frontier(values[3], "origin_sequence_high_water"),
            membership_view=tuple([_text(each, "membership_view") for each in view]),
            produced_at_ms=_unsigned(values[5], "produced_at_ms"),
        )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode()) <= TEXT_SIZE_MAX:
        raise WireError(f"no text of 1 to {TEXT_SIZE_MAX} bytes", name)
    return value


def _unsigned(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _U64:
        raise WireError("no unsigned integer of 64 bits", name)
    return value


def _frontier(value: object, name: str) -> Frontier:
    if not isinstance(value, tuple):
        raise WireError("no array", name)
    pairs = []
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise WireError("no array of pairs", name)
        pairs.append((_unsigned(pair[0], name), _unsigned(pair[1], name)))
    reason = _reason(tuple(pairs))
    if reason is not None:
        raise WireError(reason, name)
    return Frontier(tuple(pairs))


def _reason(positions: tuple[tuple[int, int], ...]) -> str | None:
    """Why this is no frontier."""
    if len(positions) > ORIGINS_MAX:
        return f"{len(positions)} origins, at most {ORIGINS_MAX} are possible"
    before = -1
    for origin, position in positions:
        if origin <= before:
            return f"origin {origin} behind {before}"
        if position <= 0:
            return f"origin {origin} at {position}"
        before = origin
    return None
