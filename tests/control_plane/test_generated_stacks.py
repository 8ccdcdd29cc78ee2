"""Every object of every stack is accepted as it is, and applying it again changes nothing, whoever wrote in between."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import APPLY
from typer.testing import CliRunner

from components.ownership import REPLICAS_OWNER
from controllers.adapters.kube_api import ApiError, Json
from ebbtide.cli.__main__ import app
from ebbtide.labels import WORKER_NAMESPACE, ReplicasOwner
from ebbtide.settings import stack_names
from ebbtide.vocabulary.controller_config import ControllerConfig, load
from ebbtide.vocabulary.labels import NAMESPACE
from tests.builders.components import ROOT
from tests.builders.generated import stack_text
from tests.builders.stack_files.listed import removals, shapes
from tests.control_plane.support.applying import (
    NEW_KIND,
    Applying,
    State,
    controller_of,
    objects_in,
    quiet_plane,
    scale_as_autoscaler,
    state_of,
    write_all,
)
from tests.control_plane.support.ownership import Provisioner
from tests.counts import count

pytestmark = pytest.mark.control_plane

QUICK = range(20)
LONG = range(len(QUICK), len(QUICK) + count(200, 40))
LISTED = shapes()
LESS = removals()
KINDS = {
    "APIService",
    "BackendTrafficPolicy",
    "ClientTrafficPolicy",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "EnvoyProxy",
    "Gateway",
    "GatewayClass",
    "HTTPRoute",
    "HorizontalPodAutoscaler",
    "Job",
    "Lease",
    "Namespace",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "RayCluster",
    "Role",
    "RoleBinding",
    "ScaledObject",
    "Service",
    "ServiceAccount",
    "StatefulSet",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


class Write(NamedTuple):
    workers: int
    opening: int


ALL_WRITES = (Write(3, 1), Write(0, 0))


class Rendered(NamedTuple):
    objects: Sequence[Json]
    config: ControllerConfig


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with quiet_plane() as plane:
        yield plane


@pytest.fixture
def applying(plane: ControlPlane) -> Iterator[Applying]:
    applying = Applying(plane.api)
    yield applying
    applying.delete()


def rendered(stack: str, folder: Path) -> Rendered:
    """By the commands that an operator runs."""
    for words in (["check", stack], ["render", stack, "--output", str(folder)]):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"ebbtide {words[0]}: {result.output}"
    return Rendered(objects_in(folder), load((folder / "controller-config.json").read_text(encoding="utf-8")))


@lru_cache(maxsize=len(QUICK))
def generated(seed: int) -> Rendered:
    return rendered_text(stack_text(seed))


@lru_cache(maxsize=len(LISTED) + len(LESS))
def rendered_text(text: str) -> Rendered:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "Pulumi.generated.yaml"
        file.write_text(text, encoding="utf-8")
        return rendered(str(file), Path(folder) / "out")


def handed_over(stack: Rendered) -> dict[str, tuple[str, str]]:
    """Of each object with a field of somebody else: its path, and the field with its owner."""
    deployments = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
    budgets = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
    owned = {f"{deployments}/{pool.deployment}": ("replicas", "controller") for pool in stack.config.pools}
    owned |= {f"{budgets}/{budget.name}": ("maxUnavailable", "controller") for budget in stack.config.budgets}
    for each in stack.objects:
        if each["metadata"].get("annotations", {}).get(REPLICAS_OWNER) == ReplicasOwner.HPA:
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/{each['kind'].lower()}s/{each['metadata']['name']}"
            owned[path] = ("replicas", "hpa")
    return owned


def stays_as_it_is(
    plane: ControlPlane, stack: Rendered, apply: Callable[[], Mapping[str, State]], writes: Sequence[Write] = ALL_WRITES
) -> None:
    """Applied, applied again, and again after the owners of what is left out have written."""
    owned = handed_over(stack)
    before = apply()
    assert apply() == before
    with controller_of(plane, stack.config) as controller:
        for write in writes:
            write_all(controller, stack.config, workers=write.workers, opening=write.opening)
            for path in (path for path, (_, owner) in owned.items() if owner == "hpa"):
                scale_as_autoscaler(plane.api, path, write.workers + 2)
            written = {**before, **{path: state_of(plane.api.get(path)) for path in owned}}
            assert {path for path in written if written[path] != before[path]} == set(owned)
            assert apply() == written
            values = {("replicas", "hpa"): write.workers + 2, ("replicas", "controller"): write.workers}
            for path, field in owned.items():
                assert plane.api.get(path)["spec"].get(field[0], 0) == values.get(field, write.opening), path
            before = written


@pytest.mark.parametrize("seed", QUICK)
def test_a_generated_stack_is_accepted_and_stays_as_it_is(seed: int, plane: ControlPlane, applying: Applying) -> None:
    stack = generated(seed)

    stays_as_it_is(plane, stack, lambda: applying.apply(stack.objects))


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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LISTED)
def test_a_stack_of_one_thing_alone_is_accepted_and_stays_as_it_is(
    name: str, plane: ControlPlane, applying: Applying
) -> None:
    stack = rendered_text(LISTED[name])
    objects = [*of_the_owner(name, stack.objects), *stack.objects]

    stays_as_it_is(plane, stack, lambda: applying.apply(objects), ALL_WRITES[:1])


@pytest.mark.timeout(600)  # eleven times nearly everything
@pytest.mark.parametrize("cluster", ["eks", "existing"])
def test_a_stack_is_accepted_without_the_last_of_a_kind_that_it_had(
    cluster: str, plane: ControlPlane, applying: Applying
) -> None:
    whole = rendered_text(LISTED[f"everything-on-{cluster}"]).objects
    applying.apply([*of_the_owner(cluster, whole), *whole])
    refused: dict[str, str] = {}

    for name in (name for name in LESS if name.endswith(f"-{cluster}")):
        try:
            applying.apply(rendered_text(LESS[name]).objects)
        except ApiError as error:
            refused[name] = str(error)

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


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG)
def test_more_generated_stacks_are_accepted(seed: int, plane: ControlPlane, applying: Applying) -> None:
    stack = generated(seed)

    stays_as_it_is(plane, stack, lambda: applying.apply(stack.objects), ALL_WRITES[seed % 2 :][:1])


@pytest.mark.parametrize("name", stack_names(ROOT))
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


@pytest.mark.timeout(300)  # where nothing of it was rendered before, all of it is
def test_all_kinds_of_object_are_among_the_generated_ones() -> None:
    assert {each["kind"] for seed in QUICK for each in generated(seed).objects} == KINDS
