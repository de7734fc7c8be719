"""What plugins are told of the replicated state: notices of commits (state-machine 14), and the answers that only they get."""

import pytest

from levrier.actors.bus.messages import Ticket
from levrier.actors.client_table.messages import Commit
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata.actor import MetadataActor
from levrier.actors.metadata.for_plugins import NOTHING_WATCHED, Watched
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.plugins import messages as plugins
from levrier.actors.runtime import Probe, SteppedRuntime
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.groups import CreateConsumerGroup
from levrier.wire.requests.replicated import (
    BootstrapRoot,
    CreatePersonalAccessTokenReplicated,
    CreateTopicWithAssignments,
    JoinConsumerGroupReplicated,
)
from levrier.wire.requests.streams import CreateStream
from levrier.wire.requests.topics import CreateTopic
from levrier.wire.topic_options import admit_create
from tests.actors.metadata.support import HASH
from tests.actors.metadata.test_actor import TICKET, create, prepare
from tests.actors.metadata.test_actor import Stage as AloneStage

ASKED = Ticket(connection=plugins.PLUGIN_CONNECTION, number=3)
ALL = Watched(operations=frozenset(int(each) for each in Operation), clients=frozenset())


class Stage:
    """The actor with plugins that watch something."""

    def __init__(self, watched: Watched = ALL) -> None:
        self.runtime = SteppedRuntime(seed=1)
        self.plugins: Probe[plugins.FromNode] = Probe("plugins")
        self.machine = MetadataMachine()
        self.op = 0
        self.ref = MetadataActor.start(
            name="metadata",
            runtime=self.runtime,
            machine=self.machine,
            last_op=0,
            last_timestamp=0,
            client_table=Probe("client_table"),
            bus=Probe("bus"),
            plugins=self.plugins,
            watched=watched,
        )

    def apply(self, operation: Operation, body: bytes = b"", *, user: int = 0, client: int = 7) -> None:
        self.op += 1
        self.tell(metadata.Apply(prepare=prepare(self.op, operation, body, user=user, client=client), reply_to=TICKET))

    def topic(self, partitions: int) -> None:
        """A stream of one topic with so many partitions."""
        self.apply(Operation.CREATE_STREAM, CreateStream(name="s").encode())
        request = CreateTopic(stream=Identifier(0), partitions_count=partitions, name="t")
        options = admit_create(b"", partitions_count=partitions)
        body = CreateTopicWithAssignments(
            request=request,
            derived_options=options.derived,
            assignments=tuple((number, number + 1) for number in range(partitions)),
            created_view=0,
        )
        self.apply(Operation.CREATE_TOPIC_WITH_ASSIGNMENTS, body.encode())

    def tell(self, *messages: metadata.Command) -> None:
        for message in messages:
            self.ref.tell(message)
        self.runtime.run()

    def notices(self) -> list[plugins.CommitNotice]:
        return [message for message in self.plugins.take_all() if isinstance(message, plugins.CommitNotice)]


def test_a_commit_is_told_with_what_was_asked_and_what_became_of_it() -> None:
    stage = Stage()
    entry = create(1, "s")
    stage.tell(metadata.Apply(prepare=entry, reply_to=None))
    assert stage.notices() == [
        plugins.CommitNotice(
            op=1,
            timestamp=5001,
            operation=int(Operation.CREATE_STREAM),
            code=0,
            user_id=0,
            client=7,
            request=1,
            revision=0,
            body=entry.body,
        )
    ]


def test_commits_are_told_in_their_order() -> None:
    """C-236."""
    stage = Stage()
    for name in ("a", "b", "c"):
        stage.apply(Operation.CREATE_STREAM, CreateStream(name=name).encode())
    assert [notice.op for notice in stage.notices()] == [1, 2, 3]


def test_where_nobody_watches_nobody_is_told() -> None:
    """C-237."""
    alone = AloneStage()
    alone.tell(metadata.Apply(prepare=create(1, "s"), reply_to=TICKET))
    assert alone.runtime.failures == []
    assert isinstance(alone.table.take(), Commit)
    stage = Stage(NOTHING_WATCHED)
    stage.apply(Operation.CREATE_STREAM, CreateStream(name="s").encode())
    assert stage.notices() == []


def test_a_rejection_and_a_denial_are_told_too() -> None:
    stage = Stage()
    for _ in range(2):
        stage.apply(Operation.CREATE_STREAM, CreateStream(name="s").encode())
    stage.apply(Operation.CREATE_STREAM, CreateStream(name="t").encode(), user=9)
    assert [notice.code for notice in stage.notices()] == [0, 1012, 41]


def test_logins_and_logouts_are_told_nobody() -> None:
    stage = Stage()
    stage.apply(Operation.REGISTER)
    stage.apply(Operation.LOGOUT)
    assert stage.notices() == []


def test_only_what_is_watched_is_told_and_what_a_session_of_a_plugin_did() -> None:
    watched = Watched(operations=frozenset({int(Operation.DELETE_STREAM)}), clients=frozenset({99}))
    stage = Stage(watched)
    stage.apply(Operation.CREATE_STREAM, CreateStream(name="s").encode())
    stage.apply(Operation.CREATE_STREAM, CreateStream(name="t").encode(), client=99)
    assert [notice.client for notice in stage.notices()] == [99]


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        (Operation.BOOTSTRAP_ROOT, BootstrapRoot(username="root", password_hash=HASH).encode()),
        (
            Operation.CREATE_PERSONAL_ACCESS_TOKEN,
            CreatePersonalAccessTokenReplicated(user_id=0, name="t", expiry=0, token_hash="a" * 64).encode(),
        ),
    ],
)
def test_no_hash_is_told(operation: Operation, body: bytes) -> None:
    """D-20."""
    stage = Stage()
    stage.apply(operation, body)
    assert [notice.body for notice in stage.notices()] == [b""]


def test_expired_tokens_are_told_in_the_order_of_their_expiry() -> None:
    stage = Stage()
    stage.apply(Operation.BOOTSTRAP_ROOT, BootstrapRoot(username="root", password_hash=HASH).encode())
    for number, expiry in enumerate((300, 100, 200)):
        body = CreatePersonalAccessTokenReplicated(
            user_id=0, name=f"t{number}", expiry=expiry, token_hash=f"{number}" * 64
        )
        stage.apply(Operation.CREATE_PERSONAL_ACCESS_TOKEN, body.encode())
    stage.plugins.take_all()
    stage.tell(metadata.FindExpiredTokens(ticket=ASKED, now=10_000, limit=2))
    assert stage.plugins.take() == plugins.ExpiredTokensAnswer(ticket=ASKED, tokens=((0, "t1"), (0, "t2")))


def test_a_frozen_catalogue_stays_as_it_was_and_names_every_incarnation() -> None:
    stage = Stage()
    stage.topic(2)
    stage.plugins.take_all()
    stage.tell(metadata.FreezeCatalogue(ticket=ASKED, unless_revision=-1))
    answer = stage.plugins.take()
    assert isinstance(answer, plugins.CatalogueAnswer)
    assert answer.catalogue is not None
    stage.topic(3)
    assert list(answer.catalogue.partitions()) == [(0, 0, 0, 1), (0, 0, 1, 1)]
    assert answer.catalogue.revision == 1


def test_nothing_is_frozen_while_nothing_has_changed() -> None:
    stage = Stage()
    stage.tell(metadata.FreezeCatalogue(ticket=ASKED, unless_revision=0))
    assert stage.plugins.take() == plugins.CatalogueAnswer(ticket=ASKED, catalogue=None)


def test_pending_revocations_and_members() -> None:
    """State-machine 7: the second member makes the first one give up partitions."""
    stage = Stage()
    stage.topic(4)
    place = {"stream": Identifier(0), "topic": Identifier(0)}
    stage.apply(Operation.CREATE_CONSUMER_GROUP, CreateConsumerGroup(**place, name="g").encode())
    for client in (0xA, 0xB):
        join = JoinConsumerGroupReplicated(**place, group=Identifier("g"), client=client, in_flight=(0, 1, 2, 3))
        stage.apply(Operation.JOIN_CONSUMER_GROUP, join.encode(), client=client)
    stage.plugins.take_all()
    stage.tell(
        metadata.FindRevocations(ticket=ASKED, limit=1),
        metadata.FindRevocations(ticket=ASKED, limit=100),
        metadata.FindMembers(ticket=ASKED, clients=(0xB, 0xC, 0xA, 0xA)),
    )
    limited, every, members = stage.plugins.take_all()
    assert isinstance(limited, plugins.RevocationsAnswer)
    assert isinstance(every, plugins.RevocationsAnswer)
    assert len(limited.revocations) == 1
    assert len(every.revocations) == stage.machine.streams.memberships.pending_revocations == 2
    assert {each.source_client for each in every.revocations} == {0xA}
    assert members == plugins.MembershipsAnswer(ticket=ASKED, clients=(0xA, 0xB))
