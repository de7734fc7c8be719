"""The configuration file: TOML with Iggy's names, single keys overridden by `LEVRIER_...` variables (design 9).

One file describes the whole cluster and is the same on every node; `--replica-id` says which of its nodes this process is.
Every key is known by name: a misspelt one is refused with the nearest valid one, in the file and in the environment alike.

    [cluster]
    name = "prod"
    shared_secret_file = "/etc/levrier/secret"       # or shared_secret; previous_shared_secret while it is being replaced
    heartbeat_timeout = "5 s"
    view_change_timeout = "5 s"
    [[cluster.nodes]]
    name = "node-0"
    ip = "10.0.0.1"
    replica_id = 0
    ports = { tcp = 8090, http = 3000, tcp_replica = 8092 }

`LEVRIER_CLUSTER_NODES_0_PORTS_TCP` sets the port of the first node listed, and so on for every key. Texts and durations stand in
a variable without quotes, everything else as in the file, a list as `["a", "b"]`.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from levrier.actors.consensus.timeouts import TICK_MILLISECONDS
from levrier.actors.plugins.report import Found
from levrier.cluster.address import Address
from levrier.cluster.config import (
    ACKNOWLEDGEMENT_INTERVAL_MILLISECONDS_MIN,
    HEARTBEAT_TICKS_MIN,
    JOURNAL_APART,
    REPAIR_RETRY_TICKS_MIN,
    VIEW_CHANGE_TICKS_MIN,
    LinkSecurity,
    Member,
    NodeConfig,
    PluginSetup,
)
from levrier.cluster.config_values import Kind, Schema, at_least, size, typed
from levrier.cluster.plugins import Installed, installed, refuse_broken, setups
from levrier.cluster.refused import ConfigError

ENVIRONMENT_PREFIX: Final = "LEVRIER_"
_OF_COMMANDS: Final = frozenset({"CONNECT", "USERNAME", "PASSWORD", "TOKEN", "NEW_PASSWORD", "CURRENT_PASSWORD"})
"""What commands that ask a node take from the environment, also as `..._FILE`: nothing of a node's configuration."""

_SECRET_BYTES_MAX: Final = 4096
_DIGITS_MAX: Final = 20
"""As many as 64 bits take."""


_TLS: Final[Schema] = {"enabled": Kind.SWITCH, "cert_file": Kind.TEXT, "key_file": Kind.TEXT}
_NODE: Final[Schema] = {
    "name": Kind.TEXT,
    "ip": Kind.TEXT,
    "replica_id": Kind.COUNT,
    "ports": {
        "tcp": Kind.COUNT,
        "http": Kind.COUNT,
        "tcp_replica": Kind.COUNT,
        "quic": Kind.COUNT,
        "websocket": Kind.COUNT,
    },
}
SCHEMA: Final[Schema] = {
    "cluster": {
        "enabled": Kind.SWITCH,
        "name": Kind.TEXT,
        "shared_secret": Kind.TEXT,
        "shared_secret_file": Kind.TEXT,
        "previous_shared_secret": Kind.TEXT,
        "previous_shared_secret_file": Kind.TEXT,
        "heartbeat_timeout": Kind.DURATION,
        "view_change_timeout": Kind.DURATION,
        "view_probe_attempts_max": Kind.COUNT,
        "tls": {**_TLS, "ca_file": Kind.TEXT},
        "nodes": (_NODE,),
    },
    "metadata": {
        "digest_interval": Kind.COUNT,
        "prepare_queue_depth": Kind.COUNT,
        "clients_table_max": Kind.COUNT,
        "journal_slots": Kind.COUNT,
        "repair_retry": Kind.DURATION,
    },
    "acknowledgements": {"interval": Kind.DURATION, "retain": Kind.TEXT, "archive_limit": Kind.SIZE},
    "personal_access_token": {
        "max_tokens_per_user": Kind.COUNT,
        "cleaner": {"enabled": Kind.SWITCH, "interval": Kind.DURATION},
    },
    "consumer_group": {"rebalancing_timeout": Kind.DURATION},
    "heartbeat": {"enabled": Kind.SWITCH, "interval": Kind.DURATION},
    "system": {
        "path": Kind.TEXT,
        "journal_thread": Kind.SWITCH,
        "sharding": {"reconcile_periodic_interval": Kind.DURATION},
    },
    "tcp": {"address": Kind.TEXT, "tls": _TLS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileConfig:
    """What the file says of one node. Certificate and key of the client port are paths, not read yet."""

    node: NodeConfig
    client_certificate: Path | None
    client_key: Path | None


def load(
    path: Path, *, environment: Mapping[str, str], replica: int | None, plugins: Installed | None = None
) -> FileConfig:
    """Read the file, apply the environment, and pick the node. Raises `ConfigError`, which names the key.

    `plugins` are those that are installed, looked for where they are not given.
    """
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"configuration {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        # Beside what is no TOML: a number of thousands of digits, and tables a thousand deep.
        raise ConfigError(f"configuration {path}: {error}") from error
    try:
        found = installed() if plugins is None else plugins
        schema = {**SCHEMA, "plugins": found.schema()}
        _refuse_unknown_plugin(settings.get("plugins", {}), found)
        _check(settings, schema, "", schema)
        override(settings, environment, schema)
        return _node(settings, replica, found)
    except ConfigError as error:
        raise ConfigError(f"configuration {path}: {error}") from error


def plugin_setups(
    tables: Mapping[str, Any], found: Installed | None = None
) -> tuple[tuple[PluginSetup, ...], tuple[Found, ...]]:
    """What the `[plugins]` table alone comes to: the plugins that run and the others. Raises `ConfigError`.

    `found` are those that are installed, looked for where they are not given.
    """
    found = installed() if found is None else found
    schema: Schema = {"plugins": found.schema()}
    _refuse_unknown_plugin(tables, found)
    _check({"plugins": tables}, schema, "", schema)
    return setups(tables, found)


def override(settings: dict[str, Any], environment: Mapping[str, str], schema: Schema) -> None:
    """Put what the environment says into `settings`, in the order of the names."""
    for variable in sorted(environment):
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        rest = variable.removeprefix(ENVIRONMENT_PREFIX)
        if rest.removesuffix("_FILE") in _OF_COMMANDS:
            continue
        found = _resolve(rest, schema)
        if found is None:
            raise ConfigError(f"{variable} sets nothing that is known{_nearest(variable, _variables(schema))}")
        keys, kind = found
        _put(settings, keys, _parsed(environment[variable], kind, variable), variable)


_OF_PLUGINS: Final[tuple[tuple[tuple[str, ...], str, str], ...]] = (
    (("personal_access_token", "cleaner", "enabled"), "token_cleaner", "enabled"),
    (("personal_access_token", "cleaner", "interval"), "token_cleaner", "interval"),
    (("consumer_group", "rebalancing_timeout"), "revocation_completer", "rebalancing_timeout"),
    (("heartbeat", "enabled"), "stale_session_sweeper", "enabled"),
    (("heartbeat", "interval"), "stale_session_sweeper", "interval"),
    (("system", "sharding", "reconcile_periodic_interval"), "partition_reconciler", "interval"),
)
"""What Iggy has a key of its own for and a plugin does here (maintenance 0)."""


def _with_iggy_names(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of the plugins, with what Iggy's own keys say of them."""
    tables = {name: dict(table) for name, table in settings.get("plugins", {}).items()}
    for keys, plugin, field in _OF_PLUGINS:
        value: Any = settings
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None:
            continue
        table = tables.setdefault(plugin, {})
        if field in table:
            raise ConfigError(f"{'.'.join(keys)} and plugins.{plugin}.{field} are both set: keep one")
        table[field] = value
    return tables


def _refuse_unknown_plugin(tables: object, found: Installed) -> None:
    """A plugin that nobody installed is told apart from a misspelt key."""
    tables = _table(tables, "plugins")
    refuse_broken(tables, found)
    for name in tables:
        if name not in found.plugins:
            raise ConfigError(
                f"plugins.{name}: no plugin of that name is installed{_nearest(name, list(found.plugins))}"
            )


# Names.


def _check(table: Mapping[str, Any], schema: Schema, where: str, whole: Schema) -> None:
    for key, value in table.items():
        name = f"{where}{key}"
        expected = schema.get(key)
        if expected is None:
            nearest = _nearest(name, [f"{where}{each}" for each in schema] + list(_names(whole, "")))
            raise ConfigError(f"{name} is no setting that is known{nearest}")
        if isinstance(expected, Kind):
            typed(value, expected, name)
        elif isinstance(expected, tuple):
            if not isinstance(value, list):
                raise ConfigError(f"{name} is a list of tables: write [[{name}]]")
            for index, entry in enumerate(value):
                _check(_table(entry, f"{name}[{index}]"), expected[0], f"{name}[{index}].", whole)
        else:
            _check(_table(value, name), expected, f"{name}.", whole)


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is a table of settings, not {value!r}")
    return value


def _names(schema: Schema, where: str) -> Iterator[str]:
    for key, expected in schema.items():
        if isinstance(expected, Kind):
            yield f"{where}{key}"
        elif isinstance(expected, tuple):
            yield from _names(expected[0], f"{where}{key}.0.")
        else:
            yield from _names(expected, f"{where}{key}.")


def _variables(schema: Schema) -> list[str]:
    return [ENVIRONMENT_PREFIX + name.replace(".", "_").upper() for name in _names(schema, "")]


def _nearest(name: str, valid: list[str]) -> str:
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""


# The environment.


def _resolve(rest: str, schema: Schema) -> tuple[list[str | int], Kind] | None:
    """The keys that a variable's name spells, longest names first, and what its value is."""
    for key in sorted(schema, key=len, reverse=True):
        expected = schema[key]
        upper = key.upper()
        if isinstance(expected, Kind):
            if rest == upper:
                return [key], expected
            continue
        if not rest.startswith(f"{upper}_"):
            continue
        inner = rest.removeprefix(f"{upper}_")
        if isinstance(expected, tuple):
            number, _, inner = inner.partition("_")
            if not (number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX):
                continue
            found = _resolve(inner, expected[0])
            if found is not None:
                return [key, int(number), *found[0]], found[1]
        else:
            found = _resolve(inner, expected)
            if found is not None:
                return [key, *found[0]], found[1]
    return None


def _put(settings: dict[str, Any], keys: list[str | int], value: object, variable: str) -> None:
    at: Any = settings
    for key, following in pairwise(keys):
        if isinstance(key, int):
            if key > len(at):
                raise ConfigError(f"{variable}: the list has {len(at)} entries")
            if key == len(at):
                at.append({})
            at = at[key]
        else:
            at = at.setdefault(key, [] if isinstance(following, int) else {})
    at[keys[-1]] = value


def _parsed(text: str, kind: Kind, variable: str) -> object:
    value: object = text
    if kind is Kind.SWITCH:
        value = {"true": True, "false": False}.get(text.lower(), text)
    elif kind is Kind.COUNT and text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        value = int(text)
    elif kind in (Kind.NUMBER, Kind.TEXTS):
        value = _as_in_a_file(text)
    typed(value, kind, variable)
    return value


def _as_in_a_file(text: str) -> object:
    """The value that this would be in the file; the text itself where it would be none."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


# Values.


def _ticks(settings: Mapping[str, Any], name: str, default: int, *, least: int) -> int:
    """The duration of that dotted name, in ticks, rounded up."""
    tick = TICK_MILLISECONDS * 1_000
    return _duration(settings, name, default, unit=tick, least=least * tick)


def _duration(settings: Mapping[str, Any], name: str, default: int, *, unit: int, least: int) -> int:
    """The duration of that dotted name in `unit` microseconds, rounded up; `least` is in microseconds."""
    table, _, key = name.partition(".")
    text = settings.get(table, {}).get(key)
    return default if text is None else -(-at_least(text, name, least) // unit)


def _durations(settings: Mapping[str, Any], default: NodeConfig) -> dict[str, Any]:
    """The fields that are durations. What is too short is refused as it was written."""
    return {
        "heartbeat_ticks": _ticks(
            settings, "cluster.heartbeat_timeout", default.heartbeat_ticks, least=HEARTBEAT_TICKS_MIN
        ),
        "view_change_ticks": _ticks(
            settings, "cluster.view_change_timeout", default.view_change_ticks, least=VIEW_CHANGE_TICKS_MIN
        ),
        "repair_retry_ticks": _ticks(
            settings, "metadata.repair_retry", default.repair_retry_ticks, least=REPAIR_RETRY_TICKS_MIN
        ),
        "acknowledgement_interval_milliseconds": _duration(
            settings,
            "acknowledgements.interval",
            default.acknowledgement_interval_milliseconds,
            unit=1_000,
            least=1_000 * ACKNOWLEDGEMENT_INTERVAL_MILLISECONDS_MIN,
        ),
    }


def _retains(table: Mapping[str, Any]) -> bool:
    retain = table.get("retain", "nothing")
    if retain not in ("nothing", "history"):
        raise ConfigError(f'acknowledgements.retain {retain!r}: "history" or "nothing" is expected')
    return bool(retain == "history")


def _node(settings: Mapping[str, Any], replica: int | None, found: Installed) -> FileConfig:
    default = NodeConfig()
    cluster, metadata = settings.get("cluster", {}), settings.get("metadata", {})
    tcp, acknowledgements = settings.get("tcp", {}), settings.get("acknowledgements", {})
    nodes = [] if cluster.get("enabled") is False else cluster.get("nodes", [])
    members = tuple(_member(node, index) for index, node in enumerate(nodes))
    own = _own(members, replica)
    running, others = setups(_with_iggy_names(settings), found)
    several = len(members) > 1
    system = settings.get("system", {})
    data = Path(system.get("path", str(default.data)))
    config = NodeConfig(
        data=data / f"node-{own.replica}" if own is not None and several else data,
        listen=own.client_address if own is not None else _address(tcp, default.listen),
        cluster_name=cluster.get("name", default.cluster_name),
        node_name=own.name if own is not None else default.node_name,
        replica=own.replica if own is not None else 0,
        replica_count=max(1, len(members)),
        members=members,
        prepare_queue_depth=metadata.get("prepare_queue_depth", default.prepare_queue_depth),
        journal_slots=metadata.get("journal_slots", default.journal_slots),
        digest_interval=metadata.get("digest_interval", default.digest_interval),
        clients_table_max=metadata.get("clients_table_max", default.clients_table_max),
        max_tokens_per_user=settings.get("personal_access_token", {}).get(
            "max_tokens_per_user", default.max_tokens_per_user
        ),
        view_probe_attempts_max=cluster.get("view_probe_attempts_max", default.view_probe_attempts_max),
        **_durations(settings, default),
        retain_history=_retains(acknowledgements),
        archive_limit=size(acknowledgements["archive_limit"], "archive_limit")
        if "archive_limit" in acknowledgements
        else default.archive_limit,
        security=_security(cluster),
        arrangement=JOURNAL_APART if system.get("journal_thread") else default.arrangement,
        plugins=running,
        other_plugins=others,
    )
    if several and "name" not in cluster:
        raise ConfigError("cluster.name is missing: it is what tells one cluster from another")
    certificate, key = _tls_files(tcp.get("tls", {}), "tcp.tls")
    return FileConfig(node=config, client_certificate=certificate, client_key=key)


def _member(node: Mapping[str, Any], index: int) -> Member:
    where = f"cluster.nodes[{index}]"
    for key in ("name", "ip", "replica_id", "ports"):
        if key not in node:
            raise ConfigError(f"{where}.{key} is missing")
    ports = node["ports"]
    for key in ("tcp", "tcp_replica"):
        if not ports.get(key):
            raise ConfigError(f"{where}.ports.{key} is missing: others dial it, so it cannot be chosen by the system")
    for key, port in ports.items():
        if port > 65_535:
            raise ConfigError(f"{where}.ports.{key} {port}: 1 to 65535 are allowed")
    return Member(
        name=node["name"],
        replica=node["replica_id"],
        ip=node["ip"],
        tcp=ports["tcp"],
        tcp_replica=ports["tcp_replica"],
        http=ports.get("http", 0),
    )


def _own(members: tuple[Member, ...], replica: int | None) -> Member | None:
    """The node that this process is (BR-53)."""
    if not members:
        if replica:
            raise ConfigError(f"--replica-id {replica}, but cluster.nodes lists no node")
        return None
    if replica is None:
        if len(members) > 1:
            raise ConfigError(f"cluster.nodes lists {len(members)} nodes: say which one this is with --replica-id")
        return members[0]
    found = [member for member in members if member.replica == replica]
    if not found:
        ids = ", ".join(str(each) for each in sorted(member.replica for member in members))
        raise ConfigError(f"--replica-id {replica} is not in cluster.nodes, which lists {ids}")
    return found[0]


def _address(tcp: Mapping[str, Any], default: Address) -> Address:
    return Address.parse(tcp["address"]) if "address" in tcp else default


def _security(cluster: Mapping[str, Any]) -> LinkSecurity:
    tls = cluster.get("tls", {})
    certificate, key = _tls_files(tls, "cluster.tls")
    authority = Path(tls["ca_file"]) if "ca_file" in tls and certificate is not None else None
    return LinkSecurity(
        secret=_secret(cluster, "shared_secret"),
        previous_secret=_secret(cluster, "previous_shared_secret"),
        certificate=certificate,
        key=key,
        authority=authority,
    )


def _tls_files(tls: Mapping[str, Any], where: str) -> tuple[Path | None, Path | None]:
    """Certificate and key, both or none. `enabled = false` turns them off."""
    if tls.get("enabled") is False:
        return None, None
    certificate, key = tls.get("cert_file"), tls.get("key_file")
    if certificate is None and key is None and not tls.get("enabled"):
        return None, None
    if certificate is None or key is None:
        raise ConfigError(f"{where}: cert_file and key_file belong together: give both")
    return Path(certificate), Path(key)


def _secret(cluster: Mapping[str, Any], key: str) -> bytes | None:
    """The secret itself or what its file holds, without the line end. Never shown."""
    value, file = cluster.get(key), cluster.get(f"{key}_file")
    if value is not None and file is not None:
        raise ConfigError(f"cluster.{key} and cluster.{key}_file are both set: keep one")
    if value is not None:
        return str(value).encode()
    if file is None:
        return None
    try:
        found = Path(file).read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise ConfigError(f"cluster.{key}_file {file}: {error.strerror}") from error
    if not 0 < len(found) <= _SECRET_BYTES_MAX:
        raise ConfigError(f"cluster.{key}_file {file}: {len(found)} bytes, 1 to {_SECRET_BYTES_MAX} are allowed")
    return found


def with_flags(found: FileConfig, *, data: Path | None, listen: Address | None) -> FileConfig:
    """The same with what the command line says instead.

    A member of several may listen on another host than the roster says, as 0.0.0.0 is one, but not on another port: clients
    are sent to the roster's. Raises `ConfigError`.
    """
    node = found.node
    if node.replica_count > 1 and listen is not None and listen.port != node.listen.port:
        raise ConfigError(
            f"--listen {listen}: the roster sends clients of {node.node_name} to port {node.listen.port}; "
            "name that port, or change the roster on every node"
        )
    return replace(
        found,
        node=replace(
            node,
            data=data if data is not None else node.data,
            listen=listen if listen is not None else node.listen,
        ),
    )
