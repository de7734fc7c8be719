"""Options in the reference model (state-machine 9): blocks as lists, stored maps as dicts, the three typed keys by hand."""

Block = tuple[tuple[str, int, bytes], ...]
"""Key, kind of the value, value: as a client or a primary wrote them."""

Options = dict[str, tuple[int, bytes, bool]]
"""Key to kind, value, and whether a client named it."""

SIZES = {3: 1, 4: 1, 5: 2, 6: 4, 7: 8, 8: 16, 9: 1, 10: 2, 11: 4, 12: 8, 13: 16, 14: 4, 15: 8}
COMPRESSIONS = {"none": 1, "gzip": 2}


class Refused(Exception):
    """The block fails as a whole."""

    code = 4042


def lenient(block: Block) -> Block:
    """What of a committed block counts (9.5): unknown kinds are dropped, a value of a wrong size fails it all."""
    for _, kind, value in block:
        if kind in SIZES and len(value) != SIZES[kind]:
            raise Refused
    return tuple(entry for entry in block if entry[1] <= 15)


def patched(options: Options, block: Block) -> Options:
    """The stored map with a block laid over it, as sent."""
    return options | {key: (kind, value, True) for key, kind, value in lenient(block)}


def typed(block: Block) -> dict[str, int]:
    """The typed view (9.2): the sentinel 0 and what cannot be read are absent. Only what the generator makes is known here."""
    view = {}
    for key, kind, value in block:
        if kind == 12 and key in {"message_expiry", "max_topic_size", "segment_size"}:
            view[key] = int.from_bytes(value, "little")
        elif key == "message_expiry" and (kind, value) == (2, b"2s"):
            view[key] = 2_000_000
        elif key == "max_topic_size" and (kind, value) == (2, b"unlimited"):
            view[key] = 2**64 - 1
        elif key == "compression_algorithm" and kind == 9 and value[0] in {1, 2}:
            view[key] = value[0]
        elif key == "compression_algorithm" and kind == 2 and value.decode().lower() in COMPRESSIONS:
            view[key] = COMPRESSIONS[value.decode().lower()]
    return {key: value for key, value in view.items() if value}


def created_options(explicit: Block, derived: Block) -> tuple[Options, dict[str, int]]:
    """What a new topic has (9.4): explicit over derived, typed values in their canonical form under their own flag."""
    explicit, derived = lenient(explicit), lenient(derived)
    view = typed(derived) | typed(explicit)
    options = {key: (kind, value, False) for key, kind, value in derived}
    options |= {key: (kind, value, True) for key, kind, value in explicit}
    for key, value in view.items():
        options[key] = (*canonical(key, value), options[key][2])
    return options, view


def canonical(key: str, value: int) -> tuple[int, bytes]:
    """Kind and value in the canonical form of the key (9.2)."""
    if key == "compression_algorithm":
        return 2, next(name.encode() for name, code in COMPRESSIONS.items() if code == value)
    return 12, value.to_bytes(8, "little")
