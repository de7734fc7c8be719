"""Commands about the node: who may ask, what they show, and the members that went silent (requests 9, maintenance 4)."""

import json
import zipfile
from dataclasses import replace
from io import BytesIO

import pytest

from levrier.actors.bus import archive
from levrier.actors.bus import messages as bus
from levrier.actors.bus.bus import Bus, BusLimits
from levrier.actors.bus.effects import BuildArchive, Effect, VerifyPassword
from levrier.actors.client_table.messages import DISCONNECT_REQUEST, Preflight
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import FindCredentials, Survey
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.requests.system import GetClient, GetSnapshotFile
from levrier.wire.responses.system import ClientDetails, ClientGroup, ClientList, Stats
from tests.actors.bus.rig import (
    CLIENT,
    CONNECTION,
    EPOCH,
    SETTINGS,
    Answer,
    Rig,
    committed,
    credentials,
    node_status,
    query,
    register,
    request,
    surveyed,
    ticket_of,
)

ALL = GetSnapshotFile(compression=2, types=(100,))
RESTRICTED = [
    (CommandCode.GET_STATS, b""),
    (CommandCode.GET_CLIENT, GetClient(client_id=CONNECTION).encode()),
    (CommandCode.GET_CLIENTS, b""),
    (CommandCode.GET_SNAPSHOT_FILE, ALL.encode()),
]


@pytest.fixture
def rig() -> Rig:
    logged_in = Rig(settings=replace(SETTINGS, figures=lambda: Stats(process_id=42, hostname="host", memory_usage=7)))
    logged_in.log_in()
    return logged_in


def asked(rig: Rig, code: int, body: bytes = b"") -> Survey:
    """Send a command; what Metadata is asked for it."""
    rig.send(query(code, body))
    return rig.take(Survey)


@pytest.mark.parametrize(("code", "body"), RESTRICTED)
def test_a_user_without_the_right_to_read_servers_is_refused(rig: Rig, code: int, body: bytes) -> None:
    """State-machine 10.4: the Metadata actor judges, from applied state; nothing is built for whoever may not ask."""
    survey = asked(rig, code, body)
    assert (survey.restricted, survey.user_id) == (True, 0)
    rig.tell(surveyed(survey.ticket, permitted=False))
    answer = rig.answer()
    assert (answer.status, answer.body, answer.header.commit) == (41, b"", 33)


@pytest.mark.parametrize("code", [CommandCode.GET_CLIENT, CommandCode.GET_SNAPSHOT_FILE])
def test_a_missing_body_is_an_invalid_command(rig: Rig, code: int) -> None:
    assert rig.ask(query(code)).status == 3


def test_stats_are_the_figures_of_the_node_and_the_counts_of_metadata(rig: Rig) -> None:
    rig.registry.opened(9, "192.0.2.2:1")
    rig.tell(surveyed(asked(rig, CommandCode.GET_STATS).ticket))
    stats = Stats.decode(rig.answer().body)
    assert (stats.process_id, stats.hostname, stats.memory_usage) == (42, "host", 7)
    assert (stats.streams_count, stats.topics_count, stats.partitions_count) == (1, 2, 3)
    assert (stats.consumer_groups_count, stats.clients_count, stats.messages_count) == (4, 2, 0)


def test_every_user_may_ask_for_the_own_connection(rig: Rig) -> None:
    survey = asked(rig, CommandCode.GET_ME)
    assert (survey.restricted, survey.clients) == (False, (CLIENT,))
    rig.tell(surveyed(survey.ticket, memberships={CLIENT: ((0, 1, 2), (3, 4, 5))}))
    details = ClientDetails.decode(rig.answer().body)
    assert (details.client.client_id, details.client.user_id) == (CONNECTION, 0)
    assert (details.client.address, details.client.transport) == ("192.0.2.1:40000", 1)
    assert details.groups == (
        ClientGroup(stream_id=0, topic_id=1, group_id=2),
        ClientGroup(stream_id=3, topic_id=4, group_id=5),
    )


def test_a_deleted_user_is_refused_its_own_connection(rig: Rig) -> None:
    """D-02."""
    rig.tell(surveyed(asked(rig, CommandCode.GET_ME).ticket, permitted=False))
    assert rig.answer().status == 41


def test_all_connections_are_shown_with_the_number_of_their_groups(rig: Rig) -> None:
    rig.registry.opened(9, "192.0.2.2:1")
    survey = asked(rig, CommandCode.GET_CLIENTS)
    assert survey.clients == (CLIENT,), "whoever is not logged in is a member of nothing"
    rig.tell(surveyed(survey.ticket, memberships={CLIENT: ((0, 1, 2),)}))
    clients = ClientList.decode(rig.answer().body).clients
    assert [(client.client_id, client.user_id, client.consumer_groups_count) for client in clients] == [
        (CONNECTION, 0, 1),
        (9, 2**32 - 1, 0),
    ]


def test_one_connection_is_found_or_answered_with_nothing(rig: Rig) -> None:
    rig.tell(surveyed(asked(rig, CommandCode.GET_CLIENT, GetClient(client_id=CONNECTION).encode()).ticket))
    assert ClientDetails.decode(rig.answer().body).client.client_id == CONNECTION
    rig.tell(surveyed(asked(rig, CommandCode.GET_CLIENT, GetClient(client_id=1234).encode()).ticket))
    missing = rig.answer()
    assert (missing.status, missing.body) == (0, b"")


def test_an_answer_of_another_kind_does_not_move_a_command_on(rig: Rig) -> None:
    ticket = asked(rig, CommandCode.GET_STATS).ticket
    rig.tell(bus.ArchiveBuilt(ticket=ticket, archive=b"surplus"))
    rig.tell(node_status(ticket))
    rig.assert_silent()
    rig.tell(surveyed(ticket))
    assert rig.answer().status == 0


class TestArchive:
    def building(self, rig: Rig) -> BuildArchive:
        """Ask for everything, up to the work in the worker thread."""
        rig.tell(surveyed(asked(rig, CommandCode.GET_SNAPSHOT_FILE, ALL.encode()).ticket))
        rig.tell(node_status(rig.take(StatusQuery).ticket))
        return rig.take(BuildArchive)

    def test_it_is_built_elsewhere_and_handed_out(self, rig: Rig) -> None:
        work = self.building(rig)
        assert work.request == ALL
        assert json.loads(work.status)["commit"] == 20
        rig.tell(bus.ArchiveBuilt(ticket=work.ticket, archive=b"PK"))
        answer = rig.answer()
        assert (answer.status, answer.body) == (0, b"PK")

    def test_one_that_cannot_be_built_is_an_error_of_its_own(self, rig: Rig) -> None:
        work = self.building(rig)
        rig.tell(bus.ArchiveBuilt(ticket=work.ticket, archive=None))
        assert rig.answer().status == 9000

    @pytest.mark.parametrize(
        ("compression", "types", "status"),
        [(4, (100,), 9000), (6, (100,), 9000), (0, (100,), 4), (7, (100,), 4), (1, (7,), 4), (1, (1, 0), 4)],
    )
    def test_what_cannot_be_served_is_refused_before_anything_is_asked(
        self, rig: Rig, compression: int, types: tuple[int, ...], status: int
    ) -> None:
        body = GetSnapshotFile(compression=compression, types=types).encode()
        assert rig.ask(query(CommandCode.GET_SNAPSHOT_FILE, body)).status == status

    @pytest.mark.parametrize("compression", [1, 2, 3, 5])
    @pytest.mark.parametrize("types", [(), (100,), (6, 5)])
    def test_it_holds_what_was_asked_for(self, compression: int, types: tuple[int, ...]) -> None:
        files = {name: name.encode() * 50 for name in archive.FILE_OF_SECTION.values()}
        request_ = GetSnapshotFile(compression=compression, types=types)
        built = archive.build(request_, b"{}", files)
        expected = {"configuration.json", "logs.txt"} if types == (6, 5) else set(files)
        with zipfile.ZipFile(BytesIO(built)) as opened:
            assert set(opened.namelist()) == expected | {"status.json"}
            assert opened.read("logs.txt") == files["logs.txt"]
            methods = {entry.compress_type for entry in opened.infolist()}
        assert len(methods) == 1
        assert built == archive.build(request_, b"{}", files), "the same contents, the same bytes"

    def test_a_file_that_nobody_supplies_is_left_out(self) -> None:
        with zipfile.ZipFile(BytesIO(archive.build(ALL, b"{}", {}))) as opened:
            assert set(opened.namelist()) == {"status.json", "test.txt"}


class Connected:
    """A whole Bus with one logged-in connection."""

    def __init__(self, limits: BusLimits | None = None) -> None:
        self.bus = Bus(settings=SETTINGS, limits=BusLimits() if limits is None else limits)
        self.bus.on_opened(1, "192.0.2.1:1")
        (found,) = self.send(register())
        assert isinstance(found, FindCredentials)
        (verify,) = self.bus.on_answer(credentials(found.ticket))
        assert isinstance(verify, VerifyPassword)
        (preflight,) = self.bus.on_answer(bus.PasswordVerified(ticket=verify.ticket, matches=True))
        assert isinstance(preflight, Preflight)
        reply = committed(Operation.REGISTER, op=EPOCH, number=0)
        self.bus.on_answer(bus.Reply(ticket=ticket_of(preflight), frame=reply))
        self.answers()

    def send(self, frame: bytes) -> list[Effect]:
        return self.bus.on_received(1, frame)

    def answers(self) -> list[Answer]:
        """The frames that were written since the last look, one write each."""
        outgoing = self.bus.take_outgoing()
        for connection, _ in outgoing:
            self.bus.on_written(connection, blocked=False)
        return [Answer.of(data) for _, data in outgoing]

    def ticks(self, count: int) -> list[Effect]:
        return [effect for _ in range(count) for effect in self.bus.on_tick()]

    def silent(self, ticks: int) -> tuple[bus.SilentSession, ...]:
        """Let time pass; who was not heard of for more than 36 s."""
        assert self.ticks(ticks) == []
        return self.bus.silent(SILENCE)

    def end(self, sessions: tuple[bus.SilentSession, ...]) -> list[Effect]:
        """End them as stale; what is to be done for that."""
        return self.bus.end_silent(sessions, SILENCE)[1]


SILENCE = 36.0
SESSION = bus.SilentSession(connection=1, client=CLIENT, epoch=EPOCH)


class TestSilentMembers:
    """Maintenance 4: silent after 36 s. When to look, and whom to end, is the stale-session sweeper's business."""

    def test_a_silent_session_is_found_when_the_time_has_passed(self) -> None:
        node = Connected()
        assert node.silent(36) == ()
        assert node.silent(1) == (SESSION,)

    def test_a_silent_member_is_evicted_and_logged_out_and_keeps_its_connection(self) -> None:
        node = Connected()
        (logout,) = node.end(node.silent(60))
        assert isinstance(logout, Preflight)
        header = logout.request.header
        assert (header.operation, header.client, header.session) == (Operation.LOGOUT, CLIENT, EPOCH)
        assert header.request == DISCONNECT_REQUEST
        (evicted,) = node.answers()
        assert evicted.reason is EvictionReason.STALE_CLIENT
        assert (node.bus.connections, node.bus.sessions) == (1, 0)
        node.send(query(CommandCode.PING))
        assert node.answers()[0].status == 0

    def test_any_request_is_a_sign_of_life(self) -> None:
        """Wire 11: a ping every 5 s is what SDKs send."""
        node = Connected()
        for _ in range(40):
            node.send(query(CommandCode.PING))
            node.answers()
            assert node.silent(5) == ()

    def test_a_request_between_question_and_answer_saves_the_member(self) -> None:
        node = Connected()
        found = node.silent(60)
        node.send(query(CommandCode.PING))
        assert node.bus.end_silent(found, SILENCE) == ((), [])
        assert node.answers()[0].status == 0
        assert node.bus.sessions == 1

    def test_br_30_an_open_request_is_answered_by_the_eviction(self) -> None:
        """BR-30: evicted between arrival and handling, the client gets the stale-client code; its own answer is surplus."""
        node = Connected()
        (question,) = node.send(query(CommandCode.GET_STREAMS))
        node.end(node.silent(60))
        (evicted,) = node.answers()
        assert evicted.reason is EvictionReason.STALE_CLIENT
        node.bus.on_answer(bus.QueryAnswer(ticket=question.ticket, status=0, body=b"late", commit=1))  # type: ignore[union-attr]
        assert node.answers() == []

    def test_after_the_eviction_requests_find_no_session(self) -> None:
        node = Connected()
        node.end(node.silent(60))
        node.answers()
        node.send(request(Operation.CREATE_STREAM, b"\x01s"))
        assert node.answers()[0].reason is EvictionReason.NO_SESSION

    def test_connections_without_a_login_are_not_looked_at(self) -> None:
        node = Bus(settings=SETTINGS, limits=BusLimits())
        node.on_opened(1, "192.0.2.1:1")
        assert [effect for _ in range(200) for effect in node.on_tick()] == []
        assert node.silent(SILENCE) == ()

    def test_sessions_that_are_gone_meanwhile_are_left_alone(self) -> None:
        node = Connected()
        found = node.silent(60)
        node.bus.on_closed(1)
        assert node.bus.end_silent(found, SILENCE) == ((), [])
