"""Names and keys at the door: what doesn't fit its column is refused here, with its place.

Databases differ in what they do with a text that is too long, has a NUL or can't be encoded; none
of them ever gets one.
"""

from pulseweave.kernel import texts
from pulseweave.kernel.errors import reject


def check_name(text: str, place: str, *, chars_max: int) -> str:
    """The name itself. ``place``: its JSON Pointer. Raises INVALID_COMMAND."""
    complaint = texts.complain_of_name(text, chars_max=chars_max)
    if complaint is not None:
        told = place.removeprefix("/").replace("/", " ")
        raise reject("INVALID_COMMAND", f"{told}: {complaint}", pointer=place)
    return text
