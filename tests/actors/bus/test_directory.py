"""Who leads, as a node tells its clients: only somebody who can serve (wire 10.2)."""

from levrier.actors.bus.directory import ClusterDirectory
from levrier.actors.bus.messages import Leadership
from levrier.wire.codes import NodeRole
from levrier.wire.responses.system import ClusterNode


def directory(replica: int, count: int = 3) -> ClusterDirectory:
    """That member's."""
    nodes = [
        ClusterNode(name=f"n{each}", ip=f"10.0.0.{each}", tcp=8090, http=3000 + each, role=NodeRole.FOLLOWER)
        for each in range(count)
    ]
    return ClusterDirectory(name="prod", nodes=nodes, replica=replica, quorum=2)


def roles(of: ClusterDirectory) -> list[int]:
    return [node.role for node in of().nodes]


def test_every_node_is_listed_with_the_address_that_clients_dial() -> None:
    nodes = directory(0)().nodes
    assert [(node.name, node.ip, node.tcp, node.http) for node in nodes] == [
        ("n0", "10.0.0.0", 8090, 3000),
        ("n1", "10.0.0.1", 8090, 3001),
        ("n2", "10.0.0.2", 8090, 3002),
    ]
    assert roles(directory(0)) == [NodeRole.FOLLOWER] * 3


def test_a_primary_lists_itself_once_it_serves_and_reaches_a_quorum() -> None:
    own = directory(1)
    own.on_leadership(Leadership(view=4, leader=1, serves=False))
    own.on_admitted(0, voter=True)
    assert own.leader is None, "it has not applied yet what it inherited"
    own.on_leadership(Leadership(view=4, leader=1, serves=True))
    assert roles(own) == [NodeRole.FOLLOWER, NodeRole.LEADER, NodeRole.FOLLOWER]
    assert own.waiting == ""
    assert not own.waiting_for
    own.on_down(0)
    assert roles(own) == [NodeRole.FOLLOWER] * 3
    assert own.waiting == "waiting for quorum: 1 of 3"
    assert own.waiting_for == ("n0", "n2")


def test_a_backup_lists_the_primary_while_there_is_a_link_to_it() -> None:
    own = directory(2)
    own.on_leadership(Leadership(view=0, leader=0, serves=True))
    own.on_admitted(1, voter=True)
    assert own.leader is None
    assert own.waiting == "waiting for a primary"
    own.on_admitted(0, voter=True)
    assert own.leader == 0
    own.on_down(0)
    assert own.leader is None


def test_nobody_leads_during_a_view_change() -> None:
    own = directory(2)
    own.on_admitted(0, voter=True)
    own.on_admitted(1, voter=True)
    own.on_leadership(Leadership(view=0, leader=0, serves=True))
    own.on_leadership(Leadership(view=1, leader=None, serves=False))
    assert roles(own) == [NodeRole.FOLLOWER] * 3


def test_a_learner_makes_no_quorum() -> None:
    own = directory(0)
    own.on_leadership(Leadership(view=0, leader=0, serves=True))
    own.on_admitted(2, voter=False)
    assert own.leader is None
    assert own.waiting == "waiting for quorum: 1 of 3, replica 2 is learning"
    assert own.waiting_for == ("n1",), "who is learning answers"
    own.on_admitted(2, voter=True)
    assert own.leader == 0


def test_what_the_birth_waits_for_comes_first() -> None:
    own = directory(0)
    own.on_note("waiting for first start")
    assert own.waiting == "waiting for first start"
    assert own.waiting_for == ()
    own.on_note("")
    assert own.waiting == "waiting for quorum: 1 of 3"
