"""The desk isolates: one delivery at a time, everything that waits is bounded, who raises pauses, who blocks is reported."""

import pytest

from levrier.actors.bus.messages import Deny, Reply, Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus.messages import SubmitOwn
from levrier.actors.plugins.desk import Effect, PluginDesk, TellPlugin, Warn
from levrier.actors.plugins.limits import (
    BLOCKED_SECONDS,
    FORGIVEN_SECONDS,
    NANOS_PER_SECOND,
    NOTICES_AT_ONCE_MAX,
    NOTICES_MAX,
    SUBMIT_SECONDS,
    SUBMITS_IN_FLIGHT_MAX,
    back_off_seconds,
)
from levrier.actors.plugins.messages import (
    CommitNotice,
    Committed,
    Deliver,
    Fate,
    Handled,
    Resync,
    RoleChanged,
    Settled,
    Started,
    Submit,
    Ticked,
)
from levrier.actors.plugins.report import PluginState
from levrier.wire.codes import Operation
from levrier.wire.prepare_header import PrepareHeader
from levrier.wire.replies import committed_reply, result_success

CREATE = int(Operation.CREATE_STREAM)
LEADER = RoleChanged(is_leader=True, is_settled=True, view=0)
FOLLOWER = RoleChanged(is_leader=False, is_settled=True, view=1)


class Desk:
    """A desk with one plugin, `p`, or more; time moves when the test says so."""

    def __init__(self, *names: str) -> None:
        self.now = 0
        self.desk = PluginDesk([(name, frozenset({CREATE})) for name in names or ("p",)], now=0)
        self.out: dict[str, Deliver] = {}
        self.sent: list[SubmitOwn | ClientRequest] = []
        self.warnings: list[str] = []
        self.take(self.desk.on_watch(self.now))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, TellPlugin):
                assert effect.plugin not in self.out, "one delivery at a time"
                self.out[effect.plugin] = effect.message
            elif isinstance(effect, Warn):
                self.warnings.append(effect.text)
            else:
                assert isinstance(effect, SubmitOwn | ClientRequest)
                self.sent.append(effect)

    def handled(self, plugin: str = "p", *, failure: str = "", is_syncing: bool = False) -> Deliver:
        """The plugin handles what was delivered to it."""
        deliver = self.out.pop(plugin)
        handled = Handled(plugin=plugin, delivery=deliver.delivery, failure=failure, is_syncing=is_syncing)
        self.take(self.desk.on_handled(handled, self.now))
        return deliver

    def notice(self, op: int, *, body: bytes = b"") -> None:
        notice = CommitNotice(
            op=op, timestamp=op, operation=CREATE, code=0, user_id=0, client=1, request=1, revision=0, body=body
        )
        self.take(self.desk.on_notice(notice, self.now))

    def submit(self, number: int, *, key: int = 0, life: int = 1) -> None:
        submit = Submit(plugin="p", life=life, number=number, operation=CREATE, body=b"\x01s", key=key)
        self.take(self.desk.on_submit(submit, self.now))

    def role(self, role: RoleChanged) -> None:
        self.take(self.desk.on_role(role, self.now))

    def wait(self, seconds: float) -> None:
        self.now += int(seconds * NANOS_PER_SECOND)
        self.take(self.desk.on_watch(self.now))

    @property
    def status(self) -> object:
        return self.desk.statuses[0].state


def reply(ticket: Ticket, op: int = 5) -> Reply:
    """The committed reply of a submit."""
    frame = committed_reply(PrepareHeader(op, client=0, request=1, operation=CREATE), result_success())
    return Reply(ticket=ticket, frame=frame, body_checksum=1)


def leading() -> Desk:
    """A desk of the leader, whose plugin has begun."""
    desk = Desk()
    desk.handled()
    desk.role(LEADER)
    assert desk.handled().events == (LEADER,)
    return desk


def test_a_plugin_begins_with_start_role_and_a_look_at_the_state() -> None:
    desk = Desk()
    assert desk.handled().events == (Started(), Resync())
    assert desk.out == {}
    late = PluginDesk([("p", frozenset())], now=0)
    late.on_role(LEADER, 0)
    [told] = late.on_watch(0)
    assert isinstance(told, TellPlugin)
    assert told.message.events == (Started(), LEADER, Resync())


def test_while_a_delivery_is_out_everything_waits_and_is_joined() -> None:
    desk = Desk()
    for _ in range(5):
        desk.take(desk.desk.on_tick_due("p", desk.now))
    desk.role(LEADER)
    desk.role(FOLLOWER)
    desk.notice(3)
    desk.notice(4)
    desk.handled()
    events = desk.handled().events
    assert events[0] == FOLLOWER
    assert isinstance(events[1], Committed)
    assert [notice.op for notice in events[1].notices] == [3, 4]
    assert events[2] == Ticked()
    assert desk.out == {}


def test_too_many_commits_are_dropped_and_the_whole_state_is_to_be_looked_at() -> None:
    desk = Desk()
    for op in range(1, NOTICES_MAX + 2):
        desk.notice(op)
    desk.notice(9_999)
    desk.handled()
    assert desk.handled().events == (Resync(),)
    [told] = desk.handled().events
    assert isinstance(told, Committed)
    assert [notice.op for notice in told.notices] == [9_999]
    assert desk.desk.statuses[0].notices_dropped == NOTICES_MAX + 1


def test_what_was_missed_comes_before_what_was_told() -> None:
    """Keys rise: a commit told during a look at the whole state would overtake the causes that the look is there to find."""
    desk = Desk()
    desk.notice(7)
    desk.handled(is_syncing=True)
    desk.notice(8)
    assert desk.out == {}
    desk.take(desk.desk.on_tick_due("p", desk.now))
    assert desk.handled(is_syncing=True).events == (Ticked(),)
    desk.take(desk.desk.on_tick_due("p", desk.now))
    assert desk.handled(is_syncing=False).events == (Ticked(),)
    [told] = desk.handled().events
    assert isinstance(told, Committed)
    assert [notice.op for notice in told.notices] == [7, 8]


def test_large_bodies_are_bounded_by_their_size() -> None:
    desk = Desk()
    for op in range(1, 30):
        desk.notice(op, body=bytes(100_000))
    desk.handled()
    assert desk.handled().events[0] == Resync()
    assert desk.desk.statuses[0].notices_dropped > 0


def test_a_plugin_gets_so_many_commits_in_one_go() -> None:
    desk = Desk()
    for op in range(1, NOTICES_AT_ONCE_MAX + 10):
        desk.notice(op)
    desk.handled()
    [first] = desk.handled().events
    [second] = desk.handled().events
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert (len(first.notices), len(second.notices)) == (NOTICES_AT_ONCE_MAX, 9)


def test_who_raises_begins_again_after_a_pause_that_doubles() -> None:
    desk = Desk()
    pauses = []
    for attempt in range(1, 9):
        assert desk.handled(failure="boom").life == attempt
        assert desk.status is PluginState.RESTARTING
        desk.notice(attempt)
        waited = 0.0
        while not desk.out:
            desk.wait(0.5)
            waited += 0.5
        pauses.append(waited)
        assert desk.out["p"].events[0] == Started()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert (desk.desk.statuses[0].restarts, desk.desk.statuses[0].last_error) == (8, "boom")
    assert "boom" in desk.warnings[0]


def test_after_a_minute_without_an_exception_the_pause_is_the_first_again() -> None:
    desk = Desk()
    desk.handled(failure="boom")
    desk.wait(1)
    desk.handled()
    desk.wait(FORGIVEN_SECONDS + 1)
    desk.notice(1)
    desk.handled(failure="boom")
    desk.wait(back_off_seconds(1))
    assert desk.out["p"].life == 3


def test_who_blocks_is_reported_once_and_keeps_nobody_else_waiting() -> None:
    desk = Desk("p", "q")
    desk.handled("q")
    desk.wait(BLOCKED_SECONDS + 1)
    desk.wait(BLOCKED_SECONDS)
    assert [status.state for status in desk.desk.statuses] == [PluginState.BLOCKED, PluginState.RUNNING]
    assert len(desk.warnings) == 1
    desk.notice(1)
    [told] = desk.handled("q").events
    assert isinstance(told, Committed)
    desk.handled()
    assert desk.status is PluginState.RUNNING
    assert desk.desk.statuses[0].blocked == 1


def test_a_submit_of_a_leader_goes_to_consensus_and_its_outcome_comes_back() -> None:
    desk = leading()
    desk.submit(1)
    [own] = desk.sent
    assert isinstance(own, SubmitOwn)
    assert (own.operation, own.client, own.body) == (CREATE, 0, b"\x01s")
    desk.take(desk.desk.on_settlement(reply(own.ticket), desk.now))
    [settled] = desk.handled().events
    assert isinstance(settled, Settled)
    assert (settled.number, settled.outcome.fate, settled.outcome.op) == (1, Fate.COMMITTED, 5)
    assert desk.desk.statuses[0].committed == 1


def test_a_submit_of_a_follower_is_not_started() -> None:
    desk = leading()
    desk.role(FOLLOWER)
    desk.handled()
    desk.submit(1)
    assert desk.sent == []
    [settled] = desk.handled().events
    assert isinstance(settled, Settled)
    assert settled.outcome.fate is Fate.NOT_STARTED


def test_refused_is_not_started_and_57_or_silence_is_unknown() -> None:
    desk = leading()
    for number in (1, 2, 3):
        desk.submit(number)
    tickets = [own.ticket for own in desk.sent if isinstance(own, SubmitOwn)]
    desk.take(desk.desk.on_settlement(Deny(ticket=tickets[0], code=58, commit=0), desk.now))
    desk.take(desk.desk.on_settlement(Deny(ticket=tickets[1], code=57, commit=0), desk.now))
    desk.wait(SUBMIT_SECONDS)
    fates = []
    while desk.out:
        fates += [event.outcome.fate for event in desk.handled().events if isinstance(event, Settled)]
    assert fates == [Fate.NOT_STARTED, Fate.UNKNOWN, Fate.UNKNOWN]
    desk.take(desk.desk.on_settlement(reply(tickets[2]), desk.now))
    assert desk.out == {}, "an answer after the deadline says nothing"


def test_beginning_again_is_no_way_around_the_bound_of_submits() -> None:
    desk = leading()
    for number in range(SUBMITS_IN_FLIGHT_MAX):
        desk.submit(number)
    desk.notice(1)
    desk.handled(failure="boom")
    desk.wait(1)
    desk.handled()
    count = len(desk.sent)
    desk.submit(1, life=2)
    assert len(desk.sent) == count
    [settled] = desk.handled().events
    assert isinstance(settled, Settled)
    assert settled.outcome.fate is Fate.NOT_STARTED


def test_of_two_lives_only_the_present_one_is_told_and_between_them_nobody() -> None:
    """C-238: what a pause hides, the look at the whole state behind it finds."""
    desk = Desk()
    desk.handled()
    desk.notice(1)
    assert desk.out["p"].life == 1
    desk.handled(failure="boom")
    desk.notice(2)
    assert desk.out == {}
    desk.wait(1)
    begun = desk.handled()
    assert (begun.life, begun.events) == (2, (Started(), Resync()))
    desk.notice(3)
    told = desk.handled()
    assert told.life == 2
    assert isinstance(told.events[0], Committed)
    assert [notice.op for notice in told.events[0].notices] == [3]


def test_what_an_earlier_life_wanted_to_know_is_not_told_to_the_next() -> None:
    desk = leading()
    desk.submit(1)
    [own] = desk.sent
    assert isinstance(own, SubmitOwn)
    desk.notice(1)
    desk.handled(failure="boom")
    desk.wait(1)
    desk.handled()
    desk.take(desk.desk.on_settlement(reply(own.ticket), desk.now))
    assert desk.out == {}


def test_a_refusal_for_the_moment_is_answered_by_the_next_watch_not_at_once() -> None:
    desk = leading()
    desk.submit(1, key=7)
    [register] = desk.sent
    assert isinstance(register, ClientRequest)
    assert register.ticket is not None
    desk.take(desk.desk.on_settlement(Deny(ticket=register.ticket, code=58, commit=0), desk.now))
    assert len(desk.sent) == 1
    desk.wait(0.1)
    assert len(desk.sent) == 2


def test_a_change_of_view_begins_the_session_anew() -> None:
    desk = leading()
    desk.submit(1, key=7)
    desk.role(RoleChanged(is_leader=True, is_settled=True, view=3))
    desk.wait(0.1)
    assert [request.header.operation for request in desk.sent if isinstance(request, ClientRequest)] == [
        Operation.REGISTER,
        Operation.REGISTER,
    ]


def test_a_ticket_that_no_plugin_knows_is_found() -> None:
    desk = leading()
    desk.submit(1)
    desk.desk._seats["p"].under_way.clear()
    with pytest.raises(AssertionError):
        desk.wait(0)
