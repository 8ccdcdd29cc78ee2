"""Classify a PromQL query by its text: KEDA accepts one value, as a vector with one series.

Other results are errors, and the number of pods then stays unchanged forever. Scalars and texts are not vectors, so
such a query never works. A vector without aggregation works while there is only one series. Source:
`pkg/scalers/prometheus_scaler.go` of KEDA, ExecutePromQuery.

Trap: the parser is recursive and ends the process on a query of some ten thousand brackets, hence the maximum length.
"""

from typing import NamedTuple

from promql_parser import (
    AggModifierType,
    AggregateExpr,
    BinaryExpr,
    Call,
    Expr,
    MatrixSelector,
    NumberLiteral,
    ParenExpr,
    StringLiteral,
    SubqueryExpr,
    UnaryExpr,
    ValueType,
    VectorMatchCardinality,
    parse,
)

from ebbtide.text.one_line import collapsed

LONGEST = 4_000
"""In characters."""

_PICKS = ("topk", "bottomk", "limitk")
_NAMES_VALUES = ("count_values", "limit_ratio")
_ABSENT = ("absent", "absent_over_time")
_LABELS = ("label_replace", "label_join", "info")
_NEVER = (
    (ValueType.Scalar, "a scalar, which is no vector: vector() converts it"),
    (ValueType.Matrix, "a range of time, which is many values"),
    (ValueType.String, "a text"),
)


class _Outcome(NamedTuple):
    kind: ValueType
    single: bool  # at most one series, whatever the data
    bare: bool  # its series have no labels


_SERIES = _Outcome(ValueType.Vector, single=False, bare=False)


def query_fault(query: str) -> str:
    """Return why a query can never work; "" if it may."""
    if len(query) > LONGEST:
        return f"{len(query)} characters, and at most {LONGEST} are read"
    try:
        kind = _outcome(parse(query)).kind
    except ValueError as error:
        return f"no PromQL: {collapsed(error)}"
    except RecursionError:
        return "hundreds of nested brackets or signs"
    return next((fault for never, fault in _NEVER if kind == never), "")


def has_one_series(query: str) -> bool:
    """True if a valid query has at most one series, whatever the data."""
    return _outcome(parse(query)).single


def _outcome(node: Expr) -> _Outcome:
    match node:
        case ParenExpr() | UnaryExpr():
            return _outcome(node.expr)
        case NumberLiteral():
            return _Outcome(ValueType.Scalar, single=True, bare=True)
        case StringLiteral():
            return _Outcome(ValueType.String, single=True, bare=True)
        case SubqueryExpr():
            return _outcome(node.expr)._replace(kind=ValueType.Matrix)
        case MatrixSelector():
            return _SERIES._replace(kind=ValueType.Matrix)
        case Call():
            return _call_outcome(node)
        case AggregateExpr():
            return _aggregation_outcome(node)
        case BinaryExpr():
            return _binary_outcome(node)
        case _:
            return _SERIES


def _call_outcome(node: Call) -> _Outcome:
    name, arguments = node.func.name, [_outcome(argument) for argument in node.args]
    if name in _ABSENT:
        return _Outcome(ValueType.Vector, single=True, bare=False)
    single = all(argument.single for argument in arguments) or (
        name == "histogram_quantile" and _labels_kept(node.args[1]) == ["le"]
    )
    return _Outcome(
        node.func.return_type, single=single, bare=name not in _LABELS and all(argument.bare for argument in arguments)
    )


def _labels_kept(node: Expr) -> list[str] | None:
    """Return the labels that an aggregation keeps, or None if unknown."""
    if not isinstance(node, AggregateExpr) or str(node.op) in (*_PICKS, *_NAMES_VALUES):
        return None
    if node.modifier is None:
        return []
    return node.modifier.labels if node.modifier.type == AggModifierType.By else None


def _aggregation_outcome(node: AggregateExpr) -> _Outcome:
    labels, single = _labels_kept(node), _outcome(node.expr).single
    if str(node.op) in _PICKS and node.modifier is None:
        single = single or (isinstance(node.param, NumberLiteral) and node.param.val < 2)
    return _Outcome(ValueType.Vector, single=single or labels == [], bare=labels == [])


def _binary_outcome(node: BinaryExpr) -> _Outcome:
    """Combine two vectors: each series has at most one partner, except with `or`, `group_left` and `group_right`."""
    left, right = _outcome(node.lhs), _outcome(node.rhs)
    bare = left.bare and right.bare
    if left.kind == ValueType.Scalar or right.kind == ValueType.Scalar:
        kind = left.kind if right.kind == ValueType.Scalar else right.kind
        return _Outcome(kind, single=left.single and right.single, bare=bare)
    card = None if node.modifier is None else node.modifier.card
    match str(node.op):
        case "or":  # two series without labels are one, and the left one is taken
            single = left.single and right.single and bare
        case "and" | "unless":
            single = left.single
        case _ if card == VectorMatchCardinality.ManyToOne:
            single = left.single
        case _ if card == VectorMatchCardinality.OneToMany:
            single = right.single
        case _ if node.modifier is not None and node.modifier.matching is not None:  # a second partner is an error
            single = left.single and right.single
        case _:
            single = left.single or right.single
    return _Outcome(ValueType.Vector, single=single, bare=bare)
