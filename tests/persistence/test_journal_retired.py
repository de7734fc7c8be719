"""What a drain has replaced is given back to the disk bit by bit, and never while its name may still come back."""

import errno
from random import Random

import pytest

from levrier.persistence.errors import JournalPoisoned
from levrier.persistence.journal_retired import RELEASE_SIZE
from levrier.persistence.simulated_storage import SimulatedStorage, Tear
from tests.persistence.prepares import chain, frames, open_journal

STEP = 4 * RELEASE_SIZE
ENTRIES = chain(1, 4)


def test_the_replaced_file_goes_in_pieces() -> None:
    """Four pieces: three cuts, and the rest with its descriptor. The log in use is not touched by any of it."""
    storage = SimulatedStorage(Random(1))
    journal = open_journal(storage, step=STEP)
    journal.append(ENTRIES)
    assert journal.begin_drain(2).finish() == 2
    cuts = len([call for call in storage.audit if call.name == "truncate"])
    assert [journal.release() for _ in range(5)] == [True, True, True, False, False]
    assert len([call for call in storage.audit if call.name == "truncate"]) - cuts == 3
    assert set(frames(journal)) == {3, 4}
    journal.close()
    assert set(frames(open_journal(storage, step=STEP))) == {3, 4}


def test_a_disk_that_fails_gets_it_back_in_one_go() -> None:
    """Nobody needs the bytes any more, so nobody hears of it."""
    storage = SimulatedStorage(Random(1))
    journal = open_journal(storage, step=STEP)
    journal.append(ENTRIES)
    journal.begin_drain(2).finish()
    storage.faults.fail_at[storage.calls + 1] = errno.EIO
    assert journal.release() is False
    journal.append(chain(5, 5, parent=ENTRIES[-1].header.checksum))


def test_a_replaced_file_whose_name_may_come_back_keeps_its_bytes() -> None:
    """The directory was not synced: a crash brings the old log back, and all of it is there."""
    storage = SimulatedStorage(Random(1))
    journal = open_journal(storage, step=STEP)
    journal.append(ENTRIES)
    session = journal.begin_drain(2)
    while not session.ready:
        session.step()
    storage.faults.fail_at[storage.calls + 4] = errno.EIO
    with pytest.raises(JournalPoisoned):
        session.finish()
    assert storage.audit[-1].name == "sync_directory"
    assert journal.release() is False
    storage.faults.tear = Tear.LOSE
    storage.crash()
    assert set(frames(open_journal(storage, step=STEP))) == {1, 2, 3, 4}
