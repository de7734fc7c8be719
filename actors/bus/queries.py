"""Who answers which NonReplicated command code, and the answers that need nothing but the node itself (wire 12).

Reads of replicated state go to the Metadata actor, commands about the node to `system`, the cluster is answered here. What
this node does not serve yet gets code 5, what nobody knows gets code 3 (D-18, D-30).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, Union

from levrier.actors.bus.messages import NodeStatus
from levrier.wire.body import EmptyBody
from levrier.wire.codes import LEVRIER_STATUS as STATUS_CODE
from levrier.wire.codes import OPERATION_OF_COMMAND, CommandCode, ErrorCode
from levrier.wire.responses.system import ClusterMetadata

Json: TypeAlias = Union[str, int, float, bool, Mapping[str, "Json"], list["Json"], None]  # noqa: UP007  # "Json" is a name here.
ClusterView: TypeAlias = ClusterMetadata

PING: Final = int(CommandCode.PING)
LEVRIER_STATUS: Final = STATUS_CODE

OLD_LOGINS: Final = frozenset({int(CommandCode.LOGIN_USER), int(CommandCode.LOGIN_WITH_PERSONAL_ACCESS_TOKEN)})
"""Codes of logins that are not supported any more: eviction 15 (requests 4.5)."""

FROM_METADATA: Final = frozenset(
    {
        int(CommandCode.DESCRIBE_OPTIONS),
        int(CommandCode.GET_USER),
        int(CommandCode.GET_USERS),
        int(CommandCode.GET_PERSONAL_ACCESS_TOKENS),
        int(CommandCode.GET_STREAM),
        int(CommandCode.GET_STREAMS),
        int(CommandCode.GET_TOPIC),
        int(CommandCode.GET_TOPICS),
        int(CommandCode.GET_CONSUMER_GROUP),
        int(CommandCode.GET_CONSUMER_GROUPS),
        int(CommandCode.SYNC_CONSUMER_GROUP),
    }
)
"""Reads that the Metadata actor answers from applied state (D-19)."""

_KNOWN: Final = frozenset(int(code) for code in CommandCode)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalView:
    """What a local answer may look at."""

    cluster: Callable[[], ClusterView]


def refusal(code: int) -> int:
    """The status for a code that nothing here answers: known but not served, replicated, or unknown."""
    if code in _KNOWN or code in OPERATION_OF_COMMAND:
        return int(ErrorCode.FEATURE_UNAVAILABLE)
    return int(ErrorCode.INVALID_COMMAND)


def status_json(status: NodeStatus, facts: Mapping[str, Json]) -> bytes:
    """How this node stands, as JSON: what consensus says, and the facts that the node supplies."""
    own: dict[str, Json] = {
        "replica": status.replica,
        "replica_count": status.replica_count,
        "role": "primary" if status.is_primary else "backup",
        "state": status.state,
        "member": status.member,
        "view": status.view,
        "log_view": status.log_view,
        "op": status.op,
        "commit": status.commit,
        "applied": status.applied,
        "checkpoint": status.checkpoint,
        "checkpoints": status.checkpoints,
        "log_bytes": status.log_bytes,
        "pipeline": status.pipeline,
        "queued": status.queued,
        "alarm": status.alarm or None,
        "lag": max(0, status.commit - status.applied),
    }
    assert not own.keys() & facts.keys(), "a fact of the node hides what consensus says"
    return json.dumps({**own, **facts}, separators=(",", ":")).encode()


def _cluster_metadata(view: LocalView, body: bytes) -> bytes:
    EmptyBody.decode(body)
    return view.cluster().encode()


LOCAL: Final[dict[int, Callable[[LocalView, bytes], bytes | ErrorCode]]] = {
    int(CommandCode.GET_CLUSTER_METADATA): _cluster_metadata,
}
"""Codes that the gateway answers itself."""

assert not LOCAL.keys() & FROM_METADATA
