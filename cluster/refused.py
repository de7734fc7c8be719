"""What ends a process because of something that its user can mend."""


class Refused(Exception):
    """The message says what is wrong and what to do. `status` is what the process exits with."""

    status: int = 2
    """As of a command that could not ask or was misused (D-36)."""


class ConfigError(Refused, ValueError):
    """A setting that cannot be used; the message says which, what it is and what is allowed."""
