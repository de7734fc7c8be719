"""Static admission: what may go into the log, judged from the body alone (state-machine 9.3, 9.6, 11).

Apply never sees a body that does not decode, an option that the catalog does not know or a partition count out of bounds.
A refusal costs nothing: it is not logged and does not move the client's watermark. The one thing that needs state, the
segment size under an update's size cap, is asked of the Metadata actor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from levrier.wire.codes import CLIENT_ALLOWED, Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.options import refuse_options
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from levrier.wire.topic_options import UNLIMITED, admit_create, admit_update, check_partitions_count, parse_strictly


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCap:
    """An update caps the size of a topic: the cap has to hold at least one of its segments."""

    stream: Identifier
    topic: Identifier


Admission = Callable[[bytes], SizeCap | None]
"""Raises `WireError`, whose code is the status of the refusal; or says what is still to be asked."""


def check_cap(body: bytes, segment_size: int | None) -> None:
    """Raise `InvalidTopicSize` (1019) unless the cap of an UpdateTopic holds a segment; None: the default segment size."""
    admit_update(UpdateTopic.decode(body).options, segment_size=segment_size)


def _create_stream(body: bytes) -> None:
    request = CreateStream.decode(body)
    if request.options:
        refuse_options(request.options)


def _update_stream(body: bytes) -> None:
    request = UpdateStream.decode(body)
    if request.options:
        refuse_options(request.options)


def _create_topic(body: bytes) -> None:
    request = CreateTopic.decode(body)
    admit_create(request.options, partitions_count=request.partitions_count)


def _update_topic(body: bytes) -> SizeCap | None:
    request = UpdateTopic.decode(body)
    if not request.options:
        return None
    cap = parse_strictly(request.options, updating=True).max_topic_size
    if cap is None or cap == UNLIMITED:
        return None
    return SizeCap(stream=request.stream, topic=request.topic)


def _create_partitions(body: bytes) -> None:
    check_partitions_count(CreatePartitions.decode(body).partitions_count, minimum=1)


def _delete_partitions(body: bytes) -> None:
    check_partitions_count(DeletePartitions.decode(body).partitions_count, minimum=1)


def _decodes(decode: Callable[[bytes], object]) -> Admission:
    def admit(body: bytes) -> None:
        decode(body)

    return admit


ADMISSIONS: Final[dict[int, Admission]] = {
    int(Operation.UPDATE_STREAM): _update_stream,
    int(Operation.CREATE_STREAM): _create_stream,
    int(Operation.DELETE_STREAM): _decodes(DeleteStream.decode),
    int(Operation.PURGE_STREAM): _decodes(PurgeStream.decode),
    int(Operation.CREATE_TOPIC): _create_topic,
    int(Operation.UPDATE_TOPIC): _update_topic,
    int(Operation.DELETE_TOPIC): _decodes(DeleteTopic.decode),
    int(Operation.PURGE_TOPIC): _decodes(PurgeTopic.decode),
    int(Operation.CREATE_PARTITIONS): _create_partitions,
    int(Operation.DELETE_PARTITIONS): _delete_partitions,
}
"""The operations that this node serves. Every other one that a client may send gets code 5 (D-18)."""

assert ADMISSIONS.keys() <= CLIENT_ALLOWED
