"""What ends a process because of something that its user can mend."""


class Refused(Exception):
    """The message says what is wrong and what to do. `status` is what the process exits with."""

    status: int = 2
