"""The sections of jobs and cron jobs: defaults and refusals."""

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest

from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.sections.jobs import Concurrency, cron_times, parse_cron
from ebbtide.settings.summary import summary
from tests.builders.existing import onprem
from tests.builders.recorded import record
from tests.builders.settings import loaded, problem_of, problems_of, shortest

JOB = 'image: "example.com/db:1", cpu: 1, memory: 2Gi, longestRun: 2h'
SPOT = "ebbtide:nodeGroups: { flexible: {}, spot: { max: 4 } }"


def job(more: str = "", *, name: str = "migrate", beside: str = "") -> str:
    return shortest(more=f"ebbtide:jobs: {{ {name}: {{ {JOB}{', ' + more if more else ''} }} }}\n{beside}")


def cron(more: str = "", *, schedule: str = "30 2 * * 1-5") -> str:
    entry = f'{{ {JOB}, schedule: "{schedule}"{", " + more if more else ""} }}'
    return shortest(more=f"ebbtide:cronJobs: {{ nightly: {entry} }}")


def test_a_job_runs_once_on_the_cheapest_group_and_is_not_retried(tmp_path: Path) -> None:
    migrate = loaded(job(), tmp_path).jobs["migrate"]

    assert (migrate.node_group, migrate.completions, migrate.parallelism, migrate.retries) == ("flexible", 1, 1, 0)
    assert migrate.longest_run == timedelta(hours=2)


def test_a_job_finds_redis_in_the_secret_that_ebbtide_writes(tmp_path: Path) -> None:
    text = job("env: { REDIS_URL: { secret: ebbtide-redis, key: url } }")

    resources = record(loaded(text, tmp_path))
    created = {
        (name_of(resource), namespace_of(resource)): resource
        for resource in resources
        if kind_of(resource) in ("Job", "Secret")
    }
    runs = created["migrate", "ebbtide-workers"]
    env = runs.inputs["spec"]["template"]["spec"]["containers"][0]["env"]
    assert env == [{"name": "REDIS_URL", "valueFrom": {"secretKeyRef": {"name": "ebbtide-redis", "key": "url"}}}]
    assert created["ebbtide-redis", "ebbtide-workers"].urn in after(runs, resources), "a Job runs at once"


def after(resource: Resource, resources: Sequence[Resource]) -> set[str]:
    """Return what is registered before a resource: dependencies of it and of its component, and their children."""
    component = next(other_resource for other_resource in resources if other_resource.urn == resource.parent)
    before = {*resource.depends_on, *component.depends_on}
    while more := {other_resource.urn for other_resource in resources if other_resource.parent in before} - before:
        before |= more
    return before


def test_a_key_that_redis_secret_never_has_is_refused(tmp_path: Path) -> None:
    problem = problem_of(job("env: { REDIS_URL: { secret: ebbtide-redis, key: uri } }"), tmp_path)

    assert problem.tells("secret.key-unknown", "env.REDIS_URL:", "password, url, python-url", "found 'uri'")


def test_a_job_with_a_gpu_brings_a_gpu_group(tmp_path: Path) -> None:
    settings = loaded(job("gpu: 1"), tmp_path)

    assert settings.jobs["migrate"].node_group == "gpu"
    assert "gpu" in settings.node_groups


def test_a_cron_job_goes_by_the_clock_of_the_business_hours(tmp_path: Path) -> None:
    nightly = loaded(cron(), tmp_path).cron_jobs["nightly"]

    assert (nightly.schedule, nightly.timezone) == ("30 2 * * 1-5", "Europe/Berlin")
    assert (nightly.concurrency, nightly.suspended, nightly.start_within) == (Concurrency.FORBID, False, None)
    assert (nightly.history.succeeded, nightly.history.failed) == (1, 3)
    assert loaded(cron("timezone: Asia/Tokyo"), tmp_path).cron_jobs["nightly"].timezone == "Asia/Tokyo"


def test_the_summary_says_what_runs_when(tmp_path: Path) -> None:
    assert "cron job nightly: at 30 2 * * 1-5 (Europe/Berlin), on flexible, 1 CPU, 2Gi, up to 2h" in summary(
        loaded(cron(), tmp_path)
    )
    assert any(
        line.startswith("cron job nightly: suspended") for line in summary(loaded(cron("suspended: true"), tmp_path))
    )
    assert "job      migrate: once, 8 pods, 4 at a time, on flexible, 1 CPU, 2Gi, up to 2h" in summary(
        loaded(job("completions: 8, parallelism: 4"), tmp_path)
    )


def test_an_image_without_a_version_is_warned_of(tmp_path: Path) -> None:
    text = job().replace("example.com/db:1", "example.com/db")

    assert ("image.no-version", "jobs.migrate.image") in {
        (caution.code, caution.place) for caution in warnings_of(loaded(text, tmp_path))
    }


FAULTS = {
    "a pod larger than any node": (job().replace("memory: 2Gi", "memory: 900Gi"), "pod.too-large", "migrate"),
    "a group that is not there": (job("nodeGroup: batch"), "name.unknown", "'batch'"),
    "the fixed group": (job("nodeGroup: fixed"), "node-group.kind", "'fixed'"),
    "a long run on spot": (job("nodeGroup: spot", beside=SPOT), "spot.long-jobs", "2h"),
    "a pool's name": (job(name="train"), "name.taken", "ebbtide:workers"),
    "more at a time than in total": (job("parallelism: 4"), "parallelism.above-completions", "1"),
    "a run that takes longer than it may": (job("runTakes: 3h"), "run-takes.above-longest", "2h"),
    "a Job that deletes itself": (job("keepFor: 1h"), "key.elsewhere", "keepFor"),
    "a run that has no time to start": (cron("startWithin: 9s"), "start-within.too-short", "10s"),
    "a zone that is none": (cron("timezone: Berlin"), "timezone.unknown", "Europe/Berlin"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_slip_is_one_line(case: str, tmp_path: Path) -> None:
    text, code, value = FAULTS[case]

    assert problem_of(text, tmp_path).tells(code, value), problem_of(text, tmp_path)


def test_on_an_existing_cluster_a_job_names_a_set_of_nodes(tmp_path: Path) -> None:
    def on(nodes: str) -> str:
        return onprem(more=f"ebbtide:jobs: {{ migrate: {{ {JOB}{nodes} }} }}")

    assert loaded(on(""), tmp_path).jobs["migrate"].node_group == "flexible"
    assert problem_of(on(", nodeGroup: batch"), tmp_path).tells("nodes.unknown", "jobs.migrate.nodeGroup", "'batch'")


def test_one_name_in_both_sections_is_refused(tmp_path: Path) -> None:
    both = f'ebbtide:cronJobs: {{ migrate: {{ {JOB}, schedule: "0 3 * * *" }} }}'

    assert problem_of(job(beside=both), tmp_path).tells("name.taken", "ebbtide:cronJobs", "ebbtide:jobs")


def test_a_job_that_must_have_a_digest_is_told_so(tmp_path: Path) -> None:
    problems = problems_of(job(beside="ebbtide:images: { requireDigests: true }"), tmp_path)

    assert any(problem.code == "image.no-digest" and "jobs.migrate.image" in str(problem) for problem in problems)


@pytest.mark.parametrize(
    ("schedule", "code"),
    [
        ("@daily", "cron.form"),
        ("0 3 * *", "cron.form"),
        ("0 0 3 * * *", "cron.form"),
        ("60 3 * * *", "cron.field"),
        ("0 24 * * *", "cron.field"),
        ("0 3 0 * *", "cron.field"),
        ("0 3 * 13 *", "cron.field"),
        ("0 3 * * 7", "cron.field"),
        ("0 3 * * 5-1", "cron.field"),
        ("*/0 3 * * *", "cron.field"),
        ("0, 3 * * *", "cron.field"),
        ("0 3 * * mo", "cron.field"),
        ("0 3 30 2 *", "cron.never"),
        ("0 3 31 4,6,9,11 ?", "cron.never"),
    ],
)
def test_a_schedule_that_kubernetes_would_not_keep_is_refused(schedule: str, code: str, tmp_path: Path) -> None:
    assert problem_of(cron(schedule=schedule), tmp_path).tells(code)


@pytest.mark.parametrize(
    "schedule",
    [
        "*/15 * * * *",
        "0 3 29 2 *",
        "5,35 8-18/2 1,15 JAN-Mar ?",
        "0 3 31 2 mon",
        "0 3 31 2 */2",
        "0 3 31 2/2 *",
        "3/20 0 ? * *",
    ],
)
def test_a_schedule_that_kubernetes_keeps_is_taken_as_it_stands(schedule: str) -> None:
    assert parse_cron(schedule) == schedule


def test_what_a_run_takes_is_optional_and_may_be_all_that_it_is_given(tmp_path: Path) -> None:
    assert loaded(cron(), tmp_path).cron_jobs["nightly"].run_takes is None
    assert loaded(cron("runTakes: 2h"), tmp_path).cron_jobs["nightly"].run_takes == timedelta(hours=2)


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        ("0 2 * * *", [1, 2, 3, 4, 5, 6, 7]),
        ("0 2 * * 1-5", [1, 2, 3, 4, 5]),
        ("0 2 * * sun", [7]),
        ("0 2 3 * sat", [3, 6]),  # one of them will do
        ("0 2 */1 * sat", [6]),
        ("0 2 */2 * sat", [1, 3, 5, 6, 7]),  # a step above 1 names days
        ("0 2 3 7 *", []),
    ],
)
def test_a_schedule_names_its_days_as_kubernetes_reads_it(expression: str, days: list[int]) -> None:
    """June 2026 begins on a Monday."""
    times = cron_times(expression)

    assert [day for day in range(1, 8) if times.on(date(2026, 6, day))] == days


def test_a_schedule_is_read_into_its_minutes_and_hours() -> None:
    times = cron_times("5-15/5,0 9,17 * * *")

    assert (times.minutes, times.hours) == ((0, 5, 10, 15), (9, 17))
