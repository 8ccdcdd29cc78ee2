"""Which workers of a group are known to be idle, and from when on that is somebody's business."""

from datetime import timedelta
from typing import Any

import pytest

from controllers.workloads.ray.idle import GRACE, idle_workers
from tests.builders.workloads.specs import group, spec

MINUTE = timedelta(minutes=1)


def overdue(idle_for: timedelta, *groups: dict[str, Any], **more: Any) -> list[int]:
    return [it.overdue for it in idle_workers(spec(*groups, **more), idle_for)]


def test_nothing_is_idle_while_the_cluster_is_not_known_to_be() -> None:
    assert idle_workers(spec(group("gpu", replicas=3)), None) == ()


def test_a_group_without_workers_has_none_that_are_idle() -> None:
    assert idle_workers(spec(group("gpu"), group("cpu", replicas=0)), MINUTE) == ()


@pytest.mark.parametrize(
    ("timeout", "limit"),
    [({"idleTimeoutSeconds": 300}, 5 * MINUTE), ({"idleTimeoutSeconds": 0}, 0 * MINUTE), ({}, MINUTE)],
    ids=["of the group", "at once", "of all groups"],
)
def test_workers_are_overdue_only_after_the_idle_timeout_and_some_grace(
    timeout: dict[str, Any], limit: timedelta
) -> None:
    one = group("gpu", replicas=1, **timeout)

    assert overdue(limit + GRACE, one) == [0]
    assert overdue(limit + GRACE + timedelta(seconds=1), one) == [1]


def test_a_cluster_without_a_timeout_has_that_of_ray() -> None:
    one = group("gpu", replicas=1)

    assert overdue(MINUTE + GRACE, one, autoscalerOptions={}) == [0]
    assert overdue(2 * MINUTE + GRACE, one, autoscalerOptions={}) == [1]


def test_the_minimum_of_a_group_is_never_overdue() -> None:
    day = timedelta(days=1)

    assert overdue(day, group("a", replicas=2, least=2), group("b", replicas=5, least=2)) == [0, 3]
    assert overdue(day, group("a", replicas=1, least=2)) == [0]
