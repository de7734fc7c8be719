"""A snapshot of the whole state: sessions included, equal bytes for equal state (D-05)."""

from levrier.actors.client_table.commits import record
from levrier.actors.client_table.snapshot import restore
from levrier.actors.client_table.table import ClientTable
from levrier.persistence.snapshot import SnapshotFields, decode_payload, encode_payload
from levrier.wire.codes import Operation
from levrier.wire.prepare import project
from levrier.wire.replies import committed_reply

FIELDS = SnapshotFields(sequence=9, created_at=1, writer_release=0)


def _commit(table: ClientTable, *, op: int, client: int, request: int, operation: Operation, payload: bytes) -> None:
    prepare = project(
        cluster=1,
        view=0,
        release=0,
        replica=0,
        client=client,
        parent=0,
        request_checksum=7 * request,
        op=op,
        commit=op - 1,
        timestamp=op,
        request=request,
        operation=int(operation),
        group=1 << 63,
        user_id=3,
        body=b"",
    )
    record(table, prepare.header, committed_reply(prepare.header, payload), ())


def _table(*, clients: int, payload: bytes) -> ClientTable:
    table = ClientTable(8)
    for client in range(1, clients + 1):
        _commit(table, op=client, client=client, request=0, operation=Operation.REGISTER, payload=b"")
    for client in range(1, clients + 1):
        op = clients + client
        _commit(table, op=op, client=client, request=1, operation=Operation.CREATE_STREAM, payload=payload)
    return table


def _payload(table: ClientTable) -> bytes:
    return encode_payload(FIELDS, client_table=b"".join(table.capture().chunks()))


def test_a_decoded_client_table_encodes_to_the_same_snapshot() -> None:
    """C-146"""
    payload = _payload(_table(clients=3, payload=b"\0\0\0\0"))
    decoded = decode_payload(payload)
    again = _payload(restore(decoded.client_table, 8))
    assert again == payload
    assert decoded.checksum != decode_payload(_payload(ClientTable(8))).checksum


def test_a_reply_of_high_bytes_costs_what_it_is_long() -> None:
    """C-147"""
    reply = b"\xff" * (512 - 256)
    payload = _payload(_table(clients=1, payload=reply))
    assert len(payload) - len(_payload(ClientTable(8))) < 1024
    entry = restore(decode_payload(payload).client_table, 8).entry_of(1)
    assert entry is not None
    assert entry.ring[-1].frame[256:] == reply
