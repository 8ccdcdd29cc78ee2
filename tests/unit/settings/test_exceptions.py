"""The section of exceptions: faults are reported, and a past date is valid."""

from datetime import date
from pathlib import Path

import pytest

from ebbtide.settings import warnings_of
from ebbtide.settings.sections.exceptions import POLICY_IDS
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told

ONE = 'policy: EB019, resource: api, reason: "two people read it", until: "2027-01-31"'


def with_exceptions(*entries: str) -> str:
    return shortest(more="ebbtide:exceptions: [" + ", ".join(f"{{ {entry} }}" for entry in entries) + "]")


def without(key: str) -> str:
    return ", ".join(part for part in ONE.split(", ") if not part.startswith(key))


def test_an_exception_is_read(tmp_path: Path) -> None:
    (exception,) = loaded(with_exceptions(ONE), tmp_path).exceptions

    assert (exception.policy, exception.resource, exception.until) == ("EB019", "api", date(2027, 1, 31))


def test_without_the_section_nothing_is_excepted(tmp_path: Path) -> None:
    assert loaded(shortest(), tmp_path).exceptions == ()


@pytest.mark.parametrize("key", ["policy", "resource", "reason", "until"])
def test_each_key_is_required(key: str, tmp_path: Path) -> None:
    problem = problem_of(with_exceptions(without(key)), tmp_path)

    assert problem.tells("key.missing", f"ebbtide:exceptions[0].{key}:")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "EB019",
            "EB999",
            ("exception.policy", "[0].policy:", f"{POLICY_IDS[0]} to {POLICY_IDS[-1]}", "found 'EB999'"),
        ),
        ('"two people read it"', '" "', ("exception.form", "[0].reason:")),
        ("resource: api", 'resource: ""', ("exception.form", "[0].resource:")),
        ("2027-01-31", "2027-02-31", ("date.form", "[0].until:")),
        ("resource:", "ressource:", ("key.unknown", "did you mean resource?")),
    ],
)
def test_a_slip_is_told_with_its_place(old: str, new: str, words: tuple[str, ...], tmp_path: Path) -> None:
    problems = problems_of(with_exceptions(ONE.replace(old, new)), tmp_path)

    assert any(told(problem).tells(*words) for problem in problems)


def test_all_slips_are_told_at_once(tmp_path: Path) -> None:
    problems = problems_of(with_exceptions(ONE.replace("EB019", "x"), without("until")), tmp_path)

    assert [problem.path for problem in problems] == ["ebbtide:exceptions[0].policy", "ebbtide:exceptions[1].until"]


def test_two_exceptions_for_the_same_thing_are_a_slip(tmp_path: Path) -> None:
    assert problem_of(with_exceptions(ONE, ONE), tmp_path).tells("exception.twice", "found 'EB019' for 'api' twice")


def test_a_mapping_is_not_a_list(tmp_path: Path) -> None:
    problem = problem_of(shortest(more="ebbtide:exceptions: { EB019: api }"), tmp_path)

    assert problem.tells("type.list", "ebbtide:exceptions:", "found a mapping")


@pytest.mark.parametrize(
    ("today", "code"),
    [
        (date(2027, 1, 31), ""),
        (date(2027, 2, 1), "exception.ended"),
        (date(2026, 1, 1), "exception.long"),
    ],
)
def test_an_exception_that_has_ended_is_a_warning(today: date, code: str, tmp_path: Path) -> None:
    warnings = [
        caution
        for caution in warnings_of(loaded(with_exceptions(ONE), tmp_path), today)
        if caution.place[:13] == "exceptions[0]"
    ]

    assert [caution.code for caution in warnings] == ([code] if code else [])
    assert all("2027-01-31" in str(caution) for caution in warnings)
