"""Every frame that the released SDK was seen to send gets exactly one frame from a gateway (wire 13, D-30)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from levrier.actors.bus import messages as bus
from levrier.actors.bus.effects import BuildArchive, GatewayEffect, HashPassword, VerifyPassword
from levrier.actors.client_table.messages import Preflight
from levrier.actors.consensus.messages import StatusQuery
from levrier.actors.metadata.messages import (
    CountTokens,
    FindCredentials,
    FindPasswordHash,
    FindSegmentSize,
    FindToken,
    Query,
    Survey,
)
from levrier.wire.checksums import xxh3
from levrier.wire.codes import CommandCode, EvictionReason, Operation
from levrier.wire.headers import RequestHeader
from levrier.wire.replies import result_success
from tests.actors.bus.rig import Answer, Rig, committed, credentials, node_status, surveyed, ticket_of

VECTORS = Path(__file__).parents[2] / "wire" / "vectors" / "sdk-python-0.9.0.json"
ENTRIES = json.loads(VECTORS.read_text(encoding="utf-8"))
FRAMES = [(entry["call"], bytes.fromhex(entry["hex"])) for entry in ENTRIES if entry["direction"] == "request"]
TOKEN_LOGIN = next(index for index, (call, _) in enumerate(FRAMES) if call.startswith("from_connection_string"))

UNAVAILABLE = {160, 161, 162}
NOT_SERVED = {
    int(CommandCode.POLL_MESSAGES),
    int(CommandCode.FLUSH_UNSAVED_BUFFER),
    int(CommandCode.GET_CONSUMER_OFFSET),
}


class Node:
    """The actors behind a gateway: whatever is asked is answered with success."""

    def __init__(self, frames: list[bytes]) -> None:
        self.rig = Rig()
        self._epochs = [header.session for header in map(RequestHeader.decode, frames) if header.session]
        self._op = 0

    def serve(self, frame: bytes) -> Answer:
        """Feed one frame; the one answer it gets, whatever had to be asked for it."""
        self.rig.send(frame)
        while self.rig.asked:
            self._answer(self.rig.asked.pop(0))
        return self.rig.answer()

    def _answer(self, effect: GatewayEffect) -> None:
        rig = self.rig
        match effect:
            case FindCredentials(ticket=ticket):
                rig.tell(credentials(ticket))
            case VerifyPassword(ticket=ticket, password=password):
                rig.tell(bus.PasswordVerified(ticket=ticket, matches=password == "iggy"))
            case Query(ticket=ticket):
                rig.tell(bus.QueryAnswer(ticket=ticket, status=0, body=b"found", commit=self._op))
            case FindToken(ticket=ticket):
                rig.tell(bus.TokenOwner(ticket=ticket, bootstrapped=True, user_id=None, active=False, expires_at=None))
            case FindPasswordHash(ticket=ticket):
                rig.tell(credentials(ticket))
            case HashPassword(ticket=ticket):
                rig.tell(bus.PasswordHashed(ticket=ticket, password_hash="hashed"))
            case CountTokens(ticket=ticket):
                rig.tell(bus.TokenCount(ticket=ticket, count=0))
            case FindSegmentSize(ticket=ticket):
                rig.tell(bus.SegmentSize(ticket=ticket, segment_size=1 << 20))
            case Survey(ticket=ticket):
                rig.tell(surveyed(ticket, commit=self._op))
            case StatusQuery() | BuildArchive():
                self._answer_archive(effect)
            case Preflight(request=asked):
                header = asked.header
                register = header.operation == Operation.REGISTER
                self._op = min(epoch for epoch in self._epochs if epoch > self._op) if register else self._op
                body = b"" if header.operation == Operation.LOGOUT else result_success()
                frame = committed(header.operation, op=self._op, client=header.client, number=header.request, body=body)
                rig.tell(bus.Reply(ticket=ticket_of(effect), frame=frame, body_checksum=xxh3(asked.body)))
            case _:
                raise AssertionError(f"unexpected {effect}")

    def _answer_archive(self, effect: StatusQuery | BuildArchive) -> None:
        if isinstance(effect, StatusQuery):
            self.rig.tell(replace(node_status(effect.ticket), commit=self._op))
        else:
            self.rig.tell(bus.ArchiveBuilt(ticket=effect.ticket, archive=b"PK"))


def expected_status(frame: bytes) -> int:
    header = RequestHeader.decode(frame)
    if header.operation in UNAVAILABLE or header.code in NOT_SERVED:
        return 5
    return 3 if header.code == 9999 else 0


def test_every_frame_of_the_connection_with_a_password_gets_the_one_answer_it_should() -> None:
    frames = FRAMES[:TOKEN_LOGIN]
    node = Node([frame for _, frame in frames])
    assert len(frames) > 60
    for call, frame in frames:
        answer = node.serve(frame)
        header = RequestHeader.decode(frame)
        expected = expected_status(frame)
        if call == "update_stream('prod', 'prod2', options={'k': 'v'})":
            expected = 4041
        assert (call, answer.status) == (call, expected)
        assert (answer.header.client, answer.header.request) == (header.client, header.request)
        in_log = {Operation.DELETE_SEGMENTS: Operation.TRUNCATE_PARTITION}
        assert answer.header.operation == in_log.get(Operation(header.operation), header.operation)


def test_a_login_with_an_unknown_token_is_refused_and_the_frames_behind_it_are_answered() -> None:
    node = Node([])
    login, metadata, ping = (node.serve(frame) for _, frame in FRAMES[TOKEN_LOGIN:])
    assert login.reason is EvictionReason.INVALID_TOKEN
    assert (metadata.status, ping.status) == (40, 0)


@pytest.mark.parametrize("index", range(len(FRAMES)))
def test_every_frame_gets_one_answer_on_a_connection_without_a_login(index: int) -> None:
    answer = Node([frame for _, frame in FRAMES]).serve(FRAMES[index][1])
    assert answer.frame[60] in {8, 13}
