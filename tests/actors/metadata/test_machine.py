"""The machine as a whole: root, the gate, what passes through, and what stops the node."""

from collections.abc import Callable

import pytest

from levrier.actors.metadata.machine import Applied, LogCorrupted
from levrier.wire.codes import Operation
from levrier.wire.permissions import Permissions
from levrier.wire.requests.replicated import BootstrapRoot
from levrier.wire.requests.streams import DeleteStream
from tests.actors.metadata.support import HASH, Log, encoded, grant, named, restored, with_users


class TestRoot:
    def test_root_is_user_zero_with_every_global_right(self) -> None:
        """D-01: created at the time of its prepare, with a result section and nothing else in the reply."""
        log = Log()
        assert not log.machine.users.bootstrapped
        assert log.bootstrap("admin") == Applied(0, bytes(4))
        root = log.machine.users.find("admin")
        assert root is not None
        assert (root.id, root.created_at, root.status, root.password_hash) == (0, 1_000_001, 1, HASH)
        assert root.permissions == Permissions.root()
        assert log.machine.users.next_user_id == 1

    def test_a_second_bootstrap_changes_nothing(self) -> None:
        """D-01: whatever name and hash it brings."""
        log = Log()
        log.bootstrap("admin")
        before = encoded(log.machine)
        assert log.bootstrap("other") == Applied(0, bytes(4))
        assert encoded(log.machine) == before
        assert log.machine.users.find("other") is None

    def test_root_survives_a_restore(self) -> None:
        log = Log()
        log.bootstrap("admin")
        copy = restored(log.machine)
        assert copy.users.bootstrapped
        assert copy.users.find("admin") == log.machine.users.find("admin")

    def test_a_user_does_not_show_its_hash(self) -> None:
        """D-20."""
        log = Log()
        log.bootstrap("admin")
        root = log.machine.users.find("admin")
        assert HASH not in repr(root)
        assert HASH not in f"{root} {BootstrapRoot(username='admin', password_hash=HASH)!r}"


class TestPassingThrough:
    @pytest.mark.parametrize(
        ("operation", "user"), [(Operation.REGISTER, 0), (Operation.LOGOUT, 0), (Operation.LOGOUT, 5)]
    )
    def test_a_session_operation_has_an_empty_body_and_no_effect(self, operation: Operation, user: int) -> None:
        """State-machine 12: no result section, never gated."""
        log = Log()
        log.create_stream("s")
        before = encoded(log.machine)
        assert log.apply(operation, b"", user=user) == Applied(0, b"")
        assert encoded(log.machine) == before

    def test_s_008_an_operation_that_nobody_owns(self) -> None:
        """S-008."""
        assert Log().apply(Operation.RESERVED) == Applied(0, b"")

    @pytest.mark.parametrize("operation", [Operation.CREATE_TOPIC, Operation.DELETE_SEGMENTS, Operation.SEND_MESSAGES])
    def test_what_is_no_operation_of_this_group_commits_code_five(self, operation: Operation) -> None:
        log = Log()
        log.bootstrap()
        before = encoded(log.machine)
        assert log.apply(operation, b"\x00") == Applied(5, b"\x01" + bytes(7) + b"\x05" + bytes(3))
        assert encoded(log.machine) == before


class TestCorruption:
    @pytest.mark.parametrize(
        ("operation", "body"),
        [
            (Operation.CREATE_STREAM, b""),
            (Operation.CREATE_STREAM, b"\x05ab"),
            (Operation.DELETE_STREAM, DeleteStream(stream=named("s")).encode()[:-1]),
            (Operation.UPDATE_STREAM, b"\x03\x01a\x01b"),
            (Operation.CREATE_TOPIC_WITH_ASSIGNMENTS, b"\xff\xff\xff\xff"),
            (Operation.BOOTSTRAP_ROOT, b"\x04iggy\xff\xff"),
        ],
    )
    @pytest.mark.parametrize("user", [0, 5])
    def test_an_undecodable_body_is_no_rejection(self, operation: Operation, body: bytes, user: int) -> None:
        """State-machine 1: it names the op, and nothing has changed."""
        log = Log()
        log.create_stream("s")
        before = encoded(log.machine)
        with pytest.raises(LogCorrupted, match=f"op 2 .operation {int(operation)}.") as caught:
            log.apply(operation, body, user=user)
        assert (caught.value.op, caught.value.operation) == (2, operation)
        assert encoded(log.machine) == before


class TestGate:
    def test_s_017_a_user_without_grants(self) -> None:
        """S-017."""
        log = Log(with_users(None))
        assert log.create_stream("s", user=1).code == 41
        assert log.machine.streams.count == 0

    def test_s_018_a_user_who_manages_streams(self) -> None:
        """S-018."""
        log = Log(with_users(grant("manage_streams")))
        assert log.create_stream("s", user=1).code == 0
        assert log.machine.streams.count == 1

    def test_s_019_a_grant_holds_for_its_stream_alone(self) -> None:
        """S-019."""
        log = Log(with_users(grant(stream=(0, ("manage_topics",)))))
        log.create_stream("a")
        log.create_stream("b")
        assert log.create_topic("a", "t", user=1).code == 0
        assert log.create_topic("b", "t", user=1).code == 41

    def test_a_topic_grant_holds_for_its_topic_alone(self) -> None:
        log = Log(with_users(grant(topic=(0, 1, ("manage_topic",)))))
        log.create_stream("s")
        log.create_topic("s", "a", [0])
        log.create_topic("s", "b", [0])
        steps: list[Callable[[str], Applied]] = [
            lambda topic: log.create_partitions("s", topic, [0], user=1),
            lambda topic: log.truncate("s", topic, 0, 1, user=1),
            lambda topic: log.purge_topic("s", topic, user=1),
            lambda topic: log.update_topic("s", topic, topic, user=1),
            lambda topic: log.delete_partitions("s", topic, 1, user=1),
            lambda topic: log.delete_topic("s", topic, user=1),
        ]
        for step in steps:
            assert [step(topic).code for topic in ("a", "b")] == [41, 0]

    def test_s_021_an_operation_of_the_node_is_not_gated(self) -> None:
        """S-021: user 0, before there is any user."""
        log = Log()
        assert log.create_stream("s").code == 0

    def test_s_023_the_same_log_gives_the_same_codes(self) -> None:
        """S-023, as far as root: the third creator is nobody, and both machines say so."""
        logs = [Log(), Log()]
        for log in logs:
            codes = [log.bootstrap().code, log.create_stream("s").code, log.create_stream("t", user=1).code]
            assert codes == [0, 0, 41]
            assert log.machine.streams.count == 1
        assert encoded(logs[0].machine) == encoded(logs[1].machine)

    def test_br_41_a_freed_stream_id_takes_its_grants_with_it(self) -> None:
        """BR-41, D-02: whoever gets the id next is not the old user's."""
        log = Log(with_users(grant(stream=(0, ("manage_stream", "manage_topics"))), grant("manage_streams")))
        log.create_stream("s")
        assert log.update_stream(0, "renamed", user=1).code == 0
        assert log.delete_stream(0).code == 0
        log.create_stream("newcomer")
        for machine in (log.machine, restored(log.machine)):
            assert Log(machine).update_stream(0, "taken", user=1).code == 41
            assert Log(machine).update_stream(0, "mine", user=2).code == 0

    def test_br_41_a_freed_topic_id_takes_its_grants_with_it(self) -> None:
        """BR-41, D-02: other topics keep theirs."""
        log = Log(with_users(grant(topic=(0, 0, ("manage_topic",))), grant(topic=(0, 1, ("manage_topic",)))))
        log.create_stream("s")
        log.create_topic("s", "a")
        log.create_topic("s", "b")
        assert log.purge_topic(0, 0, user=1).code == 0
        log.delete_topic(0, 0)
        log.create_topic("s", "newcomer")
        for machine in (log.machine, restored(log.machine)):
            assert Log(machine).purge_topic(0, 0, user=1).code == 41
            assert Log(machine).purge_topic(0, 1, user=2).code == 0

    def test_a_rejected_delete_takes_no_grant(self) -> None:
        log = Log(with_users(grant(stream=(0, ("manage_stream",)))))
        log.create_stream("s")
        assert log.delete_topic(0, 0).code == 2010
        assert log.update_stream(0, "still", user=1).code == 0
