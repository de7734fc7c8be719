"""`levrier demo`: a short one, told to its end by real processes."""

import json
import socket
from pathlib import Path

import pytest

from levrier.cluster.process import NodeDidNotStart, NodeProcess
from tests.cluster.cli.running import CommandLine

pytestmark = pytest.mark.process


def test_the_demo_counts_what_was_kept(levrier: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root user of the person who runs it does not matter."""
    monkeypatch.setenv("IGGY_ROOT_USERNAME", "admin")
    monkeypatch.setenv("IGGY_ROOT_PASSWORD", "a-password-of-mine")
    ran = levrier("demo", "--operations", "10", "--kills", "1", "--json")
    assert ran.status == 0, ran.err
    outcome = json.loads(ran.out)
    assert list(outcome) == ["client", "acknowledged", "kept", "lost", "doubled", "unanswered", "unanswered_kept"]
    assert (outcome["kept"], outcome["lost"], outcome["doubled"]) == (outcome["acknowledged"], 0, 0)
    assert outcome["acknowledged"] >= 10
    assert outcome["unanswered_kept"] <= outcome["unanswered"]
    steps = ran.err.splitlines()
    assert [step.split(":")[0] for step in steps[:2]] == ["clients", "started a node"]
    assert steps[2].startswith("kill -9, 1 of 1, after ")
    assert steps[-1] == "everything that was acknowledged is there, once"


def test_a_node_that_does_not_start_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(NodeDidNotStart) as failed:
            NodeProcess.start(tmp_path / "data", listen=address)
    assert str(failed.value).startswith(
        f"levrier serve --data {tmp_path / 'data'} --listen {address} ended with status 15\n"
    )
    assert f"cannot listen on {address}" in str(failed.value)
