"""Code that is not ours: whatever it raises is told in words, and a stop does not wait for one that never returns."""

import threading
import time
from collections.abc import Iterator

import pytest
from loguru import logger

from levrier.actors.runtime import FatalReason, Probe, ThreadedRuntime
from levrier.actors.runtime.attempts import TRACEBACK_MAX, attempt
from levrier.actors.runtime.cell import DESCRIBED_MAX
from levrier.actors.runtime.threaded import EXPENDABLE_SECONDS
from tests.actors.runtime.actors import Do, Event, Worker

WAIT_SECONDS = 30.0


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The tracebacks are wanted, and nobody reads them here."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


@pytest.mark.parametrize("error", [ValueError("torn"), AssertionError("torn"), SystemExit("torn"), KeyboardInterrupt()])
def test_an_attempt_tells_what_was_raised_whatever_it_was(error: BaseException) -> None:
    def act() -> None:
        raise error

    assert type(error).__name__ in attempt(act, whose="x")


class Mute(Exception):
    """Raises while it is asked what it is."""

    def __str__(self) -> str:
        raise RuntimeError("twice")


def test_an_exception_that_raises_when_it_is_shown_is_told_all_the_same() -> None:
    def act() -> None:
        raise Mute

    assert attempt(act, whose="x").startswith("Mute: it cannot say what it is (")


def test_an_exception_with_a_text_without_end_is_told_and_logged_in_part() -> None:
    """What is told is kept for status, and what is logged goes to the disk."""

    def act() -> None:
        raise ValueError("x" * 10_000_000)

    logged: list[str] = []
    logger.enable("levrier")
    sink = logger.add(logged.append, format="{message}")
    try:
        told = attempt(act, whose="x")
    finally:
        logger.remove(sink)
    assert len(told) < 2 * DESCRIBED_MAX
    assert "... of 10000000 characters" in told
    [line] = logged
    assert "in act" in line
    assert len(line) < 2 * TRACEBACK_MAX


def test_an_attempt_that_raises_nothing_says_nothing() -> None:
    assert attempt(lambda: 1, whose="x") == ""


def test_a_stop_leaves_behind_who_does_not_return_and_ends_all_others_properly() -> None:
    failures: Probe[FatalReason] = Probe("failures")
    log: Probe[Event] = Probe("log")
    runtime = ThreadedRuntime(
        "n",
        arrangement={"core": "core", "stuck": "stuck", "quick": "quick"},
        on_failure=failures.tell,
        expendable=("stuck", "quick"),
    )
    wake, asleep = threading.Event(), threading.Event()

    def sleep() -> None:
        asleep.set()
        wake.wait(WAIT_SECONDS)

    for name in ("core", "stuck", "quick"):
        Worker.start(name=name, runtime=runtime, log=log)
    runtime.start()
    runtime.address("stuck").tell(Do(action=sleep))
    assert asleep.wait(WAIT_SECONDS)
    began = time.monotonic()
    runtime.stop()
    assert EXPENDABLE_SECONDS <= time.monotonic() - began < EXPENDABLE_SECONDS + 10
    alive = [thread for thread in threading.enumerate() if thread.name.startswith("levrier-n-")]
    assert [thread.name for thread in alive] == ["levrier-n-stuck"]
    assert alive[0].daemon
    failures.assert_silent()
    wake.set()
    alive[0].join(WAIT_SECONDS)
    assert not alive[0].is_alive(), "it ends by itself when its handler returns"


def test_who_is_told_by_code_that_does_not_return_hears_it_at_once() -> None:
    """What a plugin asked for before it went to sleep is done while it sleeps."""
    log: Probe[Event] = Probe("log")
    runtime = ThreadedRuntime(
        "n",
        arrangement={"core": "core", "stuck": "stuck"},
        on_failure=lambda _reason: None,
        expendable=("stuck",),
    )
    told, heard = threading.Event(), []

    def tell_and_sleep() -> None:
        runtime.address("core").tell(Do(action=told.set))
        heard.append(told.wait(WAIT_SECONDS))

    for name in ("core", "stuck"):
        Worker.start(name=name, runtime=runtime, log=log)
    runtime.start()
    log.wait(2)
    runtime.address("stuck").tell(Do(action=tell_and_sleep))
    assert told.wait(WAIT_SECONDS)
    runtime.stop()
    assert heard == [True]
