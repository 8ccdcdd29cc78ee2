"""From a pod's spec to the modelled cluster: what is modelled, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from control_plane.night.pod_model import PodModel, pod_model_of

from ebbtide.kube.taints import Taint, Toleration
from ebbtide.lab.simulator.cluster.model import WorkloadModel
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.strategies.table import cluster_plan
from ebbtide.settings import load_stack
from tests.builders.components import demo_stack
from tests.control_plane.support.kube import deployment
from tests.paths import DATA

TERM = "requiredDuringSchedulingIgnoredDuringExecution"
BY_CATEGORY = {"key": "ebbtide.dev/category", "operator": "In", "values": ["flexible", "worker"]}
OWN = {"matchLabels": {"ebbtide.dev/workload": "api"}}


def pod(annotations: dict[str, str] | None = None, namespace: str = "apps", **spec: Any) -> dict[str, Any]:
    labels = {"ebbtide.dev/workload": "api", "ebbtide.dev/category": "flexible"}
    requests = {"cpu": "500m", "memory": "2Gi"}
    containers = [{"name": "main", "image": "api:1", "resources": {"requests": requests}}]
    metadata = {"name": "api-1", "namespace": namespace, "labels": labels, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


def anti_affinity(selector: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A required anti-affinity over hosts."""
    term = {"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}, "labelSelector": selector, **changes}
    return {"affinity": {"podAntiAffinity": {TERM: [term]}}}


def model(**changes: Any) -> WorkloadModel:
    return pod_model_of(pod(**changes), "apps/api").model


def test_requests_and_selector_are_taken_over() -> None:
    seen = model(nodeSelector={"kind": "flexible"}, terminationGracePeriodSeconds=90)

    assert (seen.name, seen.category, seen.cpu_m, seen.memory_mib) == ("apps/api", "flexible", 500, 2048)
    assert (seen.node_selector, seen.grace_s) == ({"kind": "flexible"}, 90.0)


def test_gpus_and_their_toleration_are_taken_over() -> None:
    requests = {"cpu": "7", "memory": "28Gi", "nvidia.com/gpu": "1"}
    gpu = [{"name": "main", "image": "train:1", "resources": {"requests": requests}}]
    tolerated = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}

    seen = model(containers=gpu, tolerations=[tolerated])

    assert seen.gpu == 1
    assert seen.tolerations == (Toleration("nvidia.com/gpu", "true", "NoSchedule"),)


@pytest.mark.parametrize(("toleration", "tolerates"), [({"operator": "Exists"}, True), ({"key": "other"}, False)])
def test_a_toleration_without_a_value_matches_any(toleration: dict[str, str], *, tolerates: bool) -> None:
    (seen,) = model(tolerations=[toleration]).tolerations

    assert seen.tolerates(Taint("nvidia.com/gpu", "true")) is tolerates


def test_anti_affinity_by_category_is_modelled_and_against_itself_is_one_per_node() -> None:
    assert model(**anti_affinity({"matchExpressions": [BY_CATEGORY]})).anti_affinity_with == ("flexible", "worker")
    assert model(**anti_affinity({"matchLabels": {"ebbtide.dev/category": "fixed"}})).anti_affinity_with == ("fixed",)
    assert model(**anti_affinity(OWN)).one_per_node is True


UNSAYABLE: dict[str, dict[str, Any]] = {
    "one namespace": anti_affinity({"matchExpressions": [BY_CATEGORY]}, namespaceSelector=None),
    "by zone": anti_affinity({"matchExpressions": [BY_CATEGORY]}, topologyKey="topology.kubernetes.io/zone"),
    "other labels": anti_affinity({"matchLabels": {"app": "other"}}),
    "node affinity": {"affinity": {"nodeAffinity": {TERM: {"nodeSelectorTerms": []}}}},
    "pod affinity": {"affinity": {"podAffinity": {TERM: [{"topologyKey": "zone"}]}}},
    "spread": {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
    "claim": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    "host port": {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
}


@pytest.mark.parametrize("case", UNSAYABLE)
def test_what_the_model_cannot_express_is_named(case: str) -> None:
    (unmodelled,) = pod_model_of(pod(**UNSAYABLE[case]), "apps/api").unmodelled

    assert unmodelled


def test_preferences_need_no_word() -> None:
    spread = {"whenUnsatisfiable": "ScheduleAnyway", "topologyKey": "kubernetes.io/hostname"}
    preferred = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50}]}}

    assert pod_model_of(pod(topologySpreadConstraints=[spread], affinity=preferred), "apps/api").unmodelled == ()


def test_safe_to_evict_and_files_on_the_node_are_seen() -> None:
    safe = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    scratch: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "shared", "emptyDir": {"medium": "Memory"}},
    ]

    assert [model(annotations={safe: word}).safe_to_evict for word in ("true", "false")] == [True, False]
    assert model().safe_to_evict is None
    assert model(volumes=scratch).empty_dir is True
    assert model(volumes=scratch[1:]).empty_dir is False
    assert model(volumes=scratch, annotations={f"{safe}-local-volumes": "scratch"}).empty_dir is False


def test_kube_system_is_a_category_of_its_own() -> None:
    assert model(namespace="kube-system").category == "system"


def test_rendered_workers_are_the_simulations_own() -> None:
    deployments = [resource.inputs for resource in demo_stack() if resource.inputs.get("kind") == "Deployment"]
    rendered = {item["metadata"]["name"]: item["spec"]["template"] for item in deployments}
    plan = cluster_plan(load_stack("demo", DATA), Strategy.FIXED_FLEXIBLE)

    for name, expected in plan.workers.items():
        seen = pod_model_of(rendered[name], name).model
        assert (seen.cpu_m, seen.memory_mib, seen.gpu) == (expected.cpu_m, expected.memory_mib, expected.gpu)
        assert (seen.node_selector, seen.tolerations) == (expected.node_selector, expected.tolerations)
        assert (seen.category, seen.grace_s) == (expected.category, expected.grace_s)


def test_a_pod_that_asks_for_nothing_takes_no_room() -> None:
    seen = pod_model_of(deployment("train", "workers")["spec"]["template"], "workers/train").model

    assert (seen.cpu_m, seen.memory_mib, seen.gpu) == (0, 0, 0)


def test_a_required_affinity_to_node_groups_is_modelled_and_one_with_more_terms_is_not() -> None:
    def needing(*terms: Mapping[str, Any]) -> PodModel:
        return pod_model_of(pod(affinity={"nodeAffinity": {TERM: {"nodeSelectorTerms": [*terms]}}}), "apps/api")

    groups = {"key": "ebbtide.dev/node-group", "operator": "In", "values": ["gpu", "gpu-spot"]}
    other = {"key": "zone", "operator": "In", "values": ["a"]}
    one = needing({"matchExpressions": [groups]})

    assert (one.model.one_of, one.unmodelled) == (frozenset({"gpu", "gpu-spot"}), ())
    for terms in (
        [{"matchExpressions": [groups]}, {"matchExpressions": [other]}],
        [{"matchExpressions": [groups, other]}],
        [{"matchExpressions": [groups], "matchFields": [other]}],
        [{"matchExpressions": [{**groups, "operator": "NotIn"}]}],
    ):
        assert needing(*terms).unmodelled
