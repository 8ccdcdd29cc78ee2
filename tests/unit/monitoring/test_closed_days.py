"""Prometheus and the calendar agree on closed days. Its time in tests begins with 1970."""

import json
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.monitoring.closed_days import closed_day, is_closed
from ebbtide.vocabulary.windows import BusinessHours, DatedInterval, WeeklyInterval

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH (Debian's package prometheus has it)"),
]

SINCE = date(1970, 1, 1)
FEASTS = frozenset({date(1970, 5, 1), date(1970, 12, 25), date(1970, 12, 26), date(1971, 1, 1)})  # three stretches


WORKED = (date(1970, 5, 2), date(1970, 12, 12), date(1970, 12, 25), date(1971, 1, 2))  # Saturdays, and a closed date


def hours(zone: str, days: range, closed: frozenset[date] = FEASTS) -> BusinessHours:
    week = tuple(WeeklyInterval(day, 9 * 60, 17 * 60) for day in days)
    worked = frozenset(DatedInterval(day, 9 * 60, 12 * 60) for day in WORKED if closed)
    return BusinessHours(timezone=zone, week=week, closed_dates=closed, open_dates=worked)


def by_prometheus(folder: Path, expr: str, minutes: list[int]) -> list[bool]:
    queries = [{"expr": expr, "eval_time": f"{at}m", "exp_samples": [{"labels": "{}", "value": -1}]} for at in minutes]
    document = {"evaluation_interval": "10d", "tests": [{"interval": "10d", "promql_expr_test": queries}]}
    (folder / "tests.json").write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run([PROMTOOL or "", "test", "rules", "tests.json"], cwd=folder, capture_output=True, text=True)
    got = [line for line in (done.stdout + done.stderr).splitlines() if "got:" in line]
    assert len(got) == len(minutes), done.stderr[:2000]
    return [bool(float(line.split()[-1])) for line in got]


@pytest.mark.parametrize(
    ("zone", "days"),
    [
        ("America/New_York", range(5)),
        ("Europe/Rome", range(6)),  # with a change of clocks in 1970
        ("Asia/Kolkata", range(7)),
        ("Pacific/Auckland", range(1, 5)),
    ],
)
def test_a_day_is_closed_where_the_calendar_says_so_from_midnight_to_midnight(
    zone: str, days: range, tmp_path: Path
) -> None:
    of = hours(zone, days)
    midnights = (datetime(1970, 1, 2, tzinfo=UTC) + day * timedelta(days=1) for day in range(370))
    instants = [midnight - (of.local(midnight).utcoffset() or timedelta()) for midnight in midnights]
    minutes = [round(it.timestamp() / 60) + off for it in instants for off in (-1, 1, 720)]
    closed = by_prometheus(tmp_path, closed_day(of, SINCE), minutes)

    assert closed == [is_closed(of, of.local(datetime.fromtimestamp(60 * minute, UTC)).date()) for minute in minutes]
    assert 0 < sum(closed) < len(closed)
    saturday = datetime(1970, 12, 12, 12, tzinfo=UTC) - (of.local(instants[0]).utcoffset() or timedelta())
    assert by_prometheus(tmp_path, closed_day(of, SINCE), [round(saturday.timestamp() / 60)]) == [False]


def test_without_any_closed_day_it_is_always_0(tmp_path: Path) -> None:
    expr = closed_day(hours("UTC", range(7), frozenset()), SINCE)

    assert by_prometheus(tmp_path, expr, [0, 60 * 24 * 3]) == [False, False]


def test_holidays_that_are_over_are_not_asked_for_again() -> None:
    def stretches(since: date) -> int:
        return closed_day(hours("UTC", range(7)), since).count("time() <")

    assert [stretches(date(1970, 1, 1)), stretches(date(1970, 6, 1)), stretches(date(1971, 1, 2))] == [6, 4, 1]
    assert stretches(date(1971, 1, 3)) == 0
