"""What the codecs raise when bytes from outside are not what they claim to be.

Everything derives from `WireError`. A caller catches a subclass only where it answers differently; anything else that is
refused by a codec is a plain `WireError`. Nothing in this package raises another exception because of its input bytes.
"""

from typing import ClassVar

from levrier.wire.error_codes import ErrorCode


class WireError(ValueError):
    """Bytes that do not decode, or a value that the wire cannot carry.

    `what` says what is wrong, `where` names the field or the offset. `code` is the error code that an answer to the
    client carries when nothing more specific is known.
    """

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_COMMAND

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{where}: {what}")
        self.what = what
        self.where = where


class Truncated(WireError):
    """The bytes end before the field does."""


class TrailingBytes(WireError):
    """Bytes follow where the value is complete and nothing may follow."""


class UnexpectedCommand(WireError):
    """The command byte of a header names another kind of frame than the one being decoded."""


class FrameSizeOutOfRange(WireError):
    """The size field of a frame is below a header or above the limit: the stream cannot be followed any further.

    `frames` are the whole frames that the same feed completed before the bad one.
    """

    def __init__(self, what: str, where: str, *, frames: tuple[bytes, ...] = ()) -> None:
        super().__init__(what, where)
        self.frames = frames


class ChecksumMismatch(WireError):
    """A checksum field and the bytes it covers disagree."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_FORMAT


class ChainBreak(WireError):
    """A prepare header does not name the one below it as its parent."""


class UnsupportedOption(WireError):
    """An option key that the scope does not know, or that cannot be changed."""

    code: ClassVar[ErrorCode] = ErrorCode.UNSUPPORTED_OPTION_KEY


class InvalidOptionValue(WireError):
    """An option value of the wrong kind, of the wrong length, unparsable or out of bounds."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_OPTION_VALUE


class OptionsBlockTooLarge(WireError):
    """An options block above the limit in entries or in bytes."""

    code: ClassVar[ErrorCode] = ErrorCode.OPTIONS_BLOCK_TOO_LARGE


class InvalidTopicSize(WireError):
    """A topic size cap below the size of one segment."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_TOPIC_SIZE


class TooManyPartitions(WireError):
    """More partitions in one request than allowed, or none where at least one is needed."""

    code: ClassVar[ErrorCode] = ErrorCode.TOO_MANY_PARTITIONS
