"""What the tests of Consensus build their cases from: requests, verdicts, and a replica with a scripted neighbourhood."""

from collections.abc import Sequence
from typing import TypeVar

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus.effects import Append, Apply, Deny, Effect, Evict, Note, Recheck
from levrier.actors.consensus.messages import LogPosition, Outcome, Verdict
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, ReplicaConfig, ReplicaState, Status
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader, RequestHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare, project

E = TypeVar("E")

NOW = 1_000_000
UPDATE_STREAM = int(Operation.UPDATE_STREAM)


class SettableClock:
    """A wall clock that stands still until the test moves it."""

    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def now_micros(self) -> int:
        """Microseconds, as set."""
        return self.now


def config_of(
    *,
    replica_count: int = 1,
    replica: int = 0,
    depth: int = 4,
    slots: int = 1024,
    growth_min: int = 1 << 40,
    bootstrap: bytes | None = None,
    superblock_failures_max: int = 120,
) -> ReplicaConfig:
    """A configuration whose log growth never makes a checkpoint due unless asked for."""
    return ReplicaConfig(
        cluster=77,
        replica=replica,
        replica_count=replica_count,
        group=METADATA_GROUP,
        prepare_queue_depth=depth,
        journal_slots=slots,
        checkpoint_log_growth_min=growth_min,
        superblock_failures_max=superblock_failures_max,
        bootstrap=bootstrap,
    )


def replica_of(
    config: ReplicaConfig | None = None,
    *,
    recovered: RecoveredState | None = None,
    clock: SettableClock | None = None,
) -> Replica:
    """A replica that begins with what was recovered, or blank. A member of a group is Normal in its view already."""
    replica = restarted(config, recovered=recovered, clock=clock)
    state = replica.state
    if state.status is Status.RECOVERING:
        state.status = Status.NORMAL
        state.ceded_primaryship = False
        state.timeouts.request_start_view.stop()
        timers = state.timeouts
        (timers.commit_message if state.is_primary else timers.normal_heartbeat).start()
    return replica


def restarted(
    config: ReplicaConfig | None = None,
    *,
    recovered: RecoveredState | None = None,
    clock: SettableClock | None = None,
) -> Replica:
    """A replica as it begins."""
    return Replica(
        config=config or config_of(),
        recovered=recovered or RecoveredState(),
        now_micros=(clock or SettableClock()).now_micros,
    )


def sealed_chain(
    *, from_op: int, to_op: int, parent: int = 0, timestamp: int = 10, view: int = 0, commit: int | None = None
) -> tuple[Prepare, ...]:
    """Prepares in a row that chain, stamped with `commit`, or as far as a single replica would."""
    chain = []
    for op in range(from_op, to_op + 1):
        prepare = project(
            cluster=77,
            view=view,
            replica=0,
            client=1000 + op,
            parent=parent,
            request_checksum=0,
            op=op,
            commit=op - 1 if commit is None else commit,
            timestamp=timestamp + op,
            request=1,
            operation=UPDATE_STREAM,
            group=METADATA_GROUP,
            user_id=1,
            body=b"recovered",
        )
        parent = prepare.header.checksum
        chain.append(prepare)
    return tuple(chain)


def sealed_headers(*, from_op: int, to_op: int) -> tuple[PrepareHeader, ...]:
    """The headers of such a row."""
    return tuple(prepare.header for prepare in sealed_chain(from_op=from_op, to_op=to_op))


def request_of(
    client: int,
    *,
    number: int = 1,
    operation: int = UPDATE_STREAM,
    body: bytes = b"body",
    ticketed: bool = True,
    forged_user: int = 0,
    connection: int | None = None,
) -> ClientRequest:
    """A request of a client; the connection is numbered like the client unless another one is given."""
    register = operation == Operation.REGISTER
    return ClientRequest(
        ticket=Ticket(connection=connection or client, number=number) if ticketed else None,
        header=RequestHeader(
            client=client,
            request=0 if register else number,
            operation=operation,
            session=0 if register else 5,
            request_checksum=900 + number,
            user_id=forged_user,
        ),
        body=body,
    )


def verdict_on(request: ClientRequest, outcome: Outcome = Outcome.NEW, *, token: int = 0, user_id: int = 7) -> Verdict:
    """The table's word on a request."""
    return Verdict(token=token, request=request, outcome=outcome, user_id=user_id)


def of_type(effects: Sequence[Effect], kind: type[E]) -> list[E]:
    """The effects of one type, in order."""
    return [effect for effect in effects if isinstance(effect, kind)]


def without_notes(effects: Sequence[Effect]) -> list[Effect]:
    """The effects without the lines for the log."""
    return [effect for effect in effects if not isinstance(effect, Note)]


def position(prepare: Prepare, view: int = 0) -> LogPosition:
    """How the journal names a prepare in its completion."""
    return LogPosition(op=prepare.header.op, checksum=prepare.header.checksum, view=view)


def admit(replica: Replica, client: int, *, number: int = 1) -> Prepare:
    """Bring in a new request that goes straight into the log."""
    [append] = of_type(replica.on_verdict(verdict_on(request_of(client, number=number))), Append)
    return append.prepare


def admit_many(replica: Replica, count: int, *, first_client: int = 1) -> list[Prepare]:
    """Bring in one request each of several clients."""
    return [admit(replica, client) for client in range(first_client, first_client + count)]


def append_and_apply(replica: Replica, *prepares: Prepare) -> list[Effect]:
    """Let the journal and the state machine do their part for these prepares."""
    effects = replica.on_appended([position(prepare) for prepare in prepares])
    for apply in of_type(effects, Apply):
        effects += replica.on_applied(apply.prepare.header.op)
    return effects


def denials(effects: Sequence[Effect]) -> list[tuple[int, int]]:
    """(connection, code) of each denial."""
    return [(effect.ticket.connection, effect.code) for effect in of_type(effects, Deny)]


def evictions(effects: Sequence[Effect]) -> list[tuple[int, int]]:
    """(connection, reason) of each eviction."""
    return [(effect.ticket.connection, int(effect.reason)) for effect in of_type(effects, Evict)]


def rechecks(effects: Sequence[Effect]) -> list[Recheck]:
    """The second looks that are asked for."""
    return of_type(effects, Recheck)


def frontier(state: ReplicaState) -> tuple[int, int, int]:
    """What a rollback restores: the head, the parent of the next prepare, and the length of the pipeline."""
    return state.sequencer, state.last_prepare_checksum, len(state.pipeline.prepares)
