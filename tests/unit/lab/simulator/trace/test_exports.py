"""Exports of job databases: one table gives the same jobs in every format, with its calendar."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.lab.simulator.trace.traces import Job, Reading, TraceError, find_trace

pa: Any = import_module("pyarrow")  # has no types
pq: Any = import_module("pyarrow.parquet")

KOLKATA = Reading(zone="Asia/Kolkata")
HEADER = ("id", "created_at", "started_at", "finished_at", "queue_name", "cpus", "memory", "gpus")
ROWS = (
    ("1", "2026-05-04T09:00:00+05:30", "2026-05-04T09:01:00+05:30", "2026-05-04T10:01:00+05:30", "train", 4, "16Gi", 1),
    ("2", "2026-05-04T08:00:00.500+05:30", "2026-05-04T04:00:00Z", "2026-05-04T04:00:30Z", "prep", 2, "4GB", 0),
)
JOBS = (
    Job(8 * 3600 + 0.5, 30, "prep", 2, 4e9 / 2**30, 0),
    Job(9 * 3600, 3600, "train", 4, 16, 1),
)


def csv_text(delimiter: str = ",", rows: Any = ROWS, header: Any = HEADER) -> str:
    return "".join(delimiter.join(map(str, line)) + "\n" for line in (header, *rows))


def written(folder: Path, text: str | bytes, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(path: Path, reading: Reading | None = None) -> str:
    with pytest.raises(TraceError) as refused:
        find_trace(path, reading)
    return str(refused.value).removeprefix(f"{path}: ")


def parquet(path: Path, table: Any) -> Path:
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("jobs.csv", csv_text()),
        ("jobs.csv", csv_text(";").replace(".500", ",500")),
        ("jobs.tsv", csv_text("\t")),
        ("jobs.txt", csv_text("|")),
        ("jobs.csv", "\ufeff" + csv_text().replace("\n", "\r\n")),
        ("jobs.csv.gz", gzip.compress(csv_text().encode())),
        ("jobs.jsonl", "\n\n".join(json.dumps(dict(zip(HEADER, row, strict=True))) for row in ROWS)),
        ("jobs.json", json.dumps([dict(zip(HEADER, row, strict=True)) for row in ROWS], indent=2)),
        ("jobs.json", json.dumps({row[0]: dict(zip(HEADER, row, strict=True)) for row in ROWS})),
    ],
)
def test_each_format_gives_the_same_jobs(tmp_path: Path, name: str, content: str | bytes) -> None:
    trace = find_trace(written(tmp_path, content, name), KOLKATA)

    assert (trace.name, trace.jobs) == ("jobs", JOBS)
    assert trace.start == datetime.fromisoformat("2026-05-04T00:00+05:30")
    assert trace.summary.startswith("2 jobs, 2026-05-04 to 2026-05-04, times read as ISO 8601; submitted_at=created_at")


def test_parquet_with_its_own_types_gives_the_same_jobs(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {
        name: list(cells) for name, cells in zip(HEADER, zip(*ROWS, strict=True), strict=True)
    }
    for name in HEADER[1:4]:
        columns[name] = [datetime.fromisoformat(text) for text in columns[name]]

    assert find_trace(parquet(tmp_path / "jobs.parquet", pa.table(columns)), KOLKATA).jobs == JOBS


@given(
    st.lists(
        st.tuples(
            st.datetimes(datetime.fromisoformat("2026-03-01"), datetime.fromisoformat("2026-03-30")),
            st.integers(0, 10_000),
            st.sampled_from(["a", "b|c", 'd"e', "f;g,h"]),
            st.integers(0, 64),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_json_parquet_and_epochs_agree(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[datetime, int, str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    instants = [at.replace(tzinfo=UTC, microsecond=at.microsecond // 1000 * 1000) for at, *_ in rows]
    exact = [(at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1) for at in instants]
    objects = [
        {"submitted": at.isoformat(), "duration": seconds, "queue": queue, "cpu": cpu}
        for at, (_, seconds, queue, cpu) in zip(instants, rows, strict=True)
    ]
    lines = written(folder, "\n".join(map(json.dumps, objects)), "jobs.jsonl")
    epoch = written(
        folder, json.dumps([{**row, "submitted": at} for row, at in zip(objects, exact, strict=True)]), "e.json"
    )
    arrow = pa.table({name: [row[name] for row in objects] for name in objects[0]} | {"submitted": pa.array(instants)})

    trace = find_trace(lines)

    assert find_trace(epoch).jobs == trace.jobs
    assert find_trace(parquet(folder / "jobs.parquet", arrow)).jobs == trace.jobs
    assert trace.jobs[0].submitted_at < 86_400


def test_a_comma_is_the_decimal_sign_beside_semicolons(tmp_path: Path) -> None:
    path = written(tmp_path, "submitted_at;duration_s;queue;cpu;memory_gib;gpu\n0,5;60;a;1,5;2;0\n")

    assert find_trace(path).jobs == (Job(0.5, 60, "a", 1.5, 2, 0),)


def test_times_without_a_zone_are_in_the_stacks_or_in_the_chosen_one(tmp_path: Path) -> None:
    path = written(tmp_path, "created,duration,queue\n2026-05-04 00:30:00,60,a\n")

    own = find_trace(path, KOLKATA)
    chosen = find_trace(path, Reading(zone="Asia/Kolkata", timezone="UTC"))

    assert own.jobs[0].submitted_at == 1800
    assert "times read as ISO 8601 in Asia/Kolkata (--timezone sets another zone)" in own.assumptions[0]
    assert chosen.jobs[0].submitted_at == 6 * 3600
    assert "in UTC" in chosen.summary


def test_a_clock_change_neither_loses_nor_adds_an_hour_of_a_job(tmp_path: Path) -> None:
    header = "submitted,started,finished,queue\n"
    forward = "2026-03-29 01:30:00,2026-03-29 01:30:00,2026-03-29 03:30:00,a\n"
    back = "2026-10-25 02:50:00,2026-10-25 02:50:00,2026-10-25 02:10:00,a\n"

    jobs = [
        find_trace(written(tmp_path, header + row), Reading(zone="Europe/Berlin")).jobs[0] for row in (forward, back)
    ]

    assert [(job.submitted_at, job.duration_s) for job in jobs] == [(5400, 3600), (10_200, 1200)]


def test_a_span_of_days_is_chosen_and_replayed_from_its_midnight(tmp_path: Path) -> None:
    rows = "".join(f"2026-05-{day:02d}T12:00:00Z,60,a\n" for day in (9, 3, 4, 8, 5))
    path = written(tmp_path, f"created,duration,queue\n{rows}")

    first = find_trace(path, Reading(days=2))
    chosen = find_trace(path, Reading(since=datetime.fromisoformat("2026-05-04"), days=4))
    with_gap = find_trace(path, Reading(since=datetime(2026, 5, 5, tzinfo=UTC), days=3))

    assert (str(first.start), len(first.jobs), first.days) == ("2026-05-03 00:00:00+00:00", 2, 2)
    assert [job.submitted_at for job in chosen.jobs] == [43_200, 86_400 + 43_200]
    assert (chosen.days, with_gap.days, len(with_gap.jobs)) == (4, 3, 1)


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (
            Reading(),
            "and 366 days, found 5 jobs from 2026-05-03 to 2026-05-09 (for example --from 2026-05-08 --days 2)",
        ),
        (
            Reading(since=datetime.fromisoformat("2026-05-03"), days=5),
            "wanted a span of at most 2 jobs and 366 days, found 3 jobs from",
        ),
        (
            Reading(days=5),
            "since the rows are not in the order of submission (for example --from 2026-05-03 --days 5)",
        ),
        (
            Reading(since=datetime.fromisoformat("2026-06-01")),
            "wanted jobs in the days of --from and --days, found 5 rows, all of other",
        ),
    ],
)
def test_a_span_with_too_many_jobs_or_none_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reading: Reading, message: str
) -> None:
    monkeypatch.setattr("ebbtide.lab.simulator.trace.jobs.MOST_JOBS", 2)
    rows = "".join(f"2026-05-{day:02d}T12:00:00Z,60,a\n" for day in (9, 4, 5, 8, 3))

    assert message in refusal(written(tmp_path, f"created,duration,queue\n{rows}"), reading)


def test_a_span_that_fits_is_found_in_a_file_with_more_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.lab.simulator.trace.jobs.MOST_JOBS", 2)
    rows = "".join(f"2026-05-{day:02d}T12:00:00Z,60,a\n" for day in (4, 3, 9, 8, 5))
    seconds = "".join(f"{day * 86_400},60,a\n" for day in range(5))

    assert len(find_trace(written(tmp_path, f"created,duration,queue\n{rows}"), Reading(days=2)).jobs) == 2
    assert len(find_trace(written(tmp_path, f"submitted_at,duration_s,queue\n{seconds}"), Reading(days=2)).jobs) == 2
    assert "--from" not in refusal(written(tmp_path, f"submitted_at,duration_s,queue\n{seconds}"), Reading(days=3))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "created,duration,queue\n2026-05-04T10:00Z,1,a\n2026-05-04 10:00,1,a\n2026-05-04 11:00,1,a\n",
            "row 3, column created: wanted times with a zone, as in the rows above, found '2026-05-04 10:00'",
        ),
        (
            "created,started,ended,queue\n5,20,19,a\n6,7,8,a\n7,21,20,a\n",
            "wanted an end after its start, by at most 366 days, found '19 for a start at 20'; 1 more like this",
        ),
        (
            "created,duration,queue,memory\n5,20,a,16\n",
            "row 2, column memory: wanted bytes, at least a MiB, or an amount",
        ),
        (
            "created,duration,queue\n1767225600,1,a\n5,1,a\n",
            "row 3, column created: wanted epoch seconds, as in the rows",
        ),
        ("created,duration,queue\n2026-05-04T10:00Z,1,a\nsoon,1,a\n", "row 3, column created: wanted an ISO 8601 time"),
        (
            "created,duration,queue\n0001-01-01T00:00+05:30,1,a\n",
            "an ISO 8601 time of 1970 to 2999, found '0001-01-01T",
        ),
        (
            "created,duration,queue\n2026-05-04,1,a\n9999-12-31T23:59-08:00,1,a\n",
            "row 3, column created: wanted an ISO",
        ),
        (
            'created,duration,queue,memory\n5,20,a,"16,384 MB"\n',  # a comma is the decimal sign only beside semicolons
            "row 2, column memory: wanted bytes, at least a MiB, or an amount with its unit, found '16,384 MB'",
        ),
        (
            "created,elapsed,queue\n5,367-00:00:00,a\n",
            "row 2, column elapsed: wanted [D-]HH:MM:SS of at most 366 days, found '367-00:00:00'",
        ),
        ('{"created": 5, "duration": 6, "queue": "a"}\n[]\n', "row 2: wanted a JSON object, found something else"),
        ('[{"created": 5, "duration": 6, "queue": "a"}, {"cre', "wanted JSON: "),
        ("PAR1 and nothing", "wanted a Parquet file: "),
    ],
)
def test_a_fault_is_one_message_with_its_place_and_count(tmp_path: Path, text: str, message: str) -> None:
    found = refusal(written(tmp_path, text))

    assert message in found
    assert "\n" not in found


def test_a_column_that_parquet_lacks_is_named(tmp_path: Path) -> None:
    path = parquet(tmp_path / "jobs.parquet", pa.table({"created": [1], "queue": ["a"]}))

    assert "missing column duration_s (or started_at and finished_at): found created,queue, wanted" in refusal(path)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)

    assert refusal(written(tmp_path, "PAR1")) == (
        "Parquet needs pyarrow, which is not installed; pip install 'ebbtide[parquet]'"
    )


def test_columns_that_are_named_replace_the_recognized_ones(tmp_path: Path) -> None:
    path = written(tmp_path, "born,created_at,took,where,duration_s\n7,5,60,a,1\n")
    columns = {"submitted_at": "born", "duration": "took", "queue": "where"}

    trace = find_trace(path, Reading(columns=columns))

    assert trace.jobs == (Job(7, 60, "a", 0, 0, 0),)
    assert "missing column nowhere: found born," in refusal(path, Reading(columns={**columns, "gpu": "nowhere"}))


@pytest.mark.parametrize(("word", "gpus"), [("true", 1), ("Yes", 1), ("F", 0), ("off", 0), ("0", 0), ("2", 2)])
def test_a_column_that_says_whether_a_job_needs_a_gpu_counts_one(tmp_path: Path, word: str, gpus: int) -> None:
    path = written(tmp_path, f"created,duration,queue,cpus,needs_gpu\n5,60,a,4,{word}\n")

    trace = find_trace(path, Reading(columns={"gpu": "needs_gpu"}))

    assert [job.gpu for job in trace.jobs] == [gpus]
    rule = "needs_gpu says only whether a job needs a GPU: one GPU was assumed (a rule, not data)."
    assert (rule in trace.assumptions) == (not word.isdecimal())


def test_flags_of_json_and_parquet_count_too(tmp_path: Path) -> None:
    rows = [{"created": 5, "duration": 60, "queue": "a", "cpus": 4, "needs_gpu": flag} for flag in (True, False)]
    reading = Reading(columns={"gpu": "needs_gpu"})
    lines = written(tmp_path, "\n".join(map(json.dumps, rows)), "jobs.jsonl")
    table = parquet(tmp_path / "jobs.parquet", pa.Table.from_pylist(rows))

    assert [job.gpu for job in find_trace(lines, reading).jobs] == [1, 0]
    assert [job.gpu for job in find_trace(table, reading).jobs] == [1, 0]


@pytest.mark.parametrize("name", ["needs_gpu", "has_gpu", "uses_gpus", "is-gpu-job", "WantsGPU"])
def test_a_flag_for_gpus_is_not_passed_over_silently(tmp_path: Path, name: str) -> None:
    message = refusal(written(tmp_path, f"created,duration,queue,cpus,{name}\n5,60,a,4,true\n"))

    assert f"found {name} (for example --columns gpu={name}" in message


CUSTOMERS = "created,duration,queue,customer,tier\n5,60,a,acme,1\n6,60,b,globex,1\n7,60,c,acme,2\n8,60,d,,2\n"


@pytest.mark.parametrize(
    ("where", "queues"),
    [
        ({"customer": ("acme",)}, "ac"),
        ({"customer": ("acme", "globex")}, "abc"),
        ({"customer": ("acme",), "tier": ("2",)}, "c"),
        ({"customer": ("",)}, "d"),
        ({"queue": ("b",)}, "b"),
    ],
)
def test_only_rows_with_the_values_of_where_are_read(
    tmp_path: Path, where: dict[str, tuple[str, ...]], queues: str
) -> None:
    trace = find_trace(written(tmp_path, CUSTOMERS), Reading(where=where))

    assert "".join(job.queue for job in trace.jobs) == queues
    assert any(text.startswith(f"Left out: {4 - len(queues)} row") for text in trace.assumptions)
    assert not any("not used" in text and set(where) & set(text.split()) for text in trace.assumptions)


def test_a_bad_row_that_where_leaves_out_is_no_problem(tmp_path: Path) -> None:
    path = written(tmp_path, CUSTOMERS + "never,60,e,initech,1\n")

    assert len(find_trace(path, Reading(where={"customer": ("acme",)})).jobs) == 2
    assert "column created" in refusal(path)


def test_values_and_columns_of_where_that_the_file_lacks_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, CUSTOMERS)

    assert refusal(path, Reading(where={"customer": ("acmee", "acme")})) == (
        "--where customer=acmee: wanted a value of the column, found '', 'acme', 'globex'"
    )
    assert refusal(path, Reading(where={"custmer": ("acme",)})) == (
        "row 1: --where custmer: wanted a column of the file, found created,duration,queue,customer,tier"
    )


def test_an_export_without_sizes_says_that_a_job_takes_a_worker(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, "enqueued_at,duration,queue\n5,00:01:00,a\n6,1-00:00:00,a\n"))

    assert [(job.duration_s, job.cpu, job.memory_gib, job.gpu) for job in trace.jobs] == [
        (60, 0, 0, 0),
        (86_400, 0, 0, 0),
    ]
    assert "The file states no CPUs and no GPUs: every job takes one worker of its pool" in trace.assumptions[1]


def test_jobs_that_have_not_ended_are_counted_and_left_out(tmp_path: Path) -> None:
    at = "2026-05-04T10:00Z"
    rows = f"{at},,,a\n{at},{at},NULL,a\n{at},{at},2026-05-04T11:00Z,a\n"
    trace = find_trace(written(tmp_path, f"created_at,started_at,finished_at,queue\n{rows}"))

    assert len(trace.jobs) == 1
    assert "Left out: 2 rows of jobs that have not ended, by a missing time or the state." in trace.assumptions
    assert trace.summary.startswith("1 job, ")


def test_a_file_without_a_job_says_why_its_rows_are_left_out(tmp_path: Path) -> None:
    rows = "".join(f"{at},60,a,{state}\n" for at, state in enumerate(["running", "running", "pending"]))

    assert refusal(written(tmp_path, f"submitted_at,duration,queue,state\n{rows}")).endswith(
        "found no job at all; left out: 3 rows of jobs that have not ended, by a missing time or the state"
    )


def test_rq_jobs_whose_times_are_the_text_none_are_left_out(tmp_path: Path) -> None:
    at = "2026-05-04T10:00:00+00:00"
    rows = f"default,{at},{at},2026-05-04T10:01:00+00:00\ndefault,None,None,None\ndefault,{at},{at},None\n"

    trace = find_trace(written(tmp_path, f"origin,enqueued_at,started_at,ended_at\n{rows}"))

    assert [job.duration_s for job in trace.jobs] == [60]
    assert "Left out: 2 rows of jobs that have not ended, by a missing time or the state." in trace.assumptions


@pytest.mark.parametrize("columns", [{}, {"duration": "took_ms"}])
def test_a_duration_whose_name_says_milliseconds_is_read_as_such(tmp_path: Path, columns: dict[str, str]) -> None:
    name = columns.get("duration", "duration_ms")
    trace = find_trace(written(tmp_path, f"created,{name},queue\n5,1500,a\n"), Reading(columns=columns))

    assert trace.jobs[0].duration_s == 1.5
    assert f"{name} is read as milliseconds, by its name." in trace.summary


def test_memory_that_only_some_rows_state_is_counted(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, "created,duration,queue,cpus,memory\n5,1,a,2,16Gi\n6,1,a,2,\n"))

    assert [job.memory_gib for job in trace.jobs] == [16, 8]
    assert "Without memory: 1 job; 64 GiB per GPU, or 4 GiB per core" in trace.summary


def test_an_hour_that_clocks_skip_is_named_as_the_cause(tmp_path: Path) -> None:
    row = "2026-03-29 01:00,2026-03-29 02:30,2026-03-29 03:10,a"
    path = written(tmp_path, f"created,started,ended,queue\n{row}\n")

    assert (
        "row 2, column started: wanted a time that exists in Europe/Berlin, whose clocks skip this hour, found "
        "'2026-03-29 02:30' (for example --timezone UTC)"
    ) in refusal(path, Reading(zone="Europe/Berlin"))


SACCT = """\
JobID|JobName|Partition|Submit|Start|End|Elapsed|State|NCPUS|ReqMem|ReqTRES|AllocTRES
100|a "b|gpu|2026-05-04T09:00:00|2026-05-04T09:10:00|2026-05-04T11:10:00|02:00:00|FAILED||||cpu=8,gres/gpu:t=2,mem=64G
100.batch|batch||2026-05-04T09:10:00|2026-05-04T09:10:00|2026-05-04T11:10:00|02:00:00|COMPLETED|8|||cpu=8,mem=64G,node=1
100.extern|extern||2026-05-04T09:10:00|2026-05-04T09:10:00|2026-05-04T11:10:00|02:00:00|COMPLETED|8|||billing=8,cpu=8
101_1|prep|cpu|2026-05-04T08:00:00|2026-05-04T08:00:05|2026-05-05T09:00:05|1-01:00:00|TIMEOUT|2|4000M|cpu=2,mem=4000M|cpu=2,mem=4000M,node=1
102|prep|cpu|2026-05-04T08:30:00|2026-05-04T08:30:05|2026-05-04T08:31:05|00:01:00|CANCELLED by 1000|2|1500Mc||
103|late|cpu|2026-05-04T12:00:00|2026-05-04T12:00:05|Unknown|00:10:00|RUNNING|1|1Gn|cpu=1,mem=1G|cpu=1,mem=1G
104|late|cpu|2026-05-04T12:00:00|Unknown|Unknown|00:00:00|PENDING|1|1Gn|cpu=1,mem=1G|
"""


def test_sacct_leaves_out_steps_and_jobs_that_run_and_its_units_are_powers_of_1024(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, SACCT, "sacct.txt"), Reading(zone="Europe/Berlin"))

    assert trace.jobs == (
        Job(8 * 3600, 25 * 3600, "cpu", 2, 4000 / 1024, 0),
        Job(8.5 * 3600, 60, "cpu", 2, 2 * 1500 / 1024, 0),
        Job(9 * 3600, 7200, "gpu", 8, 64, 2),
    )
    assert "Left out: 2 rows of job steps, since a step's resources are its job's." in trace.assumptions
    assert "Left out: 2 rows of jobs that have not ended, by a missing time or the state." in trace.assumptions


def test_memory_that_slurm_does_not_write_is_refused(tmp_path: Path) -> None:
    found = refusal(written(tmp_path, SACCT.replace("1500Mc", "?"), "sacct.txt"))

    assert "row 6, column ReqMem: wanted Slurm's memory, found '?'" in found


def flower(uuid: str, **changes: Any) -> dict[str, Any]:
    """A task as Flower's /api/tasks shows it: `Task.as_dict` of Celery, with the worker's hostname."""
    none = dict.fromkeys(
        ("failed", "retried", "revoked", "rejected", "eta", "exception", "traceback", "client", "sent")
    )
    return {
        **none,
        "uuid": uuid,
        "name": "tasks.add",
        "state": "SUCCESS",
        "args": "[3, 4]",
        "kwargs": "{}",
        "retries": 0,
        "received": 1777888801.5,
        "started": 1777888802.0,
        "succeeded": 1777888862.0,
        "runtime": 59.99,
        "children": [],
        "exchange": "",
        "routing_key": "train",
        "timestamp": 1777888862.0,
        "worker": "celery@w1",
        **changes,
    }


def test_flowers_tasks_count_from_their_sending_and_else_from_their_receipt(tmp_path: Path) -> None:
    tasks = [
        flower("a", sent=1777888800.25),
        flower("b"),
        flower("c", state="FAILURE", succeeded=None, failed=1777888812.0, runtime=None),
        flower("d", state="STARTED", succeeded=None, runtime=None),
        flower("e", received=None, started=None),
    ]
    trace = find_trace(written(tmp_path, json.dumps({task["uuid"]: task for task in tasks}), "tasks.json"))

    assert str(trace.start) == "2026-05-04 00:00:00+00:00"
    assert [(job.submitted_at, job.duration_s, job.queue) for job in trace.jobs] == [
        (36_000.25, 60, "train"),
        (36_001.5, 60, "train"),
        (36_001.5, 10, "train"),
    ]
    assert any(
        sentence.startswith("Without a time of sending: 3 tasks, submitted here") for sentence in trace.assumptions
    )
    assert "Left out: 1 task whose sending and receipt Flower missed." in trace.assumptions
    assert "Left out: 1 row of jobs that have not ended, by a missing time or the state." in trace.assumptions


def test_the_colon_of_an_object_may_be_on_the_next_line(tmp_path: Path) -> None:
    text = json.dumps({"a": flower("a", sent=1777888800)}).replace('"a": {', '"a"\n: {')

    assert len(find_trace(written(tmp_path, text, "tasks.json")).jobs) == 1


def test_a_key_without_a_value_is_a_fault_of_the_file(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, '{"a"', "tasks.json")).startswith("wanted JSON: ")


def test_bounded_memory_needs_no_whole_line_of_a_large_document(tmp_path: Path) -> None:
    tasks = {
        f"{at:05d}": flower(f"{at:05d}", args="x" * 500, sent=1777888800 + at) for at in range(4_000)
    }  # 4 MB in a line

    assert len(find_trace(written(tmp_path, json.dumps(tasks), "tasks.json")).jobs) == 4_000


@pytest.mark.parametrize(("column", "number"), [("mem_kb", "4194304"), ("mem_KiB", "4194304"), ("ram_gib", "4")])
def test_the_unit_in_the_name_of_a_memory_column_counts(tmp_path: Path, column: str, number: str) -> None:
    path = written(tmp_path, f"created,duration,queue,cpu,{column}\n5,20,a,1,{number}\n")

    (job,) = find_trace(path, Reading(columns={"memory": column})).jobs

    assert job.memory_gib == pytest.approx(4, rel=0.03)
