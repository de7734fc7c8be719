"""Submits with a key: one at a time, in the order of the keys, until each is answered, whoever leads (client-table 3, 4)."""

import pytest

from levrier.actors.bus.messages import Deny, Evict, Reply, Ticket
from levrier.actors.client_table.messages import PLUGIN_CLIENT_MIN, SERVER_CLIENT_MIN, ClientRequest
from levrier.actors.plugins.messages import PLUGIN_CONNECTION, Fate
from levrier.actors.plugins.session import Keyed, KeyedSession, Told, session_client
from levrier.wire.codes import ErrorCode, EvictionReason, Operation
from levrier.wire.prepare_header import PrepareHeader
from levrier.wire.replies import committed_reply, result_rejection, result_success

EPOCH = 40


def keyed(key: int, *, number: int = 0, body: bytes = b"\x01s") -> Keyed:
    """A submit of the first life."""
    return Keyed(key=key, life=1, number=number or key, operation=int(Operation.CREATE_STREAM), body=body)


def ticket(number: int) -> Ticket:
    """The ticket of that number."""
    return Ticket(connection=PLUGIN_CONNECTION, number=number)


def reply(number: int, *, op: int, body: bytes = b"", is_fresh: bool = True) -> Reply:
    """A committed reply, fresh or from the ring."""
    header = PrepareHeader(op, client=1, request=1, operation=int(Operation.CREATE_STREAM))
    return Reply(ticket=ticket(number), frame=committed_reply(header, body), body_checksum=9 if is_fresh else 0)


def deny(number: int, code: ErrorCode) -> Deny:
    """A refusal."""
    return Deny(ticket=ticket(number), code=int(code), commit=0)


def sent(session: KeyedSession, number: int) -> ClientRequest:
    """What is sent under this ticket number; something must be."""
    request = session.next(number)
    assert request is not None
    return request


def leading() -> KeyedSession:
    """A session of a node that leads, registered at op 40 under ticket 1."""
    session = KeyedSession("p")
    session.lead(True)
    session.submit(keyed(7))
    register = sent(session, 1)
    assert (register.header.operation, register.header.request) == (Operation.REGISTER, 0)
    assert session.answered(reply(1, op=EPOCH)) == []
    return session


def test_the_client_of_a_plugin_is_the_same_everywhere_and_no_id_of_the_node() -> None:
    assert session_client("p") == session_client("p") != session_client("q")
    assert PLUGIN_CLIENT_MIN <= session_client("p") < SERVER_CLIENT_MIN


def test_it_registers_first_and_sends_under_the_epoch_and_the_key() -> None:
    session = leading()
    request = sent(session, 2)
    assert (request.header.session, request.header.request, request.header.client) == (EPOCH, 7, session.client)
    assert request.header.request_checksum != 0
    assert session.next(3) is None, "one at a time"
    [told] = session.answered(reply(2, op=41, body=result_success(b"payload")))
    assert told == Told(1, 7, told.outcome)
    assert (told.outcome.fate, told.outcome.op, told.outcome.code, told.outcome.reply) == (
        Fate.COMMITTED,
        41,
        0,
        b"payload",
    )
    assert session.waiting == 0


def test_a_rejection_is_an_outcome_too() -> None:
    session = leading()
    sent(session, 2)
    [told] = session.answered(reply(2, op=41, body=result_rejection(1012)))
    assert (told.outcome.fate, told.outcome.code, told.outcome.done) == (Fate.COMMITTED, 1012, False)


def test_a_reply_from_the_ring_says_that_it_was_done_before() -> None:
    session = leading()
    sent(session, 2)
    [told] = session.answered(reply(2, op=12, body=result_success(), is_fresh=False))
    assert (told.outcome.fate, told.outcome.op, told.outcome.done) == (Fate.ALREADY, 12, True)


def test_a_forgotten_reply_says_so_too() -> None:
    session = leading()
    sent(session, 2)
    [told] = session.answered(deny(2, ErrorCode.REQUEST_ALREADY_APPLIED))
    assert told.outcome.fate is Fate.ALREADY


@pytest.mark.parametrize("code", [ErrorCode.TRANSIENT_NOT_COMMITTED, ErrorCode.TRANSIENT_NOT_ACCEPTED])
def test_a_refusal_for_the_moment_is_followed_by_the_same_request(code: ErrorCode) -> None:
    session = leading()
    first = sent(session, 2)
    assert session.answered(deny(2, code)) == []
    again = sent(session, 3)
    assert (again.header, again.body) == (first.header, first.body)


@pytest.mark.parametrize("reason", [EvictionReason.NO_SESSION, EvictionReason.SESSION_TOO_LOW])
def test_a_session_that_is_gone_is_registered_anew_and_the_key_stays(reason: EvictionReason) -> None:
    session = leading()
    sent(session, 2)
    assert session.answered(Evict(ticket=ticket(2), reason=reason)) == []
    assert sent(session, 3).header.operation == Operation.REGISTER
    session.answered(reply(3, op=50))
    assert (sent(session, 4).header.session, session.waiting) == (50, 1)


def test_a_key_that_was_used_for_another_request_is_told() -> None:
    session = leading()
    sent(session, 2)
    [told] = session.answered(deny(2, ErrorCode.INVALID_FORMAT))
    assert told.outcome.fate is Fate.INVALID


def test_a_body_that_cannot_be_projected_does_not_hold_up_the_others() -> None:
    session = leading()
    session.submit(keyed(8))
    sent(session, 2)
    [told] = session.answered(Evict(ticket=ticket(2), reason=EvictionReason.INVALID_REQUEST_BODY))
    assert told.outcome.fate is Fate.INVALID
    assert sent(session, 3).header.request == 8


def test_keys_are_sent_in_their_order() -> None:
    session = KeyedSession("p")
    for key in (9, 7, 8):
        session.submit(keyed(key))
    session.lead(True)
    sent(session, 1)
    session.answered(reply(1, op=EPOCH))
    keys = []
    for number in (2, 3, 4):
        keys.append(sent(session, number).header.request)
        session.answered(reply(number, op=40 + number, body=result_success()))
    assert keys == [7, 8, 9]


def test_a_follower_sends_nothing_and_holds_what_was_not_committed() -> None:
    session = KeyedSession("p")
    for key in (7, 8, 9):
        session.submit(keyed(key))
    assert session.next(1) is None
    told = session.committed(8)
    assert [(each.number, each.outcome.fate) for each in told] == [(7, Fate.ALREADY), (8, Fate.ALREADY)]
    session.lead(True)
    sent(session, 1)
    session.answered(reply(1, op=EPOCH))
    assert sent(session, 2).header.request == 9


def test_what_was_committed_before_it_is_submitted_here_is_answered_at_once() -> None:
    session = KeyedSession("p")
    session.committed(8)
    [told] = session.submit(keyed(8))
    assert told.outcome.fate is Fate.ALREADY
    assert session.waiting == 0


def test_the_notice_of_the_submit_under_way_leaves_it_to_its_reply() -> None:
    session = leading()
    sent(session, 2)
    assert session.committed(7) == []
    [told] = session.answered(reply(2, op=41, body=result_success(b"id")))
    assert (told.outcome.fate, told.outcome.reply) == (Fate.COMMITTED, b"id")


def test_an_answer_that_comes_after_the_lead_was_lost_says_nothing_and_the_key_is_sent_anew() -> None:
    session = leading()
    sent(session, 2)
    session.lead(False)
    assert session.answered(reply(2, op=41, body=result_success())) == []
    assert (session.waiting, session.next(3)) == (1, None)
    session.lead(True)
    assert sent(session, 4).header.operation == Operation.REGISTER
