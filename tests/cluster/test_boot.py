"""Booting a data directory in process, on a simulated disk: what is accepted, what is refused, and with which status."""

import contextlib
import dataclasses
import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgpack
import pytest
from loguru import logger

from levrier.actors.runtime import ExitStatus
from levrier.cluster.boot import Booted, BootRefused, boot
from levrier.cluster.config import NodeConfig
from levrier.cluster.simulate.cluster import cheap_hash
from levrier.persistence.acknowledgement_store import AcknowledgementStore
from levrier.persistence.archive_format import segment_name
from levrier.persistence.pairing import Pairing
from levrier.persistence.simulated_storage import Crashed, SimulatedStorage, Tear
from levrier.persistence.snapshot import read_payload, trailer
from levrier.persistence.superblock import Phase, encode_record
from levrier.wire.acknowledgement import Acknowledgement, Frontier
from levrier.wire.checksums import xxh3
from levrier.wire.codes import Operation
from tests.cluster.logs import CONFIG, PATHS, Disk

REGISTER = int(Operation.REGISTER)
STATEMENT = Acknowledgement(
    replica_id="ra",
    node_id="a",
    applied_frontier=Frontier(((0, 5),)),
    origin_sequence_high_water=Frontier(),
    membership_view=("ra",),
    produced_at_ms=1,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Refusals are asserted here, not read."""
    logger.disable("levrier")
    yield
    logger.enable("levrier")


def start(storage: SimulatedStorage, config: NodeConfig = CONFIG) -> Booted:
    return boot(config, storage=storage, entropy=Random(3).randbytes, hashing=cheap_hash)


def content(storage: SimulatedStorage) -> dict[str, bytes | None]:
    """Every file of the group, as it stands."""
    return {
        name: storage.content(PATHS.directory / name)
        for name in storage.list(PATHS.directory)
        if not name.endswith(".tmp")
    }


def refused(disk: Disk, config: NodeConfig = CONFIG, *, status: ExitStatus = ExitStatus.BOOT_DAMAGED) -> str:
    """Why the boot is refused. It has this status, changes no file, and gives the lock back."""
    before = content(disk.storage)
    with pytest.raises(BootRefused) as caught:
        start(disk.storage, config)
    assert caught.value.status == status
    assert content(disk.storage) == before
    disk.storage.lock(config.data / "node.lock").close()
    return str(caught.value)


def logged(*ops: int) -> Disk:
    """A disk with a superblock and these ops in its log."""
    disk = Disk()
    disk.superblock()
    for op in ops:
        disk.entry(op)
    disk.journal().close()
    return disk


def test_a_blank_directory_is_born_alone() -> None:
    """Birth with one replica: BORN at once, as a voter, and a second boot finds the same birth."""
    storage = SimulatedStorage(Random(1))
    first = start(storage)
    first.close()
    assert first.bootstrap is not None
    again = start(storage)
    again.close()
    assert again.durable == first.durable
    assert (again.durable.phase, again.durable.voter) == (Phase.BORN, True)
    assert again.durable.birth_id != 0


def test_a_boot_that_crashed_anywhere_is_repeated() -> None:
    """B-015, D-31: the first boot stops after each of its disk calls, with any of what was unsynced; the next one is blank
    or born, and never refused."""
    whole = SimulatedStorage(Random(1))
    start(whole).close()
    for call in range(whole.calls):
        for tear in (Tear.LOSE, Tear.KEEP, Tear.PREFIX):
            storage = SimulatedStorage(Random(call))
            storage.faults.crash_after = call
            with pytest.raises(Crashed):
                start(storage)
            storage.crash(tear=tear)
            booted = start(storage)
            booted.close()
            assert booted.recovered.applied == 0
            assert booted.durable.phase is Phase.BORN


def test_a_log_without_a_superblock_refuses() -> None:
    """B-010 rules over S-116 (upstream boots): nothing may come up that could have forgotten what it promised."""
    disk = Disk()
    disk.entry(1)
    disk.journal().close()
    reason = refused(disk)
    assert "missing although journal.wal exists" in reason
    assert "start from a copy that was taken before" in reason


def test_a_snapshot_without_a_superblock_refuses() -> None:
    """B-010, the other file."""
    disk = Disk()
    disk.snapshot(5)
    assert "missing although snapshot.bin exists" in refused(disk)


def test_acknowledgements_without_a_superblock_refuse() -> None:
    """They are about another life of the cluster, and must not count in a new one."""
    disk = Disk()
    AcknowledgementStore.open(disk.storage, PATHS.acknowledgements).record(STATEMENT)
    assert "missing although acknowledgements.bin exists" in refused(disk)


def test_an_archive_without_a_superblock_refuses() -> None:
    """History of another life of the cluster; an empty directory is none."""
    disk = Disk()
    disk.storage.make_directory(PATHS.archive)
    start(disk.storage.copy(Random(1))).close()
    disk.storage.open(PATHS.archive / segment_name(1), create=True)
    assert "missing although archive exists" in refused(disk)


def test_damaged_acknowledgements_refuse_with_their_path() -> None:
    """Never an empty store: what a replica said is never forgotten by accident."""
    disk = Disk()
    start(disk.storage).close()
    AcknowledgementStore.open(disk.storage, PATHS.acknowledgements).record(STATEMENT)
    disk.storage.flip(PATHS.acknowledgements, 9)
    reason = refused(disk)
    assert str(PATHS.acknowledgements) in reason
    assert "damaged acknowledgements: checksum" in reason
    disk.storage.flip(PATHS.acknowledgements, 9)
    booted = start(disk.storage)
    assert booted.acknowledgements.all() == (STATEMENT,)
    booted.close()


def test_a_superblock_of_this_node_is_accepted() -> None:
    """S-120: and it is what the node starts from."""
    disk = logged(1, 2)
    booted = start(disk.storage)
    booted.close()
    assert booted.durable.cluster == CONFIG.cluster_id
    assert booted.recovered.applied == 2


@pytest.mark.parametrize(("field", "value"), [("cluster", 0xBEEF), ("replica_id", 1), ("replica_count", 3)], ids=str)
def test_a_superblock_of_another_node_refuses(field: str, value: int) -> None:
    """S-117, B-012, BR-53: status 14, the field, both values."""
    disk = Disk()
    disk.superblock(identity={field: value})
    disk.journal().close()
    reason = refused(disk, status=ExitStatus.BOOT_IDENTITY)
    said = {
        "cluster": f"cluster id is {value:032x}, this node is configured with {CONFIG.cluster_id:032x} ({CONFIG.cluster_name})",
        "replica_id": f"replica_id is {value}, this node is configured with 0",
        "replica_count": f"replica_count is {value}, this node is configured with 1",
    }
    assert said[field] in reason


def test_a_directory_of_one_replica_under_a_roster_of_three() -> None:
    """B-012: the same directory, the other side."""
    disk = logged(1)
    config = dataclasses.replace(CONFIG, replica_count=3)
    reason = refused(disk, config, status=ExitStatus.BOOT_IDENTITY)
    assert "replica_count is 1, this node is configured with 3" in reason


def test_a_superblock_record_that_is_too_short_refuses() -> None:
    """S-114: its checksum is right, its payload makes no sense."""
    disk = Disk()
    disk.storage.put(PATHS.superblock_a, encode_record(1, bytes(20)))
    assert "undecodable: a payload of 20 bytes" in refused(disk)


def test_the_only_copy_with_a_broken_hash_refuses() -> None:
    """S-115: unreadable, and no version is claimed."""
    disk = logged(1)
    disk.storage.flip(PATHS.superblock_a, 30)
    reason = refused(disk)
    assert f"{PATHS.superblock_a}: unreadable: its checksum does not match" in reason
    assert "version" not in reason


@pytest.mark.parametrize("copy", [PATHS.superblock_a, PATHS.superblock_b], ids=["a", "b"])
def test_either_copy_with_a_broken_hash_refuses(copy: Path) -> None:
    """BR-22, D-08: the lost copy may have been the newer one."""
    disk = Disk()
    disk.superblock(copies=2)
    disk.journal().close()
    disk.storage.flip(copy, 30)
    assert f"{copy}: unreadable" in refused(disk)


def test_a_lost_snapshot_refuses() -> None:
    """BR-22: the superblock names a snapshot, the log begins above it, the file is gone."""
    disk = Disk()
    pairing = disk.snapshot(100)
    disk.superblock(pairing)
    disk.entry(101)
    disk.journal(snapshot_op=100).close()
    disk.storage.remove(PATHS.snapshot)
    reason = refused(disk)
    assert f"{PATHS.snapshot}: the superblock names a snapshot at op 100, there is no snapshot" in reason


def test_a_lost_log_refuses() -> None:
    """BR-22, the other file: a born node without a log has lost it."""
    disk = logged(1)
    disk.storage.remove(PATHS.journal)
    assert f"{PATHS.journal}: missing although the cluster was born" in refused(disk)


def test_another_snapshot_of_the_same_op_refuses() -> None:
    """S-101, the last arm, at boot."""
    disk = Disk()
    pairing = disk.snapshot(5, applied=[disk.entry(5)])
    disk.entries.clear()
    disk.superblock(Pairing(op=pairing.op, checksum=pairing.checksum ^ 1))
    disk.journal(snapshot_op=5).close()
    assert "snapshot at op 5 has checksum" in refused(disk)


def test_a_snapshot_that_the_superblock_does_not_name_yet_is_accepted() -> None:
    """S-101, the lagging arm, at boot: a crash between the rename and the superblock."""
    disk = Disk()
    for op in range(1, 4):
        disk.entry(op)
    disk.superblock()
    disk.snapshot(2, applied=disk.entries[:2])
    disk.journal(snapshot_op=2).close()
    booted = start(disk.storage)
    booted.close()
    assert (booted.pairing.op, booted.recovered.applied) == (2, 3)


def _with_version(disk: Disk, version: bytes) -> Pairing:
    """Replace the version of the snapshot by these msgpack bytes, checksum and all."""
    payload = read_payload(disk.storage, PATHS.snapshot)
    assert payload is not None
    assert payload[1:2] == b"\x01"
    changed = payload[:1] + version + payload[2:]
    disk.storage.put(PATHS.snapshot, changed + trailer(xxh3(changed)))
    return Pairing(op=5, checksum=xxh3(changed))


def test_a_snapshot_of_another_version_refuses() -> None:
    """S-118 (there: version 4, expected 3): the version is judged before anything else is decoded."""
    disk = Disk()
    disk.snapshot(5)
    disk.superblock(_with_version(disk, msgpack.packb(4)))
    disk.journal(snapshot_op=5).close()
    assert f"{PATHS.snapshot}: format version 4, expected 1" in refused(disk)


def test_a_version_in_a_wider_form_is_accepted() -> None:
    """S-119: 1 as a u16. The pairing is the hash of the bytes on the disk, not of what we would have written."""
    disk = Disk()
    disk.snapshot(5)
    pairing = _with_version(disk, b"\xcd\x00\x01")
    disk.superblock(pairing)
    disk.journal(snapshot_op=5).close()
    booted = start(disk.storage)
    booted.close()
    assert booted.pairing == pairing


def test_a_hole_in_the_log_refuses_with_its_op() -> None:
    """D-06."""
    assert "op 3 is missing before op 4" in refused(logged(1, 2, 4))


def test_capacity_8_then_2_then_8() -> None:
    """BR-26: three clients registered; it boots each time. At 2 the oldest by commit goes; the log brings it back at 8."""
    disk = Disk()
    disk.superblock()
    for op, client in ((1, 0xA), (2, 0xB), (3, 0xC)):
        disk.entry(op, operation=REGISTER, client=client, request=0)
    disk.journal().close()
    tables = []
    for capacity in (8, 2, 8):
        booted = start(disk.storage, dataclasses.replace(CONFIG, clients_table_max=capacity))
        booted.close()
        tables.append([client for client in (0xA, 0xB, 0xC) if booted.recovered.table.entry_of(client) is not None])
    assert tables == [[0xA, 0xB, 0xC], [0xB, 0xC], [0xA, 0xB, 0xC]]


def test_a_directory_in_use_refuses_with_15() -> None:
    """And the node that has it keeps it."""
    storage = SimulatedStorage(Random(1))
    first = start(storage)
    with pytest.raises(BootRefused) as caught:
        start(storage)
    assert caught.value.status == ExitStatus.IN_USE
    first.close()
    start(storage).close()


def test_a_full_disk_refuses_the_first_boot_and_is_no_harm() -> None:
    """BR-51, the boot: ENOSPC at each byte of it; once there is room it starts, without a manual step."""
    whole = SimulatedStorage(Random(1))
    start(whole).close()
    for budget in (0, 1, 50, 111, 112, 113, 200, 4_000, 4_096, 5_000, 100_000):
        storage = SimulatedStorage(Random(budget))
        storage.faults.write_budget = budget
        with pytest.raises(BootRefused, match="ENOSPC") as caught:
            start(storage)
        assert "free space on this disk" in str(caught.value)
        storage.faults.write_budget = None
        start(storage).close()


def test_a_read_error_refuses_and_is_no_harm() -> None:
    """EIO at each disk call of a boot is a refusal, or is survived; afterwards it boots and has everything."""
    disk = logged(1, 2, 3)
    whole = disk.storage.copy(Random(1))
    start(whole).close()
    for call in range(1, whole.calls + 1):
        storage = disk.storage.copy(Random(call))
        storage.faults.fail_at[call] = errno.EIO
        with contextlib.suppress(BootRefused):
            start(storage).close()
        storage.faults.fail_at.clear()
        booted = start(storage)
        booted.close()
        assert booted.recovered.applied == 3
