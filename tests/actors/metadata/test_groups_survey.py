"""What commands about the node are told of the replicated state: counts, memberships, and who may ask (10.2, 10.4)."""

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.metadata import queries
from levrier.actors.metadata.messages import Survey
from tests.actors.metadata.group_log import A, B, C, GroupLog, with_group
from tests.actors.metadata.support import grant, with_users

TICKET = bus.Ticket(connection=3, number=9)


def survey(log: GroupLog, *clients: int, user: int = 0, restricted: bool = True) -> bus.Surveyed:
    question = Survey(ticket=TICKET, user_id=user, restricted=restricted, clients=clients)
    return queries.survey(log.machine, question, log.op)


def test_it_counts_what_is_there() -> None:
    log = with_group(3, A)
    log.create_topic("s", "u", [0, 1])
    log.create("second")
    log.create_stream("other")
    found = survey(log)
    assert (found.streams, found.topics, found.partitions, found.groups) == (2, 2, 5, 2)
    assert (found.ticket, found.commit, found.permitted) == (TICKET, log.op, True)
    log.delete_partitions("s", "u", 1)
    log.create_partitions("s", "t", [0])
    log.delete("second")
    assert (survey(log).partitions, survey(log).groups) == (5, 1)
    log.delete_stream("s")
    found = survey(log)
    assert (found.streams, found.topics, found.partitions, found.groups) == (1, 0, 0, 0)


def test_it_tells_memberships_in_order_and_leaves_others_out() -> None:
    log = with_group(3, A, B)
    log.create_topic("s", "u", [0])
    log.create("h", topic="u")
    log.create("i")
    log.join(A, "i")
    log.join(A, "h", topic="u")
    assert survey(log, C, A).memberships == {A: ((0, 0, 0), (0, 0, 1), (0, 1, 0))}


@pytest.mark.parametrize("right", ["read_servers", "manage_servers"])
def test_a_right_on_servers_permits_the_restricted_commands(right: str) -> None:
    log = GroupLog(with_users(grant(right)))
    assert survey(log, user=1).permitted


def test_other_rights_permit_the_own_connection_only() -> None:
    log = GroupLog(with_users(grant("manage_streams", "manage_users", "manage_topics")))
    log.create_stream("s")
    log.create_topic("s", "t", [0])
    log.create()
    log.join(A, user=1)
    refused = survey(log, A, user=1)
    assert (refused.permitted, refused.memberships) == (False, {})
    own = survey(log, A, user=1, restricted=False)
    assert (own.permitted, own.memberships) == (True, {A: ((0, 0, 0),)})


@pytest.mark.parametrize("restricted", [False, True])
def test_a_user_who_is_gone_may_ask_nothing(restricted: bool) -> None:
    """D-02."""
    assert not survey(with_group(1), user=5, restricted=restricted).permitted
