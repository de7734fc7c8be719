"""One seed from birth to verdict: faults until enough was answered, then a healed core that must make progress while
the others stay away, then a healed cluster.

The verdict is a value: what was broken, how it went, and the last events. Nothing but the seed and the settings decides it.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Final

from loguru import logger

from levrier.actors.consensus.state import ReplicaState, Status
from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.actors.metadata.actor import MetadataActor
from levrier.cluster.config import NodeConfig
from levrier.cluster.simulate.checkers import Rule, Violation
from levrier.cluster.simulate.chores import CHORES_SECONDS_MAX, Chores
from levrier.cluster.simulate.client import ScriptedClient
from levrier.cluster.simulate.client_links import ClientLinks
from levrier.cluster.simulate.cluster import SimulatedCluster, cluster_config
from levrier.cluster.simulate.disks import check_bounded, disk_use, has_faulty_disk, is_slow
from levrier.cluster.simulate.faults import Fault, FaultPlan, draw_plan
from levrier.cluster.simulate.judges import Judges
from levrier.cluster.simulate.links import FaultyLinks
from levrier.cluster.simulate.message_side import MessageSide
from levrier.cluster.simulate.nemesis import Nemesis
from levrier.cluster.simulate.outsiders import Core, draw_core
from levrier.cluster.simulate.plugins import draw_plugins, sweeps
from levrier.cluster.simulate.watch import Counts, Trace, Watch
from levrier.cluster.simulate.workload import Workload

EVIDENCE_EVERY_NANOS: Final = 3_000_000_000
"""Virtual time between two looks at the disks."""

ANSWERS_EVERY_NANOS: Final = 100_000_000
"""Virtual time between two looks at the requests that wait for their answer."""

PATIENT_ODDS: Final = 0.25
"""How many of the clients wait for an answer for as long as it may take."""

FAULTS_SECONDS_MIN: Final = 10
OPERATIONS_PER_SECOND: Final = 20
"""The faults end after the time that so many operations in a second take, and a little more, even if less was answered."""

PROGRESS_SECONDS_MAX: Final = 180
"""Virtual time within which a healed cluster must have answered everything and be of one mind, and as much as the faults had in
addition for each operation that is left.
"""

EXTRA_OPERATIONS: Final = 3
"""What each client asks for once the cluster is healed, beside what is left of what was wanted."""

PACES_MS: Final = (10, 40, 150)
"""About how long clients think between two requests; a seed has one of these."""

SILENCE_MS: Final = 20_000
"""The longest that a client is silent, so that it loses its place in a group."""

TOKEN_LIFE_US: Final = 3_000_000
"""About how long an access token lives that expires."""

LONG_TICK_MILLISECONDS: Final = 100
"""The tick of members in a story of hours: all of their timers are ten times as long."""

LONG_PACE_MS: Final = 12_000
LONG_RARITY: Final = 60
"""How much less often faults strike in a story of hours."""

CAMPAIGN_SECONDS: Final = 3_000
"""Virtual time of faults in a story of hours, before everything is good for a while and other faults are drawn."""

ENDLESS: Final = 1_000_000_000

_NANOS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to simulate."""

    replicas: int = 3
    operations: int = 300
    faults: tuple[Fault, ...] = tuple(Fault)
    hours: float = 0.0
    """Virtual hours of a slow story with pauses between its faults; then `operations` do not count. 0: a short story."""

    @property
    def is_long(self) -> bool:
        """Whether the story is told by the hour."""
        return self.hours > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a seed. `rule` is None when everything held."""

    seed: int
    rule: str | None
    text: str
    faults: tuple[Fault, ...]
    operations: int
    counts: Counts
    steps: int
    virtual_seconds: float
    digest: str
    events: tuple[str, ...] = ()


class Simulation:
    """One seed. `play` runs it once."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self.seed = seed
        self.settings = settings
        random = Random(f"story/{seed}")
        self._random = random
        self._core_random = Random(f"core/{seed}")
        self.plan = self._draw_plan()
        links = FaultyLinks(Random(f"links/{seed}"), self.plan, self._on_sent)
        config = replace(
            _draw_config(random, settings.replicas),
            retain_history=settings.is_long or Random(f"history/{seed}").random() < 0.5,
            plugins=draw_plugins(Random(f"plugins/{seed}"), everything=settings.is_long),
        )
        tick = LONG_TICK_MILLISECONDS if settings.is_long else TICK_MILLISECONDS
        self.cluster = SimulatedCluster(seed, config, policy=links, tick_milliseconds=tick)
        self.world = self.cluster.world
        self.trace = Trace(self.world)
        self.judges = Judges(self.cluster.config, tick_milliseconds=tick)
        self._tidy_at = self._answers_at = 0
        self.watch = Watch(
            self.world,
            self.judges.commits,
            self.trace,
            check=self.judges.invariants.moved,
            encoded=self.judges.states.encoded,
            reclaims=lambda replica, frontier: self.judges.reclaims(
                replica, frontier, self.cluster, impaired=self.nemesis.impaired
            ),
        )
        self.nemesis = Nemesis(
            random=Random(f"nemesis/{seed}"),
            plan=self.plan,
            cluster=self.cluster,
            links=links,
            watch=self.watch,
            trace=self.trace,
            wiped=self.judges.wiped,
            stretch=self.cluster.stretch,
        )
        self.client_links = ClientLinks(
            random=Random(f"client-links/{seed}"),
            cluster=self.cluster,
            answers=self.judges.answers,
            tell=self.trace.tell,
            rarity=LONG_RARITY if settings.is_long else 1,
        )
        pace = LONG_PACE_MS if settings.is_long else random.choice(PACES_MS)
        self.workload = Workload(
            remaining=0, steady=settings.is_long, token_life_us=TOKEN_LIFE_US * self.cluster.stretch
        )
        self.clients = self._make_clients(pace)
        self.chores = Chores(self.cluster, self.judges.commits)
        self.messages = MessageSide(
            random=Random(f"messages/{seed}"),
            cluster=self.cluster,
            watch=self.watch,
            commits=self.judges.commits,
            clients=self.clients,
            mean_ms=pace * 4,
        )

    def _make_clients(self, pace_ms: int) -> list[ScriptedClient]:
        silence = SILENCE_MS * self.cluster.stretch if sweeps(self.cluster.config.plugins) else 0
        patience = self.judges.answers.bound_ms + 2 * ANSWERS_EVERY_NANOS // 1_000_000
        return [
            ScriptedClient(
                number=number,
                cluster=self.cluster,
                links=self.client_links,
                random=Random(f"client/{self.seed}/{number}"),
                workload=self.workload,
                history=self.judges.history,
                pace_ms=pace_ms,
                silence_ms=silence,
                patience_ms=patience if Random(f"patience/{self.seed}/{number}").random() < PATIENT_ODDS else 0,
                tell=self.trace.tell,
            )
            for number in range(1, self._random.randint(2, 6) + 1)
        ]

    def play(self) -> Verdict:
        """Run it to its end."""
        rule, text = None, ""
        try:
            self._play()
        except Violation as violation:
            rule, text = violation.rule, violation.text
            self.trace.tell("VIOLATION", f"{rule}: {text}")
        except AssertionError as error:
            rule, text = "the simulator's own assertion", f"{type(error).__name__}: {error}"
            self.trace.tell("VIOLATION", f"{rule}: {text}")
            logger.opt(exception=error).error("seed {}: {}", self.seed, text)
        self.watch.counts.sweeps = sum(client.sweeps for client in self.clients)
        self.watch.counts.completions = self.chores.housekeeping.completions
        return Verdict(
            seed=self.seed,
            rule=rule,
            text=text,
            faults=self.plan.chosen,
            operations=sum(client.answers for client in self.clients),
            counts=self.watch.counts,
            steps=self.world.steps,
            virtual_seconds=self.world.now_nanos / _NANOS,
            digest=self.world.trace_digest(),
            events=tuple(self.trace.events),
        )

    def _play(self) -> None:
        self.trace.tell("seed", f"{self.seed}: {', '.join(self.plan.chosen) or 'no faults'}")
        self.nemesis.begin()
        self.client_links.begin(self.plan)
        if self.settings.is_long:
            self._play_long()
        else:
            self._ask_for(self.settings.operations)
            seconds = FAULTS_SECONDS_MIN + self.settings.operations // OPERATIONS_PER_SECOND
            self._run(seconds, lambda: all(client.done for client in self.clients))
            self._heal()
        self._judge()

    def _play_long(self) -> None:
        """One campaign of faults after the other; after each the cluster is healed, and judged."""
        end = int(self.settings.hours * 3600 * _NANOS)
        while True:
            left = (end - self.world.now_nanos) // _NANOS
            self._ask_for(ENDLESS)
            self._run(min(CAMPAIGN_SECONDS, max(1, left)), lambda: False)
            self.workload.remaining = 0
            self._heal()
            if self.world.now_nanos >= end:
                return
            self._check_evidence(is_settled=True)
            plan = self._draw_plan()
            self.trace.tell("seed", f"goes on with {', '.join(plan.chosen) or 'no faults'}")
            self.nemesis.go_on(plan)
            self.client_links.begin(plan)

    def _ask_for(self, operations: int) -> None:
        """Have the clients do so much more."""
        self.workload.remaining += operations
        for client in self.clients:
            client.begin()
        self.messages.begin()

    def _draw_plan(self) -> FaultPlan:
        settings = self.settings
        rarity = LONG_RARITY if settings.is_long else 1
        return draw_plan(self._random, settings.faults, alone=settings.replicas == 1, rarity=rarity)

    def _heal(self) -> None:
        """A core is good again, and makes progress; then everything is. The clients get the rest and a little more, each time,
        and everybody agrees in the end.
        """
        self.trace.tell("seed", "the faults end")
        self.client_links.calm()
        for client in self.clients:
            client.lose_patience()
            if not self.settings.is_long:
                client.hurry()
        core = draw_core(
            self._core_random,
            self.cluster,
            whole=self.nemesis.whole(),
            down=self.nemesis.down,
            faults=self.settings.faults,
        )
        if core is not None:
            self._demand_of(core)
        self.nemesis.stop()
        self._ask_for(EXTRA_OPERATIONS * len(self.clients))
        self.messages.stop()
        seconds = self._patience()
        if not self._run(seconds, self._is_settled):
            raise Violation("progress", f"{seconds} s after the last fault: {self._unsettled()}")
        seconds = CHORES_SECONDS_MAX * self.cluster.stretch
        if not self._run(seconds, self._is_tidy):
            raise Violation(Rule.HOUSEKEEPING, f"{seconds} s later: {self._chores_left() or self._unsettled()}")

    def _demand_of(self, core: Core) -> None:
        """Everything is answered and a core agrees, whatever the others suffer."""
        self.watch.counts.cores += 1
        self.trace.tell("seed", f"demands progress of {core}")
        self.nemesis.leave(core)
        self._ask_for(EXTRA_OPERATIONS * len(self.clients))
        self.messages.stop()
        seconds = self._patience()
        if not self._run(seconds, partial(self._is_settled, core.members)):
            raise Violation(Rule.PROGRESS_OF_A_CORE, f"{core}, for {seconds} s: {self._unsettled()}")
        self.trace.tell("seed", "the core has made progress, the others come back")

    def _patience(self) -> int:
        """Virtual seconds in which everything that is left must be answered."""
        return (PROGRESS_SECONDS_MAX + max(0, self.workload.remaining) // OPERATIONS_PER_SECOND) * self.cluster.stretch

    def _is_tidy(self) -> bool:
        """Whether the plugins are done too; looked at once in a while."""
        if self.world.now_nanos < self._tidy_at or not self._is_settled():
            return False
        self._tidy_at = self.world.now_nanos + _NANOS // 2
        return all(client.is_resting for client in self.clients) and not self._chores_left()

    def _chores_left(self) -> str:
        leader = next((each for each, state in self.watch.states().items() if state.is_primary), None)
        return "nobody leads" if leader is None else self.chores.left(leader, self.clients)

    def _run(self, seconds: int, until: Callable[[], bool]) -> bool:
        """Go on until something holds. False when it does not within that much virtual time."""
        world, nemesis = self.world, self.nemesis
        deadline = world.now_nanos + seconds * _NANOS
        failures = len(world.failures)
        count = 0
        look_at = world.now_nanos
        while world.now_nanos < deadline:
            world.step_or_wait(deadline)
            if world.steps >= nemesis.stroke_at:
                nemesis.strike_between_steps()
            if len(world.failures) != failures:
                failures = len(world.failures)
                self._collect_failed()
            count += 1
            if not count & 15:
                nemesis.after_step()
                if world.now_nanos >= self._answers_at:
                    self._answers_at = world.now_nanos + ANSWERS_EVERY_NANOS
                    self.judges.answers.look(world.now_nanos, self._is_fit)
                if world.now_nanos >= look_at:
                    look_at = world.now_nanos + EVIDENCE_EVERY_NANOS * (LONG_RARITY if self.settings.is_long else 1)
                    self._check_evidence(is_settled=False)
                    self._check_disks()
                if until():
                    return True
        return until()

    def _is_fit(self, replica: int) -> bool:
        """Whether nothing keeps a member from answering now but the others."""
        storage = self.cluster.storages[replica]
        return (
            replica in self.cluster.booted
            and not self.cluster.node(replica).paused
            and self.nemesis.hung_until[replica] <= self.world.now_nanos
            and not has_faulty_disk(storage)
            and not is_slow(storage)
        )

    def _check_evidence(self, *, is_settled: bool) -> None:
        self.judges.check_evidence(
            self.cluster,
            impaired=self.nemesis.impaired,
            passed_over=self.watch.passed_over,
            is_settled=is_settled,
        )

    def _check_disks(self) -> None:
        """How full they are; bounded, where the clients delete as much as they make."""
        counts, largest = self.watch.counts, self.judges.commits.largest
        for replica, storage in enumerate(self.cluster.storages):
            use = disk_use(storage.sizes())
            counts.archive_bytes_max = max(counts.archive_bytes_max, use.archive)
            counts.disk_bytes_max = max(counts.disk_bytes_max, use.total)
            if self.settings.is_long:
                check_bounded(replica, use, slots=self.cluster.config.journal_slots, largest=largest)

    def _on_sent(self, source: int, frame: bytes) -> None:
        sender = self.watch.live(source)
        if sender is not None:
            self.judges.invariants.sent(sender, frame)

    def _collect_failed(self) -> None:
        for replica in sorted(self.cluster.booted):
            failure = self.cluster.node(replica).failure
            if failure is not None:
                self.nemesis.failed(replica, failure)

    def _is_settled(self, members: Collection[int] | None = None) -> bool:
        """Whether everything is answered, and these members, or all, are well and of one mind."""
        if not all(client.done for client in self.clients):
            return False
        states = self.watch.states()
        wanted = range(self.cluster.count) if members is None else members
        if not all(replica in states and replica in self.cluster.booted for replica in wanted):
            return False
        first = states[next(iter(wanted))]
        return all(_is_well(states[replica]) and states[replica].commit_min == first.sequencer for replica in wanted)

    def _unsettled(self) -> str:
        waiting = [f"{client.name} ({client.doing.value})" for client in self.clients if not client.done]
        down = [f"node-{replica} is down" for replica in sorted(self.nemesis.down)]
        members = [
            f"node-{replica} {state.status.name.lower()} view {state.view} op {state.sequencer} commit "
            f"{state.commit_max} applied {state.commit_min}{'' if state.voter else ' learner'}"
            f"{'' if state.born else ' unborn'} transfer {state.transfer_stage.name.lower()}"
            for replica, state in sorted(self.watch.states().items())
        ]
        return "; ".join([f"unanswered: {', '.join(waiting) or 'nobody'}", *down, *members])

    def _judge(self) -> None:
        """Everybody holds the same bytes, and they are what was acknowledged."""
        self._check_evidence(is_settled=True)
        self.judges.finish(self.watch.ends())
        actor = self.cluster.node(0).actor("metadata")
        assert isinstance(actor, MetadataActor)
        names = {stream.name for stream in actor.machine.streams.all()}
        for client in self.clients:
            for name in client.wishes.own:
                if name not in names:
                    raise Violation("nothing acknowledged is lost", f"stream {name} of {client.name} is gone")


def _is_well(state: ReplicaState) -> bool:
    return state.born and state.voter and state.status is Status.NORMAL and not state.is_transferring


def _draw_config(random: Random, replicas: int) -> NodeConfig:
    """Timings, depths and sizes differ from seed to seed; all members of a cluster have the same."""
    config = cluster_config(replicas, name="simulated")
    return replace(
        config,
        prepare_queue_depth=random.choice((1, 4, 32, 64)),
        journal_slots=random.choice((256, 256, 512)),
        heartbeat_ticks=random.choice((200, 200, 500)),
        view_change_ticks=random.choice((50, 100, 500)),
        repair_retry_ticks=random.choice((20, 100)),
    )


def play(seed: int, settings: Settings) -> Verdict:
    """Run one seed."""
    return Simulation(seed, settings).play()
