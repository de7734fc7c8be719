"""How a cluster is born, and how a member with an empty disk joins a born one (birth specification, D-09). Pure.

What a member says of itself is always what its superblock durably says: a step of the birth is written first and told then.
Replica 0 leads the birth; a cluster is born once every member is PREPARED with one id and replica 0 has written BORN. From
then on a member that comes blank is a learner: it neither votes nor acknowledges until it holds the head that the primary of
the highest view named to it, among the views of so many voters that whatever it promised before its disk was lost is known
to one of them.

Deviation: Hello is repeated for ever, once a second, so nothing here depends on a frame that arrived.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from levrier.actors.birth.member_state import Answer, Ask, Hello, MemberPhase, MemberState
from levrier.actors.birth.messages import BirthPersisted, Standing

TICK_MILLISECONDS: Final = 50
HELLO_TICKS: Final = 20
ASK_TICKS: Final = 10
HOLD_TICKS: Final = 2
"""How often a learner looks whether it holds the head by now."""

ASKED_MAX: Final = 64
"""Questions of learners that wait for Consensus; more are asked again by the learner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Tell one member; `replica` None: every member that is connected."""

    replica: int | None
    body: MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Write this step to the superblock. At most one at a time."""

    birth_id: int
    phase: MemberPhase
    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Take part from now on: the birth is durable here."""

    birth_id: int
    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomeVoter:
    """The learner has learned, durably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """The peer is a member of this very cluster; said again when a learner has become a voter."""

    replica: int
    voter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The peer is none."""

    replica: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WantStanding:
    """Ask Consensus where it stands."""

    token: int
    op: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstaining:
    """These members are learners, as a bit set; told in a cluster of two only (B-014)."""

    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is waited for, in words; empty when nothing is."""

    text: str


BirthEffect: TypeAlias = Send | Persist | Begin | BecomeVoter | Admit | Refuse | WantStanding | Abstaining | Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the superblock of this member durably says."""

    phase: MemberPhase
    birth_id: int
    voter: bool


@dataclass(slots=True, kw_only=True, eq=False)
class _Peer:
    """Another member. `hello` is what it said last on the present link."""

    where: str
    is_up: bool = False
    hello: Hello | None = None
    is_admitted: bool = False
    is_voter: bool = False
    """What was said with its admission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target:
    """The head that a learner has to hold."""

    view: int
    op: int
    checksum: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Learning:
    """The asking of a learner that is under way."""

    nonce: int = 0
    answers: dict[int, Answer] = field(default_factory=dict)
    target: _Target | None = None
    asked_tick: int = -ASK_TICKS


def answers_needed(replica_count: int) -> int:
    """How many other voters have to answer a learner (B-013)."""
    return min(replica_count - 1, replica_count - (replica_count - 1) // 2)


class BirthCore:
    """One member. `addresses` are those of all members by id; `mint` gives a random number of 128 bits that is not 0."""

    def __init__(self, *, replica: int, addresses: Sequence[str], own: Own, mint: Callable[[], int]) -> None:
        self._replica = replica
        self._count = len(addresses)
        self._own = own
        self._mint = mint
        self._peers = {other: _Peer(where=where) for other, where in enumerate(addresses) if other != replica}
        self._writing: Persist | None = None
        self._learning = _Learning()
        self._tokens = 0
        self._asked: dict[int, tuple[int, int]] = {}
        self._own_token = 0
        self._ticks = 0
        self._waiting = ""
        self._abstaining = 0
        self._effects: list[BirthEffect] = []
        self._assert_invariants()

    @property
    def own(self) -> Own:
        """What this member durably is."""
        return self._own

    def on_start(self) -> list[BirthEffect]:
        """The node runs."""
        return self._done()

    def on_peer_up(self, replica: int) -> list[BirthEffect]:
        """There is a link to this member."""
        peer = self._peers[replica]
        peer.is_up, peer.hello, peer.is_admitted = True, None, False
        self._say_hello(replica)
        return self._done()

    def on_peer_down(self, replica: int) -> list[BirthEffect]:
        """There is none any more: what it said on it counts no longer."""
        peer = self._peers[replica]
        peer.is_up, peer.hello, peer.is_admitted = False, None, False
        return self._done()

    def on_member_state(self, sender: int, state: MemberState) -> list[BirthEffect]:
        """A member says something."""
        peer = self._peers[sender]
        match state:
            case Hello():
                self._on_hello(sender, peer, state)
            case Ask(nonce=nonce):
                self._on_ask(sender, peer, nonce)
            case Answer():
                self._on_answer(sender, peer, state)
        return self._done()

    def on_persisted(self, written: BirthPersisted) -> list[BirthEffect]:
        """A step of the birth is durable."""
        asked, self._writing = self._writing, None
        assert asked is not None
        assert written.birth_id == asked.birth_id
        before = self._own
        self._own = Own(
            phase=MemberPhase.BORN if written.is_born else MemberPhase.PREPARED,
            birth_id=written.birth_id,
            voter=written.voter,
        )
        if before.phase is not MemberPhase.BORN and written.is_born:
            self._effects.append(Begin(birth_id=written.birth_id, voter=written.voter))
            for sender, peer in self._peers.items():
                self._judge(sender, peer)
        elif written.voter and not before.voter:
            self._effects.append(BecomeVoter())
        self._say_hello(None)
        return self._done()

    def on_persist_failed(self) -> list[BirthEffect]:
        """It is not durable. The next tick asks again."""
        self._writing = None
        return self._done(advance=False)

    def on_standing(self, standing: Standing) -> list[BirthEffect]:
        """Consensus says where it stands."""
        asked = self._asked.pop(standing.token, None)
        if asked is not None:
            asker, nonce = asked
            if self._own.voter:
                answer = Answer(
                    nonce=nonce,
                    view=standing.view,
                    is_primary=standing.is_primary,
                    op=standing.op,
                    checksum=standing.checksum,
                )
                self._effects.append(Send(replica=asker, body=answer))
        elif standing.token == self._own_token:
            self._on_own_standing(standing)
        return self._done()

    def on_tick(self) -> list[BirthEffect]:
        """50 milliseconds have passed."""
        self._ticks += 1
        if self._ticks % HELLO_TICKS == 0 or self._own.phase is not MemberPhase.BORN:
            self._say_hello(None)
        else:
            for replica, peer in self._peers.items():
                if peer.is_up and peer.hello is None:
                    self._say_hello(replica)
        if self._is_learner:
            self._learn()
        return self._done()

    # What others say.

    def _on_hello(self, sender: int, peer: _Peer, hello: Hello) -> None:
        peer.is_up = True
        peer.hello = hello
        self._judge(sender, peer)
        if not hello.admits and peer.hello is not None:
            self._say_hello(sender)

    def _judge(self, sender: int, peer: _Peer) -> None:
        """Whether what the peer said makes it a member of this cluster."""
        hello, own = peer.hello, self._own
        if hello is None:
            return
        reason = self._mismatch(hello)
        if reason:
            peer.hello, peer.is_admitted, peer.is_up = None, False, False
            self._effects.append(Refuse(replica=sender, reason=f"replica {sender}: {reason}"))
        elif own.phase is hello.phase is MemberPhase.BORN and (not peer.is_admitted or peer.is_voter != hello.voter):
            peer.is_admitted, peer.is_voter = True, hello.voter
            self._effects.append(Admit(replica=sender, voter=hello.voter))

    def _mismatch(self, hello: Hello) -> str:
        own = self._own
        if hello.replica_count != self._count:
            return f"{hello.replica_count} members there, {self._count} here"
        if own.birth_id and hello.birth_id and own.birth_id != hello.birth_id:
            return f"birth id {hello.birth_id:032x} there, {own.birth_id:032x} here"
        return ""

    def _on_ask(self, sender: int, peer: _Peer, nonce: int) -> None:
        if not peer.is_admitted or not self._own.voter or self._own.phase is not MemberPhase.BORN:
            return
        if len(self._asked) < ASKED_MAX:
            self._tokens += 1
            self._asked[self._tokens] = (sender, nonce)
            self._effects.append(WantStanding(token=self._tokens))

    def _on_answer(self, sender: int, peer: _Peer, answer: Answer) -> None:
        learning = self._learning
        if not self._is_learner or not peer.is_admitted or answer.nonce != learning.nonce or learning.target:
            return
        learning.answers[sender] = answer
        if len(learning.answers) < answers_needed(self._count):
            return
        view = max(each.view for each in learning.answers.values())
        named = learning.answers.get(view % self._count)
        if named is not None and named.is_primary and named.view == view:
            learning.target = _Target(view=view, op=named.op, checksum=named.checksum)

    # The birth.

    def _advance(self) -> None:
        """Take the next step that what is known allows."""
        if self._writing is not None:
            return
        own = self._own
        born = next((hello for hello in self._hellos() if hello.phase is MemberPhase.BORN), None)
        if own.phase is MemberPhase.BORN:
            return
        if born is not None:
            self._persist(born.birth_id, MemberPhase.BORN, voter=own.phase is MemberPhase.PREPARED)
        elif self._replica == 0:
            self._lead()
        elif own.phase is MemberPhase.BLANK:
            first = self._peers[0].hello
            if first is not None and first.phase is MemberPhase.PREPARED:
                self._persist(first.birth_id, MemberPhase.PREPARED, voter=False)

    def _lead(self) -> None:
        """Replica 0: prepare once every member was heard; be born once every member is prepared."""
        hellos = self._hellos()
        if len(hellos) < self._count - 1:
            return
        own = self._own
        ids = {hello.birth_id for hello in hellos if hello.birth_id}
        if own.phase is MemberPhase.BLANK:
            if len(ids) <= 1:
                self._persist(min(ids) if ids else self._mint(), MemberPhase.PREPARED, voter=False)
        elif all(hello.birth_id == own.birth_id for hello in hellos):
            self._persist(own.birth_id, MemberPhase.BORN, voter=True)

    def _hellos(self) -> list[Hello]:
        return [peer.hello for peer in self._peers.values() if peer.hello is not None]

    def _persist(self, birth_id: int, phase: MemberPhase, *, voter: bool) -> None:
        assert self._writing is None
        self._writing = Persist(birth_id=birth_id, phase=phase, voter=voter)
        self._effects.append(self._writing)

    def _say_hello(self, replica: int | None) -> None:
        own = self._own
        for other, peer in self._peers.items():
            if peer.is_up and (replica is None or other == replica):
                hello = Hello(
                    phase=own.phase,
                    birth_id=own.birth_id,
                    voter=own.voter,
                    replica_count=self._count,
                    admits=peer.hello is not None,
                )
                self._effects.append(Send(replica=other, body=hello))

    # Learning.

    @property
    def _is_learner(self) -> bool:
        return self._own.phase is MemberPhase.BORN and not self._own.voter

    def _learn(self) -> None:
        learning = self._learning
        if learning.target is not None:
            if self._ticks % HOLD_TICKS == 0 and self._writing is None:
                self._tokens += 1
                self._own_token = self._tokens
                target = learning.target
                self._effects.append(WantStanding(token=self._own_token, op=target.op, checksum=target.checksum))
        elif self._ticks - learning.asked_tick >= ASK_TICKS:
            self._learning = _Learning(nonce=self._mint(), asked_tick=self._ticks)
            for replica, peer in self._peers.items():
                if peer.is_admitted:
                    self._effects.append(Send(replica=replica, body=Ask(nonce=self._learning.nonce)))

    def _on_own_standing(self, standing: Standing) -> None:
        """Whether this learner holds the head that was named to it, in that view. In a higher one it asks again."""
        target = self._learning.target
        if target is None or not self._is_learner or self._writing is not None:
            return
        if standing.view > target.view:
            self._learning = _Learning(asked_tick=self._ticks - ASK_TICKS)
        elif standing.view == target.view and standing.is_settled and standing.holds:
            self._persist(self._own.birth_id, MemberPhase.BORN, voter=True)

    # What is said of it.

    def _explain(self) -> str:
        """What this member waits for."""
        own = self._own
        if own.phase is not MemberPhase.BORN:
            missing = [
                f"replica {replica} at {peer.where}" for replica, peer in self._peers.items() if peer.hello is None
            ]
            seen = self._count - len(missing)
            text = f"waiting for first start: {seen} of {self._count} members seen"
            ids = sorted({hello.birth_id for hello in self._hellos() if hello.birth_id} | {own.birth_id} - {0})
            if len(ids) > 1:
                return f"{text}; they were prepared for different births: " + ", ".join(f"{each:032x}" for each in ids)
            return f"{text} (missing: {', '.join(missing)})" if missing else text
        if own.voter:
            return ""
        voters = sum(peer.is_admitted and peer.hello is not None and peer.hello.voter for peer in self._peers.values())
        needed = answers_needed(self._count)
        if voters < needed:
            return (
                f"learning after its disk was lost: {voters} of the {needed} voters that have to answer are connected; "
                "it votes when it has learned, and nothing that was acknowledged is given up meanwhile"
            )
        if self._learning.target is None:
            return "learning after its disk was lost: asking the voters for their view"
        return f"learning after its disk was lost: up to op {self._learning.target.op} of view {self._learning.target.view}"

    def _done(self, *, advance: bool = True) -> list[BirthEffect]:
        if advance:
            self._advance()
        waiting = self._explain()
        if waiting != self._waiting:
            self._waiting = waiting
            self._effects.append(Waiting(text=waiting))
        self._note_abstaining()
        effects, self._effects = self._effects, []
        self._assert_invariants()
        return effects

    def _note_abstaining(self) -> None:
        """A learner that was heard of abstains until it is heard of as a voter, whether it is connected or not."""
        abstaining = self._abstaining
        for replica, peer in self._peers.items():
            if peer.hello is not None and peer.is_admitted:
                abstaining = abstaining & ~(1 << replica) if peer.hello.voter else abstaining | 1 << replica
        if abstaining != self._abstaining:
            self._abstaining = abstaining
            self._effects.append(Abstaining(replicas=abstaining))

    def _assert_invariants(self) -> None:
        own, writing = self._own, self._writing
        if own.phase is MemberPhase.BLANK:
            assert not own.voter
        if writing is not None:
            assert writing.birth_id != 0
            assert own.birth_id in (0, writing.birth_id), "a member is born once"
            assert writing.phase >= own.phase
            assert writing.voter or not own.voter, "a voter stays one"
        for peer in self._peers.values():
            if peer.hello is not None:
                assert peer.is_up
            if peer.is_admitted:
                assert peer.hello is not None
                assert own.phase is MemberPhase.BORN
        assert len(self._asked) <= ASKED_MAX
        assert self._own_token <= self._tokens
        assert self._abstaining >> self._count == 0
        assert not self._abstaining >> self._replica & 1, "a member hears nothing of itself"
        assert not self._effects, "what was decided was handed out"
