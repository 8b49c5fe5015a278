"""The form of the texts that people give with commands (REC-2). Each answers a complaint, or None."""

import re
import unicodedata

from pulseweave.kernel import limits

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_REVISION = re.compile(r"[1-9][0-9]{0,18}")


def _surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def complain_of_reason(text: str) -> str | None:
    if not 1 <= len(text) <= limits.REASON_CHARS_MAX:
        return f"a reason has 1 to {limits.REASON_CHARS_MAX} characters, this one {len(text)}"
    if not text.strip():
        return "a reason is not blank"
    if "\0" in text or _surrogate(text):
        return "a reason has neither NUL nor lone surrogates"
    return None


def complain_of_evidence_ref(text: str) -> str | None:
    if not 1 <= len(text) <= limits.EVIDENCE_REF_CHARS_MAX:
        return f"an evidence_ref has 1 to {limits.EVIDENCE_REF_CHARS_MAX} characters"
    if any(char.isspace() or unicodedata.category(char) == "Cc" for char in text):
        return "an evidence_ref has neither white space nor control characters"
    if _surrogate(text):
        return "an evidence_ref has no lone surrogates"
    return None


def complain_of_key(text: str) -> str | None:
    """An idempotency key: printable ASCII, no blank at either end (HTTP would strip it)."""
    if not 1 <= len(text) <= limits.IDEMPOTENCY_KEY_CHARS_MAX or _KEY.fullmatch(text) is None:
        return f"a key has 1 to {limits.IDEMPOTENCY_KEY_CHARS_MAX} printable ASCII characters"
    return None


def complain_of_revision(text: str) -> str | None:
    if _REVISION.fullmatch(text) is None:
        return "a revision is a decimal string like \"17\", without leading zeros"
    return None


def complain_of_name(text: str) -> str | None:
    """A key or name that becomes part of an index: no control characters, no lone surrogates."""
    if not 1 <= len(text) <= limits.INSTANCE_KEY_CHARS_MAX:
        return f"1 to {limits.INSTANCE_KEY_CHARS_MAX} characters, not {len(text)}"
    if _surrogate(text) or any(unicodedata.category(char) == "Cc" for char in text):
        return "neither control characters nor lone surrogates"
    return None
