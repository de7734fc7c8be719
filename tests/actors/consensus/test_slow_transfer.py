"""A state that takes longer to fetch than a heartbeat timeout, by the one member that a quorum waits for."""

import pytest

from levrier.actors.state_transfer import messages as st
from tests.actors.consensus.network import Cluster, Node

HEARTBEAT_TICKS = 120


class SlowTransfer(Cluster):
    """A network over which a state takes so many ticks, and begins anew when it was canceled."""

    transfer_ticks = 0

    def __init__(self, count: int) -> None:
        self.fetching: dict[int, tuple[int, st.FetchRequired]] = {}
        self.begun = 0
        super().__init__(count, slots=32, heartbeat_ticks=HEARTBEAT_TICKS)

    def fetch(self, node: Node, asked: st.FetchRequired) -> None:
        """It comes later."""
        self.begun += 1
        node.take(node.replica.on_transfer_accepted(asked.attempt))
        self.fetching[node.index] = (self.now + self.transfer_ticks, asked)

    def step(self) -> None:
        """One tick for everybody."""
        super().step()
        for index, (due, asked) in list(self.fetching.items()):
            node = self.nodes[index]
            if node.state.transfer.attempt != asked.attempt or not node.state.is_transferring:
                del self.fetching[index]
            elif due <= self.now:
                del self.fetching[index]
                self._hand_over(node, asked)

    def _hand_over(self, node: Node, asked: st.FetchRequired) -> None:
        accept = node.replica.on_transfer_accepted
        node.replica.on_transfer_accepted = lambda _attempt: []  # type: ignore[method-assign,assignment]
        try:
            super().fetch(node, asked)
        finally:
            node.replica.on_transfer_accepted = accept  # type: ignore[method-assign]


def left_behind(transfer_ticks: int) -> SlowTransfer:
    """Member 2 was away for longer than the others keep their log; then member 1 goes, and member 2 is back."""
    cluster = SlowTransfer(3)
    cluster.transfer_ticks = transfer_ticks
    cluster.run_until_led()
    cluster.write(1)
    cluster.nodes[2].crash()
    for client in range(2, 80):
        cluster.write(client)
    cluster.run(100)
    leader = cluster.run_until_led()
    assert leader.index == 0
    assert leader.disk.snapshot_op > 32
    cluster.nodes[1].crash()
    cluster.submit(0, 100)
    cluster.run(10)
    cluster.nodes[2].boot()
    return cluster


@pytest.mark.parametrize("transfer_ticks", [30, 4 * HEARTBEAT_TICKS])
def test_a_slow_transfer_ends(transfer_ticks: int) -> None:
    """Two good members of three are enough, however long the state takes to get there."""
    cluster = left_behind(transfer_ticks)
    for _ in range(60 * HEARTBEAT_TICKS):
        if cluster.is_acknowledged(100) or cluster.nodes[2].state.commit_min > 79:
            return
        cluster.step()
    raise AssertionError(f"{cluster.begun} transfers begun: {[cluster.describe(node) for node in cluster.nodes]}")
