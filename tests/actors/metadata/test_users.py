"""Operations on users: the order of checks, what they leave, and whole deletion (state-machine 5; D-02, D-03)."""

from collections.abc import Callable

import pytest

from levrier.actors.metadata.machine import Applied
from levrier.wire.codes import Operation
from levrier.wire.options import KIND_STRING, OptionEntry, encode_block
from levrier.wire.permissions import Permissions
from levrier.wire.replies import result_payload
from levrier.wire.responses.users import UserDetails
from tests.actors.metadata.support import BAD_OPTIONS, HASH, Key, encoded, restored
from tests.actors.metadata.user_log import MANAGE_STREAMS, POLL, UserLog, with_alice

OTHER_HASH = "$argon2id$v=19$m=8,t=1,p=1$b3RoZXJzYWx0$b3RoZXI"
OPTIONS = encode_block([OptionEntry("colour", KIND_STRING, b"red")])


class TestCreate:
    def test_the_reply_shows_what_was_sent(self) -> None:
        """State-machine 3: the status byte as sent, although anything but 1 and 2 is stored as active."""
        log = UserLog()
        applied = log.create_user("alice", POLL, status=9, options=OPTIONS)
        details = UserDetails.decode(result_payload(applied.body))
        assert (details.user.id, details.user.created_at, details.user.status) == (1, log.now, 9)
        assert (details.user.username, details.user.options, details.permissions) == ("alice", OPTIONS, POLL)
        assert log.known("alice").status == 1

    @pytest.mark.parametrize(("sent", "stored"), [(1, 1), (2, 2), (0, 1), (255, 1)])
    def test_the_status_byte(self, sent: int, stored: int) -> None:
        log = UserLog()
        log.create_user("alice", status=sent)
        assert log.known("alice").status == stored

    def test_a_name_that_is_taken(self) -> None:
        """S-033."""
        log = with_alice()
        before = encoded(log.machine)
        assert log.create_user("alice").code == 46
        assert encoded(log.machine) == before

    @pytest.mark.parametrize("name", ["ab", "x" * 51, "é", "é" * 25 + "xy"])
    def test_a_name_of_bad_length_in_bytes(self, name: str) -> None:
        """S-042: below the minimum and above the maximum, counted in bytes."""
        log = UserLog()
        before = encoded(log.machine)
        assert log.create_user(name).code == 43
        assert encoded(log.machine) == before

    @pytest.mark.parametrize("name", ["abc", "x" * 50, "éx", "é" * 25])
    def test_a_name_of_the_least_and_of_the_greatest_length(self, name: str) -> None:
        """S-042: the bounds themselves are accepted."""
        assert UserLog().create_user(name).code == 0

    def test_a_taken_name_comes_before_bad_options_and_a_bad_length_before_both(self) -> None:
        log = with_alice()
        assert log.create_user("alice", options=BAD_OPTIONS).code == 46
        assert log.create_user("bob", options=BAD_OPTIONS).code == 4042
        assert log.create_user("al", options=BAD_OPTIONS).code == 43

    def test_names_are_compared_byte_by_byte(self) -> None:
        assert with_alice().create_user("Alice").code == 0


class TestUpdate:
    @pytest.mark.parametrize("key", ["alice", 1])
    def test_rename(self, key: Key) -> None:
        log = with_alice()
        assert log.update_user(key, "alicia").code == 0
        assert log.user("alice") is None
        assert log.known("alicia").id == 1

    def test_a_rename_to_a_short_name_leaves_the_old_one(self) -> None:
        """S-043."""
        log = with_alice()
        assert log.update_user("alice", "al").code == 43
        assert log.known("alice").id == 1

    def test_the_own_name_is_free_for_oneself_and_another_is_not(self) -> None:
        log = with_alice()
        log.create_user("bob")
        assert log.update_user("alice", "alice").code == 0
        assert log.update_user("alice", "bob").code == 46
        assert (log.known("alice").id, log.known("bob").id) == (1, 2)

    @pytest.mark.parametrize(("status", "stored"), [(2, 2), (1, 1), (0, 1), (77, 1), (None, 1)])
    def test_an_unknown_status_changes_nothing(self, status: int | None, stored: int) -> None:
        log = with_alice()
        assert log.update_user("alice", status=status).code == 0
        assert log.known("alice").status == stored

    def test_options_are_patched(self) -> None:
        log = UserLog()
        log.create_user("alice", options=OPTIONS)
        log.update_user("alice", options=encode_block([OptionEntry("size", KIND_STRING, b"xl")]))
        assert [option.key for option in log.known("alice").options.stored] == ["colour", "size"]

    def test_bad_options_come_before_a_bad_name_and_nothing_is_changed(self) -> None:
        log = with_alice()
        before = encoded(log.machine)
        assert log.update_user("alice", "al", options=BAD_OPTIONS).code == 4042
        assert log.update_user("alice", "iggy", 2).code == 46
        assert encoded(log.machine) == before

    def test_root_cannot_be_deactivated_but_renamed(self) -> None:
        """D-03."""
        log = UserLog()
        before = encoded(log.machine)
        assert log.update_user("iggy", "admin", 2).code == 48
        assert encoded(log.machine) == before
        assert log.update_user(0, "admin", 1).code == 0
        assert log.known("admin").id == 0

    def test_rights_survive_a_rename(self) -> None:
        log = with_alice(MANAGE_STREAMS)
        log.update_user("alice", "alicia")
        assert log.create_stream("s", user=1).code == 0


class TestDelete:
    def test_no_such_user(self) -> None:
        """S-034."""
        assert UserLog().delete_user("alice").code == 20

    def test_root_stays_and_another_goes(self) -> None:
        """S-035."""
        log = with_alice()
        assert log.delete_user(0).code == 48
        assert log.delete_user("iggy").code == 48
        assert log.known("iggy").id == 0
        assert log.delete_user("alice").code == 0
        assert log.user("alice") is None
        assert log.user(1) is None

    @pytest.mark.parametrize("key", ["alice", 1])
    def test_the_sessions_of_the_user_are_to_be_ended(self, key: Key) -> None:
        """D-02, BR-38: every replica learns from the apply whose sessions end."""
        assert with_alice().delete_user(key).dropped_users == (1,)

    def test_an_id_is_never_given_again(self) -> None:
        """D-02: also when it was the highest, and across a snapshot."""
        log = with_alice()
        log.delete_user("alice")
        log.machine = restored(log.machine)
        log.create_user("alice")
        assert log.known("alice").id == 2

    def test_the_next_id_survives_a_snapshot_with_gaps(self) -> None:
        """S-032: two interior ids deleted in descending order."""
        log = UserLog()
        for name in ("u-1", "u-2", "u-3"):
            log.create_user(name)
        log.delete_user(2)
        log.delete_user(1)
        copy = restored(log.machine)
        log.create_user("new")
        first = log.known("new").id
        log.machine = copy
        log.create_user("new")
        assert (first, log.known("new").id) == (4, 4)

    def test_tokens_go_along(self) -> None:
        """D-02: from all three structures."""
        log = with_alice()
        log.create_token(1, "never", number=1)
        log.create_token(1, "soon", 5, number=2)
        log.delete_user("alice")
        tokens = log.machine.users.tokens
        assert (len(tokens), tokens.expired(2**64), tokens.of_user(1)) == (0, [], ())

    def test_gaps_keep_their_place_in_a_snapshot(self) -> None:
        """S-100: users at 0 and 2, streams at 0 and 3."""
        log = UserLog()
        log.create_user("one")
        log.create_user("two")
        for number in range(4):
            log.create_stream(f"s{number}")
        log.delete_user(1)
        log.delete_stream(1)
        log.delete_stream(2)
        copy = restored(log.machine)
        assert [(user.id, user.username) for user in copy.users.freeze()] == [(0, "iggy"), (2, "two")]
        assert [(stream.id, stream.name) for stream in copy.streams.all()] == [(0, "s0"), (3, "s3")]
        assert encoded(copy) == encoded(log.machine)


class TestDeletedUserActs:
    @pytest.mark.parametrize(
        "act",
        [
            lambda log: log.create_stream("s", user=1),
            lambda log: log.change_password("alice", OTHER_HASH, user=1),
            lambda log: log.change_password("absent", OTHER_HASH, user=1),
            lambda log: log.create_token(1, "token", user=1),
            lambda log: log.delete_token(1, "token", user=1),
            lambda log: log.apply(Operation.SEND_MESSAGES, b"", user=1),
        ],
        ids=["stream", "own password", "missing password", "token", "token delete", "not served"],
    )
    def test_whatever_is_stamped_with_it_is_unauthorised(self, act: Callable[[UserLog], Applied]) -> None:
        """D-02, BR-38: whatever was verified before, and although a new user has the same name."""
        log = with_alice(Permissions.root())
        log.delete_user("alice")
        log.create_user("alice", Permissions.root())
        before = encoded(log.machine)
        assert act(log).code == 41
        assert encoded(log.machine) == before

    def test_its_register_leaves_no_session(self) -> None:
        """D-02, BR-38: the credentials were verified just before the user was deleted."""
        log = with_alice()
        assert log.apply(Operation.REGISTER, b"", user=1) == Applied(0, b"")
        log.delete_user("alice")
        applied = log.apply(Operation.REGISTER, b"", user=1)
        assert (applied.code, applied.dropped_users) == (41, (1,))

    def test_its_logout_passes(self) -> None:
        log = with_alice()
        log.delete_user("alice")
        assert log.apply(Operation.LOGOUT, b"", user=1) == Applied(0, b"")


class TestChangePassword:
    def test_the_hash_is_replaced(self) -> None:
        log = with_alice()
        assert log.change_password("alice", OTHER_HASH).code == 0
        assert log.known("alice").password_hash == OTHER_HASH

    def test_an_empty_hash_says_that_the_current_password_was_wrong(self) -> None:
        log = with_alice()
        assert log.change_password("alice", "").code == 42
        assert log.known("alice").password_hash == HASH

    def test_a_missing_user_comes_first(self) -> None:
        assert UserLog().change_password("absent", "").code == 20

    def test_root_may_change_its_own(self) -> None:
        """D-03: changing the password of root stays possible."""
        log = UserLog()
        assert log.change_password(0, OTHER_HASH).code == 0
        assert log.known(0).password_hash == OTHER_HASH


class TestReads:
    def test_details_of_a_user(self) -> None:
        log = UserLog()
        log.create_user("alice", POLL, options=OPTIONS)
        shown = log.shown("alice")
        assert isinstance(shown, UserDetails)
        assert (shown.user.id, shown.user.status, shown.user.options, shown.permissions) == (1, 1, OPTIONS, POLL)
        assert HASH.encode() not in shown.encode()

    def test_a_user_without_rights_and_one_that_does_not_exist(self) -> None:
        shown = with_alice().shown(1)
        assert isinstance(shown, UserDetails)
        assert shown.permissions is None
        assert with_alice().shown("absent") is None

    def test_all_users_in_order_of_id(self) -> None:
        log = UserLog()
        for name in ("zoe", "alice"):
            log.create_user(name)
        assert log.listed() == ["iggy", "zoe", "alice"]
        log.update_user("zoe", "anna")
        assert log.listed() == ["iggy", "anna", "alice"]

    @pytest.mark.parametrize("key", ["alice", 1])
    def test_oneself_is_shown_without_any_right(self, key: Key) -> None:
        """BR-35: by name and by id; others are not."""
        log = with_alice()
        log.create_user("bob")
        assert isinstance(log.shown(key, user=1), UserDetails)
        assert log.shown("bob", user=1) == 41
        assert log.shown(2, user=1) == 41
        assert log.shown("absent", user=1) is None
        assert log.listed(user=1) == 41

    @pytest.mark.parametrize("key", ["alice", 1])
    def test_a_deleted_self_is_not_found(self, key: Key) -> None:
        """BR-35, BR-38: and everything else is refused."""
        log = with_alice(Permissions.root())
        log.delete_user("alice")
        assert log.shown(key, user=1) is None
        assert log.shown("iggy", user=1) == 41
        assert log.listed(user=1) == 41
        assert log.own_tokens(1) == 41

    def test_a_namesake_of_a_deleted_self_is_somebody_else(self) -> None:
        """BR-38."""
        log = with_alice(Permissions.root())
        log.delete_user("alice")
        log.create_user("alice")
        assert log.shown("alice", user=1) == 41


def test_a_user_shows_no_hash() -> None:
    """D-20."""
    log = with_alice()
    log.create_token(1, "token", number=0xABC)
    shown = f"{log.machine.users.freeze()} {log.machine.users.tokens.freeze()}"
    assert "alice" in shown
    assert "argon2" not in shown
    assert f"{0xABC:064x}" not in shown
