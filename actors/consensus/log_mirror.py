"""The headers of the log as Consensus handed them to the journal (design section 3, rule 8).

A header is *submitted* from the moment its Append is told and *durable* once the journal has said so. Gap and chain
questions are answered from what was submitted; acknowledgements and votes only from what is durable. The checkpoint op
itself stays, because its header is the commit point that a vote must be able to report. Refuses to know bodies and files.
"""

from collections.abc import Iterable, Iterator

from levrier.wire.headers import PrepareHeader


class LogMirror:
    """One header for each op that the log holds or is about to hold."""

    __slots__ = ("_headers", "_outstanding", "last_op", "snapshot_op")

    def __init__(self, *, headers: Iterable[PrepareHeader] = (), snapshot_op: int = 0) -> None:
        """`headers` are durable, in ascending op order; what is below the snapshot and not drained yet does not count."""
        self._headers: dict[int, PrepareHeader] = {}
        self._outstanding: set[int] = set()
        self.snapshot_op = snapshot_op
        self.last_op = snapshot_op
        previous = 0
        for header in headers:
            assert header.op > previous
            previous = header.op
            if header.op >= snapshot_op:
                self._headers[header.op] = header
                self.last_op = header.op

    @property
    def outstanding_count(self) -> int:
        """How many appends the journal has not answered."""
        return len(self._outstanding)

    def __len__(self) -> int:
        return len(self._headers)

    def ops(self) -> Iterator[int]:
        """Every op that the log holds or is about to hold, in no particular order."""
        return iter(self._headers)

    def header(self, op: int) -> PrepareHeader | None:
        """The header at an op, durable or submitted."""
        return self._headers.get(op)

    def is_durable(self, op: int) -> bool:
        """Whether the log durably holds an entry at this op."""
        return op in self._headers and op not in self._outstanding

    def holds(self, op: int, checksum: int) -> bool:
        """Whether the log durably holds exactly this entry: by identity, not by number."""
        header = self._headers.get(op)
        return header is not None and header.checksum == checksum and op not in self._outstanding

    def has_durable_above(self, op: int) -> bool:
        """Whether anything above an op is durable, as it is above a hole."""
        return any(self.is_durable(each) for each in range(op + 1, self.last_op + 1))

    def submit(self, header: PrepareHeader) -> None:
        """An Append of this prepare is about to be told."""
        op = header.op
        assert op > self.snapshot_op
        assert op not in self._headers
        self._headers[op] = header
        self._outstanding.add(op)
        self.last_op = max(self.last_op, op)

    def mark_durable(self, op: int, checksum: int) -> bool:
        """The journal has made this entry durable. False when it is not the one that was submitted last at this op."""
        header = self._headers.get(op)
        if header is None or header.checksum != checksum:
            return False
        self._outstanding.discard(op)
        return True

    def truncate_from(self, op: int) -> None:
        """Forget everything from an op on: a Truncate is about to be told, behind every append."""
        assert op > self.snapshot_op
        for gone in range(op, self.last_op + 1):
            self._headers.pop(gone, None)
            self._outstanding.discard(gone)
        self.last_op = op - 1

    def drain(self, snapshot_op: int) -> None:
        """A checkpoint at this op is durable: everything below it may go, the op itself stays."""
        assert snapshot_op >= self.snapshot_op
        for gone in range(self.snapshot_op, snapshot_op):
            self._headers.pop(gone, None)
            assert gone not in self._outstanding
        self.snapshot_op = snapshot_op
        self.last_op = max(self.last_op, snapshot_op)
