"""Running code that is not ours: whatever it raises is caught here, logged, and told in words.

A plugin may raise anything, `SystemExit` of a stray `sys.exit()` included, and the node goes on.
"""

import traceback
from collections.abc import Callable
from typing import Final

from loguru import logger

from levrier.actors.runtime.cell import describe_error

TRACEBACK_MAX: Final = 16_384
"""Characters of a traceback that are logged; what was raised may bring a text of any length."""


def attempt(action: Callable[[], object], *, whose: str) -> str:
    """Run it. Gives the empty text, or what it raised; the traceback is logged under the name `whose`."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001
        described = describe_error(error)
        where = "".join(traceback.format_exception(error))[:TRACEBACK_MAX]
        logger.error("{} raised {}\n{}", whose, described, where)
        return described
    return ""
