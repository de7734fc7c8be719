"""What this replica serves: one offer for each peer that asked, and the snapshots that they share (section 11).

An offer is kept under its requester; the nonce says which of its requests it answers. The same nonce gets the same
descriptor again, since another one could be shorter than what the peer has fetched already. Snapshots are shared by all
offers of one op and released with the last of them, so a peer that has fallen silent holds nothing for longer than its
expiry (BR-17). Refuses to know files: the shell opens, reads and closes them.

An offer expires after ten retry intervals without a request for bytes, one that was served to its end after three.
"""

from dataclasses import dataclass
from typing import Final

from levrier.wire.manifest import Artifact, encode_manifest
from levrier.wire.transfer_headers import STATE_CHUNK_SIZE_MAX

EXPIRY_RETRIES: Final = 10
SERVED_EXPIRY_RETRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AskVerdict:
    """Ask Consensus whether the state may be served."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSnapshot:
    """Open the snapshot file and call `on_loaded` or `on_unreadable`."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTarget:
    """Send the descriptor. `manifest` is empty when nothing is available; `is_transient` says to ask again."""

    requester: int
    nonce: int
    manifest: bytes = b""
    commit_op: int = 0
    commit_max: int = 0
    is_transient: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SendChunk:
    """Read and send bytes of the snapshot of `op` or of its table. If that fails, call `on_read_failed`."""

    requester: int
    nonce: int
    op: int
    artifact: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Nobody needs the snapshot of this op any more: close it."""

    op: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """A message without effect, and why."""

    what: str


OfferEffect = SendChunk | SendTarget | AskVerdict | LoadSnapshot | Release | Ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What Consensus stated at one moment: the snapshot, the commit point, and the highest one it knew of."""

    snapshot_op: int
    commit_op: int
    commit_max: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Offer:
    requester: int
    nonce: int
    token: int
    grant: Grant | None = None
    op: int | None = None
    """The op of the snapshot that is served; None until it is known."""
    target: SendTarget | None = None
    idle_ticks: int = 0
    is_served: bool = False


class Offers:
    """At most one offer for each requester, and the artifacts of each snapshot that is held."""

    __slots__ = ("_artifacts", "_by_requester", "_retry_ticks", "_token")

    def __init__(self, *, retry_ticks: int) -> None:
        assert retry_ticks > 0
        self._retry_ticks = retry_ticks
        self._by_requester: dict[int, _Offer] = {}
        self._artifacts: dict[int, tuple[Artifact, ...]] = {}
        self._token = 0

    @property
    def count(self) -> int:
        """How many offers there are, the ones that wait for a verdict included."""
        return len(self._by_requester)

    @property
    def held(self) -> tuple[int, ...]:
        """The ops of the snapshots that are held, ascending."""
        return tuple(sorted(self._artifacts))

    def on_request(self, requester: int, nonce: int) -> list[OfferEffect]:
        """A peer asks what there is."""
        offer = self._by_requester.get(requester)
        if offer is not None and offer.nonce == nonce:
            offer.idle_ticks = 0
            return [offer.target] if offer.target is not None else [Ignore(what=f"replica {requester} waits already")]
        effects = self._drop(requester)
        self._token += 1
        self._by_requester[requester] = _Offer(requester=requester, nonce=nonce, token=self._token)
        return [*effects, AskVerdict(token=self._token)]

    def on_verdict(self, token: int, grant: Grant | None) -> list[OfferEffect]:
        """Consensus has answered; None is a refusal."""
        offer = self._waiting(token)
        if offer is None:
            return [Ignore(what=f"the verdict {token}")]
        if grant is None:
            return self._refuse(offer)
        assert 0 < grant.snapshot_op <= grant.commit_op <= grant.commit_max
        offer.grant = grant
        if grant.snapshot_op in self._artifacts:
            return [self._serve(offer, grant, grant.snapshot_op)]
        return [LoadSnapshot(token=token)]

    def on_loaded(self, token: int, op: int, artifacts: tuple[Artifact, ...]) -> list[OfferEffect]:
        """The file holds the snapshot of `op`, which may be newer than the verdict knew. Gives up nothing that is held."""
        offer = self._waiting(token)
        assert offer is not None, "loading takes no time"
        assert offer.grant is not None
        self._artifacts.setdefault(op, artifacts)
        return [self._serve(offer, offer.grant, op)]

    def on_unreadable(self, token: int) -> list[OfferEffect]:
        """The file is missing or damaged."""
        offer = self._waiting(token)
        assert offer is not None, "loading takes no time"
        return self._refuse(offer)

    def on_chunk_wanted(self, requester: int, nonce: int, artifact: int, offset: int, size: int) -> list[OfferEffect]:
        """A peer asks for bytes. An empty answer is never given: it would not move the peer."""
        offer = self._by_requester.get(requester)
        if offer is None or offer.nonce != nonce:
            return [SendTarget(requester=requester, nonce=nonce, is_transient=True)]
        if offer.op is None:
            return [Ignore(what=f"replica {requester} wants bytes before the descriptor")]
        artifacts = self._artifacts[offer.op]
        if artifact >= len(artifacts) or offset >= artifacts[artifact].size:
            return [Ignore(what=f"replica {requester} wants artifact {artifact} from {offset} on")]
        size = min(size, artifacts[artifact].size - offset, STATE_CHUNK_SIZE_MAX)
        offer.idle_ticks = 0
        if artifact == len(artifacts) - 1 and offset + size == artifacts[artifact].size:
            offer.is_served = True
        return [SendChunk(requester=requester, nonce=nonce, op=offer.op, artifact=artifact, offset=offset, size=size)]

    def on_read_failed(self, requester: int, nonce: int) -> list[OfferEffect]:
        """Bytes of the offer cannot be read any more: the peer is to ask for a new one."""
        return [SendTarget(requester=requester, nonce=nonce, is_transient=True), *self._drop(requester)]

    def on_tick(self) -> list[OfferEffect]:
        """A tick has passed: drop what nobody fetches."""
        effects: list[OfferEffect] = []
        for requester, offer in list(self._by_requester.items()):
            offer.idle_ticks += 1
            retries = SERVED_EXPIRY_RETRIES if offer.is_served else EXPIRY_RETRIES
            if offer.idle_ticks >= retries * self._retry_ticks:
                effects += [Ignore(what=f"the offer for replica {requester} has expired"), *self._drop(requester)]
        return effects

    def _serve(self, offer: _Offer, grant: Grant, op: int) -> SendTarget:
        artifacts = self._artifacts[op]
        # A snapshot newer than the verdict is of committed ops all the same: only those reach the machine.
        commit_op = max(grant.commit_op, *(artifact.frontier for artifact in artifacts))
        offer.op = op
        offer.idle_ticks = 0
        offer.target = SendTarget(
            requester=offer.requester,
            nonce=offer.nonce,
            manifest=encode_manifest(artifacts),
            commit_op=commit_op,
            commit_max=max(grant.commit_max, commit_op),
        )
        return offer.target

    def _refuse(self, offer: _Offer) -> list[OfferEffect]:
        return [SendTarget(requester=offer.requester, nonce=offer.nonce), *self._drop(offer.requester)]

    def _waiting(self, token: int) -> _Offer | None:
        for offer in self._by_requester.values():
            if offer.token == token and offer.target is None:
                return offer
        return None

    def _drop(self, requester: int) -> list[OfferEffect]:
        offer = self._by_requester.pop(requester, None)
        if offer is None or offer.op is None:
            return []
        op = offer.op
        if any(other.op == op for other in self._by_requester.values()):
            return []
        del self._artifacts[op]
        return [Release(op=op)]
