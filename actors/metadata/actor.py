"""The Metadata actor: applies the commit stream in order and answers reads from what is applied (design section 3).

Every op passes, Register and Logout included, and goes on to the ClientTable with the reply that any replica would build
(rule 2). A read sees every op that was told before it, so a connection reads its own answered writes (D-19).
"""

from levrier.actors.bus import messages as bus
from levrier.actors.client_table import messages as client_table
from levrier.actors.consensus import messages as consensus
from levrier.actors.metadata import messages as metadata
from levrier.actors.metadata import queries
from levrier.actors.metadata.for_plugins import NOTHING_WATCHED, Watched, answer_plugin, notice_of
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.users import ACTIVE, User
from levrier.actors.plugins import messages as plugins_messages
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime
from levrier.wire.replies import committed_reply


class MetadataActor(NodeActor):
    """Owns the machine. `last_op` and `last_timestamp` are those of the op that the machine stands at, 0 when blank.

    Where there are peers, `digests` is told the digest of the state at every op that is a multiple of `digest_interval`.
    """

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        machine: MetadataMachine,
        last_op: int,
        last_timestamp: int,
        client_table: Recipient[client_table.Command],
        bus: Recipient[bus.Command],
        digests: Recipient[consensus.DigestNoted] | None = None,
        digest_interval: int = 1,
        plugins: Recipient[plugins_messages.FromNode] | None = None,
        watched: Watched = NOTHING_WATCHED,
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._machine = machine
        self._last_op = last_op
        self._last_timestamp = last_timestamp
        self._client_table = client_table
        self._bus = bus
        self._digests = digests
        self._digest_interval = digest_interval
        self._plugins = plugins
        self._watched = watched
        self._handlers = Handlers(metadata.Command)
        self._handlers.on(metadata.Apply, self._on_apply)
        self._handlers.on(metadata.Query, self._on_query)
        self._handlers.on(metadata.FindCredentials, self._on_find_credentials)
        self._handlers.on(metadata.FindPasswordHash, self._on_find_password_hash)
        self._handlers.on(metadata.FindToken, self._on_find_token)
        self._handlers.on(metadata.CountTokens, self._on_count_tokens)
        self._handlers.on(metadata.FindSegmentSize, self._on_find_segment_size)
        self._handlers.on(metadata.Survey, self._on_survey)
        self._handlers.on(metadata.FindExpiredTokens, self._on_plugin_question)
        self._handlers.on(metadata.FindRevocations, self._on_plugin_question)
        self._handlers.on(metadata.FindMembers, self._on_plugin_question)
        self._handlers.on(metadata.FreezeCatalogue, self._on_plugin_question)
        self._handlers.on(metadata.Capture, self._on_capture)
        self._handlers.on(metadata.Install, self._on_install)
        self._handlers.on(metadata.FrontierWanted, self._on_frontier_wanted)
        self._handlers.seal()

    @property
    def machine(self) -> MetadataMachine:
        """What is applied. To be read."""
        return self._machine

    def receive(self, message: object) -> None:
        """Handle one message of `metadata.Command`."""
        self._handlers.dispatch(message)

    def _on_apply(self, message: metadata.Apply) -> None:
        prepare = message.prepare
        header = prepare.header
        assert header.op == self._last_op + 1, f"op {header.op} follows {self._last_op}"
        applied = self._machine.apply(header, prepare.body)
        self._last_op = header.op
        self._last_timestamp = header.timestamp
        if self._digests is not None and header.op % self._digest_interval == 0:
            self._digests.tell(consensus.DigestNoted(op=header.op, digest=self._machine.digest()))
        if self._plugins is not None and self._watched.wants(header):
            self._plugins.tell(notice_of(header, prepare.body, applied.code, self._machine.streams.revision))
        self._client_table.tell(
            client_table.Commit(
                header=header,
                reply=committed_reply(header, applied.body),
                reply_to=message.reply_to,
                dropped_users=applied.dropped_users,
            )
        )

    def _on_query(self, message: metadata.Query) -> None:
        status, body = queries.answer(self._machine, message.user_id, message.client, message.code, message.body)
        self._bus.tell(bus.QueryAnswer(ticket=message.ticket, status=status, body=body, commit=self._last_op))

    def _on_find_credentials(self, message: metadata.FindCredentials) -> None:
        self._tell_credentials(message.ticket, self._machine.users.find(message.username))

    def _on_find_password_hash(self, message: metadata.FindPasswordHash) -> None:
        self._tell_credentials(message.ticket, self._machine.users.resolve(message.user))

    def _tell_credentials(self, ticket: bus.Ticket, user: User | None) -> None:
        self._bus.tell(
            bus.Credentials(
                ticket=ticket,
                bootstrapped=self._machine.users.bootstrapped,
                user_id=None if user is None else user.id,
                active=user is not None and user.status == ACTIVE,
                password_hash="" if user is None else user.password_hash,
            )
        )

    def _on_find_token(self, message: metadata.FindToken) -> None:
        users = self._machine.users
        token = users.tokens.find(message.token_hash)
        owner = None if token is None else users.get(token.user_id)
        assert (token is None) == (owner is None), "a token without its owner"
        self._bus.tell(
            bus.TokenOwner(
                ticket=message.ticket,
                bootstrapped=users.bootstrapped,
                user_id=None if owner is None else owner.id,
                active=owner is not None and owner.status == ACTIVE,
                expires_at=None if token is None else token.expires_at,
            )
        )

    def _on_count_tokens(self, message: metadata.CountTokens) -> None:
        count = self._machine.users.tokens.count(message.user_id)
        self._bus.tell(bus.TokenCount(ticket=message.ticket, count=count))

    def _on_find_segment_size(self, message: metadata.FindSegmentSize) -> None:
        size = self._machine.streams.segment_size(message.stream, message.topic)
        self._bus.tell(bus.SegmentSize(ticket=message.ticket, segment_size=size))

    def _on_survey(self, message: metadata.Survey) -> None:
        self._bus.tell(queries.survey(self._machine, message, self._last_op))

    def _on_plugin_question(self, message: metadata.PluginQuestion) -> None:
        assert self._plugins is not None, "only plugins ask this"
        self._plugins.tell(answer_plugin(self._machine, message))

    def _on_capture(self, message: metadata.Capture) -> None:
        assert message.op == self._last_op, f"a capture of op {message.op} at {self._last_op}"
        captured = self._machine.capture(self._last_op, self._last_timestamp)
        self._client_table.tell(client_table.Capture(op=message.op, metadata=captured))

    def _on_frontier_wanted(self, message: metadata.FrontierWanted) -> None:
        frontier = self._machine.frontier
        message.reply_to.tell(
            metadata.FrontierApplied(op=self._last_op, positions=frontier.positions(), identities=frontier.identities())
        )

    def _on_install(self, message: metadata.Install) -> None:
        snapshot = message.snapshot
        if message.is_ahead:
            assert snapshot.op >= self._last_op, f"an install of op {snapshot.op} at {self._last_op}"
            # Users and streams are both rebuilt before either is replaced; StateTransfer has checked that they can be.
            self._machine = MetadataMachine.restore(
                users=snapshot.users,
                streams=snapshot.streams,
                consensus_group_high=snapshot.fields.consensus_group_high_water,
                next_user_id=snapshot.fields.next_user_id,
                frontier=snapshot.fields.acknowledgement_frontier,
                high_water=snapshot.fields.acknowledgement_high_water,
            )
            self._last_op = snapshot.op
            self._last_timestamp = snapshot.fields.created_at
            if self._plugins is not None:
                self._plugins.tell(plugins_messages.StateReplaced(op=self._last_op))
        else:
            assert snapshot.op <= self._last_op, f"op {snapshot.op} is ahead of {self._last_op}"
        self._client_table.tell(
            client_table.Install(
                attempt=message.attempt,
                snapshot=snapshot,
                table_frontier=message.table_frontier,
                applied_op=self._last_op,
            )
        )
