"""Replies, tables and short questions for the tests of the client table."""

from msgpack import unpackb

from levrier.actors.client_table.entries import Reply
from levrier.actors.client_table.snapshot import restore
from levrier.actors.client_table.table import Answer, Check, ClientTable, Committed, Registered
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader
from levrier.wire.replies import committed_reply, result_success

ROOT, ALICE, BOB = 0, 7, 8


def reply(
    client: int,
    request: int,
    commit: int,
    *,
    checksum: int = 0,
    body: bytes = result_success(),
    operation: int = Operation.CREATE_STREAM,
    view: int = 0,
) -> Reply:
    """The reply that every replica builds for this prepare."""
    header = PrepareHeader(
        op=commit, operation=operation, client=client, request=request, request_checksum=checksum, view=view
    )
    return Reply(committed_reply(header, body), request, checksum, commit)


def register(table: ClientTable, client: int, commit: int, user_id: int = ALICE) -> Registered:
    """Commit a register at this op."""
    return table.commit_register(client, user_id, reply(client, 0, commit, operation=Operation.REGISTER))


def commit(
    table: ClientTable, client: int, request: int, op: int, *, user_id: int = ALICE, checksum: int = 0
) -> Committed:
    """Commit a request at this op."""
    return table.commit_reply(client, user_id, reply(client, request, op, checksum=checksum))


def check(table: ClientTable, client: int, request: int, *, epoch: int | None = None, checksum: int = 0) -> Check:
    """Ask about a request, by default of the client's present epoch."""
    if epoch is None:
        epoch = table.epoch_of(client)
        assert epoch is not None, "name an epoch for a client without a session"
    return table.check_request(client, epoch, request, checksum)


def answer(table: ClientTable, client: int, request: int, *, epoch: int | None = None, checksum: int = 0) -> Answer:
    """Only the answer of `check`."""
    return check(table, client, request, epoch=epoch, checksum=checksum).answer


def cached_commit(checked: Check) -> int:
    """The commit of the reply that a Duplicate carries."""
    assert checked.answer is Answer.DUPLICATE
    assert checked.reply is not None
    return checked.reply.commit


def table_of(capacity: int, *registers: tuple[int, int]) -> ClientTable:
    """A table in which these (client, op) registered, all of user ALICE."""
    table = ClientTable(capacity)
    for client, op in registers:
        register(table, client, op)
    return table


def section_of(table: ClientTable) -> object:
    """The decoded snapshot section of a table."""
    section: object = unpackb(b"".join(table.capture().chunks()))
    return section


def restored(table: ClientTable, min_slots: int) -> ClientTable:
    """The table after a checkpoint and a restart."""
    return restore(section_of(table), min_slots)
