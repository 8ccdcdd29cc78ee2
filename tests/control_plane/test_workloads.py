"""The workload controller as a process, against KubeRay's own definition of a RayCluster on a real API server.

KubeRay's operator is not there: a test says in its place that the pods of a suspended cluster have gone. Ray's
autoscaler is not there either; its patches are sent as its provider for KubeRay sends them.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError
from ebbtide.vocabulary.workloads import APPLY_UNTIL, ASLEEP_FOR, SLEEP, SPEC, WORKLOADS, dump_sleep
from tests.builders.control_plane import Fresh, eventually
from tests.builders.ray import group, spec
from tests.builders.workloads import RayScene, make_ray_scene

pytestmark = pytest.mark.control_plane


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[RayScene]:
    with make_ray_scene(control_plane, fresh, tmp_path) as scene:
        yield scene


def test_the_first_spec_is_written_from_the_annotation_and_an_up_takes_nothing_back(scene: RayScene) -> None:
    scene.up(spec(group("a", least=1), group("b")))
    with scene.leader() as process:
        written = eventually(lambda: scene.cluster().get("spec"), what="the first write")

        assert scene.groups() == [("a", 1, 5), ("b", 0, 5)]
        assert written["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] == "ray:1"
        assert "suspend" not in written
        eventually(lambda: process.workload().get("why") == "never-sleeps", what="the status")
        assert process.workload()["spec"] == "applied"
        (event,) = eventually(scene.events, what="the Event")
        assert event["reason"] == "SpecFirst"
        before = scene.cluster()["metadata"]["resourceVersion"]
        scene.up(spec(group("a", least=1), group("b")))
        assert scene.cluster()["metadata"]["resourceVersion"] == before
        assert scene.owners() == {"pulumi": set(), WORKLOADS: {*written}}
