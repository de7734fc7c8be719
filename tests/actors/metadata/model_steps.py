"""Random operations of every kind, as steps for the reference model and as entries of a log.

A step is made of one small number and of the state of the model: the number decides everything, so a failing list of numbers is
shrunk by leaving some out. Names and ids are few, so that operations meet each other.
"""

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from levrier.cluster.simulate.checkers.model import rights as rules
from levrier.cluster.simulate.checkers.model.layout import block, permissions
from levrier.cluster.simulate.checkers.model.machine import Key, Model, Step
from levrier.cluster.simulate.checkers.model.options import Block
from levrier.cluster.simulate.checkers.model.rights import Rights, StreamRights
from levrier.wire.body import Body
from levrier.wire.headers import PrepareHeader
from levrier.wire.identifiers import Identifier
from levrier.wire.options import decode_block
from levrier.wire.permissions import Permissions
from levrier.wire.requests.groups import CreateConsumerGroup, DeleteConsumerGroup
from levrier.wire.requests.partitions import CreatePartitions, DeletePartitions
from levrier.wire.requests.replicated import (
    BootstrapRoot,
    CompleteConsumerGroupRevocation,
    CreatePartitionsWithAssignments,
    CreatePersonalAccessTokenReplicated,
    CreateTopicWithAssignments,
    DeletePersonalAccessTokenReplicated,
    JoinConsumerGroupReplicated,
    LeaveConsumerGroupReplicated,
    RemoveConsumerGroupMember,
    TruncatePartition,
)
from levrier.wire.requests.streams import CreateStream, DeleteStream, PurgeStream, UpdateStream
from levrier.wire.requests.topics import CreateTopic, DeleteTopic, PurgeTopic, UpdateTopic
from levrier.wire.requests.users import ChangePassword, CreateUser, DeleteUser, UpdatePermissions, UpdateUser
from levrier.wire.topic_options import admit_create

NUMBERS = 2**24
"""A step is made of a number below this."""

NAMES = ["a", "b", "c", "0"]
KEYS: tuple[Key, ...] = (*NAMES, 0, 1, 2)
USERNAMES = ["iggy", "ann", "bob", "\u00e9\u00e9", "\u00e9", "x" * 50, "x" * 51]
CLIENTS = [1, 2, 3, 1 << 127]
NO_OPTIONS: Block = ()
UINT64, STRING, UINT8 = 12, 2, 9
DERIVED: Block = tuple(
    (each.key, each.kind, each.value) for each in decode_block(admit_create(b"", partitions_count=0).derived)
)


def _uint64(value: int) -> bytes:
    return value.to_bytes(8, "little")


ENTRIES: list[tuple[str, int, bytes]] = [
    ("message_expiry", UINT64, _uint64(5_000_000)),
    ("message_expiry", UINT64, _uint64(0)),
    ("message_expiry", STRING, b"2s"),
    ("message_expiry", STRING, b"soon"),
    ("message_expiry", UINT64, b"\x01"),
    ("max_topic_size", UINT64, _uint64(10 << 30)),
    ("max_topic_size", UINT64, _uint64(0)),
    ("max_topic_size", STRING, b"unlimited"),
    ("compression_algorithm", STRING, b"GZIP"),
    ("compression_algorithm", UINT8, b"\x02"),
    ("compression_algorithm", STRING, b"lzma"),
    ("segment_size", UINT64, _uint64(1 << 20)),
    ("flavour", STRING, b"lemon"),
    ("flavour", 99, b"from a later version"),
]
"""One of them fails its block."""


class Dice:
    """Choices that follow from one number."""

    def __init__(self, number: int, model: Model) -> None:
        self.random = random.Random(number)
        self.model = model

    def __call__(self, *options: Any) -> Any:
        return options[int(self.random.random() * len(options))]

    def often(self, usual: Any, *rare: Any) -> Any:
        """The first in three of four cases."""
        return usual if self.random.random() < 0.75 else self(*rare)

    def key(self) -> Key:
        key: Key = self(*KEYS)
        return key

    def options(self) -> Block:
        if self.random.random() < 0.6:
            return NO_OPTIONS
        chosen = {entry[0]: entry for entry in self.random.choices(ENTRIES, k=2)}
        return tuple(chosen.values())

    def user(self) -> Key:
        user: Key = self(*USERNAMES, 0, 1, 2, 3, *self.model.users)
        return user

    def rights(self) -> Rights | None:
        if self.random.random() < 0.2:
            return None
        streams = {stream: self.stream_rights() for stream in (0, 1) if self.random.random() < 0.5}
        return Rights(self.some(rules.GLOBAL, 0.12), streams)

    def stream_rights(self) -> StreamRights:
        topics = {topic: self.some(rules.TOPIC, 0.4) for topic in (0, 1) if self.random.random() < 0.5}
        return StreamRights(self.some(rules.STREAM, 0.2), topics)

    def some(self, flags: list[str], chance: float) -> set[str]:
        return {flag for flag in flags if self.random.random() < chance}

    def place(self) -> dict[str, Key]:
        """A topic: mostly the one that is most often there."""
        return {"stream": self.often(0, *KEYS), "topic": self.often(0, *KEYS)}

    def assignments(self) -> tuple[tuple[int, int], ...]:
        """Mostly as a primary counts, with consensus groups above all earlier ones."""
        usual: tuple[int, ...] = tuple(range(self(0, 1, 2, 3, 6, 7)))
        ids: tuple[int, ...] = self.often(usual, (0, 0), (1_000_000,), (999_999,), (2**32 - 1, 1), (7, 2))
        return tuple((number, self.model.group_high + 1 + index) for index, number in enumerate(ids))


Maker = Callable[[Dice, int], dict[str, Any]]
"""The arguments of an operation; the number is the op, for what must be unique."""


def _nothing(_dice: Dice, _op: int) -> dict[str, Any]:
    return {}


def _another_root(_dice: Dice, _op: int) -> dict[str, Any]:
    return {"name": "iggy", "hash": "hash of another"}


def _token(dice: Dice, op: int) -> dict[str, Any]:
    owner = dice(*dice.model.users, 1, 2, 3)
    return {"owner": owner, "name": dice("t", "u", "v"), "hash": f"{op:064x}"}


def _pending(model: Model) -> list[dict[str, Any]]:
    """The completion of every revocation that waits for one."""
    return [
        {"stream": stream.id, "topic": topic.id, "group_id": group.id, "source": member.client, "partition": number}
        for stream in model.streams.values()
        for topic in stream.topics.values()
        for group in topic.groups.values()
        for member in group.members.values()
        for number in member.leaving
    ]


def _completion(dice: Dice, _: int) -> dict[str, Any]:
    """Mostly of a revocation that is pending."""
    pending = _pending(dice.model)
    stray = {**dice.place(), "group_id": dice(0, 1), "source": dice(*CLIENTS), "partition": dice(0, 1, 2)}
    made: dict[str, Any] = dice.often(pending[int(dice.random.random() * len(pending))], stray) if pending else stray
    return made


def _group(dice: Dice, _: int) -> dict[str, Any]:
    return {**dice.place(), "group": dice.often(0, *KEYS)}


def _member(dice: Dice, _: int) -> dict[str, Any]:
    """Mostly into a group that is still busy with an earlier newcomer, where there is one."""
    pending = _pending(dice.model)
    if pending and dice.random.random() < 0.8:
        at = pending[int(dice.random.random() * len(pending))]
        target = {"stream": at["stream"], "topic": at["topic"], "group": at["group_id"]}
        return {**target, "client": dice(*CLIENTS), "in_flight": tuple(range(8))}
    chance = dice(0.3, 0.7, 1.0)
    in_flight = tuple(number for number in range(8) if dice.random.random() < chance)
    return {**_group(dice, 0), "client": dice(*CLIENTS), "in_flight": in_flight}


def _leaver(dice: Dice, _: int) -> dict[str, Any]:
    return {**_group(dice, 0), "client": dice(*CLIENTS)}


MAKERS: dict[int, tuple[int, Maker]] = {
    1: (1, _nothing),
    3: (2, _nothing),
    64: (
        9,
        lambda dice, _: {
            "stream": dice.often(0, *KEYS),
            "name": dice(*NAMES),
            "options": dice.options(),
            "derived": dice(DERIVED, DERIVED, NO_OPTIONS),
            "assignments": dice.assignments(),
        },
    ),
    65: (4, lambda dice, _: {**dice.place(), "assignments": dice.assignments()}),
    66: (1, lambda dice, _: {"client": dice(*CLIENTS)}),
    67: (4, _completion),
    68: (2, lambda dice, _: {**dice.place(), "partition": dice(0, 1, 9), "offset": dice(0, 7, 2**64 - 1)}),
    69: (1, _another_root),
    128: (5, lambda dice, _: {"name": dice(*NAMES), "options": dice.options()}),
    129: (3, lambda dice, _: {"stream": dice.key(), "name": dice(*NAMES), "options": dice.options()}),
    130: (1, lambda dice, _: {"stream": dice.key()}),
    131: (1, lambda dice, _: {"stream": dice.key()}),
    133: (5, lambda dice, _: {**dice.place(), "name": dice(*NAMES), "options": dice.options()}),
    134: (1, lambda dice, _: dice.place()),
    135: (1, lambda dice, _: dice.place()),
    137: (2, lambda dice, _: {**dice.place(), "count": dice(0, 1, 1, 2, 9)}),
    139: (6, lambda dice, _: {**dice.place(), "name": dice(*NAMES)}),
    140: (1, _group),
    141: (
        6,
        lambda dice, op: {
            "name": dice(*USERNAMES),
            "hash": f"hash of {op}",
            "status": dice(1, 1, 2, 7),
            "rights": dice.rights(),
            "options": dice.options(),
        },
    ),
    142: (
        4,
        lambda dice, _: {
            "target": dice.user(),
            "name": dice(None, *USERNAMES),
            "status": dice(None, 1, 2, 7),
            "options": dice.options(),
        },
    ),
    143: (2, lambda dice, _: {"target": dice.user()}),
    144: (3, lambda dice, op: {"target": dice.user(), "hash": dice(f"hash of {op}", "")}),
    145: (4, lambda dice, _: {"target": dice.user(), "rights": dice.rights()}),
    146: (5, lambda dice, op: {**_token(dice, op), "expiry": dice(0, 2**64 - 1, 1, 40, 400, 2**64 - 2)}),
    147: (3, lambda dice, op: {**_token(dice, op), "only_if_expired": dice(False, True)}),
    148: (12, _member),
    149: (4, _leaver),
}
"""Weight and arguments of each operation. Those of users are more than they succeed: most callers have no rights."""

OPERATIONS = [operation for operation, (weight, _) in MAKERS.items() for _ in range(weight)]
_BY_NODE = {66, 67, 69}


def first_step() -> Step:
    """The root user, with whom every log begins (D-01)."""
    return Step(69, 0, 0, 1_000, {"name": "iggy", "hash": "hash of root"})


def make_step(number: int, op: int, model: Model, *, time: int) -> Step:
    """The step that follows from this number here; the same at every run."""
    dice = Dice(number, model)
    operation = dice(*OPERATIONS)
    if _pending(model):
        operation = dice(67, 148, operation, operation, operation)
    caller = 0 if operation in _BY_NODE else dice(0, 0, 0, *model.users, *model.users, model.next_user + 1)
    if operation in {146, 147} and caller and dice.random.random() < 0.8:
        args = {**MAKERS[operation][1](dice, op), "owner": caller}
    else:
        args = MAKERS[operation][1](dice, op)
    client = args.get("client", dice(*CLIENTS))
    return Step(operation, caller, client, _moment(dice, args, time), args)


def _moment(dice: Dice, args: dict[str, Any], time: int) -> int:
    """A little later; where a token is to go once it has expired, at times in the very microsecond, or just before."""
    usual: int = time + dice(1, 3, 30)
    owner = dice.model.users.get(args.get("owner", -1))
    if not args.get("only_if_expired") or owner is None:
        return usual
    _, expires_at = owner.tokens.get(args["name"], ("", None))
    if expires_at is None or not time + 1 < expires_at < time + 1_000:
        return usual
    moment: int = dice(expires_at, expires_at - 1, usual)
    return moment


# Entries of a log


def entry(step: Step, op: int) -> tuple[PrepareHeader, bytes]:
    """What a replica gets to apply."""
    header = PrepareHeader(op, step.operation, client=step.client, user_id=step.user, timestamp=step.time, request=op)
    body = BODIES.get(step.operation)
    return header, b"" if body is None else body(**_on_wire(step.args)).encode()


def _on_wire(args: dict[str, Any]) -> dict[str, Any]:
    wired = dict(args)
    for name in ("stream", "topic", "group", "target"):
        if name in wired:
            wired[name] = Identifier(wired[name])
    for name in ("options", "derived"):
        if name in wired:
            wired[name] = block(wired[name])
    if wired.get("rights") is not None:
        wired["rights"] = Permissions.decode(permissions(wired["rights"]))
    return wired


def _place(args: dict[str, Any]) -> dict[str, Any]:
    return {name: args[name] for name in ("stream", "topic") if name in args}


BODIES: dict[int, Callable[..., Body]] = {
    64: lambda stream, name, options, derived, assignments: CreateTopicWithAssignments(
        request=CreateTopic(stream=stream, partitions_count=len(assignments), name=name, options=options),
        derived_options=derived,
        assignments=assignments,
        created_view=0,
    ),
    65: lambda assignments, **place: CreatePartitionsWithAssignments(
        request=CreatePartitions(partitions_count=len(assignments), **place),
        assignments=assignments,
        created_view=0,
    ),
    66: lambda client: RemoveConsumerGroupMember(client=client),
    67: lambda source, partition, **at: CompleteConsumerGroupRevocation(
        source_client=source, partition_id=partition, **at
    ),
    68: lambda partition, offset, **place: TruncatePartition(partition_id=partition, up_to_offset=offset, **place),
    69: lambda name, hash: BootstrapRoot(username=name, password_hash=hash),  # noqa: A006
    128: CreateStream,
    129: UpdateStream,
    130: DeleteStream,
    131: PurgeStream,
    133: UpdateTopic,
    134: DeleteTopic,
    135: PurgeTopic,
    137: lambda count, **place: DeletePartitions(partitions_count=count, **place),
    139: CreateConsumerGroup,
    140: DeleteConsumerGroup,
    141: lambda name, hash, status, rights, options: CreateUser(  # noqa: A006
        username=name, password=hash, status=status, permissions=rights, options=options
    ),
    142: lambda target, name, status, options: UpdateUser(user=target, username=name, status=status, options=options),
    143: lambda target: DeleteUser(user=target),
    144: lambda target, hash: ChangePassword(user=target, current_password="", new_password=hash),  # noqa: A006
    145: lambda target, rights: UpdatePermissions(user=target, permissions=rights),
    146: lambda owner, name, hash, expiry: CreatePersonalAccessTokenReplicated(  # noqa: A006
        user_id=owner, name=name, expiry=expiry, token_hash=hash
    ),
    147: lambda owner, name, only_if_expired, **_: DeletePersonalAccessTokenReplicated(
        user_id=owner, name=name, only_if_expired=only_if_expired
    ),
    148: JoinConsumerGroupReplicated,
    149: LeaveConsumerGroupReplicated,
}


def for_model(step: Step) -> Step:
    """The step with arguments of its own: the model keeps what it is given."""
    return Step(step.operation, step.user, step.client, step.time, deepcopy(step.args))
