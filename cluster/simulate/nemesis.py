"""Who does the harm: partitions, pauses, crashes, disks and clocks, by the plan and within the budget of the design.

The budget: data is lost or damaged on one member at a time, and never while another one is still recovering from that. A
member that refuses its damaged disk is given an empty one by its operator, who also restarts whoever stopped. A torn tail cannot
be told from a rotten one, so it counts as damage until a view told what it was (D-24). A call that fails halfway leaves one
too when the machine stops next; so while a member recovers, calls of the others that fail have done nothing.
"""

import errno
import heapq
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.runtime import ExitStatus, FatalReason
from levrier.cluster.boot import BootRefused
from levrier.cluster.simulate.checkers import Violation
from levrier.cluster.simulate.cluster import METADATA, SimulatedCluster
from levrier.cluster.simulate.disks import has_faulty_disk
from levrier.cluster.simulate.faults import Fault, FaultPlan
from levrier.cluster.simulate.links import FaultyLinks
from levrier.cluster.simulate.outsiders import Core, Suffering, is_whole_on_disk
from levrier.cluster.simulate.watch import Moment, Trace, Watch
from levrier.persistence.errors import IoFailed
from levrier.persistence.simulated_storage import Crashed, DiskFaults, Tear

CRASHED_REASON: Final = "Crashed"
FOREVER_NANOS: Final = 1 << 62
FOREVER_STEPS: Final = 1 << 62
STEPS_TO_CRASH: Final = (5, 50, 500)
"""Some crashes come up to so many steps of the whole cluster after they are decided on."""

STEPS_INTO_A_MOMENT: Final = (2, 8, 50)
"""Others come up to so many steps after what they wait for begins."""

AMBUSH_ODDS: Final = 0.8
"""How often a story with crashes begins with one that waits for a moment, for each of them."""

MOMENTS: Final = tuple(Moment)

MACHINE_ODDS: Final = 0.8
"""How often it is the machine that stops and not only the process."""

MISREAD_ODDS: Final = 0.4
"""How often it is what a disk gives that rots, and not what it holds."""

_HOUR_MICROS: Final = 3_600_000_000
_DISK_REASONS: Final = frozenset({ExitStatus.LOG_UNRECONCILABLE, ExitStatus.SUPERBLOCK_WEDGED})
_ROTTING_FILES: Final = ("journal.wal", "journal.wal", "snapshot.bin", "superblock.a", "superblock.b")


class Nemesis:
    """Strikes until `stop`, and again from `go_on` on. `world.random` is not touched: the harm has randomness of its own.

    Where the timers of the members are longer than usual by a `stretch`, so is what is done to them.
    """

    def __init__(
        self,
        *,
        random: Random,
        plan: FaultPlan,
        cluster: SimulatedCluster,
        links: FaultyLinks,
        watch: Watch,
        trace: Trace,
        wiped: Callable[[int], None],
        stretch: int = 1,
    ) -> None:
        self.striking = True
        self.impaired: int | None = None
        """The member that lost something it had promised to keep, until it has all of it back."""
        self.down: set[int] = set()
        self._rotten = False
        """Whether the disk of the impaired member has wrong bits that no boot has looked at."""
        self.stroke_at = FOREVER_STEPS
        """The step after which `strike_between_steps` is due."""
        self._strokes: list[tuple[int, int, int]] = []
        """After which step whom, and what must be under way there; -1: anything."""
        self._ambushes: set[Moment] = set()
        """What somebody is crashed in the middle of, the next time that it begins."""
        watch.on_moment = self._on_moment
        self._outsiders: dict[int, Suffering] = {}
        """Who stays away for good, and why, while a core makes progress."""
        self._goal = 0
        self._random = random
        self._misreads = Random(f"misreads/{cluster.seed}")
        self._plan = plan
        self._cluster = cluster
        self._links = links
        self._watch = watch
        self._trace = trace
        self._wiped = wiped
        self._stretch = stretch
        self._campaign = 0
        self._ease = min(1.0, plan.mean_ms.get(Fault.CRASH, 1_000.0) / 4_000)
        """Where crashes are frequent, restarts are quick."""
        self.hung_until = [0] * cluster.count
        """Until which virtual nanosecond no call to the disk of a member returns."""
        self._disk_faulty = [False] * cluster.count
        """Whether calls to the disk failed in this life of a member, so that it may end by that."""
        self._skews = [self._draw_skew() if plan.has(Fault.CLOCK_SKEW) else 0 for _ in range(cluster.count)]
        self._strikes: dict[Fault, Callable[[], None]] = {
            Fault.PARTITION: self._partition,
            Fault.ONE_WAY: self._one_way,
            Fault.PAUSE: self._pause,
            Fault.CRASH: self._crash_somebody,
            Fault.BIT_ROT: self._rot,
            Fault.EIO: self._fail_disk,
            Fault.ENOSPC: self._fill_disk,
            Fault.HUNG_DISK: self._hang_disk,
            Fault.SLOW_DISK: self._slow_disk,
            Fault.CLOCK_JUMP: self._jump,
            Fault.WIPE: self._wipe,
        }

    def begin(self) -> None:
        """Boot everybody, in any order, and lay the first traps."""
        order = list(range(self._cluster.count))
        self._random.shuffle(order)
        for replica in order:
            self.down.add(replica)
            self._after(self._random.choice((0, 1, 30, 400)), partial(self.boot, replica))
        if self._plan.has(Fault.CRASH):
            self._ambushes.update(moment for moment in MOMENTS if self._random.random() < AMBUSH_ODDS)
        for fault in self._plan.mean_ms:
            self._arm(fault)

    def go_on(self, plan: FaultPlan) -> None:
        """More harm, by another plan."""
        assert not self.striking
        self.striking = True
        self._campaign += 1
        self._plan = plan
        self._links.take(plan)
        for fault in plan.mean_ms:
            self._arm(fault)

    def leave(self, core: Core) -> None:
        """No more harm to a core: its links and disks are good again, its members come back. What the others suffer stays."""
        self.striking = False
        self._drop_strokes()
        self._outsiders = core.outsiders
        by = {kind: frozenset(each for each, what in core.outsiders.items() if what is kind) for kind in Suffering}
        cut_off = by[Suffering.CUT_OFF]
        self._links.calm_all_but(
            frozenset(core.outsiders),
            deaf=by[Suffering.DEAF] | cut_off,
            mute=by[Suffering.MUTE] | cut_off,
        )
        for replica in core.members:
            self._restore(replica)
        for replica, suffering in sorted(core.outsiders.items()):
            self._tell(replica, f"{suffering} from now on")
            self._afflict(replica, suffering)

    def stop(self) -> None:
        """No more harm: links and disks are good again, whoever is paused goes on.

        Only the traps for a checkpoint and a state transfer stay, for one crash each: many stories have neither before.
        """
        self.striking = False
        self._drop_strokes()
        self._links.calm()
        outsiders, self._outsiders = self._outsiders, {}
        for replica in range(self._cluster.count):
            self._restore(replica)
        for replica, suffering in sorted(outsiders.items()):
            if suffering is Suffering.HUNG and replica in self._cluster.booted:
                self.crash(replica)  # A call that does not return ends with its machine.
            elif replica in self.down:
                self._after(0, partial(self.boot, replica))

    def _restore(self, replica: int) -> None:
        """A member is well again; whoever is down will be started."""
        self._mend_disk(replica)
        self.hung_until[replica] = 0
        self._cluster.storages[replica].faults.crash_after = None
        if replica in self._cluster.booted and self._cluster.node(replica).paused:
            self._resume(replica)

    def _afflict(self, replica: int, suffering: Suffering) -> None:
        """A member suffers until `stop`; what the links do is not done here."""
        faults = self._cluster.storages[replica].faults
        match suffering:
            case Suffering.DOWN if replica in self._cluster.booted:
                self.crash(replica)
            case Suffering.PAUSED if not self._cluster.node(replica).paused:
                self._cluster.node(replica).pause()
            case Suffering.HUNG:
                self.hung_until[replica] = FOREVER_NANOS
                faults.delay_probability = 1.0
            case Suffering.FULL:
                faults.write_budget = 0
                self._disk_faulty[replica] = True
            case Suffering.FAILING:
                faults.error_probability = self._random.choice((0.2, 1.0))
                faults.errors = (errno.EIO,)
                self._disk_faulty[replica] = True
            case _:
                pass

    def whole(self) -> list[int]:
        """The members that have all they promised, vote, and can deny what they never had; up or down."""
        states = self._watch.states()
        found = []
        for replica in range(self._cluster.count):
            state = states.get(replica)
            if replica == self.impaired:
                continue
            if state is None:
                is_whole = is_whole_on_disk(self._cluster, replica)
            else:
                is_whole = state.born and state.voter and not state.log_cut and not state.gate.cut_durable
            if is_whole:
                found.append(replica)
        return found

    # Boots and ends, as an operator sees to them

    def boot(self, replica: int) -> None:
        """Start a member that is down."""
        if replica not in self.down or self._outsiders.get(replica) is Suffering.DOWN:
            return
        self.down.discard(replica)
        storage = self._cluster.storages[replica]
        storage.on_delay = lambda _call, _path, micros: self._on_delay(replica, micros)
        try:
            self._cluster.start(replica)
        except Crashed:
            self._tell(replica, "stops in the middle of its boot")
            self.crash(replica)
            return
        except BootRefused as refused:
            self._refused(replica, refused)
            return
        self._disk_faulty[replica] = has_faulty_disk(storage)
        node = self._cluster.node(replica)
        node.clock.offset_micros = self._skews[replica]
        if self.impaired == replica:
            self._rotten = False
        self._watch.born(replica, node, self._cluster.booted[replica], self._replayed(replica))

    def crash(self, replica: int, *, machine: bool = True, after_ms: int | None = None) -> None:
        """A member stops; it is started again after a while."""
        name = f"node-{replica}"
        self._watch.count_crash(replica)
        self._watch.gone(name)
        storage = self._cluster.storages[replica]
        if machine:
            storage.faults.tear = self._tear()
            self._cluster.crash(replica)
        else:
            self._cluster.kill(replica)
        self._trace.tell(name, f"{'crashes' if machine else 'is killed'} ({storage.faults.tear.value})")
        self.down.add(replica)
        if after_ms is None:
            after_ms = int(self._random.choice((0, 10, 200, 2_000, 8_000)) * self._ease) * self._stretch
        self._after(after_ms, lambda: self.boot(replica))

    def failed(self, replica: int, reason: FatalReason) -> None:
        """A member ended by itself. `Violation` unless its disk gave it a reason."""
        if reason.reason.startswith(CRASHED_REASON):
            self._tell(replica, "stops in the middle of a call to its disk")
            self.crash(replica)
            return
        self._tell(replica, f"ends with status {int(reason.status)}: {reason.actor}: {reason.reason}")
        has_reason = self._disk_faulty[replica] or (self.impaired == replica and reason.actor == "journal")
        if reason.status not in _DISK_REASONS or not has_reason:
            raise Violation("no node fails", f"node-{replica}: {reason.actor}: {reason.reason}")
        self.crash(replica, machine=False, after_ms=1_000)

    def after_step(self) -> None:
        """Notice that the impaired member has everything back."""
        replica = self.impaired
        if replica is None or replica not in self._cluster.booted:
            return
        state = self._watch.states().get(replica)
        if state is not None and self._has_recovered(state):
            self._tell(replica, "has everything back that it had lost")
            self.impaired = None
            self._let_failures_tear()

    def _has_recovered(self, state: ReplicaState) -> bool:
        return (
            state.born
            and state.voter
            and state.status is Status.NORMAL
            and not state.is_transferring
            and state.commit_min >= self._goal
            and state.gate.view_durable == state.view
            and not self._is_damaged(state.config.replica)
        )

    def _refused(self, replica: int, refused: BootRefused) -> None:
        self._tell(replica, f"refuses to boot: {refused}")
        cause = refused.__cause__
        if isinstance(cause, IoFailed):
            self.crash(replica, machine=False, after_ms=500)
        elif refused.status is ExitStatus.BOOT_DAMAGED and self.impaired == replica:
            self._tell(replica, "is given an empty disk")
            self.crash(replica, after_ms=200)
            self._empty_disk(replica)
            self._rotten = False
        else:
            raise Violation("a boot is refused for damage only", f"node-{replica}: {refused}")

    def _replayed(self, replica: int) -> list[bytes]:
        """The entries that a boot has just applied. Nobody suffers from their being read here."""
        storage, booted = self._cluster.storages[replica], self._cluster.booted[replica]
        recovered = booted.recovered
        first = recovered.applied - recovered.replayed + 1
        faults, storage.faults = storage.faults, DiskFaults()
        entries = [booted.journal.entry(op) for op in range(first, recovered.applied + 1)]
        storage.faults = faults
        return [entry.frame for entry in entries if entry is not None]

    # The strikes

    def _arm(self, fault: Fault) -> None:
        wait, campaign = int(self._random.expovariate(1 / self._plan.mean_ms[fault])) + 1, self._campaign

        def strike() -> None:
            if self.striking and self._campaign == campaign:
                self._strikes[fault]()
                self._arm(fault)

        self._after(wait, strike)

    def _partition(self) -> None:
        count = self._cluster.count
        camp = frozenset(self._random.sample(range(count), self._random.randint(1, count - 1)))
        length = self._length(Fault.PARTITION, 10_000)
        self._trace.tell("links", f"{_names(camp)} are parted from the others for {length} ms")
        self._links.part(camp)

        def heal() -> None:
            if self.striking:
                self._trace.tell("links", "the camps hear each other again")
                self._links.part(frozenset())

        self._after(length, heal)

    def _one_way(self) -> None:
        source, target = self._random.sample(range(self._cluster.count), 2)
        length = self._length(Fault.ONE_WAY, 10_000)
        self._trace.tell("links", f"node-{target} does not hear node-{source} for {length} ms")
        self._links.cut(source, target)

        def mend() -> None:
            if self.striking:
                self._links.mend(source, target)

        self._after(length, mend)

    def _pause(self) -> None:
        replica = self._anybody()
        if replica is None or self._cluster.node(replica).paused:
            return
        node, length = self._cluster.node(replica), self._length(Fault.PAUSE, 15_000)
        self._tell(replica, f"stands still for {length} ms")
        node.pause()

        def resume() -> None:
            if self.striking and node.paused and not node.dead:
                self._resume(replica)

        self._after(length, resume)

    def _resume(self, replica: int) -> None:
        self._tell(replica, "goes on")
        self._cluster.node(replica).resume()

    def _crash_somebody(self) -> None:
        replica = self._anybody()
        if replica is None:
            return
        draw = self._random.random()
        if draw < 0.2:
            self._crash_after_steps(self._random.randint(0, self._random.choice(STEPS_TO_CRASH)), replica)
        elif draw < 0.4:
            self._ambushes.add(self._random.choice(MOMENTS))
        elif draw < 0.65:
            storage = self._cluster.storages[replica]
            storage.faults.crash_after = storage.calls + self._random.randint(0, 30)
        else:
            self.crash(replica, machine=draw < 0.93)

    def strike_between_steps(self) -> None:
        """The step is reached after which somebody crashes, whatever is under way."""
        while self._strokes and self._strokes[0][0] <= self._cluster.world.steps:
            _, replica, awaited = heapq.heappop(self._strokes)
            moment = None if awaited < 0 else Moment(awaited)
            if moment is not None and not self._watch.is_in(replica, moment):
                self._ambushes.add(moment)  # It was over sooner: the next time, then.
            elif replica in self._cluster.booted:
                self.crash(replica, machine=self._random.random() < MACHINE_ODDS)
        self.stroke_at = self._strokes[0][0] if self._strokes else FOREVER_STEPS

    def _crash_after_steps(self, steps: int, replica: int, moment: Moment | None = None) -> None:
        awaited = -1 if moment is None else moment.value
        heapq.heappush(self._strokes, (self._cluster.world.steps + steps, replica, awaited))
        self.stroke_at = self._strokes[0][0]

    def _on_moment(self, replica: int, moment: Moment) -> None:
        """Something that takes several steps begins at a member, and there may be a trap. A core is spared."""
        if moment in self._ambushes and not self._outsiders:
            self._ambushes.discard(moment)
            steps = self._random.randint(0, self._random.choice(STEPS_INTO_A_MOMENT))
            self._crash_after_steps(steps, replica, moment)

    def _drop_strokes(self) -> None:
        self._strokes.clear()
        self._ambushes.discard(Moment.VIEW_CHANGE)
        self.stroke_at = FOREVER_STEPS

    def _rot(self) -> None:
        """Some bits of one file change; the member goes on, or is looked at when it boots next."""
        replica = self._random.randrange(self._cluster.count)
        if not self._may_damage(replica):
            return
        storage = self._cluster.storages[replica]
        if self._misreads.random() < MISREAD_ODDS:
            self._misread(replica)
            return
        path = METADATA / self._random.choice(_ROTTING_FILES)
        content = storage.content(path)
        if content is None:
            return
        used = len(content.rstrip(b"\0"))
        if not used:
            return
        offset = self._random.randrange(used)
        self._impair(replica)
        self._rotten = True
        self._tell(replica, f"has a wrong bit in {path.name} at offset {offset}")
        storage.flip(path, offset, self._random.randrange(8))
        self._after(self._random.choice((0, 0, 300, 5_000)), lambda: self._look_at(replica))

    def _misread(self, replica: int) -> None:
        """For a while some of what a disk gives has a wrong bit, to whoever boots from it or repairs others."""
        faults, length = self._cluster.storages[replica].faults, self._length(Fault.BIT_ROT, 10_000)
        self._impair(replica)
        faults.read_flip_probability = self._misreads.choice((0.02, 0.2, 1.0))
        self._disk_faulty[replica] = True
        self._tell(
            replica, f"has a disk that gives a wrong bit in {faults.read_flip_probability:.0%} of reads for {length} ms"
        )
        self._mend_disk_after(length, replica)
        self._after(self._misreads.choice((0, 0, 300, 5_000)), lambda: self._look_at(replica))

    def _look_at(self, replica: int) -> None:
        if replica in self._cluster.booted and self._is_damaged(replica) and self.striking:
            self.crash(replica)

    def _wipe(self) -> None:
        replica = self._random.randrange(self._cluster.count)
        if not self._may_damage(replica):
            return
        self._impair(replica)
        self._tell(replica, "loses its disk")
        if replica in self._cluster.booted:
            self.crash(replica)
        self._empty_disk(replica)

    def _empty_disk(self, replica: int) -> None:
        self._cluster.wipe(replica)
        self._wiped(replica)

    def _fail_disk(self) -> None:
        replica = self._random.randrange(self._cluster.count)
        faults, length = self._cluster.storages[replica].faults, self._length(Fault.EIO, 5_000)
        faults.error_probability = self._random.choice((0.02, 0.2, 1.0))
        faults.errors = (errno.EIO,)
        self._disk_faulty[replica] = True
        self._tell(replica, f"has a disk that fails {faults.error_probability:.0%} of calls for {length} ms")
        self._mend_disk_after(length, replica)

    def _fill_disk(self) -> None:
        replica = self._random.randrange(self._cluster.count)
        length = self._length(Fault.ENOSPC, 5_000)
        self._cluster.storages[replica].faults.write_budget = self._random.randint(0, 40_000)
        self._disk_faulty[replica] = True
        self._tell(replica, f"has a disk that is nearly full for {length} ms")
        self._mend_disk_after(length, replica)

    def _slow_disk(self) -> None:
        replica = self._random.randrange(self._cluster.count)
        faults, length = self._cluster.storages[replica].faults, self._length(Fault.SLOW_DISK, 10_000)
        faults.delay_probability = self._random.choice((0.1, 1.0))
        faults.delay_us_max = self._plan.slow_us
        self._tell(replica, f"has a slow disk for {length} ms")

        def mend() -> None:
            if self.striking:
                faults.delay_probability = 0.0

        self._after(length, mend)

    def _hang_disk(self) -> None:
        replica = self._random.randrange(self._cluster.count)
        length = self._length(Fault.HUNG_DISK, 15_000)
        self.hung_until[replica] = self._cluster.world.now_nanos + length * 1_000_000
        self._cluster.storages[replica].faults.delay_probability = 1.0
        self._tell(replica, f"has a disk that hangs for {length} ms")

    def _jump(self) -> None:
        replica = self._random.randrange(self._cluster.count)
        self._skews[replica] = self._draw_skew()
        self._tell(replica, f"has its clock set wrong by {self._skews[replica] / 1e6:.3f} s")
        if replica in self._cluster.booted:
            self._cluster.node(replica).clock.offset_micros = self._skews[replica]

    # Means

    def _may_damage(self, replica: int) -> bool:
        """Within the budget: nobody is impaired, and everybody else is whole and up to date."""
        if self.impaired is not None or self.down - {replica}:
            return False
        states = self._watch.states()
        return (
            all(
                state.born
                and state.voter
                and not state.log_cut
                and not state.gate.cut_durable
                and state.truncation is None
                and state.commit_min >= self._watch.highest - 64
                for each, state in states.items()
                if each != replica
            )
            and len(states) >= self._cluster.count - 1
        )

    def _impair(self, replica: int) -> None:
        self.impaired = replica
        self._let_failures_tear()
        states = self._watch.states()
        self._goal = max([self._watch.highest, *(state.sequencer for state in states.values())])

    def _let_failures_tear(self) -> None:
        for replica, storage in enumerate(self._cluster.storages):
            storage.faults.failures_tear = self.impaired in (None, replica)

    def _is_damaged(self, replica: int) -> bool:
        """Wrong bits stay until the disk is written anew, only a boot that read everything knows; or they are given again."""
        misread = self._cluster.storages[replica].faults.read_flip_probability > 0
        return self.impaired == replica and (self._rotten or misread)

    def _mend_disk_after(self, milliseconds: int, replica: int) -> None:
        def mend() -> None:
            if self.striking:
                self._mend_disk(replica)

        self._after(milliseconds, mend)

    def _mend_disk(self, replica: int) -> None:
        faults = self._cluster.storages[replica].faults
        faults.error_probability = faults.delay_probability = faults.read_flip_probability = 0.0
        faults.write_budget = None

    def _on_delay(self, replica: int, micros: int) -> None:
        """A call to the disk takes so long; on one that hangs, until that is over, for all calls of a handler together."""
        world = self._cluster.world
        hung = (self.hung_until[replica] - world.now_nanos) // 1000 - world.taken_micros
        world.take_time(max(micros, hung))

    def _tear(self) -> Tear:
        lost = self._plan.has(Fault.LOST_UNSYNCED)
        torn = self._plan.has(Fault.TORN) and self.impaired is None
        if lost and torn:
            return Tear.ANY
        if torn:
            return self._random.choice((Tear.PREFIX, Tear.SECTORS))
        return Tear.LOSE if lost else Tear.KEEP

    def _draw_skew(self) -> int:
        most = self._random.choice((100_000, 60_000_000, _HOUR_MICROS * 48))
        return self._random.randint(-most, most)

    def _length(self, fault: Fault, most: int) -> int:
        """Mostly short, sometimes longer than any timeout; less than the time between two of them, on average."""
        return 1 + int(min(most * self._stretch, 2 * self._plan.mean_ms[fault]) * self._random.random() ** 2)

    def _anybody(self) -> int | None:
        up = sorted(self._cluster.booted)
        return self._random.choice(up) if up else None

    def _after(self, milliseconds: int, action: Callable[[], object]) -> None:
        self._cluster.world.call_after(milliseconds, action)

    def _tell(self, replica: int, what: str) -> None:
        self._trace.tell(f"node-{replica}", what)


def _names(members: frozenset[int]) -> str:
    return ", ".join(f"node-{replica}" for replica in sorted(members))
