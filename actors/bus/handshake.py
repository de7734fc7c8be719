"""How a link between two replicas begins: who dials, what is proven, why somebody is refused (wire specification 6.2).

Pure: each side is told frames of 256 bytes and says what to send, whom the link belongs to, or why it ends. The replica
with the lower id dials. Without a shared secret the Hello is all there is; with one, each side proves that it knows the
secret before either believes a frame of the other, and neither proof can be used again: both nonces are inside it.

The acceptor proves itself first and with `current`, the dialer after it and with the secret that the acceptor used. So a link
needs a dialer that accepts the acceptor's `current`, and it is the members with lower ids that have to know a new secret before
one with a higher id proves itself with it. A secret is therefore rotated in two rounds over the members: upwards, from the
lowest id to the highest, each gets the new one as `current` and the old one as `previous`, and then, in any order, the new one
alone. Where the order is not free, a round before these makes any order do: the old one stays `current`, the new one is
`previous`.

Over TLS the proofs carry mode 1, and a zero exporter: Python's `ssl` offers neither the TLS exporter nor, with TLS 1.3,
any channel binding. The proofs are then bound to TLS as such but not to the one connection, so a node of another make that
puts a real exporter into them is refused (MAC mismatch); between nodes of this make TLS has to authenticate by its
certificates what the exporter would have tied together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Self

from levrier.wire.errors import UnexpectedCommand, WireError
from levrier.wire.handshake import (
    MAC_SIZE,
    NONCE_SIZE,
    Direction,
    Handshake,
    HandshakeStatus,
    mac,
    mac_is,
    mac_key,
)
from levrier.wire.identity import REPLICAS_MAX, cluster_id

HELLO: Final = 14
CHALLENGE: Final = 15
FINISH: Final = 16

_NO_NONCE: Final = bytes(NONCE_SIZE)
_UNBOUND_EXPORTER: Final = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSecret:
    """The MAC keys of the shared secret and, while it is being replaced, of the other one that is accepted as well."""

    current: bytes = field(repr=False)
    previous: bytes | None = field(repr=False, default=None)

    @classmethod
    def of(cls, secret: bytes, *, previous: bytes | None = None) -> Self:
        """Derive the keys. An empty secret is our bug: the configuration refuses it."""
        assert secret, "an empty secret protects nothing"
        return cls(current=mac_key(secret), previous=mac_key(previous) if previous else None)

    @property
    def accepted(self) -> tuple[bytes, ...]:
        """The keys that a proof may be made with."""
        return (self.current,) if self.previous is None else (self.current, self.previous)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkIdentity:
    """Who this node is on the replica port. `secret` None: no authentication; `secure`: the links run over TLS."""

    cluster_name: str
    replica: int
    replica_count: int
    group: int
    secret: LinkSecret | None = None
    secure: bool = False

    def __post_init__(self) -> None:
        assert 0 <= self.replica < self.replica_count <= REPLICAS_MAX

    @property
    def cluster(self) -> int:
        """The id of the cluster, as frames carry it."""
        return cluster_id(self.cluster_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a link ends before it began. `status` is what the protocol calls it, if anything."""

    reason: str
    status: HandshakeStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What follows from one frame of a handshake.

    `reply` is to be sent, also with a refusal. `peer` is the other side's replica id once the link may carry frames;
    `refused` ends it. With neither, another frame is awaited.
    """

    reply: bytes = b""
    peer: int | None = None
    refused: Refusal | None = None


class Dialer:
    """The side with the lower id."""

    __slots__ = ("_cluster", "_identity", "_nonce", "peer")

    def __init__(self, identity: LinkIdentity, *, peer: int, entropy: Callable[[int], bytes]) -> None:
        assert identity.replica < peer < identity.replica_count, "the lower id dials"
        self.peer = peer
        self._identity = identity
        self._cluster = identity.cluster
        self._nonce = _NO_NONCE if identity.secret is None else entropy(NONCE_SIZE)

    @property
    def authenticates(self) -> bool:
        """Whether a Challenge has to come before the link may carry frames."""
        return self._identity.secret is not None

    def hello(self) -> bytes:
        """The first frame of the connection."""
        return Handshake(
            command=HELLO, cluster=self._cluster, replica=self._identity.replica, nonce=self._nonce
        ).encode()

    def on_frame(self, frame: bytes) -> Step:
        """The acceptor answered."""
        try:
            challenge = Handshake.decode(frame)
        except WireError as error:
            return Step(refused=Refusal(reason=f"the answer to the Hello is no Challenge: {error}"))
        if challenge.command != CHALLENGE:
            return Step(refused=Refusal(reason=f"command {challenge.command} answers the Hello"))
        refused = self._judge(challenge)
        if refused is not None:
            return Step(refused=refused)
        secret = self._identity.secret
        assert secret is not None
        key = _proving_key(secret, challenge.mac, self._proof(challenge.nonce, Direction.ACCEPTOR))
        if key is None:
            return Step(refused=_mac_refusal(self.peer))
        finish = Handshake(
            command=FINISH,
            cluster=self._cluster,
            replica=self._identity.replica,
            mac=self._proof(challenge.nonce, Direction.DIALER)(key),
        )
        return Step(reply=finish.encode(), peer=self.peer)

    def _proof(self, acceptor_nonce: bytes, direction: Direction) -> Callable[[bytes], bytes]:
        return _proof(
            self._identity,
            dialer=self._identity.replica,
            acceptor=self.peer,
            dialer_nonce=self._nonce,
            acceptor_nonce=acceptor_nonce,
            direction=direction,
        )

    def _judge(self, challenge: Handshake) -> Refusal | None:
        """Why the proof in the Challenge need not even be looked at."""
        if challenge.status != HandshakeStatus.OK:
            return self._refused_by(challenge)
        if challenge.cluster != self._cluster:
            return _cluster_refusal(self._identity, challenge.cluster)
        if challenge.replica != self.peer:
            return Refusal(reason=f"replica {challenge.replica} answers where replica {self.peer} is expected")
        if self._identity.secret is None:
            reason = "the peer asks for a proof and no shared secret is configured here"
            return Refusal(reason=reason, status=HandshakeStatus.AUTHENTICATION_REQUIRED)
        return None

    def _refused_by(self, challenge: Handshake) -> Refusal:
        status = HandshakeStatus(challenge.status)
        reason = f"replica {challenge.replica} refuses us: {status.name}"
        if status is HandshakeStatus.CLUSTER_MISMATCH:
            reason += f"; {_both_clusters(self._identity, challenge.cluster)}"
        return Refusal(reason=reason, status=status)


class Acceptor:
    """The side with the higher id. Until `on_frame` names the peer, nothing of the other side is believed."""

    __slots__ = ("_dialer", "_dialer_nonce", "_entropy", "_identity", "_nonce")

    def __init__(self, identity: LinkIdentity, *, entropy: Callable[[int], bytes]) -> None:
        self._identity = identity
        self._entropy = entropy
        self._dialer: int | None = None
        self._dialer_nonce = _NO_NONCE
        self._nonce = _NO_NONCE

    def on_end(self) -> Refusal | None:
        """The dialer ended the connection: after our proof that is its refusal of it, which no frame says."""
        if self._dialer is None:
            return None
        reason = (
            f"replica {self._dialer} ended the handshake where its proof was expected; the shared secrets may differ"
        )
        return Refusal(reason=reason, status=HandshakeStatus.MAC_MISMATCH)

    def on_frame(self, frame: bytes) -> Step:
        """The next frame of the dialer: its Hello, then its Finish."""
        wanted = HELLO if self._dialer is None else FINISH
        try:
            received = Handshake.decode(frame)
        except UnexpectedCommand as error:
            return self._refuse(str(error), HandshakeStatus.UNKNOWN_COMMAND)
        except WireError as error:
            return Step(refused=Refusal(reason=f"no frame of a handshake: {error}"))
        if received.command != wanted:
            reason = f"command {received.command} where {wanted} is expected"
            return self._refuse(reason, HandshakeStatus.UNKNOWN_COMMAND)
        return self._on_hello(received) if self._dialer is None else self._on_finish(received, self._dialer)

    def _on_hello(self, hello: Handshake) -> Step:
        identity = self._identity
        if hello.cluster != identity.cluster:
            reason = _cluster_refusal(identity, hello.cluster, peer=hello.replica).reason
            return self._refuse(reason, HandshakeStatus.CLUSTER_MISMATCH)
        if hello.replica >= identity.replica:
            reason = f"replica {hello.replica} dials replica {identity.replica}, but the lower id dials"
            return self._refuse(reason, HandshakeStatus.DIRECTIONAL_RULE)
        proves = hello.nonce != _NO_NONCE
        if identity.secret is None:
            if proves:
                reason = f"replica {hello.replica} wants a proof and no shared secret is configured here"
                return Step(refused=Refusal(reason=reason, status=HandshakeStatus.AUTHENTICATION_REQUIRED))
            return Step(peer=hello.replica)
        if not proves:
            reason = f"replica {hello.replica} dials without a shared secret"
            return Step(refused=Refusal(reason=reason, status=HandshakeStatus.AUTHENTICATION_REQUIRED))
        self._dialer, self._dialer_nonce, self._nonce = hello.replica, hello.nonce, self._entropy(NONCE_SIZE)
        proof = self._proof(hello.replica, Direction.ACCEPTOR)(identity.secret.current)
        return Step(reply=self._challenge(status=HandshakeStatus.OK, nonce=self._nonce, proof=proof))

    def _on_finish(self, finish: Handshake, dialer: int) -> Step:
        secret = self._identity.secret
        assert secret is not None
        if finish.cluster != self._identity.cluster or finish.replica != dialer:
            reason = f"replica {dialer} said Hello and replica {finish.replica} wants to finish"
            return Step(refused=Refusal(reason=reason, status=HandshakeStatus.MAC_MISMATCH))
        if _proving_key(secret, finish.mac, self._proof(dialer, Direction.DIALER)) is None:
            return Step(refused=_mac_refusal(dialer))
        return Step(peer=dialer)

    def _proof(self, dialer: int, direction: Direction) -> Callable[[bytes], bytes]:
        return _proof(
            self._identity,
            dialer=dialer,
            acceptor=self._identity.replica,
            dialer_nonce=self._dialer_nonce,
            acceptor_nonce=self._nonce,
            direction=direction,
        )

    def _refuse(self, reason: str, status: HandshakeStatus) -> Step:
        """A refusal that the dialer is told."""
        return Step(reply=self._challenge(status=status), refused=Refusal(reason=reason, status=status))

    def _challenge(self, *, status: HandshakeStatus, nonce: bytes = _NO_NONCE, proof: bytes = bytes(MAC_SIZE)) -> bytes:
        return Handshake(
            command=CHALLENGE,
            cluster=self._identity.cluster,
            replica=self._identity.replica,
            nonce=nonce,
            mac=proof,
            status=status,
        ).encode()


def _proof(
    identity: LinkIdentity,
    *,
    dialer: int,
    acceptor: int,
    dialer_nonce: bytes,
    acceptor_nonce: bytes,
    direction: Direction,
) -> Callable[[bytes], bytes]:
    """The proof of one side, still to be given a key."""

    def with_key(key: bytes) -> bytes:
        return mac(
            key,
            cluster=identity.cluster,
            dialer=dialer,
            acceptor=acceptor,
            dialer_nonce=dialer_nonce,
            acceptor_nonce=acceptor_nonce,
            direction=direction,
            tls_exporter=_UNBOUND_EXPORTER if identity.secure else None,
        )

    return with_key


def _proving_key(secret: LinkSecret, received: bytes, proof: Callable[[bytes], bytes]) -> bytes | None:
    """The accepted key that `received` was made with."""
    found = None
    for key in secret.accepted:
        if mac_is(proof(key), received):
            found = key
    return found


def _mac_refusal(peer: int) -> Refusal:
    return Refusal(
        reason=f"replica {peer} does not prove that it knows the shared secret", status=HandshakeStatus.MAC_MISMATCH
    )


def _cluster_refusal(identity: LinkIdentity, other: int, *, peer: int | None = None) -> Refusal:
    who = "the peer" if peer is None else f"replica {peer}"
    reason = f"{who} belongs to another cluster: {_both_clusters(identity, other)}"
    return Refusal(reason=reason, status=HandshakeStatus.CLUSTER_MISMATCH)


def _both_clusters(identity: LinkIdentity, other: int) -> str:
    return f"cluster id {other:032x} there, {identity.cluster:032x} ({identity.cluster_name}) here"
