"""The form of what people give with a command; the first thing that is refused (REC-2).

Databases differ in what they do with a text that is too long, has a NUL or can't be encoded; none
of them ever gets one.
"""

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


def check_reason(reason: str) -> None:
    """A reason where none is needed: empty, or of the same form. Raises INVALID_COMMAND."""
    complaint = texts.complain_of_reason(reason) if reason else None
    if complaint is not None:
        raise reject("INVALID_COMMAND", complaint, pointer="/reason")


def check_name(text: str, place: str, *, chars_max: int) -> str:
    """The name itself, when it fits its column. ``place``: its JSON Pointer.

    Raises INVALID_COMMAND.
    """
    complaint = texts.complain_of_name(text, chars_max=chars_max)
    if complaint is not None:
        told = place.removeprefix("/").replace("/", " ")
        raise reject("INVALID_COMMAND", f"{told}: {complaint}", pointer=place)
    return text
