"""From a data directory to everything a node starts with: lock, identity, pairing, log, replay (persistence 6, birth).

The order is the contract: nothing is written before the files were judged to belong together, and a blank directory gets
its superblock before anything else (D-31). Every refusal says which file, what is wrong and what to do, and carries the
exit status of D-36.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from loguru import logger

from levrier.actors.birth.core import Own
from levrier.actors.birth.member_state import MemberPhase
from levrier.actors.bus.passwords import SALT_SIZE, hash_password
from levrier.actors.consensus.state import RecoveredState
from levrier.actors.runtime import ExitStatus
from levrier.cluster.config import METADATA_GROUP, NodeConfig, RootUser
from levrier.cluster.recovery import Recovered, recover
from levrier.cluster.refused import Refused
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.archive import Archive
from levrier.persistence.data_dir import DataDirectory, GroupPaths
from levrier.persistence.errors import (
    DirectoryInUse,
    DirectoryUnusable,
    IdentityMismatch,
    JournalMissing,
    NotADirectory,
    StorageError,
)
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.journal_scan import scan
from levrier.persistence.pairing import NO_SNAPSHOT, Accept, Pairing, check_identity, check_pairing, check_presence
from levrier.persistence.snapshot import Snapshot, read_snapshot
from levrier.persistence.storage import Storage
from levrier.persistence.superblock import Phase, SuperblockStore, VsrState
from levrier.wire.requests.replicated import BootstrapRoot

Entropy = Callable[[int], bytes]

SET_APART_MIN = 1_000_000
"""Objects made by restoring, from which on the collector does not look at them any more."""


class Hashing(Protocol):
    """Makes the hash of a password under a salt."""

    def __call__(self, password: str, *, salt: bytes) -> str: ...


class BootRefused(Refused):
    """The node does not start."""

    def __init__(self, message: str, status: ExitStatus) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """An opened data directory and the state replayed from it. Whoever holds it closes journal and directory."""

    directory: DataDirectory
    superblock: SuperblockStore
    durable: VsrState
    journal: PrepareJournal
    pairing: Pairing
    snapshot_size: int
    recovered: Recovered
    acknowledgements: AcknowledgementStore
    archive: Archive | None
    bootstrap: bytes | None
    """Body of the operation that seeds the root user, when there is none yet (D-01)."""

    def replica_state(self) -> RecoveredState:
        """What Consensus starts from."""
        return RecoveredState(
            view=self.durable.view,
            log_view=self.durable.log_view,
            commit=self.recovered.applied,
            headers=self.recovered.headers + self.recovered.kept,
            snapshot_op=self.pairing.op,
            snapshot_size=self.snapshot_size,
            log_size=self.journal.size,
            timestamp_floor=self.recovered.timestamp,
            consensus_group_high=self.recovered.machine.streams.consensus_group_high,
            commit_known=self.durable.commit_max,
            voter=self.durable.voter,
            born=self.durable.phase is Phase.BORN,
            log_cut=self.durable.log_cut,
        )

    @property
    def member_state(self) -> Own:
        """How far the birth is on this member."""
        durable = self.durable
        if not durable.birth_id and durable.phase is not Phase.BORN:
            return Own(phase=MemberPhase.BLANK, birth_id=0, voter=False)
        phase = MemberPhase.BORN if durable.phase is Phase.BORN else MemberPhase.PREPARED
        return Own(phase=phase, birth_id=durable.birth_id, voter=durable.voter)

    def close(self) -> None:
        """Release the files of a node that will not run."""
        self.journal.close()
        self.directory.close()


class _CutNote:
    """Has the superblock say that the log was cut, before it is: the next boot finds zeros there and no reason to doubt.

    The record stands until a view was adopted or started, and its log is held (D-24). One node alone asks nobody, and a
    member that is not born yet has acknowledged nothing.
    """

    def __init__(self, superblock: SuperblockStore, durable: VsrState) -> None:
        self._superblock = superblock
        self.record = durable

    def write(self) -> None:
        """The log is about to be cut."""
        record = self.record
        if record.replica_count > 1 and record.phase is Phase.BORN and not record.log_cut:
            self.record = replace(record, log_cut=True)
            self._superblock.write(self.record)


def boot(config: NodeConfig, *, storage: Storage, entropy: Entropy, hashing: Hashing = hash_password) -> Booted:
    """Open the directory of this node and replay it. Raises `BootRefused`.

    `hashing` makes the hash of the first user's password; a simulation has a faster one.
    """
    with _refusing():
        if not storage.exists(config.data):
            _root_of(config)  # Refuses before there is a directory to clear away.
        directory = DataDirectory.open(storage, config.data)
    try:
        return _boot(config, directory, storage, entropy, hashing)
    except IdentityMismatch as error:
        directory.close()
        raise BootRefused(str(error), ExitStatus.BOOT_IDENTITY) from error
    except StorageError as error:
        directory.close()
        raise BootRefused(str(error), ExitStatus.BOOT_DAMAGED) from error
    except BaseException:
        directory.close()
        raise


def refuse_directory_in_use(config: NodeConfig, storage: Storage) -> None:
    """For a look before the ports are taken: whoever runs on the directory has them too, and can be named."""
    with _refusing():
        DataDirectory.check_unused(storage, config.data)


@contextmanager
def _refusing() -> Iterator[None]:
    """What keeps a node from having its directory, with its exit status."""
    try:
        yield
    except DirectoryInUse as error:
        raise BootRefused(str(error), ExitStatus.IN_USE) from error
    except (NotADirectory, DirectoryUnusable) as error:
        raise BootRefused(f"data directory {error}", ExitStatus.MISUSED) from error
    except StorageError as error:
        raise BootRefused(str(error), ExitStatus.BOOT_DAMAGED) from error


def _boot(config: NodeConfig, directory: DataDirectory, storage: Storage, entropy: Entropy, hashing: Hashing) -> Booted:
    paths = directory.metadata
    superblock = SuperblockStore.open(storage, paths.directory)
    durable = superblock.read()
    snapshot = read_snapshot(storage, paths.snapshot)
    acknowledgements = AcknowledgementStore.open(storage, paths.acknowledgements)
    archive = Archive.open(storage, paths.archive, group=METADATA_GROUP) if config.retain_history else None
    if durable is None:
        _refuse_leftovers(storage, paths, has_snapshot=snapshot is not None)
        _root_of(config)  # Refuses before anything of a blank cluster is written.
        durable = _first_record(config, entropy)
        if config.replica_count == 1:
            superblock.write(durable)
    _insist(
        check_identity(
            durable,
            cluster=config.cluster_id,
            cluster_name=config.cluster_name,
            replica_id=config.replica,
            replica_count=config.replica_count,
            file=paths.directory / "superblock",
        )
    )
    pairing = Pairing(op=snapshot.op, checksum=snapshot.checksum) if snapshot is not None else NO_SNAPSHOT
    _insist(check_pairing(durable, pairing, file=paths.snapshot))
    if durable.phase is Phase.BORN and not storage.exists(paths.journal):
        raise JournalMissing(file=paths.journal, beside="the cluster was born")
    cut = _CutNote(superblock, durable)
    journal = _open_journal(config, storage, paths, pairing.op, entropy, before_cut=cut.write)
    durable = cut.record
    try:
        if durable.phase is Phase.PREPARED and config.replica_count == 1:
            # Only now: a member that is born has a log, so a missing one is known to be lost.
            durable = replace(durable, phase=Phase.BORN)
            superblock.write(durable)
        recovered = _replay(config, journal, snapshot, paths)
        bootstrap = _bootstrap(config, entropy, hashing) if not recovered.machine.users.bootstrapped else None
    except BaseException:
        journal.close()
        raise
    if recovered.applied < durable.commit_max and config.replica_count == 1:
        logger.warning(
            "the superblock knows of commits up to op {}, the log ends at {}", durable.commit_max, recovered.head
        )
    return Booted(
        directory=directory,
        superblock=superblock,
        durable=durable,
        journal=journal,
        pairing=pairing,
        snapshot_size=snapshot.size if snapshot is not None else 0,
        recovered=recovered,
        acknowledgements=acknowledgements,
        archive=archive,
        bootstrap=bootstrap,
    )


def _replay(config: NodeConfig, journal: PrepareJournal, snapshot: Snapshot | None, paths: GroupPaths) -> Recovered:
    with _collector_at_rest():
        recovered = recover(
            journal=journal,
            snapshot=snapshot,
            replica_count=config.replica_count,
            sessions_min=config.clients_table_max,
            files=paths.directory,
        )
    if journal.cut_bytes:
        logger.warning("cut a torn tail of {} bytes off the log at offset {}", journal.cut_bytes, journal.cut_offset)
    if journal.unsealed_count:
        logger.warning("{} entries of the log carry no checksum", journal.unsealed_count)
    logger.info("replayed {} ops on top of op {}", recovered.replayed, recovered.applied - recovered.replayed)
    return recovered


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Restoring makes millions of objects and no garbage: looking for some doubles the time.

    A large catalogue is then set apart, or the next collection would walk it all. A small one is not: whoever has a node in
    a process of their own would have their objects set apart too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] >= SET_APART_MIN:
            gc.freeze()
        if was_enabled:
            gc.enable()


def _open_journal(
    config: NodeConfig,
    storage: Storage,
    paths: GroupPaths,
    snapshot_op: int,
    entropy: Entropy,
    *,
    before_cut: Callable[[], None],
) -> PrepareJournal:
    return PrepareJournal.open(
        storage,
        paths.journal,
        group=METADATA_GROUP,
        snapshot_op=snapshot_op,
        slots=config.journal_slots,
        epoch_source=lambda: int.from_bytes(entropy(8), "little"),
        before_cut=before_cut,
    )


def _refuse_leftovers(storage: Storage, paths: GroupPaths, *, has_snapshot: bool) -> None:
    """Without a superblock there may be no snapshot, and no log that holds anything (B-010, D-31). Only looks."""
    has_entries = False
    if storage.exists(paths.journal):
        leftover = storage.open(paths.journal, create=False)
        try:
            has_entries = bool(scan(leftover, path=paths.journal, group=METADATA_GROUP).entries)
        finally:
            leftover.close()
    _insist(
        check_presence(
            paths.directory,
            superblock=False,
            journal=has_entries,
            snapshot=has_snapshot,
            acknowledgements=storage.exists(paths.acknowledgements),
            archive=storage.exists(paths.archive) and bool(storage.list(paths.archive)),
        )
    )


def _first_record(config: NodeConfig, entropy: Entropy) -> VsrState:
    """What a blank member begins with. Several are born together: until then nothing of it is written."""
    alone = config.replica_count == 1
    return VsrState(
        cluster=config.cluster_id,
        replica_id=config.replica,
        replica_count=config.replica_count,
        birth_id=int.from_bytes(entropy(16), "little") if alone else 0,
        phase=Phase.PREPARED,
        voter=alone,
    )


def _bootstrap(config: NodeConfig, entropy: Entropy, hashing: Hashing) -> bytes:
    root = _root_of(config)
    if config.root is None:
        logger.warning("no root password is set: the first user is iggy with the password iggy")
    hashed = hashing(root.password, salt=entropy(SALT_SIZE))
    return BootstrapRoot(username=root.username, password_hash=hashed).encode()


def _root_of(config: NodeConfig) -> RootUser:
    if config.root is not None:
        return config.root
    if not config.listen.is_loopback:
        raise BootRefused(
            f"no root password is set, and {config.listen} can be reached from other machines: "
            "set IGGY_ROOT_PASSWORD or IGGY_ROOT_PASSWORD_FILE before the first start",
            ExitStatus.MISUSED,
        )
    return RootUser()


def _insist(verdict: Accept | StorageError) -> None:
    if not isinstance(verdict, Accept):
        raise verdict


def with_port(config: NodeConfig, port: int) -> NodeConfig:
    """The same node on the port it was given, so that a restart in place keeps its address."""
    return replace(config, listen=replace(config.listen, port=port))
