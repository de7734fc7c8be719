"""How a link begins, in tables: every status, with and without a shared secret, rotated, replayed and reflected proofs."""

from itertools import combinations, permutations

import pytest
from blake3 import blake3

from levrier.actors.bus.handshake import Acceptor, Dialer, LinkIdentity, LinkSecret, Step
from levrier.wire.handshake import Handshake, HandshakeStatus
from tests.actors.bus.link_rig import (
    CLUSTER,
    NEXT_SECRET,
    SECRET,
    Entropy,
    acceptor,
    dialer,
    flip,
    heartbeat,
    identity,
    prepare_ok,
    status_of,
)


def shake(low: LinkIdentity, high: LinkIdentity) -> tuple[Step | None, Step]:
    """A whole handshake between two members: what each side came to last."""
    calling, called = dialer(low, high.replica), acceptor(high)
    step = called.on_frame(calling.hello())
    if not step.reply or step.refused:
        return None, step
    answer = calling.on_frame(step.reply)
    if not answer.reply:
        return answer, step
    return answer, called.on_frame(answer.reply)


def reason(step: Step) -> str:
    assert step.refused is not None
    assert step.peer is None
    return step.refused.reason


def test_without_a_secret_the_hello_is_all_there_is() -> None:
    answer, end = shake(identity(0), identity(1))
    assert answer is None
    assert end == Step(peer=0)


def test_with_a_secret_both_sides_prove_themselves() -> None:
    answer, end = shake(identity(0, secret=SECRET), identity(1, secret=SECRET))
    assert answer is not None
    assert answer.peer == 1
    assert end == Step(peer=0)


def test_the_frames_are_those_of_the_specification() -> None:
    """Written down by offset, and the MAC computed by hand (wire 6.2)."""
    low, high = identity(0, secret=SECRET), identity(1, secret=SECRET)
    calling, called = dialer(low, 1, start=5), acceptor(high, start=9)
    hello = calling.hello()
    challenge = called.on_frame(hello).reply
    finish = calling.on_frame(challenge).reply
    dialer_nonce, acceptor_nonce = (5).to_bytes(32, "little"), (9).to_bytes(32, "little")
    prefix = bytes(32) + CLUSTER.to_bytes(16, "little") + (256).to_bytes(4, "little") + bytes(8)
    key = blake3(b"first", derive_key_context="apache-iggy replica-auth v1 psk->mac-key").digest()

    def proof(direction: int) -> bytes:
        said = b"apache-iggy replica-auth v1" + CLUSTER.to_bytes(16, "little") + bytes((0, 1))
        said += dialer_nonce + acceptor_nonce + bytes(1) + bytes(32) + bytes((direction,))
        return blake3(said, key=key).digest()

    assert hello == prefix + bytes((14, 0)) + bytes(66) + dialer_nonce + bytes(96)
    assert challenge == prefix + bytes((15, 1)) + bytes(66) + acceptor_nonce + proof(2) + bytes(64)
    assert finish == prefix + bytes((16, 0)) + bytes(66) + bytes(32) + proof(1) + bytes(64)


def test_over_tls_the_proofs_say_so() -> None:
    plain, secure = identity(0, secret=SECRET), identity(1, secret=SECRET, secure=True)
    answer, _ = shake(plain, secure)
    assert answer is not None
    assert "does not prove" in reason(answer)
    answer, end = shake(identity(0, secret=SECRET, secure=True), secure)
    assert answer is not None
    assert end.peer == 0


@pytest.mark.parametrize("secret", [None, SECRET], ids=["open", "authenticated"])
def test_another_cluster_is_refused_with_both_values(secret: LinkSecret | None) -> None:
    """B-009, the part of it that the name decides: the acceptor and the refused dialer both print both ids."""
    foreign, own = identity(0, name="staging", secret=secret), identity(1, secret=secret)
    calling = dialer(foreign, 1)
    step = acceptor(own).on_frame(calling.hello())
    assert status_of(step) == HandshakeStatus.CLUSTER_MISMATCH
    for said in (reason(step), reason(calling.on_frame(step.reply))):
        assert f"{foreign.cluster:032x}" in said
        assert f"{own.cluster:032x}" in said


def test_a_challenge_of_another_cluster_is_refused_with_both_values() -> None:
    """Also where the acceptor does not mind: the dialer prints both ids, not a failed proof."""
    calling = dialer(identity(0, secret=SECRET), 1)
    foreign = identity(1, name="staging").cluster
    step = calling.on_frame(Handshake(command=15, cluster=foreign, replica=1, nonce=b"n" * 32).encode())
    assert f"{foreign:032x}" in reason(step)
    assert f"{CLUSTER:032x}" in reason(step)


@pytest.mark.parametrize("sender", [1, 2, 31, 255])
def test_a_dialer_whose_id_is_not_lower_is_refused(sender: int) -> None:
    hello = Handshake(command=14, cluster=CLUSTER, replica=sender).encode()
    step = acceptor(identity(1)).on_frame(hello)
    assert status_of(step) == HandshakeStatus.DIRECTIONAL_RULE
    assert f"replica {sender} dials replica 1" in reason(step)
    assert "DIRECTIONAL_RULE" in reason(dialer(identity(0), 1).on_frame(step.reply))


@pytest.mark.parametrize(
    "frame", [heartbeat(), prepare_ok(), Handshake(command=16, cluster=CLUSTER, replica=0).encode()]
)
def test_anything_but_a_hello_is_refused_as_unknown(frame: bytes) -> None:
    step = acceptor(identity(1)).on_frame(frame)
    assert status_of(step) == HandshakeStatus.UNKNOWN_COMMAND
    assert step.peer is None


@pytest.mark.parametrize(
    "frame", [flip(dialer(identity(0), 1).hello(), 48), dialer(identity(0), 1).hello()[:192] + b"\x07" + bytes(63)]
)
def test_a_broken_hello_is_refused_without_an_answer(frame: bytes) -> None:
    step = acceptor(identity(1)).on_frame(frame)
    assert step.reply == b""
    assert "no frame of a handshake" in reason(step)


def test_a_dialer_without_a_secret_is_refused_without_an_answer() -> None:
    step = acceptor(identity(1, secret=SECRET)).on_frame(dialer(identity(0), 1).hello())
    assert step.reply == b""
    assert step.refused is not None
    assert step.refused.status is HandshakeStatus.AUTHENTICATION_REQUIRED


def test_a_dialer_that_wants_a_proof_of_a_member_without_a_secret_is_refused() -> None:
    step = acceptor(identity(1)).on_frame(dialer(identity(0, secret=SECRET), 1).hello())
    assert step.reply == b""
    assert step.refused is not None
    assert step.refused.status is HandshakeStatus.AUTHENTICATION_REQUIRED


def test_an_acceptor_with_another_secret_is_not_believed() -> None:
    answer, _ = shake(identity(0, secret=SECRET), identity(1, secret=NEXT_SECRET))
    assert answer is not None
    assert answer.reply == b""
    assert answer.refused is not None
    assert answer.refused.status is HandshakeStatus.MAC_MISMATCH


def test_a_dialer_with_another_secret_is_not_believed() -> None:
    low = identity(0, secret=LinkSecret(current=NEXT_SECRET.current, previous=SECRET.current))
    calling, called = dialer(low, 1), acceptor(identity(1, secret=SECRET))
    challenge = called.on_frame(calling.hello())
    finish = Handshake.decode(calling.on_frame(challenge.reply).reply)
    step = called.on_frame(Handshake(command=16, cluster=CLUSTER, replica=0, mac=bytes(32)).encode())
    assert finish.mac != bytes(32)
    assert step.reply == b""
    assert step.refused is not None
    assert step.refused.status is HandshakeStatus.MAC_MISMATCH


OLD = SECRET
ADDED = LinkSecret(current=SECRET.current, previous=NEXT_SECRET.current)
SWAPPED = LinkSecret(current=NEXT_SECRET.current, previous=SECRET.current)
NEW = NEXT_SECRET


@pytest.mark.parametrize("low", [OLD, ADDED, SWAPPED, NEW], ids=["old", "added", "swapped", "new"])
@pytest.mark.parametrize("high", [OLD, ADDED, SWAPPED, NEW], ids=["old", "added", "swapped", "new"])
def test_a_secret_is_rotated_without_losing_a_link(low: LinkSecret, high: LinkSecret) -> None:
    """Two members that are one step of the rotation apart understand each other; those that share no secret never do."""
    answer, end = shake(identity(0, secret=low), identity(1, secret=high))
    rounds = [OLD, ADDED, SWAPPED, NEW]
    works = high.current in low.accepted
    assert (end.peer == 0) is works
    if abs(rounds.index(low) - rounds.index(high)) <= 1:
        assert works
    if not works:
        assert answer is not None
        assert "does not prove" in reason(answer)


def broken_links(*rounds: tuple[LinkSecret, tuple[int, ...]]) -> set[tuple[int, int]]:
    """The links that do not come about at some moment of a rotation: in each round each member in turn gets the secret."""
    secrets, broken = [OLD] * 3, set()
    for secret, order in rounds:
        for replica in order:
            secrets[replica] = secret
            for low, high in combinations(range(3), 2):
                _, end = shake(identity(low, secret=secrets[low]), identity(high, secret=secrets[high]))
                if end.peer != low:
                    broken.add((low, high))
    return broken


UPWARDS = (0, 1, 2)


@pytest.mark.parametrize("order", list(permutations(UPWARDS)))
def test_two_rounds_upwards_or_three_in_any_order_rotate_a_secret(order: tuple[int, ...]) -> None:
    """Upwards, whoever proves itself with the new secret does so to members that accept it."""
    assert not broken_links((SWAPPED, UPWARDS), (NEW, order))
    assert not broken_links((ADDED, order), (SWAPPED, order), (NEW, order))
    assert bool(broken_links((SWAPPED, order), (NEW, UPWARDS))) is (order != UPWARDS)


def test_whoever_does_not_believe_the_proof_is_named_when_it_leaves() -> None:
    """It says nothing itself; before the Hello and without a proof nobody is named."""
    called = acceptor(identity(1, secret=NEXT_SECRET))
    assert called.on_end() is None
    called.on_frame(dialer(identity(0, secret=SECRET), 1).hello())
    refusal = called.on_end()
    assert refusal is not None
    assert refusal.status is HandshakeStatus.MAC_MISMATCH
    assert "replica 0 ended the handshake" in refusal.reason


def test_a_finish_that_was_heard_cannot_be_used_again() -> None:
    high = identity(1, secret=SECRET)
    calling, called = dialer(identity(0, secret=SECRET), 1), acceptor(high)
    hello = calling.hello()
    finish = calling.on_frame(called.on_frame(hello).reply).reply
    assert called.on_frame(finish).peer == 0

    again = acceptor(high, start=2_000)
    again.on_frame(hello)
    assert "does not prove" in reason(again.on_frame(finish))


def test_a_challenge_that_was_heard_cannot_be_used_again() -> None:
    low, high = identity(0, secret=SECRET), identity(1, secret=SECRET)
    challenge = acceptor(high).on_frame(dialer(low, 1).hello()).reply
    assert "does not prove" in reason(dialer(low, 1, start=77).on_frame(challenge))


def test_a_proof_that_is_reflected_proves_nothing() -> None:
    """The acceptor's own proof sent back as a Finish, and the dialer's own nonce and proof as a Challenge."""
    low, high = identity(0, secret=SECRET), identity(1, secret=SECRET)
    calling, called = dialer(low, 1), acceptor(high)
    challenge = Handshake.decode(called.on_frame(calling.hello()).reply)
    echoed = Handshake(command=16, cluster=CLUSTER, replica=0, mac=challenge.mac).encode()
    assert "does not prove" in reason(called.on_frame(echoed))

    finish = Handshake.decode(dialer(low, 1).on_frame(acceptor(high).on_frame(dialer(low, 1).hello()).reply).reply)
    mirrored = Handshake(command=15, cluster=CLUSTER, replica=1, nonce=challenge.nonce, mac=finish.mac).encode()
    assert "does not prove" in reason(dialer(low, 1).on_frame(mirrored))


def test_a_proof_for_one_member_is_none_for_another() -> None:
    """What member 0 proves to member 1 cannot be relayed to member 2, nor can it be said by somebody else."""
    low = identity(0, secret=SECRET)
    calling = dialer(low, 1)
    challenge = Handshake.decode(acceptor(identity(2, secret=SECRET)).on_frame(calling.hello()).reply)
    posing = Handshake(command=15, cluster=CLUSTER, replica=1, nonce=challenge.nonce, mac=challenge.mac).encode()
    assert "does not prove" in reason(calling.on_frame(posing))

    called = acceptor(identity(2, secret=SECRET))
    calling = dialer(low, 2)
    finish = Handshake.decode(calling.on_frame(called.on_frame(calling.hello()).reply).reply)
    stolen = Handshake(command=16, cluster=CLUSTER, replica=1, mac=finish.mac).encode()
    assert "replica 1 wants to finish" in reason(called.on_frame(stolen))


def test_whoever_answers_at_the_address_of_another_is_not_taken_for_it() -> None:
    low = identity(0, secret=SECRET)
    challenge = acceptor(identity(2, secret=SECRET)).on_frame(dialer(low, 1).hello()).reply
    assert "replica 2 answers where replica 1 is expected" in reason(dialer(low, 1).on_frame(challenge))


@pytest.mark.parametrize("frame", [heartbeat(replica=1), bytes(256), b"\xff" * 256], ids=["heartbeat", "zeros", "ones"])
def test_a_dialer_that_is_answered_with_anything_else_gives_up(frame: bytes) -> None:
    assert dialer(identity(0, secret=SECRET), 1).on_frame(frame).refused is not None


def test_a_dialer_without_a_secret_does_not_take_a_challenge() -> None:
    challenge = acceptor(identity(1, secret=SECRET)).on_frame(dialer(identity(0, secret=SECRET), 1).hello()).reply
    step = dialer(identity(0), 1).on_frame(challenge)
    assert step.refused is not None
    assert step.refused.status is HandshakeStatus.AUTHENTICATION_REQUIRED


def test_a_second_hello_is_no_finish() -> None:
    calling, called = dialer(identity(0, secret=SECRET), 1), acceptor(identity(1, secret=SECRET))
    called.on_frame(calling.hello())
    assert status_of(called.on_frame(calling.hello())) == HandshakeStatus.UNKNOWN_COMMAND


def test_nonces_are_drawn_for_each_link_and_only_with_a_secret() -> None:
    entropy = Entropy()
    Dialer(identity(0), peer=1, entropy=entropy).hello()
    Acceptor(identity(1), entropy=entropy).on_frame(dialer(identity(0), 1).hello())
    assert entropy.calls == 0
    hellos = {Dialer(identity(0, secret=SECRET), peer=1, entropy=entropy).hello() for _ in range(3)}
    assert len(hellos) == 3


def test_a_secret_does_not_show() -> None:
    """D-20."""
    shown = repr(identity(0, secret=SWAPPED))
    assert repr(SECRET.current)[2:-1] not in shown
    assert "first" not in shown
