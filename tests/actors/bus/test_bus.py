"""The core of the Bus: what connections may hold, when they are read, what they leave behind."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.effects import CloseConnection, Effect, PauseReading, ResumeReading, VerifyPassword
from levrier.actors.bus.gateway import UNFLUSHED_MAX
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, Preflight
from levrier.actors.metadata.messages import FindCredentials, Query
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.requests.streams import CreateStream
from tests.actors.bus.rig import CLIENT, SETTINGS, Answer, committed, credentials, query, register, request, ticket_of

LIMITS = BusLimits(
    connections_max=3,
    frame_size_max=8_192,
    anonymous_frame_size_max=1_024,
    backlog_max=4,
    backlog_size_max=8_192,
    held_size_max=16_384,
)
PING = query(CommandCode.PING, session=0)
CREATE = request(Operation.CREATE_STREAM, CreateStream(name="prod").encode())


class CoreRig:
    """A Bus core, and what came out of it."""

    def __init__(self, limits: BusLimits = LIMITS) -> None:
        self.core = Bus(settings=SETTINGS, limits=limits)
        self.effects: list[Effect] = []

    def open(self, *connections: int) -> None:
        """Connections are accepted."""
        for connection in connections:
            self.effects += self.core.on_opened(connection, f"192.0.2.1:{connection}")

    def receive(self, connection: int, data: bytes) -> None:
        """Bytes arrive."""
        self.effects += self.core.on_received(connection, data)

    def tell(self, answer: bus.Answer) -> None:
        """An actor answers."""
        self.effects += self.core.on_answer(answer)

    def tick(self, times: int = 1) -> None:
        """Seconds pass."""
        for _ in range(times):
            self.effects += self.core.on_tick()

    def take(self) -> list[Effect]:
        """What was wanted since the last look."""
        effects, self.effects = self.effects, []
        return effects

    def flush(self, *, blocked: Callable[[int], bool] = lambda _connection: False) -> dict[int, list[Answer]]:
        """Write everything; the answers by connection."""
        answers: dict[int, list[Answer]] = {}
        while outgoing := self.core.take_outgoing():
            for connection, data in outgoing:
                answers.setdefault(connection, []).extend(cut(data))
                self.effects += self.core.on_written(connection, blocked=blocked(connection))
        return answers

    def register(self, connection: int, client: int) -> bus.Ticket:
        """A login up to its Preflight."""
        self.receive(connection, register(client=client))
        (found,) = self.take()
        assert isinstance(found, FindCredentials)
        self.tell(credentials(found.ticket))
        (verify,) = self.take()
        assert isinstance(verify, VerifyPassword)
        self.tell(bus.PasswordVerified(ticket=verify.ticket, matches=True))
        (preflight,) = self.take()
        assert isinstance(preflight, Preflight)
        return ticket_of(preflight)

    def log_in(self, connection: int, *, client: int = CLIENT, epoch: int = 11) -> None:
        """A whole login."""
        ticket = self.register(connection, client)
        self.tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=epoch, client=client, number=0)))
        (answer,) = self.flush()[connection]
        assert answer.result == 0


def cut(data: bytes) -> list[Answer]:
    """The frames of one write."""
    answers = []
    while data:
        size = int.from_bytes(data[48:52], "little")
        answers.append(Answer.of(data[:size]))
        data = data[size:]
    return answers


def closed(effects: list[Effect]) -> list[int]:
    """Whom the core wants closed; nothing else was wanted."""
    assert all(isinstance(effect, CloseConnection) for effect in effects)
    return [effect.connection for effect in effects if isinstance(effect, CloseConnection)]


def test_frames_cut_anywhere_are_answered_once_each() -> None:
    rig = CoreRig()
    rig.open(1)
    stream = PING * 3
    for start in range(0, len(stream), 100):
        rig.receive(1, stream[start : start + 100])
    assert rig.take() == []
    assert [answer.status for answer in rig.flush()[1]] == [0, 0, 0]
    assert rig.core.held_size == 0


def test_answers_of_one_batch_are_joined_per_connection_in_order() -> None:
    rig = CoreRig()
    rig.open(1, 2)
    rig.receive(2, PING)
    rig.receive(1, PING + PING)
    assert [(connection, len(data)) for connection, data in rig.core.take_outgoing()] == [(2, 256), (1, 512)]


def test_a_connection_too_many_is_closed_and_the_others_are_not() -> None:
    rig = CoreRig()
    rig.open(1, 2, 3, 4)
    assert closed(rig.take()) == [4]
    rig.receive(4, PING)
    rig.receive(3, PING)
    assert list(rig.flush()) == [3]
    rig.effects += rig.core.on_closed(4)
    rig.effects += rig.core.on_closed(2)
    rig.open(5)
    assert rig.take() == []


@pytest.mark.parametrize("size", [0, 255, LIMITS.frame_size_max + 1, 2**32 - 1])
def test_a_frame_of_impossible_size_closes_its_connection_only(size: int) -> None:
    rig = CoreRig()
    rig.open(1, 2)
    rig.receive(1, PING + PING[:48] + size.to_bytes(4, "little") + PING[52:])
    assert closed(rig.take()) == [1]
    rig.receive(1, PING)
    rig.receive(2, PING)
    answers = rig.flush()
    # The whole frame in front of the broken one is still answered.
    assert [answer.status for answer in answers[1]] == [0]
    assert [answer.status for answer in answers[2]] == [0]
    assert rig.core.connections == 1


def test_a_frame_behind_one_that_is_no_request_is_not_handled() -> None:
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    rig.receive(1, committed(Operation.CREATE_STREAM, op=1) + CREATE)
    assert [type(effect) for effect in rig.take()] == [Preflight, CloseConnection]
    assert rig.core.connections == 0


def test_random_bytes_never_do_more_than_close_the_connection() -> None:
    generator = random.Random(5)
    rig = CoreRig()
    for connection in range(1, 200):
        rig.open(connection)
        data = bytearray(generator.randbytes(600))
        if connection % 2:
            data[48:52] = (256 + connection).to_bytes(4, "little")
            data[60] = 5
        rig.receive(connection, bytes(data))
        for effect in rig.take():
            assert isinstance(effect, CloseConnection)
        rig.flush()
        rig.effects += rig.core.on_closed(connection)
    assert rig.take() == []
    assert (rig.core.connections, rig.core.held_size) == (0, 0)


def test_a_large_frame_before_login_is_not_held() -> None:
    rig = CoreRig()
    rig.open(1)
    header = PING[:48] + (4_096).to_bytes(4, "little") + PING[52:]
    rig.receive(1, header + bytes(700))
    assert rig.take() == []
    rig.receive(1, bytes(100))
    assert closed(rig.take()) == [1]
    assert rig.core.held_size == 0


def test_half_frames_of_all_connections_together_are_bounded() -> None:
    rig = CoreRig()
    rig.open(1, 2, 3)
    for connection in (1, 2, 3):
        rig.log_in(connection, client=CLIENT + connection, epoch=10 + connection)
    half = CREATE[:48] + (8_192).to_bytes(4, "little") + CREATE[52:] + bytes(7_600)
    rig.receive(1, half)
    rig.receive(2, half)
    assert rig.take() == []
    rig.receive(3, half)
    wanted = rig.take()
    assert [type(effect) for effect in wanted] == [Preflight, CloseConnection]
    assert rig.core.held_size <= LIMITS.held_size_max
    assert rig.core.connections == 2


def test_half_a_frame_is_not_held_for_ever_and_progress_gives_more_time() -> None:
    rig = CoreRig()
    rig.open(1, 2, 3)
    rig.receive(1, PING[:100])
    rig.tick(LIMITS.half_frame_ticks)
    assert rig.take() == []
    rig.receive(2, PING[:100])
    rig.receive(1, PING[100:101])
    rig.tick(LIMITS.half_frame_ticks)
    assert rig.take() == []
    rig.receive(1, PING[101:])
    rig.tick()
    assert closed(rig.take()) == [2]
    assert rig.core.connections == 2


def test_a_connection_with_its_share_in_flight_is_not_read_until_it_was_answered() -> None:
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    rig.receive(1, CREATE * (LIMITS.backlog_max + 1))
    first, paused = rig.take()
    assert isinstance(first, Preflight)
    assert paused == PauseReading(connection=1)

    rig.tell(bus.Reply(ticket=ticket_of(first), frame=committed(Operation.CREATE_STREAM, op=12)))
    second, resumed = rig.take()
    assert isinstance(second, Preflight)
    assert resumed == ResumeReading(connection=1)


def test_large_waiting_requests_count_by_size() -> None:
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    large = request(Operation.SEND_MESSAGES, bytes(7_900))
    rig.receive(1, CREATE + large)
    assert [type(effect) for effect in rig.take()] == [Preflight]
    rig.receive(1, CREATE)
    assert rig.take() == [PauseReading(connection=1)]


def answer_large(rig: CoreRig, connection: int = 1, *, client: int = CLIENT) -> None:
    rig.receive(connection, query(CommandCode.GET_STREAMS, client=client))
    (asked,) = rig.take()
    assert isinstance(asked, Query)
    rig.tell(bus.QueryAnswer(ticket=asked.ticket, status=0, body=bytes(UNFLUSHED_MAX), commit=12))
    assert len(rig.flush(blocked=lambda _connection: True)[connection]) == 1


def test_a_peer_that_does_not_read_is_neither_read_nor_served_until_it_does() -> None:
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    answer_large(rig)
    assert rig.take() == [PauseReading(connection=1)]
    rig.receive(1, PING)
    assert rig.flush() == {}

    rig.effects += rig.core.on_write_resumed(1)
    assert rig.take() == [ResumeReading(connection=1)]
    assert [answer.status for answer in rig.flush()[1]] == [0]


def test_a_peer_that_never_reads_is_closed() -> None:
    rig = CoreRig()
    rig.open(1, 2)
    rig.log_in(1)
    answer_large(rig)
    rig.take()
    rig.tick(LIMITS.write_stall_ticks)
    assert rig.take() == []
    rig.tick()
    logout, close = rig.take()
    assert isinstance(logout, Preflight)
    assert isinstance(close, CloseConnection)
    assert (close.connection, close.abort) == (1, True)
    assert rig.core.connections == 1


def test_answers_that_nobody_reads_are_bounded_over_all_connections() -> None:
    """One answer is as large as the catalogue, and every connection may leave one unread: who was first has to go."""
    rig = CoreRig(replace(LIMITS, unread_size_max=2 * (UNFLUSHED_MAX + 1_024)))
    rig.open(1, 2, 3)
    for connection in (1, 2, 3):
        rig.log_in(connection, client=CLIENT + connection, epoch=10 + connection)
    for connection in (2, 1):
        answer_large(rig, connection, client=CLIENT + connection)
        assert rig.take() == [PauseReading(connection=connection)]
    assert rig.core.unread_size >= 2 * UNFLUSHED_MAX
    answer_large(rig, 3, client=CLIENT + 3)
    pause, logout, close = rig.take()
    assert pause == PauseReading(connection=3)
    assert isinstance(logout, Preflight)
    assert isinstance(close, CloseConnection)
    assert (close.connection, close.abort) == (2, True)
    for connection in (1, 3):
        rig.effects += rig.core.on_write_resumed(connection)
    assert rig.core.unread_size == 0
    assert rig.take() == [ResumeReading(connection=1), ResumeReading(connection=3)]


def test_pings_that_nobody_reads_are_bounded() -> None:
    rig = CoreRig()
    rig.open(1)
    written = 0
    for _ in range(4_000):
        rig.receive(1, PING)
        for _connection, data in rig.core.take_outgoing():
            written += len(data)
            rig.effects += rig.core.on_written(1, blocked=True)
    assert written <= UNFLUSHED_MAX + 2 * 256
    assert PauseReading(connection=1) in rig.take()


def test_a_closed_connection_logs_its_session_out_and_is_told_nothing_more() -> None:
    """C-053: whoever answers finds that nobody listens any more, and nothing is kept."""
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1, epoch=11)
    rig.receive(1, CREATE)
    (create,) = rig.take()
    assert isinstance(create, Preflight)
    rig.effects += rig.core.on_closed(1)
    (logout,) = rig.take()
    assert isinstance(logout, Preflight)
    header = logout.request.header
    assert (header.client, header.session, header.request) == (CLIENT, 11, DISCONNECT_REQUEST)

    rig.tell(bus.Reply(ticket=ticket_of(create), frame=committed(Operation.CREATE_STREAM, op=12)))
    assert rig.take() == []
    assert rig.flush() == {}
    # The create was under way when the logout came: it is tried again.
    rig.tell(bus.Deny(ticket=ticket_of(logout), code=57, commit=11))
    rig.tick()
    (again,) = rig.take()
    assert isinstance(again, Preflight)
    rig.tell(bus.Evict(ticket=ticket_of(again), reason=EvictionReason.NO_SESSION))
    assert rig.core.unsettled_logouts == 0


def test_a_connection_that_never_logged_in_leaves_nothing() -> None:
    rig = CoreRig()
    rig.open(1)
    rig.receive(1, PING + register())
    rig.take()
    rig.effects += rig.core.on_closed(1)
    assert rig.take() == []
    assert rig.core.unsettled_logouts == 0


def test_a_login_under_way_when_its_connection_closes_is_undone_once_it_commits() -> None:
    """BR-25: no slot leaks, also when the client leaves between its Register and the commit."""
    rig = CoreRig()
    rig.open(1)
    ticket = rig.register(1, CLIENT)
    rig.effects += rig.core.on_closed(1)
    assert rig.take() == []
    rig.tell(bus.Reply(ticket=ticket, frame=committed(Operation.REGISTER, op=31, number=0)))
    (logout,) = rig.take()
    assert isinstance(logout, Preflight)
    assert (logout.request.header.client, logout.request.header.session) == (CLIENT, 31)


def test_a_closed_connection_may_be_reported_twice() -> None:
    rig = CoreRig()
    rig.open(1)
    rig.log_in(1)
    rig.effects += rig.core.on_closed(1)
    rig.effects += rig.core.on_closed(1)
    assert len(rig.take()) == 1
