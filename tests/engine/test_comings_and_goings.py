"""The last of a kind goes and one comes again, and a thing that becomes another kind: each is one `up`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project
from tests.engine.test_life import SHORTEST

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

Config = dict[str, Any]
PAGE: Mapping[str, Any] = {
    "image": "registry.example.com/page:1",
    "ports": {"http": 8000},
    "port": "http",
    "probes": {"readiness": {"http": "/healthz", "port": "http"}},
    "cpu": 1,
    "memory": "2Gi",
    "longestRequest": "10s",
    "scale": {"metrics": {"inFlight": 4}, "min": 1, "max": 4},
    "route": {"host": "models.example.com", "path": "/page"},
}
ALONE: Mapping[str, Any] = {**SHORTEST, "ebbtide:monitoring": {"prometheus": "bundled"}}
SERVED: Mapping[str, Any] = {**ALONE, "ebbtide:services": {"page": PAGE}}
DEFINITION = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def definitions(project: Project) -> set[str]:
    return {thing.id for thing in project.cloud.things() if thing.type == DEFINITION}


def test_the_last_service_goes_and_one_comes_again(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("new", SERVED)
    project.up("new")
    held = definitions(project)
    project.write("new", ALONE)
    project.up("new")
    assert definitions(project) == held

    project.write("new", SERVED)
    told = project.up("new")

    assert told.named()["envoy-gateway-deployment"] == "create"
    assert definitions(project) == held
    assert project.preview("new").touched == {}


JOB: Mapping[str, Any] = {"image": "registry.example.com/db:1", "cpu": 1, "memory": "2Gi", "longestRun": "2h"}
ONCE: Mapping[str, Any] = {"ebbtide:jobs": {"tidy": JOB}}
NIGHTLY: Mapping[str, Any] = {"ebbtide:cronJobs": {"tidy": {**JOB, "schedule": "30 2 * * *"}}}
FLOOR: Mapping[str, Any] = {"min": 2, "max": 4, "floor": "calendar", "open": 3}


def scaled_by(**metrics: object) -> Mapping[str, Any]:
    return {"ebbtide:services": {"page": {**PAGE, "scale": {**FLOOR, "metrics": metrics}}}}


def minimum(project: Project) -> dict[str, int]:
    """Of each autoscaler of the page, by kind."""
    found = [thing for thing in project.cloud.things() if thing.id == "ebbtide/page" and "spec" in thing.inputs]
    specs = {thing.inputs["kind"]: thing.inputs["spec"] for thing in found}
    keys = {"HorizontalPodAutoscaler": "minReplicas", "ScaledObject": "minReplicaCount"}
    return {kind: specs[kind].get(key) for kind, key in keys.items() if kind in specs}


def test_another_autoscaler_and_another_kind_of_job_take_the_places_of_the_former_ones(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("new", {**ALONE, **scaled_by(inFlight=4), **ONCE})
    project.up("new")
    assert minimum(project) == {"ScaledObject": 2}

    project.write("new", {**ALONE, **scaled_by(cpu="70%"), **NIGHTLY})
    told = project.up("new")

    assert minimum(project) == {"HorizontalPodAutoscaler": 2}
    assert "tidy-budget" not in told.named()
    assert told.named()["tidy-cron-job"] == "create"
    project.write("new", {**ALONE, **scaled_by(inFlight=4), **ONCE})
    project.up("new")
    assert minimum(project) == {"ScaledObject": 2}
