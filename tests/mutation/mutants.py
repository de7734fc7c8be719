"""The rules that are broken on purpose, one mutant each: which rule, where, and how.

`before` stands exactly once in the file and is replaced by `after`. `cases` are the tests that are about the rule: they are
asked first, the simulator second. A rule of design section 3 is named by its number there.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One rule, broken in one place. `file` is a path from the root; `cases` are pytest targets."""

    name: str
    rule: str
    file: str
    before: str
    after: str
    cases: tuple[str, ...]


_CONSENSUS: Final = "tests/actors/consensus"

OF_THE_ELEVEN_RULES: Final = (
    Mutant(
        name="overtaking-messages",
        rule="1: FIFO per pair",
        file="actors/runtime/stepped.py",
        before="slot, message = lane.entries.popleft()",
        after="slot, message = lane.entries.pop()",
        cases=("tests/actors/runtime",),
    ),
    Mutant(
        name="walk-from-applied",
        rule="2: walks start at apply_sent + 1",
        file="actors/consensus/commits.py",
        before="    op = state.apply_sent\n    if op >= state.commit_max",
        after="    op = state.commit_min\n    if op >= state.commit_max",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="leave-pipeline-early",
        rule="3: an op stays in the pipeline until Applied",
        file="actors/consensus/commits.py",
        before="            effects.append(Apply(entry.prepare, entry.reply_to))\n",
        after="            effects.append(Apply(entry.prepare, entry.reply_to))\n            pipeline.pop_head()\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="admit-in-flight",
        rule="4: nobody is admitted twice at a time",
        file="actors/consensus/admission.py",
        before="        header.client in state.pipeline.clients\n        or state.commit_min < state.admission_barrier",
        after="        state.commit_min < state.admission_barrier",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="promote-unasked",
        rule="5: promotion asks again",
        file="actors/consensus/admission.py",
        before="        state.effects.append(Recheck(entry.token, entry.request))\n",
        after=(
            "        pipeline.take_reserved(entry.token)\n"
            "        push_request(state, entry.request, entry.request.user_id)\n"
        ),
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="58-of-a-prepared-one",
        rule="6: 58 means never started",
        file="actors/consensus/view_change.py",
        before="            state.unsettled[header.client, header.request] = Unsettled(header.op, header.checksum)\n"
        "        deny(state, entry.reply_to, NOT_COMMITTED)",
        after="            pass\n        deny(state, entry.reply_to, 58)",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="secret-of-another-try",
        rule="7: a secret is spliced only into the reply of its own hash",
        file="actors/bus/gateway.py",
        before="        elif answer.body_checksum != minted.body_checksum:",
        after="        elif answer.body_checksum == -1:",
        cases=("tests/actors/bus",),
    ),
    Mutant(
        name="vote-with-appends-under-way",
        rule="8: no suffix is sent while an append is outstanding",
        file="actors/consensus/view_change.py",
        before="        if state.mirror.outstanding_count or state.truncation is not None:\n            return\n",
        after="        if state.truncation is not None:\n            return\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="append-behind-a-failure",
        rule="8: behind a failed append everything is refused until a truncation",
        file="actors/journal/actor.py",
        before="        if self._refused_from is not None:\n            self._tell_failed(batch",
        after="        if self._refused_from == -1:\n            self._tell_failed(batch",
        cases=("tests/actors/journal", "tests/persistence"),
    ),
    Mutant(
        name="start-without-pipeline",
        rule="9: a view is started with its pipeline rebuilt",
        file="actors/consensus/start_view.py",
        before="    _rebuild_pipeline(state, bodies)\n    settle_excluded",
        after="    settle_excluded",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="push-without-a-slot",
        rule="10: no free slot is no failure",
        file="actors/consensus/projection.py",
        before="    return distance < state.config.journal_slots",
        after="    return distance < state.config.journal_slots * 2",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="apply-unverified",
        rule="11: only verified entries are applied",
        file="actors/consensus/commits.py",
        before="    if header is None or not mirror.is_durable(op) or op in state.unverified:",
        after="    if header is None or not mirror.is_durable(op):",
        cases=(_CONSENSUS,),
    ),
)

BEYOND: Final = (
    Mutant(
        name="skip-the-gate",
        rule="D-11: nothing that carries a view leaves before it is durable",
        file="actors/consensus/gate.py",
        before="    _persist(state)\n    return False\n\n\ndef may_append_unproven",
        after="    _persist(state)\n    return True\n\n\ndef may_append_unproven",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="acknowledge-before-fsync",
        rule="durable before acknowledged",
        file="persistence/journal.py",
        before='        file.write(start, b"".join(parts))\n        file.datasync()\n',
        after='        file.write(start, b"".join(parts))\n',
        cases=("tests/persistence", "tests/actors/journal"),
    ),
    Mutant(
        name="merge-by-highest-op",
        rule="8.5: the newest log is canonical, not the longest",
        file="actors/consensus/merge.py",
        before="    log_view = max(vote.log_view for vote in votes)\n    commit_max = commit_point(votes)",
        after="    log_view = max(votes, key=lambda vote: vote.op).log_view\n    commit_max = commit_point(votes)",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="drop-the-fence",
        rule="client-table 6: an evicted session leaves a fence",
        file="actors/client_table/table.py",
        before="        self._fences.remember(fence_of(victim))\n",
        after="",
        cases=("tests/actors/client_table",),
    ),
    Mutant(
        name="drain-the-commit-point",
        rule="persistence 5: the entry at the checkpoint stays",
        file="actors/checkpoint/core.py",
        before="        return DrainLog(up_to=op - 1)",
        after="        return DrainLog(up_to=op)",
        cases=("tests/actors/checkpoint",),
    ),
    Mutant(
        name="trust-the-wire-user",
        rule="the acting user is the one of the session",
        file="actors/client_table/actor.py",
        before="            user_id = table.user_of(client)\n",
        after="            user_id = header.user_id\n",
        cases=("tests/actors/client_table",),
    ),
    Mutant(
        name="apply-from-a-stale-suffix",
        rule="D-16: a new view proves nothing that it does not name",
        file="actors/consensus/start_view.py",
        before="        state.heartbeat_timestamp = 0\n        distrust(state)\n",
        after="        state.heartbeat_timestamp = 0\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="commit-over-a-gap",
        rule="5.7: commit_max rises over ops in a row only",
        file="actors/consensus/acks.py",
        before="        if entry is None or not entry.quorum_reached:\n            break\n        op += 1\n",
        after="        if entry is None:\n            break\n        op += 1\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="reuse-a-nonce",
        rule="13: a number that was not used before",
        file="actors/consensus/state.py",
        before="        self.next_nonce = self.next_nonce + 1 & (1 << 64) - 1 or 1\n",
        after="",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="skip-the-barrier",
        rule="4: nobody is admitted before what was inherited is applied",
        file="actors/consensus/start_view.py",
        before="    state.admission_barrier = head\n",
        after="    state.admission_barrier = 0\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="install-before-its-file",
        rule="11 and D-26: the snapshot is durable before it is installed",
        file="actors/consensus/transfer.py",
        before="        state.effects.append(TellTransfer(PlaceSnapshot(attempt=transfer.attempt)))\n",
        after="        _send_marker(state, transfer.ready)\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="run-a-replay",
        rule="a request is executed once",
        file="actors/client_table/table.py",
        before="        if request > watermark:\n            return _NEW\n",
        after="        if request >= watermark:\n            return _NEW\n",
        cases=("tests/actors/client_table",),
    ),
    Mutant(
        name="count-any-acknowledgement",
        rule="I6: acknowledged is an entry, not a number",
        file="actors/consensus/acks.py",
        before=" or entry.prepare.header.checksum != header.prepare_checksum",
        after="",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="acknowledge-unverified",
        rule="D-16: only what is proven is acknowledged",
        file="actors/consensus/acks.py",
        before="(op in state.unverified or not state.mirror.holds(op, header.checksum))",
        after="not state.mirror.holds(op, header.checksum)",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="nack-what-is-held",
        rule="D-16: silence about an unproven entry, never a denial",
        file="actors/consensus/suffix.py",
        before="            if denies and slot > commit and slot not in silent:",
        after="            if denies and slot > commit:",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="one-acknowledgement-too-few",
        rule="2.1: quorums intersect",
        file="actors/consensus/quorum.py",
        before="        replication = min((replica_count + 1) // 2, QUORUM_REPLICATION_MAX)\n        view_change = replica_count - replication + 1",
        after="        replication = min((replica_count + 1) // 2, QUORUM_REPLICATION_MAX)\n        view_change = replica_count - replication",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="heartbeat-with-a-silent-disk",
        rule="D-15: a primary heartbeats only while its disk makes progress",
        file="actors/consensus/gate.py",
        before="    return since is not None and state.ticks - since > state.config.silence_ticks",
        after="    return since is not None and state.ticks - since < 0",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="older-snapshot-over-newer",
        rule="D-26: the op of the snapshot file never decreases",
        file="actors/checkpoint/core.py",
        before="        if op < self._file_op:\n            return ReportFailed",
        after="        if op < 0:\n            return ReportFailed",
        cases=("tests/actors/checkpoint",),
    ),
    Mutant(
        name="blank-member-votes",
        rule="D-09: a blank member never votes in a cluster that was born",
        file="actors/consensus/view_change.py",
        before="    if not state.voter or state.status is Status.RECOVERING or view < state.view:",
        after="    if state.status is Status.RECOVERING or view < state.view:",
        cases=(_CONSENSUS, "tests/cluster/test_cluster_steps.py"),
    ),
    Mutant(
        name="keep-back-for-ever",
        rule="5.5 as it is here: what is kept back is handed on by the tick",
        file="actors/consensus/ticks.py",
        before="    spare_forwards.pass_tick(state)\n",
        after="",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="hand-on-before-the-disk",
        rule="5.5: only what is durable here is handed on",
        file="actors/consensus/backup.py",
        before="    note_feed(state, op, sender)\n",
        after="    note_feed(state, op, sender)\n    forward(state, prepare)\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="keep-the-word-for-ever",
        rule="5.6 as it is here: a word that was kept back is given where nothing else commits its entry",
        file="actors/consensus/ticks.py",
        before="    spare_acks.pass_tick(state)\n",
        after="",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="keep-back-a-word-that-is-needed",
        rule="5.6 as it is here: whoever the quorum needs acknowledges at once",
        file="actors/consensus/spare_acks.py",
        before=" or before < state.quorums.replication:",
        after=":",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="hand-on-in-a-view-that-is-over",
        rule="5.5: a kept entry goes on in its own view only",
        file="actors/consensus/view_change.py",
        before="    spare_forwards.forget(state)\n",
        after="",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="deny-what-the-disk-lost",
        rule="D-24: what a cut disk lost, and a view named again, is not denied",
        file="actors/consensus/view_change.py",
        before="        adopted={each: named for each, named in state.adopted.items() if each <= op and each not in lost},\n",
        after="        adopted={each: named for each, named in state.adopted.items() if each <= op},\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="keep-silent-of-what-was-never-promised",
        rule="8.3 as it is here: what was acknowledged by nobody here is denied",
        file="actors/consensus/view_change.py",
        before="    denied = unpromised.denied(state)\n",
        after="    denied: set[int] = set()\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="elect-while-fetching",
        rule="3 as it is here: whoever fetches a state does not elect",
        file="actors/consensus/heartbeat.py",
        before="    if state.transfer_stage in {TransferStage.FETCHING, TransferStage.INSTALLING}:\n",
        after="    if state.ticks < 0:\n",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="keep-clients-waiting-for-a-quorum",
        rule="rule 6: nobody waits without an answer for a quorum that stays away",
        file="actors/consensus/heartbeat.py",
        before="        deny_waiting(state)\n",
        after="",
        cases=(_CONSENSUS,),
    ),
    Mutant(
        name="write-back-what-was-not-verified",
        rule="2.6: a boot writes nothing that it has not verified",
        file="persistence/journal.py",
        before="read_unproven(file, found, path=self._path))",
        after="file.read(found.durable_offset, found.end - found.durable_offset))",
        cases=("tests/persistence/test_journal_damage.py",),
    ),
)

MUTANTS: Final = OF_THE_ELEVEN_RULES + BEYOND
