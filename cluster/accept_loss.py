"""Giving up what is lost: a member that learns is made a voter by its operator, offline (birth, "Joining a born cluster").

A majority whose disks are lost cannot learn from a quorum and stays down, since what it acknowledged may be on the lost disks
only. Nobody but a person can decide that it is gone. The member votes with what it holds. As long as fewer are made voters than
could deny an operation (one of three, two of five), everything stays that one of the others holds.
"""

from dataclasses import replace
from pathlib import Path

from levrier.persistence.data_dir import DataDirectory
from levrier.persistence.storage import Storage
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState


class NothingToRecover(Exception):
    """The directory is not that of a learner. The message says what it is, and what to do."""


def accept_loss(storage: Storage, path: Path) -> VsrState:
    """Make the learner whose directory this is a voter; what its superblock then says.

    Raises `NothingToRecover`, `DirectoryInUse`, and other `StorageError` for files that cannot be used.
    """
    if not storage.exists(path):
        raise NothingToRecover(
            f"{path}: there is no such directory; start the member first, so that it becomes a learner"
        )
    directory = DataDirectory.open(storage, path)
    try:
        store = SuperblockStore.open(storage, directory.metadata.directory)
        learner = _learner(path, store.read())
        # Above any view that it could lead with an empty log: it asks the others first, as whoever has a past does.
        voter = replace(learner, voter=True, view=learner.view + 1)
        store.write(voter)
        return voter
    finally:
        directory.close()


def _learner(path: Path, record: VsrState | None) -> VsrState:
    if record is None or record.phase is not Phase.BORN:
        raise NothingToRecover(
            f"{path}: this member knows of no birth yet; start it beside one that does, so that it becomes a learner"
        )
    if record.voter:
        raise NothingToRecover(f"{path}: this member votes already, it has nothing to give up")
    if record.replica_count == 2:
        # Its word alone would be enough to deny what the other one holds.
        raise NothingToRecover(
            f"{path}: of two members the other one needs nobody's vote to bring this one back, start it; if its disk is lost "
            "too nothing is left, and both begin anew with empty directories"
        )
    return record
