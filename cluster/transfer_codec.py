"""How StateTransfer reads and judges the parts of a state: the layouts belong to Metadata and the ClientTable."""

from typing import Final

from levrier.actors.client_table import snapshot as table_section
from levrier.actors.client_table import transfer
from levrier.actors.client_table.entries import SLOT_COUNT_MAX
from levrier.actors.metadata.machine import MetadataMachine
from levrier.actors.metadata.restore import SnapshotInvalid
from levrier.persistence.snapshot import Snapshot
from levrier.wire.errors import WireError

_SLOTS_MIN: Final = SLOT_COUNT_MAX
"""Room for whatever a table may hold: one of few slots would drop the fences of sessions that are gone."""


class MetadataStateCodec:
    """Implements `levrier.actors.state_transfer.ports.StateCodec` for the metadata group."""

    def table_artifact(self, section: object) -> bytes:
        """The client-table section of a snapshot in its transfer encoding. Raises `WireError`."""
        return transfer.encode(table_section.restore(section, _SLOTS_MIN).capture())

    def check(self, snapshot: Snapshot, table: bytes) -> None:
        """Raise `WireError` unless state machine, stored table and received table could all be installed."""
        try:
            MetadataMachine.restore(
                users=snapshot.users,
                streams=snapshot.streams,
                consensus_group_high=snapshot.fields.consensus_group_high_water,
                next_user_id=snapshot.fields.next_user_id,
                frontier=snapshot.fields.acknowledgement_frontier,
                high_water=snapshot.fields.acknowledgement_high_water,
            )
        except SnapshotInvalid as error:
            raise WireError(str(error), "snapshot") from error
        table_section.restore(snapshot.client_table, _SLOTS_MIN)
        transfer.decode(table, _SLOTS_MIN)
