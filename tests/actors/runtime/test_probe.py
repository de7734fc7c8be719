"""The probe: it must notice what was told and what was not, or no actor's test can fail."""

import pytest

from levrier.actors.runtime import Probe


def test_messages_are_taken_in_order() -> None:
    probe = Probe[int]()
    for number in (1, 2, 3):
        probe.tell(number)

    assert probe.take() == 1
    assert probe.count == 2
    assert probe.take_all() == [2, 3]
    assert probe.take_all() == []


def test_taking_from_a_silent_probe_fails() -> None:
    with pytest.raises(AssertionError, match="client was told nothing"):
        Probe[int]("client").take()


def test_silence_is_asserted() -> None:
    probe = Probe[int]("client")
    probe.assert_silent()
    probe.tell(7)

    with pytest.raises(AssertionError, match=r"client was told \[7\]"):
        probe.assert_silent()


def test_waiting_in_vain_fails() -> None:
    probe = Probe[int]("client")
    probe.tell(7)

    with pytest.raises(AssertionError, match="client was told 1 of 2 messages"):
        probe.wait(2, timeout_seconds=0.001)
