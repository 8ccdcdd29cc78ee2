"""KubeRay's operator of somebody else, over the whole cluster: it makes of a stack without one what the file says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from control_plane.plane.binaries import OF_RAY, RAY_OPERATOR, find, how_to_get
from control_plane.plane.driver import ControlPlane

from components.definitions import crds
from controllers.adapters.kube_api import Json
from ebbtide.recording.output import output_files
from ebbtide.settings.sections.ray import RAY_OPERATOR as ACCOUNT
from ebbtide.text.files import write_directory
from tests.builders.recorded import record
from tests.components.ray.stack import ray_settings
from tests.control_plane.ray.conftest import RAY, operator
from tests.control_plane.ray.test_generated_clusters import is_made_as_wanted
from tests.control_plane.support.applying import Applying, objects_in, quiet_plane

pytestmark = pytest.mark.control_plane

HOME = "kuberay-system"
_ALL = ["*"]
_CORE = ["events", "pods", "services", "secrets", "serviceaccounts"]
_RULES = [
    {"apiGroups": ["", "events.k8s.io"], "resources": _CORE, "verbs": _ALL},
    {"apiGroups": ["ray.io"], "resources": _ALL, "verbs": _ALL},
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": _ALL},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _ALL},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
]


def of_theirs() -> list[Json]:
    """The operator as its own chart installs it, as far as the API server sees it."""
    kinds = [
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": crd.name, "annotations": crd.annotations},
            "spec": crd.spec,
        }
        for crd in crds("kuberay")
    ]
    rbac = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}, "rules": _RULES}
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": HOME}],
    }
    return [
        *kinds,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": HOME}},
        role,
        binding,
    ]


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    if find(RAY_OPERATOR) is None:
        pytest.skip(how_to_get(OF_RAY))
    with quiet_plane() as plane:
        yield plane


def test_it_makes_the_pods_and_needs_nothing_of_the_stack_but_the_ray_cluster(
    plane: ControlPlane, tmp_path: Path
) -> None:
    write_directory(tmp_path, output_files(record(ray_settings(existing={"rayOperator": "existing"}))))
    objects, applying = objects_in(tmp_path), Applying(plane.api)
    assert "CustomResourceDefinition" not in {each["kind"] for each in objects}
    applying.apply(of_theirs())
    with operator(plane, home=HOME):
        applying.apply(objects)
        (cluster,) = (each for each in objects if each["kind"] == "RayCluster")
        is_made_as_wanted(plane.api, cluster)

    for kind, group in (("Role", "rbac.authorization.k8s.io/v1"), ("ServiceAccount", "v1")):
        ours = {(it["metadata"]["namespace"], it["metadata"]["name"]) for it in objects if it["kind"] == kind}
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        there = plane.api.get(f"{root}/namespaces/{RAY}/{kind.lower()}s")["items"]
        assert {(RAY, it["metadata"]["name"]) for it in there} == {it for it in ours if it[0] == RAY}
    assert "forbidden" not in plane.processes.log("kuberay").read_text().lower()
