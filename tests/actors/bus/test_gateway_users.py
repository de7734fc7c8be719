"""Operations on users on their way into the log: hashed once, never clear, and denied before the log (state-machine 11.2)."""

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.actor import BusActor
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.effects import HashPassword, VerifyPassword
from levrier.actors.bus.passwords import SALT_SIZE
from levrier.actors.bus.simulated_transport import SimulatedTransport
from levrier.actors.client_table.messages import PLUGIN_CLIENT_MIN, SERVER_CLIENT_MIN, Preflight
from levrier.actors.metadata.messages import FindPasswordHash, Query, Question
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.wire.checksums import xxh3
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.options import KIND_STRING, OptionEntry, encode_block
from levrier.wire.permissions import GlobalPermissions, Permissions
from levrier.wire.requests.users import ChangePassword, CreateUser, GetUser, UpdateUser
from tests.actors.bus.rig import (
    CLIENT,
    EPOCH,
    SETTINGS,
    Answer,
    Rig,
    committed,
    credentials,
    query,
    register,
    request,
    ticket_of,
)

ALICE = Identifier("alice")
ALICE_ID = 5
PHC = "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaA"
ANY_OPTION = encode_block([OptionEntry("colour", KIND_STRING, b"red")])
PERMISSIONS = Permissions(GlobalPermissions(read_users=True))


@pytest.fixture
def rig() -> Rig:
    logged_in = Rig()
    logged_in.log_in()
    return logged_in


def create(password: str = "marker", options: bytes = b"") -> bytes:
    body = CreateUser(username="alice", password=password, status=2, permissions=PERMISSIONS, options=options)
    return request(Operation.CREATE_USER, body.encode(), number=4)


def change(current: str = "old", new: str = "new") -> bytes:
    body = ChangePassword(user=ALICE, current_password=current, new_password=new)
    return request(Operation.CHANGE_PASSWORD, body.encode(), number=4)


def test_a_new_user_is_hashed_once_and_logged_with_the_hash(rig: Rig) -> None:
    """D-20: the request's stamp stays that of the client, so that a retransmit is recognised."""
    frame = create()
    rig.send(frame)
    asked = rig.take(HashPassword)
    assert asked.password == "marker"
    rig.tell(bus.PasswordHashed(ticket=asked.ticket, password_hash=PHC))
    sent = rig.take(Preflight).request
    expected = CreateUser(username="alice", password=PHC, status=2, permissions=PERMISSIONS)
    assert CreateUser.decode(sent.body) == expected
    assert b"marker" not in sent.body
    assert sent.header.request_checksum == xxh3(frame[256:])
    assert (sent.header.request, sent.ticket) == (4, asked.ticket)


def test_the_committed_reply_is_passed_on(rig: Rig) -> None:
    rig.send(create())
    rig.tell(bus.PasswordHashed(ticket=rig.take(HashPassword).ticket, password_hash=PHC))
    frame = committed(Operation.CREATE_USER, op=12, number=4)
    rig.tell(bus.Reply(ticket=ticket_of(rig.take(Preflight)), frame=frame, body_checksum=1))
    assert rig.answer().frame == frame


def test_without_memory_for_a_hash_the_client_may_try_again(rig: Rig) -> None:
    rig.send(create())
    rig.tell(bus.PasswordHashed(ticket=rig.take(HashPassword).ticket, password_hash=""))
    assert rig.answer().result == 57


@pytest.mark.parametrize("password", ["", "ab", "x" * 101, "x" * 255])
def test_the_length_of_a_password_is_not_looked_at(rig: Rig, password: str) -> None:
    """State-machine 17, quirk 7: only logins and the SDK do."""
    rig.send(create(password))
    assert rig.take(HashPassword).password == password


@pytest.mark.parametrize(
    "frame",
    [
        create(options=ANY_OPTION),
        request(Operation.UPDATE_USER, UpdateUser(user=ALICE, options=ANY_OPTION).encode()),
    ],
)
def test_users_have_no_options(rig: Rig, frame: bytes) -> None:
    """State-machine 9.2: 4041, before anything is hashed."""
    assert rig.ask(frame).status == 4041


def test_a_permission_record_of_another_length_is_malformed(rig: Rig) -> None:
    body = CreateUser(username="alice", password="secret", permissions=PERMISSIONS).encode()
    size = len(PERMISSIONS.encode())
    at = body.index(size.to_bytes(4, "little"))
    longer = body[:at] + (size + 1).to_bytes(4, "little") + body[at + 4 :] + b"\x00"
    assert rig.ask(request(Operation.CREATE_USER, longer)).status == 3


class TestChangePassword:
    def test_verified_then_hashed(self, rig: Rig) -> None:
        """What was verified names the user by its number: a namesake who comes meanwhile keeps its own password."""
        rig.send(change())
        asked = rig.take(FindPasswordHash)
        assert asked.user == ALICE
        rig.tell(credentials(asked.ticket, user_id=ALICE_ID))
        verify = rig.take(VerifyPassword)
        assert (verify.password, verify.password_hash) == ("old", "stored")
        rig.tell(bus.PasswordVerified(ticket=verify.ticket, matches=True))
        hashing = rig.take(HashPassword)
        assert hashing.password == "new"
        rig.tell(bus.PasswordHashed(ticket=hashing.ticket, password_hash=PHC))
        sent = ChangePassword.decode(rig.take(Preflight).request.body)
        assert sent == ChangePassword(user=Identifier(ALICE_ID), current_password="", new_password=PHC)

    def test_a_wrong_password_is_logged_as_an_empty_hash(self, rig: Rig) -> None:
        """State-machine 11.2: apply answers 42, and the number of the request is used up."""
        rig.send(change())
        rig.tell(credentials(rig.take(FindPasswordHash).ticket, user_id=ALICE_ID))
        rig.tell(bus.PasswordVerified(ticket=rig.take(VerifyPassword).ticket, matches=False))
        sent = ChangePassword.decode(rig.take(Preflight).request.body)
        assert sent == ChangePassword(user=Identifier(ALICE_ID), current_password="", new_password="")

    def test_a_missing_user_is_left_to_apply(self, rig: Rig) -> None:
        rig.send(change())
        rig.tell(credentials(rig.take(FindPasswordHash).ticket, user_id=None))
        sent = ChangePassword.decode(rig.take(Preflight).request.body)
        assert sent == ChangePassword(user=ALICE, current_password="", new_password="")

    def test_an_inactive_user_may_change_it_too(self, rig: Rig) -> None:
        rig.send(change())
        rig.tell(credentials(rig.take(FindPasswordHash).ticket, user_id=ALICE_ID, active=False))
        rig.take(VerifyPassword)

    def test_a_new_password_that_is_empty_is_hashed_like_any_other(self, rig: Rig) -> None:
        rig.send(change(new=""))
        rig.tell(credentials(rig.take(FindPasswordHash).ticket, user_id=ALICE_ID))
        rig.tell(bus.PasswordVerified(ticket=rig.take(VerifyPassword).ticket, matches=True))
        assert rig.take(HashPassword).password == ""

    def test_without_memory_for_a_hash_the_client_may_try_again(self, rig: Rig) -> None:
        rig.send(change())
        rig.tell(credentials(rig.take(FindPasswordHash).ticket, user_id=ALICE_ID))
        rig.tell(bus.PasswordVerified(ticket=rig.take(VerifyPassword).ticket, matches=True))
        rig.tell(bus.PasswordHashed(ticket=rig.take(HashPassword).ticket, password_hash=""))
        assert rig.answer().result == 57


def test_a_slow_hash_is_not_overtaken_by_the_next_request(rig: Rig) -> None:
    """Design section 3, rule 7: admission is serial per connection."""
    rig.send(create())
    rig.send(query(CommandCode.PING))
    hashing = rig.take(HashPassword)
    assert rig.answers == []
    rig.tell(bus.PasswordHashed(ticket=hashing.ticket, password_hash=PHC))
    rig.tell(bus.Reply(ticket=ticket_of(rig.take(Preflight)), frame=committed(Operation.CREATE_USER, op=12, number=4)))
    assert [answer.header.operation for answer in rig.answers] == [Operation.CREATE_USER, Operation.NON_REPLICATED]


def test_an_answer_that_does_not_fit_the_question_is_dropped(rig: Rig) -> None:
    rig.send(create())
    ticket = rig.take(HashPassword).ticket
    for stray in (
        bus.PasswordVerified(ticket=ticket, matches=True),
        credentials(ticket),
        bus.SegmentSize(ticket=ticket, segment_size=1),
        bus.TokenCount(ticket=ticket, count=0),
        bus.TokenOwner(ticket=ticket, bootstrapped=True, user_id=0, active=True, expires_at=None),
        bus.Reply(ticket=ticket, frame=committed(Operation.CREATE_USER, op=12)),
        bus.Deny(ticket=ticket, code=58, commit=3),
        bus.Evict(ticket=ticket, reason=EvictionReason.NO_SESSION),
        bus.QueryAnswer(ticket=ticket, status=0, body=b"", commit=3),
    ):
        rig.tell(stray)
    rig.assert_silent()
    rig.tell(bus.PasswordHashed(ticket=ticket, password_hash=PHC))
    rig.take(Preflight)
    rig.tell(bus.PasswordHashed(ticket=ticket, password_hash=PHC))
    rig.assert_silent()


def test_a_connection_that_closes_under_a_hash_asks_for_nothing_more(rig: Rig) -> None:
    rig.send(create())
    ticket = rig.take(HashPassword).ticket
    assert rig.gateway.on_closed().register is None
    rig.tell(bus.PasswordHashed(ticket=ticket, password_hash=PHC))
    rig.assert_silent()


def test_a_session_that_ended_with_its_user_is_refused_and_unbound(rig: Rig) -> None:
    """BR-38, C-232: the first request finds no session; reads are then those of nobody."""
    rig.send(create())
    rig.tell(bus.PasswordHashed(ticket=rig.take(HashPassword).ticket, password_hash=PHC))
    rig.tell(bus.Evict(ticket=ticket_of(rig.take(Preflight)), reason=EvictionReason.NO_SESSION))
    assert rig.answer().reason is EvictionReason.NO_SESSION
    assert rig.gateway.session is None
    assert rig.ask(query(CommandCode.GET_USERS)).status == 40


def test_a_read_carries_the_user_of_the_session(rig: Rig) -> None:
    """C-231, BR-38: so that the rights of the moment decide, and not those of the login."""
    other = Rig()
    other.log_in(user_id=7)
    other.send(query(CommandCode.GET_USER, GetUser(user=ALICE).encode()))
    asked = other.take(Query)
    assert (asked.user_id, asked.client, asked.code) == (7, CLIENT, CommandCode.GET_USER)
    other.tell(bus.QueryAnswer(ticket=asked.ticket, status=41, body=b"", commit=3))
    assert other.answer().status == 41


@pytest.mark.parametrize("client", [PLUGIN_CLIENT_MIN, SERVER_CLIENT_MIN, SERVER_CLIENT_MIN + 1, 2**128 - 1])
def test_a_client_id_of_the_node_itself_cannot_register(client: int) -> None:
    """D-10: ids whose high half is all ones belong to the node's own operations."""
    assert Rig().ask(register(client=client)).reason is EvictionReason.MALFORMED_LOGIN


def test_the_highest_client_id_below_may_register() -> None:
    assert Rig().log_in(client=PLUGIN_CLIENT_MIN - 1).status == 0


def fits(password_hash: str, password: str) -> bool:
    return (password_hash, password) == ("stored", "iggy")


@pytest.mark.parametrize("works", [True, False])
def test_a_worker_thread_hashes_under_a_fresh_salt(works: bool) -> None:
    """Design section 4: the salt comes from the entropy of the runtime; work that raised lets the client try again."""
    salts: list[bytes] = []

    def hasher(password: str, salt: bytes) -> str:
        salts.append(salt)
        if not works:
            raise MemoryError(password)
        return f"hash of {password}"

    runtime = SteppedRuntime(1)
    transport = SimulatedTransport(bus=runtime.address("bus"))
    table: Probe[Preflight] = Probe("client_table")
    metadata: Probe[Question] = Probe("metadata")
    BusActor.start(
        name="bus",
        runtime=runtime,
        core=Bus(settings=SETTINGS, limits=BusLimits()),
        transport=transport,
        client_table=table,
        metadata=metadata,
        consensus=Probe("consensus"),
        verify=fits,
        hasher=hasher,
    )
    runtime.run()
    client = transport.connect()
    client.send(register())
    runtime.run()
    runtime.address("bus").tell(credentials(metadata.take().ticket))
    runtime.run()
    ticket = ticket_of(table.take())
    runtime.address("bus").tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=EPOCH, number=0)))
    runtime.run()
    client.take()
    for number in (1, 2):
        client.send(request(Operation.CREATE_USER, CreateUser(username="alice", password="marker").encode()))
        runtime.run()
        if works:
            sent = table.take().request
            assert CreateUser.decode(sent.body).password == "hash of marker"
            frame = committed(Operation.CREATE_USER, op=EPOCH + number)
            runtime.address("bus").tell(bus.Reply(ticket=ticket_of(Preflight(request=sent)), frame=frame))
            runtime.run()
        assert Answer.of(client.take()).result == (0 if works else 57)
    assert [len(salt) for salt in salts] == [SALT_SIZE, SALT_SIZE]
    assert salts[0] != salts[1]
    assert runtime.failures == []


def test_no_effect_shows_a_password(rig: Rig) -> None:
    """D-20."""
    received = bus.Received(connection=1, data=create("marker"))
    shown = [repr(received)]
    rig.send(create("marker"))
    hashing = rig.take(HashPassword)
    shown.append(repr(hashing))
    hashed = bus.PasswordHashed(ticket=hashing.ticket, password_hash="marker")
    rig.tell(hashed)
    shown += [repr(hashed), repr(rig.take(Preflight))]
    assert "marker" not in " ".join(shown)
