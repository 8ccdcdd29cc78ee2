"""The objects of jobs and cron jobs: pods that run to completion, and a budget without a scale."""

from typing import Any

import pytest

from components.pods.budget import budget_without_scale
from components.pods.job import CronJob, Job, JobArgs
from components.pods.rules import PodIdentity
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.components import STACK, recorded, the

SIZE: dict[str, Any] = {"image": "db:1", "cpu": "1", "memory": "2Gi", "longest_run": "2h", "node_group": "flexible"}


def job(**changes: Any) -> tuple[Resource, ...]:
    settings = JobSettings.model_validate({**SIZE, **changes})
    args = JobArgs(stack=STACK, name="migrate", settings=settings)
    return recorded(lambda: Job("migrate", args))


def cron_job(**changes: Any) -> tuple[Resource, ...]:
    settings = CronJobSettings.model_validate({**SIZE, "schedule": "30 2 * * 1-5", **changes})
    args = JobArgs(stack=STACK, name="nightly", settings=settings)
    return recorded(lambda: CronJob("nightly", args))


def test_a_job_runs_only_once_its_budget_is_there() -> None:
    resources = job()

    assert the(resources, "PodDisruptionBudget").urn in the(resources, "batch/v1:Job").depends_on


def test_a_job_ends_in_time_is_not_awaited_and_leaves_the_pods_that_failed() -> None:
    found = the(job(retries=2, completions=8, parallelism=4), "batch/v1:Job").inputs

    assert {key: value for key, value in found["spec"].items() if key != "template"} == {
        "activeDeadlineSeconds": 7200,
        "backoffLimit": 2,
        "completions": 8,
        "parallelism": 4,
    }
    assert found["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert found["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_no_flexible_pod_gets_a_budget_that_opens_for_all_at_once() -> None:
    flexible = PodIdentity(name="api", category=Category.FLEXIBLE, customer="acme")

    with pytest.raises(ValueError, match="api: pods without a scale"):
        recorded(lambda: budget_without_scale("api-budget", flexible, "ebbtide", parent=None))  # pyright: ignore[reportArgumentType]
