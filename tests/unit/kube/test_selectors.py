"""Expressions of label selectors, with known labels and with labels that a node may still get."""

import pytest

from ebbtide.kube.selectors import may_hold

LABELS = {"arch": frozenset(("amd64",)), "type": frozenset(("m7i.large", "m7i.xlarge"))}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds", "holds_if_unknown"),
    [
        ("arch", "In", ["amd64", "arm64"], True, True),
        ("arch", "In", ["arm64"], False, False),
        ("type", "In", ["m7i.large"], True, True),
        ("zone", "In", ["a"], False, True),
        ("arch", "NotIn", ["amd64"], False, False),
        ("type", "NotIn", ["m7i.large"], True, True),
        ("zone", "NotIn", ["a"], True, True),
        ("arch", "Exists", [], True, True),
        ("zone", "Exists", [], False, True),
        ("arch", "DoesNotExist", [], False, False),
        ("zone", "DoesNotExist", [], True, True),
        ("arch", "Gt", ["1"], False, False),
        ("zone", "Gt", ["1"], False, True),
    ],
)
def test_an_expression_can_be_met(
    key: str, operator: str, values: list[str], *, holds: bool, holds_if_unknown: bool
) -> None:
    assert may_hold(LABELS, key, operator, values) is holds
    assert may_hold(LABELS, key, operator, values, may_exist=lambda _: True) is holds_if_unknown
