"""Random interleavings of everything that can happen to one replica.

A fake journal answers batches late, in order, and fails some; a fake state machine applies late; a fake client table answers
second looks late; clients retransmit what is answered 57. Throughout, the invariants hold; at the end every request has
exactly one final answer, nothing was applied twice, and what was applied forms one gapless chain.
"""

from collections import deque

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.effects import (
    Append,
    Apply,
    Capture,
    Deny,
    Effect,
    Evict,
    Fatal,
    PersistView,
    Recheck,
    Truncate,
)
from levrier.actors.consensus.messages import Outcome, Verdict
from levrier.actors.consensus.replica import Replica
from levrier.wire.prepare import Prepare
from tests.actors.consensus.builders import SettableClock, config_of, position, replica_of, request_of, verdict_on

DEPTH, SLOTS = 3, 10


class OneReplica(RuleBasedStateMachine):
    """The replica and its fakes. `answers` counts what each ticket was told."""

    replica: Replica

    def __init__(self) -> None:
        super().__init__()
        self.clock = SettableClock()
        self.journal: deque[Append | Truncate] = deque()
        self.journal_refuses_from: int | None = None
        self.commits: deque[Apply | Capture] = deque()
        self.lookups: deque[Recheck] = deque()
        self.captures: deque[int] = deque()
        self.durable: dict[int, Prepare] = {}
        self.applied: list[Prepare] = []
        self.open: dict[Ticket, int] = {}
        self.unknown: dict[Ticket, int] = {}
        self.answered: set[Ticket] = set()
        self.next_client = 1

    @initialize(bootstrap=st.booleans())
    def begin(self, bootstrap: bool) -> None:
        self.replica = replica_of(
            config_of(depth=DEPTH, slots=SLOTS, bootstrap=b"root" if bootstrap else None), clock=self.clock
        )

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert not isinstance(effect, Fatal | PersistView), effect
            if isinstance(effect, Append | Truncate):
                assert not any(isinstance(told, Truncate) for told in self.journal), "told while a cut is outstanding"
                self.journal.append(effect)
            elif isinstance(effect, Apply | Capture):
                self.commits.append(effect)
            elif isinstance(effect, Recheck):
                self.lookups.append(effect)
            elif isinstance(effect, Deny):
                self.settle(effect.ticket, effect.code)
            elif isinstance(effect, Evict):
                self.settle(effect.ticket, None)

    def settle(self, ticket: Ticket, code: int | None) -> None:
        """One answer for one request; after a 57 the client may only send the same request again."""
        assert ticket not in self.answered, "answered twice"
        client = self.open.pop(ticket)
        self.answered.add(ticket)
        if code == 57:
            self.unknown[ticket] = client

    @rule(outcome=st.sampled_from([Outcome.NEW] * 6 + [Outcome.NO_SESSION, Outcome.ALREADY_APPLIED]))
    def a_request_comes(self, outcome: Outcome) -> None:
        client, self.next_client = self.next_client, self.next_client + 1
        request = request_of(client)
        assert request.ticket is not None
        self.open[request.ticket] = client
        self.take(self.replica.on_verdict(verdict_on(request, outcome)))

    @precondition(lambda self: self.unknown)
    @rule(data=st.data())
    def a_client_retransmits(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(sorted(self.unknown, key=lambda t: (t.connection, t.number))))
        client = self.unknown.pop(old)
        request = request_of(client, connection=old.connection + 100_000)
        assert request.ticket is not None
        was_applied = any(prepare.header.client == client for prepare in self.applied)
        self.open[request.ticket] = client
        outcome = Outcome.ALREADY_APPLIED if was_applied else Outcome.NEW
        self.take(self.replica.on_verdict(verdict_on(request, outcome)))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_client_sends_its_request_twice(self, data: st.DataObject) -> None:
        """Rule 3: while the first is open the second gets 57, whatever the table's view was."""
        ticket = data.draw(st.sampled_from(sorted(self.open, key=lambda t: (t.connection, t.number))))
        request = request_of(self.open[ticket], connection=ticket.connection + 10_000_000)
        assert request.ticket is not None
        if request.ticket in self.open or request.ticket in self.answered:
            return
        self.open[request.ticket] = self.open[ticket]
        self.take(self.replica.on_verdict(verdict_on(request)))
        assert request.ticket in self.unknown
        del self.unknown[request.ticket]

    @precondition(lambda self: self.journal)
    @rule(data=st.data(), fails=st.booleans())
    def the_journal_works(self, data: st.DataObject, fails: bool) -> None:
        if isinstance(self.journal[0], Truncate):
            cut = self.journal.popleft().from_op  # type: ignore[union-attr]
            if fails:
                self.take(self.replica.on_truncate_failed(cut, "no space left"))
                return
            self.durable = {op: prepare for op, prepare in self.durable.items() if op < cut}
            self.journal_refuses_from = None
            self.take(self.replica.on_truncated(cut))
            return
        size = data.draw(st.integers(1, DEPTH))
        batch: list[Prepare] = []
        while self.journal and len(batch) < size and isinstance(self.journal[0], Append):
            batch.append(self.journal.popleft().prepare)  # type: ignore[union-attr]
        positions = [position(prepare) for prepare in batch]
        if fails or self.journal_refuses_from is not None:
            self.journal_refuses_from = self.journal_refuses_from or batch[0].header.op
            self.take(self.replica.on_append_failed(positions, "no space left"))
            return
        for prepare in batch:
            assert prepare.header.op not in self.durable, "an op number was used again before the cut"
            self.durable[prepare.header.op] = prepare
        self.take(self.replica.on_appended(positions))

    @precondition(lambda self: self.commits)
    @rule()
    def the_state_machine_works(self) -> None:
        told = self.commits.popleft()
        if isinstance(told, Capture):
            assert told.op == len(self.applied)
            self.captures.append(told.op)
            return
        header = told.prepare.header
        assert self.durable[header.op] is told.prepare, "applied before it was durable"
        assert header.op == len(self.applied) + 1
        self.applied.append(told.prepare)
        if told.reply_to is not None:
            self.settle(told.reply_to, None)
        self.take(self.replica.on_applied(header.op))

    @precondition(lambda self: self.lookups)
    @rule()
    def the_table_looks_again(self) -> None:
        asked = self.lookups.popleft()
        self.take(
            self.replica.on_verdict(Verdict(token=asked.token, request=asked.request, outcome=Outcome.NEW, user_id=7))
        )

    @precondition(lambda self: self.captures)
    @rule(fails=st.booleans())
    def the_checkpoint_ends(self, fails: bool) -> None:
        op = self.captures.popleft()
        if fails:
            self.take(self.replica.on_checkpoint_failed(op=op, reason="no space left"))
        else:
            self.take(self.replica.on_checkpoint_done(op=op, snapshot_size=10, log_size=10))

    @rule(count=st.integers(1, 40))
    def time_passes(self, count: int) -> None:
        self.clock.now += 10_000 * count
        for _ in range(count):
            self.take(self.replica.on_tick())

    @invariant()
    def the_queues_are_sound(self) -> None:
        if hasattr(self, "replica"):
            self.replica.state.pipeline.verify()

    def teardown(self) -> None:
        """Let everything come to rest, and look at what the clients got."""
        if not hasattr(self, "replica"):
            return
        for _ in range(2000):
            while self.journal or self.commits or self.lookups or self.captures:
                self.settle_down()
            if not self.open:
                break
            self.take(self.replica.on_tick())
        assert not self.open, "somebody was never answered"
        clients = [prepare.header.client for prepare in self.applied if prepare.header.client]
        assert len(clients) == len(set(clients)), "executed twice"
        for before, after in zip(self.applied, self.applied[1:], strict=False):
            assert after.header.parent == before.header.checksum
            assert after.header.timestamp > before.header.timestamp

    def settle_down(self) -> None:
        """One step of every fake, without failures."""
        if self.journal:
            told = self.journal.popleft()
            if isinstance(told, Truncate):
                self.durable = {op: prepare for op, prepare in self.durable.items() if op < told.from_op}
                self.journal_refuses_from = None
                self.take(self.replica.on_truncated(told.from_op))
            elif self.journal_refuses_from is not None:
                self.take(self.replica.on_append_failed([position(told.prepare)], "refused"))
            else:
                self.durable[told.prepare.header.op] = told.prepare
                self.take(self.replica.on_appended([position(told.prepare)]))
        if self.commits:
            self.the_state_machine_works()
        if self.lookups:
            self.the_table_looks_again()
        if self.captures:
            op = self.captures.popleft()
            self.take(self.replica.on_checkpoint_done(op=op, snapshot_size=10, log_size=10))


OneReplica.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
TestOneReplica = OneReplica.TestCase
