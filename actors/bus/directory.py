"""Who the nodes of the cluster are and who leads, as this node tells its clients (wire 10.2). Lives in the Bus's thread.

Consensus publishes what it knows and the links say who is there, so nobody is asked at the moment of an answer. The leader
is listed only when it can serve: on itself once it has applied what it inherited and reaches a quorum, on others while they
follow it and have a link to it.
"""

from collections.abc import Sequence

from levrier.actors.bus.messages import Leadership
from levrier.wire.codes import NodeRole
from levrier.wire.responses.system import ClusterMetadata, ClusterNode


class ClusterDirectory:
    """`nodes` are the members by id, with the addresses that clients dial. `quorum` is how many make a write durable."""

    def __init__(self, *, name: str, nodes: Sequence[ClusterNode], replica: int, quorum: int) -> None:
        assert 0 <= replica < len(nodes)
        self._name = name
        self._nodes = tuple(nodes)
        self._replica = replica
        self._quorum = quorum
        self._leadership = Leadership(view=0, leader=None, serves=False)
        self._up: set[int] = set()
        self._learners: set[int] = set()
        self._note = ""
        self._view = self._made()

    def __call__(self) -> ClusterMetadata:
        """The answer to GET_CLUSTER_METADATA."""
        return self._view

    @property
    def leader(self) -> int | None:
        """Who leads and can serve, as far as this node knows."""
        leadership = self._leadership
        leader = leadership.leader
        if leader is None or not leadership.serves:
            return None
        if leader == self._replica:
            return leader if self._present >= self._quorum else None
        return leader if leader in self._up else None

    @property
    def leads(self) -> tuple[int, int] | None:
        """The view and who leads in it, as `leader` says."""
        leader = self.leader
        return None if leader is None else (self._leadership.view, leader)

    @property
    def waiting(self) -> str:
        """What this node waits for before it can serve writes or knows who does; empty when it does."""
        if self._note:
            return self._note
        if self._present < self._quorum:
            learning = "".join(f", replica {replica} is learning" for replica in sorted(self._learners))
            return f"waiting for quorum: {self._present} of {len(self._nodes)}{learning}"
        if self.leader is None:
            return "waiting for a primary"
        return ""

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The names of the members that a quorum is waited for, by id: there is no link to them, or they are not heard; nobody
        when it is there.
        """
        if self._note or self._present >= self._quorum:
            return ()
        absent = set(range(len(self._nodes))) - (self._up - self._unheard) - {self._replica}
        return tuple(self._nodes[replica].name for replica in sorted(absent))

    def on_leadership(self, leadership: Leadership) -> None:
        """Consensus has news."""
        self._leadership = leadership
        self._view = self._made()

    @property
    def _present(self) -> int:
        """How many acknowledge: this node and the voters that it has a link to and hears."""
        return 1 + len(self._up - self._learners - self._unheard)

    @property
    def _unheard(self) -> frozenset[int]:
        return frozenset(self._leadership.unheard)

    def on_admitted(self, replica: int, *, voter: bool) -> None:
        """A member of this cluster is connected; a learner does not acknowledge yet."""
        self._up.add(replica)
        if voter:
            self._learners.discard(replica)
        else:
            self._learners.add(replica)
        self._view = self._made()

    def on_down(self, replica: int) -> None:
        """It is not any more."""
        self._up.discard(replica)
        self._learners.discard(replica)
        self._view = self._made()

    def on_note(self, waiting: str) -> None:
        """The member-state actor says what is waited for."""
        self._note = waiting

    def _made(self) -> ClusterMetadata:
        leader = self.leader
        return ClusterMetadata(
            name=self._name,
            nodes=tuple(
                ClusterNode(
                    name=node.name,
                    ip=node.ip,
                    tcp=node.tcp,
                    http=node.http,
                    role=NodeRole.LEADER if replica == leader else NodeRole.FOLLOWER,
                    status=node.status,
                )
                for replica, node in enumerate(self._nodes)
            ),
        )
