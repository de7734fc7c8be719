"""The two queues of a primary: prepares in flight and requests that wait for a slot (consensus specification 2.2).

Invariants: the prepare queue is a run of consecutive ops, chained by `parent`; an op stays in
it until it is applied (rule 3). The requests that were sent for a second look (rule 5) are the front of the request queue,
in the order of their tokens, and each of them reserves one prepare slot. `clients` counts what each client has in either
queue, so that no admission scans them. Refuses to know what an entry means.
"""

from collections import deque
from typing import Final

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.wire.prepare import Prepare

PREPARE_QUEUE_CEILING: Final = 127
"""Deepest prepare queue of any node; the merge of a view change relies on it cluster-wide."""

REQUESTS_PER_PREPARE: Final = 2
"""The request queue is this many times as deep as the prepare queue."""


class PrepareEntry:
    """One prepare on its way to being applied.

    `reply_to` is whom its reply is for, if anybody; `acknowledged` has bit r set when replica r acknowledged it;
    `durable` says whether this replica's own log holds it.
    """

    __slots__ = ("acknowledged", "durable", "prepare", "quorum_reached", "reply_to")

    def __init__(self, prepare: Prepare, reply_to: Ticket | None) -> None:
        self.prepare = prepare
        self.reply_to = reply_to
        self.acknowledged = 0
        self.durable = False
        self.quorum_reached = False

    @property
    def op(self) -> int:
        """The op of the prepare."""
        return self.prepare.header.op


class RequestEntry:
    """One request that waits. `arrived` is in microseconds; `token` is 0 unless the client table is being asked again."""

    __slots__ = ("arrived", "request", "token")

    def __init__(self, request: ClientRequest, arrived: int) -> None:
        self.request = request
        self.arrived = arrived
        self.token = 0

    def waited(self, now: int) -> int:
        """For how long it has waited, in microseconds; 0 when the clock went backwards."""
        return max(0, now - self.arrived)


class Pipeline:
    """Both queues and the count of what each client has in them."""

    __slots__ = ("clients", "depth", "next_token", "prepares", "requests", "requests_max", "reserved")

    def __init__(self, *, depth: int) -> None:
        assert 0 < depth <= PREPARE_QUEUE_CEILING
        self.depth = depth
        self.requests_max = depth * REQUESTS_PER_PREPARE
        self.prepares: deque[PrepareEntry] = deque()
        self.requests: deque[RequestEntry] = deque()
        self.reserved = 0
        self.next_token = 1
        self.clients: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether no prepare slot is free. The request queue does not count."""
        return len(self.prepares) >= self.depth

    @property
    def is_empty(self) -> bool:
        """Whether both queues are empty."""
        return not self.prepares and not self.requests

    @property
    def has_free_slot(self) -> bool:
        """Whether a prepare slot is neither taken nor reserved for a request that is asked about again."""
        return len(self.prepares) + self.reserved < self.depth

    def push_prepare(self, entry: PrepareEntry, *, is_inherited: bool = False) -> None:
        """Append a prepare that chains to the tail.

        The view stamps of inherited entries say nothing: a retransmit renews the stamp of the one entry that was missing.
        """
        prepares = self.prepares
        header = entry.prepare.header
        assert len(prepares) < self.depth, "the prepare queue is full"
        if prepares:
            tail = prepares[-1].prepare.header
            assert header.op == tail.op + 1
            assert header.parent == tail.checksum
            assert is_inherited or header.view >= tail.view
        prepares.append(entry)
        self._count(header.client)

    def prepare_at(self, op: int) -> PrepareEntry | None:
        """The entry of an op, by arithmetic from the head."""
        prepares = self.prepares
        if not prepares:
            return None
        index = op - prepares[0].prepare.header.op
        return prepares[index] if 0 <= index < len(prepares) else None

    def pop_head(self) -> PrepareEntry:
        """Take the oldest prepare out."""
        entry = self.prepares.popleft()
        self._uncount(entry.prepare.header.client)
        return entry

    def remove_tail(self, op: int, checksum: int) -> PrepareEntry | None:
        """Take the newest prepare out, if it is exactly this one."""
        if not self.prepares:
            return None
        header = self.prepares[-1].prepare.header
        if header.op != op or header.checksum != checksum:
            return None
        self._uncount(header.client)
        return self.prepares.pop()

    def push_request(self, request: ClientRequest, arrived: int) -> bool:
        """Queue a request. False, and nothing changed, when the request queue is full."""
        if len(self.requests) >= self.requests_max:
            return False
        self.requests.append(RequestEntry(request, arrived))
        self._count(request.header.client)
        return True

    def reserve_next(self) -> RequestEntry | None:
        """Give the oldest request without a token one, and a prepare slot. None when no request or no slot is free."""
        if self.reserved >= len(self.requests) or not self.has_free_slot:
            return None
        entry = self.requests[self.reserved]
        assert entry.token == 0
        entry.token = self.next_token
        self.next_token += 1
        self.reserved += 1
        return entry

    def take_reserved(self, token: int) -> RequestEntry | None:
        """Take the request of a token out and free its reserved slot. None for a token that was voided.

        Answers come in the order of the questions (rule 1), so a live token is the one at the front.
        """
        if self.reserved == 0 or self.requests[0].token != token:
            return None
        self.reserved -= 1
        entry = self.requests.popleft()
        self._uncount(entry.request.header.client)
        return entry

    def void_tokens(self) -> None:
        """Make every answer that is still under way stale; the requests keep their places."""
        for index in range(self.reserved):
            self.requests[index].token = 0
        self.reserved = 0

    def drop_requests(self) -> list[RequestEntry]:
        """Empty the request queue, void its tokens, and say what was in it."""
        dropped = list(self.requests)
        self.requests.clear()
        self.reserved = 0
        for entry in dropped:
            self._uncount(entry.request.header.client)
        return dropped

    def drop_prepares(self) -> list[PrepareEntry]:
        """Empty the prepare queue and say what was in it."""
        dropped = list(self.prepares)
        self.prepares.clear()
        for entry in dropped:
            self._uncount(entry.prepare.header.client)
        return dropped

    def verify(self) -> None:
        """Check everything about both queues, entry by entry. Not for the hot path."""
        counts: dict[int, int] = {}
        assert len(self.prepares) <= self.depth
        assert len(self.requests) <= self.requests_max
        previous: PrepareEntry | None = None
        for entry in self.prepares:
            header = entry.prepare.header
            if previous is not None:
                before = previous.prepare.header
                assert header.op == before.op + 1
                assert header.parent == before.checksum
            if header.client:
                counts[header.client] = counts.get(header.client, 0) + 1
            previous = entry
        token = 0
        for index, waiting in enumerate(self.requests):
            assert (waiting.token != 0) == (index < self.reserved)
            if waiting.token:
                assert waiting.token > token
                token = waiting.token
            client = waiting.request.header.client
            counts[client] = counts.get(client, 0) + 1
        assert counts == self.clients

    def _count(self, client: int) -> None:
        if client:
            self.clients[client] = self.clients.get(client, 0) + 1

    def _uncount(self, client: int) -> None:
        if client:
            left = self.clients[client] - 1
            if left:
                self.clients[client] = left
            else:
                del self.clients[client]
