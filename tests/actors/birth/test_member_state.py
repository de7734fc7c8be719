"""The bodies of MemberState frames: what is written is read, and nothing else is (D-34)."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levrier.actors.birth.member_state import Answer, Ask, Hello, MemberPhase, MemberState, decode
from levrier.wire.errors import WireError

U128 = st.integers(min_value=1, max_value=2**128 - 1)
HELLOS = st.builds(
    Hello,
    phase=st.sampled_from((MemberPhase.PREPARED, MemberPhase.BORN)),
    birth_id=U128,
    voter=st.booleans(),
    replica_count=st.integers(1, 32),
    admits=st.booleans(),
)
BLANK = Hello(phase=MemberPhase.BLANK, birth_id=0, voter=False, replica_count=3, admits=False)
ANSWERS = st.builds(
    Answer,
    nonce=U128,
    view=st.integers(0, 2**32 - 1),
    is_primary=st.booleans(),
    op=st.integers(0, 2**64 - 1),
    checksum=st.integers(0, 2**128 - 1),
)


@given(st.one_of(HELLOS, st.just(BLANK), st.builds(Ask, nonce=U128), ANSWERS))
def test_what_is_written_is_read(state: MemberState) -> None:
    assert decode(state.encode()) == state


@given(st.binary(max_size=300))
def test_other_bytes_are_refused_or_read(data: bytes) -> None:
    """Whatever a peer sends, it is a state that encodes to something, or a WireError."""
    try:
        state = decode(data)
    except WireError:
        return
    assert decode(state.encode()) == state


ID = (7).to_bytes(16, "little")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], "no array"),
        ({"a": 1}, "no array"),
        ([9], "no MemberState"),
        ([0, 1, ID, True, 3], "no MemberState"),
        ([0, 3, ID, True, 3, False], "phase 3"),
        ([0, 0, ID, True, 3, False], "phase 0"),
        ([0, 2, bytes(16), True, 3, False], "phase 2"),
        ([1, b"short"], "number of 5 bytes"),
        ([2, ID, -1, True, 0, ID], "view -1"),
        ([2, ID, 1 << 32, True, 0, ID], "view 4294967296"),
    ],
)
def test_what_breaks_a_rule_is_refused(body: object, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        decode(msgpack.packb(body))


def test_a_long_body_is_not_even_looked_at() -> None:
    with pytest.raises(WireError, match="at most 256"):
        decode(bytes(257))
