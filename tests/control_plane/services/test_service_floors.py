"""The floor of a service, written by the workload controller's process into real autoscalers with its rendered rights.

KEDA is not there, and what is scaled is not there either: what they make of the field is in `tests/serving`.
"""

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import APPLY, ApiError, KubeApi, from_kubeconfig
from ebbtide.vocabulary.labels import KEEP_UNTIL, WORKLOADS
from tests.builders.control_plane import Fresh, eventually, reasons
from tests.control_plane.support.floors import KINDS, FloorScene, event, make_floor_scene
from tests.control_plane.support.ownership import Provisioner

pytestmark = pytest.mark.control_plane

NAMES = sorted(KINDS)
NIGHT = {"ranker": 1, "embedder-small": 2}
LASTING = timedelta(seconds=15)  # so long that a busy machine sees it


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[FloorScene]:
    with make_floor_scene(control_plane, fresh, tmp_path) as scene:
        yield scene


def stands(scene: FloorScene, floors: dict[str, int]) -> None:
    eventually(lambda: {name: scene.floor(name) for name in NAMES} == floors, what=f"{floors}")


def test_an_update_by_day_and_by_night_leaves_the_floor(scene: FloorScene) -> None:
    sale, lead = event(datetime.now(UTC), timedelta(hours=3), 5)
    with scene.leader() as process:
        stands(scene, NIGHT)
        for name in NAMES:
            scene.up(name, test="before-any-write")
        scene.write(scene.config(sale, lead=lead))
        stands(scene, dict.fromkeys(NAMES, 5))
        for name in NAMES:
            scene.up(name, test="by-day")
            assert scene.floor(name) == 5
            assert scene.owners(name) == [WORKLOADS]
            assert {field for field in scene.owned(name) if field.startswith("f:spec")} == {
                f"f:spec.f:{KINDS[name][2].removeprefix('spec.')}"
            }
        scene.write(scene.config())
        stands(scene, NIGHT)
        for name in NAMES:
            scene.up(name, test="by-night")
            assert (scene.floor(name), scene.owners(name)) == (NIGHT[name], [WORKLOADS])
        at_min = dict.fromkeys(NAMES, ("at-min", "at-min"))

        def reported() -> bool:  # once the controller has seen its own writes
            return {it["name"]: (it["state"], it["why"]) for it in process.status()["workloads"]} == at_min

        eventually(reported, what="the reports")
        # Its time is the next full minute, which may come before the controller reads it.
        told = {"BeforeEvent", "Event"}
        eventually(lambda: told & reasons(scene.plane.api, scene.apps, WORKLOADS), what="the Events")
        assert reasons(scene.plane.api, scene.apps, WORKLOADS) <= {*told, "AtMin"}


def test_a_floor_comes_and_goes_at_its_time_and_a_restart_wants_the_same(scene: FloorScene) -> None:
    with scene.leader():
        stands(scene, NIGHT)
        begins = datetime.now(UTC) + timedelta(seconds=3)
        sale, lead = event(begins, LASTING, 5)
        scene.write(scene.config(sale, lead=lead))
        stands(scene, dict.fromkeys(NAMES, 5))
        assert datetime.now(UTC) > begins
    with scene.leader("two") as process:
        stands(scene, NIGHT)
        assert datetime.now(UTC) > begins + LASTING
        assert process.terminate() == 0
    assert {name: scene.floor(name) for name in NAMES} == NIGHT


def test_somebody_who_keeps_it_up_or_changes_the_object_is_no_conflict(scene: FloorScene) -> None:
    sale, lead = event(datetime.now(UTC), timedelta(hours=3), 5)
    scene.write(scene.config(sale, lead=lead))
    with scene.leader():
        stands(scene, dict.fromkeys(NAMES, 5))
        kept = {"metadata": {"annotations": {KEEP_UNTIL: "2126-01-01T00:00:00Z"}}}
        scene.plane.api.patch(scene.path("ranker"), kept, fieldManager="kubectl")
        scene.write(scene.config())
        stands(scene, {"ranker": 5, "embedder-small": 2})
        scene.plane.api.patch(scene.path("ranker"), {"spec": {"maxReplicas": 7}}, fieldManager="kubectl")
        scene.plane.api.patch(
            scene.path("ranker"), {"metadata": {"annotations": {KEEP_UNTIL: None}}}, fieldManager="kubectl"
        )
        stands(scene, NIGHT)
        assert scene.plane.api.get(scene.path("ranker"))["spec"]["maxReplicas"] == 7


def test_a_floor_is_taken_from_the_program_once_it_does_not_stand(scene: FloorScene) -> None:
    sale, lead = event(datetime.now(UTC), timedelta(hours=3), 5)
    without = Provisioner(scene.plane.api, ignore=[])
    bodies = {name: scene.rendered(KINDS[name][1], name) for name in NAMES}
    scene.write(scene.config(sale, lead=lead))
    with scene.leader():
        stands(scene, dict.fromkeys(NAMES, 5))
        for name in NAMES:
            with pytest.raises(ApiError, match=WORKLOADS) as error:
                without.update(scene.path(name), bodies[name])
            assert (error.value.status, scene.floor(name)) == (409, 5)
        scene.write(scene.config())
        stands(scene, NIGHT)
    for name in NAMES:
        without.update(scene.path(name), bodies[name])
        assert scene.floor(name) == NIGHT[name]


def _account(scene: FloorScene) -> KubeApi:
    return KubeApi(from_kubeconfig(str(scene.plane.kubeconfig_as(scene.apps, WORKLOADS))))


def _changed(spec: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Every other field of the spec with another value, and the minimum out of its bounds."""
    field = KINDS[name][2].removeprefix("spec.")
    most = {"ranker": 6, "embedder-small": 12}[name]
    yield {field: most + 1, spec_most(name): most + 5}
    yield {spec_most(name): most + 1}
    yield {"scaleTargetRef": {**spec["scaleTargetRef"], "name": "other"}}
    for key in {"metrics", "behavior", "advanced", "fallback"} & spec.keys():
        yield {key: None}
    if name == "embedder-small":
        yield {"triggers": spec["triggers"][:1]}
        yield {field: NIGHT[name] - 1}  # the other one may not be lower anyway
        yield from ({key: 7} for key in ("pollingInterval", "cooldownPeriod", "initialCooldownPeriod"))
        yield {"idleReplicaCount": 0}


def spec_most(name: str) -> str:
    return "maxReplicas" if name == "ranker" else "maxReplicaCount"


@pytest.mark.parametrize("name", NAMES)
def test_its_account_may_change_the_minimum_within_min_and_max_and_nothing_else(name: str, scene: FloorScene) -> None:
    api, path, field = _account(scene), scene.path(name), KINDS[name][2].removeprefix("spec.")

    def refused() -> bool:
        """A policy holds some moments after it was made."""
        try:
            api.patch(path, {"metadata": {"labels": {"ebbtide.dev/workload": "other"}}}, dryRun="All")
        except ApiError as error:
            return "denied request" in str(error)
        return False

    eventually(refused, what="the policy")
    spec = deepcopy(scene.plane.api.get(path)["spec"])
    for change in _changed(spec, name):
        with pytest.raises(ApiError, match="denied request") as error:
            api.patch(path, {"spec": change})
        assert error.value.status in (403, 422), change
    with pytest.raises(ApiError, match="denied request"):
        api.patch(path, {"metadata": {"annotations": {"a": "b"}}})
    assert api.patch(path, {"spec": {field: 5}})["spec"] == {**spec, field: 5}


def test_its_account_may_write_no_other_autoscaler_and_make_none(scene: FloorScene) -> None:
    api = _account(scene)
    for name in NAMES:
        body = scene.rendered(KINDS[name][1], name)
        body["metadata"]["name"] = "foreign"
        path = scene.path(name).replace(name, "foreign")
        with pytest.raises(ApiError) as error:
            api.patch(path, body, APPLY, fieldManager=WORKLOADS, force="true")
        assert error.value.status == 403
        with pytest.raises(ApiError) as error:
            api.delete(scene.path(name))
        assert error.value.status == 403
