"""Slips put in by hand, and who catches each first. The provider's need it; the policies' are found without."""

from datetime import date
from functools import cache

import pytest

from ebbtide.policies import judge
from ebbtide.policies.rule import PolicyResult
from ebbtide.recording.resources import Resource
from tests.aws.support.differences import EXCUSED
from tests.aws.support.faults import FAULTS, Fault
from tests.aws.support.inputs import objections
from tests.aws.support.provider import Provider
from tests.aws.support.stacks import recorded, settings_of
from tests.builders.policies import edited

TODAY = date(2026, 11, 22)


def slipped(fault: Fault) -> tuple[Resource, ...]:
    return edited(fault.resource, fault.path, fault.value)(recorded(fault.stack))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_the_policies_say_what_the_page_says_of(fault: Fault) -> None:
    new = _judged(fault.stack, slipped(fault)) - _sound(fault.stack)

    assert {result.code for result in new} == ({fault.policy} if fault.policy else set())


@pytest.mark.aws
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_the_provider_says_what_the_page_says_of(fault: Fault, provider: Provider) -> None:
    after = slipped(fault)
    changed = [new for new, old in zip(after, recorded(fault.stack), strict=True) if new is not old]

    said = [each for each in objections(provider, after, changed) if (each.type, each.path) not in EXCUSED]

    assert [each.path for each in sorted(said)][:1] == ([fault.at] if fault.at else []), said


def _judged(stack: str, resources: tuple[Resource, ...]) -> set[PolicyResult]:
    return set(judge(settings_of(stack), resources, TODAY))


@cache
def _sound(stack: str) -> set[PolicyResult]:
    return _judged(stack, recorded(stack))
