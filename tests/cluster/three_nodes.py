"""Three members on loopback: their roster, and a configuration file that says the same."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from levrier.cluster.client import Client
from levrier.cluster.client_errors import ClientError
from levrier.cluster.config import Member
from levrier.cluster.local_cluster import free_ports

HEARTBEAT = "2 s"
WAIT_SECONDS = 60.0


def roster(count: int = 3) -> tuple[Member, ...]:
    """Members on free ports."""
    ports = free_ports(2 * count)
    return tuple(
        Member(
            name=f"node-{replica}",
            replica=replica,
            ip="127.0.0.1",
            tcp=ports[2 * replica],
            tcp_replica=ports[2 * replica + 1],
        )
        for replica in range(count)
    )


def config_text(
    members: tuple[Member, ...], data: Path, *, name: str = "three", more: str = "", heartbeat: str = HEARTBEAT
) -> str:
    """The configuration file of these members. Their directories lie below `data`."""
    nodes = "".join(
        f'[[cluster.nodes]]\nname = "{member.name}"\nip = "{member.ip}"\nreplica_id = {member.replica}\n'
        f"ports = {{ tcp = {member.tcp}, tcp_replica = {member.tcp_replica} }}\n\n"
        for member in members
    )
    return (
        f'[cluster]\nname = "{name}"\nheartbeat_timeout = "{heartbeat}"\nview_change_timeout = "{heartbeat}"\n{more}\n'
        f'{nodes}[system]\npath = "{data}"\n'
    )


async def status_of(member: Member) -> dict[str, Any] | None:
    """How a member says that it stands; None when it does not answer or lets nobody in yet."""
    try:
        async with await Client.connect(member.ip, member.tcp, deadline_seconds=3) as client:
            await client.login("iggy", "iggy")
            status = dict(await client.status())
            await client.logout()
            return status
    except ClientError:
        return None


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something that other processes bring about."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not await condition():
        assert time.monotonic() < deadline, f"{what} did not come about in {WAIT_SECONDS:g} s"
        await asyncio.sleep(0.1)


async def primary_among(members: tuple[Member, ...]) -> Member:
    """The member that leads and waits for nothing, once there is one."""
    found: list[Member] = []

    async def leads() -> bool:
        for member in members:
            status = await status_of(member)
            if status is not None and status["role"] == "primary" and not status["waiting"]:
                found.append(member)
                return True
        return False

    await until(leads, "a primary")
    return found[0]


async def caught_up(members: tuple[Member, ...], replica: int) -> bool:
    """Whether that member has applied everything that the furthest one had applied a moment ago."""
    furthest = 0
    for member in members:
        status = await status_of(member) if member.replica != replica else None
        furthest = max(furthest, status["applied"] if status is not None else 0)
    own = await status_of(members[replica])
    return own is not None and furthest > 0 and own["applied"] >= furthest
