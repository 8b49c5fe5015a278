"""Every stable code: its HTTP status, what it means, and what would help. Closed; each has a docs page."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    status: int
    title: str
    needed: str


CODES: dict[str, Code] = {
    "INVALID_JSON": Code(400, "the body is not acceptable JSON", "strict JSON; the place is named"),
    "UNAUTHENTICATED": Code(401, "no valid credential", "a token that is neither expired nor revoked"),
    "PERMISSION_DENIED": Code(403, "the credential lacks a permission", "a token with that permission"),
    "QUEUE_ACCESS_DENIED": Code(403, "the credential lacks a queue", "a token with access to the queues"),
    "NOT_FOUND": Code(404, "there is nothing at this path", "a path of the API document"),
    "INSTANCE_NOT_FOUND": Code(404, "no such instance", "an id of this namespace"),
    "TASK_NOT_FOUND": Code(404, "no such task", "an id of this namespace and your queues"),
    "DEFINITION_NOT_FOUND": Code(404, "no such definition", "register it first"),
    "QUEUE_NOT_FOUND": Code(404, "no such queue", "a queue of this namespace"),
    "METHOD_NOT_ALLOWED": Code(405, "the path knows other methods", "a method of the API document"),
    "REVISION_CONFLICT": Code(409, "the instance moved on", "read it again and decide anew"),
    "STEP_REVISION_CONFLICT": Code(409, "the step moved on", "read the instance again"),
    "TASK_REVISION_CONFLICT": Code(409, "the task moved on", "read the task again"),
    "CONTROL_REVISION_CONFLICT": Code(409, "another control command came first", "read it again"),
    "IDEMPOTENCY_CONFLICT": Code(409, "the key was used for another command", "a new key"),
    "INSTANCE_KEY_CONFLICT": Code(409, "the instance key was used with another input", "another key"),
    "DEFINITION_CONFLICT": Code(409, "the version has other content", "a new version"),
    "NOT_IN_REVIEW": Code(409, "the instance is not in review", "nothing: it needs no recovery"),
    "INBOX_PENDING": Code(409, "results are not consumed yet", "read again in a moment"),
    "INBOX_QUARANTINED": Code(409, "a record is quarantined", "mend its cause, then inbox requeue"),
    "NOT_OWNED": Code(409, "the parts don't belong together", "ids as the instance shows them"),
    "ACTIVATION_NOT_CURRENT": Code(409, "a newer activation exists", "the current activation's id"),
    "TASK_NOT_IN_REVIEW": Code(409, "the task is not in review", "nothing: its outcome is known"),
    "TASK_SETTLED": Code(409, "the task has settled", "nothing: a settlement is final"),
    "STEP_NOT_RESOLVABLE": Code(409, "the step needs no conclusion", "a step in review or failed"),
    "EXECUTION_UNSETTLED": Code(409, "an execution is not known to have ended", "ReviewTask first"),
    "CLASSIFICATION_MISMATCH": Code(409, "the result classifies otherwise", "a result that fits"),
    "TIMER_NOT_DUE": Code(409, "the timer's instant has not come", "wait for it"),
    "STOP_REQUESTED": Code(409, "the instance is to stop", "nothing new may start"),
    "DEADLINE_PASSED": Code(409, "a deadline has passed", "resolve, or cancel"),
    "BUDGET_EXHAUSTED": Code(409, "the original attempts are used up", "ResolveStep"),
    "ROUND_PENDING": Code(409, "the round answered PENDING", "ContinuePoll"),
    "ROUNDS_EXHAUSTED": Code(409, "no round is left", "ResolveStep"),
    "WAIT_NOT_REARMABLE": Code(409, "the wait can't be armed again", "ResolveStep"),
    "UNRESOLVED_STEPS": Code(409, "steps are unresolved", "resolve or retry them first"),
    "STEP_NOT_RETRYABLE": Code(409, "the step can't be retried", "ResolveStep"),
    "POLL_NOT_PENDING": Code(409, "the last round did not answer PENDING", "ResolveStep or RetryStep"),
    "CONTRADICTED": Code(409, "a late report contradicts", "acknowledge the contradiction"),
    "INTEGRITY_MISMATCH": Code(409, "the history is not whole", "weave doctor explain"),
    "INSTANCE_ENDED": Code(409, "the instance has ended", "nothing: an end is final"),
    "LEASE_LOST": Code(409, "the lease is not yours any more", "stop; the report was kept as evidence"),
    "GATE_CLOSED": Code(409, "the instance may not start attempts now", "give the task back"),
    "NOT_STARTED": Code(409, "the task was not started", "start it before reporting"),
    "START_REFUSED": Code(409, "the task may not start any more", "nothing: it has settled"),
    "REPORT_CONFLICT": Code(409, "another report was accepted", "nothing: the first one stands"),
    "INSTANCE_PRUNED": Code(410, "the instance was pruned", "its key never starts again"),
    "PAYLOAD_TOO_LARGE": Code(413, "the body or a payload is too large", "a smaller one"),
    "INVALID_COMMAND": Code(422, "the command is malformed", "the place and the right form are named"),
    "DECLARATION_REQUIRED": Code(422, "a declaration is missing", "the literal true, if it is true"),
    "CONTRACT_VIOLATION": Code(422, "a payload breaks its contract", "a payload that meets it"),
    "DEFINITION_INVALID": Code(422, "the definition has errors", "each is named with its place"),
    "QUOTA_EXCEEDED": Code(429, "a quota is full", "wait until usage falls, or raise it"),
    "INTERNAL": Code(500, "a fault of the server", "the log, by the request id"),
    "DATABASE_UNAVAILABLE": Code(503, "nothing was committed", "send it again"),
    "OUTCOME_UNKNOWN": Code(503, "it may or may not have been committed", "send the SAME key again"),
    "UNSUPPORTED_DATABASE": Code(500, "the database is too old", "the version that is named"),
}
