"""What the clients of `levrier demo` wrote, what was there in the end, and the difference between the two."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from levrier.cluster.address import Address
from levrier.cluster.client import Client
from levrier.cluster.demo_clients import USER


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What was acknowledged and what was there in the end, on every node. The counts are of writes."""

    client: str
    acknowledged: int = 0
    kept: int = 0
    lost: int = 0
    doubled: int = 0
    unanswered: int = 0
    unanswered_kept: int = 0


@dataclass(slots=True)
class Written:
    """What the clients know. `times` are those of the acknowledgements, monotonic, in seconds."""

    acknowledged: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)

    def asked(self, name: str) -> None:
        """A client asks for this stream. No name is used twice."""
        self.unanswered.add(name)

    def answered(self, name: str) -> None:
        """And has its answer."""
        self.unanswered.discard(name)
        self.acknowledged.append(name)
        self.times.append(time.monotonic())


async def compare(addresses: Sequence[str], written: Written, outcome: Outcome) -> None:
    """Read every node, and fill the counts in. A write is kept if it is on each of them."""
    found = [await _streams(address) for address in addresses]

    def is_kept(name: str) -> bool:
        return all(name in there for there in found)

    outcome.acknowledged = len(written.acknowledged)
    outcome.kept = sum(map(is_kept, written.acknowledged))
    outcome.lost = outcome.acknowledged - outcome.kept
    outcome.doubled = max(sum(count > 1 for count in there.values()) for there in found)
    outcome.unanswered = len(written.unanswered)
    outcome.unanswered_kept = sum(map(is_kept, written.unanswered))


async def _streams(address: str) -> Counter[str]:
    """What a node has applied."""
    where = Address.parse(address)
    async with await Client.connect(where.host, where.port) as client:
        await client.login(USER, USER)
        return Counter(stream.name for stream in await client.get_streams())
