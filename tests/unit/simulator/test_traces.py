"""Traces are read whole or refused with the place and an example."""

import gzip
from pathlib import Path

import pytest

from ebbtide.simulator.traces import TraceError, bundled, find_trace, read_trace

HEADER = "submitted_at,duration_s,queue,cpu,memory_gib,gpu"


def written(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_the_bundled_trace_is_found_by_its_name() -> None:
    trace = find_trace("openb2023-a")

    assert bundled() == ("openb2023-a",)
    assert (trace.name, len(trace.jobs), trace.days) == ("openb2023-a", 3326, 16)
    assert trace.assumptions == ()  # this one records everything


def test_plain_and_gzipped_files_read_the_same(tmp_path: Path) -> None:
    plain = written(tmp_path, "0,60,a,1,2,0", "5.5,10,b,2,4,0.5")
    zipped = tmp_path / "jobs.csv.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))

    assert read_trace(plain) == read_trace(zipped)


def test_columns_may_come_in_any_order_with_others_between(tmp_path: Path) -> None:
    path = written(tmp_path, "x,2,0,4,60,7,q", header="note,cpu,gpu,memory_gib,duration_s,submitted_at,queue")

    job = read_trace(path).jobs[0]

    assert (job.submitted_at, job.duration_s, job.queue, job.cpu, job.memory_gib, job.gpu) == (7, 60, "q", 2, 4, 0)


def test_a_job_without_cpu_and_memory_gets_the_stated_share_of_its_gpus(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, "0,60,a,,,2"))

    assert (trace.jobs[0].cpu, trace.jobs[0].memory_gib) == (16, 128)
    assert [said.split(":")[0] for said in trace.assumptions] == ["1 jobs state no cpu", "1 jobs state no memory"]


def test_memory_alone_may_be_missing_without_a_gpu(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, "0,60,a,16,,0")).jobs[0].memory_gib == 64


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["0,60,a,1,2,0", "5,soon,a,1,2,0"], "row 3, column duration_s: wanted a number, 0 or more, found 'soon'"),
        (["0,-60,a,1,2,0"], "row 2, column duration_s: wanted a number, 0 or more, found '-60'"),
        (["0,60,a,nan,2,0"], "row 2, column cpu: wanted a number, 0 or more, found 'nan'"),
        (["0,60,a,,2,0"], "row 2, column cpu: wanted a number, 0 or more, found ''"),
        (["9,60,a,1,2,0", "3,60,a,1,2,0"], "row 3, column submitted_at: wanted a time not before the row above (9)"),
        (["0,60,a,1,2"], "row 2: wanted 6 columns, found 5"),
        ([], "wanted a header and at least one job, found no job at all"),
    ],
)
def test_a_bad_row_is_named_with_its_place(tmp_path: Path, rows: list[str], said: str) -> None:
    path = written(tmp_path, *rows)

    with pytest.raises(TraceError) as caught:
        read_trace(path)

    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_named_beside_what_was_found(tmp_path: Path) -> None:
    path = written(tmp_path, "0,600,m,12", header="t_s,window_s,queue,requests")

    with pytest.raises(
        TraceError, match=r"missing column submitted_at, duration_s, .*found t_s,window_s,queue,requests"
    ):
        read_trace(path)


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.touch()

    with pytest.raises(TraceError, match="found an empty file"):
        read_trace(path)


def test_a_missing_file_names_the_bundled_traces(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere.csv: no such file \(bundled traces: openb2023-a\)"):
        find_trace(str(tmp_path / "nowhere.csv"))


@pytest.mark.parametrize(
    "data", [b"no gzip at all", gzip.compress(b"submitted_at", mtime=0)[:-6], gzip.compress(b"\xff\xfe\x00", mtime=0)]
)
def test_a_broken_file_is_refused_without_a_traceback(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(data)

    with pytest.raises(TraceError, match=r"jobs\.csv\.gz: wanted"):
        read_trace(path)


def test_a_folder_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        read_trace(tmp_path)
