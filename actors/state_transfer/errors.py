"""What is wrong with a state that a peer sent (consensus specification 11)."""

from levrier.wire.errors import WireError


class ArtifactDamaged(WireError):
    """The bytes of an artifact are not those of the manifest, or are no state. Another fetch may bring better ones."""


class IncoherentManifest(WireError):
    """Whole and readable, but its frontiers contradict each other: nothing of it may be installed."""
