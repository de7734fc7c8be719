"""Consumer groups in the reference model (state-machine 7.2 to 7.4), step by step as the specification counts them."""

from dataclasses import dataclass, field


@dataclass
class Member:
    """One member; what it owns in the order in which it came; what of it is pending, as partition, target, since when."""

    client: int
    user: int
    owned: list[int] = field(default_factory=list)
    pending: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def leaving(self) -> list[int]:
        return [partition for partition, _, _ in self.pending]

    @property
    def staying(self) -> list[int]:
        return [partition for partition in self.owned if partition not in self.leaving]


@dataclass
class Group:
    """One group, members by key."""

    id: int
    name: str
    generation: int = 0
    members: dict[int, Member] = field(default_factory=dict)

    @property
    def ascending(self) -> list[tuple[int, Member]]:
        return sorted(self.members.items())

    def member_of(self, client: int) -> Member | None:
        return next((member for member in self.members.values() if member.client == client), None)

    def add(self, key: int, client: int, user: int) -> None:
        self.members[key] = Member(client, user)

    def remove(self, client: int) -> None:
        self.members = {key: member for key, member in self.members.items() if member.client != client}


def eager(group: Group, partitions: list[int]) -> None:
    """7.3."""
    group.generation += 1
    members = [member for _, member in group.ascending]
    for member in members:
        member.owned, member.pending = [], []
    for index, partition in enumerate(partitions):
        if members:
            members[index % len(members)].owned.append(partition)


def cooperative(group: Group, partitions: list[int], in_flight: set[int], now: int) -> None:
    """7.2, with the numbers of its steps."""
    group.generation += 1  # 1.
    members = group.ascending
    if not members or not partitions:
        return
    owned = [partition for _, member in members for partition in member.owned]  # 2.
    unowned = [partition for partition in partitions if partition not in owned]
    idle = [member for _, member in members if not member.owned]
    for index, partition in enumerate(unowned):
        if idle:
            idle[index % len(idle)].owned.append(partition)
    fair, left = len(partitions) // len(members), len(partitions) % len(members)  # 3.
    targets = {target for _, member in members for _, target, _ in member.pending}
    waiting = [key for key, member in members if not member.owned and key not in targets]
    if not waiting:
        return
    excess: list[tuple[int, Member]] = []  # 4.
    for _, member in members:
        staying = member.staying
        most = fair + 1 if left > 0 else fair
        excess += [(partition, member) for partition in staying[::-1][: max(0, len(staying) - most)]]
        if len(staying) > fair:
            left = max(0, left - 1)
    for index, (partition, source) in enumerate(excess):  # 5.
        target = waiting[index % len(waiting)]
        if partition in in_flight:
            source.pending.append((partition, target, now))
        else:
            source.owned.remove(partition)
            group.members[target].owned.append(partition)


def complete(group: Group, client: int, partition: int) -> bool:
    """7.4: whether there was anything to hand over."""
    source = group.member_of(client)
    if source is None or partition not in source.leaving:
        return False
    target = next(key for number, key, _ in source.pending if number == partition)
    source.pending = [record for record in source.pending if record[0] != partition]
    source.owned.remove(partition)
    if target in group.members:
        group.members[target].owned.append(partition)
        group.generation += 1
    else:
        eager(group, sorted({number for member in group.members.values() for number in member.owned} | {partition}))
    return True
