"""What the tests of a suite did, and why those that failed did.

A failure is ours until there is evidence of another cause; the evidence is in what the test itself said.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Where a test belongs."""

    PASSES = "passes"
    MESSAGES = "needs messages or offsets"
    TRANSPORT = "needs HTTP, QUIC or WebSocket"
    CLIENT = "fails in the released client, whatever a server does"
    SKIPPED = "skipped by the suite"
    OURS = "our failure"


class Status(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test. `statement` is what it was executing when it failed, `given` are its parameters.

    `alone` says that it failed in the same way where no server was, without having tried to connect to one.
    """

    name: str
    status: Status
    error: str = ""
    statement: str = ""
    given: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A test with its verdict and, unless it passes, the cause in a few words."""

    outcome: Outcome
    verdict: Verdict
    cause: str = ""


UNAVAILABLE = "Feature is unavailable"
"""How both SDKs show code 5, with which every command of the message plane is answered (D-18)."""

MESSAGE_CALL = re.compile(
    r"\.(send_messages|poll_messages|consume_messages|iter_messages|store_offset|delete_offset|get_last_\w+_offset)\b"
)
"""Calls of the Python SDK that send a command of the message plane."""

MESSAGE_COMMAND = re.compile(r"command: \{ code: (100|101|102|120|121|122), name: (\w+) \}")
"""How the Node SDK names a refused command; these are polls, sends and consumer offsets."""

OTHER_TRANSPORT = re.compile(r"iggy\+(http|quic|ws)://")
UNREACHABLE = re.compile(
    r"Cannot establish connection|Invalid HTTP request|Timeout \(>|not responding|Connection refused", re.IGNORECASE
)
OTHER_PORTS = re.compile(r"\b(quic|http|websocket): [1-9]\d*")
"""A port that the Node suite expects cluster metadata to announce."""

TRANSPORT_NAMES = {"http": "HTTP", "quic": "QUIC", "ws": "WebSocket"}
CAUSE_LENGTH_MAX = 100


def judge(outcome: Outcome) -> Judged:
    """The verdict about one test."""
    if outcome.status is Status.PASSED:
        return Judged(outcome=outcome, verdict=Verdict.PASSES)
    if outcome.status is Status.SKIPPED:
        return Judged(outcome=outcome, verdict=Verdict.SKIPPED, cause=brief(outcome.error))
    for evidence, verdict in (
        (_message_plane, Verdict.MESSAGES),
        (_other_transport, Verdict.TRANSPORT),
        (_client_alone, Verdict.CLIENT),
    ):
        cause = evidence(outcome)
        if cause is not None:
            return Judged(outcome=outcome, verdict=verdict, cause=cause)
    return Judged(outcome=outcome, verdict=Verdict.OURS, cause=brief(outcome.error))


def _message_plane(outcome: Outcome) -> str | None:
    """It was told code 5 where it called for messages or offsets: code 5 to anything else is ours."""
    if UNAVAILABLE not in outcome.error:
        return None
    command = MESSAGE_COMMAND.search(outcome.error)
    if command is not None:
        return command[2]
    call = MESSAGE_CALL.search(outcome.statement)
    return None if call is None else call[1]


def _other_transport(outcome: Outcome) -> str | None:
    """It asked for a transport that levrier does not serve, and nobody was there."""
    asked = OTHER_TRANSPORT.search(outcome.given) or OTHER_TRANSPORT.search(outcome.statement)
    if asked is not None and UNREACHABLE.search(outcome.error):
        return TRANSPORT_NAMES[asked[1]]
    ports = sorted({found[1] for found in OTHER_PORTS.finditer(outcome.error)})
    return f"expects ports for {', '.join(ports)}" if len(ports) == len(TRANSPORT_NAMES) else None


def _client_alone(outcome: Outcome) -> str | None:
    return brief(outcome.error) if outcome.alone else None


def brief(error: str) -> str:
    """The first line of an error that says something."""
    line = next((line.strip() for line in error.splitlines() if line.strip()), "")
    return line if len(line) <= CAUSE_LENGTH_MAX else f"{line[: CAUSE_LENGTH_MAX - 3]}..."


def table(judged: Sequence[Judged]) -> str:
    """Counts, then every test that does not pass with its cause, grouped by verdict."""
    counts = Counter(each.verdict for each in judged)
    width = max(len(verdict) for verdict in Verdict)
    lines = [f"{verdict:<{width}}  {counts[verdict]:>5}" for verdict in Verdict if counts[verdict]]
    lines.append(f"{'all':<{width}}  {len(judged):>5}")
    for verdict in Verdict:
        found = [each for each in judged if each.verdict is verdict]
        if verdict is not Verdict.PASSES and found:
            lines += ["", f"{verdict}:", *(f"  {each.outcome.name}: {each.cause}" for each in found)]
    return "\n".join(lines)


def records(judged: Iterable[Judged]) -> list[dict[str, str]]:
    """The same for programs."""
    return [
        {
            "name": each.outcome.name,
            "verdict": each.verdict.name.lower(),
            "cause": each.cause,
            "error": each.outcome.error,
        }
        for each in judged
    ]
