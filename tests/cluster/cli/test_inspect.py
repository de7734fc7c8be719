"""`levrier inspect`: the files of a stopped node, whole and damaged; nothing is changed by looking."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from levrier.cluster.client import Client
from levrier.cluster.config import METADATA_GROUP, NodeConfig
from levrier.cluster.testing import Server
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.archive import Archive
from levrier.persistence.data_dir import GroupPaths
from levrier.persistence.journal import PrepareJournal
from levrier.persistence.storage import DiskStorage
from levrier.wire.acknowledgement import Acknowledgement, Frontier
from tests.cluster.cli.running import CommandLine, Ran

SLOTS = 256
STREAMS = 150
"""More operations than half of the slots."""
STATUS_READS_MAX = 2_000


async def _create(server: Server, *, streams: int, checkpoint: bool = False) -> None:
    """Create streams, and wait for the checkpoint that they cause."""
    async with await Client.connect(server.host, server.port) as client:
        await client.login(server.username, server.password)
        for number in range(streams):
            await client.create_stream(f"stream-{number}")
        for _ in range(STATUS_READS_MAX if checkpoint else 0):
            if (await client.status())["checkpoint"]:
                return
    assert not checkpoint, "no checkpoint came"


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a stopped node with a snapshot and a log. Not to be changed."""
    data = tmp_path_factory.mktemp("checkpointed") / "data"
    with Server(data=data, config=NodeConfig(journal_slots=SLOTS)) as server:
        asyncio.run(_create(server, streams=STREAMS, checkpoint=True))
    return data


@pytest.fixture(scope="module")
def young(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a stopped node that never took a checkpoint. Not to be changed."""
    data = tmp_path_factory.mktemp("young") / "data"
    with Server(data=data) as server:
        asyncio.run(_create(server, streams=1))
    return data


@pytest.fixture
def copy(checkpointed: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(checkpointed, tmp_path / "copy"))


def flip(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def parsed(ran: Ran) -> Any:
    assert (ran.status, ran.err) == (0, "")
    return json.loads(ran.out)


def test_the_log_in_json(levrier: CommandLine, checkpointed: Path) -> None:
    log = parsed(levrier("inspect", "journal", str(checkpointed), "--limit", "0", "--json"))
    ops = [entry["op"] for entry in log["entries"]]
    assert ops == list(range(log["first_op"], log["last_op"] + 1))
    assert (log["count"], log["torn_bytes"], log["torn_reason"]) == (len(ops), 0, None)
    assert log["file"] == str(checkpointed / "metadata" / "journal.wal")
    assert list(log["entries"][0]) == [
        *("op", "operation", "client", "request", "user", "view", "timestamp", "size", "offset", "checksum")
    ]
    assert "create_stream" in {entry["operation"] for entry in log["entries"]}
    offsets = [entry["offset"] for entry in log["entries"]]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] < log["bytes"]


def test_a_part_of_the_log(levrier: CommandLine, checkpointed: Path) -> None:
    log = parsed(levrier("inspect", "journal", str(checkpointed), "--json"))
    first = log["first_op"] + 3
    part = parsed(levrier("inspect", "journal", str(checkpointed), "--from", str(first), "--limit", "2", "--json"))
    assert [entry["op"] for entry in part["entries"]] == [first, first + 1]
    assert part["count"] == log["count"]


def test_the_log_as_a_table(levrier: CommandLine, young: Path, terminal: int) -> None:
    ran = levrier("inspect", "journal", str(young))
    assert ran.status == 0
    # The client went away as the node ended: its logout may be the fourth.
    assert re.search(r"(3 entries, ops 1 to 3|4 entries, ops 1 to 4), ", ran.err)
    heading, row, *_ = ran.lines
    assert heading.split() == ["op", "operation", "client", "request", "user", "view", "timestamp", "size", "offset"]
    assert row.split()[:2] == ["1", "bootstrap_root"]
    assert len(row) <= terminal


def test_a_table_says_how_many_entries_it_leaves_out(levrier: CommandLine, checkpointed: Path) -> None:
    ran = levrier("inspect", "journal", str(checkpointed), "--limit", "5")
    assert len(ran.lines) == 1 + 5
    assert " more; --from OP goes on, --limit 0 shows all" in ran.err


def test_the_superblock_of_a_checkpointed_node(levrier: CommandLine, checkpointed: Path) -> None:
    copies = parsed(levrier("inspect", "superblock", str(checkpointed), "--json"))
    assert [copy["copy"] for copy in copies] == ["superblock.a", "superblock.b"]
    current = next(copy for copy in copies if copy["state"] == "current")
    assert current["sequence"] == max(copy["sequence"] for copy in copies if copy["sequence"] is not None)
    assert current["cluster"] == f"{NodeConfig().cluster_id:032x}"
    assert (current["replica_id"], current["replica_count"], current["voter"]) == (0, 1, True)
    snapshot = parsed(levrier("inspect", "snapshot", str(checkpointed), "--json"))
    assert current["checkpoint_op"] == snapshot["op"] > 0


def test_both_copies_stand_side_by_side(levrier: CommandLine, checkpointed: Path, terminal: int) -> None:
    lines = levrier("inspect", "superblock", str(checkpointed)).lines
    assert lines[0].split() == ["field", "superblock.a", "superblock.b"]
    assert "current" in lines[1]
    assert max(map(len, lines)) <= terminal


def test_the_snapshot(levrier: CommandLine, checkpointed: Path) -> None:
    record = parsed(levrier("inspect", "snapshot", str(checkpointed), "--json"))
    assert list(record) == [
        *("op", "created_at", "bytes", "checksum", "users", "streams", "sessions", "next_user_id"),
        *("consensus_group_high_water", "birth_id"),
    ]
    assert 0 < record["streams"] <= STREAMS
    assert record["users"] == 1
    assert 0 < record["bytes"] <= (checkpointed / "metadata" / "snapshot.bin").stat().st_size
    table = levrier("inspect", "snapshot", str(checkpointed)).lines
    assert next(line.split() for line in table if line.startswith("streams")) == ["streams", str(record["streams"])]


@pytest.mark.parametrize("what", ["journal", "superblock", "snapshot"])
def test_looking_changes_nothing(levrier: CommandLine, copy: Path, what: str) -> None:
    before = {path.name: path.read_bytes() for path in (copy / "metadata").iterdir()}
    assert levrier("inspect", what, str(copy)).status == 0
    assert {path.name: path.read_bytes() for path in (copy / "metadata").iterdir()} == before


def test_damage_inside_the_log_names_file_op_and_offset(levrier: CommandLine, copy: Path) -> None:
    journal = copy / "metadata" / "journal.wal"
    entry = parsed(levrier("inspect", "journal", str(copy), "--json"))["entries"][4]
    flip(journal, entry["offset"] + 100)
    ran = levrier("inspect", "journal", str(copy))
    assert ran.status == 1
    assert ran.complaint.startswith(f"{journal}: damage inside the log at offset {entry['offset']} (op {entry['op']})")


def test_a_torn_tail_is_said_and_is_no_error(levrier: CommandLine, copy: Path) -> None:
    """What no later record proves to have been durable is what a crash leaves."""
    end = parsed(levrier("inspect", "journal", str(copy), "--json"))["bytes"]
    flip(copy / "metadata" / "journal.wal", end + 8)
    log = parsed(levrier("inspect", "journal", str(copy), "--json"))
    assert log["torn_bytes"] > 0
    assert log["torn_reason"]
    assert "torn tail" in levrier("inspect", "journal", str(copy)).err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["table", "json"])
def test_a_damaged_superblock_is_an_error_and_the_other_copy_is_shown(
    levrier: CommandLine, copy: Path, options: tuple[str, ...]
) -> None:
    damaged = copy / "metadata" / "superblock.a"
    flip(damaged, 60)
    ran = levrier("inspect", "superblock", str(copy), *options)
    assert ran.status == 1
    assert ran.err == (f"levrier: {damaged}: its checksum does not match; a node will not start from this directory\n")
    assert "damaged: its checksum does not match" in ran.out
    assert f"{NodeConfig().cluster_id:032x}" in ran.out


def test_a_damaged_snapshot_is_an_error(levrier: CommandLine, copy: Path) -> None:
    damaged = copy / "metadata" / "snapshot.bin"
    flip(damaged, 40)
    ran = levrier("inspect", "snapshot", str(copy))
    assert ran.status == 1
    assert ran.complaint.startswith(f"{damaged}: damaged snapshot: ")


@pytest.mark.parametrize("what", ["journal", "superblock", "snapshot"])
def test_a_directory_in_use_cannot_be_asked(levrier: CommandLine, server: Server, what: str) -> None:
    ran = levrier("inspect", what, str(server.data))
    assert ran.status == 2
    assert "held by process " in ran.complaint


@pytest.mark.parametrize("what", ["journal", "superblock", "snapshot"])
def test_a_directory_that_is_not_there_cannot_be_asked(levrier: CommandLine, tmp_path: Path, what: str) -> None:
    ran = levrier("inspect", what, str(tmp_path / "nowhere"))
    assert (ran.status, ran.complaint) == (2, f"{tmp_path / 'nowhere'} does not exist")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_something_else_is_left_alone(levrier: CommandLine, tmp_path: Path) -> None:
    ran = levrier("inspect", "journal", str(tmp_path))
    assert ran.status == 2
    assert ran.complaint == f"{tmp_path} has no node.lock: it is no data directory of a node"
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_was_not_written_yet_cannot_be_asked(levrier: CommandLine, young: Path) -> None:
    ran = levrier("inspect", "snapshot", str(young))
    assert ran.status == 2
    assert ran.complaint.startswith(f"{young / 'metadata' / 'snapshot.bin'} does not exist")


def test_a_directory_in_which_no_node_was_born_has_no_superblock(levrier: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "node.lock").touch()
    ran = levrier("inspect", "superblock", str(tmp_path))
    assert ran.status == 2
    assert "no node was born in it" in ran.err


def keep(data: Path) -> Path:
    """Have the directory keep what a drain would take out of its log; the segment."""
    paths = GroupPaths(data / "metadata")
    storage = DiskStorage()
    log = PrepareJournal.open(
        storage, paths.journal, group=METADATA_GROUP, snapshot_op=0, slots=SLOTS, epoch_source=lambda: 1
    )
    archive = Archive.open(storage, paths.archive, group=METADATA_GROUP)
    last = log.last_op
    assert last is not None
    session = archive.begin(log, last - 2)
    while not session.step():
        pass
    log.close()
    state(data)
    return archive.segments[0].path


def state(data: Path) -> Path:
    """Have the directory hold a statement of its member; the file."""
    path = GroupPaths(data / "metadata").acknowledgements
    store = AcknowledgementStore.open(DiskStorage(), path)
    said = Acknowledgement(
        replica_id="c-00",
        node_id="node-0",
        applied_frontier=Frontier(((0, 10**6),)),
        origin_sequence_high_water=Frontier(),
        membership_view=("c-00", "c-01"),
        produced_at_ms=1_700_000_000_000,
    )
    assert store.record(said)
    return path


def test_the_history_in_json(levrier: CommandLine, copy: Path) -> None:
    segment = keep(copy)
    found = parsed(levrier("inspect", "history", str(copy), "--json"))
    assert found["acknowledgements"][-1] == {
        "replica": "c-00",
        "node": "node-0",
        "applied": 10**6,
        "said_at": 1_700_000_000_000_000,
        "members": 2,
    }
    [kept] = found["segments"]
    assert (kept["file"], kept["bytes"]) == (segment.name, segment.stat().st_size)
    assert kept["first_op"] <= kept["last_op"]


def test_the_history_as_tables(levrier: CommandLine, copy: Path) -> None:
    state(copy)
    ran = levrier("inspect", "history", str(copy))
    assert (ran.status, ran.err) == (0, "")
    assert ran.lines[0].split() == ["replica", "node", "applied", "said", "at", "members"]
    assert ran.lines[-1] == "no history is kept beside the log"


def test_a_damaged_segment_is_named(levrier: CommandLine, copy: Path) -> None:
    segment = keep(copy)
    flip(segment, segment.stat().st_size - 30)
    ran = levrier("inspect", "history", str(copy))
    assert ran.status == 1
    assert str(segment) in ran.err


def test_damaged_acknowledgements_are_named(levrier: CommandLine, copy: Path) -> None:
    path = state(copy)
    flip(path, 9)
    ran = levrier("inspect", "history", str(copy))
    assert ran.status == 1
    assert f"{path}: damaged acknowledgements" in ran.err
