"""One node: the only place where its actors are wired to each other.

The path of one write, and of the frames between members, stays in one thread (`ONE_LOOP` in `config`). A hop to another thread
costs about 100 us of processor time, a message within a thread 1.2 us:

    bus -> client_table -> consensus                Preflight, Verdict
    consensus -> journal -> consensus               Append, Appended: the loop waits for one sync for all that came together
    consensus -> metadata -> client_table -> bus    Apply, Commit, Reply
    metadata -> consensus                           Applied

With the log in a thread of its own (`JOURNAL_APART`) there are two hops: Append and Appended. Which actors share a thread is the
configuration's `arrangement`; mailboxes, order and isolation are the same in every one.
"""

import errno
import os
import resource
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from loguru import logger

from levrier.actors.bus import messages as bus_messages
from levrier.actors.bus.actor import BusActor
from levrier.actors.bus.archive import Files
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.passwords import DUMMY_PASSWORD_HASH, hash_password, verify_password
from levrier.actors.bus.ports import ReplicaTransport, Transport
from levrier.actors.bus.queries import ClusterView, Json
from levrier.actors.bus.replica_side import ReplicaWiring
from levrier.actors.bus.replica_transport import ReplicaTcpTransport
from levrier.actors.bus.settings import GatewaySettings
from levrier.actors.bus.transport import TcpTransport
from levrier.actors.checkpoint.actor import CheckpointActor
from levrier.actors.client_table.actor import ClientTableActor
from levrier.actors.consensus.actor import ConsensusActor
from levrier.actors.consensus.messages import Tick as ConsensusTick
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import ReplicaConfig
from levrier.actors.journal.actor import JournalActor
from levrier.actors.journal.messages import Tick as JournalTick
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.plugins.actor import PLUGIN_HOST, AnswerRouter
from levrier.actors.plugins.report import PluginBoard
from levrier.actors.runtime import ExitStatus, FatalReason, Recipient, Runtime, ThreadedRuntime
from levrier.actors.superblock.actor import SuperblockActor
from levrier.cluster.address import Address
from levrier.cluster.boot import Booted, BootRefused, boot, refuse_directory_in_use
from levrier.cluster.config import METADATA_GROUP, NodeConfig
from levrier.cluster.figures import ProcessFigures, diagnostic_files
from levrier.cluster.membership import (
    listen_for_replicas,
    member_facts,
    replica_wiring,
    roster_facts,
    wire_acknowledgements,
    wire_member,
)
from levrier.cluster.plugin_wiring import plugin_facts, plugin_host, watched, wire_plugins
from levrier.cluster.version import VERSION
from levrier.persistence.snapshot import SnapshotInfo, SnapshotWriter
from levrier.persistence.storage import DiskStorage, Storage
from levrier.wire.codes import NodeRole
from levrier.wire.protocol_version import WINDOW
from levrier.wire.responses.system import ClusterMetadata, ClusterNode, Stats

CONSENSUS_TICK_MILLISECONDS = 10
JOURNAL_TICK_MILLISECONDS = 100
STOP_ORDER = (
    PLUGIN_HOST,
    "bus",
    "birth",
    "state_transfer",
    "acknowledgements",
    "client_table",
    "consensus",
    "metadata",
    "checkpoint",
    "superblock",
    "journal",
)
"""Clients first, the log last: what was admitted is still written, and the log ends in its durable mark."""


FILES_RESERVED = 64
"""Descriptors that connections may never take: a checkpoint needs some, and without checkpoints the log fills up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What wiring needs from the world around the actors."""

    storage: Storage
    transport: Transport
    cluster: Callable[[], ClusterView]
    """What a node of its own tells its clients of the cluster; several members know it from their roster."""

    node_facts: Callable[[], dict[str, Json]]
    figures: Callable[[], Stats] = Stats
    diagnostics: Callable[[], Files] = dict
    verify: Callable[[str, str], bool] = verify_password
    hasher: Callable[[str, bytes], str] = hash_password
    replica_transport: ReplicaTransport | None = None
    """The links of a member of several, real or simulated; bound before anything runs."""


def wire(config: NodeConfig, booted: Booted, runtime: Runtime, outside: Outside) -> None:
    """Start every actor of a node on `runtime`, threaded or stepped. Addresses are bound before anything runs.

    A member of several (`config.replica_count` above 1) needs `outside.replica_transport`; it starts unborn, as a learner or
    as a voter, as its superblock says, and is born with the others without a further step.
    """
    is_member = config.replica_count > 1
    board = PluginBoard(config.other_plugins)
    _wire_disk(config, booted, runtime, outside.storage)
    _wire_core(config, booted, runtime)
    wire_acknowledgements(config, booted, runtime)
    wire_plugins(config, runtime, outside.storage, board)
    wiring: ReplicaWiring | None = None
    if is_member:
        assert outside.replica_transport is not None, "a member of several has links"
        wiring = replica_wiring(config, booted, runtime, outside.replica_transport)
        wire_member(config, booted, runtime, outside.storage)
    BusActor.start(
        name="bus",
        runtime=runtime,
        core=Bus(settings=_gateway_settings(config, runtime, outside, wiring, board), limits=_limits(config)),
        transport=outside.transport,
        client_table=runtime.address("client_table"),
        metadata=runtime.address("metadata"),
        consensus=runtime.address("consensus"),
        verify=outside.verify,
        hasher=outside.hasher,
        diagnostics=outside.diagnostics,
        replicas=wiring,
        plugins=plugin_host(config, runtime),
    )
    runtime.every(CONSENSUS_TICK_MILLISECONDS, runtime.address("consensus"), ConsensusTick())
    runtime.every(JOURNAL_TICK_MILLISECONDS, runtime.address("journal"), JournalTick())


def _wire_disk(config: NodeConfig, booted: Booted, runtime: Runtime, storage: Storage) -> None:
    consensus, checkpoint = runtime.address("consensus"), runtime.address("checkpoint")
    is_member = config.replica_count > 1
    JournalActor.start(
        name="journal",
        runtime=runtime,
        journal=booted.journal,
        consensus=consensus,
        checkpoint=checkpoint,
        archive=booted.archive,
        acknowledgements=runtime.address("acknowledgements"),
        replica=config.replica if is_member else None,
    )
    SuperblockActor.start(
        name="superblock",
        runtime=runtime,
        store=booted.superblock,
        initial=booted.durable,
        consensus=consensus,
        checkpoint=checkpoint,
        birth=runtime.address("birth") if is_member else None,
    )
    CheckpointActor.start(
        name="checkpoint",
        runtime=runtime,
        writer=lambda: SnapshotWriter(storage, booted.directory.metadata.directory),
        superblock=runtime.address("superblock"),
        journal=runtime.address("journal"),
        consensus=consensus,
        last=_last_snapshot(booted),
        birth_id=booted.durable.birth_id,
        state_transfer=runtime.address("state_transfer") if is_member else None,
    )


def _wire_core(config: NodeConfig, booted: Booted, runtime: Runtime) -> None:
    recovered = booted.recovered
    is_member = config.replica_count > 1
    client_table, metadata = runtime.address("client_table"), runtime.address("metadata")
    consensus, plugins = runtime.address("consensus"), plugin_host(config, runtime)
    replicas = runtime.address("bus")
    bus: Recipient[bus_messages.Command] = replicas
    if plugins is not None:
        bus = AnswerRouter(bus=replicas, plugins=plugins)
    MetadataActor.start(
        name="metadata",
        runtime=runtime,
        machine=recovered.machine,
        last_op=recovered.applied,
        last_timestamp=recovered.timestamp,
        client_table=client_table,
        bus=bus,
        digests=consensus if is_member else None,
        digest_interval=config.digest_interval,
        plugins=plugins,
        watched=watched(config),
    )
    ClientTableActor.start(
        name="client_table",
        runtime=runtime,
        table=recovered.table,
        last_op=recovered.applied,
        consensus=consensus,
        bus=bus,
        checkpoint=runtime.address("checkpoint"),
    )
    ConsensusActor.start(
        name="consensus",
        runtime=runtime,
        replica=Replica(
            config=_replica_config(config, booted, runtime),
            recovered=booted.replica_state(),
            now_micros=runtime.clock.now_micros,
        ),
        journal=runtime.address("journal"),
        metadata=metadata,
        client_table=client_table,
        bus=bus,
        superblock=runtime.address("superblock"),
        replicas=replicas if is_member else None,
        state_transfer=runtime.address("state_transfer") if is_member else None,
        birth=runtime.address("birth") if is_member else None,
        plugins=plugins,
    )


class Node:
    """A running node of this process: threads, sockets and files that end with `stop`.

    Constructing it boots and listens; it serves when the constructor returns. Raises `BootRefused`. `recent_log` gives the
    last log lines for a diagnostics archive. With `client_tls` clients are served over TLS only.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        on_failure: Callable[[FatalReason], object] = lambda _reason: None,
        storage: Storage | None = None,
        use_uvloop: bool = False,
        recent_log: Callable[[], Iterable[str]] = tuple,
        client_tls: ssl.SSLContext | None = None,
    ) -> None:
        self.config = config = within_file_limit(config)
        self._on_failure = on_failure
        self._runtime = ThreadedRuntime(
            config.node_name,
            arrangement=config.placement,
            on_failure=self._failed,
            use_uvloop=use_uvloop,
            expendable=config.plugin_actors,
        )
        self._started_at = self._runtime.clock.monotonic_nanos()
        disk = DiskStorage() if storage is None else storage
        self._links: ReplicaTcpTransport | None = None
        try:
            refuse_directory_in_use(config, disk)
            self._transport = self._listen(config.listen, client_tls)
            try:
                if config.replica_count > 1:
                    self._links = self._listen_for_replicas()
                self._booted = boot(config, storage=disk, entropy=self._runtime.entropy)
            except BaseException:
                self._close_ports()
                raise
        except BaseException:
            self._runtime.stop()
            raise
        figures = ProcessFigures(clock=self._runtime.clock, data=config.data)
        try:
            wire(
                config,
                self._booted,
                self._runtime,
                Outside(
                    storage=disk,
                    transport=self._transport,
                    cluster=self._cluster,
                    node_facts=self._facts,
                    figures=figures,
                    diagnostics=lambda: diagnostic_files(config, figures, recent_log),
                    replica_transport=self._links,
                ),
            )
            self._runtime.start()
        except BaseException:
            self._runtime.stop()
            self._close_ports()
            self._booted.close()
            raise
        logger.info("node {} serves on {}", config.node_name, self.address)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that it got."""
        host, port = self._transport.address
        return Address(host=host, port=port)

    @property
    def failure(self) -> FatalReason | None:
        """Why it is down; None while it runs."""
        return self._runtime.failure

    def stop(self) -> None:
        """End it in order: no thread, socket or lock outlives this call. Safe to repeat."""
        self._runtime.stop(order=STOP_ORDER)
        self._booted.close()

    def _listen(self, address: Address, tls: ssl.SSLContext | None) -> TcpTransport:
        try:
            return TcpTransport(loop=self._runtime.loop, host=address.host, port=address.port, tls=tls)
        except OSError as error:
            raise BootRefused(
                f"cannot listen on {address}: {_bind_reason(error)}; {self._way_out(error)}", ExitStatus.IN_USE
            ) from error

    def _way_out(self, error: OSError) -> str:
        replica = self.config.replica
        if self.config.replica_count > 1 and error.errno == errno.EADDRINUSE:
            return f"end what listens there, or give replica {replica} another port in cluster.nodes, on every node"
        if self.config.replica_count > 1:
            return f"name an address of this machine in cluster.nodes for replica {replica}, or with --listen"
        return "choose another --listen, or port 0 for a free one"

    def _listen_for_replicas(self) -> ReplicaTcpTransport:
        try:
            return listen_for_replicas(self.config, self._runtime.loop)
        except OSError as error:
            where = self.config.roster[self.config.replica].replica_address
            raise BootRefused(
                f"cannot listen for replicas on {where}: {_bind_reason(error)}; the roster says that this node is there",
                ExitStatus.IN_USE,
            ) from error

    def _close_ports(self) -> None:
        self._transport.stop()
        if self._links is not None:
            self._links.stop()

    def _failed(self, reason: FatalReason) -> None:
        self._on_failure(reason)

    def _cluster(self) -> ClusterView:
        address = self.address
        host = "127.0.0.1" if address.host in {"0.0.0.0", "::"} else address.host
        node = ClusterNode(name=self.config.node_name, ip=host, tcp=address.port, role=NodeRole.LEADER)
        return ClusterMetadata(name=self.config.cluster_name, nodes=(node,))

    def _facts(self) -> dict[str, Json]:
        uptime = self._runtime.clock.monotonic_nanos() - self._started_at
        return {
            "name": self.config.node_name,
            "cluster": self.config.cluster_name,
            "version": VERSION,
            "tcp": str(self.address),
            "http": None,
            "pid": os.getpid(),
            "data": str(self.config.data.absolute()),
            "uptime_seconds": uptime // 1_000_000_000,
            "inboxes": dict(self._runtime.inbox_depths()),
        }


def _bind_reason(error: OSError) -> str:
    """The text of a bind is asyncio's and repeats the address; an unknown host has no number that has a text."""
    known = error.errno is not None and error.errno > 0
    return os.strerror(error.errno or 0) if known else str(error.strerror).partition(" (while attempting")[0]


def within_file_limit(config: NodeConfig) -> NodeConfig:
    """The same with no more connections than this process may have files open, less `FILES_RESERVED`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(1, soft - FILES_RESERVED)
    if soft == resource.RLIM_INFINITY or most >= config.connections_max:
        return config
    logger.warning(
        "{} connections are served instead of {}: this process may have {} files open; raise it with ulimit -n",
        most,
        config.connections_max,
        soft,
    )
    return replace(config, connections_max=most)


def _last_snapshot(booted: Booted) -> SnapshotInfo | None:
    if not booted.pairing.op:
        return None
    return SnapshotInfo(op=booted.pairing.op, checksum=booted.pairing.checksum, size=booted.snapshot_size)


def _replica_config(config: NodeConfig, booted: Booted, runtime: Runtime) -> ReplicaConfig:
    return ReplicaConfig(
        cluster=config.cluster_id,
        replica=config.replica,
        replica_count=config.replica_count,
        group=METADATA_GROUP,
        prepare_queue_depth=config.prepare_queue_depth,
        journal_slots=config.journal_slots,
        bootstrap=booted.bootstrap,
        incarnation=int.from_bytes(runtime.entropy(16), "little") | 1,
        probe_attempts_max=config.view_probe_attempts_max,
        heartbeat_ticks=config.heartbeat_ticks,
        view_change_ticks=config.view_change_ticks,
    )


def _gateway_settings(
    config: NodeConfig, runtime: Runtime, outside: Outside, wiring: ReplicaWiring | None, board: PluginBoard
) -> GatewaySettings:
    directory = wiring.directory if wiring is not None else None

    def facts() -> dict[str, Json]:
        return {**outside.node_facts(), "plugins": plugin_facts(board)}

    roster = roster_facts(config)
    return GatewaySettings(
        cluster=outside.cluster if directory is None else directory,
        node_facts=facts if directory is None else lambda: {**facts(), **member_facts(directory, roster)},
        waiting=str if directory is None else lambda: directory.waiting,
        figures=outside.figures,
        dummy_password_hash=DUMMY_PASSWORD_HASH,
        window=WINDOW,
        server_version=VERSION,
        entropy=runtime.entropy,
        now_micros=runtime.clock.now_micros,
        max_tokens_per_user=config.max_tokens_per_user,
    )


def _limits(config: NodeConfig) -> BusLimits:
    return BusLimits(connections_max=config.connections_max, frame_size_max=config.frame_size_max)
