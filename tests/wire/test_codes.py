"""The closed sets of numbers and the tables over them."""

import pytest

from levrier.wire.codes import (
    CLIENT_ALLOWED,
    CODE_NAMES,
    COMMITTED_CODES,
    INTERNAL_OPERATIONS,
    LEVRIER_STATUS,
    METADATA_OPERATIONS,
    OPERATION_OF_COMMAND,
    OPERATIONS,
    PARTITION_OPERATIONS,
    REPLICATED_FORM,
    RESULT_FRAMED,
    Command,
    CommandCode,
    ErrorCode,
    EvictionReason,
    Operation,
    is_committed_code,
)
from levrier.wire.errors import (
    ChecksumMismatch,
    InvalidOptionValue,
    InvalidTopicSize,
    OptionsBlockTooLarge,
    TooManyPartitions,
    UnsupportedOption,
    WireError,
)


def test_the_operations_are_those_of_the_table() -> None:
    assert {1, 2, 3, *range(64, 70), *range(128, 150), 160, 161, 162} == OPERATIONS


def test_what_a_client_may_send() -> None:
    assert {1, 2, 3, *range(128, 150), 160, 161, 162} == CLIENT_ALLOWED
    assert set(range(64, 70)) == INTERNAL_OPERATIONS
    assert not INTERNAL_OPERATIONS & CLIENT_ALLOWED


def test_what_lives_in_the_metadata_log() -> None:
    assert {1, 3, *range(64, 70), *range(128, 138), *range(139, 150)} == METADATA_OPERATIONS
    assert not METADATA_OPERATIONS & PARTITION_OPERATIONS


def test_whose_replies_start_with_a_result_section() -> None:
    assert {1, *range(64, 70), *range(128, 138), *range(139, 150), 161, 162} == RESULT_FRAMED
    assert set(REPLICATED_FORM.values()) <= RESULT_FRAMED


def test_the_commands_are_those_of_the_table_and_three_of_our_own() -> None:
    """Decision D-34."""
    assert {int(command) for command in Command} == {*range(30), 64, 65, 66}


@pytest.mark.parametrize("code", ErrorCode)
def test_every_error_code_converts_both_ways(code: ErrorCode) -> None:
    """S-012"""
    assert ErrorCode(int(code)) is code
    assert ErrorCode[CODE_NAMES[int(code)]] is code


@pytest.mark.parametrize("number", [0, 17, 9999])
def test_an_undeclared_number_is_no_error_code(number: int) -> None:
    """S-012: 0 is success and names no error."""
    assert number not in CODE_NAMES
    with pytest.raises(ValueError):
        ErrorCode(number)


@pytest.mark.parametrize(
    ("operation", "code", "legal"),
    [
        (128, 0, True),
        (128, 1012, True),
        (132, 2013, True),
        (64, 2013, True),
        (138, 3007, True),
        (68, 3007, True),
        (160, 9999, True),
        (161, 3021, True),
        (131, 41, True),
        (66, 41, True),
        (128, 9999, False),
        (131, 2010, False),
        (66, 20, False),
        (2, 0, False),
    ],
)
def test_which_codes_an_operation_may_commit(operation: int, code: int, legal: bool) -> None:
    """S-015"""
    assert is_committed_code(operation, code) is legal


@pytest.mark.parametrize("operation", sorted(COMMITTED_CODES))
def test_success_and_unauthorized_are_legal_for_every_metadata_operation(operation: int) -> None:
    """S-015"""
    assert {0, 41} <= COMMITTED_CODES[operation]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("STREAM_ID_NOT_FOUND", 1009),
        ("STREAM_NAME_ALREADY_EXISTS", 1012),
        ("TOPIC_ID_NOT_FOUND", 2010),
        ("TOPIC_NAME_ALREADY_EXISTS", 2013),
        ("INVALID_PARTITIONS_COUNT", 2019),
        ("USER_ALREADY_EXISTS", 46),
        ("INVALID_USERNAME", 43),
        ("RESOURCE_NOT_FOUND", 20),
        ("CANNOT_DELETE_USER", 48),
        ("CANNOT_CHANGE_PERMISSIONS", 49),
        ("INVALID_CREDENTIALS", 42),
        ("PERSONAL_ACCESS_TOKEN_ALREADY_EXISTS", 51),
        ("INVALID_PERSONAL_ACCESS_TOKEN_EXPIRY", 56),
        ("CONSUMER_GROUP_NAME_ALREADY_EXISTS", 5004),
        ("CONSUMER_GROUP_ID_NOT_FOUND", 5000),
        ("CONSUMER_GROUP_MEMBER_NOT_FOUND", 5006),
        ("TOO_MANY_STREAMS", 1020),
        ("TOO_MANY_TOPICS", 2021),
        ("PARTITION_ID_SPACE_EXHAUSTED", 3013),
        ("UNAUTHORIZED", 41),
        ("TOO_MANY_PARTITIONS", 2015),
    ],
)
def test_a_declared_code_is_its_documented_error(name: str, number: int) -> None:
    """S-016: 3013 is not the cap of one request, which is 2015."""
    assert ErrorCode[name] == number


def test_every_committed_code_is_an_error_of_the_table() -> None:
    """S-016"""
    committed = {code for row in COMMITTED_CODES.values() for code in row} - {0}

    assert committed <= set(CODE_NAMES)
    assert 2015 not in committed


def test_the_rows_that_our_decisions_change() -> None:
    """Decisions D-03 and D-04."""
    assert 48 in COMMITTED_CODES[Operation.UPDATE_USER]
    assert 20 in COMMITTED_CODES[Operation.CREATE_PERSONAL_ACCESS_TOKEN]


def test_each_command_code_of_a_replicated_command_has_the_operation_of_its_name() -> None:
    for code, operation in OPERATION_OF_COMMAND.items():
        name = CommandCode(code).name
        if name in ("LOGIN_REGISTER", "LOGIN_REGISTER_WITH_PAT"):
            assert operation is Operation.REGISTER
        elif name == "LOGOUT_USER":
            assert operation is Operation.LOGOUT
        else:
            assert operation.name == name


def test_our_own_command_code_is_none_of_the_reference() -> None:
    assert LEVRIER_STATUS not in {int(code) for code in CommandCode}
    assert LEVRIER_STATUS < 1 << 32


def test_the_eviction_reasons_are_numbered_without_gaps() -> None:
    assert [int(reason) for reason in EvictionReason] == list(range(16))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WireError, 3),
        (ChecksumMismatch, 4),
        (UnsupportedOption, 4041),
        (InvalidOptionValue, 4042),
        (OptionsBlockTooLarge, 4043),
        (InvalidTopicSize, 1019),
        (TooManyPartitions, 2015),
    ],
)
def test_an_error_names_the_code_of_its_answer(error: type[WireError], code: int) -> None:
    raised = error("too big", "size")

    assert raised.code == code
    assert (raised.what, raised.where) == ("too big", "size")
    assert str(raised) == "size: too big"
