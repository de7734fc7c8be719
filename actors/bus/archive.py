"""The diagnostics archive of GET_SNAPSHOT_FILE: a ZIP of what an operator sends along with a question (requests 9.6).

What goes in is given: the status of the replica, and files by the type that asks for them. No secret is among them (D-20);
whoever supplies a file sees to that. Built in a worker thread.
"""

import zipfile
from collections.abc import Mapping
from enum import IntEnum, unique
from io import BytesIO
from typing import Final

from levrier.wire.codes import ErrorCode
from levrier.wire.errors import WireError
from levrier.wire.requests.system import GetSnapshotFile

Files = Mapping[str, bytes]
"""Contents by file name."""


@unique
class Section(IntEnum):
    """What may be asked for."""

    FILE_SYSTEM = 1
    PROCESSES = 2
    RESOURCES = 3
    TEST = 4
    LOGS = 5
    CONFIGURATION = 6
    ALL = 100


FILE_OF_SECTION: Final[Mapping[Section, str]] = {
    Section.FILE_SYSTEM: "file_system.json",
    Section.PROCESSES: "processes.json",
    Section.RESOURCES: "resources.json",
    Section.TEST: "test.txt",
    Section.LOGS: "logs.txt",
    Section.CONFIGURATION: "configuration.json",
}
STATUS_FILE: Final = "status.json"
"""Always in the archive."""

_METHODS: Final = {1: zipfile.ZIP_STORED, 2: zipfile.ZIP_DEFLATED, 3: zipfile.ZIP_BZIP2, 5: zipfile.ZIP_LZMA}
_WITHOUT_METHOD: Final = frozenset({4, 6})
"""Zstandard and XZ: known compressions that this ZIP writer lacks."""


class CompressionNotServed(WireError):
    """A known compression that this node cannot write."""

    code = ErrorCode.SNAPSHOT_FILE_COMPLETION_FAILED


class UnknownArchiveCode(WireError):
    """A compression or a type that nobody knows."""

    code = ErrorCode.INVALID_FORMAT


def check(request: GetSnapshotFile) -> None:
    """Raise `CompressionNotServed` (9000) or `UnknownArchiveCode` (4) for what cannot be built as asked."""
    if request.compression in _WITHOUT_METHOD:
        raise CompressionNotServed(f"{request.compression} is not served", "compression")
    if request.compression not in _METHODS:
        raise UnknownArchiveCode(f"{request.compression} is no compression", "compression")
    unknown = set(request.types) - set(Section)
    if unknown:
        raise UnknownArchiveCode(f"{min(unknown)} is no type", "types")


def build(request: GetSnapshotFile, status: bytes, files: Files) -> bytes:
    """The archive: the status and those of the files that were asked for. No type at all asks for everything."""
    wanted = set(request.types)
    everything = not wanted or Section.ALL in wanted
    contents = {STATUS_FILE: status, FILE_OF_SECTION[Section.TEST]: b"test\n", **files}
    names = [STATUS_FILE, *(name for section, name in FILE_OF_SECTION.items() if everything or section in wanted)]
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", _METHODS[request.compression]) as archive:
        for name in names:
            if name in contents:
                # The compression of a ZipInfo is its own; its time stays that of the epoch of the format.
                entry = zipfile.ZipInfo(name)
                entry.compress_type = _METHODS[request.compression]
                archive.writestr(entry, contents[name])
    return packed.getvalue()
