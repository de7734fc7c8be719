"""What a load of catalogue operations was promised, and what the catalogue may look like after a crash.

The load draws its operations from a seed, with names that are never used twice. An operation that was answered is in
`certain`; the one that was under way when the node died may or may not have happened: `possible` holds both outcomes.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

Catalogue = dict[str, tuple[str, ...]]
"""Stream name -> names of its topics. Ids are reused, so the order of a listing says nothing: see `in_order`."""


def in_order(catalogue: Catalogue) -> Catalogue:
    """The same with everything sorted; a name that stands twice still does."""
    return {name: tuple(sorted(catalogue[name])) for name in sorted(catalogue)}


class CatalogueClient(Protocol):
    """The part of an SDK client that the load uses."""

    def create_stream(self, name: str) -> Awaitable[None]: ...
    def update_stream(self, stream_id: str | int, name: str) -> Awaitable[None]: ...
    def delete_stream(self, stream_id: str | int) -> Awaitable[None]: ...
    def create_topic(self, stream: str | int, name: str, partitions_count: int) -> Awaitable[None]: ...
    def update_topic(self, stream_id: str | int, topic_id: str | int, name: str) -> Awaitable[None]: ...
    def delete_topic(self, stream_id: str | int, topic_id: str | int) -> Awaitable[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation: how to ask for it, and the catalogue once it is done."""

    ask: Callable[[CatalogueClient], Awaitable[None]]
    after: Catalogue


@dataclass
class Ledger:
    """The record of one load over any number of crashes."""

    random: Random
    certain: Catalogue = field(default_factory=dict)
    under_way: Catalogue | None = None
    acknowledged: int = 0
    _names: int = 0

    def possible(self) -> list[Catalogue]:
        """Every catalogue that keeps all promises."""
        return [self.certain] if self.under_way is None else [self.certain, self.under_way]

    def settle(self, found: Catalogue) -> None:
        """After a crash the catalogue is this one. AssertionError when that breaks a promise."""
        outcomes = [in_order(outcome) for outcome in self.possible()]
        assert in_order(found) in outcomes, f"{in_order(found)} is none of {outcomes}"
        self.certain, self.under_way = found, None

    async def advance(self, client: CatalogueClient) -> None:
        """Have one operation done. An error of the client leaves it under way."""
        step = self._draw()
        self.under_way = step.after
        await step.ask(client)
        self.certain, self.under_way = step.after, None
        self.acknowledged += 1

    def _fresh(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"

    def _draw(self) -> Step:
        streams = list(self.certain)
        kinds = [self._create_stream]
        if streams:
            kinds += [self._update_stream, self._create_topic, self._create_topic]
        if len(streams) > 3:
            kinds.append(self._delete_stream)
        if any(self.certain.values()):
            kinds += [self._update_topic, self._delete_topic]
        return self.random.choice(kinds)()

    def _create_stream(self) -> Step:
        name = self._fresh("stream")
        return Step(ask=lambda client: client.create_stream(name), after={**self.certain, name: ()})

    def _update_stream(self) -> Step:
        old, new = self.random.choice(list(self.certain)), self._fresh("stream")
        after = {new if name == old else name: topics for name, topics in self.certain.items()}
        return Step(ask=lambda client: client.update_stream(old, new), after=after)

    def _delete_stream(self) -> Step:
        gone = self.random.choice(list(self.certain))
        after = {name: topics for name, topics in self.certain.items() if name != gone}
        return Step(ask=lambda client: client.delete_stream(gone), after=after)

    def _create_topic(self) -> Step:
        stream, topic = self.random.choice(list(self.certain)), self._fresh("topic")
        after = {**self.certain, stream: (*self.certain[stream], topic)}
        return Step(ask=lambda client: client.create_topic(stream, topic, 1), after=after)

    def _update_topic(self) -> Step:
        stream, old, new = *self._some_topic(), self._fresh("topic")
        topics = tuple(new if topic == old else topic for topic in self.certain[stream])
        return Step(ask=lambda client: client.update_topic(stream, old, new), after={**self.certain, stream: topics})

    def _delete_topic(self) -> Step:
        stream, gone = self._some_topic()
        topics = tuple(topic for topic in self.certain[stream] if topic != gone)
        return Step(ask=lambda client: client.delete_topic(stream, gone), after={**self.certain, stream: topics})

    def _some_topic(self) -> tuple[str, str]:
        stream = self.random.choice([name for name, topics in self.certain.items() if topics])
        return stream, self.random.choice(self.certain[stream])
