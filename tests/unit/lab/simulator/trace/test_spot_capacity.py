"""Files of hours without spot capacity: what is read, and what is refused."""

from pathlib import Path
from textwrap import dedent

import pytest

from ebbtide.lab.simulator.trace.spot_capacity import CapacityEvent, CapacityRow, read_spot_capacity
from ebbtide.lab.simulator.trace.table import TraceError

HEADER = "from,until,zone,type,event,source\n"


def file(folder: Path, *rows: str, header: str = HEADER) -> Path:
    path = folder / "capacity.csv"
    path.write_text(header + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def refused(path: Path) -> list[str]:
    with pytest.raises(TraceError) as error:
        read_spot_capacity(path)
    return str(error.value).removeprefix(f"{path}: ").split(f"\n{path}: ")


def test_hours_and_interruptions_are_read_with_their_sources(tmp_path: Path) -> None:
    rows = ("0,7200,us-east-1a,g6.2xlarge,no-capacity,our account", "60,,use1-az1,,interruption,synthetic")
    read = read_spot_capacity(file(tmp_path, *rows))

    assert read.sources == ("our account", "synthetic")
    assert read.rows == (
        CapacityRow(
            begin=0.0,
            until=7200.0,
            dated=False,
            zone="us-east-1a",
            instance_type="g6.2xlarge",
            event=CapacityEvent.NO_CAPACITY,
        ),
        CapacityRow(
            begin=60.0, until=60.0, dated=False, zone="use1-az1", instance_type="", event=CapacityEvent.INTERRUPTION
        ),
    )


def test_times_may_have_dates(tmp_path: Path) -> None:
    rows = ("2026-06-01T00:00:00Z,2026-06-01T02:00:00Z,,,no-capacity,our account",)
    (row,) = read_spot_capacity(file(tmp_path, *rows)).rows

    assert (row.dated, row.until - row.begin) == (True, 7200)


def test_all_problems_are_named_at_once_with_their_rows(tmp_path: Path) -> None:
    path = file(
        tmp_path,
        "0,3600,us-east-1a,g6.2xlarg,no-capacity,ours",
        "0,3600,us-east-1a,,empty,ours",
        "3600,3600,us-east-1a,,no-capacity,ours",
        "soon,3600,us-east-1a,,no-capacity,ours",
        "0,,us-east-1a,,interruption,",
        "7,3600,us-east-1a,,empty,ours",
    )

    assert "\n".join(refused(path)) == dedent(
        """\
        row 2, column type: wanted a known instance type, or nothing for all, found 'g6.2xlarg' (for example g6.2xlarge)
        row 3, column event: wanted one of no-capacity, interruption, found 'empty' (for example no-capacity); 1 more like this
        row 4, column until: wanted a time after `from`, in the same form, found '3600' (for example 7200)
        row 5, column from: wanted seconds from time 0 of the trace, 0 to 31622400 (366 days), found 'soon' (for example 393)
        row 6, column source: wanted where the row comes from, found '' (for example synthetic)"""  # noqa: E501 - a message is one line
    )


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("2026-06-01T00:00,2026-06-01T02:00,,,no-capacity,ours", "column from: wanted a time with a zone"),
        ("0,2026-06-01T02:00:00Z,,,no-capacity,ours", "column until: wanted a time after `from`, in the same form"),
        ("0,,,,no-capacity,ours", "column until: wanted"),
    ],
)
def test_times_of_another_form_are_refused(tmp_path: Path, row: str, problem: str) -> None:
    assert problem in refused(file(tmp_path, row))[0]


def test_a_file_without_rows_or_without_a_source_is_refused(tmp_path: Path) -> None:
    example = "0,7200,us-east-1a,g6.2xlarge,no-capacity,synthetic"

    assert refused(file(tmp_path)) == [f"wanted at least one row, found none (for example {example})"]
    (problem,) = refused(file(tmp_path, header="from,until,zone,type,event\n"))
    assert problem.endswith(f"found from,until,zone,type,event, without source (for example a row {example})")
