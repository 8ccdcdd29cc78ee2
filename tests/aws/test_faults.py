"""Faults put in by hand, and who catches each first. Those of the provider's need it; ours are found without."""

from datetime import date
from functools import cache

import pytest

from ebbtide.policies import judge
from ebbtide.policies.rule import PolicyResult
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackInvalid, parse_stack
from tests.aws.support.differences import EXCUSED
from tests.aws.support.faults import FILE_FAULTS, PROGRAM_FAULTS, FileFault, ProgramFault, with_fault
from tests.aws.support.inputs import objections
from tests.aws.support.provider import Provider
from tests.aws.support.stacks import recorded, settings_of

TODAY = date(2026, 11, 22)


@pytest.mark.parametrize("fault", FILE_FAULTS, ids=lambda fault: fault.words)
def test_check_refuses(fault: FileFault) -> None:
    with pytest.raises(StackInvalid) as refused:
        parse_stack(with_fault(fault), stack="acme", file="Pulumi.acme.yaml")

    assert [problem.code for problem in refused.value.problems] == [fault.by]


@pytest.mark.parametrize("fault", PROGRAM_FAULTS, ids=lambda fault: fault.words)
def test_the_policies_say_what_the_page_says_of(fault: ProgramFault) -> None:
    new = _judged(fault.stack, fault.change(recorded(fault.stack))) - _sound(fault.stack)

    assert {result.id for result in new} == ({fault.policy} if fault.policy else set())


@pytest.mark.aws
@pytest.mark.parametrize("fault", PROGRAM_FAULTS, ids=lambda fault: fault.words)
def test_the_provider_says_what_the_page_says_of(fault: ProgramFault, provider: Provider) -> None:
    before = recorded(fault.stack)
    after = fault.change(before)
    changed = [new for new, old in zip(after, before, strict=True) if new is not old]

    said = [each for each in objections(provider, after, changed) if (each.type, each.path) not in EXCUSED]

    assert [each.path for each in sorted(said)][:1] == ([fault.at] if fault.at else []), said


def _judged(stack: str, resources: tuple[Resource, ...]) -> set[PolicyResult]:
    return set(judge(settings_of(stack), resources, TODAY))


@cache
def _sound(stack: str) -> set[PolicyResult]:
    return _judged(stack, recorded(stack))
