"""Wrong disk content refuses to boot: status 13, the file, the op or the offset, the next step; and nothing is changed."""

import shutil
from pathlib import Path

import pytest

from levrier.actors.runtime import ExitStatus
from levrier.persistence.journal_format import FILE_HEADER_SIZE, RECORD_HEADER_SIZE
from levrier.wire.codes import Operation
from tests.cluster.processes import Ended, NotReady, Spawn
from tests.cluster.raw_client import RawClient, code, create_stream, rename_stream

pytestmark = pytest.mark.process

SLOTS = 256
RENAMES = 400


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((directory / "metadata").iterdir())}


def fill(spawn: Spawn, data: Path, names: list[str], *, slots: int | None = None, renames: int = 0) -> None:
    limits = {} if slots is None else {"journal_slots": slots}
    with spawn(data, **limits).ready() as node, RawClient(node.host, node.port) as client:
        assert code(client.register()) == 0
        for number, name in enumerate(names, 1):
            assert code(client.call(Operation.CREATE_STREAM, create_stream(name), number=number)) == 0
        for number in range(1, renames + 1):
            body = rename_stream(0, f"name-{number}")
            assert code(client.call(Operation.UPDATE_STREAM, body, number=len(names) + number)) == 0
        node.kill()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a killed node with a log and without a snapshot; made once, copied by each test."""
    return _made(tmp_path_factory.mktemp("plain"), renames=0, slots=None)


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a killed node that has taken checkpoints; made once, copied by each test."""
    data = _made(tmp_path_factory.mktemp("checkpointed"), renames=RENAMES, slots=SLOTS)
    assert (data / "metadata" / "snapshot.bin").exists()
    return data


def _made(directory: Path, *, renames: int, slots: int | None) -> Path:
    from tests.cluster.processes import NodeProcess, serve_command, small_command  # noqa: PLC0415

    data = directory / "data"

    def spawn(path: Path, **limits: int | str) -> NodeProcess:
        command = small_command(path, "127.0.0.1:0", **limits) if limits else serve_command(path, "127.0.0.1:0")
        return NodeProcess(command, directory / "node.log")

    fill(spawn, data, [f"stream-{number}" for number in range(20)], renames=renames, slots=slots)
    return data


def refused(spawn: Spawn, data: Path, **limits: int | str) -> Ended:
    """How the node ends; it must not have changed a file that it refused."""
    before = content(data)
    node = spawn(data, **limits)
    with pytest.raises(NotReady):
        node.ready()
    ended = node.wait()
    assert ended.status == ExitStatus.BOOT_DAMAGED, ended.log
    assert content(data) == before
    return ended


def flip(file: Path, offset: int) -> None:
    changed = bytearray(file.read_bytes())
    changed[offset] ^= 0x10
    file.write_bytes(changed)


def test_a_flipped_byte_inside_the_log_refuses_with_the_offset(spawn: Spawn, plain: Path, tmp_path: Path) -> None:
    """Interior damage: named by file and offset, with the way out."""
    data = Path(shutil.copytree(plain, tmp_path / "data"))
    log = data / "metadata" / "journal.wal"
    flip(log, FILE_HEADER_SIZE + RECORD_HEADER_SIZE + 300)
    ended = refused(spawn, data)
    assert str(log) in ended.log
    assert f"damage inside the log at offset {FILE_HEADER_SIZE}" in ended.log
    assert "keep the directory as it is for a look" in ended.log


def test_a_missing_snapshot_refuses(spawn: Spawn, checkpointed: Path, tmp_path: Path) -> None:
    """BR-22: the checkpoint file is gone and the log begins above it; the node does not start empty."""
    data = Path(shutil.copytree(checkpointed, tmp_path / "data"))
    snapshot = data / "metadata" / "snapshot.bin"
    snapshot.unlink()
    ended = refused(spawn, data, journal_slots=SLOTS)
    assert str(snapshot) in ended.log
    assert "the superblock names a snapshot at op" in ended.log
    assert "start from a copy that was taken before" in ended.log


def test_a_flipped_byte_of_the_snapshot_refuses(spawn: Spawn, checkpointed: Path, tmp_path: Path) -> None:
    """S-113, the node's side: a snapshot that is not what was written is not loaded."""
    data = Path(shutil.copytree(checkpointed, tmp_path / "data"))
    snapshot = data / "metadata" / "snapshot.bin"
    flip(snapshot, 100)
    ended = refused(spawn, data, journal_slots=SLOTS)
    assert f"{snapshot}: damaged snapshot" in ended.log
    assert "start from a copy that was taken before" in ended.log


def test_a_missing_superblock_refuses(spawn: Spawn, plain: Path, tmp_path: Path) -> None:
    """B-010 (which rules over S-116: there, a log without a superblock boots): refused, the recovery command named."""
    data = Path(shutil.copytree(plain, tmp_path / "data"))
    for copy in ("superblock.a", "superblock.b"):
        (data / "metadata" / copy).unlink(missing_ok=True)
    ended = refused(spawn, data)
    assert "missing although journal.wal exists" in ended.log
    assert "start from a copy that was taken before" in ended.log


@pytest.mark.parametrize("copy", ["a", "b"])
def test_a_damaged_copy_of_the_superblock_refuses(spawn: Spawn, checkpointed: Path, tmp_path: Path, copy: str) -> None:
    """BR-22, the superblock unreadable: either copy may have been the newer one (D-08)."""
    data = Path(shutil.copytree(checkpointed, tmp_path / "data"))
    damaged = data / "metadata" / f"superblock.{copy}"
    flip(damaged, 40)
    ended = refused(spawn, data, journal_slots=SLOTS)
    assert f"{damaged}: unreadable" in ended.log
    assert "start from a copy that was taken before" in ended.log


def test_the_same_directories_start_when_they_are_whole(
    spawn: Spawn, plain: Path, checkpointed: Path, tmp_path: Path
) -> None:
    """What the other tests damage is what a node starts from."""
    for source, limits, first in ((plain, {}, "stream-0"), (checkpointed, {"journal_slots": SLOTS}, f"name-{RENAMES}")):
        data = Path(shutil.copytree(source, tmp_path / source.parent.name))
        with spawn(data, **limits).ready() as node, RawClient(node.host, node.port, client=9) as client:
            client.register()
            assert client.streams() == [(0, first), *((number, f"stream-{number}") for number in range(1, 20))]
