"""The form of the texts that people give with commands (REC-2).

Each function answers a complaint that says what would be right, or None. Lengths count Unicode code
points. Lone surrogates are refused everywhere: no database keeps them.
"""

import re
import unicodedata

from pulseweave.kernel import limits

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_REVISION = re.compile(r"[1-9][0-9]{0,18}")


def complain_of_reason(text: str) -> str | None:
    """1 to 1024 code points, not blank, no NUL."""
    if not 1 <= len(text) <= limits.REASON_CHARS_MAX:
        return f"a reason has 1 to {limits.REASON_CHARS_MAX} characters, this one {len(text)}"
    if text.isspace():
        return "a reason is not blank"
    if "\0" in text or _has_surrogate(text):
        return "a reason has neither NUL nor lone surrogates"
    return None


def complain_of_evidence_ref(text: str) -> str | None:
    """1 to 512 code points, no white space or control characters. The system never opens it."""
    if not 1 <= len(text) <= limits.EVIDENCE_REF_CHARS_MAX:
        most = limits.EVIDENCE_REF_CHARS_MAX
        return f"an evidence_ref has 1 to {most} characters, this one {len(text)}"
    if any(char.isspace() for char in text) or _has_control(text):
        return "an evidence_ref has neither white space nor control characters"
    if _has_surrogate(text):
        return "an evidence_ref has no lone surrogates"
    return None


def complain_of_key(text: str) -> str | None:
    """An idempotency key: printable ASCII. A blank at either end would get lost in a header."""
    if not 1 <= len(text) <= limits.IDEMPOTENCY_KEY_CHARS_MAX or _KEY.fullmatch(text) is None:
        most = limits.IDEMPOTENCY_KEY_CHARS_MAX
        return f"a key has 1 to {most} printable ASCII characters and no blank at either end"
    return None


def complain_of_revision(text: str) -> str | None:
    """A counter from 1, as a decimal string: a JSON number would lose digits on its way."""
    if _REVISION.fullmatch(text) is None:
        return 'a revision is a decimal string like "17", without leading zeros'
    return None


def complain_of_name(text: str, *, chars_max: int = limits.INSTANCE_KEY_CHARS_MAX) -> str | None:
    """A key or name that becomes part of an index: no control characters, no lone surrogates.

    No blanks at its ends either: MariaDB compares as if they were not there.
    """
    if not 1 <= len(text) <= chars_max:
        return f"1 to {chars_max} characters, not {len(text)}"
    if _has_surrogate(text) or _has_control(text):
        return "neither control characters nor lone surrogates"
    if text != text.strip():
        return "no blanks at its ends"
    return None


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _has_control(text: str) -> bool:
    return any(unicodedata.category(char) == "Cc" for char in text)
