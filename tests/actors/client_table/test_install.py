"""Taking over a received table: in one step, with its whole rings, and never back in time (client-table 10, 11)."""

from dataclasses import replace
from typing import Any

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.client_table import messages as client_table
from levrier.actors.client_table.actor import ClientTableActor
from levrier.actors.client_table.table import Answer, ClientTable
from levrier.actors.client_table.transfer import encode
from levrier.actors.consensus import messages as consensus
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.persistence.snapshot import Snapshot, SnapshotFields
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.replies import committed_reply, result_success
from tests.actors.client_table.builders import ALICE, answer, commit, register, table_of

ANN, BEN = 0xA, 0xB


def snapshot(table: ClientTable, op: int) -> Snapshot:
    """A received snapshot at `op` beside this table."""
    return Snapshot(
        fields=SnapshotFields(sequence=op, created_at=op, writer_release=1),
        users=(),
        streams=(),
        client_table=encode(table.capture()),
        checksum=0,
        size=0,
    )


def remote() -> ClientTable:
    """Ann registered at 1 and had requests 1 to 4 committed at 11 to 14; Ben registered at 2."""
    table = table_of(4, (ANN, 1), (BEN, 2))
    for request in range(1, 5):
        commit(table, ANN, request, 10 + request)
    return table


class Stage:
    """The actor with a table at `last_op`, between probes."""

    def __init__(self, table: ClientTable, *, last_op: int) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.table = table
        self.consensus: Probe[consensus.Command] = Probe("consensus")
        self.bus: Probe[bus.Command] = Probe("bus")
        self.checkpoint: Probe[checkpoint.Command] = Probe("checkpoint")
        self.ref = ClientTableActor.start(
            name="client_table",
            runtime=self.runtime,
            table=table,
            last_op=last_op,
            consensus=self.consensus,
            bus=self.bus,
            checkpoint=self.checkpoint,
        )

    def tell(self, *messages: client_table.Command) -> None:
        for message in messages:
            self.ref.tell(message)
        self.runtime.run()

    def install(self, table: ClientTable, *, op: int, frontier: int, applied_op: int) -> None:
        message = client_table.Install(
            attempt=3, snapshot=snapshot(table, op), table_frontier=frontier, applied_op=applied_op
        )
        self.tell(message)
        assert self.consensus.take() == consensus.Installed(attempt=3, applied_op=applied_op)


def committed(op: int, *, client: int = ANN, request: int = 0, operation: int = Operation.CREATE_STREAM) -> Any:
    header = PrepareHeader(op, int(operation), client=client, request=request, user_id=ALICE)
    return client_table.Commit(header=header, reply=committed_reply(header, result_success()), reply_to=None)


def test_the_whole_ring_answers_after_an_install() -> None:
    """C-204: retries of older requests are answered as by the replica that sent the table."""
    stage = Stage(table_of(4, (BEN, 1)), last_op=5)

    stage.install(remote(), op=20, frontier=20, applied_op=20)

    assert [answer(stage.table, ANN, request) for request in range(1, 6)] == [*[Answer.DUPLICATE] * 4, Answer.NEW]
    assert stage.table.epoch_of(BEN) == 2
    stage.table.verify()
    stage.bus.assert_silent()


def test_the_stream_goes_on_behind_the_snapshot() -> None:
    stage = Stage(table_of(4), last_op=5)
    stage.install(remote(), op=20, frontier=20, applied_op=20)

    stage.tell(committed(21, request=5))

    assert stage.consensus.take() == consensus.Applied(op=21)
    assert answer(stage.table, ANN, 5) is Answer.DUPLICATE


def test_ops_up_to_the_frontier_of_a_table_that_is_ahead_have_no_effect_on_it() -> None:
    """Consensus 11: a register that ran again would move the epoch, a reply would be pushed again."""
    table = remote()
    register(table, ANN, 22)
    commit(table, ANN, 5, 23)
    stage = Stage(table_of(4), last_op=5)
    stage.install(table, op=20, frontier=23, applied_op=20)
    before = encode(stage.table.capture())

    stage.tell(committed(21), committed(22, operation=Operation.REGISTER), committed(23, request=5))

    assert encode(stage.table.capture()) == before
    assert [stage.consensus.take() for _ in range(3)] == [consensus.Applied(op=op) for op in (21, 22, 23)]
    stage.tell(committed(24, request=6))
    assert answer(stage.table, ANN, 6) is Answer.DUPLICATE


def test_behind_the_local_state_a_table_that_is_ahead_is_taken() -> None:
    table = remote()
    commit(table, ANN, 5, 30)
    local = remote()
    stage = Stage(local, last_op=25)

    stage.install(table, op=20, frontier=30, applied_op=25)

    assert answer(stage.table, ANN, 5) is Answer.DUPLICATE


@pytest.mark.parametrize("frontier", [20, 24])
def test_behind_the_local_state_a_table_that_is_older_is_not_taken(frontier: int) -> None:
    """Nothing would bring back what the sessions did since: those ops are applied already."""
    local = remote()
    commit(local, ANN, 5, 25)
    stage = Stage(local, last_op=25)

    stage.install(remote(), op=20, frontier=frontier, applied_op=25)

    assert answer(stage.table, ANN, 5) is Answer.DUPLICATE
    stage.tell(committed(26, request=6))
    assert answer(stage.table, ANN, 6) is Answer.DUPLICATE


def test_a_second_install_that_is_older_than_the_frontier_keeps_the_table() -> None:
    """The first table was ahead at 30; a snapshot at 25 with its own table arrives before the log got there."""
    table = remote()
    commit(table, ANN, 5, 30)
    stage = Stage(table_of(4), last_op=5)
    stage.install(table, op=20, frontier=30, applied_op=20)

    stage.install(remote(), op=25, frontier=25, applied_op=25)

    assert answer(stage.table, ANN, 5) is Answer.DUPLICATE
    stage.tell(*[committed(op) for op in range(26, 31)])
    assert answer(stage.table, ANN, 6) is Answer.NEW


def test_more_sessions_than_slots_are_all_kept() -> None:
    """Client-table 10: growing past the local capacity is deliberate."""
    stage = Stage(table_of(1), last_op=5)

    stage.install(remote(), op=20, frontier=20, applied_op=20)

    assert stage.table.count == 2
    assert stage.table.capacity == 2


def test_a_capture_says_how_far_the_table_reaches() -> None:
    table = remote()
    stage = Stage(table_of(4), last_op=5)
    stage.install(table, op=20, frontier=23, applied_op=20)
    captured = MetadataMachine().capture(20, 20)

    stage.tell(client_table.Capture(op=20, metadata=captured))

    message = stage.checkpoint.take()
    assert isinstance(message, checkpoint.Captured)
    assert message.table_frontier == 23


def test_a_damaged_table_brings_the_node_down_and_changes_nothing() -> None:
    """It was judged before: here it can only be our own bug."""
    local = table_of(4, (BEN, 1))
    stage = Stage(local, last_op=5)
    broken = snapshot(remote(), 20)
    assert isinstance(broken.client_table, bytes)
    broken = replace(broken, client_table=broken.client_table[:-1])

    stage.tell(client_table.Install(attempt=3, snapshot=broken, table_frontier=20, applied_op=20))

    assert [failure.actor for failure in stage.runtime.failures] == ["client_table"]
    assert local.epoch_of(BEN) == 1
    stage.consensus.assert_silent()
