"""Rounds of a poll: one business query each (WEA-9). A retry asks again in the same round.

Each query is a task; its row here tells the round and, once it was answered, what the fixed mapping
made of the answer. Written once and closed once.
"""

from dataclasses import dataclass

from pulseweave.core.weave.definition.mapping import Classification


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Facts of one query. ``answered_at``: when its task settled; ``classification`` is None while
    it is not answered, and when the mapping doesn't classify the answer.
    """

    task_id: str
    namespace: str
    instance_id: str
    activation_id: str
    step_key: str
    round: int
    opened_at: int
    answered_at: int | None = None
    classification: Classification | None = None

    @property
    def id(self) -> str:
        return self.task_id
