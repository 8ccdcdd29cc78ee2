"""Exports that lack a column or name one differently: read by a known name, named as unused, or refused."""

from pathlib import Path

import pytest

from ebbtide.lab.simulator.trace.traces import Job, Reading, TraceError, find_trace

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425511,uXBbc,vcJkd,8,64,1,COMPLETED,2020-06-09 18:41:00,2020-06-09 18:41:10,2020-06-09 19:41:10,3600,10
1425512,uVMrF,vchbv,4,16,1,CANCELLED,2020-06-09 18:41:27,2020-06-09 18:45:36,2020-06-09 18:45:36,0,249
1425513,uVMrF,vchbv,0,4,1,FAILED,2020-06-09 18:42:00,2020-06-09 18:45:36,2020-06-09 18:45:36,0,216
"""
_KALOS = (
    "job_id,node_num,gpu_num,cpu_num,mem_per_pod_GB,type,state,submit_time,start_time,end_time,duration,queue,gpu_time",
    "a,8,64,960,1000,Other,FAILED,2023-05-17 11:00:00+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,8,10,9",
    "b,8,64,960,1000,Other,CANCELLED,2023-05-17 11:28:42+00:00,,2023-05-17 11:30:04+00:00,,,0",
)
KALOS = "\n".join(_KALOS) + "\n"
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0001,6000,12288,1,460,,LS,Succeeded,100,700,200
openb-pod-0002,12000,24576,2,1000,V100M16|V100M32,BE,Failed,150,800,300
openb-pod-0096,18708,64512,1,1000,,LS,Pending,160,20052,
openb-pod-0097,18708,64512,1,1000,,LS,Running,170,20052,171
"""
PAI = """\
job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type
j1,worker,4,Terminated,1000,1600,600,29.5,50,T4
"""
SACCT = """\
JobID|Partition|Submit|Start|End|Elapsed|AllocCPUS|AllocTRES
100|gpu|2026-05-04T09:00:00|2026-05-04T09:10:00|2026-05-04T11:10:00|02:00:00|8|cpu=8,mem=64G,node=1,gres/gpu=2
100.batch||2026-05-04T09:10:00|2026-05-04T09:10:00|2026-05-04T11:10:00|02:00:00|8|cpu=8,mem=64G,node=1
100.extern||2026-05-04T09:10:00|2026-05-04T09:10:00|2026-05-04T11:10:00|02:00:00|8|billing=8,cpu=8
101|cpu|2026-05-04T09:05:00|2026-05-04T09:06:00|2026-05-04T09:06:00|00:00:00|0|
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, reading: Reading | None = None) -> str:
    with pytest.raises(TraceError) as refused:
        find_trace(path, reading)
    return str(refused.value)


def without(text: str, *columns: str) -> str:
    rows = [line.split("|") for line in text.splitlines()]
    kept = [at for at, name in enumerate(rows[0]) if name not in columns]
    return "".join("|".join(row[at] for at in kept) + "\n" for row in rows)


def test_a_log_of_helios_gives_its_gpus_and_its_virtual_cluster_as_the_queue(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, HELIOS))

    assert [(job.queue, job.gpu, job.cpu, job.duration_s) for job in trace.jobs] == [
        ("vcJkd", 8, 64, 3600),
        ("vchbv", 0, 4, 0),  # a failure at its start took a worker
    ]
    assert "Left out: 1 row of jobs that were cancelled before their start, or had no allocation." in trace.summary
    assert "Columns not used: job_id, user, node_num, queue (" in trace.summary


def test_a_log_of_acme_multiplies_the_memory_of_a_pod_by_its_nodes(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, KALOS))

    assert [(job.queue, job.gpu, job.cpu, round(job.memory_gib)) for job in trace.jobs] == [
        ("Other", 64, 960, round(8 * 1000e9 / 2**30))
    ]
    assert "memory=mem_per_pod_GB*node_num" in trace.summary
    assert "Left out: 1 row of jobs that were cancelled" in trace.summary


def test_openb_has_thousandths_and_pods_that_never_ran_or_still_run(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, OPENB))

    assert trace.jobs == (Job(100, 500, "LS", 6, 12, 0.46), Job(150, 500, "BE", 12, 24, 2))
    assert "Left out: 2 rows of jobs that have not ended" in trace.summary


def test_pai_has_percent_for_each_instance(tmp_path: Path) -> None:
    columns = {"submitted_at": "start_time", "queue": "task_name"}
    (job,) = find_trace(written(tmp_path, PAI), Reading(columns=columns)).jobs

    assert (job.cpu, job.gpu, job.duration_s) == (24, 2, 600)
    assert job.memory_gib == pytest.approx(4 * 29.5e9 / 2**30)
    message = refusal(written(tmp_path, PAI.replace("inst_num", "instances")), Reading(columns=columns))
    assert "missing column inst_num" in message


def test_sacct_without_a_state_still_has_steps_and_jobs_that_never_started(tmp_path: Path) -> None:
    trace = find_trace(written(tmp_path, SACCT))

    assert trace.jobs == (Job(9 * 3600, 7200, "gpu", 8, 64, 2),)
    assert "Left out: 2 rows of job steps" in trace.summary
    assert "Left out: 1 row of jobs that were cancelled before their start" in trace.summary


def test_sacct_takes_the_cpus_of_a_column_where_the_resources_are_not_exported(tmp_path: Path) -> None:
    text = without(SACCT, "AllocTRES").replace("00:00:00|0\n", "00:00:00|4\n")
    trace = find_trace(written(tmp_path, text))

    assert [(job.queue, job.cpu, job.duration_s) for job in trace.jobs] == [("gpu", 8, 7200), ("cpu", 4, 0)]
    assert "states no CPUs" not in trace.summary
    assert "Without a duration: 1 job of 0 s" in trace.summary


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (["JobID"], "missing column JobID (without it steps count as jobs)"),
        (["Start"], "missing column State (without it, and without Start and End, jobs that have not ended count)"),
    ],
)
def test_sacct_without_what_tells_jobs_apart_is_refused(tmp_path: Path, columns: list[str], wanted: str) -> None:
    assert wanted in refusal(written(tmp_path, without(SACCT, *columns)))


@pytest.mark.parametrize(
    ("gres", "gpus"), [("gpu:2", 2), ("gpu:v100:4", 4), ("gres/gpu:tesla:1(IDX:0,3)", 1), ("craynetwork:1", 0), ("", 0)]
)
def test_older_slurm_states_gpus_as_generic_resources(tmp_path: Path, gres: str, gpus: float) -> None:
    row = f"1|gpu|2026-05-04T09:00:00|2026-05-04T09:10:00|2026-05-04T11:10:00|COMPLETED|8|16Gn|2|{gres}|billing=8"
    header = "JobID|Partition|Submit|Start|End|State|AllocCPUS|ReqMem|NNodes|AllocGRES|AllocTRES"
    (job,) = find_trace(written(tmp_path, f"{header}\n{row}\n")).jobs

    assert (job.cpu, job.memory_gib, job.gpu) == (8, 32, gpus)  # 16 GiB on each of two nodes


@pytest.mark.parametrize(
    ("header", "field", "names"),
    [
        ("gpus_requested", "gpu", "gpus_requested"),
        ("nvidia.com/gpu", "gpu", "nvidia.com/gpu"),
        ("cpus,gpus_per_node", "gpu", "gpus_per_node"),
        ("gpus,requested_cores", "cpu", "requested_cores"),
        ("cpu_cores", "cpu", "cpu_cores"),
        ("cpus,gpu_cards", "gpu", "gpu_cards"),
        ("cpus,accelerators", "gpu", "accelerators"),
    ],
)
def test_a_size_under_an_unknown_name_is_refused_and_never_replaced(
    tmp_path: Path, header: str, field: str, names: str
) -> None:
    cells = ",".join("8" for _ in header.split(","))
    path = written(tmp_path, f"created,duration,queue,{header}\n5,20,a,{cells}\n")

    kind = field.upper()
    assert (
        f"row 1: wanted the {kind}s of a job in a column whose name is known, found {names} (for example --columns "
        f"{field}={names}, if it has the {kind}s of the entire job; else leave that column out)"
    ) in refusal(path)
    assert [getattr(job, field) for job in find_trace(path, Reading(columns={field: names})).jobs] == [8]


def test_columns_about_gpus_that_are_no_amounts_are_named_and_the_file_is_not_said_to_state_nothing(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "created,duration,queue,gpu_type,cpu_time,max_rss\n5,20,a,T4,3,9\n")

    summary = find_trace(path).summary

    assert "Columns not used: gpu_type, cpu_time, max_rss (--columns FIELD=NAME reads one as a field)." in summary
    assert "The file states no" not in summary
    assert "No column that was read states CPUs or GPUs: every job takes one worker" in summary


def test_the_name_of_an_accelerator_is_no_amount(tmp_path: Path) -> None:
    path = written(tmp_path, "created,duration,queue,cpus,accelerator\n5,20,a,8,A100\n")

    assert "Columns not used: accelerator (" in find_trace(path).summary


def test_an_empty_cell_of_gpus_beside_cores_is_none_and_said(tmp_path: Path) -> None:
    text = PAI + "j2,ps,2,Terminated,2000,2500,600,29.5,,\n"
    reading = Reading(columns={"submitted_at": "start_time", "queue": "task_name"})

    trace = find_trace(written(tmp_path, text), reading)

    assert [(job.cpu, job.gpu) for job in trace.jobs] == [(24, 2), (12, 0)]
    assert "Without gpu: 1 job with cores only; no GPU was assumed." in trace.summary


def test_a_row_without_any_size_is_refused_where_gpus_are_stated(tmp_path: Path) -> None:
    path = written(tmp_path, "created,duration,queue,cpus,gpus\n5,20,a,,\n")

    assert "row 2, column gpus" in refusal(path)


def test_unread_memory_is_named_where_a_rule_replaces_it(tmp_path: Path) -> None:
    path = written(tmp_path, "created,duration,queue,cpus,mem_req_total\n5,20,a,2,16\n")

    assert "(a rule, not data; not read: mem_req_total)." in find_trace(path).summary


def test_states_count_in_any_table(tmp_path: Path) -> None:
    rows = "5,20,a,COMPLETED\n6,0,a,Cancelled by user\n7,30,a,Running\n8,9,a,cancelled\n"
    trace = find_trace(written(tmp_path, f"created,duration,queue,status\n{rows}"))

    assert [job.duration_s for job in trace.jobs] == [20, 9]
    assert "1 row of jobs that were cancelled before their start" in trace.summary
    assert "1 row of jobs that have not ended" in trace.summary


def test_the_wait_of_a_cluster_log_is_no_queue_without_the_number_of_nodes_either(tmp_path: Path) -> None:
    path = written(tmp_path, "vc,gpu_num,submit_time,duration,queue\nvcJkd,8,5,20,249\n")

    (job,) = find_trace(path).jobs

    assert (job.queue, job.gpu) == ("vcJkd", 8)
