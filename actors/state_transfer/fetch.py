"""The one fetch session of a replica: from FetchRequired to what was installed or failed (consensus specification 11).

Owns the attempt, its nonce and peer, the stall and decode budgets, and what was received. Refuses to know files, bytes and
what they mean: the shell stores chunks and judges what is complete. A step leaves only along the edges below; an answer of
another attempt, nonce or peer changes nothing.

    AWAITING_TARGET -> FETCHING -> READY -> PLACING -> PLACED
          ^               |          (not ahead: READY is the last)
          +--- damaged ---+          any of them -> over

Deviations from the reference, on purpose: the generation is stored at acceptance, so the decode budget works (D-13); and a
fetch that follows a refusal by the same peer waits for the rest of a retry interval, since Consensus may arm it again within
one round trip.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from levrier.actors.state_transfer.assembly import Assembly, ChunkRange, accepted_manifest
from levrier.wire.errors import WireError
from levrier.wire.transfer_headers import STATE_CHUNK_SIZE_MAX

STALL_RETRIES_MAX: Final = 5
"""Stalls in a row that are answered by asking again; the next one ends the attempt."""
DECODE_RETRIES_MAX: Final = 5
"""Damaged states of one generation that are answered by fetching again."""


class Stage(Enum):
    """Where the session stands."""

    AWAITING_TARGET = "awaiting target"
    FETCHING = "fetching"
    READY = "ready"
    PLACING = "placing"
    PLACED = "placed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """Ask the peer what it offers."""

    peer: int
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestChunk:
    """Ask the peer for bytes."""

    peer: int
    nonce: int
    range: ChunkRange


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAccepted:
    """Tell Consensus that chunks are coming, and make room for them."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Keep these bytes. If that fails nothing behind this effect is done, and `on_storage_failed` is called."""

    artifact: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Everything is here: judge it, and call `on_good`, `on_damaged`, `on_incoherent` or `on_storage_failed`."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Have the coordinator write the snapshot."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlaced:
    """Tell Consensus that the snapshot is in place."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishPlaced:
    """Have the coordinator name the snapshot in the superblock and drain the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFailed:
    """Tell Consensus that the attempt is over."""

    attempt: int
    reason: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard:
    """Free what was received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """A message without effect, and why."""

    what: str


FetchEffect = (
    Store
    | RequestChunk
    | RequestTarget
    | Judge
    | ReportAccepted
    | ReportFailed
    | Place
    | ReportPlaced
    | FinishPlaced
    | Discard
    | Drop
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A descriptor, as it came. `body` is the manifest."""

    nonce: int
    is_available: bool
    commit_op: int
    commit_max: int
    body: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class _Session:
    attempt: int
    peer: int
    nonce: int
    stage: Stage = Stage.AWAITING_TARGET
    is_asked: bool = True
    idle_ticks: int = 0
    generation: int = 0
    commit_op: int = 0
    commit_max: int = 0
    assembly: Assembly | None = None


class Fetch:
    """At most one session. `new_nonce` gives an unused 128-bit number each time."""

    __slots__ = (
        "_budget",
        "_chunk_size_max",
        "_failed_at",
        "_new_nonce",
        "_refused",
        "_retry_ticks",
        "_session",
        "_stalls",
        "_ticks",
    )

    def __init__(
        self, *, new_nonce: Callable[[], int], retry_ticks: int, chunk_size_max: int = STATE_CHUNK_SIZE_MAX
    ) -> None:
        assert retry_ticks > 0
        assert 0 < chunk_size_max <= STATE_CHUNK_SIZE_MAX
        self._new_nonce = new_nonce
        self._retry_ticks = retry_ticks
        self._chunk_size_max = chunk_size_max
        self._session: _Session | None = None
        self._stalls = 0
        self._budget = (0, 0)
        self._ticks = 0
        self._refused: tuple[int, int] | None = None
        """The last peer that refused, and the tick."""
        self._failed_at: int | None = None
        """The tick at which the last attempt failed here, with whatever peer."""
        self._assert_invariants()

    @property
    def stage(self) -> Stage | None:
        """Where the session stands; None without one."""
        return None if self._session is None else self._session.stage

    @property
    def received(self) -> tuple[int, ...]:
        """Bytes of each artifact so far."""
        return self._assembly().received

    @property
    def assembly(self) -> Assembly:
        """What was accepted."""
        return self._assembly()

    @property
    def commit_op(self) -> int:
        """The commit point that the accepted descriptor states."""
        return self._present().commit_op

    @property
    def commit_max(self) -> int:
        """The highest commit point that the peer knew of."""
        return self._present().commit_max

    def on_required(self, attempt: int, peer: int) -> list[FetchEffect]:
        """Begin an attempt, in place of any other. After a failure it waits for a retry interval before it asks."""
        effects = self._end()
        self._stalls = 0
        session = _Session(attempt=attempt, peer=peer, nonce=self._new_nonce())
        self._session = session
        failed_at = self._failed_at
        if self._refused is not None and self._refused[0] == peer:
            failed_at = max(self._refused[1], -1 if failed_at is None else failed_at)
        if failed_at is not None and self._ticks - failed_at < self._retry_ticks:
            session.is_asked = False
            session.idle_ticks = self._ticks - failed_at
        else:
            effects.append(RequestTarget(peer=peer, nonce=session.nonce))
        self._assert_invariants()
        return effects

    def on_canceled(self, attempt: int) -> list[FetchEffect]:
        """The attempt is not wanted any more."""
        if self._session is None or self._session.attempt != attempt:
            return [Drop(what=f"a cancellation of attempt {attempt}")]
        effects = self._end()
        self._assert_invariants()
        return effects

    def on_target(self, sender: int, target: Target) -> list[FetchEffect]:
        """A descriptor arrived. One that is not to be fetched is left to the stall timer."""
        session = self._session
        if session is None or not self._is_from_peer(sender, target.nonce):
            return [Drop(what=f"a descriptor of replica {sender}: not asked for")]
        if session.stage not in (Stage.AWAITING_TARGET, Stage.FETCHING):
            return [Drop(what=f"a descriptor of replica {sender}: {session.stage.value}")]
        if not target.is_available:
            self._refused = (sender, self._ticks)
            return self._fail(f"replica {sender} has nothing to offer now", is_refused=True)
        if session.stage is Stage.FETCHING:
            return [Drop(what=f"a descriptor of replica {sender}: accepted already")]
        try:
            return self._accept(session, target)
        except WireError as error:
            return [Drop(what=f"a descriptor of replica {sender}: {error}")]

    def on_chunk(self, sender: int, nonce: int, artifact: int, offset: int, data: bytes) -> list[FetchEffect]:
        """Bytes arrived."""
        session = self._session
        if session is None or session.stage is not Stage.FETCHING or not self._is_from_peer(sender, nonce):
            return [Drop(what=f"a chunk of replica {sender}: not asked for")]
        if not self._assembly().take(artifact, offset, len(data)):
            return [Drop(what=f"a chunk of replica {sender}: artifact {artifact} at {offset} is not the next")]
        session.idle_ticks = 0
        self._stalls = 0
        self._assert_invariants()
        return [Store(artifact=artifact, offset=offset, data=data), self._proceed(session)]

    def on_tick(self) -> list[FetchEffect]:
        """A tick has passed: ask again after a retry interval without progress, and give up after too many of them."""
        self._ticks += 1
        session = self._session
        if session is None or session.stage not in (Stage.AWAITING_TARGET, Stage.FETCHING):
            return []
        session.idle_ticks += 1
        if session.idle_ticks < self._retry_ticks:
            self._assert_invariants()
            return []
        session.idle_ticks = 0
        if session.is_asked:
            self._stalls += 1
            if self._stalls > STALL_RETRIES_MAX:
                return self._fail(f"replica {session.peer} is silent: {self._stalls} stalls in a row")
        session.is_asked = True
        self._assert_invariants()
        if session.stage is Stage.FETCHING:
            return [self._proceed(session)]
        return [RequestTarget(peer=session.peer, nonce=session.nonce)]

    def on_storage_failed(self, reason: str) -> list[FetchEffect]:
        """Our own disk refuses: no use in asking again at once."""
        return self._fail_here(reason)

    def on_damaged(self, reason: str) -> list[FetchEffect]:
        """What arrived is no state: charge its generation, and fetch anew under a fresh nonce while the budget lasts."""
        session = self._present()
        assert session.stage is Stage.FETCHING
        failures = self._failures_of(session.generation) + 1
        self._budget = (session.generation, failures)
        if failures > DECODE_RETRIES_MAX:
            return self._fail_here(f"the state at op {session.generation} was damaged {failures} times: {reason}")
        session.nonce = self._new_nonce()
        session.stage = Stage.AWAITING_TARGET
        session.assembly = None
        session.idle_ticks = 0
        self._assert_invariants()
        return [Discard(), RequestTarget(peer=session.peer, nonce=session.nonce)]

    def on_incoherent(self, reason: str) -> list[FetchEffect]:
        """It cannot be installed, and nothing of it was."""
        return self._fail_here(reason)

    def on_good(self) -> None:
        """It may be installed."""
        session = self._present()
        assert session.stage is Stage.FETCHING
        assert self._assembly().is_complete
        session.stage = Stage.READY
        self._assert_invariants()

    def on_place(self, attempt: int) -> list[FetchEffect]:
        """The log is cut: the snapshot may be written."""
        if not self._is_at(attempt, Stage.READY):
            return [Drop(what=f"PlaceSnapshot of attempt {attempt}")]
        self._present().stage = Stage.PLACING
        self._assert_invariants()
        return [Place(attempt=attempt)]

    def on_placed(self, attempt: int) -> list[FetchEffect]:
        """The coordinator has written it."""
        if not self._is_at(attempt, Stage.PLACING):
            return [Drop(what=f"ReceivedPlaced of attempt {attempt}")]
        self._present().stage = Stage.PLACED
        self._assert_invariants()
        return [ReportPlaced(attempt=attempt)]

    def on_not_placed(self, attempt: int, reason: str) -> list[FetchEffect]:
        """The coordinator could not, or would not."""
        if not self._is_at(attempt, Stage.PLACING):
            return [Drop(what=f"ReceivedNotPlaced of attempt {attempt}")]
        return self._fail_here(reason)

    def on_finished(self, attempt: int, *, is_ahead: bool) -> list[FetchEffect]:
        """State machine and table are installed."""
        if not self._is_at(attempt, Stage.PLACED if is_ahead else Stage.READY):
            return [Drop(what=f"InstallFinished of attempt {attempt}")]
        effects = self._end()
        self._assert_invariants()
        return [FinishPlaced(), *effects] if is_ahead else effects

    def _accept(self, session: _Session, target: Target) -> list[FetchEffect]:
        """Raises `WireError` for what is not to be fetched, before anything has changed."""
        artifacts = accepted_manifest(target.body)
        generation = artifacts[0].frontier
        if self._failures_of(generation) > DECODE_RETRIES_MAX:
            raise WireError(f"the state at op {generation} was damaged too often", "manifest.frontier")
        session.stage = Stage.FETCHING
        session.generation = generation
        session.commit_op, session.commit_max = target.commit_op, target.commit_max
        session.assembly = Assembly(artifacts)
        session.idle_ticks = 0
        self._assert_invariants()
        return [ReportAccepted(attempt=session.attempt), self._proceed(session)]

    def _proceed(self, session: _Session) -> FetchEffect:
        assert session.stage is Stage.FETCHING
        chunk = self._assembly().next_range(self._chunk_size_max)
        if chunk is None:
            return Judge(attempt=session.attempt)
        return RequestChunk(peer=session.peer, nonce=session.nonce, range=chunk)

    def _fail_here(self, reason: str) -> list[FetchEffect]:
        """No peer is to blame, so another one would not help: the next attempt follows at once, but asks later."""
        self._failed_at = self._ticks
        return self._fail(reason)

    def _fail(self, reason: str, *, is_refused: bool = False) -> list[FetchEffect]:
        session = self._present()
        self._stalls = 0
        effects = self._end()
        self._assert_invariants()
        return [*effects, ReportFailed(attempt=session.attempt, reason=reason, is_refused=is_refused)]

    def _end(self) -> list[FetchEffect]:
        session, self._session = self._session, None
        return [] if session is None or session.assembly is None else [Discard()]

    def _is_from_peer(self, sender: int, nonce: int) -> bool:
        return self._session is not None and self._session.peer == sender and self._session.nonce == nonce

    def _is_at(self, attempt: int, stage: Stage) -> bool:
        return self._session is not None and self._session.attempt == attempt and self._session.stage is stage

    def _failures_of(self, generation: int) -> int:
        return self._budget[1] if self._budget[0] == generation else 0

    def _present(self) -> _Session:
        assert self._session is not None, "there is no session"
        return self._session

    def _assembly(self) -> Assembly:
        assembly = self._present().assembly
        assert assembly is not None, "nothing was accepted"
        return assembly

    def _assert_invariants(self) -> None:
        assert 0 <= self._stalls <= STALL_RETRIES_MAX
        assert 0 <= self._budget[1] <= DECODE_RETRIES_MAX + 1, "a generation beyond its budget is not accepted"
        assert self._failed_at is None or self._failed_at <= self._ticks
        session = self._session
        if session is None:
            return
        assert 0 <= session.idle_ticks < self._retry_ticks
        if session.stage is Stage.AWAITING_TARGET:
            assert session.assembly is None
            return
        assert session.assembly is not None
        if session.stage is not Stage.FETCHING:
            assert session.assembly.is_complete
