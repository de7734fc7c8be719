"""The member-state actor: frames 65 in and out, the steps of the birth to the Superblock, what follows to its neighbours.

It decides nothing; `core` does. It runs beside Consensus, which is told when the birth is durable and when a learner votes,
and the Bus, which is told who is admitted, who is refused, and how fast to dial.
"""

from collections.abc import Callable
from typing import Any, Final

from loguru import logger

from levrier.actors.birth import core
from levrier.actors.birth import messages as birth
from levrier.actors.birth.core import TICK_MILLISECONDS, BirthCore, BirthEffect
from levrier.actors.birth.member_state import COMMAND, MemberPhase, decode
from levrier.actors.bus import messages as bus
from levrier.actors.checkpoint import messages as checkpoint
from levrier.actors.consensus import messages as consensus
from levrier.actors.runtime import Handlers, NodeActor, Recipient, Runtime, Timer
from levrier.actors.superblock import messages as superblock
from levrier.persistence.superblock import Phase
from levrier.wire.errors import WireError
from levrier.wire.replica_headers import ExtensionHeader

_PHASES: Final = {MemberPhase.PREPARED: Phase.PREPARED, MemberPhase.BORN: Phase.BORN}


class BirthActor(NodeActor):
    """One member of several. `cluster`, `group` and `replica` are stamped on its frames."""

    def __init__(
        self,
        *,
        name: str,
        runtime: Runtime,
        core: BirthCore,
        cluster: int,
        group: int,
        replica: int,
        replicas: Recipient[bus.ReplicaCommand],
        consensus: Recipient[consensus.Command],
        superblock: Recipient[superblock.Command],
        checkpoint: Recipient[checkpoint.Command],
    ) -> None:
        super().__init__(name=name, runtime=runtime)
        self._core = core
        self._cluster = cluster
        self._group = group
        self._replica = replica
        self._replicas = replicas
        self._consensus = consensus
        self._superblock = superblock
        self._checkpoint = checkpoint
        self._ticker: Timer | None = None
        self._log = logger.bind(actor=name, replica=replica)
        self._handlers = Handlers(birth.Command)
        self._handlers.on(bus.ReplicaFrame, self._on_frame)
        self._handlers.on(bus.PeerUp, self._on_peer_up)
        self._handlers.on(bus.PeerDown, self._on_peer_down)
        self._handlers.on(birth.BirthPersisted, self._on_persisted)
        self._handlers.on(birth.BirthPersistFailed, self._on_persist_failed)
        self._handlers.on(birth.Standing, self._on_standing)
        self._handlers.on(birth.Tick, self._on_tick)
        self._handlers.seal()
        self._executors = self._effects()

    def receive(self, message: object) -> None:
        """Handle one message."""
        self._handlers.dispatch(message)

    def on_start(self) -> None:
        """Begin to tick, and say what is waited for."""
        self._ticker = self.runtime.every(TICK_MILLISECONDS, self.address, birth.Tick())
        self._replicas.tell(bus.SetDialPace(hurried=self._core.own.phase is not MemberPhase.BORN))
        self._execute(self._core.on_start())

    def on_stop(self) -> None:
        """Tick no more."""
        if self._ticker is not None:
            self._ticker.cancel()

    def _on_frame(self, message: bus.ReplicaFrame) -> None:
        try:
            state = decode(message.body)
        except WireError as error:
            self._log.warning("a MemberState of replica {} is dropped: {}", message.sender, error)
            return
        self._execute(self._core.on_member_state(message.sender, state))

    def _on_peer_up(self, message: bus.PeerUp) -> None:
        self._execute(self._core.on_peer_up(message.replica))

    def _on_peer_down(self, message: bus.PeerDown) -> None:
        self._execute(self._core.on_peer_down(message.replica))

    def _on_persisted(self, message: birth.BirthPersisted) -> None:
        self._execute(self._core.on_persisted(message))

    def _on_persist_failed(self, message: birth.BirthPersistFailed) -> None:
        self._log.warning("the birth is not durable yet: {}", message.reason)
        self._execute(self._core.on_persist_failed())

    def _on_standing(self, message: birth.Standing) -> None:
        self._execute(self._core.on_standing(message))

    def _on_tick(self, _message: birth.Tick) -> None:
        self._execute(self._core.on_tick())

    # Effects.

    def _execute(self, effects: list[BirthEffect]) -> None:
        for effect in effects:
            self._executors[effect.__class__](effect)

    def _effects(self) -> dict[type, Callable[[Any], None]]:
        return {
            core.Send: self._send,
            core.Persist: self._persist,
            core.Begin: self._begin,
            core.BecomeVoter: self._become_voter,
            core.Admit: lambda effect: self._replicas.tell(bus.AdmitPeer(replica=effect.replica, voter=effect.voter)),
            core.Refuse: lambda effect: self._replicas.tell(bus.DropPeer(replica=effect.replica, reason=effect.reason)),
            core.WantStanding: lambda effect: self._consensus.tell(
                consensus.StandingWanted(token=effect.token, op=effect.op, checksum=effect.checksum)
            ),
            core.Abstaining: lambda effect: self._consensus.tell(consensus.AbstainersChanged(replicas=effect.replicas)),
            core.Waiting: self._explain,
        }

    def _send(self, effect: core.Send) -> None:
        header = ExtensionHeader(command=COMMAND, group=self._group, cluster=self._cluster, replica=self._replica)
        frame = header.encode(effect.body.encode())
        if effect.replica is None:
            self._replicas.tell(bus.Broadcast(frame=frame))
        else:
            self._replicas.tell(bus.SendToReplica(replica=effect.replica, frame=frame))

    def _persist(self, effect: core.Persist) -> None:
        self._superblock.tell(
            superblock.PersistBirth(birth_id=effect.birth_id, phase=_PHASES[effect.phase], voter=effect.voter)
        )

    def _begin(self, effect: core.Begin) -> None:
        self._log.info(
            "{} with birth id {:032x}", "born" if effect.voter else "joins a born cluster as a learner", effect.birth_id
        )
        self._checkpoint.tell(checkpoint.BirthKnown(birth_id=effect.birth_id))
        self._consensus.tell(consensus.Born(voter=effect.voter))
        self._replicas.tell(bus.SetDialPace(hurried=False))

    def _become_voter(self, _effect: core.BecomeVoter) -> None:
        self._log.info("has learned what it had lost: a voter again")
        self._consensus.tell(consensus.VoterChanged(voter=True))

    def _explain(self, effect: core.Waiting) -> None:
        if effect.text:
            self._log.info("{}", effect.text)
        self._replicas.tell(bus.MembershipNote(waiting=effect.text))
