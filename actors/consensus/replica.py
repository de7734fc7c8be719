"""The replica: what happened goes in, what has to be done comes out, in order (style, rule 2).

Each public method is one handler: it runs to its end, leaves the invariants true, and hands back its effects. The rules live
in the modules by topic over one `ReplicaState`; this class only decides which of them an event concerns, and at the end of a
handler takes up what waited for the disk: withheld sends, a vote that was due, a parked log (`_resume`).
"""

from collections.abc import Callable, Sequence
from typing import Final

from levrier.actors.bus.messages import NodeStatus, Ticket
from levrier.actors.consensus import (
    acks,
    admission,
    backup,
    checkpoints,
    commits,
    digests,
    forwarding,
    gate,
    heartbeat,
    normal,
    probe,
    repair,
    rollback,
    serving,
    standing,
    start_view,
    ticks,
    transfer,
    view_change,
)
from levrier.actors.consensus.effects import Effect, Note, Report, Severity, TellTransfer
from levrier.actors.consensus.messages import (
    FrameReceived,
    InstallReady,
    LogPosition,
    PrepareReceived,
    RepairPrepareReceived,
    StandingWanted,
    SubmitOwn,
    Verdict,
)
from levrier.actors.consensus.state import (
    Owed,
    ReadPurpose,
    RecoveredState,
    ReplicaConfig,
    ReplicaState,
    Status,
    assert_invariants,
    begin,
    recovered_replica,
)
from levrier.actors.consensus.verified import judge_recovered
from levrier.actors.state_transfer.messages import ViewObserved
from levrier.wire.control import ControlHeader
from levrier.wire.prepare import Prepare
from levrier.wire.replica_headers import (
    CommitHeader,
    DoViewChangeHeader,
    ExtensionHeader,
    ForwardLogoutHeader,
    ForwardLogoutResultHeader,
    ForwardRegisterHeader,
    ForwardRegisterResultHeader,
    PrepareOkHeader,
    RepairRangeReplyHeader,
    RequestPreparesHeader,
    RequestStartViewHeader,
    StartViewChangeHeader,
    StartViewHeader,
)

VIEW_LEAP_MAX: Final = 1 << 24
"""Views by which a single member is believed to be ahead of this one: more than come about in half a year with one each second.
Views have 32 bits."""


class Replica:
    """One member of one group. `now_micros` is the wall clock, microseconds since 1970."""

    def __init__(self, *, config: ReplicaConfig, recovered: RecoveredState, now_micros: Callable[[], int]) -> None:
        self._state = recovered_replica(config=config, recovered=recovered, now_micros=now_micros)
        judge_recovered(self._state, recovered)
        assert_invariants(self._state)

    @property
    def state(self) -> ReplicaState:
        """What it knows. To be read."""
        return self._state

    def on_verdict(self, verdict: Verdict) -> list[Effect]:
        """The client table has looked at a request."""
        if verdict.token:
            admission.judge_again(self._state, verdict)
        else:
            admission.judge_fresh(self._state, verdict)
        return self._done()

    def on_appended(self, positions: Sequence[LogPosition]) -> list[Effect]:
        """These prepares are durable."""
        normal.note_appended(self._state, positions)
        return self._done()

    def on_append_failed(self, positions: Sequence[LogPosition], reason: str) -> list[Effect]:
        """This batch is not in the log, and nothing behind it will be before a truncation."""
        rollback.roll_back(self._state, positions, reason)
        return self._done()

    def on_truncated(self, from_op: int) -> list[Effect]:
        """The log is cut, durably."""
        state = self._state
        rollback.note_truncated(state, from_op)
        if state.truncation is None:
            transfer.note_truncated(state)
            self._take_parked()
        return self._done()

    def on_truncate_failed(self, from_op: int, reason: str) -> list[Effect]:
        """The log could not be cut."""
        rollback.note_truncate_failed(self._state, from_op, reason)
        return self._done()

    def on_applied(self, op: int) -> list[Effect]:
        """The op went through the state machine and the client table."""
        state = self._state
        commits.note_applied(state, op)
        if state.transfer_stage:
            transfer.try_install(state)
        return self._done()

    def on_view_persisted(self, view: int, log_view: int) -> list[Effect]:
        """The pair is durable; sends that waited for it are judged again."""
        commit_before = self._state.gate.commit_durable
        gate.note_persisted(self._state, view, log_view)
        if self._state.gate.commit_durable > commit_before:
            repair.ask_again(self._state)
        if not self._state.is_alone:
            self._state.effects.append(TellTransfer(ViewObserved(view=self._state.gate.view_durable)))
        acks.acknowledge_durable(self._state)
        return self._done()

    def on_view_persist_failed(self, failures: int, reason: str, *, is_full: bool = False) -> list[Effect]:
        """The superblock could not be written; `is_full`: for want of space."""
        gate.note_persist_failed(self._state, failures, reason, is_full=is_full)
        return self._done()

    def on_checkpoint_done(self, *, op: int, snapshot_size: int, log_size: int) -> list[Effect]:
        """The checkpoint at `op` is complete."""
        checkpoints.note_done(self._state, op=op, snapshot_size=snapshot_size, log_size=log_size)
        transfer.settle_offers(self._state)
        admission.promote(self._state)
        return self._done()

    def on_checkpoint_failed(self, *, op: int, reason: str) -> list[Effect]:
        """The checkpoint at `op` ended without effect."""
        checkpoints.note_failed(self._state, op=op, reason=reason)
        admission.deny_queued_if_stuck(self._state)
        transfer.settle_offers(self._state)
        return self._done()

    def on_tick(self) -> list[Effect]:
        """Ten milliseconds have passed."""
        if self._state.born:
            ticks.pass_tick(self._state)
        return self._done()

    def publish(self) -> list[Effect]:
        """Say who leads, if that has changed since it was said last."""
        standing.publish(self._state)
        return self._done()

    def tell_role(self) -> list[Effect]:
        """Tell the plugins what this replica is, if that has changed since they were told."""
        standing.tell_role(self._state)
        return self._done()

    def on_submit_own(self, wanted: SubmitOwn) -> list[Effect]:
        """A part of the node wants an operation in the log."""
        admission.submit_own(self._state, wanted)
        return self._done()

    def on_status_query(self, ticket: Ticket) -> list[Effect]:
        """Somebody asks how this replica stands."""
        state = self._state
        state.effects.append(
            Report(
                NodeStatus(
                    ticket=ticket,
                    replica=state.config.replica,
                    replica_count=state.config.replica_count,
                    is_primary=state.is_acting_primary,
                    state=state.status.name.lower(),
                    view=state.view,
                    log_view=state.log_view,
                    op=state.sequencer,
                    commit=state.commit_max,
                    applied=state.commit_min,
                    checkpoint=state.checkpoint.snapshot_op,
                    checkpoints=state.checkpoint.completed,
                    log_bytes=state.checkpoint.log_size,
                    pipeline=len(state.pipeline.prepares),
                    queued=len(state.pipeline.requests),
                    member="unborn" if not state.born else "voter" if state.voter else "learner",
                    alarm=state.digests.alarm,
                )
            )
        )
        return self._done()

    def on_prepare(self, prepare: Prepare, sender: int | None = None) -> list[Effect]:
        """A live prepare came, from its primary or down the chain; None where nobody knows who handed it on."""
        if not self._state.born:
            return []
        self._take_prepare(prepare, sender)
        return self._done()

    def on_repair_prepare(self, prepare: Prepare) -> list[Effect]:
        """An entry came as part of a repair."""
        if not self._state.born:
            return []
        repair.receive_repair_prepare(self._state, prepare)
        return self._done()

    def on_frame(self, header: ControlHeader, body: bytes) -> list[Effect]:
        """A control frame came; its `replica` is the sender."""
        self._judge_frame(header, body)
        return self._done()

    def on_frames(self, frames: Sequence[PrepareReceived | RepairPrepareReceived | FrameReceived]) -> list[Effect]:
        """These came together. Each is taken as if it had come alone; what has to be done about all is handed back at once."""
        state = self._state
        if not state.born:
            return []
        for frame in frames:
            match frame:
                case FrameReceived():
                    self._judge_frame(frame.header, frame.body)
                case PrepareReceived():
                    self._take_prepare(frame.prepare, frame.sender)
                case RepairPrepareReceived():
                    repair.receive_repair_prepare(state, frame.prepare)
            if state.owed or state.status is Status.VIEW_CHANGE:
                self._resume()
        return self._done()

    def _take_prepare(self, prepare: Prepare, sender: int | None) -> None:
        if self._believes(prepare.header.view, None):
            backup.receive_prepare(self._state, prepare, sender)

    def _judge_frame(self, header: ControlHeader, body: bytes) -> None:
        state = self._state
        assert header.replica != state.config.replica
        assert header.replica < state.config.replica_count
        if state.born and isinstance(header, ExtensionHeader):
            digests.receive(state, header, body)
        elif state.born and self._believes(header.view, header.replica):
            self._take_frame(header, body)

    def _believes(self, view: int, sender: int | None) -> bool:
        """Whether a view may be made anything of. One that is far above is not, until so many members have spoken of it
        that one at least is right: it would be written down, and there is no number above the last one.

        `sender` is None where nobody knows who says it: that counts for nobody.
        """
        state = self._state
        if view <= state.view + VIEW_LEAP_MAX:
            return True
        if sender is None:
            return False
        distant = state.distant
        if view > distant.get(sender, 0):
            distant[sender] = view
            text = f"replica {sender} speaks of view {view} in view {state.view}: not believed before others do"
            state.effects.append(Note(Severity.WARNING, text))
        return sum(each >= view for each in distant.values()) > max(1, state.quorums.faulty_max)

    def _take_frame(self, header: ControlHeader, body: bytes) -> None:
        state = self._state
        match header:
            case PrepareOkHeader():
                acks.receive_prepare_ok(state, header)
            case CommitHeader():
                heartbeat.receive_commit(state, header)
            case RequestPreparesHeader():
                serving.receive_request(state, header)
            case RepairRangeReplyHeader():
                repair.receive_done(state, header)
                if repair.is_evicted(state, header):
                    self._give_up_repair()
            case StartViewChangeHeader():
                view_change.receive_start_view_change(state, header)
            case DoViewChangeHeader():
                view_change.receive_do_view_change(state, header, body)
            case StartViewHeader():
                start_view.receive_start_view(state, header, body)
            case RequestStartViewHeader():
                probe.answer(state, header)
            case ForwardRegisterHeader() | ForwardLogoutHeader():
                forwarding.receive_forward(state, header)
            case ForwardRegisterResultHeader() | ForwardLogoutResultHeader():
                forwarding.receive_result(state, header)
            case _:
                raise AssertionError(f"{type(header).__name__} is not for Consensus")

    def on_entries(self, prepares: tuple[Prepare, ...]) -> list[Effect]:
        """The journal answers the oldest read."""
        state = self._state
        asked = state.reads.popleft()
        if asked.purpose is ReadPurpose.SERVE:
            serving.serve(state, asked, prepares)
        elif prepares:
            commits.remember_bodies(state, prepares)
            commits.stream_commits(state)
        elif asked.purpose is ReadPurpose.VIEW_START and state.pending is not None:
            state.pending.read_not_before = state.ticks + 1
        # An entry that cannot be read is asked for again by the next tick, not by this answer: that would never pause.
        return self._done()

    def on_transfer_accepted(self, attempt: int) -> list[Effect]:
        """The chunks of a state transfer are coming."""
        transfer.note_accepted(self._state, attempt)
        return self._done()

    def on_transfer_failed(self, attempt: int, reason: str) -> list[Effect]:
        """A state transfer ended without effect."""
        transfer.note_failed(self._state, attempt, reason)
        return self._done()

    def on_install_ready(self, ready: InstallReady) -> list[Effect]:
        """The state of a peer is here."""
        transfer.note_ready(self._state, ready)
        return self._done()

    def on_snapshot_placed(self, attempt: int) -> list[Effect]:
        """The received snapshot is durable."""
        transfer.note_placed(self._state, attempt)
        return self._done()

    def on_installed(self, attempt: int, applied_op: int) -> list[Effect]:
        """State machine and client table are those of the peer."""
        transfer.note_installed(self._state, attempt, applied_op)
        digests.refilled(self._state)
        commits.stream_commits(self._state)
        return self._done()

    def on_digest_noted(self, op: int, digest: int) -> list[Effect]:
        """The state machine says what its state came to at an op (D-17)."""
        digests.note_own(self._state, op, digest)
        return self._done()

    def on_offer_wanted(self, token: int) -> list[Effect]:
        """A peer wants the state of this replica."""
        transfer.want_offer(self._state, token)
        return self._done()

    def on_voter_changed(self, voter: bool) -> list[Effect]:
        """This member votes from now on, or does not."""
        self._state.voter = voter
        acks.acknowledge_suffix(self._state)
        return self._done()

    def on_born(self, voter: bool) -> list[Effect]:
        """The birth is durable here: take part."""
        state = self._state
        assert not state.born, "a member is born once"
        assert not state.sequencer
        state.born = True
        state.voter = voter
        begin(state)
        return self._done()

    def on_abstainers_changed(self, replicas: int) -> list[Effect]:
        """These members are learners."""
        self._state.abstaining = replicas
        return self._done()

    def on_archive_reaches(self, first_op: int) -> list[Effect]:
        """The journal keeps entries below the log from this op on; 0: none."""
        self._state.archive_first_op = first_op
        return self._done()

    def on_standing_wanted(self, wanted: StandingWanted) -> list[Effect]:
        """The member-state actor wants to know how far this replica is."""
        standing.answer(self._state, wanted)
        return self._done()

    def _give_up_repair(self) -> None:
        """Nobody has what is missing here: fetch the state. A primary-elect cannot, since only a primary offers it, so it
        leaves the lead to a replica whose log reaches back; asking again at once would go on for as long as the view.
        """
        state = self._state
        if state.status is Status.VIEW_CHANGE and state.pending is not None:
            view_change.enter(state, state.view + 1)
        else:
            transfer.arm(state)

    def _take_parked(self) -> None:
        """What came while the log was being cut."""
        state = self._state
        parked, state.parked = state.parked, []
        for prepare, is_repair in parked:
            if is_repair:
                repair.receive_repair_prepare(state, prepare)
            else:
                backup.receive_prepare(state, prepare, None)

    def _resume(self) -> None:
        """Take up what waited for the disk."""
        state = self._state
        if state.status is Status.VIEW_CHANGE:
            view_change.cast_vote(state)
            start_view.drive_parked(state)
        if state.owed and gate.may_send(state):
            owed, state.owed = state.owed, Owed.NOTHING
            if state.status is Status.VIEW_CHANGE:
                if owed & Owed.START_VIEW_CHANGE:
                    view_change.send_start_view_change(state)
                if owed & Owed.DO_VIEW_CHANGE and not state.mirror.outstanding_count and state.truncation is None:
                    view_change.send_do_view_change(state, view_change.own_vote(state))
            elif state.status is Status.NORMAL:
                if owed & Owed.START_VIEW and state.is_acting_primary:
                    start_view.send_start_view(state)
                if owed & Owed.ACKNOWLEDGEMENTS:
                    acks.acknowledge_suffix(state)
                if owed & Owed.FORWARDS and state.is_acting_primary:
                    normal.forward_owed(state)

    def _done(self) -> list[Effect]:
        state = self._state
        if state.owed or state.status is Status.VIEW_CHANGE:
            self._resume()
        assert_invariants(state)
        effects = state.effects
        state.effects = []
        return effects
