"""What a value of the configuration may be, and what its text means."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeAlias, Union

from levrier.cluster.refused import ConfigError


class Kind(Enum):
    """What a value is."""

    TEXT = "a text"
    SWITCH = "true or false"
    COUNT = "a whole number"
    NUMBER = "a number"
    TEXTS = 'a list of texts such as ["a", "b"]'
    DURATION = 'a duration such as "5 s" or "500 ms"'
    SIZE = 'a size such as "10 GiB" or "512 MiB"'


Schema: TypeAlias = Mapping[str, Union[Kind, "Schema", tuple["Schema"]]]

_UNITS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_SIZE_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(B|KiB|MiB|GiB|TiB)")
_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(us|ms|s|m|h)")


def typed(value: object, kind: Kind, name: str) -> None:
    """Check that a value is of its kind. Raises `ConfigError`."""
    fits = {
        Kind.TEXT: isinstance(value, str) and "\0" not in value,
        Kind.SWITCH: isinstance(value, bool),
        Kind.COUNT: isinstance(value, int) and not isinstance(value, bool) and value >= 0,
        Kind.NUMBER: isinstance(value, int | float) and not isinstance(value, bool),
        Kind.TEXTS: isinstance(value, list) and all(isinstance(each, str) for each in value),
        Kind.DURATION: isinstance(value, str),
        Kind.SIZE: isinstance(value, str),
    }[kind]
    if not fits:
        shown = "" if "secret" in name else f" {value!r}"
        raise ConfigError(f"{name}{shown}: {kind.value} is expected")
    if kind is Kind.DURATION:
        assert isinstance(value, str)
        micros(value, name)
    if kind is Kind.SIZE:
        assert isinstance(value, str)
        size(value, name)


def micros(text: str, name: str) -> int:
    """A duration in microseconds. Raises `ConfigError`."""
    stripped = text.strip()
    parts = _PART.findall(stripped)
    if not parts or _PART.sub("", stripped).strip():
        raise ConfigError(f"{name} {text!r}: {Kind.DURATION.value} is expected")
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def at_least(text: str, name: str, least: int) -> int:
    """A duration of `least` microseconds or more, in microseconds. Raises `ConfigError`, which says both as a person does."""
    found = micros(text, name)
    if found < least:
        raise ConfigError(f"{name} is {text.strip()}: at least {duration(least)}")
    return found


def duration(micros: int) -> str:
    """A duration in the largest unit in which it is a whole number."""
    unit = max(
        (unit for unit in _UNITS if micros % _UNITS[unit] == 0 and micros >= _UNITS[unit]),
        key=_UNITS.__getitem__,
        default="s",
    )
    return f"{micros // _UNITS[unit]} {unit}"


def size(text: str, name: str) -> int:
    """A size in bytes. Raises `ConfigError`."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{name} {text!r}: {Kind.SIZE.value} is expected")
    return int(float(found[1]) * _SIZE_UNITS[found[2]])
