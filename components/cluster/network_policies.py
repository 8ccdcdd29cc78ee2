"""Network policies: every namespace denies all traffic, and then admits what is needed.

Policies add up, so a customer opens more with a policy of their own beside these, and never has to change one. They do
nothing on a cluster whose network plugin does not enforce them; on EKS ours does.

| pods | may be called by | may call |
|---|---|---|
| workloads | every pod of the cluster, private addresses | everything but the instance metadata, or `egress.allow` |
| workers | the pods of both namespaces | the same |
| what starts pods itself | as workloads | as workloads, and the API server |
| what it started | as workloads | as workloads |
| controller | every pod, on its port for metrics | DNS, Redis, the API server |
| Ray clusters | their own pods and the workers that drive them; the controller, on the dashboard's port | the same |
| workers that drive Ray | as workers, and Ray's pods | the same |
| Ray's heads | as above | as workloads, and the API server |
| Ray's operator | nobody | DNS, the API server |
| exporter | as the controller | DNS, the API server, Redis where it speaks TLS |
| closer | nobody | DNS, the API server |
| Prometheus of its own | private addresses and KEDA, on its port | what it scrapes, DNS, the API server, Alertmanager |
| Alertmanager | private addresses and Prometheus, on its port | DNS, the ports of its receivers |
| Redis | see `components.redis.server` | nobody |

**A Prometheus that the file names** is let through to ports of metrics by its namespace, those of workers included;
one of the stack's own by its name. Then no other pod may call our own processes there, or Ray's. Both of the latter are
asked through the API server's proxy, which has a private address and no other name. Prometheus may call any address on
the port of kubelets, which are no pods.

**Private addresses** call workloads because load balancers do: they stand in the VPC and are no pods. So do those that
`expose` makes, public ones too: what they let in comes by a node, with its address (`components.pods.entrance`). A load
balancer that brings the client's public address to the pod needs a policy of the customer's own.

**The API server has no selector.** It is no pod, its address belongs to EKS and changes with an upgrade, and behind the
service's port 443 it may listen on 6443. So those two ports are open to every address but the metadata's: the token
decides what can be done there, not the way to it. A Redis or a proxy that the file gives by name is opened by its port
in the same way, since a policy knows no names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pulumi
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.context import StackContext
from components.monitoring.targets import BundledCalls
from ebbtide.settings.process_documents import DASHBOARD_PORT
from ebbtide.settings.sections.egress import METADATA
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS
from ebbtide.settings.sections.ray import RAY_OPERATOR, head_name
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS
from ebbtide.units.addresses import PRIVATE, SHARED, UNIQUE_LOCAL, unmapped
from ebbtide.vocabulary.labels import CLOSER, CONTROLLER, EXPORTER, WORKLOAD, WORKLOADS

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import LabelSelectorArgsDict
    from pulumi_kubernetes.networking.v1 import (
        NetworkPolicyEgressRuleArgsDict,
        NetworkPolicyIngressRuleArgsDict,
        NetworkPolicyPeerArgsDict,
        NetworkPolicyPortArgsDict,
        NetworkPolicySpecArgsDict,
    )

CONTROLLER_PORT = 8080
_DNS_PORT, _IDENTITY_PORT = 53, 80
_API_PORTS = (443, 6443)
_DEFAULT_PORTS = {"http": 80, "https": 443}

RAY_METRICS_PORT = 8080
PROMETHEUS_PORT, ALERTMANAGER_PORT = 9090, 9093
_KUBELET_PORT = 10250

SERVICES = "ebbtide-workloads"

_ANYWHERE = ("0.0.0.0/0", "::/0")
_PRIVATE = (*PRIVATE, SHARED, UNIQUE_LOCAL)
_NODE_DNS = "169.254.20.10/32"
"""Where NodeLocal DNSCache listens, on clusters that have it: on the node, so no selector of pods finds it."""
_POD_IDENTITY = ("169.254.170.23/32", "fd00:ec2::23/128")

_EVERY_POD: "NetworkPolicyPeerArgsDict" = {"namespace_selector": {}}


@dataclass(frozen=True, kw_only=True)
class NetworkPoliciesArgs:
    stack: StackContext
    redis_port: int
    redis_inside: bool
    allow: Sequence[str] = ()  # empty: everything
    proxies: Sequence[str] = ()  # their addresses
    starters: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
    """The namespaces of workloads that start pods, by workload."""
    ray: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
    """The namespaces of Ray clusters, by cluster."""
    floors: bool = False  # services have some, which the workload controller writes
    drivers: Sequence[str] = ()
    """Pools whose workers drive one: nodes of Ray themselves, they call its pods and are called by them."""
    ray_operator: bool = True  # ours; one of somebody else lives elsewhere, and calls no pod of Ray
    prometheus: str | None = None
    """The namespace whose pods alone may call the ports of metrics of our processes, of Ray and of workers."""
    exporter: bool = False
    redis_tls: bool = False  # then the exporter asks it for its certificate
    own_prometheus: BundledCalls | None = None
    """In place of `prometheus`: one in the controller's namespace."""
    scraped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Pools that name a port for metrics, with its number."""


class NetworkPolicies(pulumi.ComponentResource):
    def __init__(self, name: str, args: NetworkPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:NetworkPolicies", name, None, opts)
        system, workers = args.stack.namespace, args.stack.worker_namespace
        self._policy(f"{name}-system-default", "ebbtide-default-deny", system, _Rules(pods={}))
        self._policy(f"{name}-workers-default", "ebbtide-default-deny", workers, _Rules(pods={}))
        outside = _customer_egress(args)
        callers: NetworkPolicyIngressRuleArgsDict = {"from_": [_EVERY_POD, *_blocks(_PRIVATE)]}
        of_ray = [WORKLOADS, *([RAY_OPERATOR] if args.ray_operator else [])] if args.ray else []
        of_metrics = [
            *([EXPORTER] if args.exporter else []),
            *([] if args.own_prometheus is None else [PROMETHEUS, ALERTMANAGER]),
        ]
        ours = _not_ours([CONTROLLER, CLOSER, IN_CLUSTER_REDIS, *of_ray, *of_metrics])
        services = _Rules(pods=ours, ingress=[callers], egress=outside)
        self._policy(f"{name}-workloads", SERVICES, system, services)
        both: NetworkPolicyIngressRuleArgsDict = {"from_": [_namespace(system), _namespace(workers)]}
        self._policy(f"{name}-workers", "ebbtide-workers", workers, _Rules(pods={}, ingress=[both], egress=outside))
        scrapers = [_scraper(args)]
        scraped: NetworkPolicyIngressRuleArgsDict = {"from_": scrapers, "ports": _tcp(CONTROLLER_PORT)}
        controller = _Rules(pods=_named(CONTROLLER), ingress=[scraped], egress=[_DNS, _API_SERVER, _redis(args)])
        self._policy(f"{name}-controller", CONTROLLER, system, controller)
        if args.exporter:
            looks_at = [_DNS, _API_SERVER, *([_redis(args)] if args.redis_tls else [])]
            exporter = _Rules(pods=_named(EXPORTER), ingress=[scraped], egress=looks_at)
            self._policy(f"{name}-exporter", EXPORTER, system, exporter)
        closer = _Rules(pods=_named(CLOSER), egress=[_DNS, _API_SERVER])
        self._policy(f"{name}-closer", CLOSER, system, closer)
        alike = _Rules(pods={}, ingress=[callers], egress=outside)
        for starter, own in args.starters.items():
            self._policy(f"{name}-of-{starter}-default", "ebbtide-default-deny", own, _Rules(pods={}))
            self._policy(f"{name}-of-{starter}", SERVICES, own, alike)
            calls_api = _Rules(pods=_named(starter), egress=[_API_SERVER])
            self._policy(f"{name}-of-{starter}-api", starter, own, calls_api)
        for cluster, own in args.ray.items():
            inside: NetworkPolicyIngressRuleArgsDict = {"from_": [_namespace(own)]}
            dashboard: NetworkPolicyIngressRuleArgsDict = {"from_": [_namespace(system)], "ports": _tcp(DASHBOARD_PORT)}
            driven: NetworkPolicyIngressRuleArgsDict = {
                "from_": [{**_namespace(workers), "pod_selector": _any(args.drivers)}]
            }
            scraped_nodes: NetworkPolicyIngressRuleArgsDict = {"from_": scrapers, "ports": _tcp(RAY_METRICS_PORT)}
            self._policy(f"{name}-of-ray-{cluster}-default", "ebbtide-default-deny", own, _Rules(pods={}))
            ray = _Rules(
                pods={}, ingress=[inside, dashboard, scraped_nodes, *([driven] if args.drivers else [])], egress=outside
            )
            self._policy(f"{name}-of-ray-{cluster}", "ebbtide-ray", own, ray)
            head = _Rules(pods=_named(head_name(cluster)), egress=[_API_SERVER])
            self._policy(f"{name}-of-ray-{cluster}-api", head_name(cluster), own, head)
        if args.drivers:
            calls_back: NetworkPolicyIngressRuleArgsDict = {"from_": [_namespace(own) for own in args.ray.values()]}
            called = _Rules(pods=_any(args.drivers), ingress=[calls_back])
            self._policy(f"{name}-ray-drivers", "ebbtide-ray-drivers", workers, called)
        if args.ray or args.floors:
            heads: NetworkPolicyEgressRuleArgsDict = {
                "to": [_namespace(own) for own in args.ray.values()],
                "ports": _tcp(DASHBOARD_PORT),
            }
            asked_of = [_DNS, _API_SERVER, *([heads] if args.ray else [])]
            asks = _Rules(pods=_named(WORKLOADS), ingress=[scraped], egress=asked_of)
            self._policy(f"{name}-workload-controller", "ebbtide-workload-controller", system, asks)
        if args.ray and args.ray_operator:
            operator = _Rules(pods=_named(RAY_OPERATOR), egress=[_DNS, _API_SERVER])
            self._policy(f"{name}-ray-operator", RAY_OPERATOR, system, operator)
        if args.own_prometheus is not None:
            self._bundled_prometheus(name, args, args.own_prometheus)
        for port in sorted({*args.scraped.values()} if args.prometheus is not None else ()):
            pools = [pool for pool, number in args.scraped.items() if number == port]
            scraped: NetworkPolicyIngressRuleArgsDict = {"from_": scrapers, "ports": _tcp(port)}
            self._policy(
                f"{name}-scraped-{port}",
                f"ebbtide-scraped-{port}",
                workers,
                _Rules(pods=_any(pools), ingress=[scraped]),
            )
        self.register_outputs({})

    def _bundled_prometheus(self, name: str, args: NetworkPoliciesArgs, bundled: BundledCalls) -> None:
        system = args.stack.namespace
        calls: list[NetworkPolicyEgressRuleArgsDict] = [
            {"to": [{**_namespace(space), "pod_selector": _any(pods, label)}], "ports": _tcp(*ports)}
            for space, pods, ports, label in bundled.scrapes
        ]
        kubelets: NetworkPolicyEgressRuleArgsDict = {"to": _blocks(_ANYWHERE), "ports": _tcp(_KUBELET_PORT)}
        written = _outside(args, bundled.writes)
        if bundled.alert_ports is not None:
            calls.append({"to": [_pod(system, ALERTMANAGER)], "ports": _tcp(ALERTMANAGER_PORT)})
            told = _Rules(
                pods=_named(ALERTMANAGER),
                ingress=[
                    {"from_": [_pod(system, PROMETHEUS), *_blocks(_PRIVATE)], "ports": _tcp(ALERTMANAGER_PORT)},
                ],
                egress=[_DNS, *_outside(args, bundled.alert_ports)],
            )
            self._policy(f"{name}-alertmanager", ALERTMANAGER, system, told)
        proxied: NetworkPolicyIngressRuleArgsDict = {
            "from_": [*map(_namespace, bundled.queried_from), *_blocks(_PRIVATE)],
            "ports": _tcp(PROMETHEUS_PORT),
        }
        rules = _Rules(
            pods=_named(PROMETHEUS), ingress=[proxied], egress=[_DNS, _API_SERVER, kubelets, *calls, *written]
        )
        self._policy(f"{name}-prometheus", PROMETHEUS, system, rules)

    def _policy(self, resource_name: str, name: str, namespace: pulumi.Input[str], rules: "_Rules") -> None:
        """Both directions are named, so that an empty one is closed and not left as it was."""
        spec: NetworkPolicySpecArgsDict = {"pod_selector": rules.pods, "policy_types": ["Ingress", "Egress"]}
        if rules.ingress:
            spec["ingress"] = rules.ingress
        if rules.egress:
            spec["egress"] = rules.egress
        NetworkPolicy(
            resource_name,
            metadata={"name": name, "namespace": namespace},
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self),
        )


@dataclass(frozen=True, kw_only=True)
class _Rules:
    pods: "LabelSelectorArgsDict"
    ingress: "Sequence[NetworkPolicyIngressRuleArgsDict]" = ()
    egress: "Sequence[NetworkPolicyEgressRuleArgsDict]" = ()


def _customer_egress(args: NetworkPoliciesArgs) -> "list[NetworkPolicyEgressRuleArgsDict]":
    """With `allow`, what a pod needs to work at all stays open: the cluster, its names, its identity, the queue."""
    reach: NetworkPolicyEgressRuleArgsDict = {"to": [_EVERY_POD, *_blocks(args.allow or _ANYWHERE)]}
    if not args.allow:
        return [reach]
    return [reach, _DNS, _IDENTITY, _redis(args), *(_proxy(address) for address in args.proxies)]


def _scraper(args: NetworkPoliciesArgs) -> "NetworkPolicyPeerArgsDict":
    if args.own_prometheus is not None:
        return _pod(args.stack.namespace, PROMETHEUS)
    return _EVERY_POD if args.prometheus is None else _namespace(args.prometheus)


def _outside(args: NetworkPoliciesArgs, ports: Sequence[int]) -> "list[NetworkPolicyEgressRuleArgsDict]":
    """Pods of the cluster too: a receiver may be one. And what gives the pod its role, and the proxy.

    Nothing without a port: a rule that names none opens all.
    """
    if not ports:
        return []
    reach: NetworkPolicyEgressRuleArgsDict = {"to": [_EVERY_POD, *_blocks(_ANYWHERE)], "ports": _tcp(*ports)}
    return [reach, _IDENTITY, *(_proxy(address) for address in args.proxies)]


def _redis(args: NetworkPoliciesArgs) -> "NetworkPolicyEgressRuleArgsDict":
    if not args.redis_inside:
        return {"to": _blocks(_ANYWHERE), "ports": _tcp(args.redis_port)}
    server: NetworkPolicyPeerArgsDict = {**_namespace(args.stack.namespace), "pod_selector": _named(IN_CLUSTER_REDIS)}
    return {"to": [server], "ports": _tcp(args.redis_port)}


def _proxy(address: str) -> "NetworkPolicyEgressRuleArgsDict":
    parts = urlsplit(address)
    host = parts.hostname or ""
    try:
        blocks: Sequence[str] = [str(ip_network(unmapped(ip_address(host))))]
    except ValueError:
        blocks = _ANYWHERE  # a name
    return {"to": _blocks(blocks), "ports": _tcp(parts.port or _DEFAULT_PORTS[parts.scheme])}


def _blocks(ranges: Sequence[str]) -> "list[NetworkPolicyPeerArgsDict]":
    """Return the ranges without the addresses of the instance metadata."""
    return [_block(block) for block in ranges]


def _block(text: str) -> "NetworkPolicyPeerArgsDict":
    block = ip_network(text)
    hidden = [
        str(address) for address in METADATA if address.version == block.version and address.network_address in block
    ]
    return {"ip_block": {"cidr": text, "except_": hidden}} if hidden else {"ip_block": {"cidr": text}}


def _namespace(name: pulumi.Input[str]) -> "NetworkPolicyPeerArgsDict":
    return {"namespace_selector": {"match_labels": {"kubernetes.io/metadata.name": name}}}


def _pod(namespace: pulumi.Input[str], name: str) -> "NetworkPolicyPeerArgsDict":
    return {**_namespace(namespace), "pod_selector": _named(name)}


def _named(name: str) -> "LabelSelectorArgsDict":
    return {"match_labels": {WORKLOAD: name}}


def _any(names: Sequence[str], label: str = WORKLOAD) -> "LabelSelectorArgsDict":
    return {"match_expressions": [{"key": label, "operator": "In", "values": sorted(names)}]}


def _tcp(*ports: int) -> "list[NetworkPolicyPortArgsDict]":
    return [{"port": port, "protocol": "TCP"} for port in ports]


def _not_ours(ours: Sequence[str]) -> "LabelSelectorArgsDict":
    """Pods without the label too: what a customer puts there by hand counts as a workload."""
    return {"match_expressions": [{"key": WORKLOAD, "operator": "NotIn", "values": ours}]}


_DNS: "NetworkPolicyEgressRuleArgsDict" = {
    "to": [_namespace("kube-system"), *_blocks([_NODE_DNS])],
    "ports": [{"port": _DNS_PORT, "protocol": protocol} for protocol in ("UDP", "TCP")],
}

_API_SERVER: "NetworkPolicyEgressRuleArgsDict" = {"to": _blocks(_ANYWHERE), "ports": _tcp(*_API_PORTS)}

_IDENTITY: "NetworkPolicyEgressRuleArgsDict" = {"to": _blocks(_POD_IDENTITY), "ports": _tcp(_IDENTITY_PORT)}
