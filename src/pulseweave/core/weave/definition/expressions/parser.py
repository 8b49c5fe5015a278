"""From text to the tree of an expression: CEL's grammar, less what the package's docstring leaves
out.

The library has the last word on the form (``expression.py`` asks it too); this parser knows what it
needs to know more than that: which names and steps are read.
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import TypeVar

import cel

from pulseweave.core.weave.definition.expressions.library import (
    ARITHMETIC,
    CONVERSIONS,
    PARTS,
    PREDICATES,
)
from pulseweave.core.weave.definition.expressions.nodes import (
    Constant,
    Has,
    Index,
    ListOf,
    MapOf,
    Name,
    Node,
    Select,
)
from pulseweave.core.weave.definition.expressions.operations import (
    Comprehension,
    Computed,
    Conditional,
    Equality,
    Junction,
    Minus,
    Not,
    Order,
    Size,
    Within,
)
from pulseweave.core.weave.definition.expressions.tokens import BadExpression, Token

#: How deep brackets, conditions and comprehensions may nest.
EXPRESSION_DEPTH_MAX = 32

MACROS = ("all", "exists", "exists_one", "filter", "map")
FUNCTIONS = tuple(sorted({"dyn", "has", "size", *CONVERSIONS}))
METHODS = tuple(sorted({"size", *MACROS, *PREDICATES, *PARTS}))

_Item = TypeVar("_Item")

_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_ADDITIVE, _MULTIPLICATIVE = ("+", "-"), ("*", "/", "%")
_ORDERS = ("<", "<=", ">", ">=")


class Parser:
    """One expression's tokens and the place reached. ``parse`` may raise BadExpression."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        node = self._expression()
        if self._kind != "END":
            raise self._unexpected("an operator or the end")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    @property
    def _kind(self) -> str:
        return self._token.kind

    def _advance(self) -> Token:
        token = self._token
        self._at += 1
        return token

    def _take(self, kind: str) -> Token:
        if self._kind != kind:
            raise self._unexpected("a name" if kind == "NAME" else repr(kind))
        return self._advance()

    def _taken(self, kind: str) -> bool:
        if self._kind == kind:
            self._at += 1
            return True
        return False

    def _unexpected(self, wanted: str) -> BadExpression:
        found = "the end" if self._kind == "END" else repr(self._token.text)
        return BadExpression(f"{wanted} is expected, but {found} stands here", self._token.start)

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > EXPRESSION_DEPTH_MAX:
            message = f"nested deeper than {EXPRESSION_DEPTH_MAX}"
            raise BadExpression(message, self._token.start)
        condition = self._either()
        if self._taken("?"):
            yes = self._either()
            self._take(":")
            condition = Conditional(condition, yes, self._expression())
        self._depth -= 1
        return condition

    def _either(self) -> Node:
        node = self._both()
        while self._taken("||"):
            node = Junction(node, self._both(), decisive=True)
        return node

    def _both(self) -> Node:
        node = self._relation()
        while self._taken("&&"):
            node = Junction(node, self._relation(), decisive=False)
        return node

    def _relation(self) -> Node:
        node = self._arithmetic(_ADDITIVE, self._product)
        while True:
            if self._kind in {"==", "!="}:
                wanted = self._advance().kind == "=="
                node = Equality(node, self._arithmetic(_ADDITIVE, self._product), wanted=wanted)
            elif self._kind in _ORDERS:
                symbol = self._advance().kind
                node = Order(symbol, node, self._arithmetic(_ADDITIVE, self._product))
            elif self._kind == "NAME" and self._token.text == "in":
                self._advance()
                node = Within(node, self._arithmetic(_ADDITIVE, self._product))
            else:
                return node

    def _product(self) -> Node:
        return self._arithmetic(_MULTIPLICATIVE, self._unary)

    def _arithmetic(self, symbols: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        node = operand()
        while self._kind in symbols:
            symbol = self._advance().kind
            node = Computed(symbol, ARITHMETIC[symbol], (node, operand()))
        return node

    def _unary(self) -> Node:
        count = 0
        if self._kind == "!":
            while self._taken("!"):
                count += 1
            node = self._path(self._primary())
            return Not(node if count % 2 else Not(node)) if count else node
        while self._taken("-"):
            count += 1
        if count and self._kind == "NUMBER":
            return self._path(self._number("-" * (count % 2)))
        node = self._path(self._primary())
        return Minus(node) if count % 2 else node

    def _path(self, node: Node) -> Node:
        while True:
            if self._taken("."):
                name = self._field()
                if self._kind == "(":
                    node = self._method(node, name)
                else:
                    node = Select(node, name.text)
            elif self._taken("["):
                node = Index(node, self._expression())
                self._take("]")
            else:
                return node

    def _field(self) -> Token:
        name = self._take("NAME")
        if name.text in _WORDS or name.text == "in":
            message = f'{name.text} is a word of the language: write ["{name.text}"]'
            raise BadExpression(message, name.start)
        return name

    def _primary(self) -> Node:
        token = self._token
        match token.kind:
            case "NUMBER":
                return self._number("")
            case "STRING":
                self._advance()
                return Constant(_constant(token, token.text))
            case "NAME":
                self._advance()
                if token.text in _WORDS:
                    return Constant(_WORDS[token.text])
                if token.text == "in":
                    self._at -= 1
                    raise self._unexpected("a value")
                return self._function(token) if self._kind == "(" else Name(token.text)
            case "(":
                self._advance()
                node = self._expression()
                self._take(")")
                return node
            case "[":
                self._advance()
                return ListOf(tuple(self._until("]", self._expression)))
            case "{":
                self._advance()
                return MapOf(tuple(self._until("}", self._entry)))
            case _:
                raise self._unexpected("a value")

    def _number(self, sign: str) -> Node:
        token = self._advance()
        if token.text[-1] in "uU":
            message = "unsigned integers are not supported: JSON has one kind of integer"
            raise BadExpression(message, token.start)
        return Constant(_constant(token, sign + token.text))

    def _entry(self) -> tuple[Node, Node]:
        key = self._expression()
        self._take(":")
        return key, self._expression()

    def _until(self, closing: str, item: Callable[[], _Item]) -> list[_Item]:
        """Items with commas between them, and perhaps one behind the last."""
        items: list[_Item] = []
        while not self._taken(closing):
            items.append(item())
            if not self._taken(","):
                self._take(closing)
                break
        return items

    def _arguments(self) -> list[Node]:
        self._take("(")
        return self._until(")", self._expression)

    def _function(self, name: Token) -> Node:
        arguments = self._arguments()
        if name.text not in FUNCTIONS:
            raise _unknown("function", name, FUNCTIONS)
        argument = _only(name, arguments)
        if name.text == "has":
            if not isinstance(argument, Select):
                raise BadExpression("has asks for a member: has(input.name)", name.start)
            return Has(argument.operand, argument.field)
        if name.text == "size":
            return Size(argument)
        if name.text == "dyn":
            return argument
        return Computed(name.text, CONVERSIONS[name.text], (argument,))

    def _method(self, target: Node, name: Token) -> Node:
        arguments = self._arguments()
        if name.text in MACROS:
            return _comprehension(target, name, arguments)
        if name.text in PREDICATES:
            argument = _only(name, arguments)
            return Computed(name.text, PREDICATES[name.text], (target, argument))
        if name.text not in METHODS:
            raise _unknown("method", name, METHODS)
        if arguments:
            raise BadExpression(f"{name.text} takes no argument", name.start)
        if name.text == "size":
            return Size(target)
        return Computed(name.text, PARTS[name.text], (target,))


def _comprehension(source: Node, name: Token, arguments: list[Node]) -> Node:
    variable = arguments[0] if arguments else None
    several = name.text == "map" and len(arguments) == 3
    if not isinstance(variable, Name) or not (several or len(arguments) == 2):
        form = f"list.{name.text}(item, an expression of item)"
        raise BadExpression(f"{name.text} is written like {form}", name.start)
    return Comprehension(
        name.text,
        source,
        variable=variable.name,
        body=arguments[-1],
        condition=arguments[1] if several else None,
    )


def _only(name: Token, arguments: list[Node]) -> Node:
    if len(arguments) != 1:
        raise BadExpression(f"{name.text} takes one argument, not {len(arguments)}", name.start)
    return arguments[0]


def _unknown(what: str, name: Token, known: tuple[str, ...]) -> BadExpression:
    close = get_close_matches(name.text, known, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
    return BadExpression(f"there is no {what} {name.text!r}; {hint}", name.start)


def _constant(token: Token, text: str) -> object:
    """The value of a literal, as the library reads it."""
    try:
        constant: object = cel.compile(text).execute({})
    except ValueError:
        raise BadExpression(f"{token.text} is no literal of CEL", token.start) from None
    return constant
