"""Members as processes: one configuration file, one command line each, killed at the end of the block."""

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.processes import NodeProcess
from tests.cluster.three_nodes import HEARTBEAT, config_text, roster

FAULTY_OS = Path(__file__).parent / "faulty_os"


class Processes:
    """`count` times `levrier serve` over one configuration file, none running yet. `more` goes into its section `[cluster]`,
    `tail` behind everything. With `disk_faults`, the disks may be told to `hang` or to be `full`."""

    def __init__(
        self,
        root: Path,
        stack: ExitStack,
        *,
        count: int = 3,
        heartbeat: str = HEARTBEAT,
        more: str = 'shared_secret = "s"',
        tail: str = "",
        disk_faults: bool = False,
    ) -> None:
        self.members = roster(count)
        self.file = root / "cluster.toml"
        self.running: dict[int, NodeProcess] = {}
        self._root = root
        self._heartbeat = heartbeat
        self._tail = tail
        self.configure(more)
        self._stack = stack
        self._disk_faults = disk_faults

    def configure(self, more: str) -> None:
        """Write the file anew: whoever is spawned from now on finds `more` there, whoever runs has read it already."""
        text = config_text(self.members, self._root / "data", more=more, heartbeat=self._heartbeat)
        self.file.write_text(text + self._tail, encoding="utf-8")

    def start_all(self) -> None:
        """All of them, ready."""
        for member in self.members:
            self.spawn(member.replica)
        for process in self.running.values():
            process.ready()

    def spawn(self, replica: int) -> NodeProcess:
        """The very command line, whether for the first boot or for any later one."""
        command = [sys.executable, "-m", "levrier.cluster", "serve"]
        command += ["--config", str(self.file), "--replica-id", str(replica)]
        process = self._stack.enter_context(
            NodeProcess(command, self._root / f"node-{replica}.log", self._environment(replica))
        )
        self.running[replica] = process
        return process

    def pause(self, replica: int) -> None:
        """SIGSTOP."""
        self.running[replica].popen.send_signal(signal.SIGSTOP)

    def resume(self, replica: int) -> None:
        """SIGCONT."""
        self.running[replica].popen.send_signal(signal.SIGCONT)

    def break_disk(self, replica: int, fault: str) -> None:
        """From now on its syncs do not return (`hang`), or its writes find no space (`full`)."""
        (self._faults(replica) / fault).touch()

    def mend_disk(self, replica: int, fault: str) -> None:
        """The cause is gone."""
        (self._faults(replica) / fault).unlink()

    def _faults(self, replica: int) -> Path:
        return self._root / f"faults-{replica}"

    def _environment(self, replica: int) -> dict[str, str]:
        if not self._disk_faults:
            return {}
        self._faults(replica).mkdir(exist_ok=True)
        path = os.pathsep.join(filter(None, [str(FAULTY_OS), os.environ.get("PYTHONPATH", "")]))
        return {"PYTHONPATH": path, "FAULTY_OS": str(self._faults(replica))}
