"""Connections leave descriptors to the disk: a node that may open few files takes fewer of them."""

import resource

import pytest

from levrier.cluster.config import NodeConfig
from levrier.cluster.node import FILES_RESERVED, within_file_limit
from levrier.cluster.testing import Server
from tests.cluster.raw_client import RawClient, code


def limit_files(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, resource.RLIM_INFINITY))


@pytest.mark.parametrize(
    ("soft", "connections"),
    [(resource.RLIM_INFINITY, 4_096), (20_000, 4_096), (1_024, 1_024 - FILES_RESERVED), (FILES_RESERVED, 1)],
)
def test_connections_that_this_process_can_afford(monkeypatch: pytest.MonkeyPatch, soft: int, connections: int) -> None:
    limit_files(monkeypatch, soft)
    assert within_file_limit(NodeConfig()).connections_max == connections
    assert within_file_limit(NodeConfig(connections_max=1)).connections_max == 1


def test_idle_connections_cannot_take_the_last_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the usual 1,024 files, 1,000 idle connections left none for a snapshot, and the log filled up."""
    limit_files(monkeypatch, FILES_RESERVED + 2)
    with Server() as server:
        idle = RawClient(server.host, server.port)
        with RawClient(server.host, server.port, client=0xA1) as served:
            assert code(served.register()) == 0
            with RawClient(server.host, server.port) as refused:
                assert refused.is_closed_by_node()
        idle.close()
