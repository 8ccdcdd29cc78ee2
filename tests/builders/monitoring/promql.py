"""What an expression of Prometheus names: metrics, the labels it needs of them, and the values it asks for.

And what a text exposition holds, to compare with it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    LabelModifierType,
    MatrixSelector,
    NumberLiteral,
    ParenExpr,
    StringLiteral,
    VectorSelector,
    parse,
)

_SERIES = re.compile(r"^([A-Za-z_:]+)(?:\{(.*)\})? (\S+)(?: \d+)?$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Use:
    """One selector of an expression; `labels` are those that matchers, groupings and joins around it need."""

    metric: str
    labels: frozenset[str]
    asked: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)


def uses(expression: str) -> list[Use]:
    """Raises ValueError for what is no expression."""
    return [*_uses(parse(expression), frozenset())]


def outer_labels(expression: str) -> set[tuple[str, ...]]:
    """Those that the outermost aggregations keep, in the order in which they are named."""

    def kept(node: Expr) -> set[tuple[str, ...]]:
        match node:
            case AggregateExpr():
                return {tuple(node.modifier.labels)} if node.modifier is not None else {()}
            case BinaryExpr():
                return kept(node.lhs) | kept(node.rhs)
            case ParenExpr():
                return kept(node.expr)
            case _:
                return {("every",)}

    return kept(parse(expression))


def _uses(node: Expr, needed: frozenset[str]) -> Iterator[Use]:
    match node:
        case AggregateExpr():
            by = node.modifier
            assert by is None or by.type == AggModifierType.By, "`without` hides which labels are meant"
            kept = frozenset[str]() if by is None else frozenset(by.labels)
            assert needed <= kept, f"joined by labels that {node} does not keep"
            yield from _uses(node.expr, kept)
        case BinaryExpr():
            matching = node.modifier.matching if node.modifier is not None else None
            assert matching is None or matching.type == LabelModifierType.Include, "`ignoring` hides the labels"
            joined = needed if matching is None else frozenset(matching.labels)
            brought = frozenset((node.modifier.group_labels if node.modifier is not None else None) or ())
            yield from _uses(node.lhs, (needed - brought) | joined)
            yield from _uses(node.rhs, joined | brought)
        case Call():
            for argument in node.args:
                yield from _uses(argument, needed)
        case ParenExpr():
            yield from _uses(node.expr, needed)
        case MatrixSelector():
            yield from _uses(node.vector_selector, needed)
        case VectorSelector():
            asked = {matcher.name: matcher.value for matcher in node.matchers.matchers}
            yield Use(node.name or "", needed | asked.keys(), asked)
        case NumberLiteral() | StringLiteral():
            return
        case _:
            raise AssertionError(f"a kind of expression that this does not look into: {node}")


def series(exposition: str) -> Mapping[str, list[Mapping[str, str]]]:
    """The labels of each series of a text exposition, by metric."""
    return {name: [labels for labels, _ in found] for name, found in valued(exposition).items()}


def valued(exposition: str) -> Mapping[str, list[tuple[Mapping[str, str], float]]]:
    """The same with their values."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for name, labels, value in _SERIES.findall(exposition):
        found.setdefault(name, []).append((dict(_LABEL.findall(labels)), float(value)))
    return found
