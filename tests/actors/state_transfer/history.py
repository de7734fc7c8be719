"""A log that several replicas share: chained prepares of real operations, of several clients."""

from levrier.wire.body import Body
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier
from levrier.wire.identity import cluster_id
from levrier.wire.prepare import METADATA_GROUP, Prepare, project
from levrier.wire.requests.replicated import BootstrapRoot
from levrier.wire.requests.streams import CreateStream, DeleteStream

CLUSTER_NAME = "transfers"
CLUSTER = cluster_id(CLUSTER_NAME)
HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA"
CLIENTS = (0xA1, 0xB2, 0xC3)


class History:
    """Builds the log op by op. `fork` gives another future of the same past."""

    def __init__(self, prepares: tuple[Prepare, ...] = (), *, view: int = 1, committed: int = 1 << 40) -> None:
        self.prepares = list(prepares)
        self.view = view
        self.committed = committed
        """No prepare states a higher commit point."""

    @property
    def head(self) -> int:
        return len(self.prepares)

    def fork(self, op: int, *, view: int, committed: int = 1 << 40) -> "History":
        """What another view makes of everything after `op`."""
        return History(tuple(self.prepares[:op]), view=view, committed=committed)

    def between(self, first: int, last: int) -> list[Prepare]:
        """The prepares of those ops, both included."""
        return self.prepares[first - 1 : last]

    def add(self, operation: Operation, body: Body | bytes = b"", *, client: int = 0, request: int = 0) -> None:
        op = self.head + 1
        self.prepares.append(
            project(
                cluster=CLUSTER,
                view=self.view,
                replica=self.view % 3,
                client=client,
                parent=self.prepares[-1].header.checksum if self.prepares else 0,
                request_checksum=request * 11,
                op=op,
                commit=min(op - 1, self.committed),
                timestamp=1_000_000 + op,
                request=request,
                operation=int(operation),
                group=METADATA_GROUP,
                user_id=0,
                body=body if isinstance(body, bytes) else body.encode(),
            )
        )

    def grow_to(self, op: int) -> "History":
        """Root, three sessions, and streams that come and go, up to `op`."""
        while self.head < op:
            number = self.head + 1
            if number == 1:
                self.add(Operation.BOOTSTRAP_ROOT, BootstrapRoot(username="iggy", password_hash=HASH))
            elif number <= 1 + len(CLIENTS):
                self.add(Operation.REGISTER, client=CLIENTS[number - 2])
            elif number % 7 == 0:
                gone = Identifier(f"stream-{number - 1}-of-view-{self.view}")
                self.add(Operation.DELETE_STREAM, DeleteStream(stream=gone), client=self._client(), request=number)
            else:
                body = CreateStream(name=f"stream-{number}-of-view-{self.view}")
                self.add(Operation.CREATE_STREAM, body, client=self._client(), request=number)
        return self

    def _client(self) -> int:
        return CLIENTS[self.head % len(CLIENTS)]
