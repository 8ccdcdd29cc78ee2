"""A destroy walks the graph of a stack backwards: what it meets last, by everything that the engine goes by.

The engine deletes a resource once all is gone that depends on it: by `depends_on`, by a property, by its provider or by
its parent. So what must outlive something has to be among the things that it depends on, however far away.
"""

from collections.abc import Callable, Iterable
from functools import cache

import pytest

from ebbtide.provisioning_labels import POOL
from ebbtide.recording.resources import Resource
from ebbtide.settings import load_stack, parse_stack
from tests.builders.mutants import sound_config
from tests.builders.recorded import record
from tests.builders.stack import Recorded
from tests.paths import DATA

pytestmark = pytest.mark.whole

POD_OWNERS = ("Deployment", "StatefulSet", "DaemonSet", "CronJob")
ACCESS = ("aws:eks/accessEntry:AccessEntry", "aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
WHOLE_NETWORK = ("Vpc", "Subnet", "RouteTable", "RouteTableAssociation", "Route", "NatGateway", "InternetGateway")
STACKS = ("demo", "example-berlin", "shortest", "elasticache", "closed network", "entrances")
OF_ENTRANCES = ("api-ingress", "api-public", "store-entrance")

WORKLOAD = {"category": "flexible", "image": "api:1", "cpu": "1", "memory": "1Gi", "ports": {"http": 8080}}

Kind = Callable[[Resource], bool]


@cache
def stack(name: str) -> Recorded:
    if name in ("demo", "example-berlin"):
        return Recorded(record(load_stack(name, DATA)))
    more = {
        "shortest": {},
        "elasticache": {"ebbtide:redis": {"kind": "elasticache"}, "ebbtide:redisPassword": "x" * 16},
        "closed network": {
            "ebbtide:network": {"nat": "none", "flowLogs": {"retentionDays": 30}},
            "ebbtide:cluster": {"deletionProtection": False},
        },
        "entrances": {
            "ebbtide:workloads": {
                "api": {**WORKLOAD, "ingress": {"host": "api.example.com"}, "expose": {"public": True}},
                "store": {**WORKLOAD, "kind": "stateful-set", "expose": {}},
            }
        },
    }[name]
    return Recorded(record(parse_stack({**sound_config("shortest"), **more}, stack="acme", file="any")))


def in_cluster(resource: Resource) -> bool:
    return resource.type.startswith("kubernetes:")


def kind(*names: str) -> Kind:
    return lambda resource: resource.custom and resource.type.split(":")[-1] in names


def named(part: str, *kinds: str) -> Kind:
    return lambda resource: part in resource.name and kind(*kinds)(resource)


def has_pods(resource: Resource) -> bool:
    """The customer's pods; system pods go with the nodes and the add-ons."""
    system = ("autoscaler", "device-plugin")
    return in_cluster(resource) and kind(*POD_OWNERS)(resource) and not resource.name.startswith(system)


def has_volumes(resource: Resource) -> bool:
    return bool(in_cluster(resource) and resource.inputs.get("spec", {}).get("volumeClaimTemplates"))


def is_pool(resource: Resource) -> bool:
    return kind("Deployment")(resource) and POOL in resource.inputs["metadata"]["labels"]


def is_entrance(resource: Resource) -> bool:
    return kind("Ingress")(resource) or (
        kind("Service")(resource) and resource.inputs["spec"].get("type") == "LoadBalancer"
    )


RULES: dict[str, tuple[Kind, Kind]] = {
    "the controller closes budgets on its way out, so they are still there": (
        named("controller-deployment", "Deployment"),
        lambda resource: kind("PodDisruptionBudget")(resource) and resource.name != "controller-budget",
    ),
    "and so are its rights to do that": (
        named("controller-deployment", "Deployment"),
        lambda resource: (
            named("controller-", "Role", "RoleBinding", "ServiceAccount", "Lease", "ConfigMap")(resource)
            and "closer" not in resource.name
        ),
    ),
    "workloads go before the autoscaler, which would miss their nodes": (
        has_pods,
        named("autoscaler", "Deployment", "ClusterRoleBinding", "PodIdentityAssociation", "RolePolicy"),
    ),
    "workers that end their last job keep the grace that a policy guards": (
        is_pool,
        named("evictions", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    ),
    "pods go before what starts and stops them": (has_pods, kind("NodeGroup", "Addon", "Namespace")),
    "a claim goes before the driver that deletes its volume, and the driver before its rights": (
        lambda resource: has_volumes(resource) or kind("Namespace")(resource),
        named("ebs-csi", "Addon", "Role", "RolePolicyAttachment"),
    ),
    "and before its class": (has_volumes, kind("StorageClass")),
    "nodes go before the add-on that gives their network interfaces back, and it before its rights": (
        kind("NodeGroup"),
        named("vpc-cni", "Addon", "Role", "RolePolicyAttachment"),
    ),
    "nodes go before the cluster": (kind("NodeGroup", "Addon"), kind("Cluster")),
    "nodes go before the rights that they join with": (
        kind("NodeGroup"),
        named("cluster-node", "RolePolicyAttachment"),
    ),
    "all that lives in the cluster goes before the deployer loses access": (
        in_cluster,
        lambda resource: resource.type in ACCESS and "deployer" in resource.name,
    ),
    "access goes before the cluster, and that before its log group and its key": (
        lambda resource: resource.type in ACCESS or kind("Cluster")(resource),
        named("cluster-", "LogGroup", "Key"),
    ),
    "a load balancer goes before all that it stands on, and before the rights of who takes it down": (
        is_entrance,
        lambda resource: (
            kind(*WHOLE_NETWORK, "NodeGroup", "Cluster", "Addon", "Namespace")(resource)
            or named("cluster-", "Role", "RolePolicyAttachment")(resource)
        ),
    ),
    "the network goes last": (
        lambda resource: in_cluster(resource) or resource.type.startswith("aws:eks/"),
        kind(*WHOLE_NETWORK, "VpcEndpoint"),
    ),
    "a cache goes before its subnets and the group that guards it": (
        kind("ReplicationGroup"),
        lambda resource: (
            kind("Subnet", "SecurityGroup", "SubnetGroup", "ParameterGroup")(resource)
            and "endpoint" not in resource.name
        ),
    ),
}


def broken(recorded: Recorded, goes: Kind, stays: Kind) -> Iterable[str]:
    """Return each pair whose second resource may be deleted while the first still exists."""
    lasting = [resource for resource in recorded.all if resource.custom and stays(resource)]
    for resource in recorded.all:
        if resource.custom and goes(resource):
            before = recorded.urns_before(resource)
            missing = [last.name for last in lasting if last.urn not in before and last.urn != resource.urn]
            yield from (f"{resource.name} outlives {name}" for name in missing)


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("rule", RULES)
def test_a_destroy_takes_things_in_order(name: str, rule: str) -> None:
    goes, stays = RULES[rule]

    assert list(broken(stack(name), goes, stays)) == []


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_speaks_of_something(rule: str) -> None:
    goes, stays = RULES[rule]

    assert any(any(map(goes, stack(name).all)) and any(map(stays, stack(name).all)) for name in STACKS)


@pytest.mark.parametrize("name", STACKS)
def test_no_controller_of_the_cluster_makes_anything_in_the_cloud_but_volumes_and_what_entrances_ask(
    name: str,
) -> None:
    services = [r for r in stack(name).all if kind("Service")(r)]
    outside = [r for r in services if r.inputs["spec"].get("type", "ClusterIP") != "ClusterIP"]
    others = [r for r in stack(name).all if kind("Ingress", "Gateway", "PersistentVolumeClaim")(r)]

    assert sorted(r.name for r in [*outside, *others]) == (list(OF_ENTRANCES) if name == "entrances" else [])


@pytest.mark.parametrize("name", STACKS)
def test_the_graph_has_an_end(name: str) -> None:
    recorded = stack(name)

    assert [r.name for r in recorded.all if r.urn in recorded.urns_before(r)] == []
