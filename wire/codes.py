"""The closed sets of small numbers on the wire, and the tables that say how each operation is treated.

Enums name the numbers; the hot path looks plain integers up in the frozen sets and dicts below and never calls an enum.
Sources: wire specification 2, 3, 7, 12.1, 14; decisions D-01 (operation 69), D-03, D-04, D-34 (commands 64 to 66).
"""

from enum import IntEnum
from typing import Final

from levrier.wire.error_codes import ErrorCode

__all__ = [
    "CLIENT_ALLOWED",
    "CODE_NAMES",
    "COMMANDS",
    "COMMITTED_CODES",
    "INTERNAL_OPERATIONS",
    "LEVRIER_STATUS",
    "METADATA_OPERATIONS",
    "OPERATIONS",
    "OPERATION_OF_COMMAND",
    "PARTITION_OPERATIONS",
    "REPLICATED_FORM",
    "RESULT_FRAMED",
    "Command",
    "CommandCode",
    "CompressionAlgorithm",
    "ErrorCode",
    "EvictionReason",
    "NodeRole",
    "NodeStatus",
    "Operation",
    "OptionScope",
    "Transport",
    "UserStatus",
    "is_committed_code",
]


class Command(IntEnum):
    """The kind of a frame: byte 60 of every header (wire specification 2, decision D-34)."""

    RESERVED = 0
    PING = 1
    PONG = 2
    PING_CLIENT = 3
    PONG_CLIENT = 4
    REQUEST = 5
    PREPARE = 6
    PREPARE_OK = 7
    REPLY = 8
    COMMIT = 9
    START_VIEW_CHANGE = 10
    DO_VIEW_CHANGE = 11
    START_VIEW = 12
    EVICTION = 13
    REPLICA_HELLO = 14
    REPLICA_CHALLENGE = 15
    REPLICA_FINISH = 16
    REQUEST_START_VIEW = 17
    REQUEST_PREPARES = 18
    REPAIR_PREPARE = 19
    REPAIR_DONE = 20
    RANGE_EVICTED = 21
    REQUEST_STATE_TRANSFER = 22
    STATE_TRANSFER_TARGET = 23
    REQUEST_STATE_CHUNK = 24
    STATE_CHUNK = 25
    FORWARD_REGISTER = 26
    FORWARD_REGISTER_RESULT = 27
    FORWARD_LOGOUT = 28
    FORWARD_LOGOUT_RESULT = 29
    ACKNOWLEDGEMENT = 64
    MEMBER_STATE = 65
    STATE_DIGEST = 66


class Operation(IntEnum):
    """What a request or a prepare does (wire specification 3; 69 is our own, decision D-01)."""

    RESERVED = 0
    REGISTER = 1
    NON_REPLICATED = 2
    LOGOUT = 3
    CREATE_TOPIC_WITH_ASSIGNMENTS = 64
    CREATE_PARTITIONS_WITH_ASSIGNMENTS = 65
    REMOVE_CONSUMER_GROUP_MEMBER = 66
    COMPLETE_CONSUMER_GROUP_REVOCATION = 67
    TRUNCATE_PARTITION = 68
    BOOTSTRAP_ROOT = 69
    CREATE_STREAM = 128
    UPDATE_STREAM = 129
    DELETE_STREAM = 130
    PURGE_STREAM = 131
    CREATE_TOPIC = 132
    UPDATE_TOPIC = 133
    DELETE_TOPIC = 134
    PURGE_TOPIC = 135
    CREATE_PARTITIONS = 136
    DELETE_PARTITIONS = 137
    DELETE_SEGMENTS = 138
    CREATE_CONSUMER_GROUP = 139
    DELETE_CONSUMER_GROUP = 140
    CREATE_USER = 141
    UPDATE_USER = 142
    DELETE_USER = 143
    CHANGE_PASSWORD = 144
    UPDATE_PERMISSIONS = 145
    CREATE_PERSONAL_ACCESS_TOKEN = 146
    DELETE_PERSONAL_ACCESS_TOKEN = 147
    JOIN_CONSUMER_GROUP = 148
    LEAVE_CONSUMER_GROUP = 149
    SEND_MESSAGES = 160
    STORE_CONSUMER_OFFSET = 161
    DELETE_CONSUMER_OFFSET = 162


class EvictionReason(IntEnum):
    """Why a client lost its session, or was never given one (wire specification 7)."""

    RESERVED = 0
    NO_SESSION = 1
    CLIENT_RELEASE_TOO_LOW = 2
    CLIENT_RELEASE_TOO_HIGH = 3
    INVALID_REQUEST_OPERATION = 4
    INVALID_REQUEST_BODY = 5
    INVALID_REQUEST_BODY_SIZE = 6
    SESSION_TOO_LOW = 7
    SESSION_RELEASE_MISMATCH = 8
    INVALID_CREDENTIALS = 9
    INVALID_TOKEN = 10
    USER_INACTIVE = 11
    SESSION_ERROR = 12
    STALE_CLIENT = 13
    INCOMPATIBLE_PROTOCOL = 14
    MALFORMED_LOGIN = 15


class CommandCode(IntEnum):
    """The command codes of wire specification 12.1, carried by NonReplicated requests at offset 196."""

    PING = 1
    GET_STATS = 10
    GET_SNAPSHOT_FILE = 11
    GET_CLUSTER_METADATA = 12
    DESCRIBE_OPTIONS = 13
    GET_ME = 20
    GET_CLIENT = 21
    GET_CLIENTS = 22
    GET_USER = 31
    GET_USERS = 32
    CREATE_USER = 33
    DELETE_USER = 34
    UPDATE_USER = 35
    UPDATE_PERMISSIONS = 36
    CHANGE_PASSWORD = 37
    LOGIN_USER = 38
    LOGOUT_USER = 39
    LOGIN_REGISTER = 40
    GET_PERSONAL_ACCESS_TOKENS = 41
    CREATE_PERSONAL_ACCESS_TOKEN = 42
    DELETE_PERSONAL_ACCESS_TOKEN = 43
    LOGIN_WITH_PERSONAL_ACCESS_TOKEN = 44
    LOGIN_REGISTER_WITH_PAT = 45
    POLL_MESSAGES = 100
    SEND_MESSAGES = 101
    FLUSH_UNSAVED_BUFFER = 102
    GET_CONSUMER_OFFSET = 120
    STORE_CONSUMER_OFFSET = 121
    DELETE_CONSUMER_OFFSET = 122
    GET_STREAM = 200
    GET_STREAMS = 201
    CREATE_STREAM = 202
    DELETE_STREAM = 203
    UPDATE_STREAM = 204
    PURGE_STREAM = 205
    GET_TOPIC = 300
    GET_TOPICS = 301
    CREATE_TOPIC = 302
    DELETE_TOPIC = 303
    UPDATE_TOPIC = 304
    PURGE_TOPIC = 305
    CREATE_PARTITIONS = 402
    DELETE_PARTITIONS = 403
    DELETE_SEGMENTS = 503
    GET_CONSUMER_GROUP = 600
    GET_CONSUMER_GROUPS = 601
    CREATE_CONSUMER_GROUP = 602
    DELETE_CONSUMER_GROUP = 603
    JOIN_CONSUMER_GROUP = 604
    LEAVE_CONSUMER_GROUP = 605
    SYNC_CONSUMER_GROUP = 606


class Transport(IntEnum):
    """How a client is connected (requests specification 1.7)."""

    TCP = 1
    QUIC = 2
    WEBSOCKET = 4


class NodeRole(IntEnum):
    """The role of a node in the cluster metadata (requests specification 9.4)."""

    LEADER = 0
    FOLLOWER = 1


class NodeStatus(IntEnum):
    """The status of a node in the cluster metadata. A client discards an answer with a status above 4."""

    HEALTHY = 0
    STARTING = 1
    STOPPING = 2
    UNREACHABLE = 3
    MAINTENANCE = 4


class CompressionAlgorithm(IntEnum):
    """How the messages of a topic are compressed (requests specification 1.7)."""

    NONE = 1
    GZIP = 2


class UserStatus(IntEnum):
    """Whether a user may log in (requests specification 1.7)."""

    ACTIVE = 1
    INACTIVE = 2


class OptionScope(IntEnum):
    """What DESCRIBE_OPTIONS asks about (requests specification 9.5)."""

    TOPIC = 1
    STREAM = 2
    USER = 3


LEVRIER_STATUS: Final = 0x4C560001
"""NonReplicated command code of our own: the status of the asked node as JSON. No Iggy code is in this range."""

COMMANDS: Final[frozenset[int]] = frozenset(int(command) for command in Command) - {0}
"""Every command byte that may stand in a frame."""

OPERATIONS: Final[frozenset[int]] = frozenset(int(operation) for operation in Operation) - {0}
"""Every operation byte that a header may carry; anything else makes the header invalid."""

INTERNAL_OPERATIONS: Final[frozenset[int]] = frozenset(range(64, 70))
"""Operations that only a node may put into the log."""

PARTITION_OPERATIONS: Final[frozenset[int]] = frozenset({160, 161, 162})
"""Operations of the message plane."""

CLIENT_ALLOWED: Final[frozenset[int]] = OPERATIONS - INTERNAL_OPERATIONS
"""Operations that a client may send."""

METADATA_OPERATIONS: Final[frozenset[int]] = OPERATIONS - PARTITION_OPERATIONS - {2, 138}
"""Operations of the metadata group: its log holds them, or the form they are rewritten to. 138 is resolved to 68 before."""

RESULT_FRAMED: Final[frozenset[int]] = OPERATIONS - {2, 3, 138, 160}
"""Operations whose reply body starts with a result section. Register only when its reply body is not empty."""

REPLICATED_FORM: Final[dict[int, int]] = {132: 64, 136: 65, 138: 68}
"""The operation that stands in the log for a client operation, where the two differ."""

OPERATION_OF_COMMAND: Final[dict[int, Operation]] = {
    33: Operation.CREATE_USER,
    34: Operation.DELETE_USER,
    35: Operation.UPDATE_USER,
    36: Operation.UPDATE_PERMISSIONS,
    37: Operation.CHANGE_PASSWORD,
    39: Operation.LOGOUT,
    40: Operation.REGISTER,
    42: Operation.CREATE_PERSONAL_ACCESS_TOKEN,
    43: Operation.DELETE_PERSONAL_ACCESS_TOKEN,
    45: Operation.REGISTER,
    101: Operation.SEND_MESSAGES,
    121: Operation.STORE_CONSUMER_OFFSET,
    122: Operation.DELETE_CONSUMER_OFFSET,
    202: Operation.CREATE_STREAM,
    203: Operation.DELETE_STREAM,
    204: Operation.UPDATE_STREAM,
    205: Operation.PURGE_STREAM,
    302: Operation.CREATE_TOPIC,
    303: Operation.DELETE_TOPIC,
    304: Operation.UPDATE_TOPIC,
    305: Operation.PURGE_TOPIC,
    402: Operation.CREATE_PARTITIONS,
    403: Operation.DELETE_PARTITIONS,
    503: Operation.DELETE_SEGMENTS,
    602: Operation.CREATE_CONSUMER_GROUP,
    603: Operation.DELETE_CONSUMER_GROUP,
    604: Operation.JOIN_CONSUMER_GROUP,
    605: Operation.LEAVE_CONSUMER_GROUP,
}
"""The operation that replaces a command code. Such a code inside a NonReplicated request is refused with code 5."""

CODE_NAMES: Final[dict[int, str]] = {int(code): code.name for code in ErrorCode}
"""Error code to name, for messages to people."""

_ANY = frozenset({0, 41})


def _row(*codes: int) -> frozenset[int]:
    return _ANY | frozenset(codes)


_CREATE_TOPIC = _row(1009, 2013, 2019, 2021, 3013, 4042)
_CREATE_PARTITIONS = _row(1009, 2010, 2019, 3013)
_TRUNCATE = _row(1009, 2010, 3007)

COMMITTED_CODES: Final[dict[int, frozenset[int]]] = {
    1: _ANY,
    3: _ANY,
    64: _CREATE_TOPIC,
    65: _CREATE_PARTITIONS,
    66: _ANY,
    67: _ANY,
    68: _TRUNCATE,
    69: _ANY,
    128: _row(1012, 1020, 4042),
    129: _row(1009, 1012, 4042),
    130: _row(1009),
    131: _row(1009),
    132: _CREATE_TOPIC,
    133: _row(1009, 2010, 2013, 4042),
    134: _row(1009, 2010),
    135: _row(1009, 2010),
    136: _CREATE_PARTITIONS,
    137: _row(1009, 2010, 2019),
    138: _TRUNCATE,
    139: _row(1009, 2010, 5004),
    140: _row(1009, 2010, 5000),
    141: _row(43, 46, 4042),
    142: _row(20, 43, 46, 48, 4042),
    143: _row(20, 48),
    144: _row(20, 42),
    145: _row(20, 49),
    146: _row(20, 51, 56),
    147: _row(20),
    148: _row(1009, 2010, 5000),
    149: _row(1009, 2010, 5000, 5006),
}
"""The result codes each metadata operation may commit (wire specification 14.1, decisions D-03 and D-04)."""


def is_committed_code(operation: int, code: int) -> bool:
    """Whether `operation` may commit `code`. Partition operations carry codes that this package does not judge."""
    if operation in PARTITION_OPERATIONS:
        return True
    return code in COMMITTED_CODES.get(operation, ())


assert COMMITTED_CODES.keys() == METADATA_OPERATIONS | {138}
assert all(code in CODE_NAMES for row in COMMITTED_CODES.values() for code in row if code)
