"""Protocol versions: three small numbers packed into one, and which clients are let in (wire specification 9.2)."""

from dataclasses import dataclass
from typing import Final

from levrier.wire.errors import WireError

_PART_MAX: Final = 1023
_MAJOR_MAX: Final = (1 << 12) - 1


def pack(major: int, minor: int, patch: int) -> int:
    """`major.minor.patch` as one u32."""
    if not (0 <= major <= _MAJOR_MAX and 0 <= minor <= _PART_MAX and 0 <= patch <= _PART_MAX):
        raise WireError(f"{major}.{minor}.{patch} does not fit", "protocol version")
    return major << 20 | minor << 10 | patch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolWindow:
    """The versions a node accepts: from `oldest` up to any patch of `newest`."""

    oldest: int
    newest: int

    def accepts(self, version: int) -> bool:
        """Whether a client of this version may log in."""
        return version >= self.oldest and version >> 10 <= self.newest >> 10


CURRENT: Final = pack(0, 11, 0)
WINDOW: Final = ProtocolWindow(oldest=CURRENT, newest=CURRENT)

assert CURRENT == 11264
