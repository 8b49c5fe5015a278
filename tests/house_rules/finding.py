"""What a rule says when it is broken."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """One place that breaks one rule. ``line`` counts from 1."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message} [{self.rule}]"
