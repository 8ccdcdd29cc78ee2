"""The number of rules for adopted pods, which one admission policy holds."""

from typing import Any

import pytest

from ebbtide.settings import StackInvalid
from ebbtide.settings.sections.adopted import MOST_RULES
from tests.builders.adoption import stack_with


def rules(number: int) -> dict[str, Any]:
    return {f"rule-{index}": {"selector": {"app": f"app-{index}"}} for index in range(number)}


def test_as_many_rules_as_one_policy_holds_are_accepted() -> None:
    assert len(stack_with(**rules(MOST_RULES)).adopted) == MOST_RULES


def test_more_rules_are_one_error() -> None:
    with pytest.raises(StackInvalid, match="ebbtide:adopted: wanted no more than 200 rules, found 201"):
        stack_with(**rules(MOST_RULES + 1))
