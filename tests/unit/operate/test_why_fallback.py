"""What `ebbtide why` says of a pool with a fallback: where its workers run, and why its spot group does not grow."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
import yaml

from components.aws.node_shape import name_prefix
from controllers.adapters.kube_api import KubeApi
from ebbtide.operate.why.node import NodeFacts, explain_node
from ebbtide.operate.why.pools_and_budgets import explain_pool
from ebbtide.provisioning_labels import NodeKind
from tests.builders.components import controller_config
from tests.unit.operate.raw_objects import NOW, Cluster, node, pod

WORKERS = "/api/v1/namespaces/ebbtide-workers/pods"
DEPLOYMENT = "/apis/apps/v1/namespaces/ebbtide-workers/deployments/train"
NODES = "/api/v1/nodes"
STATUS = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
IN_AWS = "20261121164000000000000001-d8bdd47d-8232-234e-0544-7d7b3f16519d"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def one_of(*groups: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "ebbtide.dev/node-group", "operator": "In", "values": [*groups]}]}


def prefers(spot: str) -> dict[str, Any]:
    return {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": one_of(spot)}],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [one_of("gpu", spot)]},
        }
    }


AFFINITY = prefers("gpu-spot")


def nodes(**groups: str) -> list[dict[str, Any]]:
    return [
        {"metadata": {"name": name, "labels": {"ebbtide.dev/node-group": group.replace("_", "-")}}}
        for name, group in groups.items()
    ]


def on(*names: str | None) -> list[dict[str, Any]]:
    return [{"spec": {} if name is None else {"nodeName": name}} for name in names]


def status(*groups: tuple[str, str]) -> dict[str, Any]:
    told = {"errorCode": "placeholder-cannot-be-fulfilled", "errorMessage": "AWS cannot provision any more instances"}
    rows = [{"name": name, "scaleUp": {"status": state, "backoffInfo": told}} for name, state in groups]
    return {"data": {"status": yaml.safe_dump({"nodeGroups": rows})}}


def in_aws(part: str, zone: str = "a", kind: NodeKind = NodeKind.SPOT) -> str:
    return f"eks-{name_prefix(part, kind, zone)}{IN_AWS}"


def told(answers: Mapping[str, Any], affinity: Mapping[str, Any] = AFFINITY) -> list[str]:
    """The lines about the fallback: those behind the pool's rules."""
    deployment = {"spec": {"replicas": 3, "template": {"spec": {"affinity": affinity}}}}
    cluster = Cluster({DEPLOYMENT: deployment, **answers})
    lines = explain_pool(cast("KubeApi", cluster), controller_config(), "train", {})
    rules = next(number for number, line in enumerate(lines) if line.startswith("Its rules"))
    return lines[rules + 1 :]


def test_a_pool_with_a_fallback_tells_where_its_workers_run_and_that_none_moves_back() -> None:
    found = told({WORKERS: on("a", "b", None, "gone"), NODES: nodes(a="gpu_spot", b="gpu")})

    workers = "1 on gpu-spot, 1 on gpu, 1 without a node, 1 on nodes of an unknown group"
    assert found == [
        f"Its workers: {workers}. Workers start on gpu-spot first, else on gpu; in business hours none moves back."
    ]


@pytest.mark.parametrize("affinity", [{}, {"nodeAffinity": {}}])
def test_other_pools_say_nothing_of_it(affinity: Mapping[str, Any]) -> None:
    assert told({WORKERS: on("a"), NODES: nodes(a="gpu")}, affinity) == []


def test_the_autoscaler_says_which_groups_of_spot_nodes_pause_and_why() -> None:
    paused: Sequence[tuple[str, str]] = [
        (in_aws("gpu-spot-8x64x1"), "Backoff"),
        (in_aws("gpu-spot-16x64x1", "b"), "Backoff"),
        (in_aws("gpu-spot-8x32x1"), "NoActivity"),
        (in_aws("gpu-spot-2-8x64x1"), "Backoff"),  # of another group
        (in_aws("gpu", kind=NodeKind.GPU), "Backoff"),
    ]

    (_, why) = told({WORKERS: [], NODES: [], STATUS: status(*paused)})

    assert why == (
        "After a failed launch the autoscaler does not grow 2 Auto Scaling groups of gpu-spot now: for example "
        f"{paused[0][0]} (AWS cannot provision any more instances)."
    )


@pytest.mark.parametrize(("spot", "part"), [("spot", "spot"), ("spot", "spot-8x32x1"), ("cheap", "cheap")])
def test_groups_named_like_their_kind_and_those_of_one_size_are_found(spot: str, part: str) -> None:
    paused = status((in_aws(part), "Backoff"))

    (_, why) = told({WORKERS: [], NODES: [], STATUS: paused}, prefers(spot))

    assert f"does not grow 1 Auto Scaling group of {spot} now: {in_aws(part)} " in why


def test_what_may_not_be_read_is_not_guessed() -> None:
    found = told({WORKERS: 403, NODES: 403, STATUS: 403})

    assert found[0] == "Workers start on gpu-spot first, else on gpu; in business hours none moves back."
    assert [line.partition(":")[2].partition(":")[0].strip() for line in found[1:]] == [
        "the nodes",
        "its pods",
        "the autoscaler's status",
    ]


@pytest.mark.parametrize(("group", "said"), [("gpu", True), ("gpu-spot", False)])
def test_a_node_of_the_fallback_is_kept_by_a_worker_that_nothing_moves_back(group: str, said: bool) -> None:
    worker = pod(annotations={SAFE: "false"}, spec={"affinity": AFFINITY})
    found = node("gpu")
    found["metadata"]["labels"]["ebbtide.dev/node-group"] = group

    lines = explain_node(NodeFacts(now=NOW, node=found, pods=[worker], flags={}))

    assert ("its first choice is gpu-spot; nothing moves it back in business hours" in "\n".join(lines)) is said
