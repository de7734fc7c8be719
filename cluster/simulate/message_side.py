"""What serves the messages beside the metadata of a real cluster, as far as the log knows of it: joins that say what is polled.

Where a group may have polled what it has not committed, a new member does not get a partition at once: the old owner has to
give it up. A node without messages never says so, and the completer of a simulation would have nothing to do.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from levrier.actors.bus.messages import Ticket
from levrier.actors.consensus.messages import SubmitOwn
from levrier.actors.consensus.state import Status
from levrier.cluster.simulate.checkers.commits import CommitObserver
from levrier.cluster.simulate.client import ScriptedClient
from levrier.cluster.simulate.cluster import SimulatedCluster
from levrier.cluster.simulate.watch import Watch
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.replicated import JoinConsumerGroupReplicated

NAME: Final = "messages"
_SHARED: Final = 0.7
"""How often a group is joined, if there is one, whose members have something to give up."""

CONNECTION: Final = (1 << 48) + 1
"""The connection that its tickets name, which no client has: nobody waits for the answers."""


class MessageSide:
    """Has one client after the other join groups, through whoever leads, until `stop`. `mean_ms`: between two of these."""

    def __init__(
        self,
        *,
        random: Random,
        cluster: SimulatedCluster,
        watch: Watch,
        commits: CommitObserver,
        clients: Sequence[ScriptedClient],
        mean_ms: int,
    ) -> None:
        self._random = random
        self._cluster = cluster
        self._watch = watch
        self._model = commits.model
        self._clients = clients
        self._mean_ms = mean_ms
        self._number = 0
        self._is_running = False

    def begin(self) -> None:
        """From now on."""
        self._is_running = True
        self._wait(self._number)

    def stop(self) -> None:
        """No more."""
        self._is_running = False
        self._number += 1

    def _wait(self, number: int) -> None:
        wait = int(self._random.expovariate(1 / self._mean_ms)) + 1

        def wake() -> None:
            if self._is_running and number == self._number:
                self._join()
                self._number += 1
                self._wait(self._number)

        self._cluster.world.call_after(wait, wake)

    def _join(self) -> None:
        leader = next((each for each, state in self._watch.states().items() if state.is_primary), None)
        there = [client for client in self._clients if client.is_logged_in]
        groups = [
            (stream.id, topic.id, group)
            for stream in self._model.streams.values()
            for topic in stream.topics.values()
            for group in topic.groups.values()
            if topic.partitions
        ]
        if leader is None or self._watch.states()[leader].status is not Status.NORMAL or not groups or not there:
            return
        shared = [each for each in groups if any(len(member.owned) > 1 for member in each[2].members.values())]
        stream, topic, group = self._random.choice(shared if shared and self._random.random() < _SHARED else groups)
        client = self._random.choice(there)
        request = JoinConsumerGroupReplicated(
            stream=Identifier(stream),
            topic=Identifier(topic),
            group=Identifier(group.id),
            client=client.joins(),
            in_flight=tuple(sorted(number for member in group.members.values() for number in member.owned)),
        )
        submit = SubmitOwn(
            ticket=Ticket(connection=CONNECTION, number=self._number),
            operation=int(Operation.JOIN_CONSUMER_GROUP),
            client=0,
            request=0,
            body=request.encode(),
        )
        consensus = self._cluster.node(leader).address("consensus")
        self._cluster.world.run_as(NAME, lambda: consensus.tell(submit))
