"""Where a module can get a small fault, named by function and expression instead of by line.

A name survives when its function moves to another module. Pure: trees in, names and mutated trees out.
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

KINDS = ("comparison", "default", "branch", "term")
MODULE = "<module>"

_TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_NO_DEFAULTS = {"re.compile", "TypeVar"}
_TEXT_KEYWORDS = {"description", "examples", "title", "alias", "pattern", "help", "metadata"}


@dataclass(frozen=True, slots=True)
class Site:
    kind: str
    function: str  # qualified name within the module
    expression: str
    change: str
    ordinal: int = 0  # among equal expressions with equal changes of the function

    def __str__(self) -> str:
        return f"{self.function}{f' #{self.ordinal + 1}' if self.ordinal else ''}: {self.expression} → {self.change}"


@dataclass(frozen=True, slots=True)
class _Change:
    kind: str
    function: str
    expression: str
    change: str
    apply: Callable[[], None]


def sites(tree: ast.Module, function: str | None = None) -> list[Site]:
    """Return the sites of one function, or of all."""
    return [site for site, _ in _numbered(tree, function)]


def mutated(tree: ast.Module, site: Site) -> ast.Module | None:
    """Return a copy of the tree with the fault; None if the module has no such site."""
    changed = copy.deepcopy(tree)
    for other, apply in _numbered(changed, site.function):
        if other == site:
            apply()
            return ast.fix_missing_locations(changed)
    return None


def _numbered(tree: ast.Module, function: str | None) -> Iterator[tuple[Site, Callable[[], None]]]:
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for change in _changes(tree, (), function):
        key = (change.kind, change.function, change.expression, change.change)
        yield Site(*key, ordinal=counts[key]), change.apply
        counts[key] += 1


def _changes(node: ast.AST, names: tuple[str, ...], function: str | None) -> Iterator[_Change]:
    inner = names
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner = (*names, node.name)
        if function is not None and not f"{function}.".startswith(f"{'.'.join(inner)}."):
            return
    name = ".".join(inner) or MODULE
    if function in (None, name):
        yield from _at(node, name)
    for field, value in ast.iter_fields(node):
        # Annotations and decorators hold no decisions, and assertions only speak to developers.
        if field not in {"annotation", "returns", "decorator_list"}:
            for child in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
                if isinstance(child, ast.AST) and not isinstance(child, ast.Assert):
                    yield from _changes(child, inner, function)


def _at(node: ast.AST, function: str) -> Iterator[_Change]:
    match node:
        case ast.Compare():
            yield from _comparison(node, function)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from _parameters(node, function)
        case ast.ClassDef():
            yield from _fields(node.body, function)
        case ast.Module():
            yield from _fields(node.body, MODULE)
        case ast.Call():
            yield from _arguments(node, function)
        case ast.If() if not _for_tools(node.test):
            condition = ast.unparse(node.test)
            yield _Change("branch", function, f"if {condition}", "if False", _set(node, "test", _never(node.test)))
        case ast.IfExp():
            text = ast.unparse(node)
            for side in (node.body, node.orelse):
                yield _Change("branch", function, text, ast.unparse(side), _become(node, side))
        case ast.match_case() if not (isinstance(node.pattern, ast.MatchAs) and node.pattern.pattern is None):
            guard = ast.Constant(value=False)
            yield _Change(
                "branch", function, f"case {ast.unparse(node.pattern)}", "no case", _set(node, "guard", guard)
            )
        case ast.BoolOp():
            text = ast.unparse(node)
            for index in range(len(node.values)):
                kept = [*node.values[:index], *node.values[index + 1 :]]
                new = kept[0] if len(kept) == 1 else ast.BoolOp(op=node.op, values=kept)
                yield _Change("term", function, text, ast.unparse(new), _become(node, new))
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            right = ast.UnaryOp(op=ast.USub(), operand=node.right) if isinstance(node.op, ast.Sub) else node.right
            for new in (node.left, right):
                yield _Change("term", function, ast.unparse(node), ast.unparse(new), _become(node, new))
        case ast.UnaryOp(op=ast.Not()):
            yield _Change("term", function, ast.unparse(node), ast.unparse(node.operand), _become(node, node.operand))
        case ast.comprehension():
            for index, condition in enumerate(node.ifs):
                kept = [*node.ifs[:index], *node.ifs[index + 1 :]]
                text = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)} if {ast.unparse(condition)}"
                yield _Change("term", function, text, "no condition", _set(node, "ifs", kept))
        case _:
            pass


def _comparison(node: ast.Compare, function: str) -> Iterator[_Change]:
    for index, operator in enumerate(node.ops):
        for turned in _TURNED[type(operator)]:
            operators = [*node.ops[:index], turned(), *node.ops[index + 1 :]]
            new = ast.Compare(left=node.left, ops=operators, comparators=node.comparators)
            yield _Change("comparison", function, ast.unparse(node), ast.unparse(new), _set(node, "ops", operators))


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef, function: str) -> Iterator[_Change]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    for parameter, default in pairs:
        if default is not None:
            yield from _values(parameter.arg, default, function)


def _fields(body: Sequence[ast.stmt], function: str) -> Iterator[_Change]:
    for statement in body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield from _values(name, value, function)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield from _values(name, value, function)
            case _:
                pass


def _arguments(node: ast.Call, function: str) -> Iterator[_Change]:
    match node:
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, ast.Constant() as default]):
            yield from _values(f"get({ast.unparse(key)})", default, function)
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_]) if not any(
            isinstance(argument, ast.Starred) for argument in node.args
        ):
            for index in range(len(node.args)):
                kept = [*node.args[:index], *node.args[index + 1 :]]
                new = kept[0] if len(kept) == 1 else ast.Call(func=node.func, args=kept, keywords=node.keywords)
                yield _Change("term", function, ast.unparse(node), ast.unparse(new), _become(node, new))
        case _:
            pass


def _values(name: str, value: ast.expr, function: str) -> Iterator[_Change]:
    """Yield one change per constant: the value itself, or an argument of the call that makes the value."""
    constants: list[ast.Constant] = []
    match value:
        case ast.Constant():
            constants = [value]
        case ast.UnaryOp(operand=ast.Constant() as operand):
            constants = [operand]
        case ast.Call() if ast.unparse(value.func) not in _NO_DEFAULTS:
            constants = [argument for argument in value.args if isinstance(argument, ast.Constant)]
            for keyword in value.keywords:
                if keyword.arg not in _TEXT_KEYWORDS and isinstance(keyword.value, ast.Constant):
                    constants.append(keyword.value)
        case _:
            pass
    for constant in constants:
        old = constant.value
        new: object
        match old:
            case bool():
                new = not old
            case int() | float():
                new = old + 1
            case str() if not any(letter.isspace() for letter in old):
                new = f"{old}x"
            case _:
                continue
        change = f"{old!r} becomes {new!r}"
        yield _Change("default", function, f"{name} = {ast.unparse(value)}", change, _set(constant, "value", new))


def _for_tools(condition: ast.expr) -> bool:
    return ast.unparse(condition) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"} or "__name__" in ast.unparse(condition)


def _never(condition: ast.expr) -> ast.expr:
    """The condition is still evaluated: it may name a value (`:=`) that later lines use."""
    return ast.BoolOp(op=ast.And(), values=[condition, ast.Constant(value=False)])


def _set(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _become(node: ast.expr, new: ast.expr) -> Callable[[], None]:
    """Replace an expression in place, since its parent does not matter: two operands that are this expression."""

    def apply() -> None:
        node.__class__ = ast.IfExp
        for field in node._fields:
            setattr(node, field, None)
        vars(node).update(test=ast.Constant(value=True), body=new, orelse=ast.Constant(value=None))

    return apply
