"""Minting, showing and using personal access tokens at the gateway (state-machine 11.3, wire 9.2, design section 3 rule 7)."""

from base64 import b64decode
from dataclasses import replace

import pytest
from blake3 import blake3

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import VerifyPassword
from levrier.actors.bus.tokens import hash_token
from levrier.actors.client_table.messages import Preflight
from levrier.actors.metadata.messages import CountTokens, FindCredentials, FindToken
from levrier.wire.checksums import xxh3
from levrier.wire.codes import EvictionReason, Operation
from levrier.wire.protocol_version import CURRENT
from levrier.wire.replies import result_rejection, result_success
from levrier.wire.requests.login import LoginForms, LoginWithPassword, LoginWithToken
from levrier.wire.requests.replicated import CreatePersonalAccessTokenReplicated, DeletePersonalAccessTokenReplicated
from levrier.wire.requests.tokens import CreatePersonalAccessToken, DeletePersonalAccessToken
from levrier.wire.responses.login import LoginResponse
from levrier.wire.responses.tokens import CreatedToken
from tests.actors.bus.rig import NOW, SETTINGS, Answer, Rig, committed, credentials, register, request, ticket_of

USER = 7
CREATE = request(
    Operation.CREATE_PERSONAL_ACCESS_TOKEN, CreatePersonalAccessToken(name="ci", expiry=60).encode(), number=3
)


@pytest.fixture
def rig() -> Rig:
    logged_in = Rig()
    logged_in.log_in(user_id=USER)
    return logged_in


def admitted(rig: Rig, count: int = 0) -> Preflight:
    """The creation up to the client table."""
    rig.send(CREATE)
    asked = rig.take(CountTokens)
    assert asked.user_id == USER
    rig.tell(bus.TokenCount(ticket=asked.ticket, count=count))
    return rig.take(Preflight)


def answered(rig: Rig, preflight: Preflight, body: bytes, *, checksum: int | None = None) -> Answer:
    """The creation has committed, with this result."""
    frame = committed(Operation.CREATE_PERSONAL_ACCESS_TOKEN, op=12, number=3, body=body)
    body_checksum = xxh3(preflight.request.body) if checksum is None else checksum
    rig.tell(bus.Reply(ticket=ticket_of(preflight), frame=frame, body_checksum=body_checksum))
    return rig.answer()


class TestCreate:
    def test_the_log_gets_the_owner_and_the_hash(self, rig: Rig) -> None:
        sent = admitted(rig).request
        replicated = CreatePersonalAccessTokenReplicated.decode(sent.body)
        assert (replicated.user_id, replicated.name, replicated.expiry) == (USER, "ci", 60)
        assert sent.header.request_checksum == xxh3(CREATE[256:])

    def test_the_secret_is_shown_in_the_reply_and_only_there(self, rig: Rig) -> None:
        """The frame differs from the committed one in its size and its payload alone."""
        preflight = admitted(rig)
        shown = answered(rig, preflight, result_success())
        secret = CreatedToken.decode(shown.body[4:]).token
        assert len(b64decode(secret, validate=True)) == 50
        replicated = CreatePersonalAccessTokenReplicated.decode(preflight.request.body)
        assert replicated.token_hash == blake3(secret.encode()).hexdigest()
        assert secret.encode() not in preflight.request.body
        frame = committed(Operation.CREATE_PERSONAL_ACCESS_TOKEN, op=12, number=3)
        assert shown.header == replace(Answer.of(frame).header, size=256 + len(shown.body))
        assert len(shown.frame) == shown.header.size
        assert (shown.frame[:48], shown.frame[52:256]) == (frame[:48], frame[52:256])

    @pytest.mark.parametrize("code", [20, 41, 51, 56])
    def test_a_rejection_is_passed_on_as_it_is(self, rig: Rig, code: int) -> None:
        """C-229."""
        shown = answered(rig, admitted(rig), result_rejection(code))
        assert shown.body == result_rejection(code)

    @pytest.mark.parametrize("checksum", [0, 1])
    def test_the_secret_is_not_shown_with_another_body(self, rig: Rig, checksum: int) -> None:
        """Design section 3, rule 7: an earlier submission of the same request committed, with another secret."""
        shown = answered(rig, admitted(rig), result_success(), checksum=checksum)
        assert shown.result == 51
        assert len(shown.body) == 12

    def test_a_replay_of_a_creation_is_refused(self, rig: Rig) -> None:
        """C-229: the client table says 51, in the result section of the operation."""
        rig.tell(bus.Deny(ticket=ticket_of(admitted(rig)), code=51, commit=12))
        assert rig.answer().result == 51

    def test_a_retransmit_mints_anew(self) -> None:
        secrets = iter([b"\x01" * 50, b"\x02" * 50])
        rig = Rig(settings=replace(SETTINGS, entropy=lambda _size: next(secrets)))
        rig.log_in(user_id=USER)
        first = admitted(rig)
        rig.tell(bus.Deny(ticket=ticket_of(first), code=57, commit=3))
        assert rig.answer().result == 57
        second = admitted(rig)
        assert first.request.body != second.request.body
        assert answered(rig, second, result_success(), checksum=xxh3(first.request.body)).result == 51

    @pytest.mark.parametrize(("count", "status"), [(99, 0), (100, 52), (101, 52)])
    def test_the_cap(self, rig: Rig, count: int, status: int) -> None:
        """State-machine 11.3: before anything is minted or logged. Who looks for an earlier try gets no body to log."""
        rig.send(CREATE)
        rig.tell(bus.TokenCount(ticket=rig.take(CountTokens).ticket, count=count))
        assert rig.take(Preflight).request.refusal == status

    def test_the_cap_is_a_setting(self) -> None:
        rig = Rig(settings=replace(SETTINGS, max_tokens_per_user=1))
        rig.log_in(user_id=USER)
        rig.send(CREATE)
        rig.tell(bus.TokenCount(ticket=rig.take(CountTokens).ticket, count=1))
        refused = rig.take(Preflight)
        assert (refused.request.refusal, refused.request.body) == (52, b"")
        rig.tell(bus.Deny(ticket=ticket_of(refused), code=52, commit=12))
        assert rig.answer().status == 52

    def test_the_last_token_that_was_created_already_is_no_token_too_many(self, rig: Rig) -> None:
        """The cap is reached because an earlier try of this very request committed: it exists, and nothing is refused."""
        rig.send(CREATE)
        rig.tell(bus.TokenCount(ticket=rig.take(CountTokens).ticket, count=100))
        rig.tell(bus.Deny(ticket=ticket_of(rig.take(Preflight)), code=51, commit=12))
        assert rig.answer().result == 51

    def test_nothing_shows_the_secret(self, rig: Rig) -> None:
        """D-20: neither the pending request nor the effect that writes it."""
        preflight = admitted(rig)
        frame = committed(Operation.CREATE_PERSONAL_ACCESS_TOKEN, op=12, number=3)
        reply = bus.Reply(ticket=ticket_of(preflight), frame=frame, body_checksum=xxh3(preflight.request.body))
        effects = rig.gateway.on_answer(reply)
        rig.keep(effects)
        secret = CreatedToken.decode(rig.answer().body[4:]).token
        assert secret not in f"{preflight} {reply} {effects}"


def test_a_delete_names_its_owner_and_ignores_the_expiry(rig: Rig) -> None:
    body = DeletePersonalAccessToken(name="ci").encode()
    rig.send(request(Operation.DELETE_PERSONAL_ACCESS_TOKEN, body, number=3))
    sent = rig.take(Preflight).request
    expected = DeletePersonalAccessTokenReplicated(user_id=USER, name="ci", only_if_expired=False)
    assert DeletePersonalAccessTokenReplicated.decode(sent.body) == expected


def test_a_malformed_creation_is_denied(rig: Rig) -> None:
    assert rig.ask(request(Operation.CREATE_PERSONAL_ACCESS_TOKEN, b"\x00" * 9)).status == 3
    assert rig.ask(request(Operation.DELETE_PERSONAL_ACCESS_TOKEN, b"")).status == 3


# Login.


def token_login(token: str = "t" * 68) -> bytes:
    body = LoginWithToken(protocol_version=CURRENT, sdk_name="rust-sdk", sdk_version="0.11.0", token=token)
    return register(body.encode())


def owner(
    ticket: bus.Ticket,
    *,
    user_id: int | None = USER,
    active: bool = True,
    expires_at: int | None = None,
    bootstrapped: bool = True,
) -> bus.TokenOwner:
    return bus.TokenOwner(
        ticket=ticket, bootstrapped=bootstrapped, user_id=user_id, active=active, expires_at=expires_at
    )


def asked_token(rig: Rig) -> bus.Ticket:
    """The ticket of a login whose token is looked up, by its hash."""
    rig.send(token_login())
    asked = rig.take(FindToken)
    assert asked.token_hash == hash_token("t" * 68)
    return asked.ticket


@pytest.mark.parametrize("expires_at", [None, NOW + 1])
def test_a_login_with_a_token(expires_at: int | None) -> None:
    rig = Rig()
    rig.tell(owner(asked_token(rig), expires_at=expires_at))
    sent = rig.take(Preflight).request
    assert (sent.user_id, sent.body, sent.header.operation) == (USER, b"", Operation.REGISTER)
    rig.tell(bus.Reply(ticket=ticket_of(Preflight(request=sent)), frame=committed(Operation.REGISTER, op=30, number=0)))
    response = LoginResponse.decode(rig.answer().body[4:])
    assert (response.user_id, response.session) == (USER, 30)
    assert rig.gateway.session is not None
    assert rig.gateway.session.user_id == USER


@pytest.mark.parametrize(
    ("user_id", "active", "expires_at", "reason"),
    [
        (None, False, None, EvictionReason.INVALID_TOKEN),
        (USER, True, NOW, EvictionReason.INVALID_TOKEN),
        (USER, True, NOW - 1, EvictionReason.INVALID_TOKEN),
        (USER, False, None, EvictionReason.USER_INACTIVE),
        (USER, False, NOW + 1, EvictionReason.USER_INACTIVE),
        (USER, False, NOW, EvictionReason.INVALID_TOKEN),
    ],
)
def test_a_token_that_is_refused(
    user_id: int | None, active: bool, expires_at: int | None, reason: EvictionReason
) -> None:
    """Wire 9.2: unknown and expired alike, by the clock of the node; an inactive owner is told so."""
    rig = Rig()
    rig.tell(owner(asked_token(rig), user_id=user_id, active=active, expires_at=expires_at))
    assert rig.answer().reason is reason
    assert rig.gateway.session is None


def test_before_there_is_a_root_user_a_token_login_waits() -> None:
    """D-01."""
    rig = Rig()
    rig.tell(owner(asked_token(rig), user_id=None, active=False, bootstrapped=False))
    assert rig.answer().result == 57


BOTH_FORMS = LoginWithPassword(
    protocol_version=CURRENT,
    sdk_name="rust-sdk",
    sdk_version="0.11.0",
    username="alice",
    password="\x01\x00\x00",
    context=b"x" * 255,
).encode()
"""Reads as a login with a password, and as one with the token `alice` and a longer context."""


def test_a_body_that_reads_both_ways_is_tried_both_ways() -> None:
    """Requests 4.2: as a token when the password is wrong."""
    forms = LoginForms.decode(BOTH_FORMS)
    assert forms.password is not None
    assert forms.token is not None
    assert forms.token.token == "alice"
    rig = Rig()
    rig.send(register(BOTH_FORMS))
    rig.tell(credentials(rig.take(FindCredentials).ticket, user_id=1))
    rig.tell(bus.PasswordVerified(ticket=rig.take(VerifyPassword).ticket, matches=False))
    asked = rig.take(FindToken)
    assert asked.token_hash == hash_token("alice")
    rig.tell(owner(asked.ticket))
    assert rig.take(Preflight).request.user_id == USER


@pytest.mark.parametrize("answer", [{"user_id": None}, {"expires_at": NOW}])
def test_when_both_ways_fail_the_credentials_are_invalid(answer: dict[str, int | None]) -> None:
    rig = Rig()
    rig.send(register(BOTH_FORMS))
    rig.tell(credentials(rig.take(FindCredentials).ticket, user_id=None))
    rig.tell(bus.PasswordVerified(ticket=rig.take(VerifyPassword).ticket, matches=False))
    rig.tell(owner(rig.take(FindToken).ticket, **answer))  # type: ignore[arg-type]  # One of the two optional numbers.
    assert rig.answer().reason is EvictionReason.INVALID_CREDENTIALS


def test_a_token_answer_for_a_password_login_is_dropped() -> None:
    rig = Rig()
    rig.send(register())
    rig.tell(owner(rig.take(FindCredentials).ticket))
    rig.assert_silent()
