"""What a node is told before it starts: identity, addresses, limits.

A plain value: reading files and the environment is the command line's work. Every limit is checked once, here, and a wrong
one is refused with its name, the value and what is allowed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from blake3 import blake3

from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.actors.plugins import Plugin
from levrier.actors.plugins.actor import PLUGIN_HOST, actor_name
from levrier.actors.plugins.builtin import BUILTIN
from levrier.actors.plugins.limits import INTERVAL_MILLISECONDS_MIN
from levrier.actors.plugins.report import Found
from levrier.cluster.address import Address
from levrier.cluster.config_values import duration
from levrier.cluster.refused import ConfigError
from levrier.wire.framing import FRAME_SIZE_MAX

METADATA_GROUP = 1 << 63
"""Group id of the metadata log (wire 6.1)."""

USERNAME_BYTES = range(3, 51)
PASSWORD_BYTES = range(3, 101)
PREPARE_DEPTH = range(1, 128)
JOURNAL_SLOTS_MAX = 1 << 20
CLIENTS_TABLE = range(2, 65_537)
CHECKPOINT_MARGIN_MIN = 64
HEARTBEAT_TICKS_MIN = 200
"""Four heartbeats of 500 ms: losing one or two of them is no reason to elect (wire 6.3)."""

VIEW_CHANGE_TICKS_MIN = 50
REPAIR_RETRY_TICKS_MIN = 1
ACKNOWLEDGEMENT_INTERVAL_MILLISECONDS_MIN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RootUser:
    """Name and password of the user that a blank cluster is born with (D-01)."""

    username: str = "iggy"
    password: str = field(default="iggy", repr=False)

    def __post_init__(self) -> None:
        if len(self.username.encode()) not in USERNAME_BYTES:
            raise ConfigError(f"root user name {self.username!r}: 3 to 50 bytes are allowed")
        if len(self.password.encode()) not in PASSWORD_BYTES:
            raise ConfigError("root password: 3 to 100 bytes are allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as the roster lists it. `ip` may be a host name; clients and replicas dial what stands here.

    `tcp` is the port for clients, `tcp_replica` the one for replicas, `http` 0 when none is offered.
    """

    name: str
    replica: int
    ip: str
    tcp: int
    tcp_replica: int
    http: int = 0

    @property
    def client_address(self) -> Address:
        """Where its clients connect."""
        return Address(host=self.ip, port=self.tcp)

    @property
    def replica_address(self) -> Address:
        """Where other replicas connect."""
        return Address(host=self.ip, port=self.tcp_replica)


def check_roster(members: Sequence[Member]) -> None:
    """Refuse a roster that names an id or an address twice, or leaves an id out (BR-53)."""
    ids = [member.replica for member in members]
    for replica in ids:
        if ids.count(replica) > 1:
            raise ConfigError(f"replica_id {replica} is given to {ids.count(replica)} nodes: each id once")
        if not 0 <= replica < len(members):
            raise ConfigError(
                f"replica_id {replica} of {len(members)} nodes: the ids are 0 to {len(members) - 1}, each once"
            )
    names = [member.name for member in members]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"node name {name!r} is given to {names.count(name)} nodes: each name once")
    used: dict[tuple[str, int], str] = {}
    for member in members:
        for what, port in (("tcp", member.tcp), ("http", member.http), ("tcp_replica", member.tcp_replica)):
            if not port:
                continue
            mine = f"{what} of node {member.name!r}"
            other = used.setdefault((member.ip, port), mine)
            if other != mine:
                raise ConfigError(f"{mine} and {other} are both {member.ip}:{port}: each address once")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSecurity:
    """What protects the replica port: the shared secret, an older one that is accepted too, and TLS files (PEM).

    With TLS each side shows `certificate` and believes only what `authority` has signed.
    """

    secret: bytes | None = field(default=None, repr=False)
    previous_secret: bytes | None = field(default=None, repr=False)
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None

    def __post_init__(self) -> None:
        if self.secret is not None and not self.secret:
            raise ConfigError("cluster.shared_secret is empty: leave it out or set one")
        if self.previous_secret and self.secret is None:
            raise ConfigError("cluster.previous_shared_secret without cluster.shared_secret: set both")
        given = [path is not None for path in (self.certificate, self.key, self.authority)]
        if any(given) and not all(given):
            raise ConfigError("cluster.tls: cert_file, key_file and ca_file belong together: give all three")


def _check_duration(name: str, milliseconds: int, least: int) -> None:
    if milliseconds < least:
        raise ConfigError(f"{name} is {duration(1_000 * milliseconds)}: at least {duration(1_000 * least)}")


ONE_LOOP = (
    ("bus", "io"),
    ("client_table", "io"),
    ("consensus", "io"),
    ("metadata", "io"),
    ("journal", "io"),
    ("superblock", "superblock"),
    ("checkpoint", "checkpoint"),
    ("acknowledgements", "acknowledgements"),
)
"""Everybody on the path of a write shares the thread of the sockets, so that a write never waits for a thread to wake: a hop
costs about 100 us of processor time, several times what the actors do for a write. What is rare and slow runs beside it.

The price: the loop waits for each sync of the log. While one hangs, the node is silent, to its clients as to its peers, as if
it were stopped: the others of a cluster elect a new primary, but a client that is connected here waits until the disk returns.
"""

JOURNAL_APART = tuple([(actor, "journal" if actor == "journal" else place) for actor, place in ONE_LOOP])
"""The log has a thread of its own. While its disk hangs the node still answers what needs no write, says that it is not the
primary any more and sends its clients to the new one. It costs two hops a write."""

CLUSTER_ARRANGEMENT = (
    ("birth", "io"),
    ("state_transfer", "state_transfer"),
)
"""Where the actors run that only a member of several has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSetup:
    """A plugin that runs on the node: its class, and an instance of its settings class."""

    plugin: type[Plugin[Any]]
    settings: object

    @property
    def name(self) -> str:
        """Its name, which is also that of its table in the configuration."""
        return self.plugin.name

    @property
    def interval(self) -> timedelta | None:
        """How often it is ticked: its setting of that name, if it has one."""
        interval = getattr(self.settings, "interval", None)
        return interval if isinstance(interval, timedelta) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node. Defaults are those of `levrier serve` without arguments.

    `members` lists every member of a cluster, this one included; empty for a node of its own. Times are in consensus ticks of
    10 ms.

    With `retain_history` what a checkpoint takes out of the log is kept until every replica has it; above `archive_limit` bytes
    (0: no limit) a warning names who does not.

    `root` is None when nobody configured it: a node that only this machine reaches then starts with `iggy` / `iggy`, any
    other one refuses to start a blank cluster (D-01).
    """

    data: Path = Path("levrier-data")
    listen: Address = field(default_factory=Address)
    root: RootUser | None = None
    cluster_name: str = "single-node"
    node_name: str = "iggy-node"
    replica: int = 0
    replica_count: int = 1
    prepare_queue_depth: int = 64
    journal_slots: int = 16_384
    clients_table_max: int = 8_192
    connections_max: int = 4_096
    max_tokens_per_user: int = 100
    frame_size_max: int = FRAME_SIZE_MAX
    members: tuple[Member, ...] = ()
    security: LinkSecurity = LinkSecurity()
    heartbeat_ticks: int = 500
    view_change_ticks: int = 500
    view_probe_attempts_max: int = 5
    repair_retry_ticks: int = 100
    acknowledgement_interval_milliseconds: int = 500
    retain_history: bool = False
    archive_limit: int = 1 << 30
    digest_interval: int = 1000
    """Ops between two comparisons of the state with that of the other members (D-17); the same on all of them."""
    arrangement: tuple[tuple[str, str], ...] = ONE_LOOP
    """Which actors share a thread: a dispatcher for each; the one called "io" runs the sockets."""

    plugins: tuple[PluginSetup, ...] = tuple(
        PluginSetup(plugin=plugin, settings=plugin.settings_type()) for plugin in BUILTIN
    )
    other_plugins: tuple[Found, ...] = ()
    """Plugins that are installed and do not run."""

    def __post_init__(self) -> None:
        if self.prepare_queue_depth not in PREPARE_DEPTH:
            raise ConfigError(f"prepare_queue_depth {self.prepare_queue_depth}: 1 to 127 are allowed")
        least = 4 * max(CHECKPOINT_MARGIN_MIN, self.prepare_queue_depth)
        if not least <= self.journal_slots <= JOURNAL_SLOTS_MAX:
            raise ConfigError(f"journal_slots {self.journal_slots}: {least} to {JOURNAL_SLOTS_MAX} are allowed")
        if self.clients_table_max not in CLIENTS_TABLE:
            raise ConfigError(f"clients_table_max {self.clients_table_max}: 2 to 65536 are allowed")
        if self.max_tokens_per_user < 1:
            raise ConfigError(f"max_tokens_per_user {self.max_tokens_per_user}: 1 or more are allowed")
        if not 1 <= self.replica_count <= 32:
            raise ConfigError(f"replica_count {self.replica_count}: 1 to 32 are allowed")
        if not 0 <= self.replica < self.replica_count:
            raise ConfigError(f"replica {self.replica}: 0 to {self.replica_count - 1} are allowed")
        if self.members:
            if len(self.members) != self.replica_count:
                raise ConfigError(f"{len(self.members)} nodes are listed and replica_count is {self.replica_count}")
            check_roster(self.members)
        for name, count in (
            ("view_probe_attempts_max", self.view_probe_attempts_max),
            ("digest_interval", self.digest_interval),
        ):
            if count < 1:
                raise ConfigError(f"{name} {count}: 1 or more are allowed")
        self._check_durations()
        self._check_plugins()

    def _check_durations(self) -> None:
        interval = self.acknowledgement_interval_milliseconds
        for name, ticks, least in (
            ("cluster.heartbeat_timeout", self.heartbeat_ticks, HEARTBEAT_TICKS_MIN),
            ("cluster.view_change_timeout", self.view_change_ticks, VIEW_CHANGE_TICKS_MIN),
            ("metadata.repair_retry", self.repair_retry_ticks, REPAIR_RETRY_TICKS_MIN),
        ):
            _check_duration(name, TICK_MILLISECONDS * ticks, TICK_MILLISECONDS * least)
        _check_duration("acknowledgements.interval", interval, ACKNOWLEDGEMENT_INTERVAL_MILLISECONDS_MIN)

    def _check_plugins(self) -> None:
        names = [setup.name for setup in self.plugins]
        for setup in self.plugins:
            if names.count(setup.name) > 1:
                raise ConfigError(f"plugin {setup.name} is listed twice")
            if setup.interval is not None and setup.interval < timedelta(milliseconds=INTERVAL_MILLISECONDS_MIN):
                raise ConfigError(
                    f"plugins.{setup.name}.interval {setup.interval}: {INTERVAL_MILLISECONDS_MIN} ms or more are allowed"
                )

    @property
    def roster(self) -> tuple[Member, ...]:
        """The members in the order of their ids."""
        return tuple(sorted(self.members, key=lambda member: member.replica))

    @property
    def placement(self) -> dict[str, str]:
        """Which dispatcher each actor of this node runs on."""
        return {
            **dict(self.arrangement),
            **dict(CLUSTER_ARRANGEMENT if self.replica_count > 1 else ()),
            **({PLUGIN_HOST: PLUGIN_HOST} if self.plugins else {}),
            **{plugin: plugin for plugin in self.plugin_actors},
        }

    @property
    def plugin_actors(self) -> tuple[str, ...]:
        """The actors of the plugins: each has a dispatcher of its own, of the same name."""
        return tuple([actor_name(setup.name) for setup in self.plugins])

    @property
    def cluster_id(self) -> int:
        """First 16 bytes of BLAKE3 of the cluster name, little-endian (wire 6.1)."""
        return int.from_bytes(blake3(self.cluster_name.encode()).digest()[:16], "little")
