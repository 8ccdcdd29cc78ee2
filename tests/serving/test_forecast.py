"""What a silent forecast holds and what one that speaks asks for, with the trigger as rendered, KEDA and an HPA."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from components.serving.scaling import scaled_object
from components.serving.service import scaled_variants
from tests.builders.control_plane import eventually
from tests.builders.workloads.services import services_stack
from tests.serving.support.site import NAMESPACE, PROMETHEUS, Serving
from tests.serving.test_parts import ECHO

pytestmark = pytest.mark.serving

NAME, LOAD = "ahead", "vector(3)"  # the load of one pod
SILENT = "no_such_series"


def rendered(forecast: str, *, least: int = 1, **trigger: str) -> dict[str, Any]:
    """That of the stack, with these queries and no waiting."""
    stack = services_stack(
        ("inFlight: 3, latency: 300ms", "inFlight: 3"), ("min: 2, max: 12", "min: 2, max: 6, floor: forecast")
    )
    small, *_ = scaled_variants(stack, "embedder", prometheus=PROMETHEUS, tolerance=False)
    spec: dict[str, Any] = dict(scaled_object(small))
    of_load, of_forecast = spec["triggers"]
    of_load["metadata"]["query"] = LOAD
    of_forecast["metadata"] |= {"query": forecast, **trigger}
    quick = {"scaleUp": {"stabilizationWindowSeconds": 0}, "scaleDown": {"stabilizationWindowSeconds": 0}}
    own = {"scaleTargetRef": {"name": NAME}, "minReplicaCount": least, "pollingInterval": 1}
    advanced = {"horizontalPodAutoscalerConfig": {"name": NAME, "behavior": quick}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {**spec, **own, "advanced": advanced},
    }


@contextmanager
def service(serving: Serving, first: dict[str, Any]) -> Generator[None]:
    pods = serving.deployment(NAME, [sys.executable, str(ECHO)])
    serving.apply(*pods, first)
    try:
        yield
    finally:
        serving.delete(first, *pods)


def test_a_forecast_that_is_silent_asks_for_nothing_and_holds_nothing(serving: Serving) -> None:
    with service(serving, rendered(SILENT, least=3)):
        serving.pods(NAME, 3)
        serving.apply(rendered(SILENT))
        serving.pods(NAME, 1)


def test_as_an_error_a_silent_forecast_would_hold_what_the_load_lets_go(serving: Serving) -> None:
    with service(serving, rendered(SILENT, least=3, ignoreNullValues="false")):
        serving.pods(NAME, 3)
        serving.apply(rendered(SILENT, ignoreNullValues="false"))
        end = time.monotonic() + 15
        while time.monotonic() < end:
            assert serving.replicas(NAME) == 3
            time.sleep(0.5)


def test_a_forecast_brings_its_pods_before_the_load_and_never_fewer_than_the_load(serving: Serving) -> None:
    with service(serving, rendered("vector(4)")):
        serving.pods(NAME, 4)
        serving.apply(rendered("vector(0)"))
        serving.pods(NAME, 1)


def test_a_written_floor_brings_its_pods_while_prometheus_is_away(serving: Serving) -> None:
    with service(serving, rendered(SILENT)):
        serving.pods(NAME, 1)
        serving.away("prometheus")
        try:
            serving.apply(rendered(SILENT, least=4))
            eventually(lambda: serving.replicas(NAME) == 4, what="the floor")
        finally:
            serving.back("prometheus")
