"""Rules for Python files, checked on the syntax tree.

A rule is a generator: module in, (line, message) out; `RULES` names each and says which files it
is for. The message always says what would be right. Paths are relative to the repository.
"""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tests.house_rules.finding import Finding

MODULE_LINES_MAX = 600
TEST_MODULE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
LINE_CHARS_MAX = 100

SRC = "src/pulseweave/"
CLOCK = SRC + "kernel/clock.py"
ENTROPY = SRC + "kernel/entropy.py"
LOCKS = SRC + "store/locks.py"
UNIT = SRC + "txn/unit.py"
STORE = SRC + "store/"
MIGRATIONS = SRC + "store/migrations/"

VAGUE_WORDS = frozenset(
    {"manager", "managers", "util", "utils", "helper", "helpers", "data", "service", "services"}
)
MONEY_WORDS = frozenset({"amount", "balance", "cents", "cost", "fee", "money", "price", "total"})
TIME_ENDINGS = ("_ms", "_us", "_at", "_micros", "_seconds")

Hits = Iterator[tuple[int, str]]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A Python file: its path in the repository and its text."""

    path: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.path)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[FunctionNode]:
        return [n for n in self.nodes if isinstance(n, FunctionNode)]

    @cached_property
    def strings(self) -> list[ast.Constant]:
        """The text constants that are not docstrings or other bare strings."""
        bare = {id(n.value) for n in self.nodes if isinstance(n, ast.Expr)}
        return [
            n
            for n in self.nodes
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in bare
        ]

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def is_core(self) -> bool:
        return self.path.startswith(SRC + "core/")

    @property
    def is_src(self) -> bool:
        return self.path.startswith(SRC)


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or an attribute chain, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return ""


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Every imported name in full, such as ``time`` and ``datetime.datetime``, with its line."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Every call with the last part of what is called: ``commit`` of ``self.unit.commit()``."""
    for node in module.nodes:
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                yield node, node.func.attr
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id


# --- size and shape -------------------------------------------------------------------------------


def module_length(module: Module) -> Hits:
    limit = TEST_MODULE_LINES_MAX if module.is_test else MODULE_LINES_MAX
    count = len(module.source.splitlines())
    if count > limit:
        yield 1, f"{count} lines; a module has at most {limit}: split it by what changes together"


def function_length(module: Module) -> Hits:
    for node in module.functions:
        count = (node.end_lineno or node.lineno) - node.lineno + 1
        if count > FUNCTION_LINES_MAX:
            yield (
                node.lineno,
                f"{node.name} has {count} lines, at most {FUNCTION_LINES_MAX}: name its steps",
            )


def line_length(module: Module) -> Hits:
    for number, line in enumerate(module.source.splitlines(), 1):
        if len(line) > LINE_CHARS_MAX:
            yield number, f"{len(line)} characters; a line has at most {LINE_CHARS_MAX}"


def module_docstring(module: Module) -> Hits:
    if module.source.strip() and not ast.get_docstring(module.tree):
        yield 1, "a module begins with a docstring: what it is, its states, what may never happen"


# --- names ----------------------------------------------------------------------------------------


def words_of(name: str) -> set[str]:
    """The lower-case words of a snake_case or CamelCase name."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def defined_names(module: Module) -> Iterator[tuple[int, str]]:
    """The names that this module gives: itself, classes, functions, parameters, variables."""
    yield 1, module.path.rsplit("/", 1)[-1].removesuffix(".py")
    for node in module.nodes:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield node.lineno, name
            case ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case _:
                pass


def vague_names(module: Module) -> Hits:
    for line, name in defined_names(module):
        vague = words_of(name) & VAGUE_WORDS
        if vague:
            yield line, f"{name}: {', '.join(sorted(vague))} says nothing; name what it is or does"
        if name.startswith(("handle_", "_handle_")):
            yield line, f"{name}: say what is done, not that something is handled"


def exact_numbers(module: Module) -> Hits:
    """Instants, durations and money are integers: a float loses the last digit one day."""
    for node in module.nodes:
        match node:
            case ast.arg(arg=name, annotation=ast.AST() as kind):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                pass
            case ast.AnnAssign(target=ast.Attribute(attr=name), annotation=kind):
                pass
            case ast.FunctionDef(name=name, returns=ast.AST() as kind):
                pass
            case ast.AsyncFunctionDef(name=name, returns=ast.AST() as kind):
                pass
            case _:
                continue
        exact = name.endswith(TIME_ENDINGS) or words_of(name) & MONEY_WORDS
        if exact and any(isinstance(n, ast.Name) and n.id == "float" for n in ast.walk(kind)):
            yield node.lineno, f"{name}: time and money are int (_ms, _at in µs, cents), not float"


# --- bans with a replacement ----------------------------------------------------------------------


def no_assert(module: Module) -> Hits:
    for node in module.nodes:
        if isinstance(node, ast.Assert):
            yield node.lineno, "python -O removes assert: use kernel.check.invariant"


def no_print(module: Module) -> Hits:
    for node in module.nodes:
        if isinstance(node, ast.Call) and dotted(node.func) == "print":
            yield node.lineno, "no print: a rich console in cli, a log event elsewhere"


def clock(module: Module) -> Hits:
    instead = "time comes from kernel.clock or, in a transaction, from the database (PUL-15)"
    for line, name in imports(module):
        if name == "time" or name.startswith("time."):
            yield line, f"import of {name}: {instead}"
    for node, name in calls(module):
        owner = dotted(node.func).rpartition(".")[0]
        if name in ("now", "utcnow", "today") and owner.rpartition(".")[2] in ("datetime", "date"):
            yield node.lineno, f"{dotted(node.func)}(): {instead}"


def entropy(module: Module) -> Hits:
    instead = "ids and chance come from kernel.entropy"
    banned = ("random", "secrets", "uuid", "uuid_utils")
    for line, name in imports(module):
        if name.partition(".")[0] in banned or name == "os.urandom":
            yield line, f"import of {name}: {instead}"
    for node, _ in calls(module):
        if dotted(node.func) == "os.urandom":
            yield node.lineno, f"os.urandom(): {instead}"


def locking_reads(module: Module) -> Hits:
    instead = "locking reads stand in store/locks.py alone, in lock order"
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and node.attr == "with_for_update":
            yield node.lineno, f"with_for_update: {instead}"
    pattern = re.compile(r"\bFOR (UPDATE|SHARE|NO KEY)\b|\bLOCK IN SHARE MODE\b|\bSKIP LOCKED\b")
    for text in module.strings:
        if pattern.search(str(text.value)):
            yield text.lineno, f"a locking clause in a string: {instead}"


def transactions(module: Module) -> Hits:
    instead = "transactions begin and end in txn/unit.py alone"
    for node, name in calls(module):
        if name in ("commit", "begin", "begin_nested") and isinstance(node.func, ast.Attribute):
            yield node.lineno, f".{name}(): {instead}"
    for text in module.strings:
        if str(text.value).strip(" ;").upper() == "COMMIT":
            yield text.lineno, f"COMMIT in a string: {instead}"


def sql_text(module: Module) -> Hits:
    for line, name in imports(module):
        if name in ("sqlalchemy.text", "sqlalchemy.sql.text"):
            yield line, "SQL text is written in store, where every statement has its name"


def sql_from_parts(module: Module) -> Hits:
    for node, name in calls(module):
        if name not in ("text", "execute", "exec_driver_sql", "executemany") or not node.args:
            continue
        first = node.args[0]
        formatted = isinstance(first, ast.JoinedStr) or (
            isinstance(first, ast.Call)
            and isinstance(first.func, ast.Attribute)
            and first.func.attr == "format"
        )
        glued = isinstance(first, ast.BinOp) and any(
            isinstance(n, ast.JoinedStr)
            or (isinstance(n, ast.Constant) and isinstance(n.value, str))
            for n in ast.walk(first)
        )
        if formatted or glued:
            yield (
                node.lineno,
                f"SQL put together for {name}(): write a constant with bind parameters",
            )


def set_iteration(module: Module) -> Hits:
    """The order of a set changes with PYTHONHASHSEED, and with it the order of changes."""
    for scope in (module.tree, *module.functions):
        local = {
            target.id
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and makes_set(node.value)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if isinstance(scope, FunctionNode):
            arguments = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
            local |= {a.arg for a in arguments if a.annotation and names_set(a.annotation)}
        orderless = orderless_comprehensions(scope)
        for node in own_nodes(scope):
            if id(node) in orderless:
                continue
            if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                over = node.iter
                if makes_set(over) or (isinstance(over, ast.Name) and over.id in local):
                    yield over.lineno, "a set has no order: iterate over sorted(...) of it"


def orderless_comprehensions(scope: ast.AST) -> set[int]:
    """Those whose result is the same in any order: they make a set, or are sorted or summed up."""
    reducers = {"all", "any", "frozenset", "max", "min", "set", "sorted", "sum"}
    makers: list[ast.AST] = []
    for node in ast.walk(scope):
        if isinstance(node, ast.SetComp):
            makers.append(node)
        elif isinstance(node, ast.Call) and dotted(node.func) in reducers:
            makers += node.args
    return {
        id(generator)
        for maker in makers
        if isinstance(maker, ast.SetComp | ast.GeneratorExp | ast.ListComp)
        for generator in maker.generators
    }


def makes_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and dotted(node.func) in ("set", "frozenset")


def names_set(annotation: ast.expr) -> bool:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return dotted(base).rpartition(".")[2] in ("set", "frozenset", "Set", "AbstractSet")


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, FunctionNode):
            yield from own_nodes(child)


def no_sleep(module: Module) -> Hits:
    for node, name in calls(module):
        harmless = [a.value for a in node.args if isinstance(a, ast.Constant)] == [0]
        if name == "sleep" and not harmless:
            yield node.lineno, "no sleep: wait on an event, a process or a condition with a limit"


def no_skip(module: Module) -> Hits:
    markers = {f"pytest.mark.{m}" for m in ("skip", "skipif", "xfail", "flaky")}
    functions = {f"pytest.{f}" for f in ("skip", "importorskip", "xfail")}
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and dotted(node) in markers | functions:
            yield node.lineno, f"{dotted(node)}: a test runs and passes; install what it needs"


@dataclass(frozen=True)
class Rule:
    """A check and the files that it is for: everything under ``roots`` but ``exempt``."""

    check: Callable[[Module], Hits]
    roots: tuple[str, ...]
    exempt: tuple[str, ...] = ()

    def applies(self, path: str) -> bool:
        return path.startswith(self.roots) and not (self.exempt and path.startswith(self.exempt))


_ALL = (SRC, "examples/", "bench/", "scripts/", "tests/")
_SHIPPED = (SRC, "examples/", "bench/", "scripts/")

RULES: dict[str, Rule] = {
    "module-length": Rule(module_length, _ALL),
    "function-length": Rule(function_length, _ALL),
    "line-length": Rule(line_length, _ALL),
    "module-docstring": Rule(module_docstring, _SHIPPED),
    "vague-names": Rule(vague_names, _SHIPPED),
    "exact-numbers": Rule(exact_numbers, _SHIPPED),
    "no-assert": Rule(no_assert, (SRC,)),
    "no-print": Rule(no_print, (SRC,)),
    "clock": Rule(clock, (SRC,), (CLOCK,)),
    "entropy": Rule(entropy, (SRC,), (ENTROPY,)),
    "locking-reads": Rule(locking_reads, (SRC,), (LOCKS,)),
    "transactions": Rule(transactions, (SRC,), (UNIT, MIGRATIONS)),
    "sql-text": Rule(sql_text, (SRC,), (STORE,)),
    "sql-from-parts": Rule(sql_from_parts, (SRC,)),
    "set-iteration": Rule(set_iteration, (SRC + "core/",)),
    "no-sleep": Rule(no_sleep, ("tests/",)),
    "no-skip": Rule(no_skip, ("tests/",)),
}


def check_code(module: Module) -> list[Finding]:
    """Everything in one Python file that breaks a rule, in the order of its lines."""
    return sorted(
        Finding(module.path, line, name, message)
        for name, rule in RULES.items()
        if rule.applies(module.path)
        for line, message in rule.check(module)
    )
