"""Random histories of every operation, by users with random rights, against the reference model (state-machine 2 to 10, 16).

After each operation the code and the bytes of the reply have to be those of the model. After each history the state has to be
the model's to the last field, a restored and a replayed machine have to have the same bytes, and then all three go on together.
"""

import os
from collections import Counter
from collections.abc import Sequence

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from levrier.actors.metadata import permissions, queries
from levrier.actors.metadata.machine import Applied, MetadataMachine
from levrier.actors.metadata.permissions import Rule
from levrier.cluster.simulate.checkers.model import layout
from levrier.cluster.simulate.checkers.model.machine import OPERATIONS, Model, Outcome
from levrier.cluster.simulate.checkers.model.reads import answer
from levrier.wire.codes import COMMITTED_CODES
from levrier.wire.headers import PrepareHeader
from tests.actors.metadata.model_reads import every_read
from tests.actors.metadata.model_steps import CLIENTS, KEYS, NUMBERS, entry, first_step, for_model, make_step
from tests.actors.metadata.support import decoded, encoded

STATE_CHECKED = 20
"""The whole state is compared after so many operations, and at the end."""

SEQUENCES = 200
SEQUENCES_LONG = int(os.environ.get("LEVRIER_MODEL_SEQUENCES", "10000"))

RULES: dict[str, Rule] = {
    "create_stream": permissions.CREATE_STREAM,
    "get_streams": permissions.READ_STREAMS,
    "get_stream": permissions.READ_STREAM,
    "manage_stream": permissions.MANAGE_STREAM,
    "get_topics": permissions.READ_TOPICS,
    "get_topic": permissions.READ_TOPIC,
    "create_topic": permissions.CREATE_TOPIC,
    "manage_topic": permissions.MANAGE_TOPIC,
    "poll_messages": permissions.POLL,
    "append_messages": permissions.SEND,
    "system": permissions.READ_SERVERS,
    "get_users": permissions.READ_USERS,
    "manage_users": permissions.MANAGE_USERS,
}


class History:
    """The model, the machines that have to agree with it, and the log."""

    def __init__(self) -> None:
        self.model = Model()
        self.machines = [MetadataMachine()]
        self.log: list[tuple[PrepareHeader, bytes]] = []
        self.time = 0
        self.seen: Counter[tuple[int, int]] = Counter()
        self.handed_over = 0

    def commit(self, numbers: Sequence[int]) -> None:
        """Apply the steps of these numbers everywhere and compare what comes out."""
        for number in numbers:
            op = len(self.log) + 1
            step = first_step() if op == 1 else make_step(number, op, self.model, time=self.time)
            self.time = step.time
            header, body = entry(step, op)
            self.log.append((header, body))
            revision = self.model.revision
            expected = applied_like(self.model.apply(for_model(step)))
            for machine in self.machines:
                assert machine.apply(header, body) == expected, step
            assert expected.code in COMMITTED_CODES[step.operation]
            self.seen[step.operation, expected.code] += 1
            self.handed_over += step.operation == 67 and self.model.revision > revision
            if op % STATE_CHECKED == 0:
                self.check_state()

    def check_state(self) -> None:
        """One encoding on all machines, and it is the model's."""
        state = encoded(self.machines[0])
        for machine in self.machines[1:]:
            assert encoded(machine) == state
        users, streams, *counters = state
        assert [msgpack.unpackb(users), msgpack.unpackb(streams), *counters] == list(layout.sections(self.model))

    def check_reads(self) -> None:
        """Every read by every user, and by one who is no more."""
        machine, model = self.machines[-1], self.model
        for read in every_read(model, KEYS):
            for user in (*model.users, model.next_user + 1):
                client = CLIENTS[user % len(CLIENTS)]
                told = queries.answer(machine, user, client, read.code, read.body)
                assert told == answer(model, user, client, read), (user, read)

    def check_rights(self) -> None:
        """Every rule for every user on every stream and topic, present or not."""
        machine, model = self.machines[-1], self.model
        for user in (*model.users, model.next_user + 1):
            for name, rule in RULES.items():
                for stream in (None, 0, 1, 2):
                    for topic in (None, 0, 1) if stream is not None else (None,):
                        assert machine.allows(user, rule, stream, topic) is model.allows(user, name, stream, topic)

    def restore(self) -> None:
        """Go on with two more machines: one from the encoded state, one from the log."""
        replayed = MetadataMachine()
        for header, body in self.log:
            replayed.apply(header, body)
        self.machines += [decoded(encoded(self.machines[0])), replayed]


def applied_like(outcome: Outcome) -> Applied:
    return Applied(outcome.code, outcome.body, outcome.dropped_users)


def run(numbers: Sequence[int], continuation: Sequence[int]) -> History:
    """One history: live, then restored and replayed and continued."""
    history = History()
    history.commit([0, *numbers])
    history.check_state()
    history.restore()
    history.check_state()
    history.check_reads()
    capture = history.machines[0].capture(len(history.log), history.time)
    captured = b"".join(capture.users()), b"".join(capture.streams())
    history.commit(continuation)
    history.check_state()
    history.check_rights()
    history.check_reads()
    assert (b"".join(capture.users()), b"".join(capture.streams())) == captured
    return history


histories = st.tuples(
    st.lists(st.integers(0, NUMBERS - 1), min_size=40, max_size=120),
    st.lists(st.integers(0, NUMBERS - 1), min_size=20, max_size=40),
)


@settings(max_examples=SEQUENCES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(histories)
def test_br_21_br_40_machine_and_model_agree_live_restored_and_replayed(numbers: tuple[list[int], list[int]]) -> None:
    """BR-21, BR-40, D-05; state-machine 3 to 10 and 16."""
    run(*numbers)


@pytest.mark.long
@settings(max_examples=SEQUENCES_LONG, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(histories)
def test_br_21_br_40_machine_and_model_agree_over_thousands_of_histories(numbers: tuple[list[int], list[int]]) -> None:
    """The same, as often as LEVRIER_MODEL_SEQUENCES says."""
    run(*numbers)


def test_the_histories_meet_every_operation_and_nearly_every_rejection() -> None:
    """The generator is worth its time: every operation succeeds and every pair of operation and code comes up, but the
    tables that are full (1020, 2021), which only a million streams make."""
    seen: Counter[tuple[int, int]] = Counter()
    handed_over = 0
    for start in range(60):
        history = History()
        history.commit(range(start * 1_000, start * 1_000 + 250))
        history.check_state()
        seen += history.seen
        handed_over += history.handed_over
    wanted = {
        (operation, code)
        for operation, codes in COMMITTED_CODES.items()
        for code in codes
        if operation in OPERATIONS and (code != 41 or operation not in {66, 67, 69})
    }
    assert wanted - seen.keys() == {(128, 1020), (64, 2021)}
    assert handed_over > 10
