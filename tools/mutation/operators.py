"""Small faults that a programmer makes, found in a module's syntax tree and put into its text.

Each is one change of one place, so a survivor's diff is one line or two. Texts for people, annotations and decorators
are passed by: a changed word is no changed behaviour. `key` names a mutant by what it changes and in which function,
not by line, so that a reason that is written down for it stays with it.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_N = TypeVar("_N", bound=ast.AST)

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_FOR_PEOPLE = {"prog", "description", "help", "metavar", "encoding", "daemon"}
"""Keywords whose loss nobody's decision shows: words, and what an operating system may be told."""
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    key: str
    line: int
    text: str  # of the whole module


def mutants_of(source: str) -> Iterator[Mutant]:
    """Every mutant of a module, in the order of its lines. All of them can be compiled."""
    walk = _Walk(source)
    walk.visit(ast.parse(source))
    seen: Counter[str] = Counter()
    for change in sorted(walk.changes, key=lambda one: (one.start, one.end, one.after)):
        text = walk.data[: change.start] + change.after.encode() + walk.data[change.end :]
        before = walk.data[change.start : change.end].decode()
        key = f"{change.where}: {_short(before)} => {_short(change.after)}"
        seen[key] += 1
        if seen[key] > 1:
            key += f" #{seen[key]}"
        yield Mutant(key, walk.data.count(b"\n", 0, change.start) + 1, _compiled(text.decode()))


def _short(text: str) -> str:
    return " ".join(text.split())


def _compiled(text: str) -> str:
    compile(text, "<mutant>", "exec")
    return text


@dataclass(frozen=True, slots=True)
class _Change:
    where: str
    start: int
    end: int
    after: str


class _Walk(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.data = source.encode()
        self.changes: list[_Change] = []
        self._lines = [0]
        for line in self.data.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._where: list[str] = []

    # --- places ---------------------------------------------------------------------------------------------------

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._lines[node.lineno - 1] + node.col_offset,
            self._lines[node.end_lineno - 1] + node.end_col_offset,
        )

    def _put(self, node: ast.expr | ast.stmt, after: ast.AST | str) -> None:
        start, end = self._span(node)
        text = after if isinstance(after, str) else ast.unparse(after)
        if isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Constant | ast.Call):
            text = f"({text})"
        self.changes.append(_Change(".".join(self._where) or "module", start, end, text))

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.data[start:end].decode()

    # --- what is looked into ----------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._where.append(node.name)
        for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
            self.visit(default)
        self._body(node.body)
        self._where.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._where.append(node.name)
        self._body(node.body)
        self._where.pop()

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text for people."""

    def visit_Raise(self, node: ast.Raise) -> None:
        self._put(node, "pass")

    def visit_Import(self, node: ast.Import) -> None:
        pass

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        pass

    # --- statements -------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if not isinstance(node.value, ast.Yield | ast.YieldFrom):
            self._put(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._where and all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._put(node, "pass")
        self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._put(node, "pass")
        if (other := _ARITHMETIC.get(type(node.op))) is not None:
            self._put(node, ast.AugAssign(node.target, other(), node.value))
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._put(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._put(node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._put(node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._put(node, "pass")
            return
        if not isinstance(node.value, ast.Constant):
            self._put(node, "return None")
        self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "__name__ == '__main__'":
            return
        self._test(node.test)
        self._body([*node.body, *node.orelse])

    def visit_While(self, node: ast.While) -> None:
        self._test(node.test)
        self._body([*node.body, *node.orelse])

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._test(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        for condition in node.ifs:
            self._put(condition, ast.Constant(value=True))
            self._test(condition)

    def _test(self, test: ast.expr) -> None:
        """Its opposite, where no other change makes it that."""
        if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.BoolOp | ast.NamedExpr | ast.Subscript):
            self._put(
                test, f"(not ({self._text(test)}))" if not isinstance(test, ast.BoolOp) else f"not ({self._text(test)})"
            )
        self.visit(test)

    # --- expressions ------------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, one in enumerate(node.ops):
            for other in _COMPARISONS[type(one)]:
                operators = [*node.ops]
                operators[place] = other()
                self._put(node, ast.Compare(node.left, operators, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._put(node, ast.BoolOp(other, node.values))
        for place in range(len(node.values)):
            left = [value for at, value in enumerate(node.values) if at != place]
            self._put(node, left[0] if len(left) == 1 else ast.BoolOp(node.op, left))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self._put(node, node.operand)
        if not isinstance(node.operand, ast.Constant):
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = any(isinstance(side, ast.JoinedStr) or _is_text(side) for side in (node.left, node.right))
        if not texts and (other := _ARITHMETIC.get(type(node.op))) is not None:
            self._put(node, ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._put(node, str(not node.value))
        elif isinstance(node.value, int | float):
            self._put(node, repr(node.value + 1 if abs(node.value) < 3 else node.value * 2))

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _OPPOSITES and len(node.args) > 0:
            self._put(node.func, _OPPOSITES[node.func.id])
        for place, dropped in enumerate(node.keywords):
            if dropped.arg in _FOR_PEOPLE:
                continue
            left = [keyword for at, keyword in enumerate(node.keywords) if at != place]
            self._put(node, ast.Call(node.func, node.args, left))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if isinstance(node.slice, ast.Constant | ast.UnaryOp | ast.Slice):
            self.visit(node.slice)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def count(source: str, of: Callable[[Mutant], bool] = lambda _: True) -> int:
    return sum(of(one) for one in mutants_of(source))
