"""Requests per window as counts: what is missing stays missing, and what is idle is zero."""

from pathlib import Path

import pytest

from ebbtide.lab.simulator.trace.counted import find_requests
from ebbtide.lab.simulator.trace.table import TraceError


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "asked.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_window_without_any_request_of_several_queues_is_missing_and_one_of_a_queue_alone_is_quiet(
    tmp_path: Path,
) -> None:
    rows = ["0,60,a,5,2.5", "0,60,b,0,", "60,60,a,0,", "60,60,b,0,", "180,60,b,4,"]
    trace = find_requests(written(tmp_path, "\n".join(["t_s,window_s,queue,requests,iat_cv", *rows])))

    assert trace.queues["a"].counts == (5, None, None, 0)
    assert trace.queues["a"].cv == (2.5, 1, 1, 1)
    assert trace.queues["b"].counts == (0, None, None, 4)
    assert trace.totals == (5, None, None, 4)
    assert trace.only("b").totals == (0, None, None, 4)


def test_the_bundled_trace_has_eleven_queues_and_37_windows_are_missing() -> None:
    trace = find_requests("requests-servegen-m-small")

    assert (len(trace.queues), trace.days, trace.totals.count(None)) == (11, 14, 37)
    assert sum(count or 0 for count in trace.totals) == pytest.approx(1_420_558_786)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("submitted_at,duration_s\n1,2\n", "wanted t_s,window_s,queue,requests (requests per window)"),
        ("t_s,window_s,queue,requests\n0,60,a,0\n", "wanted at least one request in all"),
        ("t_s,window_s,queue,requests\n0,60,a,many\n", "row 2, column requests"),
        ("t_s,window_s,queue,requests\n", "wanted at least one request in all"),
    ],
)
def test_a_file_that_counts_nothing_is_refused_with_its_place(tmp_path: Path, text: str, wanted: str) -> None:
    with pytest.raises(TraceError) as error:
        find_requests(written(tmp_path, text))

    assert wanted in str(error.value)


def test_a_queue_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(TraceError, match=r"wanted one of its queues, found 'chat'.*the trace has code"):
        find_requests("requests-azure2023-code").only("chat")


def test_a_variation_that_is_no_number_is_refused_and_not_replaced(tmp_path: Path) -> None:
    text = "t_s,window_s,queue,requests,iat_cv\n0,600,a,5,1.5\n600,600,a,5,bursty\n1200,600,a,5,\n"

    with pytest.raises(TraceError, match="row 3, column iat_cv: wanted a number from 0"):
        find_requests(written(tmp_path, text))
