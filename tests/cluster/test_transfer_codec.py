"""How a state is read for its way to another member: nothing of it may get lost on the way."""

from levrier.actors.client_table.table import Answer, ClientTable, SessionEnd
from levrier.actors.client_table.transfer import decode
from levrier.cluster.transfer_codec import MetadataStateCodec
from tests.actors.client_table.builders import ALICE, answer, commit, register, section_of

CAPACITY = 8
CLIENTS = (1, 2, 3)


def test_the_fences_of_sessions_that_are_gone_travel_when_nobody_is_logged_in() -> None:
    """Client-table 10: what was executed before is known as such where the state came from a transfer."""
    table = ClientTable(CAPACITY)
    for client in CLIENTS:
        register(table, client, client)
    for client in CLIENTS:
        commit(table, client, 7, 10 + client)
        table.remove_client(client, ALICE, SessionEnd.DISCONNECT_CLEANUP)
    assert table.count == 0

    received = decode(MetadataStateCodec().table_artifact(section_of(table)), CAPACITY)

    assert received.fences == table.fences
    register(received, 1, 20)
    assert answer(received, 1, 7) is Answer.DUPLICATE
