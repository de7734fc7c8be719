"""What one committed op does to the client table, live and in replay alike (client-table 4, 5, 7; D-02, D-10)."""

from typing import Final

from levrier.actors.client_table.entries import Reply
from levrier.actors.client_table.messages import SERVER_CLIENT_MIN
from levrier.actors.client_table.table import ClientTable, CommitResult, SessionEnd
from levrier.wire.codes import Operation
from levrier.wire.headers import PrepareHeader

_REGISTER: Final = int(Operation.REGISTER)
_LOGOUT: Final = int(Operation.LOGOUT)


def record(table: ClientTable, header: PrepareHeader, frame: bytes, dropped_users: tuple[int, ...]) -> str:
    """Record the reply of op `header.op`, then end the sessions of the users it deleted.

    Returns what is worth a debug line, or nothing. Ops that an installed table reflects already have no effect.
    """
    if table.reflects(header.op):
        return ""
    note = _record(table, header, frame)
    for user_id in dropped_users:
        ended = table.drop_user(user_id)
        note = f"{note}; " * bool(note) + f"ended {len(ended)} sessions of user {user_id}"
    return note


def _record(table: ClientTable, header: PrepareHeader, frame: bytes) -> str:
    client, operation = header.client, header.operation
    if not 0 < client < SERVER_CLIENT_MIN:
        return ""  # An operation of the node itself: nobody will retry it (D-10).
    if operation == _LOGOUT:
        table.remove_client(client, header.user_id, SessionEnd.of_request(header.request))
        return ""
    reply = Reply(frame, header.request, header.request_checksum, header.op)
    if operation == _REGISTER:
        displaced = table.commit_register(client, header.user_id, reply)
        evicted = "" if displaced.evicted is None else f"evicted client {displaced.evicted.client:#x}"
        return f"{evicted}, dropped {len(displaced.forgotten)} fences" if displaced.forgotten else evicted
    committed = table.commit_reply(client, header.user_id, reply)
    if committed.result is CommitResult.CACHED:
        return ""
    return f"reply for client {client:#x}: {committed.result.name} (have {committed.have}, got {committed.got})"
