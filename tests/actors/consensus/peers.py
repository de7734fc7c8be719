"""What the tests of one core among peers build their cases from: members, the frames that peers send, and what left."""

from collections.abc import Sequence

from levrier.actors.bus.link_frames import CONTROL_HEADERS
from levrier.actors.consensus.effects import Append, Broadcast, Effect, PersistView, Send, Truncate
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState
from levrier.wire.control import ControlHeader
from levrier.wire.framing import COMMAND_OFFSET
from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare
from levrier.wire.replica_headers import (
    CommitHeader,
    DoViewChangeHeader,
    PrepareOkHeader,
    RequestStartViewHeader,
    StartViewChangeHeader,
    StartViewHeader,
)
from levrier.wire.suffix import encode_suffix
from tests.actors.consensus.builders import config_of, of_type, position, replica_of, restarted

CLUSTER = 77
GROUP = METADATA_GROUP

Sent = tuple[int | None, ControlHeader | PrepareHeader]
"""Receiver (None: everybody) and header."""


def member(
    replica: int,
    *,
    count: int = 3,
    chain: Sequence[Prepare] = (),
    commit: int = 0,
    view: int = 0,
    log_view: int | None = None,
    depth: int = 4,
    snapshot_op: int = 0,
) -> Replica:
    """A member that is Normal in `view`, with a durable log."""
    return replica_of(
        config_of(replica_count=count, replica=replica, depth=depth),
        recovered=RecoveredState(
            view=view,
            log_view=view if log_view is None else log_view,
            commit=max(commit, snapshot_op),
            headers=tuple(prepare.header for prepare in chain),
            snapshot_op=snapshot_op,
        ),
    )


def reborn(
    replica: int,
    *,
    count: int = 3,
    chain: Sequence[Prepare] = (),
    commit: int = 0,
    view: int = 0,
    log_view: int | None = None,
    commit_known: int | None = None,
    voter: bool = True,
) -> Replica:
    """A member as it begins from its disk."""
    recovered = RecoveredState(
        view=view,
        log_view=view if log_view is None else log_view,
        commit=commit,
        headers=tuple(prepare.header for prepare in chain),
        commit_known=commit_known,
        voter=voter,
    )
    return restarted(config_of(replica_count=count, replica=replica), recovered=recovered)


def sent(effects: Sequence[Effect]) -> list[Sent]:
    """Every frame that left, in order."""
    found: list[Sent] = []
    for effect in effects:
        if isinstance(effect, Send | Broadcast):
            command = effect.frame[COMMAND_OFFSET]
            target = effect.replica if isinstance(effect, Send) else None
            if command in (6, 19):
                found.append((target, PrepareHeader.decode(effect.frame)))
            else:
                found.append((target, CONTROL_HEADERS[command].decode(effect.frame)))
    return found


def sent_of(effects: Sequence[Effect], kind: type[ControlHeader] | type[PrepareHeader]) -> list[Sent]:
    """The frames of one kind that left."""
    return [each for each in sent(effects) if isinstance(each[1], kind)]


def acknowledged(effects: Sequence[Effect]) -> list[tuple[int | None, int]]:
    """(receiver, op) of every PrepareOk that left."""
    return [(to, header.op) for to, header in sent(effects) if isinstance(header, PrepareOkHeader)]


def kinds(effects: Sequence[Effect]) -> list[type]:
    """The kinds of the frames that left."""
    return [type(header) for _, header in sent(effects)]


def settle_disk(replica: Replica, effects: Sequence[Effect]) -> list[Effect]:
    """Let the disk do everything that was asked of it, and what that leads to. Gives all effects."""
    everything = list(effects)
    queue = list(effects)
    while queue:
        effect = queue.pop(0)
        more: list[Effect] = []
        if isinstance(effect, Append):
            more = replica.on_appended([position(effect.prepare, effect.view)])
        elif isinstance(effect, Truncate):
            more = replica.on_truncated(effect.from_op)
        elif isinstance(effect, PersistView):
            more = replica.on_view_persisted(effect.view, effect.log_view)
        queue += more
        everything += more
    return everything


def start_view_change(sender: int, view: int) -> StartViewChangeHeader:
    """A replica wants a view."""
    return StartViewChangeHeader(cluster=CLUSTER, group=GROUP, replica=sender, view=view)


def do_view_change(
    sender: int,
    view: int,
    *,
    log_view: int = 0,
    commit: int = 0,
    chain: Sequence[Prepare] = (),
    op: int | None = None,
    present: int | None = None,
    nack: int = 0,
) -> tuple[DoViewChangeHeader, bytes]:
    """A vote whose suffix is the whole chain given, all of it present unless said otherwise."""
    headers = [prepare.header for prepare in reversed(chain)]
    header = DoViewChangeHeader(
        cluster=CLUSTER,
        group=GROUP,
        replica=sender,
        view=view,
        log_view=log_view,
        op=op if op is not None else (headers[0].op if headers else 0),
        commit=commit,
        present_bitset=(1 << len(headers)) - 1 if present is None else present,
        nack_bitset=nack,
    )
    return header, encode_suffix(headers)


def start_view(
    sender: int, view: int, *, op: int, commit: int, chain: Sequence[Prepare] = (), incarnation: int = 0
) -> tuple[StartViewHeader, bytes]:
    """The log of a view."""
    headers = [prepare.header for prepare in reversed(chain)]
    return (
        StartViewHeader(
            cluster=CLUSTER, group=GROUP, replica=sender, view=view, op=op, commit=commit, incarnation=incarnation
        ),
        encode_suffix(headers),
    )


def heartbeat(sender: int, view: int, *, commit: int = 0, number: int = 1, checksum: int = 0) -> CommitHeader:
    """A heartbeat."""
    return CommitHeader(
        cluster=CLUSTER,
        group=GROUP,
        replica=sender,
        view=view,
        commit=commit,
        timestamp_monotonic=number,
        commit_checksum=checksum,
    )


def prepare_ok(sender: int, prepare: Prepare, *, view: int | None = None) -> PrepareOkHeader:
    """A replica holds an entry."""
    header = prepare.header
    return PrepareOkHeader(
        cluster=CLUSTER,
        group=GROUP,
        replica=sender,
        view=header.view if view is None else view,
        op=header.op,
        prepare_checksum=header.checksum,
        parent=header.parent,
        timestamp=header.timestamp,
        request=header.request,
        operation=header.operation,
        commit=0,
    )


def probe(sender: int, view: int, *, incarnation: int = 9) -> RequestStartViewHeader:
    """A replica asks for the view."""
    return RequestStartViewHeader(cluster=CLUSTER, group=GROUP, replica=sender, view=view, incarnation=incarnation)


def ticks(replica: Replica, count: int) -> list[Effect]:
    """Let time pass."""
    effects: list[Effect] = []
    for _ in range(count):
        effects += replica.on_tick()
    return effects


def persists(effects: Sequence[Effect]) -> list[tuple[int, int]]:
    """The pairs that were to be made durable."""
    return [(effect.view, effect.log_view) for effect in of_type(effects, PersistView)]
