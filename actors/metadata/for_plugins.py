"""What plugins are told of the replicated state: notices of commits, and answers to the questions that only they ask.

Notices follow state-machine 14: for each operation that was applied, denied and rejected ones included, on every replica, and
never for a Register or a Logout, in replay, or for what a state transfer jumped over. Only what somebody watches is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.records import Stream
from levrier.actors.plugins import messages as plugins
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader

_SILENT: Final = frozenset({int(Operation.REGISTER), int(Operation.LOGOUT)})
_SECRET: Final = frozenset(
    {
        int(Operation.BOOTSTRAP_ROOT),
        int(Operation.CREATE_USER),
        int(Operation.CHANGE_PASSWORD),
        int(Operation.CREATE_PERSONAL_ACCESS_TOKEN),
    }
)
"""Operations whose bodies hold a hash (D-20)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """Which commits are told: those of these operations, and those of these clients."""

    operations: frozenset[int]
    clients: frozenset[int]

    def wants(self, header: PrepareHeader) -> bool:
        """Whether the commit of this header is told."""
        operation = header.operation
        return (operation in self.operations or header.client in self.clients) and operation not in _SILENT


NOTHING_WATCHED: Final = Watched(operations=frozenset(), clients=frozenset())


def notice_of(header: PrepareHeader, body: bytes, code: int, revision: int) -> plugins.CommitNotice:
    """The notice of an op that was applied with this code."""
    return plugins.CommitNotice(
        op=header.op,
        timestamp=header.timestamp,
        operation=header.operation,
        code=code,
        user_id=header.user_id,
        client=header.client,
        request=header.request,
        revision=revision,
        body=b"" if header.operation in _SECRET else body,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenCatalogue:
    """Implements `plugins.CommittedCatalogue`: records do not change, and tables are forked before they do."""

    revision: int
    streams: list[Stream | None] = field(repr=False)

    def partitions(self) -> Iterator[tuple[int, int, int, int]]:
        """Every partition, ascending by stream and topic."""
        for stream in self.streams:
            if stream is None or stream.topics is None:
                continue
            for topic in stream.topics:
                for partition in topic.partitions:
                    yield stream.id, topic.id, partition.id, partition.created_revision


def answer_plugin(machine: MetadataMachine, question: metadata.PluginQuestion) -> plugins.Answer:
    """Answer from applied state."""
    ticket = question.ticket
    match question:
        case metadata.FindExpiredTokens():
            tokens = tuple(machine.users.tokens.expired(question.now, question.limit))
            return plugins.ExpiredTokensAnswer(ticket=ticket, tokens=tokens)
        case metadata.FindRevocations():
            return plugins.RevocationsAnswer(ticket=ticket, revocations=_revocations(machine, question.limit))
        case metadata.FindMembers():
            memberships = machine.streams.memberships
            members = [client for client in sorted(set(question.clients)) if memberships.of_client(client)]
            return plugins.MembershipsAnswer(ticket=ticket, clients=tuple(members))
        case metadata.FreezeCatalogue():
            streams = machine.streams
            if streams.revision == question.unless_revision:
                return plugins.CatalogueAnswer(ticket=ticket, catalogue=None)
            frozen = FrozenCatalogue(revision=streams.revision, streams=streams.freeze())
            return plugins.CatalogueAnswer(ticket=ticket, catalogue=frozen)


def _revocations(machine: MetadataMachine, limit: int) -> tuple[plugins.PendingRevocation, ...]:
    """Looked for only while there are any; the count is exact (state-machine 17, quirk 1)."""
    wanted = min(limit, machine.streams.memberships.pending_revocations)
    found: list[plugins.PendingRevocation] = []
    for stream in machine.streams.all() if wanted else ():
        for topic in stream.topics or ():
            for group in topic.groups or ():
                found.extend(
                    plugins.PendingRevocation(
                        stream_id=stream.id,
                        topic_id=topic.id,
                        group_id=group.id,
                        source_client=member.client,
                        partition_id=revocation.partition_id,
                        created_at=revocation.created_at,
                    )
                    for member in group.members
                    for revocation in member.pending
                )
                if len(found) >= wanted:
                    return tuple(found[:wanted])
    return tuple(found)
