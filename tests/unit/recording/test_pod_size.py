"""The scheduler's reservation for a pod, by its containers."""

from typing import Any

import pytest

from ebbtide.recording.pods import pods_of
from ebbtide.recording.resources import Resource


def container(cpu: str, *, sidecar: bool = False) -> dict[str, Any]:
    requests = {"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {**requests, "restartPolicy": "Always"} if sidecar else requests


@pytest.mark.parametrize(
    ("before", "beside", "cpu"),
    [
        ([], ["1"], 1000),
        ([], ["1", "500m"], 1500),
        ([container("2")], ["1"], 2000),
        ([container("500m"), container("800m")], ["1"], 1000),
        ([container("500m", sidecar=True)], ["1"], 1500),
        ([container("500m", sidecar=True), container("2")], ["1"], 2500),  # the step runs beside the sidecar
        ([container("2"), container("500m", sidecar=True)], ["1"], 2000),  # and not beside one that comes later
    ],
)
def test_sidecars_count_beside_whatever_runs_after_them(
    before: list[dict[str, Any]], beside: list[str], cpu: int
) -> None:
    spec = {"initContainers": before, "containers": [container(each) for each in beside]}
    inputs = {"metadata": {"name": "a", "namespace": "ebbtide"}, "spec": spec}
    resource = Resource(urn="a", type="kubernetes:core/v1:Pod", name="a", parent="", custom=True, inputs=inputs)

    (pods,) = pods_of(resource)

    assert pods.size.cpu == cpu
