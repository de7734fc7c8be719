"""Who owns which partition of a consumer group: the two rebalances of state-machine 7.2 and 7.3, as pure functions.

Partitions come in the order of the topic, members in ascending order of their key: both orders reach the state. What moves
is appended, so the lists of owners are not sorted.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from levrier.actors.metadata.records import ConsumerGroup, Member, Revocation


class _Draft:
    """A member while partitions are moved about."""

    __slots__ = ("member", "owned", "pending")

    def __init__(self, member: Member) -> None:
        self.member = member
        self.owned = list(member.partitions)
        self.pending = list(member.pending)

    def record(self) -> Member:
        """The member as it comes out."""
        return self.member._replace(partitions=tuple(self.owned), pending=tuple(self.pending))


def eager(group: ConsumerGroup, partition_ids: Sequence[int]) -> ConsumerGroup:
    """Deal all partitions out from scratch, round robin; every pending revocation is void (7.3).

    What was in flight may be delivered again. The generation grows even when nobody is left.
    """
    count = len(group.members)
    return group._replace(
        generation=group.generation + 1,
        members=tuple(
            member._replace(partitions=tuple(partition_ids[index::count]), pending=())
            for index, member in enumerate(group.members)
        ),
    )


def cooperative(
    group: ConsumerGroup, partition_ids: Sequence[int], *, in_flight: AbstractSet[int], now: int
) -> ConsumerGroup:
    """Give members without work what nobody owns, then what others own beyond their fair share (7.2).

    A partition in flight stays with its owner, marked as pending revocation at `now`, microseconds, until its target may
    have it. Whoever is such a target already gets no second share.
    """
    group = group._replace(generation=group.generation + 1)
    if not group.members or not partition_ids:
        return group
    drafts = [_Draft(member) for member in group.members]
    _give_unowned(drafts, partition_ids)
    targets = {revocation.target for draft in drafts for revocation in draft.pending}
    idle = [draft for draft in drafts if not draft.owned and draft.member.id not in targets]
    if idle:
        for index, (partition_id, source) in enumerate(_excess(drafts, len(partition_ids))):
            target = idle[index % len(idle)]
            if partition_id in in_flight:
                source.pending.append(Revocation(partition_id, target.member.id, now))
            else:
                source.owned.remove(partition_id)
                target.owned.append(partition_id)
    return group._replace(members=tuple(draft.record() for draft in drafts))


def complete(group: ConsumerGroup, source_client: int, partition_id: int) -> ConsumerGroup | None:
    """Hand a pending partition over to its target (7.4); None when there is nothing to hand over.

    A target that is gone leads to an eager rebalance of what is owned. No path leaves such a target behind, since each
    that removes a member voids all pending revocations.
    """
    source = group.member_of(source_client)
    if source is None:
        return None
    revocation = next((each for each in source.pending if each.partition_id == partition_id), None)
    if revocation is None:
        return None
    members = tuple(_handed_over(member, source, revocation) for member in group.members)
    if any(member.id == revocation.target for member in members):
        return group._replace(generation=group.generation + 1, members=members)
    owned = {owned_id for member in members for owned_id in member.partitions}
    return eager(group._replace(members=members), sorted(owned | {partition_id}))


def _handed_over(member: Member, source: Member, revocation: Revocation) -> Member:
    partition_id = revocation.partition_id
    if member.id == source.id:
        member = member._replace(
            partitions=tuple(owned for owned in member.partitions if owned != partition_id),
            pending=tuple(each for each in member.pending if each is not revocation),
        )
    if member.id == revocation.target:
        member = member._replace(partitions=(*member.partitions, partition_id))
    return member


def _give_unowned(drafts: list[_Draft], partition_ids: Sequence[int]) -> None:
    owned = {partition_id for draft in drafts for partition_id in draft.owned}
    unowned = [partition_id for partition_id in partition_ids if partition_id not in owned]
    idle = [draft for draft in drafts if not draft.owned]
    if idle:
        for index, partition_id in enumerate(unowned):
            idle[index % len(idle)].owned.append(partition_id)


def _excess(drafts: list[_Draft], partitions_count: int) -> list[tuple[int, _Draft]]:
    """What members own beyond their fair share, each from the end of its list, with the owner."""
    fair, left = divmod(partitions_count, len(drafts))
    excess: list[tuple[int, _Draft]] = []
    for draft in drafts:
        leaving = {revocation.partition_id for revocation in draft.pending}
        kept = [partition_id for partition_id in draft.owned if partition_id not in leaving]
        surplus = len(kept) - (fair + 1 if left else fair)
        if surplus > 0:
            excess.extend((partition_id, draft) for partition_id in reversed(kept[-surplus:]))
        if left and len(kept) > fair:
            left -= 1
    return excess
