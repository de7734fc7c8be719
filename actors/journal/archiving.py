"""Moving what a drain is about to remove into the archive, in short steps, and what the neighbours are told of it.

Used by the Journal actor alone, in its mailbox: before a drain begins, everything that it will remove is durably in the archive
(acknowledgements 5). A failure fails the drain, so nothing is dropped that is not kept. Knows no evidence: what may go is told.

It is a part of that actor's shell, not a core: it calls the archive, and logs what the disk refuses, as the actor does.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from levrier.actors.acknowledgements.messages import ArchiveChanged
from levrier.persistence.archive import Archive, ArchiveSession
from levrier.persistence.errors import StorageError
from levrier.persistence.journal import PrepareJournal
from levrier.wire.acknowledgement import Frontier
from levrier.wire.prepare import Prepare

if TYPE_CHECKING:
    from loguru import Logger  # It exists in the stub alone.


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What there is to tell. `first_op` is the lowest op from which archive and log are sure to hold everything, or 0."""

    first_op: int
    archive: ArchiveChanged


class Archiving:
    """One archive beside one log. `log` is the actor's own, bound to what it is."""

    def __init__(self, archive: Archive, journal: PrepareJournal, *, log: "Logger") -> None:
        self._log = log
        self._archive = archive
        self._journal = journal
        self._session: ArchiveSession | None = None
        self._up_to = 0
        for text in archive.damaged:
            self._log.error("{}", text)

    @property
    def owed(self) -> int:
        """The drain that a crash has left undone: up to which op, 0 if none."""
        up_to = self._journal.snapshot_op - 1
        lowest = next((header.op for header in self._journal.headers_from(1)), up_to + 1)
        return up_to if lowest <= up_to else 0

    def step(self, up_to: int) -> bool:
        """Take in a piece of what the log holds up to this op. True when all of it is durable. Raises `StorageError`."""
        if self._session is None or self._up_to != up_to:
            self.abort()
            self._session, self._up_to = self._archive.begin(self._journal, up_to), up_to
        session = self._session
        try:
            is_done = session.step()
        except StorageError:
            self._session = None
            raise
        for text in session.take_lost():
            self._log.error("{}", text)
        if is_done:
            self._session = None
        return is_done

    def abort(self) -> None:
        """Give up what is under way; it is taken in with the next drain."""
        if self._session is not None:
            self._session.abort()
            self._session = None

    def close(self) -> None:
        """The end."""
        self.abort()
        self._archive.close()

    def reclaim(self, frontier: Frontier) -> int:
        """Delete what everybody has, give the number of segments. A failure is logged; the rest goes another time."""
        try:
            count = self._archive.reclaim(frontier)
        except StorageError as error:
            self._log.warning("history that is safe to reclaim was not deleted, tried again: {}", error)
            return 0
        if count:
            self._log.info("{} segments of history are reclaimed, {} bytes are kept", count, self._archive.size)
        return count

    def entry(self, op: int) -> Prepare | None:
        """The kept entry of an op; None, with a line in the log, when it cannot be read."""
        try:
            return self._archive.entry(op)
        except StorageError as error:
            self._log.error("op {} cannot be read from the archive: {}", op, error)
            return None

    def _log_begins(self) -> int:
        """The lowest op that the log is sure to hold, 0 if there is none: a drain leaves the entry at the snapshot's op.

        That is the next one that a member needs which has everything that was reclaimed.
        """
        watermark = self._journal.snapshot_op  # The snapshot's op after a start, the one below it after a drain.
        return next((op for op in (watermark, watermark + 1) if op and self._journal.header(op) is not None), 0)

    def kept(self) -> Kept:
        """How it stands."""
        archive = self._archive
        following = self._journal.header(archive.last_op + 1)
        end = archive.end
        adjoins = following is not None and end is not None and following.parent == end.last_checksum
        return Kept(
            first_op=archive.first_op if adjoins else self._log_begins(),
            archive=ArchiveChanged(
                first_op=archive.segments[0].first_op if archive.segments else 0,
                last_op=archive.last_op,
                segments=len(archive.segments),
                size=archive.size,
            ),
        )
