"""The README's section on who may be a member, followed to the letter: its file, its certificates, its commands."""

import asyncio
import json
import re
import shlex
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from levrier.cluster.cli.serve import warn_of_open_links
from levrier.cluster.client import Client
from levrier.cluster.client_errors import ClosedUnheard
from levrier.cluster.config import LinkSecurity, Member, NodeConfig
from levrier.cluster.local_cluster import free_ports
from tests.cluster.processes import ROOT, NodeProcess
from tests.cluster.three_nodes import until

MEMBERS = ("a", "b", "c")


def section() -> str:
    """The section."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    begin = readme.index("### Who may be a member\n")
    return readme[begin : readme.index("\n## ", begin)]


def commands(program: str) -> list[list[str]]:
    """The lines that begin with that program, a backslash at the end taken as going on."""
    lines = section().replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith(f"    {program} ")]


def run(arguments: list[str], cwd: Path) -> str:
    done = subprocess.run(arguments, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def levrier(arguments: list[str], cwd: Path) -> str:
    return run([sys.executable, "-m", "levrier.cluster", *arguments[1:]], cwd)


class Site:
    """Three machines on one: each address is one of loopback, with ports that are free, each `/etc/levrier` a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ports = iter(free_ports(6))
        found = re.search(r"```toml\n(.*?)```\n", section(), re.DOTALL)
        assert found is not None
        text = re.sub(r"10\.0\.0\.(\d)", r"127.0.0.\1", found[1])
        text = re.sub(r"\b(809[02])\b", lambda _: str(next(self.ports)), text)
        self.text = text.replace("/var/lib/levrier", str(root / "data"))
        self.clients = re.findall(r'ip = "(\S+)"\n.*\nports = { tcp = (\d+),', self.text)

    def folder(self, name: str) -> Path:
        """`/etc/levrier` of that member."""
        return self.root / name

    def furnish(self) -> None:
        """Make the secret and the authority once, the certificate for each member."""
        authority = self.root / "authority"
        authority.mkdir()
        secret, own, request, signed = commands("openssl")
        (authority / "secret").write_text(run(secret[: secret.index(">")], authority), encoding="ascii")
        run(own, authority)
        for number, name in enumerate(MEMBERS, 1):
            for command in (request, signed):
                run([word.replace("10.0.0.1", f"127.0.0.{number}") for word in command], authority)
            folder = self.folder(name)
            folder.mkdir()
            for file in ("secret", "ca.pem", "member.pem", "member.key"):
                (folder / file).write_bytes((authority / file).read_bytes())
            text = self.text.replace("/etc/levrier", str(folder))
            (folder / "cluster.toml").write_text(text, encoding="utf-8")

    def serve(self, replica: int) -> NodeProcess:
        """The command of the README, with the number of this member."""
        (command,) = [words for words in commands("levrier") if words[1] == "serve"]
        assert command[-2:] == ["--replica-id", "0"]
        command = [sys.executable, "-m", "levrier.cluster", *command[1:-1], str(replica)]
        folder = self.folder(MEMBERS[replica])
        command[command.index("cluster.toml")] = str(folder / "cluster.toml")
        return NodeProcess(command, folder / "log")

    def replica_tls_version(self, replica: int) -> str | None:
        """What its replica port agrees on with one that shows a certificate of the authority."""
        folder = self.folder("a")
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / "member.pem", folder / "member.key")
        found = re.findall(r'ip = "(\S+)"\n.*\nports = .*tcp_replica = (\d+)', self.text)[replica]
        with (
            socket.create_connection((found[0], int(found[1])), 10) as plain,
            context.wrap_socket(plain, server_hostname=found[0]) as secure,
        ):
            return secure.version()

    def status(self) -> dict[str, Any]:
        """What the command of the README says, as JSON."""
        (command,) = [words for words in commands("levrier") if words[1] == "status"]
        command[command.index("10.0.0.1:8090")] = ":".join(self.clients[0])
        return dict(json.loads(levrier([*command, "--json"], self.folder("a"))))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """All three serve."""
    site = Site(tmp_path)
    site.furnish()
    with ExitStack() as stack:
        for node in [stack.enter_context(site.serve(replica)) for replica in range(len(MEMBERS))]:
            node.ready()
        yield site


@pytest.mark.process
def test_the_section_runs_as_it_stands(site: Site) -> None:
    """Members find each other over TLS 1.3, with the secret; clients are served over TLS and in no other way."""

    async def serves() -> bool:
        nodes = (await asyncio.to_thread(site.status))["nodes"]
        return sorted(node["role"] for node in nodes if node["reachable"]) == ["backup", "backup", "primary"]

    async def in_the_clear() -> None:
        host, port = site.clients[0]
        async with await Client.connect(host, int(port)) as client:
            with pytest.raises(ClosedUnheard):
                await client.ping()

    asyncio.run(until(serves, "a primary with two backups"))
    asyncio.run(in_the_clear())
    assert site.replica_tls_version(2) == "TLSv1.3"
    for name in MEMBERS:
        log = (site.folder(name) / "log").read_text(encoding="utf-8")
        assert "no shared secret" not in log
        assert "refused on the replica port" not in log


IN_REACH = (Member(name="a", replica=0, ip="10.0.0.1", tcp=8090, tcp_replica=8092),)
ALONE = tuple(
    replace(IN_REACH[0], ip="127.0.0.1", tcp=8090 + 10 * each, tcp_replica=8092 + 10 * each) for each in (0, 1)
)


def warned(*members: Member, security: LinkSecurity | None = None) -> list[str]:
    """What the first of these members is warned of."""
    roster = tuple(replace(member, name=f"node-{number}", replica=number) for number, member in enumerate(members))
    config = NodeConfig(
        cluster_name="prod", replica_count=len(roster), members=roster, security=security or LinkSecurity()
    )
    lines: list[str] = []
    sink = logger.add(lines.append, format="{message}", level="WARNING")
    try:
        warn_of_open_links(config)
    finally:
        logger.remove(sink)
    return lines


def test_whoever_listens_beyond_loopback_without_secret_and_tls_is_told_what_where_and_what_to_do() -> None:
    (line,) = warned(IN_REACH[0], ALONE[1])
    for words in ("10.0.0.1:8092", "whoever reaches it counts as a member", "cluster.shared_secret_file"):
        assert words in line
    encrypted = LinkSecurity(certificate=Path("cert"), key=Path("key"), authority=Path("ca"))
    assert not warned(IN_REACH[0], ALONE[1], security=LinkSecurity(secret=b"s"))
    assert not warned(IN_REACH[0], ALONE[1], security=encrypted)
    assert not warned(*ALONE)
    assert not warned(IN_REACH[0])
