"""The figures of a node: the answer to GET_STATS (requests specification 9.2)."""

from dataclasses import dataclass
from typing import Final, Self

from levrier.wire.body import ResponseBody
from levrier.wire.reader import Reader
from levrier.wire.writer import Writer

_CACHE_METRICS_SIZE: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheMetrics(ResponseBody):
    """How often the cache of one partition was of use."""

    stream_id: int
    topic_id: int
    partition_id: int
    hits: int
    misses: int
    hit_ratio: float

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            stream_id=reader.u32("stream_id"),
            topic_id=reader.u32("topic_id"),
            partition_id=reader.u32("partition_id"),
            hits=reader.u64("hits"),
            misses=reader.u64("misses"),
            hit_ratio=reader.f32("hit_ratio"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.stream_id, "stream_id")
        writer.u32(self.topic_id, "topic_id")
        writer.u32(self.partition_id, "partition_id")
        writer.u64(self.hits, "hits")
        writer.u64(self.misses, "misses")
        writer.f32(self.hit_ratio, "hit_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(ResponseBody):
    """Sizes in bytes, `run_time` in microseconds, `start_time` in microseconds since the epoch, usage in percent."""

    process_id: int = 0
    cpu_usage: float = 0.0
    total_cpu_usage: float = 0.0
    memory_usage: int = 0
    total_memory: int = 0
    available_memory: int = 0
    run_time: int = 0
    start_time: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    messages_size_bytes: int = 0
    streams_count: int = 0
    topics_count: int = 0
    partitions_count: int = 0
    segments_count: int = 0
    messages_count: int = 0
    clients_count: int = 0
    consumer_groups_count: int = 0
    hostname: str = ""
    os_name: str = ""
    os_version: str = ""
    kernel_version: str = ""
    server_version: str = ""
    server_semver: int = 0
    cache_metrics: tuple[CacheMetrics, ...] = ()
    threads_count: int = 0
    free_disk_space: int = 0
    total_disk_space: int = 0

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            process_id=reader.u32("process_id"),
            cpu_usage=reader.f32("cpu_usage"),
            total_cpu_usage=reader.f32("total_cpu_usage"),
            memory_usage=reader.u64("memory_usage"),
            total_memory=reader.u64("total_memory"),
            available_memory=reader.u64("available_memory"),
            run_time=reader.u64("run_time"),
            start_time=reader.u64("start_time"),
            read_bytes=reader.u64("read_bytes"),
            written_bytes=reader.u64("written_bytes"),
            messages_size_bytes=reader.u64("messages_size_bytes"),
            streams_count=reader.u32("streams_count"),
            topics_count=reader.u32("topics_count"),
            partitions_count=reader.u32("partitions_count"),
            segments_count=reader.u32("segments_count"),
            messages_count=reader.u64("messages_count"),
            clients_count=reader.u32("clients_count"),
            consumer_groups_count=reader.u32("consumer_groups_count"),
            hostname=reader.text("hostname"),
            os_name=reader.text("os_name"),
            os_version=reader.text("os_version"),
            kernel_version=reader.text("kernel_version"),
            server_version=reader.text("server_version"),
            server_semver=reader.u32("server_semver"),
            cache_metrics=tuple(
                CacheMetrics.read(reader) for _ in range(reader.count("cache_metrics_count", _CACHE_METRICS_SIZE))
            ),
            threads_count=reader.u32("threads_count"),
            free_disk_space=reader.u64("free_disk_space"),
            total_disk_space=reader.u64("total_disk_space"),
        )

    def write(self, writer: Writer) -> None:
        writer.u32(self.process_id, "process_id")
        writer.f32(self.cpu_usage, "cpu_usage")
        writer.f32(self.total_cpu_usage, "total_cpu_usage")
        writer.u64(self.memory_usage, "memory_usage")
        writer.u64(self.total_memory, "total_memory")
        writer.u64(self.available_memory, "available_memory")
        writer.u64(self.run_time, "run_time")
        writer.u64(self.start_time, "start_time")
        writer.u64(self.read_bytes, "read_bytes")
        writer.u64(self.written_bytes, "written_bytes")
        writer.u64(self.messages_size_bytes, "messages_size_bytes")
        writer.u32(self.streams_count, "streams_count")
        writer.u32(self.topics_count, "topics_count")
        writer.u32(self.partitions_count, "partitions_count")
        writer.u32(self.segments_count, "segments_count")
        writer.u64(self.messages_count, "messages_count")
        writer.u32(self.clients_count, "clients_count")
        writer.u32(self.consumer_groups_count, "consumer_groups_count")
        writer.text(self.hostname, "hostname")
        writer.text(self.os_name, "os_name")
        writer.text(self.os_version, "os_version")
        writer.text(self.kernel_version, "kernel_version")
        writer.text(self.server_version, "server_version")
        writer.u32(self.server_semver, "server_semver")
        writer.u32(len(self.cache_metrics), "cache_metrics_count")
        for metrics in self.cache_metrics:
            metrics.write(writer)
        writer.u32(self.threads_count, "threads_count")
        writer.u64(self.free_disk_space, "free_disk_space")
        writer.u64(self.total_disk_space, "total_disk_space")
