"""The rules against a stack with a job and a cron job, and against pods without a scale subresource."""

from datetime import date
from functools import cache

import pytest

from ebbtide.policies import judge
from ebbtide.recording.resources import Resource
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.jobs import CronJobSettings, JobSettings
from ebbtide.vocabulary.labels import CATEGORY, CLOSED_MINIMUM, WORKLOAD
from tests.builders.policies import GONE, Change, added, both, edited, removed
from tests.builders.recorded import record
from tests.builders.stack import SIZE, stack_settings

TODAY = date(2026, 11, 21)
BUDGET = "PodDisruptionBudget ebbtide-workers/migrate"


@cache
def with_jobs() -> tuple[StackSettings, tuple[Resource, ...]]:
    job = {"image": "db:1", **SIZE, "longest_run": "2h", "node_group": "flexible"}
    settings = stack_settings(
        jobs={"migrate": JobSettings.model_validate(job)},
        cron_jobs={"nightly": CronJobSettings.model_validate({**job, "schedule": "30 2 * * *"})},
    )
    return settings, record(settings)


def broken(change: Change) -> set[str]:
    settings, resources = with_jobs()
    before = {it.code for it in judge(settings, resources, TODAY)}
    return {it.code for it in judge(settings, change(resources), TODAY)} - before


def test_a_stack_with_jobs_breaks_no_rule() -> None:
    settings, resources = with_jobs()

    assert [
        (it.code, it.resource) for it in judge(settings, resources, TODAY) if "ebbtide-workers" in it.resource
    ] == []


def least(number: object) -> Change:
    return edited(BUDGET, "spec.minAvailable", number)


def bare(workload: str) -> Change:
    """A pod that a hub started, with the labels of its workload."""
    labels = {WORKLOAD: workload, CATEGORY: "fixed"}
    pod = {"metadata": {"name": "notebook-ada", "namespace": "ebbtide", "labels": labels}, "spec": {}}
    return added("kubernetes:core/v1:Pod", "notebook-ada", pod)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("EB001", least(1)),
        ("EB001", least(CLOSED_MINIMUM - 1)),
        ("EB001", least("100%")),
        ("EB002", removed(BUDGET)),
        ("EB002", removed("PodDisruptionBudget ebbtide-workers/nightly")),
        ("EB004", both(least(GONE), edited(BUDGET, "spec.maxUnavailable", 0))),
        ("EB004", bare("hub")),
        ("EB022", edited("Job ebbtide-workers/migrate", "metadata.annotations", {})),
    ],
)
def test_a_change_that_lets_a_jobs_pod_go_is_found(rule: str, change: Change) -> None:
    assert rule in broken(change)


def test_the_closed_minimum_is_for_pods_that_nothing_counts() -> None:
    hub = "PodDisruptionBudget ebbtide/hub"
    change = both(edited(hub, "spec.maxUnavailable", GONE), edited(hub, "spec.minAvailable", CLOSED_MINIMUM))

    assert broken(change) == {"EB004"}
