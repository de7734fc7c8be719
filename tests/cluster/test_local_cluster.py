"""What a local cluster tells its members: ports, configuration, command line; and a process from its start to its end."""

from pathlib import Path

import pytest

from levrier.cluster.config_file import load
from levrier.cluster.local_cluster import ClusterPlan, LocalCluster, MemberPorts, config_text, free_ports
from levrier.cluster.process import NodeDidNotStart
from levrier.cluster.refused import ConfigError


def test_a_base_port_gives_every_port_its_place() -> None:
    ports = ClusterPlan(count=3, base_port=7000).ports()
    assert ports == tuple(MemberPorts(tcp=7000 + 10 * each, replica=7002 + 10 * each) for each in range(3))


def test_without_one_all_ports_are_free_and_differ() -> None:
    ports = ClusterPlan(count=5).ports()
    assert len({port for each in ports for port in (each.tcp, each.replica)}) == 10


@pytest.mark.parametrize(
    ("count", "base_port", "complaint"),
    [(0, None, "0 nodes"), (33, None, "33 nodes"), (3, 0, "base port 0"), (3, 65_520, "up to 65542")],
)
def test_a_plan_that_cannot_be_is_refused(count: int, base_port: int | None, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ClusterPlan(count=count, base_port=base_port)


@pytest.mark.parametrize(
    ("heartbeat", "complaint"),
    [("10ms", "^heartbeat is 10ms: at least 2 s$"), ("soon", "^heartbeat 'soon': a duration such as")],
)
def test_a_heartbeat_that_no_node_accepts_is_refused_before_a_node_starts(heartbeat: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        ClusterPlan(heartbeat=heartbeat)


def test_the_configuration_is_one_that_a_node_reads(tmp_path: Path) -> None:
    plan = ClusterPlan(
        name="mine",
        count=3,
        base_port=7000,
        heartbeat="3 s",
        settings={"metadata.journal_slots": 1024, "cluster.shared_secret": 'a "secret" \\ of ours'},
    )
    file = tmp_path / "cluster.toml"
    file.write_text(config_text(plan, plan.ports(), tmp_path / 'a "strange" path'), encoding="utf-8")
    node = load(file, environment={}, replica=1).node
    assert (node.cluster_name, node.replica, node.replica_count) == ("mine", 1, 3)
    assert (node.heartbeat_ticks, node.view_change_ticks, node.journal_slots) == (300, 300, 1024)
    assert node.security.secret == b'a "secret" \\ of ours'
    assert node.data == tmp_path / 'a "strange" path' / "node-1"
    assert [str(member.client_address) for member in node.roster] == [
        f"127.0.0.1:{7000 + 10 * each}" for each in range(3)
    ]


def test_one_node_has_its_directory_where_several_have_theirs(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "one", ClusterPlan(count=1)) as cluster:
        assert (cluster.directory(0) / "metadata").is_dir()
        assert cluster.pid_file(0).read_text() == f"{cluster.process(0).pid}\n"
        assert cluster.command(0) == ("serve", "--config", str(tmp_path / "one" / "cluster.toml"), "--replica-id", "0")
        assert cluster.stop() == (0,)
        assert not cluster.pid_file(0).exists()
        assert cluster.log(0).read_text().rstrip().endswith("ended")


def test_members_whose_links_can_be_cut_dial_the_proxies_and_listen_where_they_are(tmp_path: Path) -> None:
    """Only the replica ports of those whom a member dials differ from file to file."""
    cluster = LocalCluster(tmp_path, ClusterPlan(count=3, with_links=True, settings={"cluster.nonsense": 1}))
    with pytest.raises(NodeDidNotStart, match=r"cluster.nonsense is no setting"):
        cluster.start()
    rosters = []
    for replica in range(3):
        text = cluster.config_file(replica).read_text().replace("nonsense = 1\n", "")
        (tmp_path / "good.toml").write_text(text)
        rosters.append(load(tmp_path / "good.toml", environment={}, replica=replica).node.roster)
    true = rosters[2]
    assert [member.tcp for member in rosters[0]] == [member.tcp for member in true]
    same = [[mine == theirs for mine, theirs in zip(roster, true, strict=True)] for roster in rosters]
    assert same == [[True, False, False], [True, True, False], [True, True, True]]
    proxies = [rosters[0][1].tcp_replica, rosters[0][2].tcp_replica, rosters[1][2].tcp_replica]
    assert len(set(proxies)) == 3


def test_free_ports_differ() -> None:
    assert len(set(free_ports(20))) == 20


def test_a_member_that_does_not_start_ends_the_others_and_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, ClusterPlan(count=2))
    damaged = cluster.directory(1) / "metadata"
    damaged.mkdir(parents=True)
    (damaged / "superblock.a").write_bytes(b"no superblock at all")
    with pytest.raises(NodeDidNotStart) as failed:
        cluster.start()
    assert "--replica-id 1 ended with status " in str(failed.value)
    assert "superblock" in str(failed.value)
    assert [cluster.process(replica).running for replica in range(2)] == [False, False]
