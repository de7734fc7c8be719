"""Commands about the node that also need the replicated state: stats, clients, the diagnostics archive (requests 9).

Each is a course: it reads the command, surveys Metadata (may this user ask, how much is there, who is a member where), and
returns the body of the answer, or the status of the refusal. Whoever may not ask is refused before anything is built.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from levrier.actors.bus import archive, queries
from levrier.actors.bus.admission import Course
from levrier.actors.bus.effects import BuildArchive
from levrier.actors.bus.messages import ArchiveBuilt, NodeStatus, Surveyed, Ticket
from levrier.actors.bus.registry import ClientRegistry, ConnectedClient
from levrier.actors.bus.settings import GatewaySettings
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import Survey
from levrier.wire.body import EmptyBody
from levrier.wire.codes import CommandCode, ErrorCode, Transport
from levrier.wire.requests.system import GetClient, GetSnapshotFile
from levrier.wire.responses.system import ClientDetails, ClientGroup, ClientInfo, ClientList

NOT_LOGGED_IN: Final = (1 << 32) - 1


class Caller(NamedTuple):
    """Who asks, and what the node knows by itself."""

    connection: int
    user_id: int
    registry: ClientRegistry
    settings: GatewaySettings


PUBLIC_FACTS: Final = (
    *("name", "cluster", "version", "tcp", "http", "uptime_seconds"),
    *("waiting", "waiting_for", "roster"),
)
"""Facts that are no secret of the machine: clients are told them anyway, or learn them by connecting."""


def status(answer: NodeStatus, registry: ClientRegistry, settings: GatewaySettings) -> bytes:
    """How the node stands, as JSON."""
    facts = {
        "connections": len(registry),
        "sessions": registry.sessions,
        "history": settings.history.facts(),
        **settings.node_facts(),
    }
    return queries.status_json(answer, facts)


def public_status(answer: NodeStatus, _registry: ClientRegistry, settings: GatewaySettings) -> bytes:
    """What a node that lets nobody in yet tells whoever asks: how it stands and what it waits for."""
    facts = settings.node_facts()
    return queries.status_json(answer, {name: facts[name] for name in PUBLIC_FACTS if name in facts})


def _stats(body: bytes, ticket: Ticket, caller: Caller) -> Course:
    EmptyBody.decode(body)
    surveyed: Surveyed = yield _survey(ticket, caller)
    if not surveyed.permitted:
        return ErrorCode.UNAUTHORIZED
    return replace(
        caller.settings.figures(),
        streams_count=surveyed.streams,
        topics_count=surveyed.topics,
        partitions_count=surveyed.partitions,
        segments_count=surveyed.partitions,  # Reads show one segment for each partition (requests 2.3).
        clients_count=len(caller.registry),
        consumer_groups_count=surveyed.groups,
    ).encode()


def _me(body: bytes, ticket: Ticket, caller: Caller) -> Course:
    EmptyBody.decode(body)
    own = caller.registry.client(caller.connection)
    surveyed: Surveyed = yield _survey(ticket, caller, (own,), restricted=False)
    return _details(own, surveyed) if surveyed.permitted else ErrorCode.UNAUTHORIZED


def _client(body: bytes, ticket: Ticket, caller: Caller) -> Course:
    """Empty for a connection that does not exist."""
    found = caller.registry.find(GetClient.decode(body).client_id)
    surveyed: Surveyed = yield _survey(ticket, caller, () if found is None else (found,))
    if not surveyed.permitted:
        return ErrorCode.UNAUTHORIZED
    return b"" if found is None else _details(found, surveyed)


def _clients(body: bytes, ticket: Ticket, caller: Caller) -> Course:
    EmptyBody.decode(body)
    clients = caller.registry.clients()
    surveyed: Surveyed = yield _survey(ticket, caller, clients)
    if not surveyed.permitted:
        return ErrorCode.UNAUTHORIZED
    return ClientList(clients=tuple(_info(client, len(_places(client, surveyed))) for client in clients)).encode()


def _snapshot_file(body: bytes, ticket: Ticket, caller: Caller) -> Course:
    request = GetSnapshotFile.decode(body)
    archive.check(request)
    surveyed: Surveyed = yield _survey(ticket, caller)
    if not surveyed.permitted:
        return ErrorCode.UNAUTHORIZED
    replica: NodeStatus = yield StatusQuery(ticket=ticket)
    built: ArchiveBuilt = yield BuildArchive(
        ticket=ticket, request=request, status=status(replica, caller.registry, caller.settings)
    )
    return ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED if built.archive is None else built.archive


def _survey(
    ticket: Ticket, caller: Caller, connections: Iterable[ConnectedClient] = (), *, restricted: bool = True
) -> Survey:
    clients = tuple([each.client for each in connections if each.client is not None])
    return Survey(ticket=ticket, user_id=caller.user_id, restricted=restricted, clients=clients)


def _places(connection: ConnectedClient, surveyed: Surveyed) -> tuple[tuple[int, int, int], ...]:
    return () if connection.client is None else surveyed.memberships.get(connection.client, ())


def _details(connection: ConnectedClient, surveyed: Surveyed) -> bytes:
    groups = tuple(
        ClientGroup(stream_id=stream_id, topic_id=topic_id, group_id=group_id)
        for stream_id, topic_id, group_id in _places(connection, surveyed)
    )
    return ClientDetails(client=_info(connection, len(groups)), groups=groups).encode()


def _info(client: ConnectedClient, groups_count: int) -> ClientInfo:
    return ClientInfo(
        client_id=client.short_id,
        user_id=NOT_LOGGED_IN if client.user_id is None else client.user_id,
        transport=int(Transport.TCP),
        address=client.peer,
        consumer_groups_count=groups_count,
    )


SURVEYED: Final[dict[int, Callable[[bytes, Ticket, Caller], Course]]] = {
    int(CommandCode.GET_STATS): _stats,
    int(CommandCode.GET_SNAPSHOT_FILE): _snapshot_file,
    int(CommandCode.GET_ME): _me,
    int(CommandCode.GET_CLIENT): _client,
    int(CommandCode.GET_CLIENTS): _clients,
}
"""The courses by command code."""

assert not SURVEYED.keys() & (queries.FROM_METADATA | queries.LOCAL.keys())
