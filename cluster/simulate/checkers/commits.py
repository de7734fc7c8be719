"""Everything that any replica ever applied is one log: the observer of the commit streams.

An op counts as committed when the first replica applies it, live or in the replay of a boot. From then on it must be the same
entry everywhere and for ever, crashes or not. The observer runs the reference model over the log as it grows, so every reply
of every replica is compared with one that was made from the specification alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from levrier.cluster.simulate.checkers.model.machine import Model, Step
from levrier.cluster.simulate.checkers.model.steps import step_of
from levrier.cluster.simulate.checkers.sessions import Sessions
from levrier.cluster.simulate.checkers.violation import Rule, Violation, operation_name
from levrier.wire.errors import WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import PrepareHeader, ReplyHeader
from levrier.wire.prepare import Prepare

_VIEW: Final = slice(52, 56)


@dataclass(frozen=True, slots=True)
class Committed:
    """One op of the committed log. `code` and `reply`, the whole frame, are what the model makes of it."""

    header: PrepareHeader
    body: bytes
    code: int
    reply: bytes
    first_replica: int

    @property
    def op(self) -> int:
        """Its number."""
        return self.header.op


@dataclass(slots=True)
class _Standing:
    """One replica: which life of it, and the last op that it applied."""

    incarnation: int
    op: int


class CommitObserver:
    """Told of every op that a replica applies, of every install and of every boot. Raises `Violation` at once."""

    def __init__(self, replica_count: int) -> None:
        self.log: list[Committed] = []
        self._standings = [_Standing(0, 0) for _ in range(replica_count)]
        self.model = Model()
        self.sessions = Sessions()
        self.before: Callable[[int, Step], object] = lambda _op, _step: None
        """Hears of each op of the log before the model applies it."""

        self.largest = 0
        """The size of the largest entry."""

    @property
    def highest(self) -> int:
        """The highest committed op, 0 before the first."""
        return len(self.log)

    def at(self, op: int) -> Committed | None:
        """The committed entry of an op."""
        return self.log[op - 1] if 1 <= op <= len(self.log) else None

    def applied_op(self, replica: int) -> int:
        """The last op that a replica applied."""
        return self._standings[replica].op

    def applied(self, replica: int, incarnation: int, op: int, prepare: bytes, reply: bytes | None) -> None:
        """A replica applied an entry. `prepare` is its frame, `reply` the reply frame or None where nobody looked."""
        standing = self._standing(replica, incarnation)
        if op != standing.op + 1:
            raise Violation(
                Rule.APPLIED_IN_ORDER,
                f"replica {replica} applies op {op}, expected {standing.op + 1} (incarnation {incarnation})",
            )
        standing.op = op
        committed = self._commit(replica, op, prepare)
        if reply is not None and reply != committed.reply:
            self._bad_reply(replica, committed, reply)

    def installed(self, replica: int, incarnation: int, op: int, *, refill: bool = False) -> None:
        """A state transfer put a replica at this op. `refill`: its state was known to be wrong, so it may go back (D-17)."""
        standing = self._standing(replica, incarnation)
        if op > self.highest:
            raise Violation(
                Rule.COMMITTED_STAYS,
                f"replica {replica} installs op {op}, but nobody has applied more than op {self.highest}",
            )
        if op < standing.op and not refill:
            raise Violation(
                Rule.APPLIED_IN_ORDER, f"replica {replica} is at op {standing.op} and installs op {op} (I14)"
            )
        standing.op = op

    def restarted(self, replica: int, incarnation: int, floor_op: int, replayed: Iterable[bytes] = ()) -> None:
        """A replica has booted and stands at `floor_op`; `replayed` are the frames that the boot applied, in order."""
        before = self._standings[replica]
        if incarnation <= before.incarnation and before.op:
            raise Violation(
                Rule.APPLIED_IN_ORDER,
                f"replica {replica} restarts as incarnation {incarnation} after {before.incarnation}",
            )
        last = None
        for frame in replayed:
            op = PrepareHeader.decode(frame).op
            if last is not None and op != last + 1:
                raise Violation(Rule.APPLIED_IN_ORDER, f"the boot of replica {replica} replays op {op} after op {last}")
            last = op
            self._commit(replica, op, frame)
        if last is not None and last != floor_op:
            raise Violation(
                Rule.APPLIED_IN_ORDER,
                f"the boot of replica {replica} ends at op {floor_op} but replays up to op {last}",
            )
        if floor_op > self.highest:
            raise Violation(
                Rule.COMMITTED_STAYS,
                f"replica {replica} boots at op {floor_op}, but nobody has applied more than op {self.highest}",
            )
        self._standings[replica] = _Standing(incarnation, floor_op)

    def _standing(self, replica: int, incarnation: int) -> _Standing:
        standing = self._standings[replica]
        if incarnation != standing.incarnation:
            raise Violation(
                Rule.APPLIED_IN_ORDER,
                f"incarnation {incarnation} of replica {replica} acts, but {standing.incarnation} is the live one",
            )
        return standing

    def _commit(self, replica: int, op: int, frame: bytes) -> Committed:
        """The committed entry of this op: the one that is known, which must be this very one, or from now on this one."""
        known = self.at(op)
        if known is not None:
            self._check_same(replica, known, frame)
            return known
        if op != self.highest + 1:
            raise Violation(
                Rule.APPLIED_IN_ORDER,
                f"replica {replica} applies op {op}, but nobody has applied more than op {self.highest}",
            )
        return self._extend(replica, op, frame)

    def _check_same(self, replica: int, known: Committed, frame: bytes) -> None:
        header = known.header
        checksum = int.from_bytes(frame[:16], "little")
        if checksum != header.checksum or frame[HEADER_SIZE:] != known.body:
            raise Violation(
                Rule.COMMITTED_STAYS,
                f"replica {replica} applies {checksum:#x} as op {header.op}, "
                f"replica {known.first_replica} applied {header.checksum:#x} ({_named(header)})",
            )

    def _extend(self, replica: int, op: int, frame: bytes) -> Committed:
        try:
            prepare = Prepare.decode(frame)
        except WireError as error:
            raise Violation(
                Rule.HASH_CHAIN, f"replica {replica} applies a damaged entry as op {op}: {error}"
            ) from error
        header = prepare.header
        previous = self.log[-1].header if self.log else None
        self._check_chain(replica, op, header, previous)
        step = step_of(header, prepare.body)
        self.before(op, step)
        self.largest = max(self.largest, len(frame))
        outcome = self.model.apply(step)
        self.sessions.commit(header, outcome.dropped_users)
        committed = Committed(header, prepare.body, outcome.code, reply_frame(header, outcome.body), replica)
        self.log.append(committed)
        return committed

    def _check_chain(self, replica: int, op: int, header: PrepareHeader, previous: PrepareHeader | None) -> None:
        if header.op != op:
            raise Violation(Rule.APPLIED_IN_ORDER, f"replica {replica} applies an entry of op {header.op} as op {op}")
        parent = 0 if previous is None else previous.checksum
        if header.parent != parent:
            raise Violation(
                Rule.HASH_CHAIN,
                f"op {op}, applied by replica {replica}, has parent {header.parent:#x}, "
                f"the checksum of op {op - 1} is {parent:#x}",
            )
        floor = 0 if previous is None else previous.timestamp
        if header.timestamp <= floor:
            raise Violation(
                Rule.TIME_RISES,
                f"op {op} is stamped {header.timestamp} us, op {op - 1} {floor} us; expected a later one",
            )

    def _bad_reply(self, replica: int, committed: Committed, reply: bytes) -> None:
        rule = Rule.REPLY_OF_MODEL if replica == committed.first_replica else Rule.SAME_REPLY
        raise Violation(
            rule,
            f"replica {replica} answers op {committed.op} ({_named(committed.header)}) with {shown(reply)}, "
            f"expected {shown(committed.reply)}",
        )


def reply_frame(header: PrepareHeader, body: bytes) -> bytes:
    """The reply to a committed entry (wire 8.1), field by field. Its view is 0: an entry keeps its identity when a later
    view sends it again, so the view of an entry is not the same everywhere."""
    return (
        ReplyHeader(
            client=header.client,
            request=header.request,
            operation=header.operation,
            op=header.op,
            commit=header.op,
            request_checksum=header.request_checksum,
            timestamp=header.timestamp,
            size=HEADER_SIZE + len(body),
            cluster=header.cluster,
            release=header.release,
            replica=header.replica,
        ).encode()
        + body
    )


def shown(frame: bytes) -> str:
    """A reply in a line of text: where it differs is in its header or in its body."""
    return f"{frame[48:HEADER_SIZE].rstrip(bytes(1)).hex()} + {frame[HEADER_SIZE:].hex() or 'no body'}"


def _named(header: PrepareHeader) -> str:
    return f"{operation_name(header.operation)} of client {header.client:#x}, request {header.request}"
