"""The form of what people give with a command; the first thing that is refused (REC-2)."""

from pulseweave.kernel import texts
from pulseweave.kernel.errors import reject


def check_form(*, key: str, reason: str, evidence_ref: str | None) -> None:
    """REC-2; each complaint names its place."""
    complaints = [
        ("/idempotency_key", texts.complain_of_key(key)),
        ("/reason", texts.complain_of_reason(reason)),
    ]
    if evidence_ref is not None:
        complaints.append(("/evidence_ref", texts.complain_of_evidence_ref(evidence_ref)))
    for pointer, complaint in complaints:
        if complaint is not None:
            raise reject("INVALID_COMMAND", complaint, rule="REC-2", pointer=pointer)
