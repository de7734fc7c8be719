"""A member whose disk lost what it acknowledged was told its name again: it must not help to forget it (D-24)."""

from levrier.wire.framing import COMMAND_OFFSET
from tests.actors.consensus.network import Cluster

PREPARE_OK = 7
REPAIR_PREPARE = 19


class DeafOnce(Cluster):
    """A network that loses one chosen acknowledgement."""

    lose_acknowledgements = 0

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        """A frame leaves."""
        if self.lose_acknowledgements and frame[COMMAND_OFFSET] == PREPARE_OK:
            self.lose_acknowledgements -= 1
            return
        super().send(sender, receiver, frame)


def restart_cut(cluster: Cluster, index: int) -> None:
    """The boot finds a spoiled tail and cuts it: what was the last entry is gone, and the superblock says so."""
    node = cluster.nodes[index]
    del node.disk.log[max(node.disk.log)]
    node.boot()
    node.state.log_cut = node.state.gate.cut_durable = True


def test_what_a_disk_lost_and_the_view_names_is_not_denied() -> None:
    """Members 0 and 1 acknowledged op n, 2 saw nothing. The word of 1 for n - 1 is lost, and its disk loses n. Its view tells it
    both; now its word for n - 1 completes both. Member 0 ends. 1 and 2 cannot know that n was not committed, ever.
    """
    cluster = DeafOnce(3, heartbeat_ticks=400)
    cluster.run_until_led()
    cluster.write(1)
    cluster.run(60)
    cluster.isolate(2)
    cluster.lose_acknowledgements = 1
    cluster.submit(0, 2)
    cluster.run(3)
    cluster.submit(0, 3)
    cluster.run(4)
    assert not cluster.is_acknowledged(2)
    assert not cluster.is_acknowledged(3)
    head = max(cluster.nodes[1].disk.log)
    assert head == max(cluster.nodes[0].disk.log)
    cluster.nodes[1].crash()
    restart_cut(cluster, 1)
    for _ in range(200):
        if cluster.is_acknowledged(3):
            break
        cluster.step()
    assert cluster.is_acknowledged(3), "its word for the entry below completed the quorum of both"
    assert head not in cluster.nodes[1].disk.log
    cluster.nodes[0].crash()
    cluster.flying = [each for each in cluster.flying if each[2] != 0]
    cluster.cut.clear()
    cluster.run(3_000)
    leaders = [node for node in cluster.nodes if node.leads]
    if leaders:
        cluster.write(4)
    cluster.heal()
    cluster.run(3_000)
    cluster.write(5)
    cluster.check_promises()
