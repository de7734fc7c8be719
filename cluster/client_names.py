"""How a caller of our client names a stream, a topic, a group or a user."""

from levrier.wire.identifiers import Identifier

Name = int | str | Identifier
"""A number, a name, or an identifier."""


def identifier(name: Name) -> Identifier:
    """The identifier of what the caller names. Raises `WireError` for a number or a name that none can carry."""
    return name if isinstance(name, Identifier) else Identifier(name)
