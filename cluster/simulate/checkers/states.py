"""Equal state, equal bytes (D-05): what every replica encodes at the same op, now and then and in the end.

The first replica that encodes an op is compared with the reference model, as far as the model is at that op; every other one
with the first, by a digest of the bytes. The client table takes part unless it came ahead of its snapshot, and without the
numbers of its slots, which are each replica's own (D-17).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgpack

from levrier.cluster.simulate.checkers.commits import CommitObserver
from levrier.cluster.simulate.checkers.model import layout
from levrier.cluster.simulate.checkers.violation import Rule, Violation

CAPTURE_EVERY: Final = 32
"""An op that is a multiple of this is compared in full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedState:
    """The sections of a snapshot as one replica encodes them. `clients` is None where the table is not at that op."""

    op: int
    users: bytes = field(repr=False)
    streams: bytes = field(repr=False)
    consensus_group_high: int
    next_user_id: int
    clients: bytes | None = field(default=None, repr=False)

    def parts(self) -> dict[str, bytes]:
        """What is compared, by name."""
        counters = f"{self.consensus_group_high} {self.next_user_id}".encode()
        return {"users": self.users, "streams": self.streams, "counters": counters}


@dataclass(frozen=True, slots=True)
class _First:
    """Who encoded an op first, and the digests of what."""

    replica: int
    digests: dict[str, bytes]


class StateChecker:
    """Told what replicas encode, in any order. Raises `Violation`."""

    def __init__(self, observer: CommitObserver) -> None:
        self._observer = observer
        self._first: dict[int, _First] = {}

    def encoded(self, replica: int, state: EncodedState) -> None:
        """A replica has encoded its state at an op that it has applied."""
        self._compare(Rule.SAME_DIGEST, replica, state)

    def final_check(self, ends: Mapping[int, EncodedState], acknowledged: Iterable[int]) -> None:
        """Every member in the end: at the newest op, with the same bytes, which are the model's, and nothing lost."""
        highest = self._observer.highest
        for replica, end in sorted(ends.items()):
            if end.op != highest:
                raise Violation(
                    Rule.SAME_STATE, f"replica {replica} ends at op {end.op}, expected {highest} as the others"
                )
            if end.clients is None:
                raise Violation(Rule.SAME_STATE, f"replica {replica} has no client table at op {end.op}")
            self._compare(Rule.SAME_STATE, replica, end)
        lost = sorted(op for op in acknowledged if op > highest)
        if lost:
            raise Violation(
                Rule.NOTHING_LOST, f"ops {lost} were acknowledged, the log of all members ends at {highest}"
            )

    def _compare(self, rule: Rule, replica: int, state: EncodedState) -> None:
        if state.op == self._observer.highest:
            self._compare_with_model(rule, replica, state)
        parts = state.parts()
        if state.clients is not None:
            parts["clients"] = _without_slots(state.clients)
        digests = {name: blake2b(part, digest_size=16).digest() for name, part in parts.items()}
        first = self._first.setdefault(state.op, _First(replica, digests))
        for name, digest in digests.items():
            if first.digests.setdefault(name, digest) != digest:
                raise Violation(
                    rule,
                    f"the {name} of replica {replica} at op {state.op} have digest {digest.hex()}, expected "
                    f"{first.digests[name].hex()} as those of replica {first.replica} ({len(parts[name])} bytes)",
                )

    def _compare_with_model(self, rule: Rule, replica: int, state: EncodedState) -> None:
        users, streams, *counters = layout.sections(self._observer.model)
        found = {
            "users": msgpack.unpackb(state.users),
            "streams": msgpack.unpackb(state.streams),
            "counters": [state.consensus_group_high, state.next_user_id],
        }
        for name, wanted in {"users": users, "streams": streams, "counters": counters}.items():
            if found[name] != wanted:
                raise Violation(
                    rule, f"the {name} of replica {replica} at op {state.op} are {found[name]}, the model has {wanted}"
                )


def _without_slots(clients: bytes) -> bytes:
    """The sessions in the order of their clients, and the fences, oldest first."""
    slots, fences = msgpack.unpackb(clients)
    packed: bytes = msgpack.packb([sorted(fields for _, fields in slots), fences])
    return packed
