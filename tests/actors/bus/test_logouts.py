"""Lost sessions are logged out: what is sent, what settles it, what is tried again (maintenance 5)."""

from levrier.actors.bus import messages as bus
from levrier.actors.bus.logouts import ANSWER_TICKS_MAX, IN_FLIGHT_MAX, NODE_CONNECTION, Logouts
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, Preflight
from levrier.wire.codes import EvictionReason, Operation
from levrier.wire.replies import result_rejection
from tests.actors.bus.rig import committed, ticket_of


def reply(preflight: Preflight) -> bus.Reply:
    header = preflight.request.header
    frame = committed(Operation.LOGOUT, op=50, client=header.client, number=header.request, body=b"")
    return bus.Reply(ticket=ticket_of(preflight), frame=frame)


def test_a_lost_session_is_logged_out_under_its_epoch_with_the_reserved_number() -> None:
    (preflight,) = Logouts().lost(client=5, epoch=9)
    header = preflight.request.header
    assert (header.client, header.session, header.request) == (5, 9, DISCONNECT_REQUEST)
    assert header.operation == Operation.LOGOUT
    assert ticket_of(preflight).connection == NODE_CONNECTION


def test_a_committed_logout_is_settled() -> None:
    logouts = Logouts()
    (preflight,) = logouts.lost(client=5, epoch=9)
    assert logouts.answered(reply(preflight)) == []
    assert logouts.pending == 0
    assert logouts.tick() == []


def test_a_session_that_is_gone_or_was_taken_over_is_settled() -> None:
    for reason in (EvictionReason.NO_SESSION, EvictionReason.SESSION_TOO_LOW):
        logouts = Logouts()
        (preflight,) = logouts.lost(client=5, epoch=9)
        assert logouts.answered(bus.Evict(ticket=ticket_of(preflight), reason=reason)) == []
        assert logouts.pending == 0


def test_a_denied_logout_is_tried_again_with_growing_delay() -> None:
    logouts = Logouts()
    (preflight,) = logouts.lost(client=5, epoch=9)
    sent_at = []
    for tick in range(1, 8):
        assert logouts.answered(bus.Deny(ticket=ticket_of(preflight), code=57, commit=3)) == []
        again = logouts.tick()
        if again:
            sent_at.append(tick)
            (preflight,) = again
    assert sent_at == [1, 3, 7]
    logouts.answered(reply(preflight))
    assert logouts.pending == 0


def test_a_logout_that_nobody_answers_is_tried_again() -> None:
    logouts = Logouts()
    (first,) = logouts.lost(client=5, epoch=9)
    sent = [logouts.tick() for _ in range(ANSWER_TICKS_MAX + 2)]
    again = [preflight for batch in sent for preflight in batch]
    assert [preflight.request.header for preflight in again] == [first.request.header]
    # The late answer to the first try is not taken for one to the second.
    logouts.answered(reply(first))
    assert logouts.pending == 1


def test_only_a_few_are_under_way_at_once() -> None:
    logouts = Logouts()
    sent = [preflight for client in range(1, 51) for preflight in logouts.lost(client=client, epoch=9)]
    assert len(sent) == IN_FLIGHT_MAX
    while sent:
        sent.extend(logouts.answered(reply(sent.pop(0))))
        assert len(sent) <= IN_FLIGHT_MAX
    assert logouts.pending == 0


def test_a_login_that_commits_after_its_connection_closed_is_undone() -> None:
    logouts = Logouts()
    ticket = bus.Ticket(connection=3, number=1)
    logouts.login_lost(ticket=ticket, client=5)
    frame = committed(Operation.REGISTER, op=31, client=5, number=0)
    (preflight,) = logouts.login_answered(bus.Reply(ticket=ticket, frame=frame))
    header = preflight.request.header
    assert (header.client, header.session, header.operation) == (5, 31, Operation.LOGOUT)


def test_a_login_that_was_refused_after_its_connection_closed_leaves_nothing() -> None:
    ticket = bus.Ticket(connection=3, number=1)
    refused = committed(Operation.REGISTER, op=31, client=5, number=0, body=result_rejection(41))
    for answer in (
        bus.Deny(ticket=ticket, code=57, commit=1),
        bus.Evict(ticket=ticket, reason=EvictionReason.SESSION_ERROR),
        bus.Reply(ticket=ticket, frame=refused),
    ):
        logouts = Logouts()
        logouts.login_lost(ticket=ticket, client=5)
        assert logouts.login_answered(answer) == []
        assert logouts.pending == 0


def test_an_answer_that_nobody_awaits_is_dropped() -> None:
    ticket = bus.Ticket(connection=3, number=1)
    frame = committed(Operation.REGISTER, op=31, client=5, number=0)
    assert Logouts().login_answered(bus.Reply(ticket=ticket, frame=frame)) == []
