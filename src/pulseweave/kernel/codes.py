"""Every stable code: its HTTP status, what it means, what would help, and the rules behind it.

The table is closed: nothing is refused with a code that isn't here, and each has a page in the
docs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Code:
    """``rules`` are ids of the semantics; a refusal that names none itself names the first."""

    status: int
    title: str
    needed: str
    rules: tuple[str, ...] = ()


_TABLE = {
    "INVALID_JSON": Code(400, "the body is not acceptable JSON", "strict JSON; the place is named"),
    "UNAUTHENTICATED": Code(
        401, "no valid credential", "a token that is neither expired nor revoked"
    ),
    "PERMISSION_DENIED": Code(
        403, "the credential lacks a permission", "a token with that permission", ("REC-1",)
    ),
    "QUEUE_ACCESS_DENIED": Code(
        403,
        "the credential lacks a queue",
        "a token with access to the queues that are named",
        ("REC-1",),
    ),
    "NOT_FOUND": Code(404, "there is nothing at this path", "a path of the API document"),
    "INSTANCE_NOT_FOUND": Code(404, "no such instance", "an id of this namespace"),
    "TASK_NOT_FOUND": Code(404, "no such task", "an id of this namespace, in a queue of yours"),
    "DEFINITION_NOT_FOUND": Code(404, "no such definition", "register it first", ("WEA-1",)),
    "QUEUE_NOT_FOUND": Code(404, "no such queue", "a queue of this namespace"),
    "METHOD_NOT_ALLOWED": Code(405, "the path knows other methods", "a method of the API document"),
    "REVISION_CONFLICT": Code(
        409, "the instance moved on", "read it again and decide anew", ("REC-3", "REC-12")
    ),
    "STEP_REVISION_CONFLICT": Code(
        409, "the step moved on", "read the instance again and decide anew", ("REC-12",)
    ),
    "TASK_REVISION_CONFLICT": Code(
        409, "the task moved on", "read the task again and decide anew", ("REC-12", "PUL-6")
    ),
    "CONTROL_REVISION_CONFLICT": Code(
        409, "another control command came first", "read the instance again", ("WEA-12", "REC-5")
    ),
    "IDEMPOTENCY_CONFLICT": Code(
        409, "the key was used for another command", "a new key for a new command", ("REC-3",)
    ),
    "INSTANCE_KEY_CONFLICT": Code(
        409, "the instance key was used with another input", "another instance key", ("WEA-3",)
    ),
    "DEFINITION_CONFLICT": Code(
        409, "the version has other content", "a new version number", ("WEA-1",)
    ),
    "NOT_IN_REVIEW": Code(
        409, "the instance is not in review", "nothing: it needs no recovery", ("REC-4",)
    ),
    "INBOX_PENDING": Code(
        409, "results are not consumed yet", "read again in a moment", ("REC-4",)
    ),
    "INBOX_QUARANTINED": Code(
        409, "a record is quarantined", "mend its cause, then inbox requeue", ("REC-4", "REC-16")
    ),
    "NOT_OWNED": Code(
        409, "the parts don't belong together", "ids as the instance shows them", ("REC-9",)
    ),
    "ACTIVATION_NOT_CURRENT": Code(
        409, "a newer activation exists", "the current activation's id", ("RES-1", "RET-1")
    ),
    "TASK_NOT_IN_REVIEW": Code(
        409, "the task is not in review", "nothing: its outcome is known", ("REV-1",)
    ),
    "TASK_SETTLED": Code(409, "the task has settled", "nothing: a settlement is final", ("PUL-1",)),
    "STEP_NOT_RESOLVABLE": Code(
        409, "the step needs no conclusion", "a step in review, failed or cancelled", ("RES-1",)
    ),
    "EXECUTION_UNSETTLED": Code(
        409,
        "an execution is not known to have ended",
        "ReviewTask for that task first",
        ("RES-1", "RET-1", "CON-1"),
    ),
    "CLASSIFICATION_MISMATCH": Code(
        409,
        "the poll's mapping classifies the result otherwise",
        "a result that fits the verdict",
        ("RES-2",),
    ),
    "TIMER_NOT_DUE": Code(
        409, "the timer's instant has not come", "wait for it", ("RES-2", "WEA-11")
    ),
    "STOP_REQUESTED": Code(
        409,
        "the instance is to stop",
        "nothing: no new work may start",
        ("RET-1", "CPO-1", "REA-1"),
    ),
    "DEADLINE_PASSED": Code(
        409, "a deadline has passed", "resolve, or cancel", ("RET-1", "CPO-1", "REA-1", "CON-2")
    ),
    "BUDGET_EXHAUSTED": Code(
        409, "the original attempts are used up", "ResolveStep", ("RET-4", "RET-5")
    ),
    "ROUND_PENDING": Code(409, "the round answered PENDING", "ContinuePoll", ("RET-9",)),
    "ROUNDS_EXHAUSTED": Code(409, "no round is left", "ResolveStep", ("CPO-1",)),
    "WAIT_NOT_REARMABLE": Code(409, "the wait can't be armed again", "ResolveStep", ("REA-1",)),
    "UNRESOLVED_STEPS": Code(
        409, "steps are unresolved", "resolve or retry those that are named", ("CON-1",)
    ),
    "STEP_NOT_RETRYABLE": Code(409, "the step can't be retried", "ResolveStep", ("RET-1",)),
    "POLL_NOT_PENDING": Code(
        409, "the last round did not answer PENDING", "ResolveStep or RetryStep", ("CPO-1",)
    ),
    "CONTRADICTED": Code(
        409,
        "a late report contradicts what was settled",
        "acknowledge the contradiction",
        ("REC-13",),
    ),
    "INTEGRITY_MISMATCH": Code(409, "the history is not whole", "weave doctor explain", ("RET-2",)),
    "INSTANCE_ENDED": Code(409, "the instance has ended", "nothing: an end is final", ("WEA-4",)),
    "LEASE_LOST": Code(
        409, "the lease is not yours any more", "stop; a report was kept as evidence", ("PUL-6",)
    ),
    "GATE_CLOSED": Code(
        409, "the instance may not start attempts now", "give the task back", ("WEA-6", "PUL-2")
    ),
    "NOT_STARTED": Code(409, "the task was not started", "start it before reporting", ("PUL-2",)),
    "START_REFUSED": Code(
        409, "the task may not start any more", "nothing: it has settled", ("PUL-7",)
    ),
    "REPORT_CONFLICT": Code(
        409, "another report was accepted", "nothing: the first one stands", ("PUL-6",)
    ),
    "INSTANCE_PRUNED": Code(
        410, "the instance was pruned", "nothing: its key never starts again", ("WEA-18",)
    ),
    "PAYLOAD_TOO_LARGE": Code(413, "the body or a payload is too large", "a smaller one"),
    "INVALID_COMMAND": Code(
        422,
        "the command is malformed",
        "the form that is named, at the place that is named",
        ("REC-2",),
    ),
    "DECLARATION_REQUIRED": Code(
        422, "a declaration is missing", "the literal true, if it is true", ("REC-11",)
    ),
    "CONTRACT_VIOLATION": Code(
        422, "a payload breaks its contract", "a payload that meets it", ("RES-2", "WEA-10")
    ),
    "DEFINITION_INVALID": Code(
        422, "the definition has errors", "each is named with its place", ("WEA-1",)
    ),
    "QUOTA_EXCEEDED": Code(
        429, "a quota is full", "wait until usage falls, or raise it", ("PUL-12", "RET-7")
    ),
    "INTERNAL": Code(500, "a fault of the server", "the log, by the request id"),
    "UNSUPPORTED_DATABASE": Code(
        500, "the database can't carry Weave", "the database and version that are named"
    ),
    "SCHEMA_VERSION": Code(
        500, "the database's schema is not the one this program knows", "`weave db upgrade`"
    ),
    "DATABASE_UNAVAILABLE": Code(503, "nothing was committed", "send it again"),
    "OUTCOME_UNKNOWN": Code(
        503, "it may or may not have been committed", "send it again with the SAME key", ("REC-3",)
    ),
}

CODES: Mapping[str, Code] = MappingProxyType(_TABLE)
