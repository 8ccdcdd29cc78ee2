"""The week: its meaning, contradictions, and that a swapped pair never inverts the protection."""

from pathlib import Path

import pytest

from ebbtide.settings.sections.week import format_week, parse_week
from ebbtide.vocabulary.windows import WeeklyInterval
from tests.builders.settings import problem_of, problems_of, shortest

WEEK = 'week: { mon-fri: "08:00-18:00" }'


def with_week(week: str) -> str:
    return shortest().replace(WEEK, f"week: {week}")


def test_ranges_lists_and_commas_are_intervals_of_their_day() -> None:
    week = parse_week({"mon-tue": "08:00-12:00, 13:00-24:00", "sat,sun": ["10:00-11:00"]})

    assert [(i.weekday, i.start, i.end) for i in week] == [
        (0, 480, 720),
        (0, 780, 1440),
        (1, 480, 720),
        (1, 780, 1440),
        (5, 600, 660),
        (6, 600, 660),
    ]


def test_plus_one_reaches_into_the_next_day() -> None:
    assert parse_week({"fri": "22:00-06:00+1"}) == (WeeklyInterval(4, 22 * 60, 30 * 60),)


def test_a_day_and_a_night_without_a_break_are_24_hours() -> None:
    assert parse_week({"sun": "08:00-08:00+1"}) == (WeeklyInterval(6, 480, 480 + 1440),)


def test_touching_intervals_do_not_contradict() -> None:
    assert len(parse_week({"mon": "22:00-06:00+1", "tue": "06:00-12:00"})) == 2


def test_the_week_is_shown_as_it_was_written() -> None:
    week = parse_week({"mon": "08:00-19:00", "tue-thu": "08:00-19:00", "sat": "22:00-06:00+1", "sun": "20:00-24:00"})

    assert format_week(week) == "mon-thu 08:00-19:00, sat 22:00-06:00+1, sun 20:00-24:00"


def test_a_swapped_pair_is_refused_and_both_ways_out_are_named(tmp_path: Path) -> None:
    assert problem_of(with_week('{ mon-fri: "18:00-08:00" }'), tmp_path) == (
        ":3: ebbtide:businessHours.week.mon-fri: wanted an interval that ends after it starts, found '18:00-08:00' "
        '(for example "08:00-19:00"); if it ends on the next day write "18:00-08:00+1"; '
        "if the times are swapped, swap them back"
    )


def test_all_faults_of_a_week_are_told(tmp_path: Path) -> None:
    text = with_week('{ mon: "18:00-08:00", tue: "08:00-18:00", wed: "8-18" }')

    assert [problem.path.rpartition(".")[2] for problem in problems_of(text, tmp_path)] == ["mon", "wed"]


@pytest.mark.parametrize(
    ("week", "keys"),
    [
        ('{ mon-thu: "19:00-08:00", wed: "09:00-10:00" }', ["week", "mon-thu"]),
        ('{ monday: "8-18", tue: "08:00-18:00" }', ["monday", "monday"]),
        ('{ mon: "08:00-12:00, 11:00-18:00", tue: "18:00-08:00" }', ["week", "tue"]),
        ('{ mon: ["8-18", 9, "18:00-08:00"] }', ["mon", "mon", "mon"]),
        ('{ mon: "08:00-20:00, 09:00-10:00, 15:00-16:00" }', ["week", "week"]),
        ('{ mon: "08:00-12:00", tue: "08:00-12:00", mon-tue: "9-10" }', ["week", "week", "mon-tue"]),
        ('{ "mon, mon": "08:00-12:00" }', ["week"]),
        ('{ mon-fri: "08:00-12:00, 11:00-18:00" }', ["week"]),  # five days, one slip
    ],
)
def test_no_fault_of_a_week_hides_another_and_none_is_told_twice(week: str, keys: list[str], tmp_path: Path) -> None:
    problems = problems_of(with_week(week), tmp_path)

    assert [problem.path.rpartition(".")[2] for problem in problems] == keys
    assert len(set(map(str, problems))) == len(problems)


@pytest.mark.parametrize(
    ("week", "words"),
    [
        ('{ mon-thu: "08:00-18:00", thu: "08:00-12:00" }', ("week.day-twice", "found thu in 'mon-thu' and in 'thu'")),
        ('{ mon: "08:00-12:00, 11:00-18:00" }', ("week.overlap", "08:00-12:00", "11:00-18:00")),
        ('{ mon: "22:00-06:00+1", tue: "05:00-12:00" }', ("week.overlap", "22:00-06:00+1", "05:00-12:00")),
        ('{ mon: "05:00-12:00", sun: "22:00-06:00+1" }', ("week.overlap", "22:00-06:00+1", "05:00-12:00")),
        (
            '{ fri-mon: "08:00-12:00" }',
            ("week.day-range", "found 'fri-mon', which runs past Sunday", "(for example fri-sun and mon)"),
        ),
        ('{ monday: "08:00-12:00" }', ("week.day", "found 'monday'")),
        ('{ mon: "08:00-08:00" }', ("interval.end",)),
        ('{ mon: "08:00-09:00+1" }', ("interval.too-long", "24")),
        ('{ mon: "24:00-06:00+1" }', ("interval.start",)),
        ('{ mon: "8:00-9:00" }', ("interval.form", "found '8:00-9:00'")),
        ('{ mon: "08:00-25:00" }', ("interval.time", "00:00", "24:00")),
        ('{ mon: "08:60-09:00" }', ("interval.time", "00:00", "24:00")),
        ("{ mon: [] }", ("week.intervals-type", "found a list")),
        ("{ mon: 8 }", ("week.intervals-type",)),
        ("{}", ("week.empty",)),
    ],
)
def test_a_week_that_contradicts_itself_is_refused(week: str, words: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(with_week(week), tmp_path).tells(*words)


@pytest.mark.parametrize(
    ("zone", "meant"),
    [("Berlin", "Europe/Berlin"), ("Europe/Berln", "Europe/Berlin"), ("america/new york", "America/New_York")],
)
def test_an_unknown_zone_names_the_one_that_was_meant(zone: str, meant: str, tmp_path: Path) -> None:
    text = shortest().replace("Europe/Berlin", zone)

    assert problem_of(text, tmp_path) == (
        f":3: ebbtide:businessHours.timezone: wanted an IANA time zone, found '{zone}' (for example Europe/Berlin); "
        f"did you mean {meant}?"
    )
