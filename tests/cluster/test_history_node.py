"""History on a node with real threads and a real disk: kept, stated, reclaimed, and there after a restart."""

import asyncio
from pathlib import Path
from typing import Any

from levrier.cluster.client import Client
from levrier.cluster.config import NodeConfig
from levrier.cluster.testing import Server

READS_MAX = 4_000


async def _until(server: Server, *, streams: int, applied: int, prefix: str) -> dict[str, Any]:
    """Create streams, then wait until the node has stated that it has applied them; what it tells of its history."""
    async with await Client.connect(server.host, server.port) as client:
        await client.login(server.username, server.password)
        for number in range(streams):
            await client.create_stream(f"{prefix}-{number}")
        for _ in range(READS_MAX):
            status = await client.status()
            history: dict[str, Any] = status["history"]
            if (history["safe_op"] or 0) >= applied and not history["archive"]["segments"] and status["checkpoints"]:
                return history
            await asyncio.sleep(0.005)
    raise AssertionError(f"the node stated nothing of the kind: {status}")


def test_what_a_node_of_its_own_keeps_is_reclaimed_once_it_has_stated_it(tmp_path: Path) -> None:
    config = NodeConfig(journal_slots=256, retain_history=True, acknowledgement_interval_milliseconds=20)
    with Server(config=config, data=tmp_path / "data") as server:
        history = asyncio.run(_until(server, streams=140, applied=141, prefix="first"))
        assert (history["evidence"], history["retain"], history["blocking"]) == ("safe_through", "history", [])
        server.restart()
        history = asyncio.run(_until(server, streams=140, applied=281, prefix="second"))
        assert history["replicas"][0]["applied"] == history["safe_op"]
    assert list((tmp_path / "data" / "metadata" / "archive").iterdir()) == []
