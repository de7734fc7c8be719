"""Data directories made by hand, on a simulated disk: a log entry by entry, a snapshot at any op, a superblock."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random

from levrier.actors.client_table.commits import record
from levrier.actors.client_table.table import ClientTable
from levrier.actors.metadata.machine import MetadataMachine
from levrier.cluster.config import METADATA_GROUP, NodeConfig, RootUser
from levrier.cluster.recovery import Recovered, recover
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.pairing import NO_SNAPSHOT, Pairing
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.snapshot import SnapshotFields, read_snapshot, write_snapshot
from levrier.persistence.superblock import SuperblockStore, VsrState
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import committed_reply
from levrier.wire.requests.streams import CreateStream

CONFIG = NodeConfig(data=Path("/data"), root=RootUser(), journal_slots=256, clients_table_max=8)
PATHS = GroupPaths(CONFIG.data / "metadata")
CLIENT = 7
ROOT = 0


@dataclass
class Disk:
    """A directory in the making. `entries` are what the log is told, in order."""

    storage: SimulatedStorage = field(default_factory=lambda: SimulatedStorage(Random(1)))
    entries: list[Prepare] = field(default_factory=list)
    written: int = 0

    def __post_init__(self) -> None:
        self.storage.make_directory(PATHS.directory)

    def entry(
        self,
        op: int,
        *,
        operation: int = Operation.CREATE_STREAM,
        body: bytes | None = None,
        client: int = CLIENT,
        request: int | None = None,
        commit: int | None = None,
        parent: int | None = None,
    ) -> Prepare:
        """One more entry: by default a stream of its own, chained to the entry before, that stamps commit op - 1."""
        if body is None:
            body = CreateStream(name=f"stream-{op}").encode() if operation == Operation.CREATE_STREAM else b""
        if parent is None:
            parent = self.entries[-1].header.checksum if self.entries else 0
        header = PrepareHeader(
            op=op,
            operation=int(operation),
            client=client,
            request=op if request is None else request,
            user_id=ROOT,
            timestamp=1_000_000 + op,
            commit=op - 1 if commit is None else commit,
            group=METADATA_GROUP,
            parent=parent,
            cluster=CONFIG.cluster_id,
        )
        self.entries.append(Prepare.seal(header, body))
        return self.entries[-1]

    def journal(self, *, snapshot_op: int = 0, mark: bool = True) -> PrepareJournal:
        """The log, opened, after the entries were written to it. Without its durable mark its last entry may be torn."""
        log = self._open(snapshot_op)
        for entry in self.entries[self.written :]:
            log.append([entry])
        if mark:
            log.write_durable_mark()
        self.written = len(self.entries)
        return log

    def reopened(self, *, snapshot_op: int = 0, mark: bool = True) -> PrepareJournal:
        """The log as a boot finds it."""
        self.journal(snapshot_op=snapshot_op, mark=mark).close()
        return self._open(snapshot_op)

    def recovered(self, *, replicas: int, journal: PrepareJournal | None = None) -> Recovered:
        """What a boot makes of this disk."""
        snapshot = read_snapshot(self.storage, PATHS.snapshot)
        floor = snapshot.op if snapshot is not None else 0
        return recover(
            journal=journal if journal is not None else self.reopened(snapshot_op=floor),
            snapshot=snapshot,
            replica_count=replicas,
            sessions_min=CONFIG.clients_table_max,
            files=PATHS.directory,
        )

    def snapshot(self, op: int, *, applied: Sequence[Prepare] = (), with_table: bool = True) -> Pairing:
        """Write the snapshot that these entries make, at `op`."""
        machine, table = MetadataMachine(), ClientTable(CONFIG.clients_table_max)
        for entry in applied:
            done = machine.apply(entry.header, entry.body)
            record(table, entry.header, committed_reply(entry.header, done.body), done.dropped_users)
        captured = machine.capture(op, 1_000_000 + op)
        clients = (table if with_table else ClientTable(1)).capture()
        written = write_snapshot(
            self.storage,
            PATHS.directory,
            SnapshotFields(
                created_at=captured.timestamp,
                sequence=op,
                writer_release=CURRENT,
                consensus_group_high_water=captured.consensus_group_high,
                next_user_id=captured.next_user_id,
                acknowledgement_frontier=captured.frontier,
                acknowledgement_high_water=captured.high_water,
                table_frontier=op,
            ),
            chain(captured.users(), captured.streams(), clients.chunks()),
        )
        return Pairing(op=written.op, checksum=written.checksum)

    def superblock(
        self, pairing: Pairing = NO_SNAPSHOT, *, copies: int = 1, identity: dict[str, int] | None = None
    ) -> None:
        """Write the record of this node, or of one with another `identity`, that names this snapshot."""
        identity = identity or {}
        state = VsrState(
            cluster=identity.get("cluster", CONFIG.cluster_id),
            replica_id=identity.get("replica_id", CONFIG.replica),
            replica_count=identity.get("replica_count", CONFIG.replica_count),
            checkpoint_op=pairing.op,
            checkpoint_checksum=pairing.checksum,
        )
        for _ in range(copies):
            SuperblockStore.open(self.storage, PATHS.directory).write(state)

    def _open(self, snapshot_op: int) -> PrepareJournal:
        random = Random(2)
        return PrepareJournal.open(
            self.storage,
            PATHS.journal,
            group=METADATA_GROUP,
            snapshot_op=snapshot_op,
            slots=CONFIG.journal_slots,
            epoch_source=lambda: random.getrandbits(64),
        )
