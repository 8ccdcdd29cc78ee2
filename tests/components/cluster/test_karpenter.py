"""Karpenter in a stack: what it may do, the nodes that it launches, and the order of creation and deletion."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from components.aws.node_shape import node_shape
from components.cluster.karpenter.interruptions import EVENTS
from components.cluster.karpenter.pools import class_name, node_class, node_pool, weights
from components.cluster.karpenter.rights import CLUSTER_RULES, NAMESPACE_RULES, CloudScope, cloud_rights
from components.ownership import DISRUPTION_BUDGETS
from ebbtide.policies.judging import judge
from ebbtide.prices import instance_type, instance_type_names
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.state import StackState
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.network import NetworkSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest
from tests.builders.stack import Recorded, group_settings, stack_settings

SCOPE = CloudScope(
    cluster="acme",
    region="us-east-1",
    account="111122223333",
    node_role="arn:aws:iam::111122223333:role/node",
    queue="arn:aws:sqs:us-east-1:111122223333:interruptions",
    subnets=["subnet-1", "subnet-2"],
    security_group="sg-1",
)
READS = ("Describe", "Get", "List", "ReceiveMessage")
MIXED = ("m7i.2xlarge", "m7i.4xlarge", "c7i.4xlarge")


def by_karpenter(kind: NodeKind = NodeKind.FLEXIBLE, **changes: Any) -> NodeGroupSettings:
    return group_settings(kind, provisioner="karpenter", **changes)


def pool(group: NodeGroupSettings, name: str = "flexible", zones: tuple[str, ...] = ("a", "b")) -> Mapping[str, Any]:
    return node_pool(name, group, weight=1, zones=zones, region="us-east-1")


def required(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    return {entry["key"]: entry["values"] for entry in spec["template"]["spec"]["requirements"]}


def karpenter_stack(**changes: Any) -> StackSettings:
    groups = {
        "fixed": group_settings(NodeKind.FIXED),
        "flexible": by_karpenter(instance_types=MIXED),
        "gpu": by_karpenter(NodeKind.GPU, disk_size=100),
    }
    return stack_settings(**{"node_groups": groups, **changes})


@pytest.mark.parametrize("kind", [NodeKind.FLEXIBLE, NodeKind.GPU, NodeKind.SPOT])
def test_its_nodes_have_the_labels_and_taints_of_managed_groups(kind: NodeKind) -> None:
    spec, managed = pool(by_karpenter(kind), kind.value), node_shape(kind.value, group_settings(kind))

    assert spec["template"]["metadata"]["labels"] == managed.labels
    taints = [(taint["key"], taint["value"], taint["effect"]) for taint in spec["template"]["spec"].get("taints", ())]
    assert taints == [(taint.key, taint.value, taint.effect) for taint in managed.taints]


def test_its_nodes_come_from_the_groups_types_zones_and_market_up_to_its_maximum() -> None:
    on_demand, spot = pool(by_karpenter(instance_types=MIXED, max=9)), pool(by_karpenter(NodeKind.SPOT))

    assert required(on_demand) == {
        "node.kubernetes.io/instance-type": [*MIXED],
        "topology.kubernetes.io/zone": ["us-east-1a", "us-east-1b"],
        "karpenter.sh/capacity-type": ["on-demand"],
        "kubernetes.io/arch": ["amd64"],
        "kubernetes.io/os": ["linux"],
    }
    assert on_demand["limits"] == {"nodes": "9", "cpu": str(9 * 16)}  # of the largest type
    assert required(spot)["karpenter.sh/capacity-type"] == ["spot"]
    by_id = required(pool(by_karpenter(), zones=("use1-az1", "use1-az4")))
    assert by_id["topology.k8s.aws/zone-id"] == ["use1-az1", "use1-az4"]


def test_no_node_with_a_pod_is_ended_before_the_workload_controller_allows_it() -> None:
    spec = pool(by_karpenter())

    budgets = {reason: budget["nodes"] for budget in spec["disruption"]["budgets"] for reason in budget["reasons"]}
    assert budgets == {"Underutilized": "0", "Drifted": "0", "Empty": "100%"}
    assert spec["template"]["spec"]["expireAfter"] == "Never"
    assert "terminationGracePeriod" not in spec["template"]["spec"]


def test_weights_keep_the_order_of_the_autoscalers_priorities() -> None:
    groups = {
        "flexible": by_karpenter(),
        "second": by_karpenter(priority=5),
        "spot": by_karpenter(NodeKind.SPOT, priority=99),
        "gpu": by_karpenter(NodeKind.GPU),
    }

    assert weights(groups) == {"spot": 1, "flexible": 2, "gpu": 2, "second": 3}


def test_the_kubelet_reserves_no_more_than_the_memory_that_settings_count_with() -> None:
    """Karpenter's estimate: 7.5 % for the virtual machine, 100 MiB for eviction, and the reservation of the class."""
    for name in instance_type_names():
        kind = instance_type(name)
        kubelet = node_class("flexible", by_karpenter(instance_types=(name,)), tags={})["kubelet"]
        counted = kind.memory_mib - (64 if kind.arch == "arm64" else 0)
        estimate = counted - -(-counted * 75 // 1000) - 100 - int(kubelet["kubeReserved"]["memory"].removesuffix("Mi"))
        assert estimate >= kind.allocatable_memory, name
        assert 1000 * kind.vcpu - int(kubelet["kubeReserved"]["cpu"].removesuffix("m")) == kind.allocatable_cpu, name
        assert kubelet["maxPods"] == kind.max_pods, name


def test_several_sizes_share_the_reservation_of_the_largest() -> None:
    kubelet = [
        node_class("flexible", by_karpenter(instance_types=types), tags={})["kubelet"]
        for types in (MIXED, ("m7i.4xlarge",))
    ]

    assert kubelet[0] == kubelet[1]


def test_disks_are_encrypted_and_pods_cannot_reach_the_metadata_service() -> None:
    spec = node_class("gpu", by_karpenter(NodeKind.GPU, disk_size=200), tags={"ebbtide.dev/customer": "acme"})

    (disk,) = spec["blockDeviceMappings"]
    assert (disk["ebs"]["encrypted"], disk["ebs"]["volumeType"], disk["ebs"]["volumeSize"]) == (True, "gp3", "200Gi")
    assert (spec["metadataOptions"]["httpTokens"], spec["metadataOptions"]["httpPutResponseHopLimit"]) == (
        "required",
        1,
    )
    assert [term["alias"].startswith("al2023@v20") for term in spec["amiSelectorTerms"]] == [True]
    assert spec["tags"] == {"ebbtide.dev/customer": "acme"}


def test_what_changes_something_in_aws_is_bound_to_the_clusters_tags_or_to_one_resource() -> None:
    unbound = {
        action
        for statement in cloud_rights(SCOPE)["Statement"]
        for action in statement["Action"]
        if not action.split(":")[1].startswith(READS)
        and "acme" not in json.dumps(statement.get("Condition", {}))
        and any(resource.endswith("*") for resource in statement["Resource"])
    }

    # RunInstances also names what an instance is made from: images and snapshots, in the stack's own subnets.
    assert unbound == {"ec2:CreateFleet", "ec2:RunInstances"}
    (network,) = [it for it in cloud_rights(SCOPE)["Statement"] if it["Sid"] == "LaunchInOwnNetwork"]
    assert {arn.split(":")[-1] for arn in network["Resource"]} == {
        "image/*",
        "snapshot/*",
        "subnet/subnet-1",
        "subnet/subnet-2",
        "security-group/sg-1",
    }


def test_it_writes_nothing_in_iam_and_passes_the_nodes_role_alone() -> None:
    statements = cloud_rights(SCOPE)["Statement"]
    of_iam = [(action, it["Resource"]) for it in statements for action in it["Action"] if action.startswith("iam:")]

    assert {action for action, _ in of_iam} == {"iam:GetInstanceProfile", "iam:ListInstanceProfiles", "iam:PassRole"}
    assert [resources for action, resources in of_iam if action == "iam:PassRole"] == [[SCOPE.node_role]]


def test_the_policy_fits_the_limit_of_inline_policies() -> None:
    assert len(json.dumps(cloud_rights(SCOPE)).replace(" ", "")) < 10_240


def test_it_may_evict_but_not_delete_pods_or_change_workloads_or_read_secrets() -> None:
    rules = cast("list[dict[str, list[str]]]", [*CLUSTER_RULES, *NAMESPACE_RULES])
    writes = {
        resource for rule in rules for resource in rule["resources"] if set(rule["verbs"]) - {"get", "list", "watch"}
    }

    assert writes == {
        "ec2nodeclasses",
        "ec2nodeclasses/status",
        "events",
        "leases",
        "nodeclaims",
        "nodeclaims/status",
        "nodepools",
        "nodepools/status",
        "nodes",
        "pods/eviction",
    }
    assert not any("secrets" in rule["resources"] for rule in rules)


@pytest.fixture(scope="module")
def stack() -> Recorded:
    return Recorded(record(karpenter_stack()))


def test_only_groups_of_the_autoscaler_are_managed_groups(stack: Recorded) -> None:
    assert {resource.name for resource in stack.of("NodeGroup") if resource.custom} == {
        "fixed-a-nodes",
        "fixed-b-nodes",
    }
    assert {pool.inputs["metadata"]["name"] for pool in stack.of("NodePool")} == {"flexible", "gpu"}
    names = {"flexible": class_name("flexible"), "gpu": class_name("gpu")}
    classes = {it.inputs["metadata"]["name"]: it.inputs["spec"] for it in stack.of("EC2NodeClass")}
    assert set(classes) == set(names.values())
    assert classes[names["gpu"]]["tags"]["ebbtide.dev/node-group"] == "gpu"
    assert "flexible" not in stack.named("autoscaler-priorities").inputs["data"]["priorities"]


def test_a_destroy_ends_pods_then_nodes_then_the_controller_then_its_rights(stack: Recorded) -> None:
    """Read from the order of creation, which a destroy reverses."""
    controller = stack.named("karpenter-deployment")
    rights = ("karpenter-rights", "karpenter-identity", "karpenter-cluster-binding", "karpenter-nodepools.karpenter.sh")
    assert set(rights) <= stack.before(controller)
    parts = {it.parent for it in stack.of("NodePool")}
    (component,) = parts
    assert controller.parent in stack.urns_before(stack.named("node-pools"))
    for pool in stack.of("NodePool"):
        assert stack.named(f"{pool.name}-class").urn in stack.urns_before(pool)
    pods = [it for it in stack.of("Deployment") if it.inputs["metadata"]["name"] in ("api", "hub", "train")]
    assert len(pods) == 3
    assert all(component in stack.urns_before(it) for it in pods)


def test_the_budgets_of_node_pools_belong_to_the_workload_controller(stack: Recorded) -> None:
    assert [it.ignore_changes for it in stack.of("NodePool")] == [(DISRUPTION_BUDGETS,)] * 2
    assert karpenter_stack().budgeted_node_pools == ("flexible", "gpu")


def test_events_about_interruptions_reach_the_queue(stack: Recorded) -> None:
    patterns = [json.loads(rule.inputs["eventPattern"]) for rule in stack.of("EventRule")]

    assert {(it["source"][0], it["detail-type"][0]) for it in patterns} == set(EVENTS.values())
    assert len(stack.of("EventTarget")) == len(EVENTS)


def test_a_network_without_a_gateway_has_the_endpoints_that_karpenter_calls() -> None:
    closed = NetworkSettings.model_validate({"nat": "none"})
    stack = Recorded(record(karpenter_stack(network=closed)))

    services = {it.inputs["serviceName"].split(".")[-1] for it in stack.of("VpcEndpoint")}
    assert {"sqs", "ssm", "ec2", "sts", "eks"} <= services
    (container,) = stack.named("karpenter-deployment").inputs["spec"]["template"]["spec"]["containers"]
    assert {"name": "ISOLATED_VPC", "value": "true"} in container["env"]


def test_karpenter_may_put_pods_that_prefer_a_spread_on_one_node(stack: Recorded) -> None:
    (container,) = stack.named("karpenter-deployment").inputs["spec"]["template"]["spec"]["containers"]

    assert {"name": "PREFERENCE_POLICY", "value": "Ignore"} in container["env"]


def test_a_stack_without_karpenter_has_nothing_of_it() -> None:
    assert not [it for it in record(stack_settings()) if "karpenter" in it.urn.lower() or "NodePool" in it.type]


def test_flexible_pods_choose_a_provisioner_by_the_label_of_karpenters_nodes(tmp_path: Path) -> None:
    """As while a stack moves from one to the other; the checks and the policies agree."""
    required_terms = (
        "requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [TERM] }] }"
    )
    without = required_terms.replace("TERM", "{ key: karpenter.sh/capacity-type, operator: DoesNotExist }")
    pods = {
        "either": "",
        "there": "pod: { nodeSelector: { karpenter.sh/capacity-type: on-demand } }",
        "back": f"pod: {{ affinity: {{ nodeAffinity: {{ {without} }} }} }}",
    }
    size = "category: flexible, image: 'example.com/a:1', cpu: 1, memory: 1Gi, replicas: 2"
    general = "{ kind: flexible, instanceTypes: [m7i.4xlarge], max: 4, provisioner: karpenter }"
    more = f"ebbtide:nodeGroups: {{ flexible: {{ max: 4 }}, general: {general} }}\nebbtide:workloads:"
    settings = loaded(
        shortest(more=more + "".join(f"\n  {name}: {{ {size}, {pod} }}" for name, pod in pods.items())), tmp_path
    )
    resources = record(settings)
    state = StackState(settings, resources)

    homes = {it.name: {group.name for group in state.groups_for(it)} for it in state.pods}
    assert {name: homes[name] for name in pods} == {
        "either": {"flexible", "general"},
        "there": {"general"},
        "back": {"flexible"},
    }
    assert "EB013" not in {broken.code for broken in judge(settings, resources, date(2026, 11, 26))}
