"""Comparing the state with that of the others, and replacing it when it is the wrong one (D-17).

Every member says what its state came to at the same ops. A member against which more than half of all agree stops: it
applies nothing more, acknowledges nothing, does not lead, and fetches the state of the primary as if it had none. Any other
difference is told to whoever watches, and stops nobody: nobody could say who is right.

Deviation: the peer captures its state anew for this, so what is installed is never below what was applied here, and no
frontier has to go back. Until then nothing moves here, so that it gets there.
"""

from typing import Final

from levrier.actors.consensus import view_change
from levrier.actors.consensus.digest_book import Standing
from levrier.actors.consensus.effects import Note, Severity
from levrier.actors.consensus.frames import broadcast
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.consensus.transfer import arm
from levrier.wire.errors import WireError
from levrier.wire.replica_headers import ExtensionHeader
from levrier.wire.state_digest import COMMAND, StateDigest

DOUBT_TICKS_MAX: Final = 500
"""How long silent members may leave a difference undecided before it counts as one without a majority."""

REFILL_RETRY_TICKS: Final = 100
"""Between two attempts to fetch the state."""


def note_own(state: ReplicaState, op: int, digest: int) -> None:
    """The state machine has applied `op`, and this is its state: tell everybody."""
    if state.is_alone:
        return
    state.digests.book.note(state.config.replica, op, digest)
    _tell(state, StateDigest(op, digest))
    _judge(state, op)


def receive(state: ReplicaState, header: ExtensionHeader, body: bytes) -> None:
    """Another member tells what its state is."""
    if header.command != COMMAND:
        return
    try:
        told = StateDigest.decode(body)
    except WireError as error:
        state.effects.append(Note(Severity.WARNING, f"the digest of replica {header.replica} is unusable: {error}"))
        return
    state.digests.book.note(header.replica, told.op, told.digest)
    _judge(state, told.op)


def pass_tick(state: ReplicaState) -> None:
    """Settle what has been undecided for long, and go on with fetching the state."""
    digests = state.digests
    if digests.doubt is not None and state.ticks - digests.doubt[1] > DOUBT_TICKS_MAX:
        _raise_alarm(state, digests.doubt[0])
    if not state.is_corrupt or state.status is not Status.NORMAL or state.ticks < digests.retry_tick:
        return
    if state.is_primary or state.is_transferring or state.apply_sent != state.commit_min:
        return
    digests.retry_tick = state.ticks + REFILL_RETRY_TICKS
    own = digests.book.own()
    if own is not None:
        _tell(state, StateDigest(*own))  # The primary captures its state anew for whom it knows to be wrong.
    arm(state)


def refilled(state: ReplicaState) -> None:
    """The state is that of the primary now."""
    if state.is_corrupt:
        state.digests.corrupt_at = 0
        state.digests.alarm, state.digests.alarm_about = "", ()
        state.digests.doubt = None
        state.digests.book.forget_own()
        state.effects.append(
            Note(Severity.WARNING, f"the state was replaced by that of the primary at op {state.commit_min}")
        )


def _tell(state: ReplicaState, told: StateDigest) -> None:
    config = state.config
    header = ExtensionHeader(command=COMMAND, group=config.group, cluster=config.cluster, replica=config.replica)
    broadcast(state, header, told.encode())


def _judge(state: ReplicaState, op: int) -> None:
    digests = state.digests
    match digests.book.judge(op):
        case None:
            return
        case Standing.EQUAL:
            if op > digests.alarm_op and digests.book.is_shared(op):
                digests.alarm, digests.alarm_about, digests.wrong = "", (), 0
        case Standing.UNDECIDED:
            if digests.doubt is None:
                digests.doubt = (op, state.ticks)
            return
        case Standing.SPLIT:
            _raise_alarm(state, op)
        case Standing.MAJORITY:
            _blame(state, op)
        case Standing.MINORITY:
            _give_up_state(state, op)
    if digests.doubt is not None and digests.doubt[0] <= op:
        digests.doubt = None


def _raise_alarm(state: ReplicaState, op: int) -> None:
    others = ", ".join(map(str, state.digests.book.differing(op)))
    text = f"the state at op {op} differs from that of replica {others}, and no majority says who is right"
    state.digests.doubt = None
    _alarm(state, op, Standing.SPLIT, text)


def _blame(state: ReplicaState, op: int) -> None:
    wrong = state.digests.book.differing(op)
    for replica in wrong:
        state.digests.wrong |= 1 << replica
    _alarm(
        state,
        op,
        Standing.MAJORITY,
        f"the state of replica {', '.join(map(str, wrong))} at op {op} is not that of the majority",
    )


def _alarm(state: ReplicaState, op: int, standing: Standing, text: str) -> None:
    """Say it once, until it is about others or something else."""
    digests = state.digests
    digests.alarm_op = max(digests.alarm_op, op)
    about = (standing.value, *digests.book.differing(op))
    if about != digests.alarm_about:
        digests.alarm_about = about
        digests.alarm = text
        state.effects.append(Note(Severity.ERROR, text))


def _give_up_state(state: ReplicaState, op: int) -> None:
    if state.is_corrupt:
        return
    digests = state.digests
    digests.corrupt_at = op
    digests.retry_tick = state.ticks
    text = f"the state at op {op} is not that of the majority: it is being replaced by a state transfer"
    _alarm(state, op, Standing.MINORITY, text)
    if state.is_primary and state.status is not Status.RECOVERING:
        view_change.enter(state, state.view + 1)
