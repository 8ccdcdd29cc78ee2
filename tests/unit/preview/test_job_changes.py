"""Dangers of a changed job, which is stopped and runs again."""

from typing import Any

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.document import ChangeKind
from ebbtide.preview.sides import Side
from tests.builders.sides import coded, dangers, demo, demo_now, whole, without

pytestmark = pytest.mark.whole

JOB: dict[str, Any] = {"image": "registry.example.com/db:1", "cpu": 1, "memory": "2Gi", "longestRun": "2h"}


def with_job(**changes: object) -> Side:
    return demo(whole("jobs", migrate={**JOB, **changes}))


def with_cron_job(**changes: object) -> Side:
    return demo(whole("cronJobs", report={**JOB, "schedule": "30 2 * * *", **changes}))


def test_a_new_job_is_no_danger() -> None:
    assert dangers(demo_now(), with_job()) == ()


def test_a_job_with_another_image_is_stopped_and_runs_again() -> None:
    (danger,) = dangers(with_job(), with_job(image="registry.example.com/db:2"))

    assert coded([danger]) == [(Severity.WARNING, "workload-restarted", ("migrate-job",))]
    assert danger.text.startswith("replaces Job migrate-job: spec.template changes")
    assert "it runs again from its beginning, even if it has ended" in danger.text


def test_more_retries_and_more_time_are_no_danger() -> None:
    assert dangers(with_job(), with_job(retries=3, longestRun="4h")) == ()


def test_a_job_that_goes_is_stopped() -> None:
    (danger,) = dangers(with_job(), demo_now())

    assert coded([danger]) == [(Severity.WARNING, "workload-lost", ("migrate-job",))]
    assert danger.impact == "a run that has not ended is stopped; budgets do not apply"


def test_a_cron_job_is_changed_in_place() -> None:
    assert dangers(with_cron_job(), with_cron_job(image="registry.example.com/db:2", schedule="0 3 * * *")) == ()


def test_a_job_that_becomes_a_cron_job_keeps_its_budget_and_its_account() -> None:
    before, after = with_job(), demo(whole("cronJobs", migrate={**JOB, "schedule": "30 2 * * *"}))
    made = {change.name: change.kind for change in changes_between(before.resources, after.resources)}

    assert made == {"migrate-job": ChangeKind.DELETE, "migrate-cron-job": ChangeKind.CREATE}
    assert "object-made-twice" not in {danger.code for danger in dangers(before, after)}


def test_a_pool_that_becomes_a_job_of_the_same_name_is_refused_by_the_api_server() -> None:
    found = dangers(demo_now(), demo(without("workers", "prep"), whole("jobs", prep=JOB)))

    twice = [danger for danger in found if danger.code == "object-made-twice"]
    assert coded(twice) == [(Severity.BLOCKING, "object-made-twice", ("prep-budget", "prep-budget"))]
    assert "creates PodDisruptionBudget ebbtide-workers/prep before the existing object of this name" in twice[0].text
