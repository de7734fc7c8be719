"""The heartbeat of a primary: sending it, missing it, and what a backup learns from it (sections 3 and 5.11, D-15).

A primary that cannot commit what waits falls silent, so that others elect: by D-15 when its disk makes no progress, and beyond it
when no quorum acknowledges. Whoever is heard and hears nobody would else lead for ever, and nothing would be committed. At
that moment it answers everybody who waits, and until a quorum acknowledges it takes in nothing new: a client that it kept
waiting could not look for who leads instead.

It carries what is applied, so that a fresh primary never advertises what it has not. Beyond the reference it names the
entry of its commit point by checksum, which proves the log below it on a backup that repaired itself (D-16).
"""

from levrier.actors.consensus import probe, view_change
from levrier.actors.consensus.admission import deny_waiting
from levrier.actors.consensus.commits import stream_commits
from levrier.actors.consensus.cutting import cut
from levrier.actors.consensus.effects import Note, Severity
from levrier.actors.consensus.frames import broadcast, heartbeat
from levrier.actors.consensus.gate import is_disk_silent, is_unheeded, may_send
from levrier.actors.consensus.repair import request_overdue
from levrier.actors.consensus.start_view import send_start_view
from levrier.actors.consensus.state import ReplicaState, Status, TransferStage
from levrier.actors.consensus.verified import verify
from levrier.wire.replica_headers import CommitHeader


def fire_commit_message(state: ReplicaState) -> None:
    """The heartbeat of a primary is due; a primary that cannot commit what waits misses it."""
    if not state.is_primary or state.status is not Status.NORMAL:
        return
    if state.observed_newer_view > state.view:
        probe.begin(state)
        return
    state.timeouts.commit_message.reset()
    if is_disk_silent(state) or is_unheeded(state):
        return
    state.heartbeat_timestamp += 1
    if not state.is_alone and state.is_acting_primary and may_send(state):
        broadcast(state, heartbeat(state))


def note_progress(state: ReplicaState) -> None:
    """At a tick: a primary has nothing to commit, or has committed something since the last one."""
    waits = state.status is Status.NORMAL and state.is_primary and state.sequencer > state.commit_max
    if not waits or state.commit_max != state.progress_commit:
        state.progress_commit = state.commit_max
        state.progress_tick = state.ticks
    elif state.ticks - state.progress_tick == state.config.silence_ticks + 1 and not state.is_alone:
        text = f"no quorum acknowledges op {state.commit_max + 1}: no heartbeat until one does, so that others may lead"
        state.effects.append(Note(Severity.WARNING, text))
        deny_waiting(state)


def fire_normal_heartbeat(state: ReplicaState) -> None:
    """A backup has heard nothing of its primary for long.

    One that is getting a state does not elect: it would cancel what it got so far, and begin again for ever where that takes
    longer than a timeout. The primary may be silent only because it waits for this very member. A source that ends is
    noticed by the transfer itself.
    """
    if state.status is not Status.NORMAL or (state.is_primary and not state.ceded_primaryship):
        return
    if state.transfer_stage in {TransferStage.FETCHING, TransferStage.INSTALLING}:
        state.timeouts.normal_heartbeat.reset()
    elif state.observed_newer_view > state.view or not state.voter:
        probe.begin(state)
    else:
        view_change.enter(state, state.view + 1)


def receive_commit(state: ReplicaState, header: CommitHeader) -> None:
    """A heartbeat (5.11)."""
    sender = header.replica
    from_its_primary = sender == header.view % state.config.replica_count
    if header.view > state.view:
        state.observe_view(header.view)
        return
    if state.status is not Status.NORMAL or not from_its_primary:
        return
    if state.is_primary:
        if header.view < state.view:
            send_start_view(state, replica=sender)
        return
    if header.view != state.view:
        return
    if header.timestamp_monotonic > state.heartbeat_timestamp:
        state.heartbeat_timestamp = header.timestamp_monotonic
        state.timeouts.normal_heartbeat.reset()
    state.commit_max = max(state.commit_max, header.commit)
    _heed_name(state, header)
    if not state.is_transferring:
        stream_commits(state)
        request_overdue(state, sender)


def _heed_name(state: ReplicaState, header: CommitHeader) -> None:
    """The primary says which entry its commit point is."""
    held = state.mirror.header(header.commit)
    if held is None or not header.commit_checksum or header.commit not in state.unverified:
        return
    if held.checksum == header.commit_checksum:
        verify(state, header.commit)
    else:
        cut(state, header.commit)
