"""What follows from all consumer groups: who is a member where, and how much there is. Derived, never replicated.

A Logout has to find the groups of one client among those of a million topics, so they are kept by client. The counts answer
GET_STATS, and the pending revocations tell whether anything waits for a hand-over (state-machine 2.2, 17 quirk 1: it is
exact here after every operation).
"""

from typing import NamedTuple

from levrier.actors.metadata.records import ConsumerGroup


class Place(NamedTuple):
    """Where a group is. Ordered, so that walks over groups have one order on every replica."""

    stream_id: int
    topic_id: int
    group_id: int


class Memberships:
    """Kept in step by whoever changes a group."""

    __slots__ = ("_places", "groups_count", "pending_revocations")

    def __init__(self) -> None:
        self.groups_count = 0
        self.pending_revocations = 0
        self._places: dict[int, dict[Place, int]] = {}

    def changed(self, stream_id: int, topic_id: int, before: ConsumerGroup | None, after: ConsumerGroup | None) -> None:
        """A group was created (no `before`), deleted (no `after`), or is not what it was."""
        group = before if after is None else after
        assert group is not None
        place = Place(stream_id, topic_id, group.id)
        gone = set()
        if before is None:
            self.groups_count += 1
        else:
            self.pending_revocations -= before.pending_count
            gone = {member.client for member in before.members}
        if after is None:
            self.groups_count -= 1
        else:
            self.pending_revocations += after.pending_count
            for member in after.members:
                if member.client in gone:
                    gone.remove(member.client)
                else:
                    self._places.setdefault(member.client, {})[place] = member.user_id
        for client in gone:
            places = self._places[client]
            del places[place]
            if not places:
                del self._places[client]
        assert self.groups_count >= 0
        assert self.pending_revocations >= 0

    def of_client(self, client: int) -> list[Place]:
        """The groups of this client, ascending."""
        places = self._places.get(client)
        return [] if places is None else sorted(places)

    def of_user(self, user_id: int) -> list[tuple[Place, int]]:
        """The memberships of this user, as group and client, ascending."""
        return sorted(
            (place, client)
            for client, places in self._places.items()
            for place, member_user_id in places.items()
            if member_user_id == user_id
        )
