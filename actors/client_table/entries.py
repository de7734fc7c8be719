"""The values that a client table is made of: replies, entries, fences (client-table 2).

All are immutable, so a capture of the table copies references only and may be encoded in another thread. A reply keeps the
few fields of its frame that are judged; on the live path they come from the prepare, on restore from the frame.
"""

from typing import Final, NamedTuple

from levrier.actors.client_table.errors import InvalidReply
from levrier.wire.codes import Operation
from levrier.wire.errors import WireError
from levrier.wire.framing import HEADER_SIZE
from levrier.wire.headers import ReplyHeader
from levrier.wire.replies import result_code

CAPACITY_DEFAULT: Final = 8192
SLOT_COUNT_MAX: Final = 65536
"""Slot indices are below this, whatever a snapshot or a configuration says."""
RING_MAX: Final = 5
REGISTER_REQUEST: Final = 0
"""The request number of a register; no other request has it."""

assert CAPACITY_DEFAULT <= SLOT_COUNT_MAX
assert RING_MAX >= 2, "a fence's reply and a register's must fit into one ring"


class Reply(NamedTuple):
    """One committed reply: the whole frame, and what is judged of it. `commit` is the op it committed at."""

    frame: bytes
    request: int
    request_checksum: int
    commit: int


class Entry(NamedTuple):
    """One session.

    `epoch` is the op of its latest register, `watermark` the highest committed request number (0 until the first),
    `watermark_checksum` that request's stamp (0 is unstamped), `ring` one to five replies, oldest first.
    """

    client: int
    epoch: int
    user_id: int
    watermark: int
    watermark_checksum: int
    ring: tuple[Reply, ...]

    @property
    def latest_commit(self) -> int:
        """The op of the newest reply: what eviction ranks by."""
        return self.ring[-1].commit


class Fence(NamedTuple):
    """What outlives a reclaimed entry: enough to answer a retry and to go on where it stopped.

    `reply` is that of the watermark request, if the ring still had it; never a register's.
    """

    client: int
    user_id: int
    epoch: int
    watermark: int
    watermark_checksum: int
    reply: Reply | None


def conflict(checksum: int, other: int) -> bool:
    """Whether two request stamps show different requests; zero is unstamped and conflicts with nothing."""
    return checksum != 0 and other not in (0, checksum)


def fence_of(entry: Entry) -> Fence:
    """The fence that a reclaimed entry leaves behind."""
    watermark = entry.watermark
    reply = None
    if watermark != REGISTER_REQUEST:
        reply = next((reply for reply in entry.ring if reply.request == watermark), None)
    return Fence(entry.client, entry.user_id, entry.epoch, watermark, entry.watermark_checksum, reply)


def reply_of_frame(frame: bytes, *, client: int, where: str) -> Reply:
    """Read back a cached reply. Raises `InvalidReply` for anything but a whole reply frame of this client."""
    try:
        header = ReplyHeader.decode(frame)
        if header.operation == Operation.CREATE_PERSONAL_ACCESS_TOKEN:
            result_code(frame[HEADER_SIZE:])
    except WireError as error:
        raise InvalidReply(str(error), where) from error
    if header.size != len(frame):
        raise InvalidReply(f"the frame of {header.size} bytes has {len(frame)}", where)
    if header.client != client:
        raise InvalidReply(f"the reply is for client {header.client:#x}, not for {client:#x}", where)
    return Reply(frame, header.request, header.request_checksum, header.commit)


def check_ring(ring: tuple[Reply, ...], *, watermark: int, where: str) -> None:
    """Raise `InvalidReply` for a ring that no entry with this watermark can have."""
    requests = [reply.request for reply in ring]
    if len(set(requests)) != len(requests):
        raise InvalidReply("two replies to one request", where)
    if max(requests) > watermark:
        raise InvalidReply(f"a reply to request {max(requests)} above the watermark {watermark}", where)
