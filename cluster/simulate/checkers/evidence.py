"""What the members say that they have durably applied, against what their disks hold (acknowledgements 1 and 3).

Recomputed from two things that the members cannot colour: the committed log, and each disk as a crash at this moment would leave
it. A statement must be the frontier of a prefix of that log, with its high-water marks, and the disk must hold that prefix:
in its snapshot, or without a gap in its journal. Evidence must be the minimum of what the required members said, or name
exactly those that said nothing.

A member whose disk was replaced has said things that are true no more. Another one may believe them until it has heard
of the loss, which it shows by forgetting them; from then on they are held to be as true as anybody's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from levrier.actors.acknowledgements.messages import Blocked, Evidence, SafeThrough
from levrier.cluster.config import METADATA_GROUP
from levrier.cluster.simulate.checkers.commits import CommitObserver
from levrier.cluster.simulate.checkers.violation import Rule, Violation
from levrier.persistence.archive import Archive
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.errors import StorageError
from levrier.persistence.journal_scan import scan
from levrier.persistence.simulated_storage import SimulatedStorage
from levrier.persistence.snapshot import read_snapshot
from levrier.wire.acknowledgement import Acknowledgement, Frontier, replica_id
from levrier.wire.codes import Operation
from levrier.wire.requests.replicated import CreatePartitionsWithAssignments, CreateTopicWithAssignments

_ASSIGNING: Final[dict[int, type[CreateTopicWithAssignments] | type[CreatePartitionsWithAssignments]]] = {
    int(Operation.CREATE_TOPIC_WITH_ASSIGNMENTS): CreateTopicWithAssignments,
    int(Operation.CREATE_PARTITIONS_WITH_ASSIGNMENTS): CreatePartitionsWithAssignments,
}

_ZEROS: Final = bytes(256 * 1024)


def held_through(storage: SimulatedStorage, paths: GroupPaths) -> int | None:
    """The op up to which this disk durably holds everything; None when its files cannot be read, which boot will say."""
    disk = _durable_disk(storage, paths)
    try:
        snapshot = read_snapshot(disk, paths.snapshot)
        op = 0 if snapshot is None else snapshot.op
        ops = set(_ops_of_log(disk, paths))
    except StorageError:
        return None
    while op + 1 in ops:
        op += 1
    return op


def kept_from(storage: SimulatedStorage, paths: GroupPaths) -> int | None:
    """The lowest op that this disk durably keeps, in its archive or its log; None when there is none, or one is damaged."""
    disk = _durable_disk(storage, paths)
    try:
        archive = Archive.open(disk, paths.archive, group=METADATA_GROUP)
        ops = _ops_of_log(disk, paths)
    except StorageError:
        return None
    ops += [segment.first_op for segment in archive.segments]
    return None if archive.damaged else min(ops, default=None)


def _durable_disk(storage: SimulatedStorage, paths: GroupPaths) -> SimulatedStorage:
    """Another disk with what a crash now would leave, but for the zeros behind the log: they are most of the file."""
    disk = SimulatedStorage(Random(0))
    for path in storage.durable_paths():
        content = storage.durable_content(path)
        assert content is not None
        disk.put(path, _without_zeros(content) if path == paths.journal else content)
    return disk


def _without_zeros(content: bytes) -> bytes:
    """Without most of the zeros at its end."""
    size = len(content)
    while size > 2 * len(_ZEROS) and content[size - len(_ZEROS) : size] == _ZEROS:
        size -= len(_ZEROS)
    return content[:size]


def _ops_of_log(disk: SimulatedStorage, paths: GroupPaths) -> list[int]:
    """The ops of the log, if there is one."""
    if not disk.exists(paths.journal):
        return []
    file = disk.open(paths.journal, create=False)
    return [header.op for header, _ in scan(file, path=paths.journal, group=METADATA_GROUP).entries]


class _Prefixes:
    """The frontier and the high-water marks of every prefix of the committed log, as far as it goes."""

    def __init__(self, commits: CommitObserver) -> None:
        self._commits = commits
        self._frontiers = [Frontier()]
        self._marks = [Frontier()]

    def at(self, op: int) -> tuple[Frontier, Frontier] | None:
        """Both for everything up to `op`; None for an op that nobody has applied."""
        while len(self._frontiers) <= op:
            committed = self._commits.at(len(self._frontiers))
            if committed is None:
                return None
            header = committed.header
            self._frontiers.append(_raised(self._frontiers[-1], header.replica, header.op))
            marks = self._marks[-1]
            body_type = _ASSIGNING.get(header.operation)
            if body_type is not None:
                for _, group in body_type.decode(committed.body).assignments:
                    marks = _raised(marks, header.replica, max(group, marks.at(header.replica)))
            self._marks.append(marks)
        return self._frontiers[op], self._marks[op]


class EvidenceCheck:
    """Told what a member knows and makes of it. Raises `Violation`."""

    def __init__(self, commits: CommitObserver, *, cluster: int, replica_count: int, paths: Path) -> None:
        self._prefixes = _Prefixes(commits)
        self._membership = [replica_id(cluster, each) for each in range(replica_count)]
        self._paths = GroupPaths(paths)
        self._commits = commits
        self._held: dict[int, tuple[SimulatedStorage, int, int | None]] = {}
        """By member: its disk as it was looked at last, at which change, and what it held."""
        self._stale: set[tuple[int, str]] = set()
        self._lost_below = dict.fromkeys(self._membership, 0)
        """What a member had once and lost with its disk lies at or below this op."""

    @property
    def membership(self) -> list[str]:
        """The identities of all members, ascending."""
        return list(self._membership)

    def wiped(self, replica: int) -> None:
        """The disk of that member was replaced by an empty one."""
        for observer in range(len(self._membership)):
            if observer != replica:
                self._stale.add((observer, self._membership[replica]))
        self._lost_below[self._membership[replica]] = self._commits.highest

    def check_reclaim(self, observer: int, frontier: Frontier, held: Mapping[str, int | None]) -> None:
        """A member deletes the history below this frontier: everybody must have it, as far as it could know of a lost disk."""
        for identity in self._membership:
            on_disk = held[identity]
            if on_disk is not None and on_disk < frontier.highest and (observer, identity) not in self._stale:
                raise Violation(
                    Rule.RECLAIMED_IS_SAFE,
                    f"replica {observer} reclaims through op {frontier.highest}; {identity} ends at op {on_disk}",
                )

    def check_kept(
        self, replica: int, disk: SimulatedStorage, held: Mapping[str, int | None], *, passed_over: int
    ) -> None:
        """A member that keeps history: nothing has left its disk that another one lacks.

        A state transfer spared it the log up to the op `passed_over`: that never was in its log, or left it unkept.
        """
        lowest = kept_from(disk, self._paths)
        if lowest is None or lowest - 1 <= passed_over:
            return
        for identity in self._membership:
            on_disk = held[identity]
            if on_disk is not None and on_disk < lowest - 1 > self._lost_below[identity]:
                raise Violation(
                    Rule.RECLAIMED_IS_SAFE,
                    f"replica {replica} keeps nothing below op {lowest}; {identity} ends at op {on_disk}",
                )

    def held(self, disks: Sequence[SimulatedStorage]) -> dict[str, int | None]:
        """What each member's disk holds now, by identity."""
        return {self._membership[each]: self._held_by(each, disk) for each, disk in enumerate(disks)}

    def _held_by(self, replica: int, disk: SimulatedStorage) -> int | None:
        seen, change, held = self._held.get(replica, (None, 0, None))
        if seen is not disk or change != disk.durable_changes:
            held = held_through(disk, self._paths)
            self._held[replica] = disk, disk.durable_changes, held
        return held

    def check(
        self,
        observer: int,
        known: Sequence[Acknowledgement],
        told: Evidence,
        held: Mapping[str, int | None],
        *,
        is_settled: bool = True,
    ) -> None:
        """Member `observer` durably knows these statements and makes this evidence of them.

        Unless everything `is_settled`, a state machine may have applied an op that the observer of the commits has not seen yet.
        """
        latest = {each.replica_id: each for each in known}
        for identity in [identity for at, identity in self._stale if at == observer and identity not in latest]:
            self._stale.discard((observer, identity))
        for said in known:
            on_disk = held.get(said.replica_id)
            if on_disk is not None and said.applied_frontier.highest <= on_disk:
                self._stale.discard((observer, said.replica_id))  # Whoever said it, it is true by now.
            if (observer, said.replica_id) not in self._stale:
                self._check_statement(observer, said, on_disk, is_settled=is_settled)
        self._check_evidence(observer, latest, told, held)

    def _check_statement(self, observer: int, said: Acknowledgement, held: int | None, *, is_settled: bool) -> None:
        op = said.applied_frontier.highest
        expected = self._prefixes.at(op)
        found = (said.applied_frontier, said.origin_sequence_high_water)
        if expected != found and (expected is not None or is_settled):
            raise Violation(
                Rule.STATEMENT_IS_TRUE,
                f"{said.replica_id} says {found}, as replica {observer} knows it; the log up to op {op} has {expected}",
            )
        if held is not None and op > held:
            raise Violation(
                Rule.STATEMENT_IS_TRUE,
                f"{said.replica_id} says that it holds op {op}, as replica {observer} knows it; its disk ends at op {held}",
            )

    def _check_evidence(
        self, observer: int, latest: Mapping[str, Acknowledgement], told: Evidence, held: Mapping[str, int | None]
    ) -> None:
        required = set(self._membership)
        for said in latest.values():
            required.update(said.membership_view)
        missing = tuple(sorted(required - latest.keys()))
        if missing:
            if told != Blocked(waiting_on=missing):
                raise Violation(Rule.EVIDENCE_IS_TRUE, f"replica {observer} says {told}, missing are {missing}")
            return
        slowest = min(latest[each].applied_frontier.highest for each in required)
        if (
            not isinstance(told, SafeThrough)
            or told.covered != tuple(sorted(required))
            or told.frontier.highest != slowest
        ):
            raise Violation(Rule.EVIDENCE_IS_TRUE, f"replica {observer} says {told}, the slowest is at op {slowest}")
        for identity in sorted(required):
            on_disk = held.get(identity)
            trusted = (observer, identity) not in self._stale
            if trusted and on_disk is not None and told.frontier.highest > on_disk:
                raise Violation(
                    Rule.EVIDENCE_IS_TRUE,
                    f"replica {observer} says that op {told.frontier.highest} is safe; {identity} ends at op {on_disk}",
                )


def _raised(frontier: Frontier, origin: int, position: int) -> Frontier:
    return Frontier.of({**dict(frontier.positions), origin: position})
