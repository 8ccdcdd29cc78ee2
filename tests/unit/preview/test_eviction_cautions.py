"""Warnings about evictions read the pods, so a probe counts no matter what added it."""

from typing import Any

import pytest

from ebbtide.preview.nights.coming import eviction_cautions
from ebbtide.recording.state import StackState
from tests.builders.policies import DEMO, edited, recorded, settings_of

API = "Deployment ebbtide/api"
CONTAINER = "spec.template.spec.containers.0"
TCP = {"tcpSocket": {"port": 8080}}


def cautions(*changes: Any) -> list[str]:
    resources = recorded(DEMO)
    for change in changes:
        resources = change(resources)
    return list(eviction_cautions(StackState(settings_of(DEMO), resources)))


def test_a_flexible_service_without_a_probe_is_named_and_no_other() -> None:
    (told,) = cautions()

    assert told.startswith("flexible and without a readiness probe: api, dashboards")
    assert "ray-head" not in told  # fixed
    assert "train" not in told  # workers, which have none on purpose


@pytest.mark.parametrize("probe", ["readinessProbe", "startupProbe"])
def test_a_probe_that_readiness_waits_for_is_enough(probe: str) -> None:
    (told,) = cautions(edited(API, f"{CONTAINER}.{probe}", TCP))

    assert told.startswith("flexible and without a readiness probe: dashboards")


def test_a_liveness_probe_says_nothing_of_readiness() -> None:
    assert cautions(edited(API, f"{CONTAINER}.livenessProbe", TCP)) == cautions()
