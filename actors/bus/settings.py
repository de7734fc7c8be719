"""What all gateways of a node share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from levrier.actors.bus import queries
from levrier.actors.bus.history import HistoryBoard
from levrier.wire.protocol_version import ProtocolWindow
from levrier.wire.responses.system import Stats

TOKENS_PER_USER_DEFAULT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """What all gateways of a node share. The callables are asked at the moment of an answer.

    `entropy` gives random bytes fit for secrets, `now_micros` the wall clock by which a token expires at login, `figures` the
    part of GET_STATS that process and machine supply. `waiting` says what the node waits for before it can serve; while it
    does, nobody can log in, so its status is told to whoever asks.
    """

    cluster: Callable[[], queries.ClusterView]
    node_facts: Callable[[], Mapping[str, queries.Json]]
    dummy_password_hash: str
    window: ProtocolWindow
    server_version: str
    entropy: Callable[[int], bytes]
    now_micros: Callable[[], int]
    figures: Callable[[], Stats] = Stats
    waiting: Callable[[], str] = str
    max_tokens_per_user: int = TOKENS_PER_USER_DEFAULT
    history: HistoryBoard = field(default_factory=HistoryBoard)

    def __post_init__(self) -> None:
        assert self.max_tokens_per_user > 0
