"""Traces are read whole or refused with the place and an example."""

import gzip
from pathlib import Path

import pytest

from ebbtide.lab.simulator.trace.traces import TraceError, bundled, find_trace

HEADER = "submitted_at,duration_s,queue,cpu,memory_gib,gpu"


def written(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_the_bundled_trace_is_found_by_its_name() -> None:
    trace = find_trace("openb2023-a")

    assert (trace.name, len(trace.jobs), trace.days) == ("openb2023-a", 3326, 16)
    assert trace.assumptions == ()  # this one records everything


@pytest.mark.parametrize(
    ("name", "jobs", "days", "assumed"),
    [
        (
            "itp2021-a",
            24102,
            28,
            ["Without cpu: 24,102 jobs; 8 cores per GPU", "Without memory: 24,102 jobs; 64 GiB per"],
        ),
        ("surf2022-july", 45526, 28, ["Without memory: 45,526 jobs; 64 GiB per GPU, or 4 GiB per core"]),
        (
            "requests-servegen-m-small",
            39581,
            14,
            ["Synthetic: ", "6.17 hours between hours 172 and 317.8 hold no data"],
        ),
        ("requests-azure2023-code", 1160, 1, ["Synthetic: ", "23 hours between hours 0.9667 and 24 hold no data"]),
    ],
)
def test_the_other_bundled_traces_say_what_was_assumed(name: str, jobs: int, days: int, assumed: list[str]) -> None:
    trace = find_trace(name)

    assert name in bundled()
    assert (len(trace.jobs), trace.days, len(trace.assumptions)) == (jobs, days, len(assumed))
    assert all(result.startswith(start) for result, start in zip(trace.assumptions, assumed, strict=True))


def test_plain_and_gzipped_files_read_the_same(tmp_path: Path) -> None:
    plain = written(tmp_path, "0,60,a,1,2,0", "5.5,10,b,2,4,0.5")
    zipped = tmp_path / "jobs.csv.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))

    assert find_trace(plain) == find_trace(zipped)


def test_columns_may_come_in_any_order_with_others_between(tmp_path: Path) -> None:
    path = written(tmp_path, "x,2,0,4,60,7,q", header="note,cpu,gpu,memory_gib,duration_s,submitted_at,queue")

    job = find_trace(path).jobs[0]

    assert (job.submitted_at, job.duration_s, job.queue, job.cpu, job.memory_gib, job.gpu) == (7, 60, "q", 2, 4, 0)


def test_a_job_without_cpu_and_memory_gets_the_stated_share_of_its_gpus(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, "0,60,a,,,2"))

    assert (trace.jobs[0].cpu, trace.jobs[0].memory_gib) == (16, 128)
    assert [sentence.split(";")[0] for sentence in trace.assumptions[:2]] == [
        "Without cpu: 1 job",
        "Without memory: 1 job",
    ]


def test_a_fraction_of_a_gpu_is_kept_and_so_are_very_short_and_very_long_jobs_and_ties(tmp_path: Path) -> None:
    jobs = find_trace(written(tmp_path, "5,0.1,a,1,2,0.25", "5,2592000,b,1,2,1.5", "5,0.1,a,1,2,0.25")).jobs

    assert [(job.submitted_at, job.duration_s, job.gpu) for job in jobs] == [
        (5, 0.1, 0.25),
        (5, 2_592_000, 1.5),
        (5, 0.1, 0.25),
    ]


def test_a_hundred_thousand_rows_are_read(tmp_path: Path) -> None:
    assert len(find_trace(written(tmp_path, *(f"{i},60,a,1,2,0" for i in range(100_000)))).jobs) == 100_000


def test_a_day_without_a_submission_is_named_and_an_ordinary_night_is_not(tmp_path: Path) -> None:
    quiet = find_trace(written(tmp_path, "0,60,a,1,2,0", "43201,60,a,1,2,0"))
    trace = find_trace(written(tmp_path, "90000,60,a,1,2,0", "90001,60,a,1,2,0", "600000,60,a,1,2,0"))

    assert (quiet.gaps, quiet.assumptions) == ((), ())
    assert trace.gaps == ((0, 90000), (90001, 600000))
    assert len(trace.assumptions) == 1
    assert "24 hours or more 2 times, the longest from hour 25 to hour 166.7: played as idle" in trace.assumptions[0]


def test_a_day_that_is_empty_after_the_last_job_is_named(tmp_path: Path) -> None:
    (result,) = find_trace(written(tmp_path, "0,60,a,1,2,0", "3600,60,a,1,2,0")).assumptions

    assert result.startswith(
        "The last job is submitted at hour 1, and a replay of all days goes on to the end of that day"
    )


def test_memory_alone_may_be_missing_without_a_gpu(tmp_path: Path) -> None:
    assert find_trace(written(tmp_path, "0,60,a,16,,0")).jobs[0].memory_gib == 64


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["0,60,a,1,2,0", "5,soon,a,1,2,0"],
            "row 3, column duration_s: wanted seconds, 0 to 31622400 (366 days), found 'soon'",
        ),
        (["0,-60,a,1,2,0"], "row 2, column duration_s: wanted seconds, 0 to 31622400 (366 days), found '-60'"),
        (["0,60,a,nan,2,0"], "row 2, column cpu: wanted cores, 0 to 1000000, found 'nan'"),
        (["0,60,a,,2,0"], "row 2, column cpu: wanted cores, 0 to 1000000, found ''"),
        (["0,60,a,1,2"], "row 2: wanted 6 columns, found 5"),
        (["0,60,a,inf,2,0"], "row 2, column cpu: wanted cores, 0 to 1000000, found 'inf'"),
        (["0,1_000,a,1,2,0"], "row 2, column duration_s: wanted seconds, 0 to 31622400 (366 days), found '1_000'"),
        (["0,60,a,1,2,-1"], "row 2, column gpu: wanted GPUs, 0 to 100000, or true or false, found '-1'"),
        (
            ["0,60,a,1,2,0", "40000000,60,a,1,2,0"],
            "column submitted_at: wanted seconds from time 0 of the trace, 0 to 3",
        ),
        (['0,60,"a,1,2,0'], "row 2: wanted CSV: unexpected end of data"),
        ([], "wanted a header and at least one job, found no job at all"),
    ],
)
def test_a_bad_row_is_named_with_its_place(tmp_path: Path, rows: list[str], message: str) -> None:
    path = written(tmp_path, *rows)

    with pytest.raises(TraceError) as caught:
        find_trace(path)

    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_bad_cells_are_named_together(tmp_path: Path) -> None:
    path = written(tmp_path, "0,soon,a,x,2,0", "9,60,a,1,2", "8,60,a,1,nan,0", "-7,60,a,1,2,0")

    with pytest.raises(TraceError) as caught:
        find_trace(path)

    places = [line.removeprefix(f"{path}: ").split(":")[0] for line in str(caught.value).splitlines()]
    assert places == [
        "row 2, column duration_s",
        "row 2, column cpu",
        "row 3",
        "row 4, column memory_gib",
        "row 5, column submitted_at",
    ]


def test_of_a_cause_the_first_row_is_shown_and_the_others_are_counted(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        find_trace(written(tmp_path, *["0,soon,a,1,2,0"] * 1000))

    (line,) = str(caught.value).splitlines()
    assert "row 2, column duration_s: wanted seconds, 0 to 31622400 (366 days), found 'soon'" in line
    assert line.endswith("; 999 more like this")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            "t_s,window_s,queue,count",
            "missing column submitted_at, duration_s (or started_at and finished_at): found t_s,window_s,queue,count",
        ),
        ("submitted_at;duration_s", "missing column queue: found submitted_at,duration_s, wanted submitted_at,"),
        (HEADER + ",gpu", "wanted every column once, found gpu more often"),
    ],
)
def test_a_bad_header_is_named_beside_what_was_found(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        find_trace(written(tmp_path, "0,600,m,12", header=header))

    assert message in str(caught.value)


def test_a_job_after_a_year_is_refused_instead_of_replayed_day_by_day(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as caught:
        find_trace(written(tmp_path, "0,60,a,1,2,0", "31000000,60,a,1,2,0"))

    assert str(caught.value) == (
        f"{tmp_path}/jobs.csv: wanted a submission at least every 31 days, found none from second 0 to second 31000000 "
        "(for example --from and --days without that gap)"
    )


def test_a_quiet_month_is_read(tmp_path: Path) -> None:
    assert find_trace(written(tmp_path, "0,60,a,1,2,0", f"{31 * 86_400},60,a,1,2,0")).days == 32


@pytest.mark.parametrize("cell", ["1e7,60,a,1e7,2,0", "0,1e300,a,1,2,0", "0,60,a,1,1e300,0", "0,60,a,1,2,1e300"])
def test_amounts_that_no_machine_has_are_refused(tmp_path: Path, cell: str) -> None:
    with pytest.raises(TraceError, match=r"row 2, column (cpu|duration_s|memory_gib|gpu): wanted .* 0 to"):
        find_trace(written(tmp_path, cell))


def test_more_jobs_than_a_replay_takes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.lab.simulator.trace.jobs.MOST_JOBS", 3)

    assert len(find_trace(written(tmp_path, *["0,60,a,1,2,0"] * 3)).jobs) == 3
    with pytest.raises(TraceError, match="wanted at most 3 jobs, found 4"):
        find_trace(written(tmp_path, *["0,60,a,1,2,0"] * 4))


def test_an_empty_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.touch()

    with pytest.raises(TraceError, match="found an empty file"):
        find_trace(path)


def test_a_missing_file_names_the_bundled_traces(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere.csv: no such file \(bundled traces: itp2021-a, openb2023-a, "):
        find_trace(str(tmp_path / "nowhere.csv"))


def test_gzip_is_recognized_under_any_name_and_another_encoding_is_refused(tmp_path: Path) -> None:
    zipped, latin = tmp_path / "zipped.csv", tmp_path / "latin.csv"
    zipped.write_bytes(gzip.compress(f"{HEADER}\n0,60,a,1,2,0\n".encode()))
    latin.write_bytes(f"{HEADER}\n0,60,Z\u00fcrich,1,2,0\n".encode("latin-1"))

    assert len(find_trace(zipped).jobs) == 1
    with pytest.raises(TraceError, match=r"latin\.csv: wanted UTF-8 text, found another encoding"):
        find_trace(latin)


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_what_is_no_file_is_no_trace(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        find_trace(tmp_path / name)


def test_a_column_of_tasks_may_be_there_and_its_cells_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "drivers.csv"
    path.write_text("submitted_at,duration_s,queue,cpu,memory_gib,gpu,tasks\n0,60,q,1,2,0,40\n1,60,q,1,2,0,\n")

    assert [job.tasks for job in find_trace(path).jobs] == [40, 0]


@pytest.mark.parametrize("cell", ["0", "1.5", "-1", "100001", "many", "nan"])
def test_what_is_no_number_of_tasks_is_named_once_with_its_place(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "drivers.csv"
    path.write_text(f"submitted_at,duration_s,queue,cpu,memory_gib,gpu,tasks\n0,60,q,1,2,0,{cell}\n")

    with pytest.raises(TraceError) as refused:
        find_trace(path)

    assumptions = (
        f"{path}: row 2, column tasks: wanted a whole number of tasks, 1 to 100000, or nothing, found {cell!r}"
    )
    assert str(refused.value) == f"{assumptions} (for example 40)"


def test_more_tasks_than_a_replay_can_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "drivers.csv"
    rows = "".join(f"{at},60,q,1,2,0,100000\n" for at in range(6))
    path.write_text(f"submitted_at,duration_s,queue,cpu,memory_gib,gpu,tasks\n{rows}")

    with pytest.raises(TraceError, match="wanted at most 500000 tasks of all jobs together, found 600000"):
        find_trace(path)
