"""Asking for the view instead of electing (sections 3, 8.10): a restarted replica, and one that heard of a newer view.

While it asks, a replica is Recovering: nobody can count it in any quorum. Only when nobody answers for long does it elect,
and a learner not even then.
"""

from levrier.actors.consensus.effects import Note, Severity
from levrier.actors.consensus.frames import broadcast, request_start_view
from levrier.actors.consensus.gate import may_send
from levrier.actors.consensus.start_view import send_start_view
from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.consensus.view_change import enter, reset
from levrier.wire.replica_headers import RequestStartViewHeader


def begin(state: ReplicaState) -> None:
    """Stop taking part and ask for the view. The first question leaves when the timer fires."""
    state.status = Status.RECOVERING
    state.ceded_primaryship = True
    reset(state)
    timeouts = state.timeouts
    timeouts.normal_heartbeat.stop()
    timeouts.commit_message.stop()
    timeouts.request_start_view.start()


def fire(state: ReplicaState) -> None:
    """The time to ask, or to ask again, has come.

    Deviation: what was heard of newer views leads to this question and counts no longer. A view that is there is heard of
    again; for one that is not, every primary of a view below it would ask in its turn instead of leading.
    """
    timer = state.timeouts.request_start_view
    if state.status is Status.RECOVERING:
        state.observed_newer_view = 0
        state.probe_attempts += 1
        if state.probe_attempts >= state.config.probe_attempts_max and state.voter:
            timer.stop()
            state.probe_attempts = 0
            state.effects.append(Note(Severity.WARNING, f"nobody answered for view {state.view}: electing"))
            enter(state, state.view + 1)
            return
        timer.reset()
        _ask(state)
    elif state.status is Status.VIEW_CHANGE and not state.is_primary:
        timer.reset()
        _ask(state)
    else:
        timer.stop()


def answer(state: ReplicaState, header: RequestStartViewHeader) -> None:
    """A replica asks for the view. Its own primary asking means that it lost its place: elect at once."""
    if state.status is not Status.NORMAL:
        return
    if header.replica == state.primary:
        if header.view == state.view and state.voter:
            enter(state, state.view + 1)
        return
    if header.view > state.view:
        state.observe_view(header.view)
    if state.is_primary and not state.ceded_primaryship and state.log_view == state.view:
        send_start_view(state, replica=header.replica, incarnation=header.incarnation)


def _ask(state: ReplicaState) -> None:
    if may_send(state):
        broadcast(state, request_start_view(state))
