"""What is wrong with the bytes of a client table that came from a snapshot or from another replica (client-table 9, 10).

Truncated bytes and a wrong trailer are `levrier.wire.errors.Truncated` and `ChecksumMismatch`.
"""

from levrier.wire.errors import WireError


class MalformedTable(WireError):
    """A field of the wrong shape, type or range."""


class InvalidReply(WireError):
    """A cached reply of an entry is no reply frame, or cannot be one of this entry."""


class InvalidFenceReply(WireError):
    """The cached reply of a fence is no reply frame, or cannot be the one of this fence."""


class SlotOutOfRange(WireError):
    """A slot index above the ceiling. Refused before anything is allocated."""


class DuplicateSlot(WireError):
    """Two entries claim one slot."""


class DuplicateClientId(WireError):
    """One client has two entries, in the slots `first` and `second`."""

    def __init__(self, what: str, where: str, *, first: int, second: int) -> None:
        super().__init__(what, where)
        self.first = first
        self.second = second


class DuplicateFence(WireError):
    """Two fences of one client and one user."""


class BadMagic(WireError):
    """A transferred table that does not begin with a known layout."""


class TooManyEntries(WireError):
    """A transferred table that claims more entries or fences than a table can have."""


class EmptyRing(WireError):
    """A transferred entry without a reply. An entry always holds at least the reply of its register."""


class RingTooLong(WireError):
    """A transferred entry with more replies than a ring holds."""
