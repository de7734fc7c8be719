"""The shell of the replica: messages in, effects out as messages, one neighbour each. It decides nothing.

Every message is one call of the core; the effects it returns are told at once and in order, so what one handler decided
cannot be torn apart (rule 9).
"""

from collections.abc import Callable
from typing import Any, Final

from loguru import logger

from levrier.actors.birth import messages as birth_messages
from levrier.actors.bus import messages as bus_messages
from levrier.actors.client_table import messages as client_table_messages
from levrier.actors.consensus import effects
from levrier.actors.consensus import messages as consensus
from levrier.actors.consensus.effects import Severity
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import ReplicaState
from levrier.actors.journal import messages as journal_messages
from levrier.actors.metadata import messages as metadata_messages
from levrier.actors.plugins import messages as plugins_messages
from levrier.actors.runtime import FatalReason, Handlers, NodeActor, Recipient, Runtime
from levrier.actors.state_transfer import messages as state_transfer_messages
from levrier.actors.superblock import messages as superblock_messages

_LEVELS: Final[dict[Severity, str]] = {
    Severity.DEBUG: "DEBUG",
    Severity.WARNING: "WARNING",
    Severity.ERROR: "ERROR",
}


class _Nobody:
    """What a group of one has in the place of its peers."""

    def tell(self, message: object, /) -> None:
        raise AssertionError(f"there is no peer for {type(message).__name__}")


class ConsensusActor(NodeActor):
    """One replica of one group among its neighbours. `replicas` and `state_transfer` only where there are peers."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        replica: Replica,
        journal: Recipient[journal_messages.Command],
        metadata: Recipient[metadata_messages.Command | metadata_messages.Install],
        client_table: Recipient[client_table_messages.Command],
        bus: Recipient[bus_messages.Command],
        superblock: Recipient[superblock_messages.Command],
        replicas: Recipient[bus_messages.ReplicaCommand] | None = None,
        state_transfer: Recipient[state_transfer_messages.ConsensusCommand] | None = None,
        birth: Recipient[birth_messages.Standing] | None = None,
        plugins: Recipient[plugins_messages.RoleChanged] | None = None,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._replica = replica
        self._journal = journal
        self._metadata = metadata
        self._client_table = client_table
        self._bus = bus
        self._superblock = superblock
        self._replicas = replicas if replicas is not None else _Nobody()
        self._state_transfer = state_transfer if state_transfer is not None else _Nobody()
        self._birth = birth if birth is not None else _Nobody()
        self._plugins = plugins if plugins is not None else _Nobody()
        self._publishes = birth is not None
        self._has_plugins = plugins is not None
        self._log = logger.bind(actor=name, replica=replica.state.config.replica)
        self._handlers = Handlers(consensus.Command)
        self._handlers.on(consensus.Verdict, self._on_verdict)
        self._handlers.on(consensus.Appended, self._on_appended)
        self._handlers.on(consensus.AppendFailed, self._on_append_failed)
        self._handlers.on(consensus.Truncated, self._on_truncated)
        self._handlers.on(consensus.TruncateFailed, self._on_truncate_failed)
        self._handlers.on(consensus.Applied, self._on_applied)
        self._handlers.on(consensus.DigestNoted, self._on_digest_noted)
        self._handlers.on(consensus.ViewPersisted, self._on_view_persisted)
        self._handlers.on(consensus.ViewPersistFailed, self._on_view_persist_failed)
        self._handlers.on(consensus.CheckpointDone, self._on_checkpoint_done)
        self._handlers.on(consensus.CheckpointFailed, self._on_checkpoint_failed)
        self._handlers.on(consensus.StatusQuery, self._on_status_query)
        self._handlers.on(consensus.Tick, self._on_tick)
        self._handlers.on(consensus.PrepareReceived, self._on_prepare)
        self._handlers.on(consensus.RepairPrepareReceived, self._on_repair_prepare)
        self._handlers.on(consensus.FrameReceived, self._on_frame)
        self._handlers.on(consensus.FramesReceived, self._on_frames)
        self._handlers.on(journal_messages.Entries, self._on_entries)
        self._handlers.on(consensus.TransferAccepted, self._on_transfer_accepted)
        self._handlers.on(consensus.TransferFailed, self._on_transfer_failed)
        self._handlers.on(consensus.InstallReady, self._on_install_ready)
        self._handlers.on(consensus.SnapshotPlaced, self._on_snapshot_placed)
        self._handlers.on(consensus.Installed, self._on_installed)
        self._handlers.on(consensus.OfferWanted, self._on_offer_wanted)
        self._handlers.on(consensus.VoterChanged, self._on_voter_changed)
        self._handlers.on(consensus.Born, self._on_born)
        self._handlers.on(consensus.AbstainersChanged, self._on_abstainers_changed)
        self._handlers.on(consensus.StandingWanted, self._on_standing_wanted)
        self._handlers.on(consensus.SubmitOwn, self._on_submit_own)
        self._handlers.on(consensus.ArchiveReaches, self._on_archive_reaches)
        self._handlers.seal()
        self._executors = self._executions()

    def _executions(self) -> dict[type, Callable[[Any], None]]:
        return {
            effects.Append: self._append,
            effects.Apply: self._apply,
            effects.Recheck: self._recheck,
            effects.Deny: self._deny,
            effects.Send: self._send,
            effects.Broadcast: self._broadcast,
            effects.Flush: self._flush,
            effects.Read: self._read,
            effects.TellTransfer: self._tell_transfer,
            effects.Install: self._install,
            effects.Preflight: self._preflight,
            effects.Answer: self._answer,
            effects.Evict: self._evict,
            effects.Truncate: self._truncate,
            effects.Capture: self._capture,
            effects.PersistView: self._persist_view,
            effects.Report: self._report,
            effects.Publish: self._publish,
            effects.TellBirth: self._tell_birth,
            effects.TellPlugins: self._tell_plugins,
            effects.Note: self._note,
            effects.Fatal: self._fatal,
        }

    @property
    def state(self) -> ReplicaState:
        """What the replica knows. To be read."""
        return self._replica.state

    def receive(self, message: object) -> None:
        """Handle one message of the protocol."""
        self._handlers.dispatch(message)

    def _execute(self, decided: list[effects.Effect]) -> None:
        executors = self._executors
        for effect in decided:
            executors[effect.__class__](effect)

    def _on_verdict(self, message: consensus.Verdict) -> None:
        self._execute(self._replica.on_verdict(message))

    def _on_appended(self, message: consensus.Appended) -> None:
        self._execute(self._replica.on_appended(message.positions))

    def _on_append_failed(self, message: consensus.AppendFailed) -> None:
        self._execute(self._replica.on_append_failed(message.positions, message.reason))

    def _on_truncated(self, message: consensus.Truncated) -> None:
        self._execute(self._replica.on_truncated(message.from_op))

    def _on_truncate_failed(self, message: consensus.TruncateFailed) -> None:
        self._execute(self._replica.on_truncate_failed(message.from_op, message.reason))

    def _on_applied(self, message: consensus.Applied) -> None:
        self._execute(self._replica.on_applied(message.op))

    def _on_digest_noted(self, message: consensus.DigestNoted) -> None:
        self._execute(self._replica.on_digest_noted(message.op, message.digest))

    def _on_view_persisted(self, message: consensus.ViewPersisted) -> None:
        self._execute(self._replica.on_view_persisted(message.view, message.log_view))

    def _on_view_persist_failed(self, message: consensus.ViewPersistFailed) -> None:
        self._execute(self._replica.on_view_persist_failed(message.failures, message.reason, is_full=message.is_full))

    def _on_checkpoint_done(self, message: consensus.CheckpointDone) -> None:
        self._execute(
            self._replica.on_checkpoint_done(
                op=message.op, snapshot_size=message.snapshot_size, log_size=message.log_size
            )
        )

    def _on_checkpoint_failed(self, message: consensus.CheckpointFailed) -> None:
        self._execute(self._replica.on_checkpoint_failed(op=message.op, reason=message.reason))

    def _on_status_query(self, message: consensus.StatusQuery) -> None:
        self._execute(self._replica.on_status_query(message.ticket))

    def _on_tick(self, _message: consensus.Tick) -> None:
        self._execute(self._replica.on_tick())
        if self._publishes:
            self._execute(self._replica.publish())
        if self._has_plugins:
            self._execute(self._replica.tell_role())

    def _on_submit_own(self, message: consensus.SubmitOwn) -> None:
        self._execute(self._replica.on_submit_own(message))

    def _on_prepare(self, message: consensus.PrepareReceived) -> None:
        self._execute(self._replica.on_prepare(message.prepare, message.sender))

    def _on_repair_prepare(self, message: consensus.RepairPrepareReceived) -> None:
        self._execute(self._replica.on_repair_prepare(message.prepare))

    def _on_frame(self, message: consensus.FrameReceived) -> None:
        self._execute(self._replica.on_frame(message.header, message.body))

    def _on_frames(self, message: consensus.FramesReceived) -> None:
        self._execute(self._replica.on_frames(message.frames))

    def _on_entries(self, message: journal_messages.Entries) -> None:
        self._execute(self._replica.on_entries(message.prepares))

    def _on_transfer_accepted(self, message: consensus.TransferAccepted) -> None:
        self._execute(self._replica.on_transfer_accepted(message.attempt))

    def _on_transfer_failed(self, message: consensus.TransferFailed) -> None:
        self._execute(self._replica.on_transfer_failed(message.attempt, message.reason))

    def _on_install_ready(self, message: consensus.InstallReady) -> None:
        self._execute(self._replica.on_install_ready(message))

    def _on_snapshot_placed(self, message: consensus.SnapshotPlaced) -> None:
        self._execute(self._replica.on_snapshot_placed(message.attempt))

    def _on_installed(self, message: consensus.Installed) -> None:
        self._execute(self._replica.on_installed(message.attempt, message.applied_op))

    def _on_offer_wanted(self, message: consensus.OfferWanted) -> None:
        self._execute(self._replica.on_offer_wanted(message.token))

    def _on_voter_changed(self, message: consensus.VoterChanged) -> None:
        self._execute(self._replica.on_voter_changed(message.voter))

    def _on_born(self, message: consensus.Born) -> None:
        self._execute(self._replica.on_born(message.voter))

    def _on_abstainers_changed(self, message: consensus.AbstainersChanged) -> None:
        self._execute(self._replica.on_abstainers_changed(message.replicas))

    def _on_archive_reaches(self, message: consensus.ArchiveReaches) -> None:
        self._execute(self._replica.on_archive_reaches(message.first_op))

    def _on_standing_wanted(self, message: consensus.StandingWanted) -> None:
        self._execute(self._replica.on_standing_wanted(message))

    def _append(self, effect: effects.Append) -> None:
        self._journal.tell(journal_messages.Append(prepare=effect.prepare, view=effect.view))

    def _apply(self, effect: effects.Apply) -> None:
        self._metadata.tell(metadata_messages.Apply(prepare=effect.prepare, reply_to=effect.reply_to))

    def _recheck(self, effect: effects.Recheck) -> None:
        self._client_table.tell(client_table_messages.Recheck(token=effect.token, request=effect.request))

    def _deny(self, effect: effects.Deny) -> None:
        self._bus.tell(bus_messages.Deny(ticket=effect.ticket, code=effect.code, commit=effect.commit))

    def _send(self, effect: effects.Send) -> None:
        self._replicas.tell(bus_messages.SendToReplica(replica=effect.replica, frame=effect.frame))

    def _broadcast(self, effect: effects.Broadcast) -> None:
        self._replicas.tell(bus_messages.Broadcast(frame=effect.frame))

    def _flush(self, _effect: effects.Flush) -> None:
        self._replicas.tell(bus_messages.FlushLinks())

    def _read(self, effect: effects.Read) -> None:
        self._journal.tell(journal_messages.Read(from_op=effect.from_op, to_op=effect.to_op, reply_to=self.address))

    def _tell_transfer(self, effect: effects.TellTransfer) -> None:
        self._state_transfer.tell(effect.message)

    def _install(self, effect: effects.Install) -> None:
        self._metadata.tell(
            metadata_messages.Install(
                attempt=effect.attempt,
                snapshot=effect.snapshot,
                table_frontier=effect.table_frontier,
                is_ahead=effect.is_ahead,
            )
        )

    def _preflight(self, effect: effects.Preflight) -> None:
        self._client_table.tell(client_table_messages.Preflight(request=effect.request))

    def _answer(self, effect: effects.Answer) -> None:
        self._bus.tell(bus_messages.Reply(ticket=effect.ticket, frame=effect.frame))

    def _evict(self, effect: effects.Evict) -> None:
        self._bus.tell(bus_messages.Evict(ticket=effect.ticket, reason=effect.reason))

    def _truncate(self, effect: effects.Truncate) -> None:
        self._journal.tell(journal_messages.Truncate(from_op=effect.from_op))

    def _capture(self, effect: effects.Capture) -> None:
        self._metadata.tell(metadata_messages.Capture(op=effect.op))

    def _persist_view(self, effect: effects.PersistView) -> None:
        self._superblock.tell(
            superblock_messages.PersistView(
                view=effect.view,
                log_view=effect.log_view,
                commit_max=effect.commit_max,
                settles_cut=effect.settles_cut,
            )
        )

    def _report(self, effect: effects.Report) -> None:
        self._bus.tell(effect.status)

    def _publish(self, effect: effects.Publish) -> None:
        self._replicas.tell(effect.leadership)

    def _tell_birth(self, effect: effects.TellBirth) -> None:
        self._birth.tell(effect.standing)

    def _tell_plugins(self, effect: effects.TellPlugins) -> None:
        self._plugins.tell(effect.role)

    def _note(self, effect: effects.Note) -> None:
        self._log.log(_LEVELS[effect.severity], "{}", effect.text)

    def _fatal(self, effect: effects.Fatal) -> None:
        self.runtime.fail(FatalReason(status=effect.status, reason=effect.reason, actor=self.name))
