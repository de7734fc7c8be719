"""What a member holds, never acknowledged and cannot vouch for, must not keep two good members of three from a view."""

from levrier.actors.consensus.state import Status
from levrier.wire.framing import COMMAND_OFFSET
from tests.actors.consensus.network import Cluster

REPAIR_PREPARE = 19


class Dying(Cluster):
    """A network in which a member ends after it has sent so many repaired entries."""

    last_words: int | None = None

    def send(self, sender: int, receiver: int, frame: bytes) -> None:
        """A frame leaves."""
        if self.last_words is not None and frame[COMMAND_OFFSET] == REPAIR_PREPARE:
            if self.last_words == 0:
                return
            self.last_words -= 1
        super().send(sender, receiver, frame)


def led_by_first(cluster: Cluster) -> None:
    """Member 0 leads view 0, and everybody has applied one op."""
    assert cluster.run_until_led().index == 0
    cluster.write(1)
    cluster.run(60)


def test_a_log_that_a_primary_elect_was_fetching_when_its_source_ended() -> None:
    """Member 0 alone has five ops. Member 1 is about to lead with them and has two of them when member 0 ends."""
    cluster = Dying(3)
    led_by_first(cluster)
    cluster.isolate(0)
    for client in range(2, 7):
        cluster.submit(0, client)
    cluster.run(10)
    cluster.isolate(2)
    cluster.dropped_commands = {6, 9}
    cluster.last_words = 2
    for _ in range(400):
        cluster.step()
        if cluster.last_words == 0:
            break
    cluster.run(2)
    elect = cluster.nodes[1]
    assert elect.state.status is Status.VIEW_CHANGE
    assert elect.state.pending is not None
    assert len(elect.disk.log) == 3, cluster.describe(elect)
    cluster.nodes[0].crash()
    cluster.cut.clear()
    cluster.dropped_commands = set()
    cluster.last_words = None
    cluster.write(10)
    cluster.heal()
    cluster.run(1_000)
    cluster.write(11)
    cluster.check_promises()


def test_what_a_primary_wrote_in_a_view_that_never_became_durable() -> None:
    """Member 1 begins to lead while its superblock fails, takes a request into its log, and ends. Nothing of it ever left."""
    cluster = Cluster(3)
    led_by_first(cluster)
    cluster.nodes[1].superblock_fails = True
    cluster.dropped_commands = {9}
    for _ in range(1_000):
        cluster.step()
        if cluster.nodes[1].state.is_acting_primary:
            break
    assert cluster.nodes[1].leads
    cluster.submit(1, 2)
    cluster.run(5)
    assert cluster.nodes[1].disk.view == 0
    assert len(cluster.nodes[1].disk.log) == 2
    cluster.nodes[1].crash()
    cluster.nodes[0].crash()
    cluster.dropped_commands = set()
    cluster.nodes[1].superblock_fails = False
    cluster.nodes[1].boot()
    cluster.write(3)
    cluster.heal()
    cluster.run(1_000)
    cluster.write(4)
    cluster.check_promises()
