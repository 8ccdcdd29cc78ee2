"""Shipped stacks and stacks of one thing alone are accepted as they are, and applying them again changes nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import APPLY

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.settings import stack_names
from ebbtide.vocabulary.labels import NAMESPACE
from tests.builders.stack_files.listed import removals, shapes
from tests.control_plane.support.accepted import ALL_WRITES, rendered, rendered_text, stays_as_it_is
from tests.control_plane.support.applying import NEW_KIND, Applying, State
from tests.control_plane.support.ownership import Provisioner
from tests.paths import DATA

pytestmark = pytest.mark.control_plane

LISTED = shapes()
LESS = removals()


def of_the_owner(stack: str, objects: Sequence[Json]) -> list[Json]:
    """On a cluster that was there: the namespaces of others in which the stack has something, and kinds of theirs."""
    if not stack.endswith("existing"):
        return []
    made = {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"}
    used = {each["metadata"].get("namespace", "") for each in objects} - {*made, "", "kube-system"}
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": it, "labels": {"of": "others"}}}
        for it in sorted(used)
    ]
    kinds = [each for each in rendered_text(LISTED["only-routes-on-eks"]).objects if each["kind"] == NEW_KIND]
    return [*spaces, *kinds]


@pytest.mark.parametrize("name", LISTED)
def test_a_stack_of_one_thing_alone_is_accepted_and_stays_as_it_is(
    name: str, plane: ControlPlane, applying: Applying
) -> None:
    stack = rendered_text(LISTED[name])
    objects = [*of_the_owner(name, stack.objects), *stack.objects]

    stays_as_it_is(plane, stack, lambda: applying.apply(objects), ALL_WRITES[:1])


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["eks", "existing"])
def test_a_stack_is_accepted_without_the_last_of_a_kind_that_it_had(
    cluster: str, plane: ControlPlane, applying: Applying
) -> None:
    whole = rendered_text(LISTED[f"everything-on-{cluster}"]).objects
    applying.apply([*of_the_owner(cluster, whole), *whole])
    refused: dict[str, str] = {}
    last = {json.dumps(each, sort_keys=True) for each in whole}

    for name in (name for name in LESS if name.endswith(f"-{cluster}")):
        texts = {json.dumps(each, sort_keys=True): each for each in rendered_text(LESS[name]).objects}
        try:
            applying.apply([each for text, each in texts.items() if text not in last])
        except ApiError as error:
            refused[name] = str(error)
        last = {*texts}

    assert refused == {}


def as_released_before(each: Json) -> Json:
    """A fixed Deployment as the release before this one wrote it, with a rolling update."""
    if each["kind"] != "Deployment" or each["spec"]["strategy"] != {"type": "Recreate"}:
        return each
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    return {**each, "spec": {**each["spec"], "strategy": rolling}}


def test_a_deployment_that_rolled_so_far_ends_its_old_pod_first_from_now_on(
    plane: ControlPlane, applying: Applying
) -> None:
    now = rendered_text(LISTED["only-fixed-workloads-on-existing"]).objects
    before = [as_released_before(each) for each in now]
    assert before != now
    applying.apply(before)
    hub = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/hub"
    (body,) = [each for each in now if (each["kind"], each["metadata"]["name"]) == ("Deployment", "hub")]
    program = Provisioner(plane.api, ignore=())

    applying.apply(now)

    assert plane.api.get(hub)["spec"]["strategy"] == {"type": "Recreate"}
    plane.api.delete(hub)
    program.create(hub, as_released_before(body))
    program.update(hub, body)
    assert plane.api.get(hub)["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize("name", stack_names(DATA))
def test_a_stack_of_ours_is_accepted_by_kubectl_and_stays_as_it_is(
    name: str, plane: ControlPlane, applying: Applying, tmp_path: Path
) -> None:
    stack = rendered(name, tmp_path)
    applying.apply([each for each in stack.objects if each["kind"] == NEW_KIND])
    applying.know(stack.objects)

    def apply() -> Mapping[str, State]:
        plane.kubectl(*APPLY, "-f", str(tmp_path / "kubernetes"))
        return applying.now()

    stays_as_it_is(plane, stack, apply)
