"""How long nobody is served when the primary is killed: `python -m tests.cluster.failover_gap --kills 20 --heartbeat "2 s"`.

A client at each member asks for the same kind of write over and over; those at the backups are refused until theirs leads.
The gap lies between the last acknowledgement of the killed primary and the first one of its successor.
"""

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from levrier.cluster.config import Member
from levrier.wire.codes import Operation
from tests.cluster.member_processes import Processes
from tests.cluster.raw_client import NOT_ACCEPTED, NOT_COMMITTED, RawClient, code, create_stream, rename_stream
from tests.cluster.three_nodes import caught_up, primary_among, until

PAUSE_SECONDS = 0.005
STEADY_WRITES = 200
SECONDS_MAX = 60.0
FIRST_CLIENT = 0xFA10


@dataclass
class Asking:
    """One client at one member. `acknowledged` holds the times of its acknowledgements."""

    member: Member
    client: int
    stopping: threading.Event
    acknowledged: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = RawClient(self.member.ip, self.member.tcp, client=self.client)
        assert code(self.connection.register()) == 0
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()

    def _ask(self) -> None:
        name = f"gap-{self.member.replica}-{time.monotonic_ns()}"
        number = 1
        frame = self.connection.frame(Operation.CREATE_STREAM, create_stream(name), number=number)
        try:
            while not self.stopping.is_set():
                self.connection.send(frame)
                answer = code(self.connection.receive())
                if answer in (NOT_COMMITTED, NOT_ACCEPTED):
                    time.sleep(PAUSE_SECONDS)
                    continue
                assert answer == 0, answer
                self.acknowledged.append(time.monotonic())
                number += 1
                body = rename_stream(name, name := f"gap-{self.member.replica}-{time.monotonic_ns()}")
                frame = self.connection.frame(Operation.UPDATE_STREAM, body, number=number)
        except OSError:
            return  # The member is gone.
        finally:
            self.connection.close()


def gap_of(processes: Processes, leader: Member, first_client: int) -> float:
    """Kill the primary under this load; seconds without an acknowledgement. The clients are new ones."""
    stopping = threading.Event()
    asking: list[Asking] = []
    try:
        asking.extend(Asking(member, first_client + member.replica, stopping) for member in processes.members)
        killed = asking[leader.replica]
        others = [each for each in asking if each is not killed]
        _wait(lambda: len(killed.acknowledged) >= STEADY_WRITES, "the primary does not serve steadily")
        processes.running[leader.replica].kill()
        killed.thread.join()
        _wait(lambda: any(each.acknowledged for each in others), "nobody serves any more")
    finally:
        stopping.set()
        for each in asking:
            each.thread.join()
    return min(each.acknowledged[0] for each in others if each.acknowledged) - killed.acknowledged[-1]


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(PAUSE_SECONDS)


def measure(*, kills: int, heartbeat: str) -> list[float]:
    """The gaps of so many kills, in seconds."""
    gaps: list[float] = []
    with TemporaryDirectory(prefix="levrier-gap-") as root, ExitStack() as stack:
        processes = Processes(Path(root), stack, heartbeat=heartbeat)
        processes.start_all()
        for number in range(1, kills + 1):
            leader = asyncio.run(primary_among(processes.members))
            gaps.append(gap_of(processes, leader, FIRST_CLIENT + number * len(processes.members)))
            print(f"{number}/{kills}: {gaps[-1]:.3f} s", file=sys.stderr)
            processes.spawn(leader.replica).ready()
            asyncio.run(until(partial(caught_up, processes.members, leader.replica), "the member in step"))
    return gaps


def main() -> None:
    """Print the distribution as JSON, in seconds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--heartbeat", default="5 s", help="heartbeat_timeout of the members")
    given = parser.parse_args()
    gaps = sorted(measure(kills=given.kills, heartbeat=given.heartbeat))
    print(
        json.dumps(
            {
                "kills": len(gaps),
                "heartbeat_timeout": given.heartbeat,
                "min_s": round(gaps[0], 3),
                "median_s": round(statistics.median(gaps), 3),
                "max_s": round(gaps[-1], 3),
                "all_s": [round(gap, 3) for gap in gaps],
            }
        )
    )


if __name__ == "__main__":
    main()
