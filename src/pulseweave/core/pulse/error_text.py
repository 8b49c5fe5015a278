"""What a report tells of a failure, as a text that can always be written (PUL-4).

Handlers say anything: NUL, lone surrogates, a megabyte of stack. Canonical JSON is ASCII and
escapes the first two; what is too long is cut, with a mark. What may never happen: a known failure
becomes an unknown outcome because its words were too many.
"""

from pulseweave.kernel import canonical, limits

MARK = "…"


def failure_text(message: str, details: object = None) -> str:
    """``{"message", "details"?}`` as canonical JSON of at most ``limits.PAYLOAD_BYTES_MAX`` bytes.

    Details that are too large become ``{"bytes": their size, "cut": the start of their text}``.
    """
    told: dict[str, object] = {"message": cut(message, limits.MESSAGE_CHARS_MAX)}
    if details is None:
        return canonical.encode(told)
    text = canonical.encode({**told, "details": details})
    if len(text) <= limits.PAYLOAD_BYTES_MAX:
        return text
    whole = canonical.encode(details)
    start = cut(whole, limits.MESSAGE_CHARS_MAX)
    return canonical.encode({**told, "details": {"bytes": len(whole), "cut": start}})


def unknown_text(detail: str, *, ended: bool) -> str:
    """``{"message", "ended"}`` as canonical JSON. ``ended``: nothing of the execution goes on."""
    return canonical.encode({"message": cut(detail, limits.MESSAGE_CHARS_MAX), "ended": ended})


def cut(text: str, chars_max: int) -> str:
    """The text, or its start with a mark in the place of the last character."""
    return text if len(text) <= chars_max else text[: chars_max - len(MARK)] + MARK


def code_of(text: str) -> str:
    """A code that fits its column: ASCII letters, digits and ``._:-``, cut to length; others
    become ``_``.
    """
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._:-") else "_" for c in text)
    return kept[: limits.CODE_CHARS_MAX] or "FAILED"
