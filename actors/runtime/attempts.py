"""Running code that is not ours: whatever it raises is caught here, logged, and told in words.

A plugin may raise anything, `SystemExit` of a stray `sys.exit()` included, and the node goes on.
"""

from collections.abc import Callable

from loguru import logger

from levrier.actors.runtime.cell import describe_error


def attempt(action: Callable[[], object], *, whose: str) -> str:
    """Run it. Gives the empty text, or what it raised; the traceback is logged under the name `whose`."""
    try:
        action()
    except BaseException as error:  # noqa: BLE001
        described = describe_error(error)
        logger.opt(exception=error).error("{} raised {}", whose, described)
        return described
    return ""
