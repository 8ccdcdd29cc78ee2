"""The objects of an entrance: an Ingress, or a Service for which AWS builds a load balancer."""

from collections.abc import Mapping
from typing import Any

import pytest

from components.pods.entrance import PLAIN, Balancing
from components.pods.workload import Workload, WorkloadArgs
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.resources import Resource
from ebbtide.settings import parse_stack
from ebbtide.settings.sections.workloads import WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.components import STACK, pod_of, recorded, the, workload_settings
from tests.builders.mutants import sound_config
from tests.builders.recorded import record

AWS = "service.beta.kubernetes.io/aws-load-balancer-"
CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
PORTS = {"rpc": 9000, "http": 8080}


def workload(
    *, balancing: Balancing = PLAIN, kind: WorkloadKind = WorkloadKind.DEPLOYMENT, **keys: object
) -> tuple[Resource, ...]:
    """`keys` in the file's spelling."""
    given = {"category": "flexible", "image": "api:1", "cpu": "1", "memory": "1Gi", "ports": PORTS, **keys}
    read = WorkloadSettings.model_validate(given)
    settings = workload_settings(kind=kind, **{name: getattr(read, name) for name in ("ports", "ingress", "expose")})
    args = WorkloadArgs(
        stack=STACK,
        name="api",
        namespace="ebbtide",
        settings=settings,
        node_kind=NodeKind.FLEXIBLE,
        balancing=balancing,
    )
    return recorded(lambda: Workload("api", args))


def load_balancer(balancing: Balancing = PLAIN, **expose: object) -> Resource:
    balanced = [r for r in workload(balancing=balancing, expose=expose) if is_load_balancer(r)]
    assert len(balanced) == 1
    return balanced[0]


def is_load_balancer(resource: Resource) -> bool:
    return resource.type.endswith(":Service") and resource.inputs["spec"].get("type") == "LoadBalancer"


def of_aws(resource: Resource) -> Mapping[str, str]:
    annotations = resource.inputs["metadata"]["annotations"]
    return {key.removeprefix(AWS): value for key, value in annotations.items() if key.startswith(AWS)}


def test_a_load_balancer_is_internal_and_lets_private_addresses_in() -> None:
    found = load_balancer(port="rpc")

    assert of_aws(found)["type"] == "nlb"
    assert of_aws(found)["internal"] == "true"
    assert found.inputs["spec"]["ports"] == [{"name": "rpc", "port": 9000, "targetPort": "rpc"}]
    assert found.inputs["spec"]["selector"] == {"ebbtide.dev/workload": "api"}
    assert found.inputs["spec"]["loadBalancerSourceRanges"] == [
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
    ]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [({}, ["0.0.0.0/0"]), ({"sources": ["203.0.113.0/24"]}, ["203.0.113.0/24"])],
    ids=["all", "some"],
)
def test_a_public_one_lets_in_whom_the_file_names_or_everybody(given: dict[str, Any], wanted: list[str]) -> None:
    found = load_balancer(public=True, **given)

    assert of_aws(found)["internal"] == "false"
    assert found.inputs["spec"]["loadBalancerSourceRanges"] == wanted


def test_going_public_makes_another_load_balancer_since_none_changes_sides() -> None:
    inside, outside = load_balancer(), load_balancer(public=True)

    assert inside.urn != outside.urn
    assert inside.inputs["metadata"]["name"] != outside.inputs["metadata"]["name"]


def test_targets_are_the_nodes_that_stay() -> None:
    found = load_balancer()

    assert of_aws(found)["target-node-labels"] == "ebbtide.dev/node-kind=fixed"
    assert found.inputs["spec"]["externalTrafficPolicy"] == "Cluster"
    assert of_aws(found)["cross-zone-load-balancing-enabled"] == "true"


def test_with_a_certificate_the_load_balancer_ends_tls_and_takes_no_old_version_of_it() -> None:
    found = load_balancer(certificate=CERTIFICATE)

    assert found.inputs["spec"]["ports"] == [{"name": "http", "port": 443, "targetPort": "http"}]
    assert of_aws(found)["ssl-cert"] == CERTIFICATE
    assert of_aws(found)["ssl-ports"] == "http"
    assert "TLS13-1-2" in of_aws(found)["ssl-negotiation-policy"]
    assert not [key for key in of_aws(load_balancer()) if key.startswith("ssl-")]


@pytest.mark.parametrize("kind", WorkloadKind)
@pytest.mark.parametrize("keys", [{"ingress": {"host": "api.example.com"}}, {"expose": {}}], ids=str)
def test_an_entrance_goes_before_its_pods_and_is_waited_for(kind: WorkloadKind, keys: dict[str, Any]) -> None:
    resources = workload(kind=kind, **keys)
    (entrance,) = [r for r in resources if is_load_balancer(r) or r.type.endswith(":Ingress")]
    (pods,) = [r for r in resources if r.type.endswith((":Deployment", ":StatefulSet"))]

    assert pods.urn in entrance.depends_on
    assert "pulumi.com/skipAwait" not in entrance.inputs["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("keys", "wait", "grace"),
    [({}, 5, None), ({"expose": {}}, 5, None), ({"ingress": {"host": "a.example.com"}}, 20, 50)],
    ids=["inside", "load balancer", "ingress"],
)
def test_a_pod_is_left_out_before_it_is_told_to_stop_and_keeps_its_time_to_do_so(
    keys: dict[str, Any], wait: int, grace: int | None
) -> None:
    pod = pod_of(the(workload(**keys), "Deployment"))

    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": wait}}}
    assert pod.get("terminationGracePeriodSeconds") == grace
    assert pod["containers"][0]["readinessProbe"]["tcpSocket"] == {"port": "http"}


def stack(network: dict[str, Any]) -> tuple[Resource, ...]:
    api = {"category": Category.FLEXIBLE.value, "image": "api:1", "cpu": "1", "memory": "1Gi", "ports": {"http": 80}}
    more = {
        "ebbtide:workloads": {"api": {**api, "expose": {}}},
        "ebbtide:costs": {"tags": {"cost-center": "ml-7"}},
        "ebbtide:network": network,
    }
    return record(parse_stack({**sound_config("shortest"), **more}, stack="acme", file="any"))
