"""Outcomes: codes, and the bodies that carry them (state-machine 3)."""

import pytest

from levrier.actors.metadata.machine import Applied
from levrier.wire.codes import COMMITTED_CODES, Operation, is_committed_code
from levrier.wire.error_codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.replies import result_code
from tests.actors.metadata.support import BAD_OPTIONS, Log, Step


def _too_many_partitions(log: Log) -> Applied:
    return log.create_topic("s", "t", groups=((1_000_000, 1),))


REJECTIONS: list[tuple[int, Step]] = [
    (1009, lambda log: log.delete_stream("absent")),
    (1012, lambda log: log.create_stream("s")),
    (2010, lambda log: log.delete_topic("s", "absent")),
    (2013, lambda log: log.create_topic("s", "full")),
    (2019, lambda log: log.delete_partitions("s", "full", 3)),
    (3007, lambda log: log.truncate("s", "full", 9, 1)),
    (3013, _too_many_partitions),
    (4042, lambda log: log.create_stream("new", BAD_OPTIONS)),
]


def populated() -> Log:
    log = Log()
    log.create_stream("s")
    log.create_topic("s", "full", [0, 1])
    return log


@pytest.mark.parametrize(("code", "step"), REJECTIONS)
def test_s_013_a_rejection_is_twelve_bytes_with_its_code(code: int, step: Step) -> None:
    """S-013: count 1, index 0, the code, nothing else."""
    applied = step(populated())
    assert applied == Applied(code, b"\x01\x00\x00\x00\x00\x00\x00\x00" + code.to_bytes(4, "little"))
    assert result_code(applied.body) == code


def test_s_013_a_success_is_count_zero_and_the_payload() -> None:
    """S-013."""
    log = populated()
    assert log.update_stream("s", "renamed") == Applied(0, bytes(4))
    created = log.create_stream("other")
    assert created.body[:4] == bytes(4)
    assert len(created.body) > 4
    assert result_code(created.body) == 0


@pytest.mark.parametrize("body", [b"", b"\x01\x00\x00\x00", b"\x01\x00\x00\x00\x00\x00\x00\x00\x41"])
def test_s_014_a_body_too_short_for_its_claim_is_never_success(body: bytes) -> None:
    """S-014."""
    with pytest.raises(WireError):
        result_code(body)


@pytest.mark.parametrize(
    ("operation", "code", "recognised"),
    [
        (Operation.PURGE_STREAM, 0, True),
        (Operation.PURGE_STREAM, 1009, True),
        (Operation.PURGE_STREAM, 41, True),
        (Operation.PURGE_STREAM, 2010, False),
        (Operation.PURGE_STREAM, 9999, False),
        (Operation.CREATE_TOPIC_WITH_ASSIGNMENTS, 2013, True),
        (Operation.SEND_MESSAGES, 9999, True),
    ],
)
def test_s_015_an_operation_commits_the_codes_of_its_row(operation: int, code: int, recognised: bool) -> None:
    """S-012 and S-015: 0 is success, undeclared codes and those of other rows are not recognised."""
    assert is_committed_code(operation, code) is recognised


def test_s_016_every_declared_code_is_one_of_the_table() -> None:
    """S-012 and S-016: each code a member of the error table, and 3013 is not the per-request cap."""
    declared = frozenset().union(*COMMITTED_CODES.values()) - {0}
    assert {ErrorCode(code) for code in declared} == {
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.UNAUTHORIZED,
        ErrorCode.INVALID_CREDENTIALS,
        ErrorCode.INVALID_USERNAME,
        ErrorCode.USER_ALREADY_EXISTS,
        ErrorCode.CANNOT_DELETE_USER,
        ErrorCode.CANNOT_CHANGE_PERMISSIONS,
        ErrorCode.PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS,
        ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY,
        ErrorCode.STREAM_ID_NOT_FOUND,
        ErrorCode.STREAM_NAME_ALREADY_EXISTS,
        ErrorCode.TOO_MANY_STREAMS,
        ErrorCode.TOPIC_ID_NOT_FOUND,
        ErrorCode.TOPIC_NAME_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS_COUNT,
        ErrorCode.TOO_MANY_TOPICS,
        ErrorCode.PARTITION_NOT_FOUND,
        ErrorCode.PARTITION_ID_SPACE_EXHAUSTED,
        ErrorCode.INVALID_OPTION_VALUE,
        ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND,
        ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS,
        ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND,
    }
    assert ErrorCode.TOO_MANY_PARTITIONS not in declared
