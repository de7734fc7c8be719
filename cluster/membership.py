"""What a member of several has beside a node of its own: links to the others, state transfer, the birth of the cluster.

Part of the wiring, like `node`: it makes the actors and says who knows whom, and decides nothing.
"""

import asyncio
import ssl

from levrier.actors.acknowledgements.actor import AcknowledgementsActor
from levrier.actors.acknowledgements.core import Identity
from levrier.actors.birth.actor import BirthActor
from levrier.actors.birth.core import BirthCore
from levrier.actors.birth.member_state import COMMAND as MEMBER_STATE
from levrier.actors.birth.member_state import MemberPhase
from levrier.actors.bus.directory import ClusterDirectory
from levrier.actors.bus.handshake import LinkIdentity, LinkSecret
from levrier.actors.bus.peer_link import PeerAddress
from levrier.actors.bus.peers import Peers
from levrier.actors.bus.ports import ReplicaTransport
from levrier.actors.bus.queries import Json
from levrier.actors.bus.replica_side import ReplicaRoutes, ReplicaWiring
from levrier.actors.bus.replica_transport import ReplicaTcpTransport, ReplicaTls
from levrier.actors.consensus.quorum import quorums_of
from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.actors.runtime import Runtime
from levrier.actors.state_transfer.actor import StateTransferActor
from levrier.actors.state_transfer.messages import Tick as StateTransferTick
from levrier.actors.state_transfer.ports import TransferIdentity
from levrier.cluster.address import Address
from levrier.cluster.boot import Booted
from levrier.cluster.config import METADATA_GROUP, LinkSecurity, NodeConfig
from levrier.cluster.refused import ConfigError
from levrier.cluster.transfer_codec import MetadataStateCodec
from levrier.persistence.storage import Storage
from levrier.wire.acknowledgement import COMMAND as ACKNOWLEDGEMENT
from levrier.wire.acknowledgement import replica_id
from levrier.wire.codes import NodeRole
from levrier.wire.responses.system import ClusterNode

TICKS_PER_TRANSFER_TICK = 10
"""Nothing that a state transfer waits for is over sooner, so its thread is not woken for each tick of Consensus."""

_STATE_TRANSFER = range(22, 26)


def replica_wiring(config: NodeConfig, booted: Booted, runtime: Runtime, transport: ReplicaTransport) -> ReplicaWiring:
    """The links of this member: to whom, over what, and who is told what arrives."""
    state_transfer, birth = runtime.address("state_transfer"), runtime.address("birth")
    acknowledgements = runtime.address("acknowledgements")
    roster = config.roster
    return ReplicaWiring(
        peers=Peers(
            identity=link_identity(config),
            roster=tuple(
                PeerAddress(replica=member.replica, host=member.ip, port=member.tcp_replica) for member in roster
            ),
            entropy=runtime.entropy,
            chance=runtime.random.random,
            hurried=booted.member_state.phase is not MemberPhase.BORN,
        ),
        transport=transport,
        routes=ReplicaRoutes(
            consensus=runtime.address("consensus"),
            by_command={
                **dict.fromkeys(_STATE_TRANSFER, state_transfer),
                MEMBER_STATE: birth,
                ACKNOWLEDGEMENT: acknowledgements,
            },
            watchers=(birth,),
            admissions=(acknowledgements,),
            admission=True,
        ),
        directory=ClusterDirectory(
            name=config.cluster_name,
            nodes=tuple(
                ClusterNode(name=member.name, ip=member.ip, tcp=member.tcp, http=member.http, role=NodeRole.FOLLOWER)
                for member in roster
            ),
            replica=config.replica,
            quorum=quorums_of(config.replica_count).replication,
        ),
    )


def roster_facts(config: NodeConfig) -> list[Json]:
    """Where clients reach the members, by id, as a status tells it: whoever asks one node finds the others."""
    return [
        {
            "replica": member.replica,
            "name": member.name,
            "tcp": str(member.client_address),
            "http": str(Address(host=member.ip, port=member.http)) if member.http else None,
        }
        for member in config.roster
    ]


def member_facts(directory: ClusterDirectory, roster: list[Json]) -> dict[str, Json]:
    """What only a member of several has to tell: what it waits for, for whom, and who the others are."""
    return {"waiting": directory.waiting, "waiting_for": list(directory.waiting_for), "roster": roster}


def wire_member(config: NodeConfig, booted: Booted, runtime: Runtime, storage: Storage) -> None:
    """Start the actors that only a member of several has."""
    bus, consensus, checkpoint = (runtime.address(name) for name in ("bus", "consensus", "checkpoint"))
    StateTransferActor.start(
        name="state_transfer",
        runtime=runtime,
        identity=TransferIdentity(cluster=config.cluster_id, group=METADATA_GROUP, replica=config.replica),
        storage=storage,
        directory=booted.directory.metadata.directory,
        codec=MetadataStateCodec(),
        replicas=bus,
        consensus=consensus,
        checkpoint=checkpoint,
        retry_ticks=-(-config.repair_retry_ticks // TICKS_PER_TRANSFER_TICK),
        view=booted.durable.view,
    )
    BirthActor.start(
        name="birth",
        runtime=runtime,
        core=BirthCore(
            replica=config.replica,
            addresses=tuple(str(member.replica_address) for member in config.roster),
            own=booted.member_state,
            mint=lambda: int.from_bytes(runtime.entropy(16), "little") | 1,
        ),
        cluster=config.cluster_id,
        group=METADATA_GROUP,
        replica=config.replica,
        replicas=bus,
        consensus=consensus,
        superblock=runtime.address("superblock"),
        checkpoint=checkpoint,
    )
    runtime.every(TICK_MILLISECONDS * TICKS_PER_TRANSFER_TICK, runtime.address("state_transfer"), StateTransferTick())


def wire_acknowledgements(config: NodeConfig, booted: Booted, runtime: Runtime) -> None:
    """Start the actor that every node has, also one of its own: then it is the only replica that is required."""
    bus = runtime.address("bus")
    AcknowledgementsActor.start(
        name="acknowledgements",
        runtime=runtime,
        identity=Identity(
            cluster=config.cluster_id,
            replica=config.replica,
            replica_count=config.replica_count,
            node_id=config.node_name,
        ),
        group=METADATA_GROUP,
        names={replica_id(config.cluster_id, member.replica): member.name for member in config.members},
        store=booted.acknowledgements,
        metadata=runtime.address("metadata"),
        bus=bus,
        replicas=bus if config.replica_count > 1 else None,
        interval_milliseconds=config.acknowledgement_interval_milliseconds,
        journal=runtime.address("journal") if booted.archive is not None else None,
        archive_limit=config.archive_limit,
    )


def link_identity(config: NodeConfig) -> LinkIdentity:
    """Who this member is on the replica port."""
    security = config.security
    secret = security.secret
    return LinkIdentity(
        cluster_name=config.cluster_name,
        replica=config.replica,
        replica_count=config.replica_count,
        group=METADATA_GROUP,
        secret=None if secret is None else LinkSecret.of(secret, previous=security.previous_secret),
        secure=security.certificate is not None,
    )


def listen_for_replicas(config: NodeConfig, loop: asyncio.AbstractEventLoop) -> ReplicaTcpTransport:
    """Bind the replica port of this member. Raises `OSError` when it cannot be had, `ConfigError` for unfit TLS files."""
    if len(config.roster) != config.replica_count:
        raise ConfigError(f"{config.replica_count} replicas need as many members, {len(config.roster)} are listed")
    own = config.roster[config.replica]
    return ReplicaTcpTransport(loop=loop, host=own.ip, port=own.tcp_replica, tls=replica_tls(config.security))


def replica_tls(security: LinkSecurity) -> ReplicaTls | None:
    """Both sides show a certificate that the cluster's own authority has signed; names are not compared, members move."""
    if security.certificate is None:
        return None
    assert security.key is not None
    assert security.authority is not None
    contexts = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(security.certificate, security.key, password=lambda: "")
            context.load_verify_locations(security.authority)
        except OSError as error:
            raise ConfigError(
                f"cluster.tls: {security.certificate}, {security.key} and {security.authority} are no PEM certificate with "
                "its unencrypted key and the authority that signed it"
            ) from error
        contexts.append(context)
    accepting, dialling = contexts
    return ReplicaTls(accepting=accepting, dialling=dialling)
