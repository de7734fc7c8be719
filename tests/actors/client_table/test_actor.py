"""The ClientTable actor with probes for its neighbours: design 3, cases C-071 to C-080 and C-229, BR-29, D-02, D-10."""

from collections.abc import Iterator

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.messages import Ticket
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.client_table import messages as client_table
from levrier.actors.client_table.actor import ClientTableActor
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, ClientRequest
from levrier.actors.client_table.table import ClientTable
from levrier.actors.consensus import messages as consensus
from levrier.actors.consensus.messages import Outcome
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.wire.codes import ErrorCode, Operation
from levrier.wire.headers import PrepareHeader, RequestHeader
from levrier.wire.replies import committed_reply, result_rejection, result_success
from tests.actors.client_table.builders import ALICE, BOB, register, table_of

TICKET = Ticket(connection=3, number=9)
SERVER_CLIENT = ((2**64 - 1) << 64) | 5


class CapturedState:
    """Stands for the captured state machine: the table only hands it on."""

    op = 1
    timestamp = 2
    consensus_group_high = 3
    next_user_id = 4
    frontier = ()
    high_water = ()

    def users(self) -> Iterator[bytes]:
        yield b"users"

    def streams(self) -> Iterator[bytes]:
        yield b"streams"


class World:
    """One actor, three probes, and the op that comes next."""

    def __init__(self, table: ClientTable | None = None, last_op: int = 0) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.table = table or ClientTable(4)
        self.last_op = last_op
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.bus: Probe[bus.Command] = Probe("bus")
        self.checkpoint: Probe[checkpoint.Command] = Probe("checkpoint")
        self.ref = ClientTableActor.start(
            name="client-table",
            runtime=self.runtime,
            table=self.table,
            last_op=last_op,
            consensus=self.consensus,
            bus=self.bus,
            checkpoint=self.checkpoint,
        )

    def tell(self, message: client_table.Command) -> None:
        self.ref.tell(message)
        self.runtime.run()

    def preflight(self, request: ClientRequest) -> None:
        self.tell(client_table.Preflight(request=request))

    def verdict(self, request: ClientRequest) -> tuple[Outcome, int]:
        """What Consensus is told of a fresh request, and nobody else anything."""
        self.preflight(request)
        verdict = self.consensus.take()
        assert isinstance(verdict, consensus.Verdict)
        assert (verdict.token, verdict.request) == (0, request)
        self.assert_silent()
        return verdict.outcome, verdict.user_id

    def replay(self, request: ClientRequest) -> bytes:
        """The frame that answers a request from the ring, while Consensus hears nothing."""
        self.preflight(request)
        answer = self.bus.take()
        assert isinstance(answer, bus.Reply)
        assert answer.ticket == request.ticket
        self.assert_silent()
        return answer.frame

    def commit(
        self,
        client: int,
        request: int,
        *,
        operation: int = Operation.CREATE_STREAM,
        user_id: int = ALICE,
        checksum: int = 0,
        body: bytes = result_success(),
        reply_to: Ticket | None = None,
        dropped_users: tuple[int, ...] = (),
    ) -> bytes:
        """Commit the next op; gives the reply frame. Applied is checked here, a Reply is left in the probe."""
        self.last_op += 1
        header = PrepareHeader(
            op=self.last_op,
            operation=operation,
            client=client,
            request=request,
            user_id=user_id,
            request_checksum=checksum,
        )
        frame = committed_reply(header, body)
        self.tell(client_table.Commit(header=header, reply=frame, reply_to=reply_to, dropped_users=dropped_users))
        assert self.consensus.take() == consensus.Applied(op=self.last_op)
        return frame

    def register(self, client: int, user_id: int = ALICE) -> int:
        """Commit a register; gives its epoch."""
        self.commit(client, 0, operation=Operation.REGISTER, user_id=user_id)
        return self.last_op

    def assert_silent(self) -> None:
        self.consensus.assert_silent()
        self.bus.assert_silent()
        self.checkpoint.assert_silent()
        assert self.runtime.failures == []


def request(
    client: int,
    number: int,
    session: int,
    *,
    operation: int = Operation.CREATE_STREAM,
    checksum: int = 0,
    ticket: Ticket | None = TICKET,
    user_id: int = 0,
) -> ClientRequest:
    header = RequestHeader(
        client=client, request=number, operation=operation, session=session, request_checksum=checksum, user_id=99
    )
    return ClientRequest(ticket=ticket, header=header, body=b"", user_id=user_id)


def login(client: int, user_id: int) -> ClientRequest:
    return request(client, 0, 0, operation=Operation.REGISTER, user_id=user_id)


def logout(client: int, session: int, number: int = 2) -> ClientRequest:
    return request(client, number, session, operation=Operation.LOGOUT)


def disconnect(client: int, session: int) -> ClientRequest:
    return request(client, DISCONNECT_REQUEST, session, operation=Operation.LOGOUT, ticket=None)


def test_a_new_request_gets_the_acting_user_of_its_session() -> None:
    """C-080, client-table 8: never the user that the wire names."""
    world = World()
    epoch = world.register(1, BOB)
    world.commit(1, 2, user_id=BOB)
    assert world.verdict(request(1, 9, epoch)) == (Outcome.NEW, BOB)


def test_a_register_of_a_new_client_is_new() -> None:
    """C-072."""
    assert World().verdict(login(1, ALICE)) == (Outcome.NEW, ALICE)


def test_a_register_of_root_is_new() -> None:
    """C-072: user id 0 is root's and is a user like any other here."""
    assert World().verdict(login(1, 0)) == (Outcome.NEW, 0)


def test_a_register_of_a_client_that_has_committed_is_new() -> None:
    """C-071."""
    world = World()
    world.register(1)
    world.commit(1, 1)
    assert world.verdict(login(1, ALICE)) == (Outcome.NEW, ALICE)


def test_a_register_by_another_user_is_refused() -> None:
    """C-079: B is refused, A is not, and the owner stays."""
    world = World()
    world.register(1, ALICE)
    assert world.verdict(login(1, BOB)) == (Outcome.OWNED_BY_ANOTHER_USER, BOB)
    assert world.verdict(login(1, ALICE)) == (Outcome.NEW, ALICE)
    assert world.table.user_of(1) == ALICE


def test_roots_client_id_is_not_anybodys() -> None:
    """C-079 with user id 0 as the owner, which is easily taken for none."""
    world = World()
    world.register(1, 0)
    assert world.verdict(login(1, BOB)) == (Outcome.OWNED_BY_ANOTHER_USER, BOB)


def test_an_unknown_client_is_reported_not_evicted() -> None:
    """C-073, C-076: only Consensus knows whether an eviction may be said, so the Bus hears nothing."""
    assert World().verdict(request(1, 1, 5)) == (Outcome.NO_SESSION, 0)


def test_an_older_epoch() -> None:
    """C-074."""
    world = World()
    old = world.register(1)
    world.register(1)
    assert world.verdict(request(1, 1, old)) == (Outcome.FENCED, 0)


def test_a_newer_epoch() -> None:
    """C-075."""
    world = World()
    epoch = world.register(1)
    assert world.verdict(request(1, 1, epoch + 82)) == (Outcome.EPOCH_AHEAD, 0)


def test_a_cached_reply_goes_straight_to_the_bus() -> None:
    """C-077: requests 3 and 5 committed; 3 is answered from the ring and Consensus is not bothered (rule 4)."""
    world = World()
    epoch = world.register(1)
    third = world.commit(1, 3)
    world.commit(1, 5)
    assert world.replay(request(1, 3, epoch)) == third


def test_a_cached_reply_that_nobody_waits_for_is_not_sent() -> None:
    """A request without a ticket has no answer; Consensus learns that it is done."""
    world = World()
    epoch = world.register(1)
    world.commit(1, 3)
    assert world.verdict(request(1, 3, epoch, ticket=None)) == (Outcome.ALREADY_APPLIED, 0)


def test_an_aged_out_request() -> None:
    """C-078."""
    world = World()
    epoch = world.register(1)
    for number in range(1, 7):
        world.commit(1, number)
    assert world.verdict(request(1, 1, epoch)) == (Outcome.ALREADY_APPLIED, 0)


def test_a_reused_request_number() -> None:
    """C-161 through the actor."""
    world = World()
    epoch = world.register(1)
    world.commit(1, 1, checksum=0xAA)
    assert world.verdict(request(1, 1, epoch, checksum=0xBB)) == (Outcome.CHECKSUM_MISMATCH, 0)


def test_a_fence_answers_for_an_evicted_session() -> None:
    """D-29: the reply is replayed although the session has lost its slot."""
    world = World(ClientTable(1))
    epoch = world.register(1)
    frame = world.commit(1, 1)
    world.register(2)
    assert world.replay(request(1, 1, epoch)) == frame
    assert world.verdict(request(1, 2, epoch)) == (Outcome.NO_SESSION, 0)


def test_a_created_token_is_not_shown_twice() -> None:
    """C-229: a successful creation is refused with name-exists, a rejected one is replayed verbatim."""
    world = World()
    epoch = world.register(1)
    token = Operation.CREATE_PERSONAL_ACCESS_TOKEN
    world.commit(1, 1, operation=token, body=result_success(b"hash"))
    rejected = world.commit(
        1, 2, operation=token, body=result_rejection(ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS)
    )
    assert world.verdict(request(1, 1, epoch, operation=token)) == (Outcome.TOKEN_EXISTS, 0)
    assert world.replay(request(1, 2, epoch, operation=token)) == rejected


def test_what_a_retry_calls_itself_does_not_reveal_a_token() -> None:
    """C-229: the cached reply decides, not the operation that the retry claims."""
    world = World()
    epoch = world.register(1)
    world.commit(1, 1, operation=Operation.CREATE_PERSONAL_ACCESS_TOKEN, body=result_success(b"hash"))
    assert world.verdict(request(1, 1, epoch)) == (Outcome.TOKEN_EXISTS, 0)
    assert world.verdict(logout(1, epoch, 1)) == (Outcome.TOKEN_EXISTS, ALICE)


def test_a_logout_is_stamped_with_the_owner_of_its_session() -> None:
    """Client-table 7: of the live session; 0 for a session that nobody knows."""
    world = World()
    old = world.register(1)
    epoch = world.register(1)
    assert world.verdict(logout(1, epoch)) == (Outcome.NEW, ALICE)
    assert world.verdict(logout(1, old)) == (Outcome.FENCED, 0)
    assert world.verdict(logout(2, epoch)) == (Outcome.NO_SESSION, 0)


def test_a_logout_of_a_fenced_session_names_its_owner() -> None:
    """C-186 through the actor."""
    world = World(ClientTable(1))
    epoch = world.register(1, BOB)
    world.register(2)
    assert world.verdict(logout(1, epoch)) == (Outcome.NO_SESSION, BOB)


def test_a_disconnect_logout_of_the_live_session_is_new() -> None:
    """Client-table 7."""
    world = World()
    epoch = world.register(1)
    assert world.verdict(disconnect(1, epoch)) == (Outcome.NEW, ALICE)


def test_a_disconnect_logout_of_an_older_session_is_not_let_through() -> None:
    """BR-29: it must not end the session that came after."""
    world = World()
    old = world.register(1)
    new = world.register(1)
    assert world.verdict(disconnect(1, old)) == (Outcome.FENCED, 0)
    assert world.verdict(disconnect(1, new + 1)) == (Outcome.EPOCH_AHEAD, 0)
    assert world.verdict(disconnect(2, new)) == (Outcome.NO_SESSION, 0)
    assert world.table.epoch_of(1) == new


def test_a_disconnect_logout_is_new_even_over_the_highest_request_number() -> None:
    """Client-table 7: a client that used up the numbers would otherwise keep its slot for ever."""
    world = World()
    epoch = world.register(1)
    world.commit(1, DISCONNECT_REQUEST)
    assert world.verdict(disconnect(1, epoch)) == (Outcome.NEW, ALICE)


def test_a_recheck_carries_its_token() -> None:
    """Rule 5: promotion asks again."""
    world = World()
    epoch = world.register(1, BOB)
    queued = request(1, 1, epoch)
    world.tell(client_table.Recheck(token=77, request=queued))
    assert world.consensus.take() == consensus.Verdict(token=77, request=queued, outcome=Outcome.NEW, user_id=BOB)
    world.assert_silent()


def test_a_recheck_of_a_done_request_replays_and_frees_its_slot() -> None:
    """Rule 5: the reply first, and Consensus hears REPLAYED so that the reserved slot is not lost."""
    world = World()
    epoch = world.register(1)
    frame = world.commit(1, 1)
    queued = request(1, 1, epoch)
    world.tell(client_table.Recheck(token=77, request=queued))
    assert world.bus.take() == bus.Reply(ticket=TICKET, frame=frame)
    assert world.consensus.take() == consensus.Verdict(token=77, request=queued, outcome=Outcome.REPLAYED, user_id=0)
    world.assert_silent()


def test_a_recheck_that_nobody_waits_for_frees_its_slot() -> None:
    """Rule 5 without a ticket."""
    world = World()
    epoch = world.register(1)
    world.commit(1, 1)
    world.tell(client_table.Recheck(token=77, request=request(1, 1, epoch, ticket=None)))
    verdict = world.consensus.take()
    assert isinstance(verdict, consensus.Verdict)
    assert (verdict.token, verdict.outcome) == (77, Outcome.REPLAYED)
    world.assert_silent()


def test_a_recheck_of_a_created_token() -> None:
    """C-229 for a queued request: no reply, and the token comes back."""
    world = World()
    epoch = world.register(1)
    world.commit(1, 1, operation=Operation.CREATE_PERSONAL_ACCESS_TOKEN)
    world.tell(client_table.Recheck(token=77, request=request(1, 1, epoch)))
    verdict = world.consensus.take()
    assert isinstance(verdict, consensus.Verdict)
    assert (verdict.token, verdict.outcome) == (77, Outcome.TOKEN_EXISTS)
    world.assert_silent()


@pytest.mark.parametrize("outcome", [Outcome.NEW, Outcome.OWNED_BY_ANOTHER_USER])
def test_a_recheck_of_a_register(outcome: Outcome) -> None:
    """Rule 5: the owner may have changed while the register was queued."""
    world = World()
    if outcome is Outcome.OWNED_BY_ANOTHER_USER:
        world.register(1, BOB)
    queued = login(1, ALICE)
    world.tell(client_table.Recheck(token=5, request=queued))
    assert world.consensus.take() == consensus.Verdict(token=5, request=queued, outcome=outcome, user_id=ALICE)
    world.assert_silent()


def test_a_commit_answers_whoever_waits_and_reports_applied() -> None:
    """Rule 2: the reply and then Applied, also for a register and for a logout."""
    world = World()
    for client, number, operation in (
        (1, 0, Operation.REGISTER),
        (1, 1, Operation.CREATE_STREAM),
        (1, 2, Operation.LOGOUT),
        (1, 3, Operation.CREATE_STREAM),
    ):
        frame = world.commit(client, number, operation=operation, reply_to=TICKET)
        assert world.bus.take() == bus.Reply(ticket=TICKET, frame=frame)
        world.assert_silent()


def test_a_commit_that_nobody_waits_for_tells_the_bus_nothing() -> None:
    """Rule 7: none on backups and in replay."""
    world = World()
    world.register(1)
    world.commit(1, 1)
    world.assert_silent()


def test_a_verdict_taken_before_a_commit_is_told_before_its_applied() -> None:
    """Rule 3: so Consensus still has the client's op in its pipeline when it reads the verdict."""
    world = World()
    epoch = world.register(1)
    header = PrepareHeader(op=2, operation=Operation.CREATE_STREAM, client=1, request=1, user_id=ALICE)
    retry = request(1, 1, epoch)
    world.ref.tell(client_table.Preflight(request=retry))
    world.ref.tell(client_table.Commit(header=header, reply=committed_reply(header, b""), reply_to=None))
    world.ref.tell(client_table.Preflight(request=retry))
    world.runtime.run()
    first, second = world.consensus.take(), world.consensus.take()
    assert isinstance(first, consensus.Verdict)
    assert first.outcome is Outcome.NEW
    assert second == consensus.Applied(op=2)
    assert world.bus.count == 1
    world.consensus.assert_silent()


@pytest.mark.parametrize("op", [1, 2, 4])
def test_a_commit_out_of_order_is_our_bug(op: int) -> None:
    """Rule 2: repeated, older and skipped ops; the node ends, and nothing of the op is told to anybody."""
    world = World(last_op=2)
    header = PrepareHeader(op=op, operation=Operation.CREATE_STREAM, client=1, request=1)
    world.tell(client_table.Commit(header=header, reply=committed_reply(header, b""), reply_to=TICKET))
    assert [(failure.actor, failure.status) for failure in world.runtime.failures] == [("client-table", 12)]
    world.consensus.assert_silent()
    world.bus.assert_silent()


@pytest.mark.parametrize("client", [0, SERVER_CLIENT])
def test_operations_of_the_node_itself_are_not_cached(client: int) -> None:
    """D-10: they pass the whole commit stream and leave no trace in the table."""
    world = World()
    before = world.table.capture()
    world.commit(client, 0, operation=Operation.COMPLETE_CONSUMER_GROUP_REVOCATION, user_id=0)
    world.commit(client, 0, operation=Operation.BOOTSTRAP_ROOT, user_id=0)
    assert world.table.capture() == before
    world.assert_silent()


def test_operations_of_the_node_itself_delete_users_too() -> None:
    """D-02 with D-10: not caching is all that is skipped."""
    world = World()
    epoch = world.register(1, BOB)
    world.commit(0, 0, operation=Operation.DELETE_USER, user_id=0, dropped_users=(BOB,))
    assert world.verdict(request(1, 1, epoch)) == (Outcome.NO_SESSION, 0)


def test_a_logout_ends_the_session_for_good() -> None:
    """C-181, client-table 7: explicit, so a new login starts at 0."""
    world = World()
    epoch = world.register(1)
    world.commit(1, 5)
    world.commit(1, 6, operation=Operation.LOGOUT)
    assert world.verdict(request(1, 5, epoch)) == (Outcome.NO_SESSION, 0)
    assert world.verdict(request(1, 5, world.register(1))) == (Outcome.NEW, ALICE)


def test_a_disconnect_keeps_what_a_retry_needs() -> None:
    """C-183, client-table 7: the request number of the Logout tells the kind of end."""
    world = World()
    epoch = world.register(1)
    frame = world.commit(1, 5)
    world.commit(1, DISCONNECT_REQUEST, operation=Operation.LOGOUT)
    assert world.replay(request(1, 5, epoch)) == frame
    assert world.replay(request(1, 5, world.register(1))) == frame


def test_a_deleted_user_loses_its_sessions_with_the_op_that_deletes_it() -> None:
    """D-02: the deleter's own reply is cached first; a user who deletes itself loses that, too."""
    world = World()
    alice, bob = world.register(1, ALICE), world.register(2, BOB)
    frame = world.commit(1, 1, operation=Operation.DELETE_USER, dropped_users=(BOB,), reply_to=TICKET)
    assert world.bus.take() == bus.Reply(ticket=TICKET, frame=frame)
    assert world.verdict(request(2, 1, bob)) == (Outcome.NO_SESSION, 0)
    assert world.replay(request(1, 1, alice)) == frame
    world.commit(1, 2, operation=Operation.DELETE_USER, dropped_users=(ALICE,))
    assert world.verdict(request(1, 2, alice)) == (Outcome.NO_SESSION, 0)


def test_late_commits_of_lost_sessions_are_answered_all_the_same() -> None:
    """C-169, C-175: which sessions exist is this replica's affair; the reply is not."""
    world = World()
    frame = world.commit(1, 1, reply_to=TICKET)
    assert world.bus.take() == bus.Reply(ticket=TICKET, frame=frame)
    assert world.table.count == 0
    world.assert_silent()


def test_an_evicting_register_is_an_ordinary_commit() -> None:
    """C-172 through the actor, retention included."""
    world = World(ClientTable(1))
    for client in (1, 2, 3):
        world.register(client)
    assert (world.table.user_of(1), world.table.user_of(3)) == (None, ALICE)
    assert [fence.client for fence in world.table.fences] == [2]


def test_ops_that_an_installed_table_reflects_are_not_repeated() -> None:
    """Client-table 11: no effect on the table up to the frontier; replies and Applied all the same."""
    table = ClientTable(4)
    table.install(table_of(4, (1, 2)), 2)
    world = World(table, last_op=0)
    world.commit(1, 0, operation=Operation.REGISTER, user_id=BOB)
    world.commit(1, 1, operation=Operation.CREATE_STREAM, dropped_users=(ALICE,), reply_to=TICKET)
    assert world.bus.count == 1
    assert (table.user_of(1), table.epoch_of(1)) == (ALICE, 2)
    world.commit(1, 1)
    entry = table.entry_of(1)
    assert entry is not None
    assert entry.watermark == 1


def test_a_capture_hands_both_parts_to_the_coordinator() -> None:
    """Design, path of a checkpoint: the table as of the op of the marker, whatever commits afterwards."""
    world = World()
    world.register(1)
    state = CapturedState()
    expected = b"".join(world.table.capture().chunks())
    world.tell(client_table.Capture(op=1, metadata=state))
    world.commit(1, 1)
    captured = world.checkpoint.take()
    assert isinstance(captured, checkpoint.Captured)
    assert captured.op == 1
    assert captured.metadata is state
    assert b"".join(captured.clients.chunks()) == expected
    world.assert_silent()


@pytest.mark.parametrize("op", [1, 3])
def test_a_capture_of_another_op_is_our_bug(op: int) -> None:
    """Design, path of a checkpoint: the marker travels in the commit stream."""
    world = World(last_op=2)
    world.tell(client_table.Capture(op=op, metadata=CapturedState()))
    assert [failure.actor for failure in world.runtime.failures] == ["client-table"]
    world.checkpoint.assert_silent()


def test_a_capture_changes_nothing() -> None:
    """A checkpoint may be asked for at any time, twice at one op as well."""
    world = World()
    epoch = world.register(1)
    before = world.table.capture()
    world.tell(client_table.Capture(op=1, metadata=CapturedState()))
    world.tell(client_table.Capture(op=1, metadata=CapturedState()))
    assert world.checkpoint.count == 2
    assert world.table.capture() == before
    world.checkpoint.take_all()
    assert world.verdict(request(1, 1, epoch)) == (Outcome.NEW, ALICE)


def test_a_restarted_actor_goes_on_from_its_table() -> None:
    """Client-table 11: recovery hands in the restored table and the op it reflects."""
    table = ClientTable(4)
    register(table, 1, 7)
    world = World(table, last_op=7)
    frame = world.commit(1, 1)
    assert world.replay(request(1, 1, 7)) == frame
