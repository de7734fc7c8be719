"""Durations and byte sizes as people write them in a configuration file (requests specification 1.5).

Durations follow the usual human form, `15days 2min 2s`: whole numbers with a unit, added up. Byte sizes are one number,
possibly with a fraction, and a unit that counts in thousands (`kB`, `MB`) or in 1024s (`KiB`, `MiB`), in any case.
"""

import re
from fractions import Fraction
from typing import Final

from levrier.wire.errors import WireError

_NANOSECONDS: Final[dict[str, int]] = {
    unit: factor
    for factor, units in (
        (1, "nanos nsec ns"),
        (1_000, "micros usec us µs"),
        (1_000_000, "millis msec ms"),
        (1_000_000_000, "seconds second secs sec s"),
        (60_000_000_000, "minutes minute mins min m"),
        (3_600_000_000_000, "hours hour hrs hr h"),
        (86_400_000_000_000, "days day d"),
        (604_800_000_000_000, "weeks week wks wk w"),
        (2_630_016_000_000_000, "months month M"),
        (31_557_600_000_000_000, "years year yrs yr y"),
    )
    for unit in units.split()
}
_TEXT_SIZE_MAX: Final = 255
_DURATION_PART: Final = re.compile(r"\s*([0-9]+)\s*([A-Za-zµ]+)")
_BYTE_SIZE: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtpe]?)(i?)b?)\s*", re.ASCII | re.IGNORECASE)
_POWERS: Final = "kmgtpe"
_U64_MAX: Final = (1 << 64) - 1


def parse_duration_nanoseconds(text: str) -> int:
    """The nanoseconds of a duration such as `7 days` or `1h 30m`. Raises `WireError`."""
    if text.strip() == "0":
        return 0
    total, offset, end = 0, 0, len(text.rstrip())
    if end == 0 or end > _TEXT_SIZE_MAX:
        raise WireError(f"{end} characters are no duration", "duration")
    while offset < end:
        part = _DURATION_PART.match(text, offset, end)
        if part is None or part[2] not in _NANOSECONDS:
            raise WireError(f"{text[offset:]!r} is not a number and a unit of time", "duration")
        total += int(part[1]) * _NANOSECONDS[part[2]]
        offset = part.end()
    return total


def parse_byte_size(text: str) -> int:
    """The bytes of a size such as `512 MiB`, `1.5GB` or `4096`. Fractions of a byte are dropped. Raises `WireError`."""
    match = _BYTE_SIZE.fullmatch(text) if len(text) <= _TEXT_SIZE_MAX else None
    if match is None or (match[3] and not match[2]):
        raise WireError(f"{text[:64]!r} is not a number of bytes", "byte size")
    base = 1024 if match[3] else 1000
    power = _POWERS.index(match[2].lower()) + 1 if match[2] else 0
    size = int(Fraction(match[1]) * base**power)
    if size > _U64_MAX:
        raise WireError(f"{text[:64]!r} does not fit 64 bits", "byte size")
    return size
