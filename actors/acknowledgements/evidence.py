"""What the statements of all replicas permit (acknowledgements 3). Pure.

Unknown means required: a replica that some membership names and that has said nothing blocks. Silence is never permission,
and no time passes here: a stale statement says what it says, however old.
"""

from collections.abc import Mapping, Sequence

from levrier.actors.acknowledgements.messages import Blocked, Evidence, SafeThrough
from levrier.wire.acknowledgement import Acknowledgement, least


def required_union(local_required: Sequence[str], latest: Mapping[str, Acknowledgement]) -> tuple[str, ...]:
    """Every replica of this node's membership and of every membership it was told of, ascending."""
    named = {each for acknowledgement in latest.values() for each in acknowledgement.membership_view}
    return tuple(sorted(named.union(local_required)))


def evidence(local_required: Sequence[str], acknowledgements: Sequence[Acknowledgement]) -> Evidence:
    """What may be reclaimed, given the latest durable statement of each replica."""
    latest = {each.replica_id: each for each in acknowledgements}
    required = required_union(local_required, latest)
    if not required:
        return Blocked(waiting_on=())  # Nothing established is not the same as being alone.
    missing = tuple([each for each in required if each not in latest])
    if missing:
        return Blocked(waiting_on=missing)
    return SafeThrough(frontier=least([latest[each].applied_frontier for each in required]), covered=required)
