"""Plugins: actors of somebody else's, in a node of levrier.

    from levrier.actors.plugins import Context, Notice, Outcome, Plugin, requests

The README section "Write a plugin" leads from an empty folder to a running plugin; `testing` holds the harness for its tests.
"""

from levrier.actors.plugins import answers, questions, requests
from levrier.actors.plugins.api import (
    EVERY_OPERATION,
    BadQuestion,
    Context,
    NoSettings,
    Notice,
    Plugin,
    Role,
    TooMany,
)
from levrier.actors.plugins.messages import Fate, Outcome
from levrier.actors.plugins.requests import InvalidRequest
from levrier.wire.codes import Operation
from levrier.wire.identifiers import Identifier

__all__ = [
    "EVERY_OPERATION",
    "BadQuestion",
    "Context",
    "Fate",
    "Identifier",
    "InvalidRequest",
    "NoSettings",
    "Notice",
    "Operation",
    "Outcome",
    "Plugin",
    "Role",
    "TooMany",
    "answers",
    "questions",
    "requests",
]
