"""The configuration file: Iggy's names, overrides, and refusals that name the key (design 9, BR-53)."""

from pathlib import Path

import pytest

from levrier.cluster.address import Address
from levrier.cluster.config import NodeConfig
from levrier.cluster.config_file import FileConfig, load, with_flags
from levrier.cluster.refused import ConfigError

CLUSTER = """
[cluster]
name = "prod"
heartbeat_timeout = "2 s"
shared_secret = "hush"

[[cluster.nodes]]
name = "a"
ip = "10.0.0.1"
replica_id = 0
ports = { tcp = 8090, http = 3000, tcp_replica = 8092 }

[[cluster.nodes]]
name = "c"
ip = "10.0.0.3"
replica_id = 2
ports = { tcp = 8090, tcp_replica = 8092, quic = 8080, websocket = 8070 }

[[cluster.nodes]]
name = "b"
ip = "10.0.0.2"
replica_id = 1
ports = { tcp = 8090, tcp_replica = 8092 }

[metadata]
journal_slots = 1024
repair_retry = "500ms"
[acknowledgements]
interval = "250 ms"
retain = "history"
archive_limit = "1.5 GiB"

[system]
path = "/var/lib/levrier"
"""
ONE = """
[[cluster.nodes]]
name = "only"
ip = "127.0.0.1"
replica_id = 0
ports = { tcp = 9000, tcp_replica = 9002 }
"""


def read(
    tmp_path: Path, text: str, *, replica: int | None = None, environment: dict[str, str] | None = None
) -> FileConfig:
    """The file as that node reads it."""
    path = tmp_path / "levrier.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, environment=environment or {}, replica=replica)


def test_a_member_of_three(tmp_path: Path) -> None:
    """One file for all; ids, not the order of the entries, say who is who."""
    node = read(tmp_path, CLUSTER, replica=1).node
    assert (node.cluster_name, node.node_name, node.replica, node.replica_count) == ("prod", "b", 1, 3)
    assert node.listen == Address(host="10.0.0.2", port=8090)
    assert [member.name for member in node.roster] == ["a", "b", "c"]
    assert node.roster[2].replica_address == Address(host="10.0.0.3", port=8092)
    assert node.roster[0].http == 3000
    assert (node.heartbeat_ticks, node.view_change_ticks, node.repair_retry_ticks) == (200, 500, 50)
    assert (node.journal_slots, node.prepare_queue_depth) == (1024, 64)
    assert node.acknowledgement_interval_milliseconds == 250
    assert (node.retain_history, node.archive_limit) == (True, 3 << 29)
    assert node.security.secret == b"hush"
    assert node.data == Path("/var/lib/levrier/node-1")


def test_the_log_gets_a_thread_of_its_own_on_request(tmp_path: Path) -> None:
    def placement(text: str) -> dict[str, str]:
        return read(tmp_path, CLUSTER + text, replica=0).node.placement

    path = {"bus", "client_table", "consensus", "metadata", "birth"}
    assert {actor for actor, place in placement("").items() if place == "io"} == {*path, "journal"}
    assert placement("journal_thread = false") == placement("")
    apart = placement("journal_thread = true")
    assert {actor for actor, place in apart.items() if place == "io"} == path
    assert apart == {**placement(""), "journal": "journal"}


def test_the_secret_is_not_shown(tmp_path: Path) -> None:
    assert "hush" not in repr(read(tmp_path, CLUSTER, replica=0))


def test_a_file_of_one_node(tmp_path: Path) -> None:
    node = read(tmp_path, ONE).node
    assert (node.replica, node.replica_count, node.node_name) == (0, 1, "only")
    assert node.listen == Address(host="127.0.0.1", port=9000)
    assert node.data == NodeConfig().data


def test_a_file_without_nodes(tmp_path: Path) -> None:
    node = read(tmp_path, '[tcp]\naddress = "127.0.0.1:7000"\n[personal_access_token]\nmax_tokens_per_user = 3\n').node
    assert node.listen == Address(port=7000)
    assert node.max_tokens_per_user == 3
    assert read(tmp_path, "").node == NodeConfig()


def test_the_environment_overrides_single_keys(tmp_path: Path) -> None:
    """List entries included, by their place in the list."""
    environment = {
        "LEVRIER_CLUSTER_NAME": "stage",
        "LEVRIER_CLUSTER_NODES_1_PORTS_TCP_REPLICA": "9999",
        "LEVRIER_CLUSTER_NODES_1_IP": "node-c.example",
        "LEVRIER_METADATA_JOURNAL_SLOTS": "2048",
        "LEVRIER_CLUSTER_HEARTBEAT_TIMEOUT": "1m 1s",
        "LEVRIER_CONNECT": "of another command",
        "LEVRIER_PASSWORD_FILE": "of another command",
        "OTHER": "not ours",
    }
    node = read(tmp_path, CLUSTER, replica=0, environment=environment).node
    assert node.cluster_name == "stage"
    assert node.roster[2].replica_address == Address(host="node-c.example", port=9999)
    assert node.journal_slots == 2048
    assert node.heartbeat_ticks == 6_100


def test_the_environment_adds_a_node(tmp_path: Path) -> None:
    environment = {
        "LEVRIER_CLUSTER_NODES_0_NAME": "x",
        "LEVRIER_CLUSTER_NODES_0_IP": "127.0.0.1",
        "LEVRIER_CLUSTER_NODES_0_REPLICA_ID": "0",
        "LEVRIER_CLUSTER_NODES_0_PORTS_TCP": "1",
        "LEVRIER_CLUSTER_NODES_0_PORTS_TCP_REPLICA": "2",
    }
    assert read(tmp_path, "", environment=environment).node.listen == Address(port=1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[clster]\nname = "x"', r"clster is no setting that is known; did you mean cluster\?"),
        ("[cluster]\nheartbeat_timout = '1s'", r"did you mean cluster\.heartbeat_timeout\?"),
        (ONE.replace("tcp_replica", "tcp_replicas"), r"nodes\[0\]\.ports\.tcp_replicas is .*\.tcp_replica\?"),
        ("[cluster]\nname = 3", "cluster.name 3: a text is expected"),
        ("[metadata]\njournal_slots = true", "journal_slots True: a whole number"),
        ("[metadata]\njournal_slots = -1", "journal_slots -1: a whole number"),
        ("[metadata]\njournal_slots = 1", "journal_slots 1: 256 to 1048576"),
        ("[cluster]\nheartbeat_timeout = '5'", "a duration such as"),
        (f"[cluster]\nheartbeat_timeout = '{'9' * 400} s'", "a duration such as"),
        (f"[acknowledgements]\narchive_limit = '{'9' * 400} B'", "a size such as"),
        (f"[metadata]\njournal_slots = {'9' * 5_000}", "levrier.toml"),
        ("deep = " + "[" * 20_000, "levrier.toml"),
        ('[cluster]\nshared_secret_file = "a\\u0000"', "^(?!.*u0000).*shared_secret_file: a text is expected"),
        ('[system]\npath = "a\\u0000"', "system.path .*: a text is expected"),
        ("[acknowledgements]\ninterval = '1 ms'", "acknowledgements.interval is 1 ms: at least 10 ms$"),
        ("[acknowledgements]\nretain = 'all'", 'acknowledgements.retain .all.: "history" or "nothing" is expected'),
        (
            "[acknowledgements]\narchive_limit = '5 GB'",
            'acknowledgements.archive_limit .5 GB.: a size such as "10 GiB"',
        ),
        ("[acknowledgements]\narchive_limit = 5", "acknowledgements.archive_limit 5: a size such as"),
        ("[cluster]\nheartbeat_timeout = '100ms'", "cluster.heartbeat_timeout is 100ms: at least 2 s$"),
        ("[cluster]\nview_change_timeout = '499 ms'", "cluster.view_change_timeout is 499 ms: at least 500 ms$"),
        ("[metadata]\nrepair_retry = '0 s'", "metadata.repair_retry is 0 s: at least 10 ms$"),
        ("[cluster]\nshared_secret = 4", "^(?!.*4:).*shared_secret: a text is expected"),
        ("[cluster]\nshared_secret = 'a'\nshared_secret_file = 'b'", "both set: keep one"),
        ("[cluster]\nshared_secret_file = '/nowhere'", "shared_secret_file /nowhere: No such file"),
        ("[cluster]\nprevious_shared_secret = 'a'", "without cluster.shared_secret"),
        ("[cluster.tls]\ncert_file = 'a'", "cluster.tls: cert_file and key_file belong together"),
        ("[cluster.tls]\ncert_file = 'a'\nkey_file = 'b'", "give all three"),
        ("[tcp.tls]\nenabled = true", "tcp.tls: cert_file and key_file"),
        ("cluster = 1", "cluster is a table of settings"),
        ("[cluster]\nnodes = 1", "cluster.nodes is a list of tables"),
        ("[cluster", "levrier.toml"),
        (ONE.replace('name = "only"', ""), r"cluster.nodes\[0\].name is missing"),
        (ONE.replace("tcp = 9000", "tcp = 0"), r"nodes\[0\].ports.tcp is missing"),
        (ONE.replace("tcp = 9000", "tcp = 70000"), "70000: 1 to 65535"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    """Unknown keys with the nearest valid name, values with what is allowed; a secret is never repeated."""
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("change", "replica", "complaint"),
    [
        (("replica_id = 2", "replica_id = 1"), 0, "replica_id 1 is given to 2 nodes"),
        (("replica_id = 2", "replica_id = 3"), 0, "replica_id 3 of 3 nodes: the ids are 0 to 2"),
        (('name = "c"', 'name = "a"'), 0, "node name 'a' is given to 2 nodes"),
        (('ip = "10.0.0.3"', 'ip = "10.0.0.1"'), 0, "are both 10.0.0.1:8090: each address once"),
        (("http = 3000", "http = 8092"), 0, "tcp_replica of node 'a' and http of node 'a' are both"),
        (("", ""), 3, "--replica-id 3 is not in cluster.nodes, which lists 0, 1, 2"),
        (("", ""), None, "lists 3 nodes: say which one this is with --replica-id"),
        (('name = "prod"', ""), 0, "cluster.name is missing"),
    ],
)
def test_a_roster_that_cannot_be(tmp_path: Path, change: tuple[str, str], replica: int | None, complaint: str) -> None:
    """BR-53: ids 0 to R - 1, each id and each address once, the own id present; never its own peer."""
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, CLUSTER.replace(*change, 1) if change[0] else CLUSTER, replica=replica)


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("LEVRIER_CLUSTER_NAMES", "x", "did you mean LEVRIER_CLUSTER_NAME"),
        ("LEVRIER_METADATA_JOURNAL_SLOTS", "many", "LEVRIER_METADATA_JOURNAL_SLOTS 'many': a whole number"),
        ("LEVRIER_CLUSTER_ENABLED", "perhaps", "true or false"),
        ("LEVRIER_CLUSTER_NODES_7_NAME", "x", "the list has 3 entries"),
        ("LEVRIER_CLUSTER_NODES_X_NAME", "x", "sets nothing that is known"),
        (f"LEVRIER_CLUSTER_NODES_{'9' * 5_000}_NAME", "x", "sets nothing that is known"),
        ("LEVRIER_METADATA_JOURNAL_SLOTS", "9" * 5_000, "a whole number"),
        ("LEVRIER_PLUGINS_TOKEN_CLEANER_INTERVAL", "9" * 400 + " s", "a duration such as"),
    ],
)
def test_a_variable_that_is_refused(tmp_path: Path, variable: str, value: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, CLUSTER, replica=0, environment={variable: value})


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file"):
        load(tmp_path / "nowhere.toml", environment={}, replica=None)


def test_a_secret_from_a_file_ends_before_the_line_end(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"from file\n")
    node = read(tmp_path, f"[cluster]\nshared_secret_file = '{secret}'\n").node
    assert node.security.secret == b"from file"


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    found = with_flags(read(tmp_path, ONE), data=tmp_path, listen=Address(port=1))
    assert (found.node.data, found.node.listen) == (tmp_path, Address(port=1))
    assert with_flags(found, data=None, listen=None) == found


def test_a_member_of_several_listens_where_the_roster_sends_its_clients(tmp_path: Path) -> None:
    """On another host if it likes, never on another port."""
    found = read(tmp_path, CLUSTER, replica=0)
    everywhere = Address(host="0.0.0.0", port=8090)
    assert with_flags(found, data=None, listen=everywhere).node.listen == everywhere
    with pytest.raises(ConfigError, match=r"--listen 0\.0\.0\.0:1: the roster sends clients of a to port 8090"):
        with_flags(found, data=None, listen=Address(host="0.0.0.0", port=1))


def test_a_disabled_cluster_is_one_node(tmp_path: Path) -> None:
    assert read(tmp_path, CLUSTER.replace("[cluster]", "[cluster]\nenabled = false")).node.replica_count == 1
