"""What waits for one plugin: bounded, in the order in which a plugin needs it.

Roles and ticks are joined, commits beyond the bound are dropped and a look at the whole state is owed instead, outcomes and
answers are bounded by what the plugin may have under way. One delivery is out at a time.
"""

from collections import deque

from levrier.actors.plugins.limits import NOTICES_AT_ONCE_MAX, NOTICES_MAX, NOTICES_SIZE_MAX
from levrier.actors.plugins.messages import (
    Answered,
    CommitNotice,
    Committed,
    Event,
    Resync,
    RoleChanged,
    Settled,
    Started,
    Ticked,
)


class PluginQueue:
    """What one life of one plugin is still to be told."""

    __slots__ = ("_answers", "_notices", "_notices_size", "_resync", "_role", "_start", "_tick", "dropped")

    def __init__(self) -> None:
        self.dropped = 0
        """Commits that were dropped, ever."""
        self._notices: deque[CommitNotice] = deque()
        self._answers: deque[Settled | Answered] = deque()
        self._role: RoleChanged | None = None
        self._forget()

    def restart(self, role: RoleChanged | None) -> None:
        """A new life begins: it starts, looks at the whole state and is told the role."""
        self._forget()
        self._start = self._resync = True
        self._role = role

    def clear(self) -> None:
        """The life ended: nothing more is told until the next one starts."""
        self._forget()

    def put_role(self, role: RoleChanged) -> None:
        """The role changed; only the latest one is told."""
        self._role = role

    def put_tick(self) -> None:
        """The interval has passed."""
        self._tick = True

    def put_resync(self) -> None:
        """Commits may have been missed."""
        self._drop_notices()
        self._resync = True

    def put_notice(self, notice: CommitNotice) -> None:
        """A commit. With too many waiting all are dropped: whoever looks at the whole state needs none of them."""
        if len(self._notices) >= NOTICES_MAX or self._notices_size + len(notice.body) > NOTICES_SIZE_MAX:
            self.dropped += 1
            self.put_resync()
            return
        self._notices.append(notice)
        self._notices_size += len(notice.body)

    def put_answer(self, answer: Settled | Answered) -> None:
        """An outcome or an answer; the plugin may not have more under way than is bounded elsewhere."""
        self._answers.append(answer)

    def has_any(self, *, is_syncing: bool) -> bool:
        """Whether something may be told now."""
        now = self._start or self._resync or self._tick or self._role is not None or bool(self._answers)
        return now or (bool(self._notices) and not is_syncing)

    def take(self, *, is_syncing: bool) -> tuple[Event, ...]:
        """What is to be told next, and no more of it than a plugin handles in one go.

        While the plugin looks at the whole state it is told of no commits, and of none together with the request to look:
        causes that it had missed come before those that it was told of.
        """
        events: list[Event] = []
        if self._start:
            self._start = False
            events.append(Started())
        if self._role is not None:
            events.append(self._role)
            self._role = None
        while self._answers:
            events.append(self._answers.popleft())
        if self._resync:
            self._resync = False
            events.append(Resync())
        elif self._notices and not is_syncing:
            count = min(len(self._notices), NOTICES_AT_ONCE_MAX)
            notices = tuple([self._notices.popleft() for _ in range(count)])
            self._notices_size -= sum(len(notice.body) for notice in notices)
            events.append(Committed(notices=notices))
        if self._tick:
            self._tick = False
            events.append(Ticked())
        return tuple(events)

    def _drop_notices(self) -> None:
        self.dropped += len(self._notices)
        self._notices.clear()
        self._notices_size = 0

    def _forget(self) -> None:
        self._notices.clear()
        self._notices_size = 0
        self._answers.clear()
        self._role = None
        self._start = self._resync = self._tick = False
