"""Ray clusters of generated stacks: KubeRay's operator makes of each what the file says, with its rendered rights."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.binaries import OF_RAY, RAY_OPERATOR, find, how_to_get
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import APPLY, Json, KubeApi
from ebbtide.recording.output import output_files
from ebbtide.settings.sections.ray import NAMESPACE_PREFIX
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.labels import SPEC, WORKLOADS
from tests.builders.control_plane import eventually
from tests.builders.generated import stack_text
from tests.builders.recorded import record
from tests.builders.settings import loaded
from tests.control_plane.ray.conftest import operator
from tests.control_plane.support.applying import Applying, objects_in, quiet_plane
from tests.counts import count

pytestmark = pytest.mark.control_plane

WORKERS = 2


def seeds(first: int, wanted: int) -> list[int]:
    """The next ones whose stack has a Ray cluster."""
    found: list[int] = []
    seed = first
    while len(found) < wanted:
        if "ebbtide:ray" in stack_text(seed):
            found.append(seed)
        seed += 1
    return found


QUICK = seeds(0, 4)
LONG = seeds(QUICK[-1] + 1, count(36, 6))


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """Nobody else makes pods there, nor binds them."""
    if find(RAY_OPERATOR) is None:
        pytest.skip(how_to_get(OF_RAY))
    with quiet_plane() as plane:
        yield plane


def reconciled(plane: ControlPlane, seed: int, folder: Path) -> None:
    settings = loaded(stack_text(seed), folder)
    out = folder / "out"
    write_directory(out, output_files(record(settings)))
    objects = objects_in(out)
    applying = Applying(plane.api)
    applying.apply(objects)
    try:
        with operator(plane, *(NAMESPACE_PREFIX + name for name in settings.ray)):
            for cluster in (each for each in objects if each["kind"] == "RayCluster"):
                is_made_as_wanted(plane.api, cluster)
    except AssertionError as late:
        log = plane.processes.log("kuberay").read_text(errors="replace").splitlines()
        said = [line for line in log if '"level":"error"' in line]
        raise AssertionError(f"{late}; the operator: {said[-1][:600] if said else 'no error'}") from late
    finally:
        for name in settings.ray:
            left_by_operator = f"/api/v1/namespaces/{NAMESPACE_PREFIX}{name}"  # nobody collects garbage here
            plane.api.delete(f"{left_by_operator}/pods")
            plane.api.delete(f"{left_by_operator}/services/{name}-head-svc")
        applying.delete()


def is_made_as_wanted(api: KubeApi, cluster: Json) -> None:
    name, space = cluster["metadata"]["name"], cluster["metadata"]["namespace"]
    path = f"/apis/ray.io/v1/namespaces/{space}/rayclusters/{name}"
    wanted: dict[str, Any] = json.loads(cluster["metadata"]["annotations"][SPEC])
    for group in wanted["workerGroupSpecs"]:
        group["replicas"] = min(max(WORKERS, group["minReplicas"]), group["maxReplicas"])
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": wanted}
    api.patch(path, body, APPLY, fieldManager=WORKLOADS, fieldValidation="Strict", force="true")
    parts = {"headgroup": (wanted["headGroupSpec"], 1)}
    parts |= {group["groupName"]: (group, group["replicas"]) for group in wanted["workerGroupSpecs"]}
    for part, (spec, number) in parts.items():
        pods = eventually(
            partial(pods_of, api, space, name, part, number), what=f"{number} pods of {name}.{part}", patience=40
        )
        for pod in pods:
            assert_keeps(spec["template"], pod)
    services = {it["metadata"]["name"] for it in api.get(f"/api/v1/namespaces/{space}/services")["items"]}
    assert f"{name}-head-svc" in services


def pods_of(api: KubeApi, space: str, cluster: str, group: str, number: int) -> list[Json] | None:
    selector = f"ray.io/cluster={cluster},ray.io/group={group}"
    found = api.get(f"/api/v1/namespaces/{space}/pods", labelSelector=selector)["items"]
    return found if len(found) == number else None


def assert_keeps(template: Json, pod: Json) -> None:
    """What the file asks of placement, size, rights and time is the pod's, whatever the operator adds."""
    wanted, made = template["spec"], pod["spec"]
    assert template["metadata"]["labels"].items() <= pod["metadata"]["labels"].items()
    for field in ("nodeSelector", "affinity", "terminationGracePeriodSeconds", "serviceAccountName", "securityContext"):
        if field in wanted:
            assert made[field] == wanted[field], field
    ours = next(it for it in made["containers"] if it["name"] == "ray")
    asked = next(it for it in wanted["containers"] if it["name"] == "ray")
    assert ours["image"] == asked["image"]
    assert ours["resources"] == asked["resources"]
    assert {it["name"] for it in asked["env"]} <= {it["name"] for it in ours["env"]}
    assert made["restartPolicy"] == "Never"


@pytest.mark.parametrize("seed", QUICK)
def test_the_operator_makes_what_the_file_says(seed: int, plane: ControlPlane, tmp_path: Path) -> None:
    reconciled(plane, seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_the_operator_makes_what_more_files_say(seed: int, plane: ControlPlane, tmp_path: Path) -> None:
    reconciled(plane, seed, tmp_path)
