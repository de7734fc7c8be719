"""Every request and response body: round trips, truncation, damage, over-long counts."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from levrier.wire.body import Body, EmptyBody, ResponseBody
from levrier.wire.errors import TrailingBytes, Truncated, WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.requests import login, replicated, streams, tokens, topics, users
from levrier.wire.requests.groups import JoinConsumerGroup
from levrier.wire.requests.partitions import CreatePartitions
from levrier.wire.responses import groups as group_responses
from levrier.wire.responses import streams as stream_responses
from levrier.wire.responses import system as system_responses
from levrier.wire.responses import topics as topic_responses
from levrier.wire.responses import users as user_responses
from tests.wire.strategies import REQUESTS, RESPONSES

ALL = REQUESTS | RESPONSES
FORMS = sorted(ALL, key=lambda form: (form.__module__, form.__name__))
IDS = [f"{form.__module__.rsplit('.', 2)[-2]}.{form.__name__}" for form in FORMS]
QUICK = settings(
    max_examples=12, deadline=None, database=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def _sample(strategy: SearchStrategy[Any]) -> list[Any]:
    """A few fixed examples of a strategy."""
    found: list[Any] = []

    @settings(max_examples=2, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return found


@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_what_is_encoded_is_decoded_again(form: type[Any]) -> None:
    @QUICK
    @given(ALL[form])
    def check(value: Any) -> None:
        encoded = value.encode()
        decoded = form.decode(encoded)
        assert decoded == value
        assert type(decoded) is form
        assert decoded.encode() == encoded

    check()


@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_bytes_cut_anywhere_are_refused_or_another_value(form: type[Any]) -> None:
    for value in _sample(ALL[form]):
        encoded = value.encode()
        for end in range(len(encoded)):
            with suppress(WireError):
                assert form.decode(encoded[:end]) != value


@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_a_damaged_byte_is_refused_or_another_value(form: type[Any]) -> None:
    for value in _sample(ALL[form]):
        encoded = value.encode()
        for index in range(len(encoded)):
            for mask in (0x01, 0xFF):
                damaged = encoded[:index] + bytes((encoded[index] ^ mask,)) + encoded[index + 1 :]
                with suppress(WireError):
                    form.decode(damaged).encode()


@pytest.mark.parametrize("form", FORMS, ids=IDS)
def test_any_bytes_give_a_wire_error_or_a_value_that_encodes(form: type[Any]) -> None:
    @QUICK
    @given(st.binary(max_size=80))
    def check(data: bytes) -> None:
        with suppress(WireError):
            value = form.decode(data)
            assert form.decode(value.encode()).encode() == value.encode()

    check()


@pytest.mark.parametrize(
    "form",
    [form for form in FORMS if not issubclass(form, ResponseBody) and not hasattr(form, "options")],
    ids=lambda form: form.__name__,
)
def test_bytes_behind_a_request_are_ignored_unless_it_has_no_body_at_all(form: type[Any]) -> None:
    for value in _sample(ALL[form]):
        if not issubclass(form, EmptyBody):
            assert form.decode(value.encode() + b"\x00") == value
        with pytest.raises(TrailingBytes):
            form.decode_whole(value.encode() + b"\x00")


@pytest.mark.parametrize(
    "form",
    [form for form in FORMS if issubclass(form, ResponseBody) and not form.__name__.endswith("List")],
    ids=lambda form: form.__name__,
)
def test_bytes_behind_a_response_are_ignored(form: type[Any]) -> None:
    for value in _sample(ALL[form]):
        assert form.decode(value.encode() + b"\xff") == value


def test_every_body_of_the_package_has_a_strategy() -> None:
    def below(base: type[Any]) -> set[str]:
        return {name for child in base.__subclasses__() for name in {_full_name(child)} | below(child)}

    written = {name for name in below(Body) if name.startswith(("levrier.wire.requests", "levrier.wire.responses"))}

    assert written == {_full_name(form) for form in ALL}


def _full_name(form: type[Any]) -> str:
    return f"{form.__module__}.{form.__qualname__}"


def test_an_empty_answer_means_not_found() -> None:
    assert stream_responses.StreamDetails.decode_found(b"") is None
    details = stream_responses.StreamDetails(stream=stream_responses.StreamHeader(id=1, created_at=2, name="s"))
    assert stream_responses.StreamDetails.decode_found(details.encode()) == details


HUGE = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (replicated.JoinConsumerGroupReplicated, b"\x01\x04\0\0\0\0" * 3 + bytes(16) + HUGE + bytes(8)),
        (
            replicated.CreatePartitionsWithAssignments,
            b"\x10\0\0\0" + b"\x01\x04\0\0\0\0" * 2 + bytes(4) + HUGE + bytes(16),
        ),
        (group_responses.ConsumerGroupAssignment, bytes(8) + HUGE + bytes(8)),
        (group_responses.ConsumerGroupDetails, bytes(8) + HUGE + b"\x01g" + bytes(8)),
        (topic_responses.TopicList, HUGE + bytes(60)),
        (system_responses.ClusterMetadata, b"\0\0\0\0" + HUGE + bytes(18)),
        (system_responses.OptionDescriptions, HUGE + bytes(20)),
    ],
)
def test_a_count_that_cannot_be_true_is_refused_before_anything_is_read(form: type[Any], body: bytes) -> None:
    with pytest.raises(WireError, match=r"in \d+ bytes"):
        form.decode(body)


def test_a_token_creation_in_the_log_keeps_all_its_fields() -> None:
    """S-024"""
    value = replicated.CreatePersonalAccessTokenReplicated(
        user_id=7, name="ci", expiry=3_600_000_000, token_hash="0123456789abcdef" * 4
    )

    encoded = value.encode()

    assert encoded == b"\x07\0\0\0" + b"\x02ci" + (3_600_000_000).to_bytes(8, "little") + b"0123456789abcdef" * 4
    assert replicated.CreatePersonalAccessTokenReplicated.decode(encoded) == value


@pytest.mark.parametrize("token_hash", ["", "A" * 64, "g" * 64, "0" * 63, "0" * 65, "é" * 32])
def test_a_token_hash_is_64_lowercase_hex_digits(token_hash: str) -> None:
    value = replicated.CreatePersonalAccessTokenReplicated(user_id=7, name="ci", expiry=0, token_hash=token_hash)

    with pytest.raises(WireError, match="hex"):
        value.encode()


def test_a_token_deletion_in_the_log_keeps_all_its_fields() -> None:
    """S-025"""
    value = replicated.DeletePersonalAccessTokenReplicated(user_id=11, name="old", only_if_expired=True)

    encoded = value.encode()

    assert encoded == b"\x0b\0\0\0\x03old\x01"
    assert replicated.DeletePersonalAccessTokenReplicated.decode(encoded) == value


def test_a_truncation_in_the_log_keeps_all_its_fields() -> None:
    """S-044"""
    value = replicated.TruncatePartition(
        stream=Identifier(1), topic=Identifier("events"), partition_id=2, up_to_offset=1 << 40
    )

    encoded = value.encode()

    assert encoded == b"\x01\x04\x01\0\0\0" + b"\x02\x06events" + b"\x02\0\0\0" + (1 << 40).to_bytes(8, "little")
    assert replicated.TruncatePartition.decode(encoded) == value


def test_a_topic_with_assignments_ends_in_the_view_that_assigned_them() -> None:
    """Decision D-33."""
    value = replicated.CreateTopicWithAssignments(
        request=topics.CreateTopic(stream=Identifier(3), partitions_count=2, name="t"),
        derived_options=b"",
        assignments=((0, 41), (1, 42)),
        created_view=9,
    )

    assert value.encode() == b"".join(
        (
            b"\x0c\0\0\0" + b"\x01\x04\x03\0\0\0" + b"\x02\0\0\0" + b"\x01t",
            b"\0\0\0\0",
            b"\x02\0\0\0" + b"\0\0\0\0" + (41).to_bytes(8, "little") + b"\x01\0\0\0" + (42).to_bytes(8, "little"),
            b"\x09\0\0\0",
        )
    )


def test_partitions_with_assignments_end_in_the_view_that_assigned_them() -> None:
    """Decision D-33."""
    value = replicated.CreatePartitionsWithAssignments(
        request=CreatePartitions(stream=Identifier(0), topic=Identifier(0), partitions_count=1),
        assignments=((0, 7),),
        created_view=5,
    )

    assert value.encode()[-4:] == b"\x05\0\0\0"


def test_the_bootstrap_of_root_is_a_name_and_a_hash_behind_a_u16() -> None:
    """Decision D-01."""
    value = replicated.BootstrapRoot(username="iggy", password_hash="$argon2id$x")

    assert value.encode() == b"\x04iggy" + b"\x0b\0" + b"$argon2id$x"


@pytest.mark.parametrize(
    "request_body",
    [
        users.CreateUser(username="bob", password="s3cr3t-marker"),
        users.ChangePassword(user=Identifier(1), current_password="s3cr3t-marker", new_password="s3cr3t-marker"),
        login.LoginWithPassword(
            protocol_version=1, sdk_name="a", sdk_version="b", username="c", password="s3cr3t-marker"
        ),
        login.LoginWithToken(protocol_version=1, sdk_name="a", sdk_version="b", token="s3cr3t-marker"),
        replicated.BootstrapRoot(username="iggy", password_hash="s3cr3t-marker"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_is_not_part_of_a_representation(request_body: Body) -> None:
    """Decision D-20."""
    assert "s3cr3t-marker" not in repr(request_body)
    assert b"s3cr3t-marker" in request_body.encode()


def test_a_password_login_does_not_read_as_a_token_login() -> None:
    body = login.LoginWithPassword(
        protocol_version=11264, sdk_name="rust-sdk", sdk_version="0.11.0", username="iggy", password="iggy"
    )

    forms = login.LoginForms.decode(body.encode())

    assert forms.password == body
    assert forms.token is None


def test_a_token_login_does_not_read_as_a_password_login() -> None:
    body = login.LoginWithToken(protocol_version=11264, sdk_name="rust-sdk", sdk_version="0.11.0", token="t" * 24)

    forms = login.LoginForms.decode(body.encode())

    assert forms.password is None
    assert forms.token == body


def test_a_login_of_neither_form_is_refused_though_its_prefix_decodes() -> None:
    body = b"\0\x2c\0\0\x01a\x01b\x05"

    assert login.LoginPrefix.decode(body).protocol_version == 11264
    with pytest.raises(WireError, match="neither"):
        login.LoginForms.decode(body)


@pytest.mark.parametrize("flag", [2, 255])
def test_a_presence_flag_is_0_or_1(flag: int) -> None:
    body = b"\x01\x04\0\0\0\0" + bytes((flag,))

    with pytest.raises(WireError, match="neither 0 nor 1"):
        users.UpdatePermissions.decode(body)


def test_the_length_of_permissions_must_be_what_they_take() -> None:
    body = b"\x01\x04\0\0\0\0" + b"\x01" + b"\x0c\0\0\0" + bytes(12)

    with pytest.raises(TrailingBytes):
        users.UpdatePermissions.decode(body)


def test_a_user_without_permissions_ends_in_four_zero_bytes() -> None:
    details = user_responses.UserDetails(
        user=user_responses.User(id=1, created_at=2, status=1, username="bob"), permissions=None
    )

    assert details.encode() == details.user.encode() + bytes(4)
    with pytest.raises(Truncated):
        user_responses.UserDetails.decode(details.encode()[:-1])


def test_requests_of_one_shape_are_different_values() -> None:
    delete: Body = streams.DeleteStream(stream=Identifier(1))
    purge: Body = streams.PurgeStream(stream=Identifier(1))

    assert delete != purge
    assert delete == streams.DeleteStream(stream=Identifier(1))


@pytest.mark.parametrize(
    "value",
    [
        tokens.CreatePersonalAccessToken(name="", expiry=0),
        tokens.CreatePersonalAccessToken(name="x" * 256, expiry=0),
        tokens.CreatePersonalAccessToken(name="x", expiry=-1),
        tokens.CreatePersonalAccessToken(name="x", expiry=1 << 64),
        tokens.CreatePersonalAccessToken(name="\ud800", expiry=0),
        JoinConsumerGroup(stream=Identifier(-1), topic=Identifier(0), group=Identifier(0)),
        JoinConsumerGroup(stream=Identifier(1 << 32), topic=Identifier(0), group=Identifier(0)),
        users.CreateUser(username="bob", password="x" * 256),
    ],
    ids=repr,
)
def test_a_field_that_the_wire_cannot_carry_is_refused(value: Body) -> None:
    with pytest.raises(WireError):
        value.encode()


def test_details_must_count_what_they_hold() -> None:
    header = stream_responses.StreamHeader(id=0, created_at=0, topics_count=1, name="s")

    with pytest.raises(WireError, match="0 topics"):
        stream_responses.StreamDetails(stream=header).encode()
