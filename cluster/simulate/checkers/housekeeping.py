"""What the plugins that come with levrier owe the cluster (maintenance 1 to 4), against the model of the committed log.

At once: a partition that somebody has polled stays with its member until the time is over, and no directory of a partition that
exists is ever removed. In the end, when everything is well: no access token is left that has expired, no partition waits for
its new owner, nobody who is silent holds a place in a group, and every member has the directories of the catalogue.

An entry that completes a revocation does not say which (requests 67): one that was decided on for an earlier revocation, and
was under way when that one ended, may find a new one.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from levrier.cluster.simulate.checkers.commits import CommitObserver
from levrier.cluster.simulate.checkers.model.machine import Model, Rejected, Step
from levrier.cluster.simulate.checkers.violation import Rule, Violation
from levrier.persistence.partition_directories import PartitionKey
from levrier.wire.codes import Operation

_COMPLETE: int = int(Operation.COMPLETE_CONSUMER_GROUP_REVOCATION)
_UNDER_WAY_MAX: int = 256
"""How many ops may lie between the state that a plugin decided on and what it submitted: those in flight, and some that wait."""

_Place = tuple[int, int, int, int, int]
"""Stream, topic, group, client, partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duties:
    """Which of the plugins run. `rebalancing_timeout`: microseconds."""

    cleans: bool = True
    completes: bool = True
    sweeps: bool = True
    reconciles: bool = True
    rebalancing_timeout: int = 0


class Housekeeping:
    """Told of every entry before the model applies it, and of every directory that goes. Raises `Violation`.

    `is_polled` says of a partition that its members have polled what they never commit.
    """

    def __init__(self, commits: CommitObserver, duties: Duties, *, is_polled: Callable[[int], bool]) -> None:
        self.completions = 0
        self._model = commits.model
        self._duties = duties
        self._is_polled = is_polled
        self._revoked: dict[_Place, int] = {}
        """Since when each revocation waits, before the entry that comes next."""
        self._ended: dict[_Place, tuple[int, int]] = {}
        """Of the last one that ended, by its own completion or otherwise: since when it had waited, and the op before which."""
        commits.before = self.before

    def before(self, op: int, step: Step) -> None:
        """The committed entry of this op comes next."""
        if not self._duties.completes:
            return
        self._note_ended(op)
        if step.operation != _COMPLETE:
            return
        since = _pending_since(self._model, step)
        if since is None:
            return
        self.completions += 1
        partition, waited = step.args["partition"], step.time - since
        timeout = self._duties.rebalancing_timeout
        if self._is_polled(partition) and waited < timeout and not self._was_due(op, step, timeout):
            raise Violation(
                Rule.HANDED_OVER_IN_TIME,
                f"op {op} takes partition {partition} from client {step.args['source']:#x} after {waited} us; "
                f"{timeout} us were allowed",
            )

    def _note_ended(self, op: int) -> None:
        revoked = {
            (stream.id, topic.id, group.id, member.client, partition): since
            for stream in self._model.streams.values()
            for topic in stream.topics.values()
            for group in topic.groups.values()
            for member in group.members.values()
            for partition, _, since in member.pending
        }
        for place, since in self._revoked.items():
            if revoked.get(place) != since:
                self._ended[place] = since, op
        self._revoked = revoked

    def _was_due(self, op: int, step: Step, timeout: int) -> bool:
        """Whether an earlier revocation that ended a moment ago had waited long enough."""
        stream, topic = self._model.stream(step).id, self._model.topic(step).id
        ended = self._ended.get((stream, topic, step.args["group_id"], step.args["source"], step.args["partition"]))
        return ended is not None and op - ended[1] <= _UNDER_WAY_MAX and step.time - ended[0] >= timeout

    def removed(self, replica: int, key: PartitionKey) -> None:
        """The directory of a partition is gone from the disk of a member."""
        if key in partitions_of(self._model):
            raise Violation(
                Rule.DIRECTORY_STAYS,
                f"replica {replica} removed the directory of {key}, which is in the committed catalogue",
            )

    def unfinished(
        self, *, now: int, directories: Mapping[int, Collection[PartitionKey]], silent: Iterable[int]
    ) -> str:
        """What is still to be done, in words; nothing when all is.

        `now` is the clock of the leader in microseconds, `directories` what each member has, `silent` are clients with a
        connection that were not heard of for long.
        """
        found: list[str] = []
        if self._duties.cleans:
            found += _expired(self._model, now)
        if self._duties.completes:
            found += self._pending(now)
        if self._duties.sweeps:
            members = {member.client for _, group in self._model.all_groups() for member in group.members.values()}
            found += [f"silent client {client:#x} is in a group" for client in silent if client in members]
        if self._duties.reconciles:
            wanted = partitions_of(self._model)
            for replica, present in sorted(directories.items()):
                missing, surplus = sorted(wanted - set(present)), sorted(set(present) - wanted)
                found += [f"node-{replica} has no directory for {key}" for key in missing[:3]]
                found += [f"node-{replica} has a directory for {key}, which is gone" for key in surplus[:3]]
        return "; ".join(found)

    def _pending(self, now: int) -> list[str]:
        return [
            f"partition {partition} of {group.name} waits for its new owner since {since}"
            for _, group in self._model.all_groups()
            for member in group.members.values()
            for partition, _, since in member.pending
            if not self._is_polled(partition) or now - since >= self._duties.rebalancing_timeout
        ]


def partitions_of(model: Model) -> frozenset[PartitionKey]:
    """Every partition of the catalogue, with its epoch."""
    return frozenset(
        PartitionKey(stream.id, topic.id, partition.id, partition.created_revision)
        for stream in model.streams.values()
        for topic in stream.topics.values()
        for partition in topic.partitions
    )


def _expired(model: Model, now: int) -> list[str]:
    return [
        f"token {name} of {user.name} expired at {expiry}, it is {now}"
        for user in model.users.values()
        for name, (_, expiry) in user.tokens.items()
        if expiry is not None and expiry <= now
    ]


def _pending_since(model: Model, step: Step) -> int | None:
    """When the revocation began that this entry completes; None when there is none."""
    try:
        group = model.topic(step).groups.get(step.args["group_id"])
    except Rejected:
        return None
    source = None if group is None else group.member_of(step.args["source"])
    if source is None:
        return None
    return next((since for number, _, since in source.pending if number == step.args["partition"]), None)
