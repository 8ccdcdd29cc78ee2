"""The section of exceptions: what is wrong with one is told, and a date that has passed is no error."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from tests.builders_settings import loaded, problem_of, problems_of, shortest

ONE = 'policy: EB019, resource: api, reason: "two people read it", until: "2027-01-31"'


def with_exceptions(*entries: str) -> str:
    return shortest(more="ebbtide:exceptions: [" + ", ".join(f"{{ {entry} }}" for entry in entries) + "]")


def without(key: str) -> str:
    return ", ".join(part for part in ONE.split(", ") if not part.startswith(key))


def test_an_exception_is_read(tmp_path: Path) -> None:
    (given,) = loaded(with_exceptions(ONE), tmp_path).exceptions

    assert (given.policy, given.resource, given.until) == ("EB019", "api", date(2027, 1, 31))


def test_without_the_section_nothing_is_excepted(tmp_path: Path) -> None:
    assert loaded(shortest(), tmp_path).exceptions == ()


@pytest.mark.parametrize("key", ["policy", "resource", "reason", "until"])
def test_each_key_is_required(key: str, tmp_path: Path) -> None:
    problem = problem_of(with_exceptions(without(key)), tmp_path)

    assert f"ebbtide:exceptions[0].{key}: wanted this key" in problem


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("EB019", "EB999", "[0].policy: wanted a policy from EB001 to EB038, found 'EB999'"),
        ('"two people read it"', '" "', "[0].reason: wanted the reason"),
        ("resource: api", 'resource: ""', "[0].resource: wanted the name of a resource"),
        ("2027-01-31", "2027-02-31", "[0].until: wanted a date of the calendar"),
        ("resource:", "ressource:", "did you mean resource?"),
    ],
)
def test_a_slip_is_told_with_its_place(old: str, new: str, told: str, tmp_path: Path) -> None:
    problems = problems_of(with_exceptions(ONE.replace(old, new)), tmp_path)

    assert any(told in str(problem) for problem in problems)


def test_all_slips_are_told_at_once(tmp_path: Path) -> None:
    problems = problems_of(with_exceptions(ONE.replace("EB019", "x"), without("until")), tmp_path)

    assert [problem.path for problem in problems] == ["ebbtide:exceptions[0].policy", "ebbtide:exceptions[1].until"]


def test_two_exceptions_for_the_same_thing_are_a_slip(tmp_path: Path) -> None:
    assert "found 'EB019' for 'api' twice" in problem_of(with_exceptions(ONE, ONE), tmp_path)


def test_a_mapping_is_not_a_list(tmp_path: Path) -> None:
    problem = problem_of(shortest(more="ebbtide:exceptions: { EB019: api }"), tmp_path)

    assert "ebbtide:exceptions: wanted a list, found a mapping" in problem


@pytest.mark.parametrize(
    ("today", "told"),
    [
        (date(2027, 1, 31), ""),
        (date(2027, 2, 1), "ended on 2027-01-31, so the policy counts again"),
        (date(2026, 1, 1), "more than a year away"),
    ],
)
def test_an_exception_that_has_ended_is_a_warning(today: date, told: str, tmp_path: Path) -> None:
    warnings = [w for w in warnings_of(loaded(with_exceptions(ONE), tmp_path), today) if w.startswith("exceptions[0]")]

    assert len(warnings) == (1 if told else 0)
    assert all(told in warning for warning in warnings)
