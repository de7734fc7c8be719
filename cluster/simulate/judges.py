"""Who judges a simulation: what the replicas applied, what the clients saw, and what everybody holds in the end."""

from collections.abc import Iterable, Mapping

from levrier.actors.consensus.state import ReplicaState
from levrier.cluster.simulate.violation import Violation


class Judges:
    """One log for all replicas; satisfies `Commits` and `History`."""

    def __init__(self, replica_count: int) -> None:
        self._log: list[tuple[bytes, bytes | None]] = []
        self._at = [0] * replica_count

    # Commits

    def applied(self, replica: int, incarnation: int, op: int, prepare: bytes, reply: bytes | None) -> None:
        """An entry was applied."""
        if op != self._at[replica] + 1:
            raise Violation("applied in order", f"node-{replica}.{incarnation} applies {op} after {self._at[replica]}")
        self._at[replica] = op
        self._same(replica, op, prepare[:16], reply)

    def _same(self, replica: int, op: int, checksum: bytes, reply: bytes | None) -> None:
        if op == len(self._log) + 1:
            self._log.append((checksum, reply))
            return
        if op > len(self._log):
            raise Violation("applied in order", f"node-{replica} applies {op}, nobody has more than {len(self._log)}")
        known, first = self._log[op - 1]
        if known != checksum:
            raise Violation("what is committed stays", f"node-{replica} applies another op {op}")
        if reply is not None and first is not None and reply != first:
            raise Violation("same reply everywhere", f"node-{replica} answers op {op} otherwise: {first.hex()} {reply.hex()}")

    def installed(self, replica: int, incarnation: int, op: int) -> None:  # noqa: ARG002
        """A state transfer was installed."""
        self._at[replica] = op

    def restarted(self, replica: int, incarnation: int, floor_op: int, replayed: Iterable[bytes] = ()) -> None:  # noqa: ARG002
        """A member has booted."""
        for op, frame in enumerate(replayed := list(replayed), floor_op - len(replayed) + 1):
            self._same(replica, op, frame[:16], None)
        self._at[replica] = floor_op

    def check_invariants(self, states: list[ReplicaState]) -> None:
        """Called now and then with the live replicas."""
        leads: dict[int, int] = {}
        for state in states:
            if state.is_acting_primary and leads.setdefault(state.view, state.config.replica) != state.config.replica:
                raise Violation("one primary a view", f"view {state.view}")

    # History

    def connected(self, client: int, at: int, replica: int) -> None:
        """A new connection."""

    def invoked(self, client: int, request: int, frame: bytes, at: int, replica: int) -> None:
        """A request is sent."""

    def answered(self, client: int, request: int, frame: bytes, at: int, replica: int) -> None:
        """Its final answer came."""

    def refused(self, client: int, request: int, at: int) -> None:
        """It was never started."""

    def read(self, client: int, command: int, answer: bytes, at: int, replica: int) -> None:
        """A read was answered."""

    def final(self, ends: Mapping[int, bytes]) -> None:
        """Everybody's state in the end."""
        if len(set(ends.values())) > 1:
            raise Violation("same bytes in the end", f"the members {sorted(ends)} differ")
