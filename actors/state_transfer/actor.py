"""The StateTransfer actor: serves the state of this replica to peers, and fetches a peer's (consensus specification 11).

Both halves are pure cores, `offers` and `fetch`; this shell turns frames into calls and their effects into frames, file
operations and messages. It has a thread of its own, so reading the disk blocks nobody else. Frames of a transfer are not
gated by the superblock: they carry a view, but nothing that is promised in it (section 9).
"""

from pathlib import Path

from loguru import logger

from levrier.actors.bus import messages as bus
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime
from levrier.actors.state_transfer import fetch, offers
from levrier.actors.state_transfer import messages as state_transfer
from levrier.actors.state_transfer.errors import IncoherentManifest
from levrier.actors.state_transfer.ports import StateCodec, TransferIdentity
from levrier.actors.state_transfer.received import ReceivedFiles, judge
from levrier.actors.state_transfer.served import ServedSnapshot, open_served
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.errors import StorageError
from levrier.persistence.storage import Storage
from levrier.wire.control import ControlHeader
from levrier.wire.errors import WireError
from levrier.wire.manifest import Artifact
from levrier.wire.transfer_headers import (
    STATE_CHUNK_SIZE_MAX,
    RequestStateChunkHeader,
    RequestStateTransferHeader,
    StateChunkHeader,
    StateTransferTargetHeader,
)


class StateTransferActor(NodeActor):
    """Works in `directory`, the one of the group. `retry_ticks` is the repair retry interval in ticks (1 s)."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        identity: TransferIdentity,
        storage: Storage,
        directory: Path,
        codec: StateCodec,
        replicas: Recipient[bus.ReplicaCommand],
        consensus: Recipient[consensus.Command],
        checkpoint: Recipient[checkpoint.Command],
        retry_ticks: int,
        chunk_size_max: int = STATE_CHUNK_SIZE_MAX,
        view: int = 0,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = logger.bind(actor=name)
        self._identity = identity
        self._storage = storage
        self._snapshot_path = GroupPaths(directory).snapshot
        self._codec = codec
        self._replicas = replicas
        self._consensus = consensus
        self._checkpoint = checkpoint
        self._view = view
        self._offers = offers.Offers(retry_ticks=retry_ticks)
        self._served: dict[int, ServedSnapshot] = {}
        self._fetch = fetch.Fetch(
            new_nonce=lambda: int.from_bytes(runtime.entropy(16), "little"),
            retry_ticks=retry_ticks,
            chunk_size_max=chunk_size_max,
        )
        self._files = ReceivedFiles(storage, directory)
        self._snapshot_artifact: Artifact | None = None
        self._handlers = _handlers(self)
        self._frames = {
            RequestStateTransferHeader: self._on_transfer_requested,
            StateTransferTargetHeader: self._on_target,
            RequestStateChunkHeader: self._on_chunk_wanted,
            StateChunkHeader: self._on_chunk,
        }

    def receive(self, message: object) -> None:
        """Handle one message of the protocol."""
        self._handlers.dispatch(message)

    def on_start(self) -> None:
        """Free what an earlier life has left behind."""
        self._files.discard()

    def on_stop(self) -> None:
        """Close every file."""
        for served in self._served.values():
            served.close()
        self._served.clear()
        self._files.discard()

    # Consensus and the coordinator.

    def _on_fetch_required(self, message: state_transfer.FetchRequired) -> None:
        self._view = max(self._view, message.view)
        self._log.info("state transfer {} from replica {} begins", message.attempt, message.peer)
        self._run_fetch(self._fetch.on_required(message.attempt, message.peer))

    def _on_fetch_canceled(self, message: state_transfer.FetchCanceled) -> None:
        self._run_fetch(self._fetch.on_canceled(message.attempt))

    def _on_place_snapshot(self, message: state_transfer.PlaceSnapshot) -> None:
        self._run_fetch(self._fetch.on_place(message.attempt))

    def _on_install_finished(self, message: state_transfer.InstallFinished) -> None:
        self._log.info("state transfer {} is installed: op {}", message.attempt, message.applied_op)
        self._run_fetch(self._fetch.on_finished(message.attempt, is_ahead=message.is_ahead))

    def _on_received_placed(self, message: state_transfer.ReceivedPlaced) -> None:
        self._run_fetch(self._fetch.on_placed(message.attempt))

    def _on_received_not_placed(self, message: state_transfer.ReceivedNotPlaced) -> None:
        self._run_fetch(self._fetch.on_not_placed(message.attempt, message.reason))

    def _on_offer_verdict(self, message: state_transfer.OfferVerdict) -> None:
        self._view = max(self._view, message.view)
        grant = None
        if message.granted:
            grant = offers.Grant(
                snapshot_op=message.snapshot_op, commit_op=message.commit_op, commit_max=message.commit_max
            )
        self._run_offers(self._offers.on_verdict(message.token, grant))

    def _on_view_observed(self, message: state_transfer.ViewObserved) -> None:
        self._view = max(self._view, message.view)

    def _on_tick(self, _message: state_transfer.Tick) -> None:
        self._run_offers(self._offers.on_tick())
        self._run_fetch(self._fetch.on_tick())

    # Frames.

    def _on_frame(self, message: bus.ReplicaFrame) -> None:
        self._frames[type(message.header)](message)

    def _on_transfer_requested(self, message: bus.ReplicaFrame) -> None:
        header = message.header
        assert isinstance(header, RequestStateTransferHeader)
        self._run_offers(self._offers.on_request(message.sender, header.nonce))

    def _on_chunk_wanted(self, message: bus.ReplicaFrame) -> None:
        header = message.header
        assert isinstance(header, RequestStateChunkHeader)
        self._run_offers(
            self._offers.on_chunk_wanted(message.sender, header.nonce, header.artifact, header.offset, header.len)
        )

    def _on_target(self, message: bus.ReplicaFrame) -> None:
        header = message.header
        assert isinstance(header, StateTransferTargetHeader)
        target = fetch.Target(
            nonce=header.nonce,
            is_available=header.available == 1,
            commit_op=header.commit_op,
            commit_max=header.commit_max,
            body=message.body,
        )
        self._run_fetch(self._fetch.on_target(message.sender, target))

    def _on_chunk(self, message: bus.ReplicaFrame) -> None:
        header = message.header
        assert isinstance(header, StateChunkHeader)
        self._run_fetch(
            self._fetch.on_chunk(message.sender, header.nonce, header.artifact, header.offset, message.body)
        )

    def _send(self, replica: int, header: ControlHeader, body: bytes = b"") -> None:
        self._replicas.tell(bus.SendToReplica(replica=replica, frame=header.encode(body)))

    # Serving.

    def _run_offers(self, effects: list[offers.OfferEffect]) -> None:
        for effect in effects:
            match effect:
                case offers.SendChunk():
                    self._send_chunk(effect)
                case offers.SendTarget():
                    self._send_target(effect)
                case offers.AskVerdict(token=token):
                    self._consensus.tell(consensus.OfferWanted(token=token))
                case offers.LoadSnapshot(token=token):
                    self._load(token)
                case offers.Release(op=op):
                    self._served.pop(op).close()
                case offers.Ignore(what=what):
                    self._log.debug("state transfer: {}", what)

    def _load(self, token: int) -> None:
        try:
            served = open_served(self._storage, self._snapshot_path, self._codec)
        except StorageError as error:
            self._log.error("the snapshot cannot be served to a peer: {}", error)
            served = None
        if served is None:
            self._run_offers(self._offers.on_unreadable(token))
            return
        if served.op in self._served:
            served.close()
        else:
            self._served[served.op] = served
        self._run_offers(self._offers.on_loaded(token, served.op, served.artifacts))

    def _send_target(self, effect: offers.SendTarget) -> None:
        identity = self._identity
        header = StateTransferTargetHeader(
            nonce=effect.nonce,
            commit_op=effect.commit_op,
            group=identity.group,
            available=int(bool(effect.manifest)),
            unavailable_transient=int(effect.is_transient),
            commit_max=effect.commit_max,
            cluster=identity.cluster,
            view=self._view,
            replica=identity.replica,
        )
        self._send(effect.requester, header, effect.manifest)

    def _send_chunk(self, effect: offers.SendChunk) -> None:
        try:
            data = self._served[effect.op].read(effect.artifact, effect.offset, effect.size)
        except StorageError as error:
            self._log.error("the snapshot of op {} cannot be read for a peer: {}", effect.op, error)
            data = b""
        if not data:
            self._run_offers(self._offers.on_read_failed(effect.requester, effect.nonce))
            return
        identity = self._identity
        header = StateChunkHeader(
            nonce=effect.nonce,
            offset=effect.offset,
            group=identity.group,
            artifact=effect.artifact,
            cluster=identity.cluster,
            view=self._view,
            replica=identity.replica,
        )
        self._send(effect.requester, header, data)

    # Fetching.

    def _run_fetch(self, effects: list[fetch.FetchEffect]) -> None:
        for effect in effects:
            try:
                self._run_fetch_effect(effect)
            except StorageError as error:
                self._run_fetch(self._fetch.on_storage_failed(str(error)))
                return

    def _run_fetch_effect(self, effect: fetch.FetchEffect) -> None:
        match effect:
            case fetch.Store(artifact=artifact, offset=offset, data=data):
                self._files.write(artifact, offset, data)
            case fetch.RequestChunk() | fetch.RequestTarget():
                self._ask(effect)
            case fetch.Judge(attempt=attempt):
                self._judge(attempt)
            case fetch.Place(attempt=attempt):
                self._place(attempt)
            case fetch.FinishPlaced():
                assert self._snapshot_artifact is not None
                self._checkpoint.tell(checkpoint.FinishReceived(op=self._snapshot_artifact.frontier))
            case fetch.Discard():
                self._files.discard()
            case fetch.Drop(what=what):
                self._log.debug("state transfer, dropped: {}", what)
            case fetch.ReportAccepted(attempt=attempt):
                self._consensus.tell(consensus.TransferAccepted(attempt=attempt))
                self._files.begin()
            case fetch.ReportPlaced(attempt=attempt):
                self._consensus.tell(consensus.SnapshotPlaced(attempt=attempt))
            case fetch.ReportFailed(attempt=attempt, reason=reason, is_refused=is_refused):
                self._consensus.tell(consensus.TransferFailed(attempt=attempt, reason=reason, is_refused=is_refused))

    def _ask(self, effect: fetch.RequestChunk | fetch.RequestTarget) -> None:
        identity = self._identity
        if isinstance(effect, fetch.RequestTarget):
            self._send(
                effect.peer,
                RequestStateTransferHeader(
                    nonce=effect.nonce,
                    group=identity.group,
                    cluster=identity.cluster,
                    view=self._view,
                    replica=identity.replica,
                ),
            )
            return
        self._send(
            effect.peer,
            RequestStateChunkHeader(
                nonce=effect.nonce,
                offset=effect.range.offset,
                group=identity.group,
                len=effect.range.size,
                artifact=effect.range.artifact,
                cluster=identity.cluster,
                view=self._view,
                replica=identity.replica,
            ),
        )

    def _judge(self, attempt: int) -> None:
        artifacts, commit_op = self._fetch.assembly.artifacts, self._fetch.commit_op
        try:
            snapshot = judge(self._files, artifacts, commit_op, self._codec)
        except IncoherentManifest as error:
            self._run_fetch(self._fetch.on_incoherent(str(error)))
            return
        except WireError as error:
            self._log.warning("state transfer {}: what arrived is damaged: {}", attempt, error)
            self._run_fetch(self._fetch.on_damaged(str(error)))
            return
        self._snapshot_artifact, table = artifacts
        self._fetch.on_good()
        self._consensus.tell(
            consensus.InstallReady(
                attempt=attempt,
                snapshot=snapshot,
                snapshot_size=snapshot.size,
                table_frontier=table.frontier,
                commit_op=commit_op,
                commit_max=self._fetch.commit_max,
            )
        )

    def _place(self, attempt: int) -> None:
        artifact = self._snapshot_artifact
        assert artifact is not None
        self._checkpoint.tell(
            checkpoint.PlaceReceived(
                attempt=attempt,
                op=artifact.frontier,
                size=artifact.size,
                checksum=artifact.checksum,
                payload=self._files.snapshot_payload(artifact.size),
            )
        )


def _handlers(actor: StateTransferActor) -> Handlers:
    handlers = Handlers(state_transfer.Command)
    handlers.on(state_transfer.FetchRequired, actor._on_fetch_required)
    handlers.on(state_transfer.FetchCanceled, actor._on_fetch_canceled)
    handlers.on(state_transfer.PlaceSnapshot, actor._on_place_snapshot)
    handlers.on(state_transfer.InstallFinished, actor._on_install_finished)
    handlers.on(state_transfer.OfferVerdict, actor._on_offer_verdict)
    handlers.on(state_transfer.ViewObserved, actor._on_view_observed)
    handlers.on(state_transfer.ReceivedPlaced, actor._on_received_placed)
    handlers.on(state_transfer.ReceivedNotPlaced, actor._on_received_not_placed)
    handlers.on(state_transfer.Tick, actor._on_tick)
    handlers.on(bus.ReplicaFrame, actor._on_frame)
    handlers.seal()
    return handlers
