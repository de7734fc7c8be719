"""The fences of a client table: what is remembered of sessions that lost their slot (client-table 2, 6, 7; D-29).

Owns at most one fence for each pair of client and user, oldest first. A fence is always found by both fields: another
user's fence for the same client id is never returned, consumed or replaced. The owner of the table says how many to keep.
Every operation but the removal of a user takes constant time.
"""

from collections import OrderedDict
from collections.abc import Iterable

from levrier.actors.client_table.entries import Fence, Reply
from levrier.actors.client_table.errors import DuplicateFence


class Fences:
    """An ordered collection of fences; the oldest is dropped first."""

    __slots__ = ("_by_pair", "_users")

    def __init__(self, fences: Iterable[Fence] = ()) -> None:
        """Take these, oldest first. Raises `DuplicateFence` for a repeated pair."""
        # An OrderedDict, since dropping the oldest of a plain dict rescans its holes.
        self._by_pair: OrderedDict[tuple[int, int], Fence] = OrderedDict()
        self._users: dict[int, tuple[int, ...]] = {}
        for index, fence in enumerate(fences):
            if (fence.client, fence.user_id) in self._by_pair:
                raise DuplicateFence(f"client {fence.client:#x}, user {fence.user_id}", f"fence {index}")
            self._append(fence)

    def __len__(self) -> int:
        return len(self._by_pair)

    def all(self) -> tuple[Fence, ...]:
        """All of them, oldest first."""
        return tuple(self._by_pair.values())

    def find(self, client: int, user_id: int) -> Fence | None:
        """The fence of this client and this user."""
        return self._by_pair.get((client, user_id))

    def find_session(self, client: int, epoch: int) -> Fence | None:
        """The oldest fence of this client with this epoch, whoever its user."""
        for user_id in self._users.get(client, ()):
            fence = self._by_pair[client, user_id]
            if fence.epoch == epoch:
                return fence
        return None

    def take(self, client: int, user_id: int) -> Fence | None:
        """Remove the fence of this client and this user and return it."""
        fence = self._by_pair.pop((client, user_id), None)
        if fence is None:
            return None
        users = tuple(user for user in self._users[client] if user != user_id)
        if users:
            self._users[client] = users
        else:
            del self._users[client]
        return fence

    def remember(self, fence: Fence) -> None:
        """Append, in place of an older one of the same pair."""
        self.take(fence.client, fence.user_id)
        self._append(fence)

    def advance(self, fence: Fence, reply: Reply) -> None:
        """Let a commit that arrived behind its session move the watermark; the place in the order stays."""
        assert self._by_pair[fence.client, fence.user_id] is fence
        assert reply.request >= fence.watermark
        self._by_pair[fence.client, fence.user_id] = fence._replace(
            watermark=reply.request, watermark_checksum=reply.request_checksum, reply=reply
        )

    def trim(self, bound: int) -> tuple[Fence, ...]:
        """Drop the oldest until `bound` are left; returns what was dropped."""
        if len(self._by_pair) <= bound:
            return ()
        dropped = []
        while len(self._by_pair) > bound:
            fence = next(iter(self._by_pair.values()))
            self.take(fence.client, fence.user_id)
            dropped.append(fence)
        return tuple(dropped)

    def drop_user(self, user_id: int) -> None:
        """Remove every fence of a user."""
        for client in [client for client, user in self._by_pair if user == user_id]:
            self.take(client, user_id)

    def _append(self, fence: Fence) -> None:
        self._by_pair[fence.client, fence.user_id] = fence
        self._users[fence.client] = (*self._users.get(fence.client, ()), fence.user_id)
