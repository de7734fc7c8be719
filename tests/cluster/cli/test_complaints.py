"""What a person is told about a node that was reached and gave no answer."""

import asyncio

from levrier.cluster.cli.complaints import complaint
from levrier.cluster.client import Client
from levrier.cluster.client_errors import ClosedUnheard, NotTaken


def test_a_cluster_without_a_primary_is_told_from_a_node_that_is_silent() -> None:
    said = complaint(NotTaken("not committed", address="h:1"))
    assert said == "h:1: not committed; `levrier status` says what it waits for, --timeout waits longer"


def test_who_was_never_answered_in_the_clear_is_told_of_tls() -> None:
    """A node that serves TLS hears no handshake in a plain frame, and closes."""

    async def scenario() -> ClosedUnheard:
        async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            await reader.read(1 << 16)
            writer.close()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        async with server:
            host, port = server.sockets[0].getsockname()
            async with await Client.connect(host, port) as client:
                try:
                    await client.login("iggy", "iggy")
                except ClosedUnheard as error:
                    return error
        raise AssertionError

    assert complaint(asyncio.run(scenario())).endswith("; if it serves TLS, say so with --tls or --tls-ca FILE")
