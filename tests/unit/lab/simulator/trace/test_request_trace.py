"""Requests per window become synthetic work: none is lost, the shape is kept, and what is missing is named."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.trace.files import OpenFile
from ebbtide.lab.simulator.trace.requests import MEAN_WORKERS, batches_of
from ebbtide.lab.simulator.trace.table import Table, TraceRow
from ebbtide.lab.simulator.trace.traces import Trace, TraceError, find_trace

HEADER = "t_s,window_s,queue,requests,iat_cv,input_tokens,output_tokens"


def written(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "requests.csv"
    path.write_text("\n".join([HEADER, *(f"{row},,," for row in rows)]) + "\n", encoding="utf-8")
    return path


_NO_FILE = OpenFile(header=(), delimiter=",", rows=lambda _columns, _note: iter(()), done=lambda: 1.0)


def traced(tmp_path: Path, *rows: str) -> Trace:
    return find_trace(written(tmp_path, *rows))


def converted(windows: list[tuple[str, int]]) -> Trace:
    """Windows of 100 s, one after the other, each of one queue."""
    cells = [
        {"t_s": str(100 * i), "window_s": "100", "queue": q, "requests": str(n)} for i, (q, n) in enumerate(windows)
    ]
    rows = (TraceRow(i + 2, row) for i, row in enumerate(cells))
    return batches_of(Table(Path("made-up.csv"), _NO_FILE, print), "made-up", rows)


def test_a_batch_is_half_a_window_long_and_the_mean_is_ten_workers(tmp_path: Path) -> None:
    trace = traced(tmp_path, "0,600,m,3000", "600,600,m,1000")

    assert {job.duration_s for job in trace.jobs} == {300}
    assert sum(job.duration_s for job in trace.jobs) / 1200 == MEAN_WORKERS
    assert [sum(job.submitted_at // 600 == window for job in trace.jobs) for window in (0, 1)] == [30, 10]


def test_the_batches_of_a_window_are_spread_evenly_over_it(tmp_path: Path) -> None:
    first = [job.submitted_at for job in traced(tmp_path, "0,600,m,100").jobs]

    assert len(first) == 20
    assert [b - a for a, b in pairwise(first)] == [pytest.approx(30)] * 19
    assert (first[0], first[-1]) == (15, 585)


def test_a_window_without_any_queues_requests_is_missing_and_not_part_of_the_mean(tmp_path: Path) -> None:
    rows = ["0,600,a,10", "0,600,b,10", "600,600,a,0", "600,600,b,0", "1200,600,a,0", "1200,600,b,20", "3000,600,a,9"]
    trace = traced(tmp_path, *rows)

    assert trace.gaps == ((600, 1200), (1800, 3000), (3600, 86400))
    assert sum(job.duration_s for job in trace.jobs) / 1800 == pytest.approx(MEAN_WORKERS, abs=0.2)
    assert "23.5 hours between hours 0.1667 and 24 hold no data of any queue" in trace.assumptions[1]


def test_a_quiet_window_of_a_single_queue_is_quiet(tmp_path: Path) -> None:
    assert traced(tmp_path, "0,60,m,5", "60,60,m,0", "120,60,m,5").gaps == ((180, 86400),)


def test_a_file_that_ends_at_midnight_has_no_gap_at_its_end(tmp_path: Path) -> None:
    assert traced(tmp_path, "0,43200,m,5", "43200,43200,m,5").gaps == ()


def test_the_volume_is_scaled_and_the_assumption_says_by_how_much() -> None:
    trace = find_trace("requests-servegen-m-small")

    assert "every 35,890.8 requests of a queue became one batch of work of 300 s" in trace.assumptions[0]
    assert len(trace.jobs) * 35_890.8 == pytest.approx(1_420_558_786, rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["0,600,m,many"], "row 2, column requests: wanted a number from 0 to 1e12, found 'many' (for example 227350)"),
        (["0,0,m,1"], "row 2, column window_s: wanted a number from 1 to 86400, found '0'"),
        (["600,600,m,1", "0,600,m,1"], "row 3, column t_s: wanted a time not before the row above (600), found '0'"),
        (["0,600,m,1", "600,60,m,1"], "row 3, column window_s: wanted windows of one length, found '60'"),
        (["0,600,m,0"], "wanted at least one request in all, found 0 in 1 windows"),
        (["0,600,m,5e-324"], "wanted at least one request in all, found 4.94066e-324 in 1 windows"),
        (["0,600,m,1e308"], "row 2, column requests: wanted a number from 0 to 1e12, found '1e308'"),
        (
            ["0,600,a,0", "0,600,b,0", "300,600,a,9"],
            "row 4, column t_s: wanted the same window as the row above (0), or one after its end, found '300'",
        ),
        ([], "wanted at least one request in all, found 0 in 0 windows"),
    ],
)
def test_a_bad_window_is_named(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(TraceError) as caught:
        traced(tmp_path, *rows)

    assert message in str(caught.value)


def test_a_column_of_windows_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("t_s,window_s,queue,requests,requests\n0,600,m,1,2\n")

    with pytest.raises(TraceError, match="wanted every column once, found requests more often"):
        find_trace(path)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 10_000)), min_size=1, max_size=30))
def test_no_queue_gains_or_loses_more_than_half_a_batch(windows: list[tuple[str, int]]) -> None:
    requests: Counter[str] = Counter()
    for queue, count in windows:
        requests[queue] += count
    if not requests.total():
        return
    trace = converted(windows)
    per_batch = requests.total() * trace.jobs[0].duration_s / (MEAN_WORKERS * _known_s(windows))
    made = Counter(batch.queue for batch in trace.jobs)

    assert all(abs(made[queue] - requests[queue] / per_batch) <= 0.5 + 1e-6 for queue in requests)
    assert [batch.submitted_at for batch in trace.jobs] == sorted(batch.submitted_at for batch in trace.jobs)


def _known_s(windows: list[tuple[str, int]]) -> float:
    several = len({queue for queue, _ in windows}) > 1
    return 100.0 * sum(count > 0 or not several for _, count in windows)
