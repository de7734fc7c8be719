"""Several cores on a tiny network: everything around them is simulated here, deterministic and from one seed.

A node has a journal that answers late, in batches, and loses at a crash what it had not written; a superblock; a state
machine that applies late; a client table that knows what is applied. The network loses, repeats, delays and cuts. Every
frame that leaves is audited against the disk of its sender, every applied op against what any node applied before.
"""

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from levrier.actors.bus.link_frames import CONTROL_HEADERS
from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import ClientRequest
from levrier.actors.consensus import effects as fx
from levrier.actors.consensus.messages import InstallReady, LogPosition, Outcome, Verdict
from levrier.actors.consensus.replica import Replica
from levrier.actors.consensus.state import RecoveredState, ReplicaConfig, ReplicaState, Status
from levrier.actors.state_transfer import messages as st
from levrier.persistence.snapshot import Snapshot, SnapshotFields
from levrier.wire.framing import COMMAND_OFFSET, HEADER_SIZE
from levrier.wire.headers import RequestHeader
from levrier.wire.prepare import METADATA_GROUP, Prepare
from levrier.wire.replica_headers import PrepareOkHeader

GATED = {7, 9, 10, 11, 12}
"""PrepareOk, Commit, StartViewChange, DoViewChange, StartView: nothing of it may carry a view that is not durable."""

UPDATE_STREAM = 131


@dataclass(slots=True, kw_only=True)
class Faults:
    """How unkind the surroundings are, as probabilities."""

    loss: float = 0.0
    repeat: float = 0.0
    delay_max: int = 1
    disk_delay_max: int = 0
    append_failure: float = 0.0
    persist_failure: float = 0.0


@dataclass(slots=True, kw_only=True)
class Disk:
    """What survives a crash."""

    log: dict[int, Prepare] = field(default_factory=dict)
    view: int = 0
    log_view: int = 0
    commit: int = 0
    snapshot_op: int = 0
    snapshot: tuple[Prepare, ...] = ()
    is_voter: bool = True


class Node:
    """One core and what lies around it."""

    def __init__(self, cluster: "Cluster", index: int) -> None:
        self.cluster = cluster
        self.index = index
        self.disk = Disk()
        self.boots = 0
        self.is_up = False
        self.is_hung = False
        self.superblock_fails = False
        self.persist_failures = self.persist_attempts = 0
        self.frontier: tuple[int, int, int] = (0, 0, 0)
        self.boot()

    def boot(self) -> None:
        """Start from the disk."""
        disk = self.disk
        self.boots += 1
        self.is_up = True
        self.journal: deque[tuple[int, Any]] = deque()
        self.superblock: deque[tuple[int, fx.PersistView]] = deque()
        self.stream: deque[tuple[int, Any]] = deque()
        self.later: list[tuple[int, Any]] = []
        self.refused_from: int | None = None
        chain: list[Prepare] = []
        op = max(disk.snapshot_op, 1)
        while op in disk.log:
            chain.append(disk.log[op])
            op += 1
        above = [each for each in disk.log.values() if each.header.op > op]
        headers = tuple(each.header for each in [*chain, *sorted(above, key=lambda each: each.header.op)])
        contiguous = chain[-1].header.op if chain else disk.snapshot_op
        commit = max([disk.snapshot_op, *(each.header.commit for each in chain)])
        commit = min(commit, contiguous)
        self.applied = [*disk.snapshot, *(each for each in chain if disk.snapshot_op < each.header.op <= commit)]
        assert len(self.applied) == commit
        self.cluster.check_applied(self)
        self.clients = {each.header.client: each.header.op for each in self.applied}
        self.table_frontier = commit
        self.replica = Replica(
            config=ReplicaConfig(
                cluster=77,
                replica=self.index,
                replica_count=self.cluster.count,
                group=METADATA_GROUP,
                prepare_queue_depth=self.cluster.depth,
                journal_slots=self.cluster.slots,
                checkpoint_log_growth_min=1 << 40,
                incarnation=(self.boots << 40) + self.index + 1,
                probe_attempts_max=self.cluster.probe_attempts,
                heartbeat_ticks=self.cluster.heartbeat_ticks,
                view_change_ticks=self.cluster.heartbeat_ticks,
                superblock_failures_max=0,
            ),
            recovered=RecoveredState(
                view=disk.view,
                log_view=disk.log_view,
                commit=commit,
                headers=headers,
                snapshot_op=disk.snapshot_op,
                timestamp_floor=self.applied[-1].header.timestamp if self.applied else 0,
                commit_known=disk.commit,
                voter=disk.is_voter,
            ),
            now_micros=lambda: self.cluster.now * 10_000 + self.index,
        )

        assert self.state.view == disk.view
        self.frontier = (disk.view, commit, commit)

    @property
    def state(self) -> ReplicaState:
        """What its core knows."""
        return self.replica.state

    @property
    def leads(self) -> bool:
        """Whether it would admit a request now."""
        return self.is_up and self.state.is_acting_primary and self.state.is_past_barrier

    def crash(self) -> None:
        """Lose everything but the disk."""
        self.is_up = False
        self.cluster.forget_tickets(self.index)

    def take(self, decided: list[fx.Effect]) -> None:
        """Carry out what the core wants."""
        for effect in decided:
            if self.is_up:
                self._take(effect)

    def _take(self, effect: fx.Effect) -> None:
        cluster = self.cluster
        due = cluster.now + cluster.random.randint(0, cluster.faults.disk_delay_max)
        match effect:
            case fx.Append() | fx.Truncate() | fx.Read():
                self.journal.append((due, effect))
            case fx.PersistView():
                self.superblock.append((due, effect))
            case fx.Apply() | fx.Capture() | fx.Install():
                self.stream.append((cluster.now, effect))
            case fx.Send():
                self._audit(effect.frame)
                cluster.send(self.index, effect.replica, effect.frame)
            case fx.Broadcast():
                self._audit(effect.frame)
                cluster.broadcast(self.index, effect.frame)
            case fx.Recheck() | fx.Preflight():
                self.later.append((cluster.now, effect))
            case fx.Deny():
                cluster.answered(self.index, effect.ticket, effect.code)
            case fx.TellTransfer():
                self.later.append((cluster.now + 1, effect.message))
            case fx.Fatal():
                cluster.fatals += 1
                self.crash()
            case _:
                pass

    def _audit(self, frame: bytes) -> None:
        """I6 and D-11: what leaves is true on the disk."""
        command = frame[COMMAND_OFFSET]
        disk = self.disk
        if command == 6:
            header = Prepare.decode(frame).header
            held = disk.log.get(header.op)
            assert held is not None, f"op {header.op} was forwarded before it was durable"
            assert held.header.checksum == header.checksum
            assert header.view <= disk.view, "a prepare left before its view was durable"
            return
        if command in GATED:
            decoded = CONTROL_HEADERS[command].decode(frame)
            assert (decoded.view, self.state.log_view) <= (disk.view, self.state.log_view)
            assert decoded.view == disk.view
            if isinstance(decoded, PrepareOkHeader):
                held = disk.log.get(decoded.op) or self.applied_at(decoded.op)
                assert held is not None, "acknowledged before it was durable"
                assert held.header.checksum == decoded.prepare_checksum, "acknowledged another entry"
                assert disk.log_view == decoded.view, "acknowledged in a view that is not durable"
                assert disk.is_voter

    def applied_at(self, op: int) -> Prepare | None:
        """The entry that is in the snapshot."""
        return self.disk.snapshot[op - 1] if 0 < op <= self.disk.snapshot_op else None

    def submit(self, ticket: Ticket, client: int) -> None:
        """A client asks; the table looks first."""
        if client in self.clients:
            self.cluster.answered(self.index, ticket, 0)
            return
        request = ClientRequest(
            ticket=ticket,
            header=RequestHeader(client=client, request=1, operation=UPDATE_STREAM, session=5),
            body=b"b" * (client % 7),
        )
        self.take(self.replica.on_verdict(Verdict(token=0, request=request, outcome=Outcome.NEW, user_id=7)))

    def tick(self) -> None:
        """Ten milliseconds pass."""
        self.take(self.replica.on_tick())
        state = self.state
        assert state.view >= self.frontier[0], "the view went back"
        assert state.commit_min >= self.frontier[1], "what is applied went back"
        assert state.commit_max >= self.frontier[2], "the commit point went back"
        self.frontier = (state.view, state.commit_min, state.commit_max)

    def work(self) -> None:
        """Let disk, state machine and table do what is due."""
        now = self.cluster.now
        if not self.is_hung:
            while self.is_up and self.journal and self.journal[0][0] <= now:
                self._journal_works()
            if self.is_up and self.superblock and self.superblock[0][0] <= now:
                self._superblock_works()
        while self.is_up and self.stream and self.stream[0][0] <= now:
            self._stream_works(self.stream.popleft()[1])
        due = [each for when, each in self.later if when <= now]
        self.later = [each for each in self.later if each[0] > now]
        for each in due:
            if self.is_up:
                self._later_works(each)

    def _superblock_works(self) -> None:
        _, asked = self.superblock.popleft()
        disk = self.disk
        if self.superblock_fails or self.cluster.random.random() < self.cluster.faults.persist_failure:
            self.persist_attempts += 1
            self.persist_failures += 1
            self.take(self.replica.on_view_persist_failed(self.persist_failures, "io"))
            return
        self.persist_failures = 0
        assert asked.view >= disk.view
        assert asked.log_view >= disk.log_view
        disk.view, disk.log_view = asked.view, asked.log_view
        disk.commit = max(disk.commit, asked.commit_max)
        self.take(self.replica.on_view_persisted(asked.view, asked.log_view))

    def _journal_works(self) -> None:
        _, asked = self.journal.popleft()
        disk = self.disk
        if isinstance(asked, fx.Truncate):
            for op in [op for op in disk.log if op >= asked.from_op]:
                del disk.log[op]
            self.refused_from = None
            self.take(self.replica.on_truncated(asked.from_op))
            return
        if isinstance(asked, fx.Read):
            found = []
            op = asked.from_op
            while op <= asked.to_op and op in disk.log:
                found.append(disk.log[op])
                op += 1
            self.take(self.replica.on_entries(tuple(found)))
            return
        batch = [asked]
        while self.journal and isinstance(self.journal[0][1], fx.Append) and self.cluster.random.random() < 0.7:
            batch.append(self.journal.popleft()[1])
        positions = [
            LogPosition(op=each.prepare.header.op, checksum=each.prepare.header.checksum, view=each.view)
            for each in batch
        ]
        if self.refused_from is not None or self.cluster.random.random() < self.cluster.faults.append_failure:
            self.refused_from = self.refused_from or positions[0].op
            self.take(self.replica.on_append_failed(positions, "no space left"))
            return
        for each in batch:
            assert each.prepare.header.op not in disk.log, "an op was appended over another"
            disk.log[each.prepare.header.op] = each.prepare
        self.take(self.replica.on_appended(positions))

    def _stream_works(self, told: Any) -> None:
        if isinstance(told, fx.Capture):
            assert told.op == len(self.applied)
            self.later.append((self.cluster.now + 3, (told.op, tuple(self.applied))))
            return
        if isinstance(told, fx.Install):
            if told.is_ahead:
                self.applied = list(told.snapshot.users)  # type: ignore[call-overload]
                self.cluster.check_applied(self)
            self.clients = {each.header.client: each.header.op for each in self.applied}
            self.take(self.replica.on_installed(told.attempt, len(self.applied)))
            return
        header = told.prepare.header
        assert header.op == len(self.applied) + 1, "the commit stream has a gap"
        assert self.disk.log[header.op].header.checksum == header.checksum, "applied before it was durable"
        self.applied.append(told.prepare)
        self.cluster.check_op(header.op, told.prepare)
        assert header.client not in self.clients, "executed twice"
        self.clients[header.client] = header.op
        if told.reply_to is not None:
            self.cluster.answered(self.index, told.reply_to, 0)
        self.take(self.replica.on_applied(header.op))

    def _later_works(self, told: Any) -> None:
        cluster = self.cluster
        match told:
            case fx.Recheck():
                outcome = Outcome.NEW
                client = told.request.header.client
                if client in self.clients:
                    outcome = Outcome.REPLAYED
                    if told.request.ticket is not None:
                        cluster.answered(self.index, told.request.ticket, 0)
                verdict = Verdict(token=told.token, request=told.request, outcome=outcome, user_id=7)
                self.take(self.replica.on_verdict(verdict))
            case st.FetchRequired():
                cluster.fetch(self, told)
            case st.PlaceSnapshot():
                self.disk.snapshot_op = len(self.received)
                self.disk.snapshot = self.received
                self.take(self.replica.on_snapshot_placed(told.attempt))
            case st.InstallFinished():
                self._drain()
            case (int(op), tuple(applied)):
                if op > self.disk.snapshot_op:
                    self.disk.snapshot_op, self.disk.snapshot = op, applied
                    self._drain()
                self.take(self.replica.on_checkpoint_done(op=op, snapshot_size=1, log_size=1))
            case _:
                pass

    received: tuple[Prepare, ...] = ()

    def _drain(self) -> None:
        for op in [op for op in self.disk.log if op < self.disk.snapshot_op]:
            del self.disk.log[op]

    def receive(self, frame: bytes, sender: int) -> None:
        """A frame arrives, as the Bus would hand it over."""
        command = frame[COMMAND_OFFSET]
        if command == 6:
            self.take(self.replica.on_prepare(Prepare.decode(frame), sender))
        elif command == 19:
            self.take(self.replica.on_repair_prepare(Prepare.decode(frame)))
        else:
            header, body = CONTROL_HEADERS[command].decode_frame(frame)
            assert header.replica == sender
            self.take(self.replica.on_frame(header, body))


class Cluster:
    """The nodes, the network between them, and what must hold of all of them together."""

    def __init__(
        self,
        count: int,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        depth: int = 8,
        slots: int = 64,
        heartbeat_ticks: int = 120,
        probe_attempts: int = 2,
    ) -> None:
        self.count = count
        self.random = random.Random(seed)
        self.faults = faults or Faults()
        self.depth, self.slots = depth, slots
        self.heartbeat_ticks, self.probe_attempts = heartbeat_ticks, probe_attempts
        self.now = 0
        self.fatals = 0
        self.committed: dict[int, int] = {}
        self.flying: list[tuple[int, int, int, int, bytes]] = []
        self.sent = 0
        self.cut: set[tuple[int, int]] = set()
        self.dropped_commands: set[int] = set()
        self.seen: list[tuple[int, int, int]] = []
        """(sender, receiver, command) of every frame that left."""
        self.open: dict[Ticket, tuple[int, int]] = {}
        self.answers: dict[int, list[int]] = {}
        """Client to the codes that it got, 0 for a reply, -1 for a node that crashed."""
        self.next_number = 1
        self.nodes: list[Node] = []
        for index in range(count):
            self.nodes.append(Node(self, index))

    # Clients.

    def submit(self, node: int, client: int) -> None:
        """A client sends its one request to a node."""
        ticket = Ticket(connection=client, number=self.next_number)
        self.next_number += 1
        self.open[ticket] = (node, client)
        self.nodes[node].submit(ticket, client)

    def answered(self, node: int, ticket: Ticket, code: int) -> None:
        """A node answers: exactly once."""
        at, client = self.open.pop(ticket)
        assert at == node
        self.answers.setdefault(client, []).append(code)

    def forget_tickets(self, node: int) -> None:
        """The connections of a crashed node are gone."""
        for ticket in [ticket for ticket, (at, _) in self.open.items() if at == node]:
            _, client = self.open.pop(ticket)
            self.answers.setdefault(client, []).append(-1)

    def is_acknowledged(self, client: int) -> bool:
        """Whether the client got its reply."""
        return 0 in self.answers.get(client, ())

    # What must hold.

    def check_op(self, op: int, prepare: Prepare) -> None:
        """Nobody applies something else at an op."""
        checksum = prepare.header.checksum
        assert self.committed.setdefault(op, checksum) == checksum, f"op {op} was applied as two things"

    def check_applied(self, node: Node) -> None:
        """A whole history agrees."""
        for op, prepare in enumerate(node.applied, start=1):
            assert prepare.header.op == op
            self.check_op(op, prepare)

    def check_promises(self) -> None:
        """Everything that was acknowledged is in the history that any node applied; what only got 58 is not."""
        clients: dict[int, int] = {}
        for node in self.nodes:
            for prepare in node.applied:
                clients[prepare.header.client] = prepare.header.op
        for client, codes in self.answers.items():
            if 0 in codes:
                assert client in clients, f"what client {client} was told is done is gone"
            if set(codes) == {58}:
                assert client not in clients, f"what client {client} was told never started is done"

    # Network.

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        """A frame leaves."""
        assert 0 <= receiver < self.count
        self.seen.append((sender, receiver, frame[COMMAND_OFFSET]))
        if (sender, receiver) in self.cut or frame[COMMAND_OFFSET] in self.dropped_commands:
            return
        for _ in range(2 if self.random.random() < self.faults.repeat else 1):
            if self.random.random() < self.faults.loss:
                continue
            self.sent += 1
            delay = 1 + (self.random.randrange(self.faults.delay_max) if self.faults.delay_max > 1 else 0)
            if self.faults.delay_max > 1 and self.random.random() < 0.01:
                delay += self.random.randrange(300)
            self.flying.append((self.now + delay, self.sent, sender, receiver, frame))

    def broadcast(self, sender: int, frame: bytes) -> None:
        """A frame leaves for everybody."""
        for peer in range(self.count):
            if peer != sender:
                self.send(sender, peer, frame)

    def isolate(self, *nodes: int) -> None:
        """Cut these off from the others."""
        inside = set(nodes)
        self.cut = {
            (a, b) for a in range(self.count) for b in range(self.count) if a != b and (a in inside) != (b in inside)
        }

    def heal(self) -> None:
        """Let everything through again, and everybody run."""
        self.cut.clear()
        self.dropped_commands.clear()
        self.faults = Faults()
        for node in self.nodes:
            node.is_hung = node.superblock_fails = False
            if not node.is_up:
                node.boot()

    # Time.

    def step(self) -> None:
        """One tick for everybody."""
        self.now += 1
        due = [each for each in self.flying if each[0] <= self.now]
        if due:
            self.flying = [each for each in self.flying if each[0] > self.now]
            due.sort(key=lambda each: (each[0], each[1]))
            for _, _, sender, receiver, frame in due:
                if self.nodes[receiver].is_up and (sender, receiver) not in self.cut:
                    self.nodes[receiver].receive(frame, sender)
        for node in self.nodes:
            if node.is_up:
                node.work()
            if node.is_up:
                node.tick()

    def run(self, ticks: int) -> None:
        """Let time pass."""
        for _ in range(ticks):
            self.step()

    def run_until_led(self, ticks: int = 3000) -> Node:
        """Let time pass until somebody leads."""
        for _ in range(ticks):
            leaders = [node for node in self.nodes if node.leads]
            if leaders:
                return max(leaders, key=lambda node: node.state.view)
            self.step()
        raise AssertionError(f"nobody leads: {[self.describe(node) for node in self.nodes]}")

    def describe(self, node: Node) -> str:
        """For a failed test."""
        state = node.state
        return (
            f"R{node.index}{'' if node.is_up else ' down'} {Status(state.status).name} view {state.view}/{state.log_view} "
            f"op {state.sequencer} log {state.mirror.last_op} commit {state.commit_min}/{state.commit_max} "
            f"stage {state.transfer_stage.name} repair {state.repair} unverified {sorted(state.unverified)[:5]} "
            f"pending {state.pending is not None} truncation {state.truncation} disk {node.disk.view}/{node.disk.log_view}"
        )

    def write(self, client: int, ticks: int = 3000) -> None:
        """Have one client's request acknowledged, whoever leads."""
        for _ in range(ticks):
            if self.is_acknowledged(client):
                return
            if not any(each == client for _, each in self.open.values()):
                leader = self.run_until_led(ticks)
                self.submit(leader.index, client)
            self.step()
        raise AssertionError(f"client {client} gets no reply: {[self.describe(node) for node in self.nodes]}")

    # State transfer, as StateTransfer would do it.

    def fetch(self, node: Node, asked: st.FetchRequired) -> None:
        """Fetch at once, or fail."""
        peer = self.nodes[asked.peer]
        if not peer.is_up or (peer.index, node.index) in self.cut or (node.index, peer.index) in self.cut:
            node.take(node.replica.on_transfer_failed(asked.attempt, "no answer"))
            return
        verdicts = [
            effect.message
            for effect in peer.replica.on_offer_wanted(asked.attempt)
            if isinstance(effect, fx.TellTransfer) and isinstance(effect.message, st.OfferVerdict)
        ]
        if not verdicts or not verdicts[0].granted or verdicts[0].snapshot_op != peer.disk.snapshot_op:
            node.take(node.replica.on_transfer_failed(asked.attempt, "nothing to offer"))
            return
        offer = verdicts[0]
        node.received = peer.disk.snapshot
        node.take(node.replica.on_transfer_accepted(asked.attempt))
        fields = SnapshotFields(sequence=offer.snapshot_op, created_at=1, writer_release=0)
        snapshot = Snapshot(
            fields=fields, users=peer.disk.snapshot, streams=None, client_table=None, checksum=1, size=1
        )
        ready = InstallReady(
            attempt=asked.attempt,
            snapshot=snapshot,
            snapshot_size=1,
            table_frontier=offer.snapshot_op,
            commit_op=offer.commit_op,
            commit_max=offer.commit_max,
        )
        node.take(node.replica.on_install_ready(ready))


assert HEADER_SIZE == 256
