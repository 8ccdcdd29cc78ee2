"""Where a function can get a small fault, and that exactly this fault is made."""

import ast
from textwrap import dedent
from typing import Any

import pytest

from tools.mutants.sites import Site, mutated, sites


def changes(text: str, kind: str) -> list[str]:
    return [f"{site.expression} → {site.change}" for site in sites(ast.parse(dedent(text))) if site.kind == kind]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("comparison", "f(a < b)", ["a < b → a <= b", "a < b → a >= b"]),
        ("comparison", "f(a >= b)", ["a >= b → a > b", "a >= b → a < b"]),
        ("comparison", "f(a == b)", ["a == b → a != b"]),
        ("comparison", "f(a in b)", ["a in b → a not in b"]),
        ("term", "f(a and b)", ["a and b → b", "a and b → a"]),
        ("term", "f(a or b or c)", ["a or b or c → b or c", "a or b or c → a or c", "a or b or c → a or b"]),
        ("term", "f(a - b)", ["a - b → a", "a - b → -b"]),
        ("term", "f(max(a, 1))", ["max(a, 1) → 1", "max(a, 1) → a"]),
        ("term", "f(not a)", ["not a → a"]),
        ("term", "[a for a in b if a]", ["for a in b if a → no condition"]),
        ("branch", "if a:\n    b()", ["if a → if False"]),
        ("branch", "f(a if b else c)", ["a if b else c → a", "a if b else c → c"]),
        ("branch", "match a:\n    case 1:\n        b()\n    case _:\n        c()", ["case 1 → no case"]),
        ("default", "def f(a, b=1, *, c='x', d=None): ...", ["b = 1 → 1 becomes 2", "c = 'x' → 'x' becomes 'xx'"]),
        ("default", "class A:\n    b: bool = True", ["b = True → True becomes False"]),
        ("default", "A = timedelta(minutes=5)", ["A = timedelta(minutes=5) → 5 becomes 6"]),
        ("default", "f(a.get('b', 0))", ["get('b') = 0 → 0 becomes 1"]),
        ("default", "A = 'text for a reader'", []),
        ("branch", "if TYPE_CHECKING:\n    import a", []),
        ("term", "def f(a: 'b' + 'c'): ...", []),
        ("comparison", "assert a < b", []),
    ],
)
def test_each_kind_of_fault_is_offered_where_code_decides(kind: str, text: str, expected: list[str]) -> None:
    assert changes(text, kind) == expected


SOURCE = """
class Pool:
    def least(self, jobs, workers=2):
        if jobs > 3:
            return max(jobs, workers) - 1
        return 0 if jobs < 2 else jobs + 10
"""


@pytest.mark.parametrize(
    ("kind", "expression", "change", "results"),
    [
        ("comparison", "jobs > 3", "jobs >= 3", {1: 0, 2: 12, 3: 2, 4: 3}),
        ("default", "workers = 2", "2 becomes 3", {1: 0, 2: 12, 3: 13, 4: 3}),
        ("branch", "if jobs > 3", "if False", {1: 0, 2: 12, 3: 13, 4: 14}),
        ("branch", "0 if jobs < 2 else jobs + 10", "jobs + 10", {1: 11, 2: 12, 3: 13, 4: 3}),
        ("term", "max(jobs, workers) - 1", "max(jobs, workers)", {1: 0, 2: 12, 3: 13, 4: 4}),
        ("term", "max(jobs, workers) - 1", "-1", {1: 0, 2: 12, 3: 13, 4: -1}),
        ("term", "jobs + 10", "10", {1: 0, 2: 10, 3: 10, 4: 3}),
    ],
)
def test_a_function_has_one_fault_and_is_otherwise_unchanged(
    kind: str, expression: str, change: str, results: dict[int, int]
) -> None:
    tree = mutated(ast.parse(SOURCE), Site(kind, "Pool.least", expression, change))

    assert tree is not None
    names: dict[str, Any] = {}
    exec(compile(tree, "pool.py", "exec"), names)
    assert {jobs: names["Pool"]().least(jobs) for jobs in results} == results


def test_equal_expressions_of_a_function_are_told_apart_by_their_order() -> None:
    tree = ast.parse("def f(a, b):\n    return [a < 1, b, a < 1]")
    second = mutated(tree, Site("comparison", "f", "a < 1", "a <= 1", ordinal=1))

    assert second is not None
    assert ast.unparse(tree).count("a <= 1") == 0
    names: dict[str, Any] = {}
    exec(compile(second, "f.py", "exec"), names)
    assert names["f"](1, 0) == [False, 0, True]


def test_a_module_without_the_function_has_no_such_fault() -> None:
    assert mutated(ast.parse(SOURCE), Site("comparison", "Pool.most", "jobs > 3", "jobs >= 3")) is None
