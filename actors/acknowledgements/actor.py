"""The Acknowledgements actor: what every replica has durably applied, said, stored and answered (acknowledgements 5).

It has a thread of its own, because it writes; it is on nobody's path. `core` decides what to say and what to write, the store
keeps it, and what follows from it goes to whoever asks and, on every change, to the Bus for status.
"""

from collections.abc import Mapping
from typing import Final

from loguru import logger

from levrier.actors.acknowledgements import core
from levrier.actors.acknowledgements import messages as acknowledgements
from levrier.actors.acknowledgements.core import AcknowledgementEffect, AcknowledgementsCore, Identity
from levrier.actors.acknowledgements.evidence import evidence
from levrier.actors.acknowledgements.report import blockers, report, size_text
from levrier.actors.bus.messages import (
    Broadcast,
    HistoryChanged,
    KeptHistory,
    PeerAdmitted,
    ReplicaFrame,
    SendToReplica,
)
from levrier.actors.journal.messages import Reclaim
from levrier.actors.metadata.messages import FrontierApplied, FrontierWanted
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime, Timer
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.errors import StorageError
from levrier.wire.acknowledgement import COMMAND
from levrier.wire.replica_headers import ExtensionHeader

INTERVAL_MILLISECONDS: Final = 500
WARNING_TICKS: Final = 4
"""Intervals for which the same replicas must have been waited for before a warning names them."""


class AcknowledgementsActor(NodeActor):
    """One replica. `group` is stamped on its frames; `names` are the node names of its membership, by replica id.

    `replicas` is told only what goes to peers: nothing, on a node of its own. `journal` keeps history and is told what may go;
    None on a node that keeps none. Above `archive_limit` bytes a warning names who blocks; 0 is no limit.
    """

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        identity: Identity,
        group: int,
        names: Mapping[str, str],
        store: AcknowledgementStore,
        metadata: Recipient[FrontierWanted],
        bus: Recipient[HistoryChanged],
        replicas: Recipient[SendToReplica | Broadcast] | None,
        interval_milliseconds: int = INTERVAL_MILLISECONDS,
        journal: Recipient[Reclaim] | None = None,
        archive_limit: int = 0,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._identity = identity
        self._core = AcknowledgementsCore(identity)
        self._group = group
        self._names = names
        self._store = store
        self._metadata = metadata
        self._bus = bus
        self._replicas = replicas
        self._interval_milliseconds = interval_milliseconds
        self._journal = journal
        self._archive_limit = archive_limit
        self._kept: KeptHistory | None = None
        self._warned = ""
        self._waited_for = ""
        self._waited_ticks = 0
        self._ticker: Timer | None = None
        self._failure = ""
        self._told: HistoryChanged | None = None
        self._log = logger.bind(actor=name, replica=identity.replica)
        self._handlers = Handlers(acknowledgements.Command)
        self._handlers.on(acknowledgements.Tick, self._on_tick)
        self._handlers.on(FrontierApplied, self._on_applied)
        self._handlers.on(ReplicaFrame, self._on_frame)
        self._handlers.on(PeerAdmitted, self._on_peer_admitted)
        self._handlers.on(acknowledgements.EvidenceQuery, self._on_evidence_query)
        self._handlers.on(acknowledgements.ArchiveChanged, self._on_archive_changed)
        self._handlers.seal()

    def receive(self, message: object) -> None:
        """Handle one message of `messages.Command`."""
        self._handlers.dispatch(message)

    def on_start(self) -> None:
        """Begin to tick, and show what is known from before."""
        self._ticker = self.runtime.every(self._interval_milliseconds, self.address, acknowledgements.Tick())
        self._show()

    def on_stop(self) -> None:
        """Tick no more. What was held and not written is said again by whoever said it."""
        if self._ticker is not None:
            self._ticker.cancel()

    def _on_tick(self, _message: acknowledgements.Tick) -> None:
        self._execute(self._core.on_tick())
        self._warn()

    def _on_applied(self, message: FrontierApplied) -> None:
        self._execute(self._core.on_applied(message, now_ms=self.runtime.clock.now_micros() // 1_000))

    def _on_frame(self, message: ReplicaFrame) -> None:
        assert message.command == COMMAND
        self._execute(self._core.on_frame(message.sender, message.body))

    def _on_peer_admitted(self, message: PeerAdmitted) -> None:
        self._execute(self._core.on_peer_admitted(message.replica, voter=message.voter))

    def _on_evidence_query(self, message: acknowledgements.EvidenceQuery) -> None:
        known = self._store.all()
        message.reply_to.tell(
            acknowledgements.EvidenceAnswer(
                token=message.token, evidence=evidence(self._core.membership, known), acknowledgements=known
            )
        )

    def _on_archive_changed(self, message: acknowledgements.ArchiveChanged) -> None:
        """More is kept, or less: what is safe of it goes at once, and what is not is shown."""
        self._kept = KeptHistory(
            first_op=message.first_op,
            last_op=message.last_op,
            segments=message.segments,
            size=message.size,
            limit=self._archive_limit,
        )
        self._reclaim()
        self._show()

    def _reclaim(self) -> None:
        """Have deleted what every required replica durably has, as far as the stored statements prove it."""
        if self._journal is None or self._kept is None or not self._kept.segments:
            return
        found = evidence(self._core.membership, self._store.all())
        if isinstance(found, acknowledgements.SafeThrough):
            self._journal.tell(Reclaim(frontier=found.frontier))

    # Effects.

    def _execute(self, effects: list[AcknowledgementEffect]) -> None:
        for effect in effects:
            match effect:
                case core.AskFrontier():
                    self._metadata.tell(FrontierWanted(reply_to=self.address))
                case core.Say():
                    self._say(effect)
                case core.Record():
                    self._record(effect)
                case core.Refused():
                    self._refused(effect)

    def _say(self, effect: core.Say) -> None:
        if self._replicas is None:
            return
        header = ExtensionHeader(
            command=COMMAND, group=self._group, cluster=self._identity.cluster, replica=self._identity.replica
        )
        frame = header.encode(effect.acknowledgement.encode())
        if effect.replica is None:
            self._replicas.tell(Broadcast(frame=frame))
        else:
            self._replicas.tell(SendToReplica(replica=effect.replica, frame=frame))

    def _record(self, effect: core.Record) -> None:
        try:
            kept = self._store.record_all(effect.acknowledgements, forgotten=effect.forgotten)
        except StorageError as error:
            self._core.on_record_failed(effect)
            if str(error) != self._failure:
                self._failure = str(error)
                self._log.warning("acknowledgements are not durable, tried again: {}", error)
            return
        if self._failure:
            self._failure = ""
            self._log.info("acknowledgements are durable again")
        for acknowledgement, is_kept in zip(effect.acknowledgements, kept, strict=True):
            if not is_kept:
                self._log.debug("an acknowledgement of {} goes backwards, dropped", acknowledgement.replica_id)
        self._reclaim()
        self._show()

    def _refused(self, effect: core.Refused) -> None:
        self._log.warning(
            "an acknowledgement of replica {} is dropped ({} of this kind): {}",
            effect.replica,
            effect.count,
            effect.detail,
        )
        self._show()

    def _show(self) -> None:
        told = report(
            self._core.membership,
            self._store.all(),
            own=self._identity.replica_id,
            names=self._names,
            refused=self._core.refusals,
            kept=self._kept,
        )
        if told != self._told:
            self._told = told
            self._bus.tell(told)

    def _warn(self) -> None:
        """Say when more is kept than the limit, and who is waited for; again when that is somebody else.

        Only of what lasted: statements are always a little behind a log that grows, and that is no reason to worry anybody.
        """
        told = self._told
        if told is None or told.kept is None or not told.kept.is_over_limit:
            if self._warned:
                self._log.info("the history that is kept is within acknowledgements.archive_limit again")
            self._warned = self._waited_for = ""
            return
        waited_for = ", ".join(each.node or each.replica_id for each in told.replicas if each.blocks_from)
        self._waited_ticks = self._waited_ticks + 1 if waited_for == self._waited_for else 0
        self._waited_for = waited_for
        if waited_for and self._waited_ticks >= WARNING_TICKS and waited_for != self._warned:
            self._warned = waited_for
            self._log.warning(
                "{} of history are kept, more than acknowledgements.archive_limit ({}); nothing of it is deleted before "
                "everybody has it; blocked by {}",
                size_text(told.kept.size),
                size_text(told.kept.limit),
                blockers(told),
            )
