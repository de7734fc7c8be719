"""`levrier simulate`: what it prints, what it exits with, and that a failed seed can be replayed."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from levrier.actors.consensus import state
from levrier.actors.consensus.quorum import quorums_of
from levrier.cluster.cli.app import run
from levrier.cluster.cli.output import CommandFailed
from levrier.cluster.cli.simulate import report
from levrier.cluster.simulate import run as story
from levrier.cluster.simulate.faults import Fault
from levrier.cluster.simulate.run import Settings, Verdict
from levrier.cluster.simulate.watch import Counts


def verdict(seed: int, rule: str | None = None) -> Verdict:
    """A verdict that nobody had to simulate."""
    return Verdict(
        seed=seed,
        rule=rule,
        text="stream s-1-1 is gone" if rule else "",
        faults=(Fault.CRASH,),
        operations=10,
        counts=Counts(commits=12, crashes=1, view_changes=2, checkpoints=3, transfers=4),
        steps=100,
        virtual_seconds=36.0,
        digest="ab",
        events=("t=0.100s node-1 view 3 -> 4, view change",),
    )


def test_a_run_without_faults_says_in_json_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    status = run(["simulate", "--seeds", "7..8", "--operations", "20", "--faults", "none", "--json", "--jobs", "1"])
    summary = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (summary["seeds"], summary["passed"], summary["failed"]) == (2, 2, 0)
    assert summary["operations"] >= 40
    assert summary["crashes"] == 0
    assert summary["virtual_hours"] >= 0
    assert {"commits", "view_changes", "checkpoints", "transfers", "seconds", "seeds_per_s"} <= summary.keys()


def test_several_processes_give_the_same_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    summaries = []
    for jobs in ("1", "2"):
        arguments = ["simulate", "--seeds", "4", "--operations", "10", "--replicas", "1", "--json", "--jobs", jobs]
        assert run(arguments) == 0
        summaries.append(json.loads(capsys.readouterr().out))
    for summary in summaries:
        del summary["seconds"], summary["seeds_per_s"]
    assert summaries[0] == summaries[1]


def test_a_trace_tells_the_story_and_its_digest(tmp_path: Path) -> None:
    trace = tmp_path / "trace.txt"
    arguments = ["simulate", "--seeds", "3..3", "--operations", "10", "--faults", "crash,torn", "--trace", str(trace)]
    stories = []
    for _ in range(2):
        assert run(arguments) == 0
        stories.append(trace.read_text())
    assert stories[0] == stories[1]
    lines = stories[0].splitlines()
    assert lines[0].startswith("t=0.000s seed 3: ")
    assert any("client-1 asks node-" in line for line in lines)
    assert any("is the first to apply op 1 " in line for line in lines)
    assert lines[-1].startswith("seed 3: passed, ")


def test_a_failed_seed_prints_its_rule_its_story_and_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = Settings(replicas=5, operations=40, faults=(Fault.CRASH, Fault.TORN))
    found = [verdict(11), verdict(12, rule="nothing acknowledged is lost"), verdict(13)]
    with pytest.raises(CommandFailed, match="1 of 3 seeds failed: 12") as failed:
        report(found, settings, count=3, trace=None, as_json=True)
    assert failed.value.status == 1
    output = capsys.readouterr()
    assert json.loads(output.out)["failed_seeds"] == [12]
    assert "seed 12: nothing acknowledged is lost: stream s-1-1 is gone" in output.err
    assert (
        "levrier simulate --seeds 12..12 --replicas 5 --operations 40 --faults crash,torn --trace seed-12.txt"
        in output.err
    )
    assert "t=0.100s node-1 view 3 -> 4, view change" in output.err
    assert "seed 11" not in output.err


def test_the_command_that_is_printed_for_a_failed_seed_fails_in_the_same_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A primary that waits for everybody is found, and found again by what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(story, "PROGRESS_SECONDS_MAX", 15)
    monkeypatch.setattr(state, "quorums_of", lambda count: replace(quorums_of(count), replication=count))
    outputs = []
    arguments = ["simulate", "--seeds", "2..4", "--operations", "20", "--faults", "crash", "--jobs", "1"]
    for _ in range(2):
        assert run(arguments) == 1
        told = capsys.readouterr().err
        lines = [line.strip() for line in told.splitlines()]
        found = next(line for line in lines if ": progress of a core: " in line)
        command = next(line for line in lines if line.startswith("replay it with: "))
        digest = next(line for line in lines if ", digest " in line)
        outputs.append((found, command, digest))
        program, *arguments = shlex.split(command.removeprefix("replay it with: "))
        assert program == "levrier"
    assert outputs[0] == outputs[1]
    trace = tmp_path / arguments[-1]
    assert trace.read_text().splitlines()[-1].endswith(outputs[0][2])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--seeds", "many"], "--seeds many: a number of seeds such as 100, or a range such as 1200..1299"),
        (["--seeds", "9..3"], "--seeds 9..3"),
        (["--seeds", "0"], "--seeds 0"),
        (["--faults", "crash,gremlins"], "no fault is called 'gremlins'; there are: loss, duplicate"),
        (["--trace", "/nowhere/trace.txt"], "--trace /nowhere/trace.txt: No such file or directory"),
        (["--replicas", "33"], "--replicas"),
        (["--replicas", "0"], "--replicas"),
        (["--operations", "0"], "--operations"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_a_misuse_is_refused_with_status_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["simulate", *arguments]) == 2
    assert complaint in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_the_help_names_every_fault_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "levrier simulate --seeds 1000" in shown
    for fault in Fault:
        assert fault.value in shown
