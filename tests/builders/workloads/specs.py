"""Specs of Ray clusters, and what a head answers."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from controllers.workloads.ray.sleep import RayClusterState
from ebbtide.vocabulary.workloads import Sleep, SleepWhen, Wake
from tests.paths import DATA

IDLE = Sleep(when=SleepWhen.IDLE, after=timedelta(hours=2), wake=frozenset({Wake.QUEUE, Wake.MANUAL}))
ANSWERS: Mapping[str, Mapping[str, Any]] = json.loads((DATA / "ray-head" / "2.60.0.json").read_text())["answers"]
"""By what was so: the head's three answers, or its refusals as [status, text]."""
REFUSED = ("no token", "another token")


def pod(image: str = "ray:1", cpu: str = "1") -> dict[str, Any]:
    container = {"name": "ray", "image": image, "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"containers": [container]}}


def group(name: str, most: int = 5, *, least: int = 0, image: str = "ray:1", **more: Any) -> dict[str, Any]:
    sizes = {"minReplicas": least, "maxReplicas": most}
    return {"groupName": name, **sizes, "rayStartParams": {}, "template": pod(image), **more}


def spec(*groups: dict[str, Any], image: str = "ray:1", **more: Any) -> dict[str, Any]:
    """As the annotation has it."""
    head = {"rayStartParams": {"num-cpus": "0"}, "template": pod(image)}
    options = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2", "idleTimeoutSeconds": 60}}
    return {"rayVersion": "2.60.0", **options, "headGroupSpec": head, "workerGroupSpecs": [*groups], **more}


def seen(**changes: Any) -> RayClusterState:
    """Awake, known to be idle for a day, and nothing speaks against sleep."""
    values: dict[str, Any] = {"suspended": False, "idle_for": timedelta(days=1), **changes}
    return RayClusterState(**values)
