"""Login, logout and what binds a session to a connection (wire 9.2, requests 4, client-table 3)."""

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import VerifyPassword
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import FindCredentials
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.protocol_version import CURRENT, ProtocolWindow, pack
from levrier.wire.replies import result_rejection
from levrier.wire.requests.streams import CreateStream
from levrier.wire.responses.login import LoginResponse
from tests.actors.bus.rig import (
    CLIENT,
    EPOCH,
    Rig,
    committed,
    credentials,
    login_body,
    query,
    register,
    request,
    ticket_of,
)


def test_a_login_is_looked_up_verified_committed_and_answered_with_its_epoch() -> None:
    rig = Rig()
    rig.send(register())
    found = rig.take(FindCredentials)
    assert found.username == "iggy"

    rig.tell(credentials(found.ticket, user_id=3))
    verify = rig.take(VerifyPassword)
    assert (verify.password, verify.password_hash) == ("iggy", "stored")

    rig.tell(bus.PasswordVerified(ticket=found.ticket, matches=True))
    preflight = rig.take(Preflight)
    assert preflight.request.user_id == 3
    assert preflight.request.body == b""
    assert preflight.request.header.size == 256
    assert preflight.request.header.client == CLIENT
    rig.assert_silent()

    rig.tell(bus.Reply(ticket=found.ticket, frame=committed(Operation.REGISTER, op=21, number=0)))
    answer = rig.answer()
    assert answer.result == 0
    response = LoginResponse.decode(answer.body[4:])
    assert (response.user_id, response.session, response.protocol_version) == (3, 21, CURRENT)
    assert (answer.header.op, answer.header.commit, answer.header.operation) == (21, 21, Operation.REGISTER)
    assert rig.gateway.session is not None
    assert rig.gateway.session.epoch == 21


def test_neither_password_nor_hash_shows_in_what_the_gateway_wants() -> None:
    rig = Rig()
    rig.send(register(login_body(password="hunter2")))
    shown = repr(rig.asked)
    rig.tell(credentials(rig.take(FindCredentials).ticket))
    shown += repr(rig.asked)
    assert "hunter2" not in shown
    assert "stored" not in shown


def test_a_wrong_password_is_refused_at_once_and_the_connection_may_try_again() -> None:
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.tell(credentials(ticket))
    rig.take(VerifyPassword)
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=False))
    assert rig.answer().reason is EvictionReason.INVALID_CREDENTIALS
    assert rig.log_in().result == 0


def test_an_unknown_user_costs_a_comparison_and_gets_the_answer_of_a_wrong_password() -> None:
    rig = Rig()
    rig.send(register(login_body(username="nobody")))
    ticket = rig.take(FindCredentials).ticket
    rig.tell(credentials(ticket, user_id=None))
    assert rig.take(VerifyPassword).password_hash == "dummy"
    # Even a password that fits the dummy hash opens nothing.
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=True))
    assert rig.answer().reason is EvictionReason.INVALID_CREDENTIALS


@pytest.mark.parametrize("matches", [True, False])
def test_an_inactive_user_gets_the_answer_of_a_wrong_password(*, matches: bool) -> None:
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.tell(credentials(ticket, active=False))
    assert rig.take(VerifyPassword).password_hash == "stored"
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=matches))
    assert rig.answer().reason is EvictionReason.INVALID_CREDENTIALS


def test_logins_are_transient_until_the_root_user_exists() -> None:
    rig = Rig()
    rig.send(register())
    rig.tell(credentials(rig.take(FindCredentials).ticket, bootstrapped=False))
    assert rig.answer().result == 57


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        (CURRENT, True),
        (pack(0, 11, 7), True),
        (pack(0, 10, 9), False),
        (pack(0, 12, 0), False),
        (0, False),
    ],
)
def test_the_protocol_window(*, version: int, accepted: bool) -> None:
    rig = Rig()
    rig.send(register(login_body(version=version)))
    if accepted:
        rig.take(FindCredentials)
        return
    answer = rig.answer()
    assert answer.reason is EvictionReason.INCOMPATIBLE_PROTOCOL
    assert answer.eviction is not None
    assert answer.eviction.window == ProtocolWindow(oldest=CURRENT, newest=CURRENT)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", EvictionReason.MALFORMED_LOGIN),
        (b"\x00\x2c\x00\x00\x08rust", EvictionReason.MALFORMED_LOGIN),
        (login_body() + b"\x00", EvictionReason.MALFORMED_LOGIN),
        (login_body()[:-5], EvictionReason.MALFORMED_LOGIN),
        (login_body(username="ab"), EvictionReason.INVALID_CREDENTIALS),
        (login_body(password="x" * 101), EvictionReason.INVALID_CREDENTIALS),
    ],
)
def test_logins_that_are_refused_without_looking_anything_up(body: bytes, reason: EvictionReason) -> None:
    assert Rig().ask(register(body)).reason is reason


def test_a_login_whose_stamp_does_not_match_is_denied() -> None:
    frame = request(Operation.REGISTER, login_body(), session=0, number=0, checksum=1)
    assert Rig().ask(frame).status == 4


def test_a_register_with_a_session_or_a_number_is_an_invalid_header() -> None:
    rig = Rig()
    assert rig.ask(request(Operation.REGISTER, login_body(), session=1, number=0)).status == 3
    assert rig.ask(request(Operation.REGISTER, login_body(), session=0, number=1)).status == 3


@pytest.mark.parametrize("code", [57, 58])
def test_a_register_that_consensus_does_not_take_is_transient_and_binds_nothing(code: int) -> None:
    """BR-28: lose the commit, and the connection is still unauthenticated."""
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.tell(credentials(ticket))
    rig.take(VerifyPassword)
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=True))
    rig.take(Preflight)
    rig.tell(bus.Deny(ticket=ticket, code=code, commit=4))
    answer = rig.answer()
    assert answer.result == code
    assert answer.header.commit == 4
    assert rig.gateway.session is None
    assert rig.ask(query(CommandCode.GET_STREAMS)).status == 40


def test_a_client_id_that_another_user_owns_is_evicted() -> None:
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.tell(credentials(ticket))
    rig.take(VerifyPassword)
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=True))
    rig.take(Preflight)
    rig.tell(bus.Evict(ticket=ticket, reason=EvictionReason.SESSION_ERROR))
    assert rig.answer().reason is EvictionReason.SESSION_ERROR


def test_a_register_that_committed_as_refused_binds_nothing() -> None:
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.tell(credentials(ticket))
    rig.take(VerifyPassword)
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=True))
    rig.take(Preflight)
    frame = committed(Operation.REGISTER, op=9, number=0, body=result_rejection(41))
    rig.tell(bus.Reply(ticket=ticket, frame=frame))
    assert rig.answer().result == 41
    assert rig.gateway.session is None


def test_nothing_is_admitted_before_the_login_is_committed() -> None:
    """BR-28: a create that is sent behind a login waits for the commit of the login."""
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.send(request(Operation.CREATE_STREAM, CreateStream(name="early").encode(), session=EPOCH))
    rig.assert_silent()
    rig.tell(credentials(ticket))
    rig.take(VerifyPassword)
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=True))
    rig.take(Preflight)

    rig.tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=EPOCH, number=0)))
    assert [answer.result for answer in rig.answers] == [0]
    assert rig.take(Preflight).request.header.operation == Operation.CREATE_STREAM


def test_a_create_behind_a_refused_login_is_evicted() -> None:
    """BR-28: the login fails, so the pipelined create has no session."""
    rig = Rig()
    rig.send(register())
    ticket = rig.take(FindCredentials).ticket
    rig.send(request(Operation.CREATE_STREAM, CreateStream(name="early").encode()))
    rig.tell(credentials(ticket))
    rig.take(VerifyPassword)
    rig.tell(bus.PasswordVerified(ticket=ticket, matches=False))
    assert rig.asked == []
    assert [answer.reason for answer in rig.answers] == [EvictionReason.INVALID_CREDENTIALS, EvictionReason.NO_SESSION]


def test_a_second_register_of_a_bound_connection_gets_the_same_session() -> None:
    rig = Rig()
    first = rig.log_in()
    second = rig.ask(register())
    assert LoginResponse.decode(second.body[4:]) == LoginResponse.decode(first.body[4:])


def test_a_second_register_under_another_client_id_is_evicted() -> None:
    rig = Rig()
    rig.log_in()
    assert rig.ask(register(client=CLIENT + 1)).reason is EvictionReason.NO_SESSION


def test_logout_unbinds_and_its_reply_is_empty() -> None:
    rig = Rig()
    rig.log_in()
    rig.send(request(Operation.LOGOUT, number=5))
    preflight = rig.take(Preflight)
    assert preflight.request.header.request == 5
    rig.tell(bus.Reply(ticket=ticket_of(preflight), frame=committed(Operation.LOGOUT, op=30, number=5, body=b"")))
    answer = rig.answer()
    assert (answer.status, answer.body) == (0, b"")
    assert (answer.header.op, answer.header.commit) == (EPOCH, 30)
    assert rig.gateway.session is None
    assert rig.ask(query(CommandCode.GET_STREAMS)).status == 40
    assert rig.registry.sessions == 0


def test_logout_is_transient_as_a_status_and_keeps_the_session() -> None:
    rig = Rig()
    rig.log_in()
    rig.send(request(Operation.LOGOUT, number=5))
    rig.tell(bus.Deny(ticket=ticket_of(rig.take(Preflight)), code=57, commit=12))
    assert rig.answer().status == 57
    assert rig.gateway.session is not None


@pytest.mark.parametrize(("session", "number"), [(0, 0), (0, 3), (9, 3)])
def test_logout_without_a_session_is_answered_ok(session: int, number: int) -> None:
    answer = Rig().ask(request(Operation.LOGOUT, session=session, number=number))
    assert (answer.status, answer.body, answer.header.operation) == (0, b"", Operation.LOGOUT)


def test_a_logout_with_a_body_is_refused() -> None:
    rig = Rig()
    rig.log_in()
    assert rig.ask(request(Operation.LOGOUT, b"x")).status == 3


@pytest.mark.parametrize("code", [CommandCode.LOGIN_USER, CommandCode.LOGIN_WITH_PERSONAL_ACCESS_TOKEN])
def test_the_old_logins_are_evicted(code: CommandCode) -> None:
    assert Rig().ask(query(code, session=0)).reason is EvictionReason.MALFORMED_LOGIN


def test_the_session_that_is_told_to_be_over_is_unbound() -> None:
    rig = Rig()
    rig.log_in()
    rig.send(request(Operation.CREATE_STREAM, CreateStream(name="s").encode()))
    rig.tell(bus.Evict(ticket=ticket_of(rig.take(Preflight)), reason=EvictionReason.SESSION_TOO_LOW))
    assert rig.answer().reason is EvictionReason.SESSION_TOO_LOW
    assert rig.gateway.session is None


def test_a_request_with_a_stale_epoch_is_judged_by_the_table_and_does_not_end_the_newer_session() -> None:
    rig = Rig()
    rig.log_in()
    rig.send(request(Operation.CREATE_STREAM, CreateStream(name="s").encode(), session=EPOCH - 1))
    preflight = rig.take(Preflight)
    assert preflight.request.header.session == EPOCH - 1
    rig.tell(bus.Evict(ticket=ticket_of(preflight), reason=EvictionReason.SESSION_TOO_LOW))
    assert rig.answer().reason is EvictionReason.SESSION_TOO_LOW
    assert rig.gateway.session is not None
