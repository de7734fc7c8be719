"""The table against a reference that is written for nothing but being read: client-table 3 to 10 as lists and loops.

Hypothesis drives both with the same ops and compares everything that can be asked, including after checkpoints and
transfers. Ops rise, as in a log; request numbers and epochs are also stale, repeated and ahead.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from levrier.actors.client_table.capture import CapturedTable
from levrier.actors.client_table.entries import Entry, Fence, Reply
from levrier.actors.client_table.table import Answer, ClientTable, CommitResult, SessionEnd
from levrier.actors.client_table.transfer import decode, encode
from tests.actors.client_table.builders import ALICE, BOB, ROOT, reply, restored

CAPACITY = 3
CLIENTS = st.integers(1, 6)
USERS = st.sampled_from([ROOT, ALICE, BOB])
REQUESTS = st.integers(1, 9)
CHECKSUMS = st.sampled_from([0, 0xAA, 0xBB])

T = TypeVar("T")


@dataclass
class Session:
    """An entry of the reference."""

    client: int
    epoch: int
    user: int
    watermark: int = 0
    checksum: int = 0
    ring: list[Reply] = field(default_factory=list)


@dataclass
class Reference:
    """Slots and fences as plain lists; everything is found by looking at all of it."""

    slots: list[Session | None] = field(default_factory=lambda: [None] * CAPACITY)
    fences: list[Fence] = field(default_factory=list)

    def live(self) -> list[Session]:
        return [session for session in self.slots if session is not None]

    def find(self, client: int) -> Session | None:
        return first(self.live(), lambda session: session.client == client)

    def clear(self, session: Session) -> None:
        self.slots[self.slots.index(session)] = None

    def forget(self, client: int, user: int) -> Fence | None:
        found = first(self.fences, lambda fence: (fence.client, fence.user_id) == (client, user))
        self.fences = [fence for fence in self.fences if fence is not found]
        return found

    def remember(self, session: Session) -> None:
        self.forget(session.client, session.user)
        last = first(session.ring, lambda old: old.request == session.watermark and old.request > 0)
        self.fences.append(
            Fence(session.client, session.user, session.epoch, session.watermark, session.checksum, last)
        )
        self.fences = self.fences[-len(self.slots) :]

    def register(self, client: int, user: int, made: Reply) -> None:
        session = self.find(client)
        if session is not None:
            session.epoch, session.user = made.commit, user
            session.ring = [old for old in session.ring if old.request != 0]
        else:
            fence = self.forget(client, user)
            if None not in self.slots:
                victim = min(self.live(), key=lambda old: (old.ring[-1].commit, self.slots.index(old)))
                slot = self.slots.index(victim)
                self.remember(victim)
            else:
                slot = self.slots.index(None)
            session = Session(client, made.commit, user)
            self.slots[slot] = session
            if fence is not None:
                session.watermark, session.checksum = fence.watermark, fence.watermark_checksum
                session.ring = [fence.reply] if fence.reply is not None else []
        session.ring = [*session.ring, made][-5:]

    def commit(self, client: int, user: int, made: Reply) -> CommitResult:
        session = self.find(client)
        if session is None:
            return self.commit_to_fence(client, user, made)
        if made.commit < session.ring[-1].commit or made.request < session.watermark:
            return CommitResult.SKIPPED_REGRESSION
        if any(old.request == made.request for old in session.ring):
            session.ring = [made if old.request == made.request else old for old in session.ring]
        else:
            session.ring = [*session.ring, made][-5:]
        session.watermark, session.checksum = made.request, made.request_checksum
        return CommitResult.CACHED

    def commit_to_fence(self, client: int, user: int, made: Reply) -> CommitResult:
        fence = first(self.fences, lambda fence: (fence.client, fence.user_id) == (client, user))
        if fence is None:
            return CommitResult.NO_ENTRY
        if made.request < fence.watermark:
            return CommitResult.SKIPPED_REGRESSION
        moved = Fence(client, user, fence.epoch, made.request, made.request_checksum, made)
        self.fences = [moved if old is fence else old for old in self.fences]
        return CommitResult.ADVANCED_FENCE

    def end(self, client: int, user: int, end: SessionEnd) -> None:
        session = self.find(client)
        if session is not None:
            self.clear(session)
        if end is SessionEnd.DISCONNECT_CLEANUP:
            if session is not None and session.watermark > 0:
                self.remember(session)
        elif (owner := user if session is None else session.user) != 0:
            self.forget(client, owner)

    def drop(self, user: int) -> None:
        for session in self.live():
            if session.user == user:
                self.clear(session)
        self.fences = [fence for fence in self.fences if fence.user_id != user]

    def answer(self, client: int, epoch: int, request: int, checksum: int) -> Answer:
        session = self.find(client)
        if session is None:
            fence = first(self.fences, lambda fence: (fence.client, fence.epoch) == (client, epoch))
            if fence is None or request > fence.watermark:
                return Answer.NO_SESSION
            ring = [] if fence.reply is None else [fence.reply]
            return judged(ring, fence.watermark, fence.watermark_checksum, request, checksum)
        if epoch != session.epoch:
            return Answer.FENCED if epoch < session.epoch else Answer.EPOCH_AHEAD
        if request > session.watermark:
            return Answer.NEW
        return judged(session.ring, session.watermark, session.checksum, request, checksum)

    def image(self) -> CapturedTable:
        """The same as the table's capture."""
        slots = (
            Entry(old.client, old.epoch, old.user, old.watermark, old.checksum, tuple(old.ring)) if old else None
            for old in self.slots
        )
        return CapturedTable(tuple(slots), tuple(self.fences))


def first(items: list[T], wanted: Callable[[T], bool]) -> T | None:
    return next((item for item in items if wanted(item)), None)


def judged(ring: list[Reply], watermark: int, stamp: int, request: int, checksum: int) -> Answer:
    stamps = [stamp] * (request == watermark) + [old.request_checksum for old in ring if old.request == request]
    if any(known and checksum and known != checksum for known in stamps):
        return Answer.CHECKSUM_MISMATCH
    return Answer.DUPLICATE if any(old.request == request for old in ring) else Answer.ALREADY_APPLIED


class TableAgainstReference(RuleBasedStateMachine):
    """One log, two tables."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ClientTable(CAPACITY)
        self.reference = Reference()
        self.op = 0

    def next_op(self) -> int:
        self.op += 1
        return self.op

    @rule(client=CLIENTS, user=USERS)
    def register(self, client: int, user: int) -> None:
        made = reply(client, 0, self.next_op())
        self.table.commit_register(client, user, made)
        self.reference.register(client, user, made)

    @rule(client=CLIENTS, user=USERS, request=REQUESTS, checksum=CHECKSUMS)
    def commit_anything(self, client: int, user: int, request: int, checksum: int) -> None:
        made = reply(client, request, self.next_op(), checksum=checksum)
        assert self.table.commit_reply(client, user, made).result is self.reference.commit(client, user, made)

    @precondition(lambda self: bool(self.reference.live()))
    @rule(data=st.data(), checksum=CHECKSUMS)
    def commit_the_next(self, data: st.DataObject, checksum: int) -> None:
        session = data.draw(st.sampled_from(self.reference.live()))
        made = reply(session.client, session.watermark + 1, self.next_op(), checksum=checksum)
        user = session.user
        assert self.table.commit_reply(session.client, user, made).result is CommitResult.CACHED
        self.reference.commit(session.client, user, made)

    @rule(client=CLIENTS, user=USERS, end=st.sampled_from(SessionEnd))
    def end(self, client: int, user: int, end: SessionEnd) -> None:
        lived = self.reference.find(client) is not None
        assert self.table.remove_client(client, user, end) is lived
        self.reference.end(client, user, end)

    @rule(user=st.sampled_from([ALICE, BOB]))
    def drop_user(self, user: int) -> None:
        clients = [session.client for session in self.reference.live() if session.user == user]
        assert self.table.drop_user(user) == tuple(clients)
        self.reference.drop(user)

    @rule(client=CLIENTS, back=st.integers(-1, 12), request=REQUESTS, checksum=CHECKSUMS)
    def ask(self, client: int, back: int, request: int, checksum: int) -> None:
        epochs = {max(self.op - back, 0), self.table.epoch_of(client) or 0}
        epochs |= {fence.epoch for fence in self.reference.fences if fence.client == client}
        for epoch in sorted(epochs):
            expected = self.reference.answer(client, epoch, request, checksum)
            assert self.table.check_request(client, epoch, request, checksum).answer is expected

    @rule()
    def checkpoint(self) -> None:
        self.table = restored(self.table, CAPACITY)
        for session in self.reference.live():
            newest = session.ring[-1]
            # Behind a login the answer to the watermark stays too: the client may not have seen it.
            answers = [reply for reply in session.ring[:-1] if reply.request == session.watermark and reply.request]
            session.ring = [*answers, newest] if newest.request != session.watermark else [newest]

    @rule()
    def transfer(self) -> None:
        data = encode(self.table.capture())
        self.table = decode(data, CAPACITY)
        assert encode(self.table.capture()) == data
        live = [replace(session) for session in self.reference.live()]
        self.reference.slots = [*live, *([None] * (CAPACITY - len(live)))]

    @invariant()
    def both_hold_the_same(self) -> None:
        self.table.verify()
        assert self.table.capture() == self.reference.image()


TestTableAgainstReference = TableAgainstReference.TestCase
TestTableAgainstReference.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
