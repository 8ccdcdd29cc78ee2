"""When jobs are due and for how long they keep their nodes busy, by the calendar alone."""

from datetime import UTC, datetime

import pytest

from ebbtide.lab.simulator.world.schedules import JobPlan, busy, instants, job_assumptions, job_plans
from ebbtide.settings.sections.jobs import Concurrency, cron_times
from tests.builders.simulator import HOUR, a_cron_job, a_one_off, a_stack, with_jobs

DAY = 24 * HOUR
MONDAY = datetime(2026, 6, 1, 4, tzinfo=UTC)  # midnight in New York


def in_march(expression: str) -> list[str]:
    """Of the night in which New York puts its clocks forward, in UTC."""
    begin, until = (datetime(2026, 3, 8, hour, tzinfo=UTC) for hour in (5, 9))
    result = instants(cron_times(expression), "America/New_York", begin, until)
    return [at.strftime("%H:%M") for at in result]


def spans(due: list[float], *, takes: float, concurrency: Concurrency, **more: float) -> list[tuple[float, float]]:
    plan = JobPlan(workload="job a", due=tuple(due), pod_s=takes, most_s=DAY, concurrency=concurrency, **more)  # pyright: ignore[reportArgumentType] - seconds only
    return [(part.begin, part.end) for part in busy(plan, DAY)]


def test_a_time_that_the_clock_skips_brings_no_run() -> None:
    assert in_march("30 1,3 * * *") == ["06:30", "07:30"]
    assert in_march("30 2 * * *") == []


def test_a_time_that_comes_twice_brings_two_runs() -> None:
    begin, until = (datetime(2026, 11, 1, hour, tzinfo=UTC) for hour in (4, 8))

    values = [at.strftime("%H:%M") for at in instants(cron_times("30 1 * * *"), "America/New_York", begin, until)]

    assert values == ["05:30", "06:30"]


def test_the_first_instant_counts_and_the_last_does_not() -> None:
    begin, until = (datetime(2026, 6, day, 2, tzinfo=UTC) for day in (1, 3))

    assert [at.day for at in instants(cron_times("0 2 * * *"), "UTC", begin, until)] == [1, 2]


def test_a_job_is_due_at_the_start_and_a_cron_job_by_its_own_clock() -> None:
    cron = {
        "nightly": a_cron_job(takes=600.0),
        "there": a_cron_job("0 2 * * *").model_copy(update={"timezone": "Europe/Berlin"}),
        "never": a_cron_job(suspended=True),
    }
    plans = {plan.workload: plan for plan in job_plans(with_jobs(a_stack(), {"load": a_one_off()}, cron), MONDAY, DAY)}

    assert plans["job load"].due == (0.0,)
    assert plans["job nightly"].due == (2 * HOUR,)
    assert plans["job there"].due == (20 * HOUR,)
    assert plans["job never"].due == ()
    assert (plans["job nightly"].pod_s, plans["job there"].pod_s) == (600.0, 2 * HOUR)


def test_several_pods_share_the_time_of_a_run() -> None:
    stack = with_jobs(a_stack(), {"load": a_one_off(takes=900.0, completions=5, parallelism=2)})
    (plan,) = job_plans(stack, MONDAY, DAY)

    assert [(part.begin, part.end, part.pods) for part in busy(plan, DAY)] == [
        (0.0, 300.0, 2),
        (300.0, 600.0, 2),
        (600.0, 900.0, 1),
    ]
    assert [part.end for part in busy(plan, 400.0)] == [300.0, 400.0]


@pytest.mark.parametrize(
    ("concurrency", "expected"),
    [
        (Concurrency.ALLOW, [(0, 250), (100, 350), (200, 450), (1000, 1250)]),
        (Concurrency.REPLACE, [(0, 100), (100, 200), (200, 450), (1000, 1250)]),
        (Concurrency.FORBID, [(0, 250), (250, 500), (1000, 1250)]),  # of two that had to wait only the later one
    ],
)
def test_runs_that_meet_go_by_their_concurrency(concurrency: Concurrency, expected: list[tuple[float, float]]) -> None:
    assert spans([0, 100, 200, 1000], takes=250, concurrency=concurrency) == expected


def test_a_run_that_would_start_too_late_is_left_out() -> None:
    forbidden = Concurrency.FORBID

    assert spans([0, 100], takes=250, concurrency=forbidden, start_within_s=150) == [(0, 250), (250, 500)]
    assert spans([0, 100], takes=250, concurrency=forbidden, start_within_s=149) == [(0, 250)]
    assert spans([0, 100, 900], takes=250, concurrency=forbidden, start_within_s=149) == [(0, 250), (900, 1150)]


def test_it_is_said_what_is_taken_for_granted() -> None:
    cron = {"nightly": a_cron_job(takes=600.0), "weekly": a_cron_job(), "off": a_cron_job(suspended=True)}
    assumptions = list(job_assumptions(with_jobs(a_stack(), {}, cron)))

    assert "(none), and cron jobs by their schedules (nightly, weekly)" in assumptions[0]
    assert assumptions[1].startswith("A run takes its runTakes: nightly 10m;")
    assert assumptions[2] == "A run without runTakes takes its longestRun: weekly 2h."
    assert assumptions[3] == "Suspended cron jobs never start: off."
    assert list(job_assumptions(a_stack())) == []
