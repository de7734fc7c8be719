"""Command codes that no typed call of the SDK sends."""

import pytest

from levrier.cluster.testing import Server
from tests.sdk.running import logged_in, run

pytestmark = pytest.mark.sdk


def test_a_raw_ping_is_answered_with_nothing(server: Server) -> None:
    async def body() -> None:
        async with logged_in(server.address) as client:
            assert await client.send_binary_request(1, b"") == b""

    run(body)


def test_an_unknown_code_is_refused_and_the_connection_kept(server: Server) -> None:
    """Refused at once as an invalid command; the session serves the next call."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            for code in (60_000, 9_999, 2):
                with pytest.raises(RuntimeError, match=r"(?i)invalid command"):
                    await client.send_binary_request(code, b"")
                await client.ping()
                await client.get_streams()

    run(body)


def test_codes_of_the_session_are_refused(server: Server) -> None:
    """Logging in and out is not for raw commands."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            for code in (38, 39, 40, 44, 45):
                with pytest.raises(RuntimeError, match=r"(?i)invalid command"):
                    await client.send_binary_request(code, b"")
                await client.get_streams()

    run(body)


def test_a_command_of_the_message_plane_is_refused_at_once(server: Server, stream: str) -> None:
    """D-18: code 5 as an answer of its own, never silence or a closed socket."""

    async def body() -> None:
        async with logged_in(server.address) as client:
            with pytest.raises(RuntimeError, match=r"(?i)feature is unavailable"):
                await client.send_binary_request(100, b"")
            await client.get_streams()

    run(body)
