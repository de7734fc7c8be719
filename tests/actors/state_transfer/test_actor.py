"""The actor between probes: its frames, its files, and what it does when the disk or a peer misbehaves."""

import errno
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

import pytest
from msgpack import unpackb

from levrier.actors.bus import messages as bus
from levrier.actors.bus.link_frames import CONTROL_HEADERS
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.actors.state_transfer import messages as state_transfer
from levrier.actors.state_transfer.actor import StateTransferActor
from levrier.actors.state_transfer.ports import TransferIdentity
from levrier.cluster.transfer_codec import MetadataStateCodec
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.snapshot import (
    TRAILER_SIZE,
    Snapshot,
    SnapshotFields,
    encode_payload,
    write_snapshot,
)
from levrier.wire.checksums import xxh3
from levrier.wire.control import ControlHeader
from levrier.wire.framing import COMMAND_OFFSET
from levrier.wire.manifest import Artifact, decode_manifest, encode_manifest
from levrier.wire.transfer_headers import (
    RequestStateChunkHeader,
    RequestStateTransferHeader,
    StateChunkHeader,
    StateTransferTargetHeader,
)
from tests.actors.client_table.builders import table_of
from tests.actors.metadata.support import Log
from tests.actors.state_transfer.rig import DIRECTORY, SNAPSHOT

CLUSTER, GROUP, SELF, PEER = 77, 5, 1, 2
RETRY = 10
H = TypeVar("H", bound=ControlHeader)


def sections() -> tuple[bytes, bytes, bytes]:
    """Users, streams and client table of a small state."""
    log = Log(MetadataMachine())
    log.bootstrap()
    for number in range(8):
        log.create_stream(f"stream-{number}")
    captured = log.machine.capture(9, 9)
    return b"".join(captured.users()), b"".join(captured.streams()), b"".join(table_of(4, (0xA, 2)).capture().chunks())


def fields(op: int = 9, *, table_frontier: int | None = None) -> SnapshotFields:
    return SnapshotFields(
        sequence=op,
        created_at=op,
        writer_release=1,
        next_user_id=1,
        table_frontier=op if table_frontier is None else table_frontier,
    )


def payload(op: int = 9) -> bytes:
    users, streams, clients = sections()
    return encode_payload(fields(op), users=users, streams=streams, client_table=clients)


class Desk:
    """Replica 1 of the group, with replica 2 at the other end of the frames."""

    def __init__(self, *, with_snapshot: bool = False) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.storage = SimulatedStorage(Random(1))
        self.storage.make_directory(DIRECTORY)
        self.codec = MetadataStateCodec()
        if with_snapshot:
            write_snapshot(self.storage, DIRECTORY, fields(), sections())
        self.replicas: Probe[bus.ReplicaCommand] = Probe("replicas")
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.checkpoint: Probe[checkpoint.Command] = Probe("checkpoint")
        self.ref: Any = None

    def start(self) -> "Desk":
        self.ref = StateTransferActor.start(
            name="state_transfer",
            runtime=self.runtime,
            identity=TransferIdentity(cluster=CLUSTER, group=GROUP, replica=SELF),
            storage=self.storage,
            directory=DIRECTORY,
            codec=self.codec,
            replicas=self.replicas,
            consensus=self.consensus,
            checkpoint=self.checkpoint,
            retry_ticks=RETRY,
            view=3,
        )
        self.runtime.run()
        return self

    def tell(self, *messages: state_transfer.Command) -> None:
        for message in messages:
            self.ref.tell(message)
        self.runtime.run()

    def hear(self, header: ControlHeader, body: bytes = b"") -> None:
        """A frame of the peer arrives."""
        self.tell(bus.ReplicaFrame(command=header.command_code, header=header, body=body, sender=PEER))

    def sent(self, kind: type[H]) -> tuple[H, bytes]:
        """The oldest frame that was sent, to the peer, of this kind."""
        message = self.replicas.take()
        assert isinstance(message, bus.SendToReplica)
        assert message.replica == PEER
        assert CONTROL_HEADERS[message.frame[COMMAND_OFFSET]] is kind
        header, body = kind.decode_frame(message.frame)
        assert (header.cluster, header.replica, header.group) == (CLUSTER, SELF, GROUP)  # type: ignore[attr-defined]
        return header, body

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tell(state_transfer.Tick())

    def offered(self, nonce: int = 70, *, token: int = 1, **verdict: int) -> tuple[StateTransferTargetHeader, bytes]:
        """Have the peer ask and Consensus grant; gives the descriptor."""
        self.hear(RequestStateTransferHeader(nonce=nonce, group=GROUP, cluster=CLUSTER, replica=PEER))
        assert self.consensus.take() == consensus.OfferWanted(token=token)
        grant = {"snapshot_op": 9, "commit_op": 11, "commit_max": 12, "view": 4, **verdict}
        self.tell(state_transfer.OfferVerdict(token=token, granted=True, **grant))
        return self.sent(StateTransferTargetHeader)

    def want(self, artifact: int, offset: int, size: int, *, nonce: int = 70) -> None:
        self.hear(
            RequestStateChunkHeader(
                nonce=nonce, offset=offset, group=GROUP, len=size, artifact=artifact, cluster=CLUSTER, replica=PEER
            )
        )

    def fetch(self, attempt: int = 1) -> int:
        """Begin an attempt; gives the nonce of its request."""
        self.tell(state_transfer.FetchRequired(attempt=attempt, peer=PEER, view=6, snapshot_op=0))
        return self.sent(RequestStateTransferHeader)[0].nonce

    def describe(self, nonce: int, artifacts: tuple[Artifact, ...], *, commit_op: int = 11) -> None:
        self.hear(
            StateTransferTargetHeader(
                nonce=nonce,
                commit_op=commit_op,
                group=GROUP,
                available=1,
                commit_max=commit_op + 1,
                cluster=CLUSTER,
                replica=PEER,
            ),
            encode_manifest(artifacts),
        )

    def feed(self, parts: tuple[bytes, bytes]) -> None:
        """Answer every request for bytes."""
        while self.replicas.count:
            wanted, _ = self.sent(RequestStateChunkHeader)
            data = parts[wanted.artifact][wanted.offset : wanted.offset + wanted.len]
            header = StateChunkHeader(
                nonce=wanted.nonce,
                offset=wanted.offset,
                group=GROUP,
                artifact=wanted.artifact,
                cluster=CLUSTER,
                replica=PEER,
            )
            self.hear(header, data)

    def failure(self) -> consensus.TransferFailed:
        """What Consensus was told last."""
        message = self.consensus.take_all()[-1]
        assert isinstance(message, consensus.TransferFailed), message
        return message

    def files(self) -> tuple[str, ...]:
        return self.storage.list(DIRECTORY)


def table_artifact() -> bytes:
    return MetadataStateCodec().table_artifact(_clients())


def _clients() -> object:
    section: object = unpackb(sections()[2], use_list=False)
    return section


def artifacts_of(parts: tuple[bytes, bytes], *, op: int = 9, frontier: int | None = None) -> tuple[Artifact, Artifact]:
    snapshot, table = parts
    return (
        Artifact(kind=0, frontier=op, size=len(snapshot), checksum=xxh3(snapshot)),
        Artifact(kind=1, frontier=op if frontier is None else frontier, size=len(table), checksum=xxh3(table)),
    )


def test_an_offer_states_view_frontiers_and_the_artifacts_of_the_file() -> None:
    desk = Desk(with_snapshot=True).start()

    header, body = desk.offered()

    assert (header.nonce, header.available, header.commit_op, header.commit_max, header.view) == (70, 1, 11, 12, 4)
    assert decode_manifest(body) == artifacts_of((payload(), table_artifact()))


def test_the_bytes_served_are_the_payload_and_the_table() -> None:
    desk = Desk(with_snapshot=True).start()
    desk.offered()

    for artifact, expected in enumerate((payload(), table_artifact())):
        desk.want(artifact, 7, 1 << 20)
        header, body = desk.sent(StateChunkHeader)
        assert (header.nonce, header.artifact, header.offset, header.view) == (70, artifact, 7, 4)
        assert body == expected[7:]


def test_a_snapshot_is_read_in_pieces_and_never_as_a_whole() -> None:
    """Streaming from the disk: no read of a file is longer than 256 KiB."""
    desk = Desk()
    users, streams, clients = sections()
    large = b"\xc6" + (3 << 20).to_bytes(4, "big") + bytes(3 << 20)
    write_snapshot(desk.storage, DIRECTORY, fields(), (users, large, clients))
    desk.start()

    _, body = desk.offered()

    assert decode_manifest(body)[0].size == len(users) + len(large) + len(clients) + len(payload()) - len(
        b"".join(sections())
    )
    assert max(call.size for call in desk.storage.audit if call.name == "read") <= 256 * 1024
    assert streams


def test_the_table_of_a_snapshot_that_is_ahead_keeps_its_frontier() -> None:
    desk = Desk()
    write_snapshot(desk.storage, DIRECTORY, fields(table_frontier=15), sections())
    desk.start()

    header, body = desk.offered()

    assert [artifact.frontier for artifact in decode_manifest(body)] == [9, 15]
    assert (header.commit_op, header.commit_max) == (15, 15)


def test_a_newer_view_is_stamped() -> None:
    desk = Desk(with_snapshot=True).start()
    desk.tell(state_transfer.ViewObserved(view=9))

    header, _ = desk.offered(view=8)

    assert header.view == 9


@pytest.mark.parametrize("damage", ["missing", "flipped", "cut", "trailer", "table"])
def test_a_file_that_cannot_be_served_is_refused(damage: str) -> None:
    """BR-23: every byte of it is judged before the first one leaves."""
    desk = Desk(with_snapshot=damage != "missing")
    content = desk.storage.content(SNAPSHOT) or b""
    if damage == "flipped":
        desk.storage.flip(SNAPSHOT, len(content) // 2)
    elif damage == "cut":
        desk.storage.put(SNAPSHOT, content[:15])
    elif damage == "trailer":
        desk.storage.flip(SNAPSHOT, len(content) - 1)
    elif damage == "table":
        write_snapshot(desk.storage, DIRECTORY, fields(), (*sections()[:2], b"\x01"))
    desk.start()

    header, body = desk.offered()

    assert (header.available, header.unavailable_transient, body) == (0, 0, b"")
    assert not desk.runtime.failures


def test_every_flipped_byte_of_the_file_is_found() -> None:
    content = Desk(with_snapshot=True).storage.content(SNAPSHOT)
    assert content is not None
    for offset in range(0, len(content), 5):
        desk = Desk(with_snapshot=True)
        desk.storage.flip(SNAPSHOT, offset, bit=offset % 8)
        assert desk.start().offered()[0].available == 0, offset
    assert len(content) > TRAILER_SIZE


def test_a_refusal_of_consensus_reaches_the_peer() -> None:
    desk = Desk(with_snapshot=True).start()
    desk.hear(RequestStateTransferHeader(nonce=70, group=GROUP, cluster=CLUSTER, replica=PEER))

    desk.tell(state_transfer.OfferVerdict(token=1, granted=False))

    header, _ = desk.sent(StateTransferTargetHeader)
    assert (header.nonce, header.available, header.unavailable_transient) == (70, 0, 0)


def test_bytes_of_an_unknown_offer_are_unavailable_for_now() -> None:
    desk = Desk(with_snapshot=True).start()

    desk.want(0, 0, 10)

    header, _ = desk.sent(StateTransferTargetHeader)
    assert (header.nonce, header.available, header.unavailable_transient) == (70, 0, 1)


def test_br17_an_expired_offer_is_closed() -> None:
    """BR-17 (c)"""
    desk = Desk(with_snapshot=True).start()
    desk.offered()

    desk.ticks(10 * RETRY)
    desk.want(0, 0, 10)

    assert desk.sent(StateTransferTargetHeader)[0].unavailable_transient == 1


def test_a_disk_that_refuses_a_chunk_ends_the_offer() -> None:
    desk = Desk(with_snapshot=True).start()
    desk.offered()
    desk.storage.faults.fail_at[desk.storage.calls + 1] = errno.EIO

    desk.want(0, 0, 10)
    assert desk.sent(StateTransferTargetHeader)[0].unavailable_transient == 1
    assert desk.offered(71, token=2)[0].available == 1


def test_an_offer_outlives_the_file_it_was_made_from() -> None:
    """BR-17 (a): a checkpoint has put a newer snapshot in its place."""
    desk = Desk(with_snapshot=True).start()
    desk.offered()
    write_snapshot(desk.storage, DIRECTORY, fields(20), sections())

    desk.want(0, 0, 1 << 20)

    assert desk.sent(StateChunkHeader)[1] == payload()
    header, body = desk.offered(71, token=2, snapshot_op=20, commit_op=21, commit_max=21)
    assert header.available == 1
    assert decode_manifest(body)[0].frontier == 20


def test_a_fetch_hands_over_what_it_received() -> None:
    desk = Desk().start()
    parts = (payload(), table_artifact())
    nonce = desk.fetch()

    desk.describe(nonce, artifacts_of(parts, frontier=10))
    assert desk.consensus.take() == consensus.TransferAccepted(attempt=1)
    desk.feed(parts)

    ready = desk.consensus.take()
    assert isinstance(ready, consensus.InstallReady)
    assert (ready.attempt, ready.table_frontier, ready.commit_op, ready.commit_max) == (1, 10, 11, 12)
    assert (ready.snapshot.op, ready.snapshot.checksum) == (9, xxh3(parts[0]))
    assert ready.snapshot.client_table == parts[1]
    assert ready.snapshot_size == len(parts[0])


def test_the_coordinator_gets_the_payload_from_the_disk_and_the_files_go_at_the_end() -> None:
    desk = Desk().start()
    parts = (payload(), table_artifact())
    desk.describe(desk.fetch(), artifacts_of(parts))
    desk.feed(parts)
    assert desk.files() == ("received.snapshot", "received.table")

    desk.tell(state_transfer.PlaceSnapshot(attempt=1))
    place = desk.checkpoint.take()
    assert isinstance(place, checkpoint.PlaceReceived)
    assert (place.attempt, place.op, place.size, place.checksum) == (1, 9, len(parts[0]), xxh3(parts[0]))
    assert b"".join(place.payload.chunks()) == parts[0]
    desk.tell(state_transfer.ReceivedPlaced(attempt=1))
    assert desk.consensus.take_all()[-1] == consensus.SnapshotPlaced(attempt=1)
    desk.tell(state_transfer.InstallFinished(attempt=1, applied_op=9, is_ahead=True))

    assert desk.checkpoint.take() == checkpoint.FinishReceived(op=9)
    assert desk.files() == ()


def test_a_snapshot_that_is_not_placed_fails_the_attempt() -> None:
    desk = Desk().start()
    parts = (payload(), table_artifact())
    desk.describe(desk.fetch(), artifacts_of(parts))
    desk.feed(parts)
    desk.tell(state_transfer.PlaceSnapshot(attempt=1))

    desk.tell(state_transfer.ReceivedNotPlaced(attempt=1, reason="the disk is full"))

    assert desk.failure() == consensus.TransferFailed(attempt=1, reason="the disk is full")
    assert desk.files() == ()


@pytest.mark.parametrize(
    ("frontier", "commit_op"), [(8, 11), (12, 11), (9, 8)], ids=["table behind", "table beyond", "commit behind"]
)
def test_frontiers_that_contradict_each_other_are_not_installed(frontier: int, commit_op: int) -> None:
    """Section 11, step 2: nothing has changed."""
    desk = Desk().start()
    parts = (payload(), table_artifact())
    desk.describe(desk.fetch(), artifacts_of(parts, frontier=frontier), commit_op=commit_op)

    desk.feed(parts)

    assert "commit point" in desk.failure().reason
    assert desk.files() == ()


DAMAGED = {
    "no msgpack": (b"\xc1" * 40, None),
    "another version": (payload().replace(b"\x9d\x01", b"\x9d\x02", 1), None),
    "no users": (encode_payload(fields(), streams=sections()[1], client_table=sections()[2]), None),
    "no streams": (encode_payload(fields(), users=sections()[0], client_table=sections()[2]), None),
    "no stored table": (encode_payload(fields(), users=sections()[0], streams=sections()[1]), None),
    "another op": (payload(8), None),
    "a bad table": (payload(), b"ICT3 and nothing more"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_what_is_no_state_is_fetched_again_and_given_up_at_last(kind: str) -> None:
    """Section 11: whole by its checksum and yet no state, in every part of it; nothing reaches Consensus."""
    snapshot, table = DAMAGED[kind]
    parts = (snapshot, table_artifact() if table is None else table)
    desk = Desk().start()
    nonce = desk.fetch()
    nonces = {nonce}
    for _ in range(6):
        desk.describe(nonce, artifacts_of(parts))
        while desk.consensus.count < 1000 and desk.replicas.count:
            message = desk.replicas.take()
            assert isinstance(message, bus.SendToReplica)
            header, _ = CONTROL_HEADERS[message.frame[COMMAND_OFFSET]].decode_frame(message.frame)
            if isinstance(header, RequestStateTransferHeader):
                nonce = header.nonce
                nonces.add(nonce)
                break
            assert isinstance(header, RequestStateChunkHeader)
            data = parts[header.artifact][header.offset : header.offset + header.len]
            desk.hear(
                StateChunkHeader(
                    nonce=header.nonce,
                    offset=header.offset,
                    group=GROUP,
                    artifact=header.artifact,
                    cluster=CLUSTER,
                    replica=PEER,
                ),
                data,
            )

    assert len(nonces) == 6
    assert "damaged 6 times" in desk.failure().reason
    assert desk.files() == ()


@pytest.mark.parametrize("index", [0, 1], ids=["snapshot", "table"])
def test_whole_bytes_that_are_not_the_promised_ones_are_not_installed(index: int) -> None:
    """C-222: a state that decodes, of another checksum than the manifest's."""
    desk = Desk().start()
    parts = (payload(), table_artifact())
    promised = list(artifacts_of(parts))
    promised[index] = replace(promised[index], checksum=promised[index].checksum ^ 1)
    desk.describe(desk.fetch(), (promised[0], promised[1]))

    while desk.storage.exists(DIRECTORY / "received.table"):
        wanted, _ = desk.sent(RequestStateChunkHeader)
        data = parts[wanted.artifact][wanted.offset : wanted.offset + wanted.len]
        header = StateChunkHeader(
            nonce=wanted.nonce,
            offset=wanted.offset,
            group=GROUP,
            artifact=wanted.artifact,
            cluster=CLUSTER,
            replica=PEER,
        )
        desk.hear(header, data)

    desk.sent(RequestStateTransferHeader)
    assert desk.consensus.take_all() == [consensus.TransferAccepted(attempt=1)]


def test_a_full_disk_fails_the_attempt_and_leaves_nothing() -> None:
    for call in range(1, 8):
        desk = Desk().start()
        parts = (payload(), table_artifact())
        nonce = desk.fetch()
        desk.storage.faults.fail_at[desk.storage.calls + call] = errno.ENOSPC
        desk.describe(nonce, artifacts_of(parts))
        desk.feed(parts)
        message = desk.consensus.take_all()[-1]
        if isinstance(message, consensus.InstallReady):
            continue  # The call was one that tidies up.
        assert isinstance(message, consensus.TransferFailed)
        assert "ENOSPC" in message.reason
        desk.storage.faults.fail_at.clear()
        desk.ticks(RETRY)
        desk.describe(desk.fetch(2), artifacts_of(parts))
        desk.feed(parts)
        assert isinstance(desk.consensus.take_all()[-1], consensus.InstallReady)


def test_what_an_earlier_life_received_is_removed_at_the_start() -> None:
    desk = Desk()
    desk.storage.put(DIRECTORY / "received.snapshot", b"half")

    desk.start()

    assert desk.files() == ()


def test_a_canceled_fetch_leaves_nothing_and_answers_nothing() -> None:
    desk = Desk().start()
    parts = (payload(), table_artifact())
    desk.describe(desk.fetch(), artifacts_of(parts))
    assert desk.files()

    desk.tell(state_transfer.FetchCanceled(attempt=1))
    desk.feed(parts)

    assert desk.consensus.take_all() == [consensus.TransferAccepted(attempt=1)]
    assert desk.files() == ()


def test_nonces_differ() -> None:
    desk = Desk().start()

    assert len({desk.fetch(attempt) for attempt in range(1, 6)}) == 5


def test_the_view_of_an_order_is_stamped_on_requests() -> None:
    desk = Desk().start()
    desk.tell(state_transfer.FetchRequired(attempt=1, peer=PEER, view=6, snapshot_op=0))

    assert desk.sent(RequestStateTransferHeader)[0].view == 6


def test_the_codec_refuses_what_a_snapshot_lacks() -> None:
    snapshot = Snapshot(fields=fields(), users=None, streams=None, client_table=None, checksum=0, size=0)

    with pytest.raises(ValueError, match="snapshot"):
        MetadataStateCodec().check(snapshot, table_artifact())
