"""The ClientTable actor: judges requests, records commits in op order, hands captures on (design section 3).

It advises only. What is cached is committed, so a replay leaves for the Bus at once; every other verdict is Consensus's to
turn into an admission or a refusal (rule 4). It is the last station of the commit stream: reply first, then Applied.
"""

from typing import Final

from loguru import logger

from levrier.actors.bus import messages as bus
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.client_table import messages as client_table
from levrier.actors.client_table.commits import record
from levrier.actors.client_table.table import Answer, ClientTable
from levrier.actors.client_table.transfer import decode
from levrier.actors.consensus import messages as consensus
from levrier.actors.consensus.messages import Outcome
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime
from levrier.wire.codes import Operation
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.replies import result_code

_REGISTER: Final = int(Operation.REGISTER)
_LOGOUT: Final = int(Operation.LOGOUT)
_CREATE_TOKEN: Final = int(Operation.CREATE_PERSONAL_ACCESS_TOKEN)
_OPERATION_OFFSET: Final = 208
"""Where a reply frame names its operation (wire 4.3)."""

_NEW: Final = Answer.NEW
_OUTCOMES: Final = {
    Answer.NEW: Outcome.NEW,
    Answer.DUPLICATE: Outcome.REPLAYED,
    Answer.ALREADY_APPLIED: Outcome.ALREADY_APPLIED,
    Answer.CHECKSUM_MISMATCH: Outcome.CHECKSUM_MISMATCH,
    Answer.NO_SESSION: Outcome.NO_SESSION,
    Answer.FENCED: Outcome.FENCED,
    Answer.EPOCH_AHEAD: Outcome.EPOCH_AHEAD,
}

assert set(_OUTCOMES) == set(Answer)

_Judgement = tuple[Outcome, int, bytes | None]
"""Outcome, the acting user to stamp, and for REPLAYED the frame."""


class ClientTableActor(NodeActor):
    """One replica's sessions. `last_op` is the op that `table` reflects when the actor starts."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        table: ClientTable,
        last_op: int,
        consensus: Recipient[consensus.Command],
        bus: Recipient[bus.Command],
        checkpoint: Recipient[checkpoint.Command],
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._log = logger.bind(actor=name)
        self._table = table
        self._last_op = last_op
        self._consensus = consensus
        self._bus = bus
        self._checkpoint = checkpoint
        self._handlers = Handlers(client_table.Command)
        self._handlers.on(client_table.Preflight, self._on_preflight)
        self._handlers.on(client_table.Recheck, self._on_recheck)
        self._handlers.on(client_table.Commit, self._on_commit)
        self._handlers.on(client_table.Capture, self._on_capture)
        self._handlers.on(client_table.Install, self._on_install)
        self._handlers.seal()

    def receive(self, message: object) -> None:
        """Handle one message."""
        self._handlers.dispatch(message)

    def _on_preflight(self, message: client_table.Preflight) -> None:
        request = message.request
        outcome, user_id, frame = self._judge(request)
        if frame is not None:
            if request.ticket is not None:
                self._bus.tell(bus.Reply(ticket=request.ticket, frame=frame))
                return
            outcome = Outcome.ALREADY_APPLIED  # Nobody waits for the cached answer.
        self._consensus.tell(consensus.Verdict(token=0, request=request, outcome=outcome, user_id=user_id))

    def _on_recheck(self, message: client_table.Recheck) -> None:
        request = message.request
        outcome, user_id, frame = self._judge(request)
        if frame is not None and request.ticket is not None:
            self._bus.tell(bus.Reply(ticket=request.ticket, frame=frame))
        # A replay too, or the slot reserved under the token would never be free again.
        self._consensus.tell(consensus.Verdict(token=message.token, request=request, outcome=outcome, user_id=user_id))

    def _judge(self, request: client_table.ClientRequest) -> _Judgement:
        table = self._table
        header = request.header
        client, operation = header.client, header.operation
        if operation == _REGISTER:
            return self._judge_register(client, request.user_id)
        if operation == _LOGOUT:
            return self._judge_logout(request)
        check = table.check_request(client, header.session, header.request, header.request_checksum)
        if check.answer is _NEW:
            user_id = table.user_of(client)
            assert user_id is not None, "a new request has a session"
            return Outcome.NEW, user_id, None
        if check.reply is None:
            return _OUTCOMES[check.answer], 0, None
        return _judge_replay(check.reply.frame)

    def _judge_register(self, client: int, verified_user: int) -> _Judgement:
        owner = self._table.user_of(client)
        if owner is None or owner == verified_user:
            return Outcome.NEW, verified_user, None
        return Outcome.OWNED_BY_ANOTHER_USER, verified_user, None

    def _judge_logout(self, request: client_table.ClientRequest) -> _Judgement:
        table = self._table
        header = request.header
        # The owner is resolved here, on the primary, so that every replica drops the same fence.
        owner = table.owner_of_session(header.client, header.session) or 0
        if header.request == client_table.DISCONNECT_REQUEST:
            check = table.check_epoch(header.client, header.session)
        else:
            check = table.check_request(header.client, header.session, header.request, header.request_checksum)
        if check.reply is None:
            return _OUTCOMES[check.answer], owner, None
        outcome, _, frame = _judge_replay(check.reply.frame)
        return outcome, owner, frame

    def _on_commit(self, message: client_table.Commit) -> None:
        header = message.header
        op = header.op
        assert op == self._last_op + 1, f"op {op} after {self._last_op}"
        note = record(self._table, header, message.reply, message.dropped_users)
        if note:
            self._log.debug("client table: op {}: {}", op, note)
        self._last_op = op
        if message.reply_to is not None:
            self._bus.tell(bus.Reply(ticket=message.reply_to, frame=message.reply, body_checksum=header.checksum_body))
        self._consensus.tell(consensus.Applied(op=op))

    def _on_capture(self, message: client_table.Capture) -> None:
        assert message.op == self._last_op, f"a capture of {message.op} at {self._last_op}"
        self._checkpoint.tell(
            checkpoint.Captured(
                op=message.op,
                metadata=message.metadata,
                clients=self._table.capture(),
                table_frontier=max(message.op, self._table.frontier),
            )
        )

    def _on_install(self, message: client_table.Install) -> None:
        frontier, applied_op = message.table_frontier, message.applied_op
        received = message.snapshot.client_table
        assert isinstance(received, bytes), "a received table in its transfer encoding"
        assert applied_op >= self._last_op, f"an install of op {applied_op} at {self._last_op}"
        reflected = max(self._last_op, self._table.frontier)
        if frontier >= reflected:
            self._table.install(decode(received, self._table.capacity), frontier)
        else:
            # The local table knows of later commits, and nothing would bring those back.
            self._log.debug("client table: kept at op {}, the received one is at {}", reflected, frontier)
        assert max(frontier, reflected) >= applied_op, "a table behind its own snapshot was refused before"
        self._last_op = applied_op
        self._consensus.tell(consensus.Installed(attempt=message.attempt, applied_op=applied_op))


def _judge_replay(frame: bytes) -> _Judgement:
    """What is cached goes out again as it is, but for a created token, whose secret cannot be shown twice."""
    if frame[_OPERATION_OFFSET] == _CREATE_TOKEN and result_code(frame[HEADER_SIZE:]) == 0:
        return Outcome.TOKEN_EXISTS, 0, None
    return Outcome.REPLAYED, 0, frame
