"""The story behind `levrier demo --nodes 1`: real processes, real clients, kill -9 in the middle of the load.

Every write creates a stream of a name of its own. After each restart the catalogue is read back: each acknowledged name
has to be there, once. The one write that had no answer when the node died may be there or not.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from levrier.cluster.demo_account import Outcome, Written, compare
from levrier.cluster.demo_clients import Clients, clients
from levrier.cluster.process import NodeProcess
from levrier.cluster.refused import Refused

WRITERS = 4


class DemoFailed(Refused):
    """The story could not be told to its end; nothing is known about what was kept."""


Tell = Callable[[str], None]


async def run_demo(folder: Path, *, operations: int, kills: int, tell: Tell) -> Outcome:
    """Write `operations` streams between two kills, `kills` times. `tell` gets a line for each step."""
    kind = clients()
    tell(f"clients: {kind.name}")
    written = Written()
    node = await asyncio.to_thread(NodeProcess.start, folder / "node")
    tell(f"started a node: {node.address}, pid {node.pid}")
    try:
        for number in range(1, kills + 1):
            await _load_until_killed(node, kind, written, prefix=f"demo-{number}", operations=operations)
            tell(f"kill -9, {number} of {kills}, after {len(written.acknowledged)} acknowledged writes")
            node = await asyncio.to_thread(NodeProcess.start, folder / "node", listen=node.address)
            tell(f"started again: pid {node.pid}")
        outcome = Outcome(client=kind.name)
        await compare([node.address], written, outcome)
    finally:
        await asyncio.to_thread(node.end)
    return outcome


async def _load_until_killed(
    node: NodeProcess, kind: Clients, written: Written, *, prefix: str, operations: int
) -> None:
    enough = asyncio.Event()
    goal = len(written.acknowledged) + operations

    async def write(writer: int) -> None:
        create = await kind.connect(node.address)
        number = 0
        while True:
            stream = f"{prefix}-{writer}-{number}"
            number += 1
            written.asked(stream)
            await create(stream)
            written.answered(stream)
            if len(written.acknowledged) >= goal:
                enough.set()

    writers = [asyncio.create_task(write(writer)) for writer in range(WRITERS)]
    finished = asyncio.create_task(enough.wait())
    done, _ = await asyncio.wait([finished, *writers], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(random.random() * 0.02)  # Anywhere inside a write.
    node.kill()
    finished.cancel()
    for task in writers:
        task.cancel()
    failures = [task.exception() for task in done if task in writers and not task.cancelled()]
    await asyncio.gather(finished, *writers, return_exceptions=True)
    if not enough.is_set() and failures and failures[0] is not None:
        raise DemoFailed(f"the clients stopped before the node was killed: {failures[0]}") from failures[0]
