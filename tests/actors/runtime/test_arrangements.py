"""One scenario, one result, whoever shares a thread with whom (design 4)."""

from collections.abc import Mapping

import pytest

from levrier.actors.runtime import FatalReason, Probe, SteppedRuntime, ThreadedRuntime
from tests.actors.runtime.ledger import ACTORS, Statement, expected, open_bank

DEPOSITS = 60

ARRANGEMENTS: dict[str, Mapping[str, str]] = {
    "all on one thread": dict.fromkeys(ACTORS, "core"),
    "all on the event loop": dict.fromkeys(ACTORS, "io"),
    "each its own thread": {name: name for name in ACTORS},
    "savers on the event loop, book apart": {"ann": "io", "bob": "io", "cid": "io", "bank": "core", "book": "book"}
    | {"audit": "core"},
}


@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS.keys())
def test_the_threaded_runtime_gives_the_one_result(arrangement: Mapping[str, str]) -> None:
    failures = Probe[FatalReason]()
    audited = Probe[tuple[Statement, ...]]()
    runtime = ThreadedRuntime("bank", arrangement=arrangement, on_failure=failures.tell)
    open_bank(runtime, audited, deposits=DEPOSITS)
    runtime.start()
    try:
        audited.wait()
    finally:
        runtime.stop()

    assert audited.take() == expected(deposits=DEPOSITS)
    failures.assert_silent()


@pytest.mark.parametrize("seed", range(20))
def test_the_stepped_runtime_gives_the_one_result(seed: int) -> None:
    runtime, audited = SteppedRuntime(seed), Probe[tuple[Statement, ...]]()
    open_bank(runtime, audited, deposits=DEPOSITS)

    runtime.run()

    assert audited.take() == expected(deposits=DEPOSITS)
    assert runtime.failures == []


def test_several_runtimes_live_in_one_process() -> None:
    names = ("one", "two", "three")
    failures = Probe[FatalReason]()
    audits = [Probe[tuple[Statement, ...]](name) for name in names]
    runtimes = [
        ThreadedRuntime(name, arrangement=dict.fromkeys(ACTORS, "core"), on_failure=failures.tell) for name in names
    ]
    for runtime, audited in zip(runtimes, audits, strict=True):
        open_bank(runtime, audited, deposits=DEPOSITS)
        runtime.start()
    for audited in audits:
        audited.wait()
    for runtime in runtimes:
        runtime.stop()

    assert [audited.take() for audited in audits] == [expected(deposits=DEPOSITS)] * len(names)
    failures.assert_silent()
