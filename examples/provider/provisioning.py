"""What becomes of the clusters that were asked for: PENDING for a while, then READY or BROKEN.

A cluster is an effect in the ledger. Its status moves with the questions after it, not with the
clock, so that whoever tries things out decides how long it takes: the first ``pending`` questions
that are answered are told PENDING, all later ones how it ended. Plans live in memory, as faults do.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from examples.provider.faults import Mode
from examples.provider.ledger import Ledger, Row

#: The kind of the requests that ask for a cluster's status.
STATUS = "status"
PENDING_DEFAULT = 1
#: With these a question got no answer that tells the status.
_UNANSWERED = frozenset({Mode.REFUSE, Mode.ERROR_BEFORE, Mode.HANG})


class End(StrEnum):
    """How a cluster's provisioning ends."""

    READY = "READY"
    BROKEN = "BROKEN"


@dataclass(frozen=True)
class Plan:
    """``order_id`` None: any. ``pending``: how many questions are told PENDING before the end."""

    order_id: str | None = None
    pending: int = PENDING_DEFAULT
    end: str = End.READY


class Plans:
    """The plans that were made; the latest that fits a cluster is its plan."""

    def __init__(self) -> None:
        self._plans = [Plan()]

    def add(self, plan: Plan) -> None:
        self._plans.insert(0, plan)

    def shown(self) -> list[dict[str, Any]]:
        return [asdict(plan) for plan in self._plans]

    def of(self, order_id: str) -> Plan:
        return next(plan for plan in self._plans if plan.order_id in (None, order_id))


def status(ledger: Ledger, plans: Plans, cluster: Row, *, request_id: int) -> Row:
    """What the question with this number is told: ``{cluster_id, order_id, status}``."""
    order_id = cluster["order_id"]
    earlier = [
        request
        for request in ledger.requests(STATUS, order_id)
        if request["id"] < request_id and request["fault"] not in _UNANSWERED
    ]
    plan = plans.of(order_id)
    word = "PENDING" if len(earlier) < plan.pending else str(plan.end)
    return {"cluster_id": cluster["id"], "order_id": order_id, "status": word}
