"""Only needed traffic is allowed: the rendered policies are judged by Kubernetes' rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.cluster.network_policies import NetworkPolicies, NetworkPoliciesArgs
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.egress import EgressSettings
from ebbtide.settings.sections.entrance import Expose
from tests.builders.components import STACK, demo_stack, recorded, workload_settings
from tests.builders.recorded import record
from tests.builders.rights import hub_stack
from tests.builders.stack import stack_settings
from tests.components.ray.stack import ray_settings, ray_stack

pytestmark = pytest.mark.whole


@dataclass(frozen=True, kw_only=True)
class Pod:
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Outside:
    address: str


End = Pod | Outside


class Policies:
    """The NetworkPolicies that a program registered."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._all = [resource.inputs for resource in resources if resource.type.endswith(":NetworkPolicy")]

    def allow(self, source: End, target: End, port: int, protocol: str = "TCP") -> bool:
        wanted = (port, protocol)
        return self._open(source, "Egress", "to", target, wanted) and self._open(
            target, "Ingress", "from", source, wanted
        )

    def _open(self, end: End, direction: str, peers: str, other: End, wanted: tuple[int, str]) -> bool:
        if isinstance(end, Outside):
            return True
        specs = [
            policy["spec"]
            for policy in self._all
            if policy["metadata"]["namespace"] == end.namespace
            and direction in policy["spec"]["policyTypes"]
            and selects(policy["spec"]["podSelector"], end.labels)
        ]
        rules = [rule for spec in specs for rule in spec.get(direction.lower(), [])]
        return not specs or any(_matches(rule, rule.get(peers, []), other, wanted) for rule in rules)


def _matches(rule: Mapping[str, Any], peers: Sequence[Mapping[str, Any]], other: End, wanted: tuple[int, str]) -> bool:
    ports = [(port["port"], port["protocol"]) for port in rule.get("ports", [])]
    return (not ports or wanted in ports) and (not peers or any(_is_peer(peer, other) for peer in peers))


def _is_peer(peer: Mapping[str, Any], other: End) -> bool:
    if isinstance(other, Outside):
        return "ipBlock" in peer and _holds(peer["ipBlock"], other.address)
    if "ipBlock" in peer:
        return False
    namespace = {"kubernetes.io/metadata.name": other.namespace}
    return selects(peer["namespaceSelector"], namespace) and selects(peer.get("podSelector", {}), other.labels)


def _holds(block: Mapping[str, Any], text: str) -> bool:
    address = ip_address(text)
    return address in ip_network(block["cidr"]) and not any(
        address in ip_network(hole) for hole in block.get("except", [])
    )


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """An empty selector selects everything."""
    exact = all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())
    return exact and all(_meets(each, labels) for each in selector.get("matchExpressions", []))


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement["key"])
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
        case operator:
            raise AssertionError(f"no test needs the operator {operator} so far")


INTERNET, BALANCER = Outside("198.51.100.7"), Outside("10.0.3.9")
API_SERVER = Outside("10.0.7.21")
METADATA = Outside("169.254.169.254")
POD_IDENTITY = Outside("169.254.170.23")
DNS = Pod(namespace="kube-system", labels={"k8s-app": "kube-dns"})
PROMETHEUS = Pod(namespace="monitoring", labels={"app": "prometheus"})


@cache
def demo() -> Policies:
    return Policies(demo_stack())


@cache
def policies(
    *, allow: tuple[str, ...] = (), proxies: tuple[str, ...] = (), port: int = 6379, inside: bool = True
) -> Policies:
    args = NetworkPoliciesArgs(
        stack=STACK,
        redis_port=port,
        redis_inside=inside,
        allow=allow,
        proxies=proxies,
    )
    return Policies(recorded(lambda: NetworkPolicies("policies", args)))


@cache
def pod(name: str) -> Pod:
    """The demo stack's pod of this name, with its labels."""
    for resource in demo_stack():
        spec, metadata = resource.inputs.get("spec", {}), resource.inputs.get("metadata", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template and name == template["metadata"]["labels"].get("ebbtide.dev/workload"):
            return Pod(namespace=metadata["namespace"], labels=template["metadata"]["labels"])
    raise AssertionError(f"the demo stack has no pod {name}")


NEEDED = [
    ("train", "ebbtide-redis", 6379),
    ("train", INTERNET, 443),
    ("train", "api", 8000),
    ("train", "prep", 29500),
    ("train", POD_IDENTITY, 80),
    ("train", DNS, 53),
    ("api", "ebbtide-redis", 6379),
    ("api", "experiment-db", 5432),
    ("api", INTERNET, 443),
    ("metrics", "train", 9100),
    ("metrics", "ebbtide-controller", 8080),
    ("ebbtide-controller", "ebbtide-redis", 6379),
    ("ebbtide-controller", API_SERVER, 443),
    ("ebbtide-controller", API_SERVER, 6443),
    ("ebbtide-controller", DNS, 53),
    ("ebbtide-closer", API_SERVER, 443),
    (PROMETHEUS, "ebbtide-controller", 8080),
    (PROMETHEUS, "api", 9090),
    (BALANCER, "api", 8000),
]

REFUSED = [
    ("train", METADATA, 80),
    ("api", METADATA, 80),
    ("ebbtide-controller", METADATA, 443),
    ("ebbtide-controller", INTERNET, 80),
    ("ebbtide-controller", "experiment-db", 5432),
    ("ebbtide-closer", "ebbtide-redis", 6379),
    ("ebbtide-redis", INTERNET, 443),
    ("ebbtide-redis", "api", 8000),
    ("ebbtide-redis", DNS, 53),
    (PROMETHEUS, "train", 9100),
    (PROMETHEUS, "ebbtide-redis", 6379),
    (PROMETHEUS, "ebbtide-controller", 22),
    (BALANCER, "train", 8000),
    (BALANCER, "ebbtide-redis", 6379),
    (INTERNET, "api", 8000),
    ("api", "ebbtide-closer", 80),
]


def _end(who: str | Pod | Outside) -> Pod | Outside:
    return pod(who) if isinstance(who, str) else who


@pytest.mark.parametrize(("caller", "called", "port"), NEEDED)
def test_what_is_needed_is_allowed(caller: str | Pod | Outside, called: str | Pod | Outside, port: int) -> None:
    assert demo().allow(_end(caller), _end(called), port)


@pytest.mark.parametrize(("caller", "called", "port"), REFUSED)
def test_what_is_not_needed_is_refused(caller: str | Pod | Outside, called: str | Pod | Outside, port: int) -> None:
    assert not demo().allow(_end(caller), _end(called), port)


def test_a_pod_behind_a_load_balancer_is_called_by_the_address_of_a_node_and_by_no_clients_own() -> None:
    exposed = {"api": workload_settings(ports={"http": 8000}, expose=Expose(public=True))}
    resources = record(stack_settings(workloads=exposed))
    (service,) = [r.inputs["spec"] for r in resources if r.name == "api-public"]
    behind = Pod(namespace="ebbtide", labels=service["selector"])

    assert service["externalTrafficPolicy"] == "Cluster"  # kube-proxy puts the node's address in place of the client's
    assert Policies(resources).allow(BALANCER, behind, 8000)
    assert not Policies(resources).allow(INTERNET, behind, 8000)


def test_names_resolve_over_both_protocols_and_through_a_cache_on_the_node() -> None:
    controller = pod("ebbtide-controller")

    assert demo().allow(controller, DNS, 53, "UDP")
    assert demo().allow(controller, Outside("169.254.20.10"), 53, "UDP")


def test_a_pod_put_there_by_hand_is_treated_as_a_workload() -> None:
    stranger = Pod(namespace="ebbtide", labels={"app": "debug"})

    assert demo().allow(stranger, INTERNET, 443)
    assert not demo().allow(stranger, METADATA, 80)
    assert not demo().allow(INTERNET, stranger, 443)


def test_a_redis_outside_is_reached_on_its_port() -> None:
    outside = policies(port=6380, inside=False, allow=("10.1.0.0/16",))
    controller = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "ebbtide-controller"})
    worker = Pod(namespace="ebbtide-workers")

    assert outside.allow(controller, INTERNET, 6380)
    assert outside.allow(worker, INTERNET, 6380)
    assert not outside.allow(controller, INTERNET, 6379)
    assert not outside.allow(worker, METADATA, 6380)


@pytest.mark.parametrize("namespace", ["ebbtide", "ebbtide-workers"])
def test_allowed_ranges_leave_what_a_pod_needs_to_work(namespace: str) -> None:
    narrow, customers = policies(allow=("10.1.0.0/16",)), Pod(namespace=namespace)

    assert narrow.allow(customers, DNS, 53, "UDP")
    assert narrow.allow(customers, POD_IDENTITY, 80)
    assert narrow.allow(customers, PROMETHEUS, 4317)
    assert narrow.allow(customers, Pod(namespace="ebbtide-workers"), 29500)
    assert not narrow.allow(customers, INTERNET, 443)


@given(address=st.integers(0, 2**32 - 1).map(IPv4Address), port=st.integers(1, 65535))
def test_with_allowed_ranges_nothing_else_outside_is_reached(address: IPv4Address, port: int) -> None:
    of_the_node = (str(address), port) in (("169.254.170.23", 80), ("169.254.20.10", 53))
    expected = address in IPv4Network("10.1.0.0/16") or of_the_node

    reached = policies(allow=("10.1.0.0/16",)).allow(Pod(namespace="ebbtide-workers"), Outside(str(address)), port)

    assert reached is expected


@pytest.mark.parametrize("prefix", [0, 8, 16, 30, 31])
def test_no_range_opens_the_instance_metadata(prefix: int) -> None:
    around = IPv4Network((METADATA.address, prefix), strict=False)
    neighbour = Outside(str(IPv4Address(METADATA.address) + 1))
    wide, workload = policies(allow=(str(around),)), Pod(namespace="ebbtide")

    assert not wide.allow(workload, METADATA, 80)
    assert wide.allow(workload, neighbour, 80)


def test_the_proxy_is_reached_by_its_address_or_by_its_port() -> None:
    proxied = policies(allow=("10.1.0.0/16",), proxies=("http://192.0.2.8:3128", "https://proxy.example.com"))
    worker = Pod(namespace="ebbtide-workers")

    assert proxied.allow(worker, Outside("192.0.2.8"), 3128)
    assert not proxied.allow(worker, Outside("192.0.2.9"), 3128)
    assert proxied.allow(worker, INTERNET, 443)
    assert not proxied.allow(worker, METADATA, 443)


def test_a_proxys_ipv4_address_stays_one_however_it_is_written() -> None:
    proxied = policies(allow=("10.1.0.0/16",), proxies=("http://[::ffff:192.0.2.8]:3128",))

    assert proxied.allow(Pod(namespace="ebbtide-workers"), Outside("192.0.2.8"), 3128)


def test_what_starts_pods_reaches_the_api_server_and_what_it_started_only_what_is_allowed() -> None:
    allowed = hub_stack(egress=EgressSettings(allow=("203.0.113.0/24",)))
    found = Policies(record(allowed))
    hub = Pod(namespace="ebbtide-hub", labels={"ebbtide.dev/workload": "hub"})
    notebook = Pod(namespace="ebbtide-hub", labels={"ebbtide.dev/workload": "hub-pods"})

    assert found.allow(hub, API_SERVER, 6443)
    assert not found.allow(notebook, API_SERVER, 6443)
    assert not found.allow(notebook, INTERNET, 443)
    for one in (hub, notebook):
        assert found.allow(one, POD_IDENTITY, 80)
        assert found.allow(one, Outside("203.0.113.9"), 443)
        assert found.allow(one, DNS, 53)
        assert found.allow(BALANCER, one, 8888)
        assert not found.allow(one, METADATA, 80)
    assert found.allow(hub, notebook, 8888)
    assert not found.allow(INTERNET, notebook, 8888)
    assert not found.allow(notebook, Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": "train"}), 80)


def test_a_ray_cluster_is_reached_by_its_drivers_and_by_who_asks_its_head() -> None:
    found = Policies(ray_stack().all)
    head, worker = (
        Pod(namespace="ebbtide-ray-flow", labels={"ebbtide.dev/workload": f"flow-{part}"}) for part in ("head", "cpu")
    )
    driver, other = (
        Pod(namespace="ebbtide-workers", labels={"ebbtide.dev/workload": name}) for name in ("drive", "train")
    )
    asks = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "ebbtide-workloads"})
    operator = Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "kuberay-operator"})

    for one, another in ((head, worker), (driver, worker), (driver, head)):
        assert found.allow(one, another, 6379)
        assert found.allow(another, one, 20001)
    assert found.allow(asks, head, 8265)
    assert not found.allow(asks, head, 6379)
    assert not found.allow(other, head, 6379)
    assert not found.allow(worker, other, 20001)
    assert not found.allow(operator, head, 8265)
    assert not found.allow(Pod(namespace="ebbtide", labels={"ebbtide.dev/workload": "api"}), head, 10001)
    for one, reaches in ((head, True), (operator, True), (asks, True), (worker, False)):
        closed = Policies(record(ray_settings(egress={"allow": ["203.0.113.0/24"]})))
        assert closed.allow(one, API_SERVER, 6443) is reaches


@pytest.mark.parametrize("kept", ["redis", "none"])
def test_redis_lets_a_namespace_of_ray_in_if_a_head_keeps_its_state_there(kept: str) -> None:
    found = Policies(record(ray_settings(cluster={"head": {"cpu": 2, "memory": "6Gi", "faultTolerance": kept}})))
    head = Pod(namespace="ebbtide-ray-flow", labels={"ebbtide.dev/workload": "flow-head"})

    assert found.allow(head, pod("ebbtide-redis"), 6379) is (kept == "redis")
