"""The streams machine: streams, their topics, and partitions as data (state-machine 2.2, 6, 8, 9; D-02, D-07).

Every operation decides first and changes afterwards, so a rejection leaves nothing behind. The order of the checks is the
order of section 6: the first that fails names the code. Time comes from the prepare.

Consumer groups are part of their topic: they go with it, and a change of its partitions deals all of them out anew. What
clients do with groups is in `levrier.actors.metadata.groups`.

Records are immutable. What changes in place is the table of streams and the tables of topics and of groups; a capture
copies the first and raises the generation, and a table from an older generation is forked before it changes.

Deviation from upstream: message counters are not kept here. They are no replicated state, and a node without messages
reports zeros.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from levrier.actors.metadata import rebalance
from levrier.actors.metadata.digest import Digest
from levrier.actors.metadata.memberships import Memberships, Place
from levrier.actors.metadata.options import NO_OPTIONS, CreatedOptions, OptionMap, OptionPool
from levrier.actors.metadata.records import ConsumerGroup, GroupTable, Partition, Stream, Topic
from levrier.actors.metadata.slab import Slab
from levrier.wire.error_codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.identifiers import Identifier
from levrier.wire.requests.partitions import DeletePartitions
from levrier.wire.requests.replicated import (
    CreatePartitionsWithAssignments,
    CreateTopicWithAssignments,
    TruncatePartition,
)
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import DeleteTopic, PurgeTopic, UpdateTopic

STREAMS_MAX: Final = 1 << 20
TOPICS_MAX: Final = 4096
PARTITION_ID_MAX: Final = 1_000_000
"""Ids are below these (state-machine 4): compile-time constants, since apply may not depend on configuration."""

_U32_MAX: Final = 2**32 - 1
_U64_MASK: Final = 2**64 - 1

# Plain integers: comparing and formatting enum members costs more than applying a small operation.
_NO_STREAM: Final = int(ErrorCode.STREAM_ID_NOT_FOUND)
_STREAM_EXISTS: Final = int(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
_TOO_MANY_STREAMS: Final = int(ErrorCode.TOO_MANY_STREAMS)
_NO_TOPIC: Final = int(ErrorCode.TOPIC_ID_NOT_FOUND)
_TOPIC_EXISTS: Final = int(ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
_TOO_MANY_TOPICS: Final = int(ErrorCode.TOO_MANY_TOPICS)
_BAD_PARTITIONS_COUNT: Final = int(ErrorCode.INVALID_PARTITIONS_COUNT)
_NO_PARTITION: Final = int(ErrorCode.PARTITION_NOT_FOUND)
_PARTITION_IDS_EXHAUSTED: Final = int(ErrorCode.PARTITION_ID_SPACE_EXHAUSTED)
_BAD_OPTION: Final = int(ErrorCode.INVALID_OPTION_VALUE)


class TopicPath(NamedTuple):
    """A topic and where it is."""

    stream: Stream
    topics: Slab[Topic]
    topic: Topic


class StreamsMachine:
    """All streams. Operations return 0 or the code of the rejection, or what they created instead of 0."""

    __slots__ = (
        "_generation",
        "_pool",
        "_streams",
        "consensus_group_high",
        "digest",
        "memberships",
        "partitions_count",
        "revision",
        "topics_count",
    )

    def __init__(self, pool: OptionPool) -> None:
        self.revision = 0
        self.consensus_group_high = 0
        self.digest = Digest()
        self.memberships = Memberships()
        self.topics_count = 0
        self.partitions_count = 0
        self._pool = pool
        self._streams: Slab[Stream] = Slab()
        self._generation = 0

    @classmethod
    def restore(
        cls, streams: Iterable[Stream], *, revision: int, consensus_group_high: int, pool: OptionPool
    ) -> "StreamsMachine":
        """Rebuild from streams in ascending order of id. Raises `ValueError` when their ids or names clash."""
        machine = cls(pool)
        machine.revision = revision
        machine.consensus_group_high = consensus_group_high
        machine._streams = Slab.restore(streams)
        for stream in machine._streams:
            machine.digest.toggle_stream(stream)
            for topic in stream.topics or ():
                machine._count_topic(topic, 1)
                machine.digest.toggle_topic(stream.id, topic)
                for group in topic.groups or ():
                    machine.digest.toggle_group(stream.id, topic.id, group)
                    machine.memberships.changed(stream.id, topic.id, None, group)
        return machine

    # Reads

    def all(self) -> Iterable[Stream]:
        """All streams, ascending by id."""
        return self._streams

    @property
    def count(self) -> int:
        """How many streams there are."""
        return len(self._streams)

    def find(self, stream: Identifier) -> Stream | None:
        """The stream that this identifier names, or None."""
        return self._streams.find(stream.value)

    def find_topic(self, stream: Identifier, topic: Identifier) -> TopicPath | int:
        """The topic that these identifiers name, or the code that says which of the two is missing."""
        found = self._streams.find(stream.value)
        if found is None:
            return _NO_STREAM
        topics = found.topics
        record = None if topics is None else topics.find(topic.value)
        if topics is None or record is None:
            return _NO_TOPIC
        return TopicPath(found, topics, record)

    def topic_at(self, place: Place) -> TopicPath:
        """The topic of a group that exists."""
        stream = self._streams.get(place.stream_id)
        assert stream is not None
        assert stream.topics is not None
        topic = stream.topics.get(place.topic_id)
        assert topic is not None
        return TopicPath(stream, stream.topics, topic)

    def segment_size(self, stream: Identifier, topic: Identifier) -> int | None:
        """The stored segment size of a topic in bytes, or None when there is no such topic."""
        path = self.find_topic(stream, topic)
        return None if isinstance(path, int) else path.topic.options.segment_size

    def freeze(self) -> list[Stream | None]:
        """The streams by id as they stand now, for a capture: what they lead to will not change any more."""
        self._generation += 1
        return self._streams.freeze()

    # Streams

    def create_stream(self, request: CreateStream, timestamp: int) -> Stream | int:
        """128: name free (1012), options (4042), room (1020)."""
        streams = self._streams
        if streams.id_of(request.name) is not None:
            return _STREAM_EXISTS
        options = self._patched(NO_OPTIONS, request.options)
        if options is None:
            return _BAD_OPTION
        stream_id = streams.vacant()
        if stream_id >= STREAMS_MAX:
            return _TOO_MANY_STREAMS
        stream = Stream(stream_id, request.name, timestamp, options)
        streams.insert(stream)
        self.digest.toggle_stream(stream)
        return stream

    def update_stream(self, request: UpdateStream) -> int:
        """129: stream (1009), name free or its own (1012), options (4042)."""
        streams = self._streams
        stream = streams.find(request.stream.value)
        if stream is None:
            return _NO_STREAM
        name = request.name
        owner = streams.id_of(name)
        if owner is not None and owner != stream.id:
            return _STREAM_EXISTS
        options = self._patched(stream.options, request.options)
        if options is None:
            return _BAD_OPTION
        updated = Stream(stream.id, name, stream.created_at, options, stream.topics)
        streams.replace(updated)
        self.digest.toggle_stream(stream)
        self.digest.toggle_stream(updated)
        return 0

    def delete_stream(self, request: DeleteStream) -> Stream | int:
        """130: stream (1009). Everything under it goes; the caller has to free the id from permissions (D-02)."""
        stream = self.find(request.stream)
        if stream is None:
            return _NO_STREAM
        self._streams.remove(stream.id)
        self.digest.toggle_stream(stream)
        for topic in stream.topics or ():
            self._forget_topic(stream, topic)
        self.bump()
        return stream

    def purge_stream(self, request: PurgeStream) -> int:
        """131: stream (1009). The revision moves only if there was a partition."""
        stream = self.find(request.stream)
        if stream is None:
            return _NO_STREAM
        populated = [topic for topic in stream.topics or () if topic.partitions]
        if populated:
            topics = self._topics_to_change(stream)
            for topic in populated:
                self._replace_topic(stream, topics, topic, topic._replace(partitions=_purged(topic.partitions)))
            self.bump()
        return 0

    # Topics

    def create_topic(self, request: CreateTopicWithAssignments, timestamp: int) -> Topic | int:
        """64: stream (1009), name free (2013), room (2021), partition ids (3013, 2019), options (4042)."""
        stream = self.find(request.request.stream)
        if stream is None:
            return _NO_STREAM
        name = request.request.name
        topic_id = 0
        if stream.topics is not None:
            if stream.topics.id_of(name) is not None:
                return _TOPIC_EXISTS
            topic_id = stream.topics.vacant()
            if topic_id >= TOPICS_MAX:
                return _TOO_MANY_TOPICS
        code = _check_partition_ids(partition_id for partition_id, _ in request.assignments)
        if code:
            return code
        options = self._created(request)
        if options is None:
            return _BAD_OPTION
        revision = self.bump()
        topic = Topic(
            topic_id,
            name,
            timestamp,
            options.message_expiry,
            options.compression,
            options.max_topic_size,
            options.stored,
            tuple(Partition(partition_id, group, timestamp, revision) for partition_id, group in request.assignments),
        )
        self._topics_to_change(stream).insert(topic)
        self.digest.toggle_topic(stream.id, topic)
        self._count_topic(topic, 1)
        return topic

    def update_topic(self, request: UpdateTopic) -> int:
        """133: stream (1009), topic (2010), name free or its own (2013), options (4042).

        An absent key keeps its value. A 0 for expiry or size leaves the typed field alone and is stored all the same.
        """
        path = self.find_topic(request.stream, request.topic)
        if isinstance(path, int):
            return path
        _, topics, topic = path
        owner = topics.id_of(request.name)
        if owner is not None and owner != topic.id:
            return _TOPIC_EXISTS
        updated = topic._replace(name=request.name)
        if request.options:
            try:
                patch = self._pool.patch_of_topic(topic.options, request.options)
            except WireError:
                return _BAD_OPTION
            updated = updated._replace(
                options=patch.stored,
                message_expiry=topic.message_expiry if patch.message_expiry is None else patch.message_expiry,
                compression=topic.compression if patch.compression is None else patch.compression,
                max_topic_size=topic.max_topic_size if patch.max_topic_size is None else patch.max_topic_size,
            )
        self._replace_topic(path.stream, self._topics_to_change(path.stream), topic, updated)
        return 0

    def delete_topic(self, request: DeleteTopic) -> TopicPath | int:
        """134: stream (1009), topic (2010). The caller has to free the id from permissions (D-02)."""
        path = self.find_topic(request.stream, request.topic)
        if isinstance(path, int):
            return path
        self._topics_to_change(path.stream).remove(path.topic.id)
        self._forget_topic(path.stream, path.topic)
        self.bump()
        return path

    def purge_topic(self, request: PurgeTopic) -> int:
        """135: stream (1009), topic (2010). The revision moves only if there was a partition."""
        path = self.find_topic(request.stream, request.topic)
        if isinstance(path, int):
            return path
        if path.topic.partitions:
            self._set_partitions(path, _purged(path.topic.partitions))
            self.bump()
        return 0

    # Partitions

    def create_partitions(self, request: CreatePartitionsWithAssignments, timestamp: int) -> int:
        """65: stream (1009), topic (2010), then each resolved id: overflow (2019), range (3013), repeated (2019)."""
        path = self.find_topic(request.request.stream, request.request.topic)
        if isinstance(path, int):
            return path
        partitions = path.topic.partitions
        base = max((partition.id for partition in partitions), default=-1) + 1
        code = _check_partition_ids(base + offset for offset, _ in request.assignments)
        if code:
            return code
        revision = self.bump()
        appended = tuple(Partition(base + offset, group, timestamp, revision) for offset, group in request.assignments)
        self._reshape(path, partitions + appended)
        return 0

    def delete_partitions(self, request: DeletePartitions) -> int:
        """137: stream (1009), topic (2010), count (2019). Takes the last ones; 0 changes nothing."""
        path = self.find_topic(request.stream, request.topic)
        if isinstance(path, int):
            return path
        kept = len(path.topic.partitions) - request.partitions_count
        if kept < 0:
            return _BAD_PARTITIONS_COUNT
        if request.partitions_count:
            self._reshape(path, path.topic.partitions[:kept])
            self.bump()
        return 0

    def truncate_partition(self, request: TruncatePartition) -> int:
        """68: stream (1009), topic (2010), partition (3007). The revision moves even if the watermark does not."""
        path = self.find_topic(request.stream, request.topic)
        if isinstance(path, int):
            return path
        partitions = path.topic.partitions
        index = _index_of(partitions, request.partition_id)
        if index is None:
            return _NO_PARTITION
        partition = partitions[index]
        if request.up_to_offset > partition.deleted_up_to_offset:
            moved = partition._replace(deleted_up_to_offset=request.up_to_offset)
            self._set_partitions(path, (*partitions[:index], moved, *partitions[index + 1 :]))
        self.bump()
        return 0

    def raise_group_high(self, assignments: tuple[tuple[int, int], ...]) -> None:
        """Note the consensus groups that a create hands out, whether or not it will be rejected (D-07)."""
        for _, group in assignments:
            self.consensus_group_high = max(self.consensus_group_high, group)

    # Consumer groups

    def put_group(self, path: TopicPath, group: ConsumerGroup) -> None:
        """Put a changed group in the place of the one with its id, or a new one into its topic."""
        groups = self._groups_to_change(path)
        before = groups.find(group.id)
        groups.put(group)
        if before is not None:
            self.digest.toggle_group(path.stream.id, path.topic.id, before)
        self.digest.toggle_group(path.stream.id, path.topic.id, group)
        self.memberships.changed(path.stream.id, path.topic.id, before, group)

    def add_group(self, path: TopicPath, name: str) -> ConsumerGroup:
        """A new group under a name that is unused. Its id is never given out again in this topic."""
        topic = path.topic
        group = ConsumerGroup(topic.next_consumer_group_id, name)
        numbered = topic._replace(next_consumer_group_id=group.id + 1)
        self._replace_topic(path.stream, self._topics_to_change(path.stream), topic, numbered)
        self.put_group(path, group)
        return group

    def remove_group(self, path: TopicPath, group: ConsumerGroup) -> None:
        """Take a group out of its topic."""
        self._groups_to_change(path).remove(group)
        self.digest.toggle_group(path.stream.id, path.topic.id, group)
        self.memberships.changed(path.stream.id, path.topic.id, group, None)

    # Changes

    def bump(self) -> int:
        """Move the revision on: workers have something to look at (state-machine 8.5)."""
        self.revision = (self.revision + 1) & _U64_MASK
        return self.revision

    def _topics_to_change(self, stream: Stream) -> Slab[Topic]:
        """The table of topics of a stream, one that no capture can see; the first of them if there was none."""
        current = self._streams.get(stream.id)  # The caller's record may have been replaced by a change of its own.
        assert current is not None
        topics = current.topics
        if topics is None:
            topics = Slab(stamp=self._generation)
        elif topics.stamp != self._generation:
            topics = topics.fork(self._generation)
        else:
            return topics
        self._streams.replace(current._replace(topics=topics))
        return topics

    def _set_partitions(self, path: TopicPath, partitions: tuple[Partition, ...]) -> None:
        topics = self._topics_to_change(path.stream)
        self._replace_topic(path.stream, topics, path.topic, path.topic._replace(partitions=partitions))

    def _replace_topic(self, stream: Stream, topics: Slab[Topic], before: Topic, after: Topic) -> None:
        topics.replace(after)
        self.digest.toggle_topic(stream.id, before)
        self.digest.toggle_topic(stream.id, after)

    def _reshape(self, path: TopicPath, partitions: tuple[Partition, ...]) -> None:
        """Other partitions for a topic: all of its groups are dealt out anew."""
        self.partitions_count += len(partitions) - len(path.topic.partitions)
        self._set_partitions(path, partitions)
        if path.topic.groups:
            ids = tuple([partition.id for partition in partitions])
            for group in tuple(path.topic.groups):
                self.put_group(path, rebalance.eager(group, ids))

    def _groups_to_change(self, path: TopicPath) -> GroupTable:
        """The table of groups of a topic, one that no capture can see; the first of them if there was none."""
        topics = self._topics_to_change(path.stream)
        topic = topics.get(path.topic.id)
        assert topic is not None
        groups = topic.groups
        if groups is None:
            groups = GroupTable(stamp=self._generation)
        elif groups.stamp != self._generation:
            groups = groups.fork(self._generation)
        else:
            return groups
        topics.replace(topic._replace(groups=groups))
        return groups

    def _forget_topic(self, stream: Stream, topic: Topic) -> None:
        self._count_topic(topic, -1)
        self.digest.toggle_topic(stream.id, topic)
        for group in topic.groups or ():
            self.digest.toggle_group(stream.id, topic.id, group)
            self.memberships.changed(stream.id, topic.id, group, None)

    def _count_topic(self, topic: Topic, sign: int) -> None:
        self.topics_count += sign
        self.partitions_count += sign * len(topic.partitions)

    def _patched(self, options: OptionMap, block: bytes) -> OptionMap | None:
        """The options with a block laid over them, or None for a block that fails (4042)."""
        if not block:
            return options
        try:
            return self._pool.patch(options, block)
        except WireError:
            return None

    def _created(self, request: CreateTopicWithAssignments) -> CreatedOptions | None:
        try:
            return self._pool.merge(request.request.options, request.derived_options)
        except WireError:
            return None


def _check_partition_ids(partition_ids: Iterable[int]) -> int:
    """0, or the code of the first id that is out of range or met before."""
    seen: set[int] = set()
    for partition_id in partition_ids:
        if partition_id > _U32_MAX:
            return _BAD_PARTITIONS_COUNT
        if partition_id >= PARTITION_ID_MAX:
            return _PARTITION_IDS_EXHAUSTED
        if partition_id in seen:
            return _BAD_PARTITIONS_COUNT
        seen.add(partition_id)
    return 0


def _purged(partitions: tuple[Partition, ...]) -> tuple[Partition, ...]:
    return tuple(
        Partition(
            partition.id,
            partition.consensus_group_id,
            partition.created_at,
            partition.created_revision,
            0,
            (partition.purge_generation + 1) & _U64_MASK,
        )
        for partition in partitions
    )


def _index_of(partitions: tuple[Partition, ...], partition_id: int) -> int | None:
    if partition_id < len(partitions) and partitions[partition_id].id == partition_id:
        return partition_id  # Ids are dense unless a create chose others.
    return next((index for index, partition in enumerate(partitions) if partition.id == partition_id), None)
