"""Nodes by hour: from a replay, and from a file, every cell of which is checked."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ebbtide.lab.advice.savings.usage import Usage, read_usage, replayed_usage
from ebbtide.lab.simulator.results import ClusterSeries
from ebbtide.lab.simulator.trace.table import TraceError
from tests.builders.simulator import a_stack

HEADER = "hour,group,nodes"
HOURS = a_stack().business_hours.hours([2026])


def read(tmp_path: Path, *rows: str, header: str = HEADER) -> Usage:
    path = tmp_path / "usage.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return read_usage(path, a_stack())


def refused(tmp_path: Path, *rows: str, header: str = HEADER) -> list[str]:
    with pytest.raises(TraceError) as error:
        read(tmp_path, *rows, header=header)
    return [line.removeprefix(f"{tmp_path / 'usage.csv'}: ") for line in str(error.value).splitlines()]


def test_hours_of_a_replay_are_clock_hours_and_mean_nodes() -> None:
    series = ClusterSeries(at=(0.0, 1800.0 + 900.0, 7200.0), nodes={"flexible": (4, 2, 0)})

    usage = replayed_usage(series, datetime(2026, 6, 1, 11, 30, tzinfo=UTC), 3 * 3600.0, HOURS, "a replay")

    assert usage.nodes == {"flexible": (2.5, 1.0)}  # from 12:00: a quarter of 4 and the rest 2, then half an hour of 2


def test_an_hour_is_open_if_it_lies_in_business_hours_from_end_to_end() -> None:
    series = ClusterSeries(at=(0.0,), nodes={"flexible": (1,)})

    usage = replayed_usage(series, datetime(2026, 6, 1, 10, tzinfo=UTC), 15 * 3600.0, HOURS, "a replay")

    assert usage.open == (False, False, *[True] * 11, False, False)  # 08:00 to 19:00 in New York is 12:00 to 23:00 UTC


def test_a_group_that_an_hour_does_not_name_had_no_nodes(tmp_path: Path) -> None:
    usage = read(
        tmp_path,
        "2026-06-01T08:00:00-04:00,fixed,2",
        "2026-06-01T12:00Z,flexible,3.5",
        "2026-06-01T13:00:00+00:00,fixed,1",
    )

    assert usage.nodes == {"fixed": (2.0, 1.0), "flexible": (3.5, 0.0)}
    assert usage.open == (True, True)


def test_missing_hours_are_counted_and_are_not_idle(tmp_path: Path) -> None:
    usage = read(tmp_path, "2026-06-01T08:00Z,fixed,2", "2026-06-01T11:00Z,fixed,2")

    assert (usage.missing_hours, usage.nodes["fixed"]) == (2, (2.0, 2.0))


def test_all_faults_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:
    message = refused(
        tmp_path,
        "2026-06-01T08:00,fixed,2",
        "2026-06-01T08:30Z,fixed,2",
        "2026-06-01T08:00Z,fixd,2",
        "2026-06-01T08:00Z,fixed,-1",
        "2026-06-01T08:00Z,fixed",
        "2026-06-01T08:00Z,gpu,1",
        "2026-06-01T08:00Z,gpu,1",
    )

    hour, bad = "wanted the start of a clock hour of UTC from 2000 on, with a zone", "2026-06-01T08:00"
    assert message == [
        f"row 2, column hour: {hour}, found {bad!r} (for example 2026-06-01T08:00:00+00:00); 1 more like this",
        "row 4, column group: wanted one of the stack: fixed, flexible, gpu, found 'fixd'",
        "row 5, column nodes: wanted a number, 0 or more, found '-1' (for example 3.5)",
        "row 6: wanted 3 columns, found 2",
        "row 8, column group: wanted each hour and group once, found 'gpu a second time'",
    ]


def test_a_zone_that_is_half_an_hour_off_has_hours_at_half_past(tmp_path: Path) -> None:
    start = (datetime(2026, 6, 1, 8, tzinfo=UTC) + timedelta(hours=5, minutes=30)).replace(tzinfo=None).isoformat()

    assert read(tmp_path, f"{start}+05:30,fixed,1").hours == 1


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ((), HEADER, "found no hour at all"),
        ((), "hour,nodes", "row 1: no column group: found hour,nodes, wanted hour,group,nodes"),
        ((), "", "row 1: no column hour, group, nodes: found an empty file"),
    ],
)
def test_a_file_without_figures_is_refused(tmp_path: Path, rows: tuple[str, ...], header: str, message: str) -> None:
    (line,) = refused(tmp_path, *rows, header=header)

    assert line.startswith(message)


def test_a_line_that_is_no_csv_is_named(tmp_path: Path) -> None:
    long = "1" * (csv.field_size_limit() + 1)

    (line,) = refused(tmp_path, "2026-06-01T08:00Z,fixed,2", f"2026-06-01T09:00Z,fixed,{long}")

    assert line.startswith("row 3: wanted CSV: field larger than")


def test_a_spreadsheet_with_semicolons_is_read_too(tmp_path: Path) -> None:
    usage = read(tmp_path, "2026-06-01T12:00Z;flexible;3,5", header=HEADER.replace(",", ";"))

    assert usage.nodes == {"flexible": (3.5,)}


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        TraceError, match=r"nowhere\.csv: no such file; wanted a table with the columns hour,group,nodes"
    ):
        read_usage(tmp_path / "nowhere.csv", a_stack())
