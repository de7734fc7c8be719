"""What a simulation finds."""


class Violation(Exception):
    """Something that must never be: `rule` names what was broken, `text` says how."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule = rule
        self.text = text
