"""The words of an expression, and where it ends in a text: at the ``}`` that closes nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


class BadExpression(ValueError):
    """What is wrong with an expression; ``offset`` counts characters from its start, if known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Token:
    """``kind`` is NUMBER, STRING, NAME, a punctuation mark itself, or END."""

    kind: str
    text: str
    start: int


_TOKEN = re.compile(
    r"""
    (?P<BLANK>[ \t\r\n\f]+)
  | (?P<COMMENT>//)
  | (?P<STRING>(?:[bB][rR]?|[rR])?(?:\"\"\"|'''|["']))
  | (?P<NUMBER>0[xX][0-9a-fA-F]+[uU]?|(?:\d+\.\d+|\.\d+|\d+)(?:[eE][+-]?\d+)?[uU]?)
  | (?P<NAME>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<MARK>&&|\|\||==|!=|<=|>=|[-<>+*/%!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)


def tokens_of(text: str, start: int = 0) -> Iterator[Token]:
    """Tokens from ``start`` to the end, or to the first ``}`` that closes nothing.

    The last one is END. Offsets count from ``start``. Raises BadExpression.
    """
    position, open_braces = start, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadExpression(f"{text[position]!r} has no meaning here", position - start)
        kind = match.lastgroup
        if kind == "COMMENT":
            raise BadExpression("an expression has no comments", position - start)
        end = _string_end(text, match, start) if kind == "STRING" else match.end()
        word = text[position:end]
        open_braces += (word == "{") - (word == "}")
        if open_braces < 0:
            break
        if kind != "BLANK":
            yield Token(word if kind == "MARK" else str(kind), word, position - start)
        position = end
    yield Token("END", "", position - start)


def _string_end(text: str, opening: re.Match[str], start: int) -> int:
    """Behind the closing quotes."""
    prefix, quotes = opening.group().rstrip("\"'").lower(), opening.group().lstrip("bBrR")
    if "b" in prefix:
        raise BadExpression("bytes are not supported: JSON has none", opening.start() - start)
    position = opening.end()
    while position < len(text):
        if text.startswith(quotes, position):
            return position + len(quotes)
        if text[position] in "\r\n" and len(quotes) == 1:
            break
        position += 2 if text[position] == "\\" and prefix != "r" else 1
    raise BadExpression("a string is not closed", opening.start() - start)
