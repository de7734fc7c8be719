"""Session operations of a backup's clients (section 13, D-23)."""

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.effects import Answer, Append, Effect, Preflight
from levrier.actors.consensus.forwarding import FORWARD_TICKS
from levrier.actors.consensus.messages import Outcome
from levrier.actors.consensus.replica import Replica
from levrier.wire.codes import EvictionReason, Operation
from levrier.wire.control import ControlHeader
from levrier.wire.headers import ReplyHeader
from levrier.wire.replica_headers import (
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    LogoutOutcome,
    RegisterOutcome,
)
from tests.actors.consensus.builders import (
    denials,
    evictions,
    of_type,
    position,
    request_of,
    verdict_on,
    without_notes,
)
from tests.actors.consensus.peers import CLUSTER, heartbeat, member, prepare_ok, sent, start_view_change, ticks

REGISTER = int(Operation.REGISTER)
LOGOUT = int(Operation.LOGOUT)


def forwarded(effects: list[Effect]) -> ControlHeader:
    [(to, header)] = sent(effects)
    assert to == 0
    assert isinstance(header, ControlHeader)
    return header


def register_result(nonce: int, outcome: RegisterOutcome, *, client: int = 9, epoch: int = 0) -> ControlHeader:
    return ForwardRegisterResultHeader(
        cluster=CLUSTER, replica=0, nonce=nonce, client=client, outcome=int(outcome), epoch=epoch
    )


def asking() -> tuple[Replica, int]:
    """A backup whose client 9 waits for a session, and the nonce of the question."""
    backup = member(1)
    header = forwarded(backup.on_verdict(verdict_on(request_of(9, operation=REGISTER))))
    assert isinstance(header, ForwardRegisterHeader)
    assert header.client == 9
    return backup, header.nonce


def test_a_register_is_handed_to_the_primary_and_its_result_answers_the_client() -> None:
    """Section 13: the client gets the reply that a local commit would have given, with the epoch as its commit."""
    backup, nonce = asking()
    assert nonce >> 64 == 1
    [answer] = of_type(backup.on_frame(register_result(nonce, RegisterOutcome.OK, epoch=42), b""), Answer)
    assert answer.ticket == Ticket(connection=9, number=1)
    reply = ReplyHeader.decode(answer.frame)
    assert (reply.commit, reply.client, reply.operation) == (42, 9, REGISTER)
    assert without_notes(backup.on_frame(register_result(nonce, RegisterOutcome.OK, epoch=42), b"")) == []


def test_nonces_are_never_used_twice() -> None:
    """Section 13: not within one life; the incarnation seeds the counter across lives."""
    backup = member(1)
    nonces = set()
    for client in range(1, 50):
        header = forwarded(backup.on_verdict(verdict_on(request_of(client, operation=REGISTER))))
        assert isinstance(header, ForwardRegisterHeader)
        nonces.add(header.nonce)
    assert len(nonces) == 49


def test_what_the_outcomes_mean_to_the_client() -> None:
    """Section 13, BR-27: 58 where nothing was started, 57 where that is unknown, the one final refusal."""
    codes = {}
    for outcome in RegisterOutcome:
        if outcome is RegisterOutcome.OK:
            continue
        backup, nonce = asking()
        effects = backup.on_frame(register_result(nonce, outcome), b"")
        codes[outcome] = denials(effects) or evictions(effects)
    assert codes == {
        RegisterOutcome.NOT_PRIMARY: [(9, 58)],
        RegisterOutcome.NOT_CAUGHT_UP: [(9, 58)],
        RegisterOutcome.PIPELINE_FULL: [(9, 58)],
        RegisterOutcome.IN_PROGRESS: [(9, 57)],
        RegisterOutcome.CANCELED: [(9, 57)],
        RegisterOutcome.CLIENT_ID_OWNED_BY_ANOTHER_USER: [(9, EvictionReason.SESSION_ERROR)],
    }


def test_no_answer_for_five_seconds_means_that_the_outcome_is_unknown() -> None:
    """Section 13: ForwardTimedOut; a later result is ignored."""
    backup, nonce = asking()
    backup.on_frame(heartbeat(0, 0), b"")
    quiet = ticks(backup, FORWARD_TICKS - 1)
    assert denials(quiet) == []
    assert denials(backup.on_tick()) == [(9, 57)]
    assert of_type(backup.on_frame(register_result(nonce, RegisterOutcome.OK, epoch=4), b""), Answer) == []


def test_a_view_change_lets_nobody_wait_for_the_primary_of_the_view_before() -> None:
    """The client asks again at once and is served by the next one; a result that comes yet is ignored."""
    backup, nonce = asking()
    assert denials(backup.on_frame(start_view_change(2, 1), b"")) == [(9, 57)]
    assert of_type(backup.on_frame(register_result(nonce, RegisterOutcome.OK, epoch=42), b""), Answer) == []
    assert denials(ticks(backup, FORWARD_TICKS)) == []


def test_the_result_of_another_client_is_ignored() -> None:
    backup, nonce = asking()
    effects = backup.on_frame(register_result(nonce, RegisterOutcome.OK, client=8, epoch=4), b"")
    assert of_type(effects, Answer) == []


def test_other_requests_are_not_forwarded() -> None:
    """Only session operations are; the client of a write is sent elsewhere by 58."""
    effects = member(1).on_verdict(verdict_on(request_of(9)))
    assert (sent(effects), denials(effects)) == ([], [(9, 58)])


def forward_to(primary: Replica, header: ControlHeader) -> Preflight:
    [preflight] = of_type(primary.on_frame(header, b""), Preflight)
    return preflight


def test_the_primary_treats_it_as_a_request_of_its_own_and_answers_when_it_is_applied() -> None:
    """Section 13, D-23: never awaited inside the handler."""
    primary = member(0)
    header = ForwardRegisterHeader(cluster=CLUSTER, replica=2, client=9, nonce=77, user_id=4)
    request = forward_to(primary, header).request
    assert (request.user_id, request.header.operation) == (4, REGISTER)
    [append] = of_type(primary.on_verdict(verdict_on(request, user_id=4)), Append)
    primary.on_appended([position(append.prepare)])
    assert sent(primary.on_frame(prepare_ok(1, append.prepare), b"")) == []
    [(to, result)] = sent(primary.on_applied(1))
    assert isinstance(result, ForwardRegisterResultHeader)
    assert (to, result.nonce, result.outcome, result.epoch) == (2, 77, RegisterOutcome.OK, 1)


def test_a_replica_that_does_not_lead_says_so() -> None:
    """Section 13: no second hop."""
    header = ForwardRegisterHeader(cluster=CLUSTER, replica=2, client=9, nonce=77, user_id=4)
    [(to, result)] = sent(member(1).on_frame(header, b""))
    assert isinstance(result, ForwardRegisterResultHeader)
    assert (to, result.outcome) == (2, RegisterOutcome.NOT_PRIMARY)


def test_a_view_change_answers_what_was_forwarded() -> None:
    """Section 17: what waits is failed in the same handler."""
    primary = member(0)
    header = ForwardRegisterHeader(cluster=CLUSTER, replica=2, client=9, nonce=77, user_id=4)
    primary.on_verdict(verdict_on(forward_to(primary, header).request, user_id=4))
    results = [each for _, each in sent(primary.on_frame(start_view_change(1, 1), b""))]
    assert [each.outcome for each in results if isinstance(each, ForwardRegisterResultHeader)] == [
        RegisterOutcome.IN_PROGRESS
    ]


def test_a_logout_of_what_is_gone_has_succeeded() -> None:
    """Section 6.3: idempotent."""
    primary = member(0)
    header = ForwardLogoutHeader(cluster=CLUSTER, replica=2, client=9, nonce=77, session=3, request=5)
    request = forward_to(primary, header).request
    assert (request.header.session, request.header.request, request.header.operation) == (3, 5, LOGOUT)
    [(_, result)] = sent(primary.on_verdict(verdict_on(request, Outcome.NO_SESSION)))
    assert isinstance(result, ForwardLogoutResultHeader)
    assert result.outcome == LogoutOutcome.OK


def test_a_logout_is_handed_on_as_well() -> None:
    """Section 13."""
    backup = member(1)
    header = forwarded(backup.on_verdict(verdict_on(request_of(9, number=4, operation=LOGOUT))))
    assert isinstance(header, ForwardLogoutHeader)
    assert (header.session, header.request) == (5, 4)
    result = ForwardLogoutResultHeader(
        cluster=CLUSTER, replica=0, nonce=header.nonce, client=9, outcome=int(LogoutOutcome.OK), commit=6
    )
    [answer] = of_type(backup.on_frame(result, b""), Answer)
    assert ReplyHeader.decode(answer.frame).commit == 6


def test_what_nobody_waits_for_any_more_is_forgotten() -> None:
    """A forwarded operation that the client table answered by a replay leaves nothing behind."""
    primary = member(0)
    forward_to(primary, ForwardLogoutHeader(cluster=CLUSTER, replica=2, client=9, nonce=77, session=3, request=5))
    assert len(primary.state.forwarded) == 1
    ticks(primary, FORWARD_TICKS)
    assert len(primary.state.forwarded) == 0
