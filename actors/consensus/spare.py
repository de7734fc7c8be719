"""What a backup remembers of acknowledgements and prepares that no quorum waits for (`spare_acks`, `spare_forwards`)."""

from dataclasses import dataclass, field
from typing import Final

from levrier.wire.headers import PrepareHeader
from levrier.wire.prepare import Prepare

NEVER: Final = -(1 << 63)
"""A tick that is long ago."""


@dataclass(slots=True, kw_only=True)
class SpareAcks:
    """What a backup has not acknowledged because a quorum forms without it (`spare_acks`)."""

    recent: list[PrepareHeader] = field(default_factory=list)
    """What became durable since it was looked at last. Uncommitted entries only, so never more than a pipeline holds."""
    earlier: list[PrepareHeader] = field(default_factory=list)
    """What had become durable by then."""
    direct: set[int] = field(default_factory=set)
    """Ops under way to the disk that the primary sent itself."""
    given_tick: int = NEVER
    """The tick at which what had been kept back was acknowledged after all, if nothing has followed."""
    prompt_until: int = 0
    """The tick before which everything is acknowledged at once."""
    prompt_ticks: int = 0
    """How long that was the last time; 0 since a word was not needed."""


@dataclass(slots=True, kw_only=True)
class SpareForwards:
    """What a backup has not handed on because a quorum forms without those behind it (`spare_forwards`)."""

    kept: list[Prepare] = field(default_factory=list)
    """In the order in which it became durable; all of the present view, and fewer than are forwarded at once."""
    late_tick: int = NEVER
    """The last tick that found nothing of it committed."""
    prompt_until: int = 0
    """The tick before which everything is handed on at once."""
