"""The stages of a state transfer, and its install, as far as Consensus decides them (section 11, rule 2).

StateTransfer owns the session and the bytes. Consensus decides when nothing may be applied, acknowledged or admitted, that
the log is cut before the snapshot is placed, that the install marker enters the commit stream only when nothing else is in
it, and where the frontiers stand afterwards. What is proven above the snapshot stays in the log.
"""

from levrier.actors.consensus.commits import stream_commits
from levrier.actors.consensus.cutting import cut
from levrier.actors.consensus.effects import Capture, Install, Note, Severity, TellTransfer
from levrier.actors.consensus.messages import InstallReady
from levrier.actors.consensus.repair import maybe_request_repair
from levrier.actors.consensus.state import ReplicaState, Status, TransferStage
from levrier.actors.state_transfer.messages import (
    FetchCanceled,
    FetchRequired,
    InstallFinished,
    OfferVerdict,
    PlaceSnapshot,
)


def arm(state: ReplicaState) -> None:
    """Peers keep no entries that this replica lacks: it needs their state."""
    if state.transfer_stage is not TransferStage.IDLE or state.status is not Status.NORMAL or state.is_primary:
        return
    state.set_transfer_stage(TransferStage.AWAITING_TARGET)
    request_fetch(state, state.primary)


def request_fetch(state: ReplicaState, peer: int) -> None:
    """Begin a new attempt with that peer."""
    assert state.transfer_stage is TransferStage.AWAITING_TARGET
    transfer = state.transfer
    transfer.attempt += 1
    transfer.peer = peer
    transfer.ready = None
    transfer.is_told = False
    state.effects.append(
        TellTransfer(
            FetchRequired(
                attempt=transfer.attempt, peer=peer, view=state.view, snapshot_op=state.checkpoint.snapshot_op
            )
        )
    )


def note_accepted(state: ReplicaState, attempt: int) -> None:
    """Chunks are coming."""
    if attempt == state.transfer.attempt and state.transfer_stage is TransferStage.AWAITING_TARGET:
        state.set_transfer_stage(TransferStage.FETCHING)


def note_failed(state: ReplicaState, attempt: int, reason: str) -> None:
    """The attempt is over without effect: go on as a replica that repairs itself, which may arm the next one."""
    transfer = state.transfer
    if attempt != transfer.attempt or not state.is_transferring or transfer.is_told:
        return
    transfer.ready = None
    transfer.is_ahead = False
    state.set_transfer_stage(TransferStage.IDLE)
    state.effects.append(Note(Severity.WARNING, f"state transfer from replica {transfer.peer} failed: {reason}"))
    stream_commits(state)
    if not state.is_primary:
        maybe_request_repair(state, state.primary)


def note_ready(state: ReplicaState, ready: InstallReady) -> None:
    """Everything is here and verified. The install begins once the commit stream is empty."""
    transfer = state.transfer
    if ready.attempt != transfer.attempt or state.transfer_stage is not TransferStage.FETCHING:
        return
    assert ready.snapshot.op <= ready.table_frontier <= ready.commit_op
    transfer.ready = ready
    state.set_transfer_stage(TransferStage.INSTALLING)
    try_install(state)


def try_install(state: ReplicaState) -> None:
    """Decide whether the snapshot is ahead, cut the log, and have the file written or the marker sent."""
    transfer = state.transfer
    ready = transfer.ready
    if ready is None or transfer.is_told or state.transfer_stage is not TransferStage.INSTALLING:
        return
    if state.apply_sent != state.commit_min or transfer.is_ahead:
        return
    if state.is_corrupt and not state.commit_min <= ready.snapshot.op > state.checkpoint.snapshot_op:
        op = ready.snapshot.op
        note_failed(
            state, transfer.attempt, f"its snapshot of op {op} is too old to replace the state at {state.commit_min}"
        )
        state.effects.append(TellTransfer(FetchCanceled(attempt=transfer.attempt)))
        return
    if ready.snapshot.op <= state.commit_min and not state.is_corrupt:
        _send_marker(state, ready)
        return
    transfer.is_ahead = True
    mirror = state.mirror
    op = ready.snapshot.op
    above = op if op in state.unverified else op + 1  # The next entry has to chain to the one at the snapshot.
    proven = [each for each in mirror.ops() if each >= above and each not in state.unverified]
    cut(state, max([above, *(each + 1 for each in proven)]), settles=False)


def note_truncated(state: ReplicaState) -> None:
    """The log is cut: the snapshot may be placed."""
    transfer = state.transfer
    if transfer.ready is not None and transfer.is_ahead and not transfer.is_told:
        state.effects.append(TellTransfer(PlaceSnapshot(attempt=transfer.attempt)))


def note_placed(state: ReplicaState, attempt: int) -> None:
    """The snapshot is durable under its name."""
    transfer = state.transfer
    if attempt == transfer.attempt and transfer.ready is not None and transfer.is_ahead and not transfer.is_told:
        _send_marker(state, transfer.ready)


def note_installed(state: ReplicaState, attempt: int, applied_op: int) -> None:
    """State machine and table are replaced: move the frontiers, and go on as a replica that repairs its tail."""
    transfer = state.transfer
    ready = transfer.ready
    assert ready is not None
    assert attempt == transfer.attempt
    assert transfer.is_told
    assert applied_op >= state.commit_min, "an install never rewinds"
    if transfer.is_ahead:
        assert applied_op == ready.snapshot.op
        _move_frontiers(state, ready)
    state.commit_max = max(state.commit_max, ready.commit_op)
    state.effects.append(
        TellTransfer(InstallFinished(attempt=attempt, applied_op=applied_op, is_ahead=transfer.is_ahead))
    )
    transfer.ready = None
    transfer.is_told = transfer.is_ahead = False
    state.set_transfer_stage(TransferStage.IDLE)
    stream_commits(state)
    if not state.is_primary:
        maybe_request_repair(state, state.primary)


def want_offer(state: ReplicaState, token: int) -> None:
    """A peer asks for the state: the newest snapshot is it; without one, capture first (B-011).

    A primary that is not past its admission barrier offers too: what a snapshot holds is committed, and those who need it
    may be the ones whose acknowledgements the barrier waits for. A member whose state is wrong needs one that is not older
    than what it had applied (D-17).
    """
    if not state.is_acting_primary:
        _refuse_offer(state, token)
    elif state.checkpoint.snapshot_op and not (state.digests.wrong and state.checkpoint.snapshot_op < state.apply_sent):
        _grant(state, token)
    elif not state.apply_sent:
        _refuse_offer(state, token)
    else:
        state.offers.append(token)
        checkpoint = state.checkpoint
        if checkpoint.in_flight is None:
            checkpoint.in_flight = state.apply_sent
            state.effects.append(Capture(state.apply_sent))


def settle_offers(state: ReplicaState) -> None:
    """A checkpoint has ended, well or not: answer those who waited for it."""
    tokens, state.offers = state.offers, []
    for token in tokens:
        if state.checkpoint.snapshot_op and state.is_acting_primary:
            _grant(state, token)
        else:
            _refuse_offer(state, token)


def cancel(state: ReplicaState) -> None:
    """Give the attempt up."""
    if state.transfer_stage in (TransferStage.AWAITING_TARGET, TransferStage.FETCHING):
        state.set_transfer_stage(TransferStage.IDLE)
        state.effects.append(TellTransfer(FetchCanceled(attempt=state.transfer.attempt)))


def _send_marker(state: ReplicaState, ready: InstallReady) -> None:
    assert state.apply_sent == state.commit_min, "the commit stream is empty"
    state.transfer.is_told = True
    state.effects.append(Install(ready.attempt, ready.snapshot, ready.table_frontier, state.transfer.is_ahead))


def _move_frontiers(state: ReplicaState, ready: InstallReady) -> None:
    op = ready.snapshot.op
    assert op > state.commit_min or (op == state.commit_min and state.is_corrupt)
    mirror = state.mirror
    mirror.drain(op)
    state.unverified = {each for each in state.unverified if each > op}
    for each in [each for each in state.bodies if each <= op]:
        del state.bodies[each]
    for key in [key for key, fate in state.unsettled.items() if fate.op <= op]:
        del state.unsettled[key]
    state.applying.clear()
    state.commit_min = state.apply_sent = op
    state.commit_max = max(state.commit_max, op)
    state.sequencer = max(state.sequencer, op)
    state.checkpoint.snapshot_op = op
    state.checkpoint.snapshot_size = ready.snapshot_size
    state.last_timestamp = max(state.last_timestamp, ready.snapshot.fields.created_at)
    state.consensus_group_high = max(state.consensus_group_high, ready.snapshot.fields.consensus_group_high_water)


def _grant(state: ReplicaState, token: int) -> None:
    state.effects.append(
        TellTransfer(
            OfferVerdict(
                token=token,
                granted=True,
                snapshot_op=state.checkpoint.snapshot_op,
                commit_op=state.commit_min,
                commit_max=state.commit_max,
                view=state.view,
            )
        )
    )


def _refuse_offer(state: ReplicaState, token: int) -> None:
    state.effects.append(TellTransfer(OfferVerdict(token=token, granted=False)))
