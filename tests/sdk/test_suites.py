"""The runner of the official suites: how it judges, and (long, with a checkout) that no failure of theirs is ours."""

import json
import os
import socket
from pathlib import Path

import pytest

from tests.sdk.suites.__main__ import SUITES, main, run_suite
from tests.sdk.suites.inside.suite_observer import running_statement
from tests.sdk.suites.node_suite import reported
from tests.sdk.suites.outcomes import Judged, Outcome, Status, Verdict, judge, records, table
from tests.sdk.suites.python_suite import merged
from tests.sdk.suites.surroundings import SilentPort, Unusable, copy, surroundings

CHECKOUT = "LEVRIER_IGGY_CHECKOUT"
UNAVAILABLE = "RuntimeError: Feature is unavailable"
HTTP = "iggy+http://iggy:iggy@127.0.0.1:3000"
PORTS = "expected: { endpoints: { tcp: 8090, quic: 8080, http: 3000, websocket: 8092 } }"


def refusal(code: int, name: str, error: int = 5) -> str:
    """An error as the Node SDK words it."""
    return f"command: {{ code: {code}, name: {name} }} error: {{code: {error}, message: Feature is unavailable }}"


def failed(error: str, *, statement: str = "", given: str = "", alone: bool = False) -> Outcome:
    """A test that failed."""
    return Outcome(name="t", status=Status.FAILED, error=error, statement=statement, given=given, alone=alone)


@pytest.mark.parametrize(
    ("outcome", "verdict", "cause"),
    [
        (Outcome(name="t", status=Status.PASSED), Verdict.PASSES, ""),
        (Outcome(name="t", status=Status.SKIPPED, error="no TLS"), Verdict.SKIPPED, "no TLS"),
        (failed(UNAVAILABLE, statement="await c.send_messages(a)"), Verdict.MESSAGES, "send_messages"),
        (failed(UNAVAILABLE, statement="async for m in c.iter_messages():"), Verdict.MESSAGES, "iter_messages"),
        (failed(refusal(101, "SendMessages")), Verdict.MESSAGES, "SendMessages"),
        (failed("RuntimeError: Invalid HTTP request", given=HTTP), Verdict.TRANSPORT, "HTTP"),
        (failed("Timeout (>30.0s)", given="iggy+ws://h:1"), Verdict.TRANSPORT, "WebSocket"),
        (failed(PORTS), Verdict.TRANSPORT, "expects ports for http, quic, websocket"),
        (failed("ValueError: zero", alone=True), Verdict.CLIENT, "ValueError: zero"),
        (failed("DID NOT RAISE", given="iggy+quic://h:1", alone=True), Verdict.CLIENT, "DID NOT RAISE"),
    ],
)
def test_a_failure_with_evidence_has_its_cause(outcome: Outcome, verdict: Verdict, cause: str) -> None:
    assert judge(outcome) == Judged(outcome=outcome, verdict=verdict, cause=cause)


@pytest.mark.parametrize(
    "outcome",
    [
        failed("AssertionError: assert 3 == 2", statement="assert topic.partitions_count == 2"),
        failed(UNAVAILABLE, statement="await c.create_stream(name)"),
        failed("RuntimeError: Invalid identifier", statement="await c.send_messages(a)"),
        failed(refusal(303, "DeleteTopic")),
        failed("command: { code: 101, name: SendMessages } error: {code: 3, message: Invalid command }"),
        failed("AssertionError: 1 != 2", given=HTTP),
        failed("RuntimeError: Cannot establish connection", given="iggy+tcp://h:1"),
        failed("endpoints: { tcp: 8090, quic: 0, http: 0, websocket: 0 }"),
        failed(""),
    ],
    ids=lambda outcome: f"{outcome.error[:40]}|{outcome.statement[:30]}",
)
def test_a_failure_without_evidence_is_ours(outcome: Outcome) -> None:
    """Above all: code 5 to anything but messages and offsets, and another refusal of those."""
    assert judge(outcome).verdict is Verdict.OURS


def test_the_worst_phase_of_a_python_test_counts() -> None:
    phases = [("a", "passed"), ("a", "failed"), ("b", "failed"), ("b", "passed"), ("c", "skipped"), ("d", "passed")]
    lines = [
        json.dumps({"name": f"tests/{name}", "status": status, "error": "", "statement": "", "given": ""})
        for name, status in phases
    ]
    assert [(each.name, each.status) for each in merged("\n".join(lines))] == [
        ("a", Status.FAILED),
        ("b", Status.FAILED),
        ("c", Status.SKIPPED),
        ("d", Status.PASSED),
    ]


def node_line(
    name: str, *, suite: bool = False, passed: bool = True, skipped: object = False, failure: str = ""
) -> str:
    """What the reporter says of a test."""
    error = "" if passed else f"Error: {name}"
    fields = {"name": name, "suite": suite, "passed": passed, "skipped": skipped, "failure": failure, "error": error}
    return json.dumps(fields)


def test_a_node_suite_counts_only_for_what_its_tests_do_not_tell() -> None:
    """A hook that failed, or a suite that was skipped as a whole, would otherwise be lost."""
    lines = [
        "something a test printed",
        node_line("e2e -> a::good"),
        node_line("e2e -> a::bad", passed=False, failure="testCodeFailure"),
        node_line("e2e -> a", suite=True, passed=False, failure="subtestsFailed"),
        node_line("e2e -> b", suite=True),
        node_line("e2e -> c", suite=True, passed=False, failure="hookFailed"),
        node_line("e2e -> d", suite=True, skipped="not set"),
    ]
    assert [(each.name, each.status, each.error) for each in reported("f", "\n".join(lines))] == [
        ("f: a::good", Status.PASSED, ""),
        ("f: a::bad", Status.FAILED, "Error: e2e -> a::bad"),
        ("f: c", Status.FAILED, "Error: e2e -> c"),
        ("f: d", Status.SKIPPED, "not set"),
    ]


def test_the_statement_that_failed_is_the_innermost_of_the_test_file() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        assert (
            1
            // 0
        ) == 1  # fmt: skip
    statement = running_statement(caught, Path(__file__))
    assert statement.startswith("assert (")
    assert statement.endswith(") == 1")
    assert running_statement(caught, Path(pytest.__file__)) == ""


def test_a_with_that_failed_brings_its_body_along() -> None:
    """`pytest.raises` fails at its head; what was called stands below it."""
    with pytest.raises(AssertionError) as caught, pytest.raises(KeyError, match="expected"):
        raise KeyError("another")
    assert 'raise KeyError("another")' in running_statement(caught, Path(__file__))


def test_table_and_records_name_every_exception() -> None:
    judged = [judge(Outcome(name="a", status=Status.PASSED)), judge(failed("ValueError: zero\nmore"))]
    lines = [line.split() for line in table(judged).splitlines()]
    assert ["passes", "1"] in lines
    assert ["our", "failure", "1"] in lines
    assert ["all", "2"] in lines
    assert ["t:", "ValueError:", "zero"] in lines
    assert [record["verdict"] for record in records(judged)] == ["passes", "ours"]


def test_a_long_cause_is_cut_to_a_line() -> None:
    assert len(judge(failed("x" * 500)).cause) == 100


def test_a_silent_port_counts_who_connects() -> None:
    with SilentPort() as silent:
        assert silent.connections == 0
        with socket.create_connection(("127.0.0.1", silent.port), timeout=10) as caller:
            assert caller.recv(1) == b""
        assert silent.connections == 1


def test_nothing_of_our_environment_reaches_a_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IGGY_ROOT_PASSWORD", "secret")
    monkeypatch.setenv("PYTHONPATH", "/ours")
    found = surroundings(IGGY_TCP_ADDRESS="a:1")
    assert (found.get("IGGY_ROOT_PASSWORD"), found.get("PYTHONPATH"), found["IGGY_TCP_ADDRESS"]) == (None, None, "a:1")


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_folder_that_is_no_checkout_is_named(suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and no traceback."""
    (tmp_path / "work").mkdir()
    with pytest.raises(Unusable, match="is it a checkout"):
        copy(tmp_path, tmp_path / "work", "foreign/python/tests")
    assert main([suite, str(tmp_path)]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("suite", sorted(SUITES))
def test_no_failure_of_an_official_suite_is_ours(suite: str) -> None:
    checkout = os.environ.get(CHECKOUT)
    if checkout is None:
        pytest.skip(f"{CHECKOUT} names no checkout of the reference repository")
    judged = run_suite(suite, Path(checkout))
    assert [each for each in judged if each.verdict is Verdict.OURS] == []
    assert sum(each.verdict is Verdict.PASSES for each in judged) > len(judged) // 2
