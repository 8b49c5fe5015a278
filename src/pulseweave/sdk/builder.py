"""Definitions written in Python: the same document that YAML gives, made by typed calls.

Nothing is validated here but Python's types: the one compiler is the server's, and names every
problem.
"""

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from pulseweave.kernel import duration

Duration = str | timedelta
Effect = Literal["at_most_once", "idempotent", "none"]
OnFailure = Literal["fail", "review", "ignore"]


def _duration(value: Duration) -> str:
    if isinstance(value, timedelta):
        return duration.format_ms(value // timedelta(milliseconds=1))
    return value


_DURATIONS = frozenset({"attempt_timeout", "lease", "deadline", "start_within", "initial", "max"})


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _duration(value) if name in _DURATIONS else value
        for name, value in fields.items()
        if value is not None
    }


@dataclass(frozen=True, slots=True)
class Backoff:
    """How the delay between attempts grows (PUL-5)."""

    initial: Duration = "1s"
    factor: float = 2
    max: Duration = "5m"
    jitter: float = 0.2

    def node(self) -> dict[str, Any]:
        return _given(
            {"initial": self.initial, "factor": self.factor, "max": self.max, "jitter": self.jitter}
        )


@dataclass(frozen=True, slots=True)
class Task:
    """A step that Pulse executes. Strings in ``input`` may hold ``${expressions}``."""

    key: str
    queue: str = field(kw_only=True)
    handler: str = field(kw_only=True)
    input: Any = field(kw_only=True, default=None)
    output: Mapping[str, Any] | None = field(kw_only=True, default=None)
    effect: Effect | None = field(kw_only=True, default=None)
    max_attempts: int | None = field(kw_only=True, default=None)
    backoff: Backoff | None = field(kw_only=True, default=None)
    attempt_timeout: Duration | None = field(kw_only=True, default=None)
    lease: Duration | None = field(kw_only=True, default=None)
    deadline: Duration | None = field(kw_only=True, default=None)
    start_within: Duration | None = field(kw_only=True, default=None)
    priority: int | None = field(kw_only=True, default=None)
    concurrency_key: str | None = field(kw_only=True, default=None)
    business_key: str | None = field(kw_only=True, default=None)
    on_failure: OnFailure | None = field(kw_only=True, default=None)

    def node(self) -> dict[str, Any]:
        fields = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("key", "backoff")
        }
        backoff = self.backoff.node() if self.backoff is not None else None
        return {"task": self.key, **_given({**fields, "backoff": backoff})}


@dataclass(frozen=True, slots=True)
class Sequence:
    """Steps one after the other, under a key of their own."""

    key: str
    steps: SequenceOf["Step"]

    def node(self) -> dict[str, Any]:
        return {"sequence": self.key, "steps": [step.node() for step in self.steps]}


class Parallel:
    """Branches side by side: ``Parallel("fulfil", stock=[…], mail=[…])``."""

    def __init__(self, key: str, /, **branches: SequenceOf["Step"]) -> None:
        self.key = key
        self.branches = branches

    def node(self) -> dict[str, Any]:
        return {
            "parallel": self.key,
            "branches": {name: [s.node() for s in steps] for name, steps in self.branches.items()},
        }


Step = Task | Sequence | Parallel


@dataclass(frozen=True, slots=True)
class Workflow:
    """A definition. ``document()`` is what is registered."""

    name: str
    version: int = field(kw_only=True)
    steps: SequenceOf[Step] = field(kw_only=True)
    input: Mapping[str, Any] | None = field(kw_only=True, default=None)
    output: Any = field(kw_only=True, default=None)
    deadline: Duration | None = field(kw_only=True, default=None)
    on_failure: OnFailure | None = field(kw_only=True, default=None)
    description: str | None = field(kw_only=True, default=None)

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            **_given(
                {
                    "description": self.description,
                    "deadline": self.deadline,
                    "on_failure": self.on_failure,
                    "input": self.input,
                    "output": self.output,
                }
            ),
            "steps": [step.node() for step in self.steps],
        }
