"""What other servers have one-shot promises for: an open request from its start until its answer was read."""

import sys

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import CloseConnection
from levrier.actors.bus.gateway import UNFLUSHED_MAX
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import Query
from levrier.wire.codes import CommandCode, Operation
from tests.actors.bus.rig import Rig, committed, query, request, ticket_of
from tests.actors.bus.test_bus import CREATE, PING, CoreRig, answer_large

STREAMS = query(CommandCode.GET_STREAMS)


def _waiting() -> tuple[CoreRig, bus.Ticket]:
    """A connection whose create is in the log."""
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    rig.receive(1, CREATE)
    (create,) = rig.take()
    assert isinstance(create, Preflight)
    return rig, ticket_of(create)


def test_an_answer_that_nobody_has_read_is_let_go_with_its_connection() -> None:
    """C-052."""
    rig, ticket = _waiting()
    frame = committed(Operation.CREATE_STREAM, op=12)
    ours = sys.getrefcount(frame)
    rig.tell(bus.Reply(ticket=ticket, frame=frame))
    assert sys.getrefcount(frame) == ours + 1, "it waits to be written"
    rig.core.on_closed(1)
    rig.core.take_outgoing()
    assert sys.getrefcount(frame) == ours


def test_what_a_peer_left_unread_is_not_owed_to_anybody_once_it_is_gone() -> None:
    """C-052: where the transport has it already."""
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    answer_large(rig)
    assert rig.core.unread_size > UNFLUSHED_MAX
    rig.core.on_closed(1)
    assert (rig.core.unread_size, rig.core.connections) == (0, 0)


def test_nothing_but_its_own_answer_ends_the_wait_of_a_request() -> None:
    """C-054: not what was written before, not the answer to another request, not a peer that is slow to read."""
    rig = Rig()
    rig.log_in()
    rig.send(request(Operation.CREATE_STREAM, CREATE[256:]))
    ticket = ticket_of(rig.take(Preflight))
    frame = committed(Operation.CREATE_STREAM, op=12)
    rig.keep(rig.gateway.on_flushed())
    rig.tell(bus.Reply(ticket=bus.Ticket(connection=ticket.connection, number=ticket.number + 1), frame=frame))
    rig.tell(bus.Reply(ticket=bus.Ticket(connection=ticket.connection, number=ticket.number - 1), frame=frame))
    rig.assert_silent()
    assert rig.gateway.busy
    rig.tell(bus.Reply(ticket=ticket, frame=frame))
    assert rig.answer().frame == frame
    assert not rig.gateway.busy


def test_a_request_is_over_when_its_answer_was_read_and_not_before() -> None:
    """C-057: the next one tells, which is begun only then."""
    rig = Rig()
    rig.log_in()
    assert not rig.gateway.busy, "fresh"

    rig.send(STREAMS)
    rig.send(PING)
    asked = rig.take(Query)
    assert (rig.gateway.busy, rig.gateway.backlog) == (True, 1), "waiting"

    rig.tell(bus.QueryAnswer(ticket=asked.ticket, status=0, body=bytes(UNFLUSHED_MAX), commit=12))
    assert rig.answer().status == 0
    assert (rig.gateway.busy, rig.gateway.backlog) == (False, 1), "answered and unread"

    rig.keep(rig.gateway.on_flushed())
    assert rig.answer().status == 0
    assert (rig.gateway.busy, rig.gateway.backlog) == (False, 0), "read"


def test_what_was_answered_is_read_before_the_end_of_its_connection_is_seen() -> None:
    """C-058: the node ends the connection right behind an answer."""
    rig = CoreRig()
    rig.open(1)
    rig.receive(1, PING + committed(Operation.CREATE_STREAM, op=1))
    (close,) = rig.take()
    assert isinstance(close, CloseConnection)
    assert not close.abort, "what was written is flushed first"
    assert rig.core.connections == 0
    assert [answer.status for answer in rig.flush()[1]] == [0]
    assert rig.flush() == {}


def test_an_answer_can_be_written_in_the_turn_that_brings_it() -> None:
    """C-059: nobody has to be woken for it."""
    rig, ticket = _waiting()
    frame = committed(Operation.CREATE_STREAM, op=12)
    rig.tell(bus.Reply(ticket=ticket, frame=frame))
    assert rig.take() == []
    assert rig.core.take_outgoing() == [(1, frame)]
