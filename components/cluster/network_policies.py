"""Network policies: every namespace denies all traffic by default, and further policies admit what is needed.

Policies add up, so a customer can open more with an additional policy, without changing these. They have no effect on a
cluster whose network plugin does not enforce them; EKS enforces them.

| pods | may be called by | may call |
|---|---|---|
| workloads | every pod of the cluster, private addresses | everything but the instance metadata, or `egress.allow` |
| workers | the pods of both namespaces | the same, and the port of their RabbitMQ |
| workloads that start pods | as workloads | as workloads, and the API server |
| pods that they start | as workloads | as workloads |
| controller | every pod, on its port for metrics | DNS, Redis, brokers, the API server; Pod Identity for SQS |
| workload controller | as the controller | DNS, the API server, Ray's heads, Prometheus and hubs |
| Ray clusters | their own pods and the workers that drive them; the controller, on the dashboard's port | the same |
| workers that drive Ray | as workers, and Ray's pods | the same |
| Ray's heads | as above | as workloads, and the API server |
| Ray's operator | no pod | DNS, the API server |
| exporter | as the controller | DNS, the API server, Redis where it speaks TLS |
| closer | no pod | DNS, the API server |
| bundled Prometheus | private addresses, KEDA, workload controller | its targets, DNS, the API server, Alertmanager |
| Alertmanager | private addresses and Prometheus, on its port | DNS, the ports of its receivers |
| Redis | see `components.redis.server` | no address |

**Prometheus.** If the stack file names the namespace of a Prometheus, that namespace may call metrics ports, including
those of workers; the bundled Prometheus may call them by its pod's name. No other pod may then call the metrics ports
of Ebbtide's processes or of Ray. The bundled Prometheus and Alertmanager are also called through the API server's
proxy, which policies can only describe as a private address. Prometheus may call any address on the kubelets' port,
since kubelets are not pods.

**Private addresses** may call workloads because load balancers do: they are in the VPC and are not pods. This includes
the load balancers of `expose`, public ones too: their traffic comes from a node's address (`components.pods.entrance`).
If a load balancer preserves the client's public address, the customer adds a policy for it.

**The API server has no selector.** It is not a pod, its address belongs to EKS and changes with an upgrade, and behind
the Service's port 443 it may listen on 6443. So these two ports are open to every address except the instance
metadata's; tokens decide about access. If the stack file names a Redis or a proxy by host, the port is open to every
address in the same way, since a policy cannot contain host names.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pulumi
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.context import StackContext
from components.monitoring.targets import BundledCalls
from ebbtide.settings.capacity.process_documents import DASHBOARD_PORT
from ebbtide.settings.sections.egress import METADATA
from ebbtide.settings.sections.monitoring import ALERTMANAGER, PROMETHEUS, PROMETHEUS_PORT
from ebbtide.settings.sections.ray import RAY_OPERATOR, head_name
from ebbtide.settings.sections.redis import IN_CLUSTER_REDIS
from ebbtide.text.addresses import PRIVATE, SHARED, UNIQUE_LOCAL, unmapped
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
ALERTMANAGER_PORT = 9093
_KUBELET_PORT = 10250

SERVICES = "ebbtide-workloads"

_ANYWHERE = ("0.0.0.0/0", "::/0")
_PRIVATE = (*PRIVATE, SHARED, UNIQUE_LOCAL)
_NODE_DNS = "169.254.20.10/32"
"""The address of NodeLocal DNSCache, on clusters that use it. It is on the node, so no pod selector matches."""
_POD_IDENTITY = ("169.254.170.23/32", "fd00:ec2::23/128")

_EVERY_POD: "NetworkPolicyPeerArgsDict" = {"namespace_selector": {}}


@dataclass(frozen=True, kw_only=True)
class NetworkPoliciesArgs:
    stack: StackContext
    redis_port: int
    redis_inside: bool
    brokers: Mapping[str, int] = field(default_factory=dict[str, int])
    """Ports of RabbitMQs by worker pool. A RabbitMQ may be a pod or outside the cluster."""
    counted_ports: Sequence[int] = ()
    """Ports of RabbitMQs and of their management APIs, which the controller calls."""
    controller_on_aws: bool = False  # the controller gets credentials by Pod Identity
    allow: Sequence[str] = ()  # `egress.allow`; empty: everything
    proxies: Sequence[str] = ()  # URLs
    starters: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
    """The namespaces of workloads that start pods, by workload."""
    ray: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
    """The namespaces of Ray clusters, by cluster."""
    workload_controller: bool = False
    asked_ports: Sequence[int] = ()
    """Ports of Prometheus and of hubs, which the workload controller queries for idleness."""
    drivers: Sequence[str] = ()
    """Pools whose workers drive a Ray cluster: as Ray nodes, workers and the cluster's pods call each other."""
    ray_operator: bool = True  # bundled; an existing operator runs elsewhere, and calls no Ray pod
    prometheus: str | None = None
    """The only namespace whose pods may call the metrics ports of Ebbtide's processes, of Ray and of workers."""
    exporter: bool = False
    redis_tls: bool = False  # the exporter then reads its certificate
    own_prometheus: BundledCalls | None = None
    """The bundled Prometheus, which replaces `prometheus`, in the controller's namespace."""
    scraped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Metrics ports by pool."""


class NetworkPolicies(pulumi.ComponentResource):
    def __init__(self, name: str, args: NetworkPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:NetworkPolicies", name, None, opts)
        system, workers = args.stack.namespace, args.stack.worker_namespace
        self._policy(f"{name}-system-default", "ebbtide-default-deny", system, _Rules(pods={}))
        self._policy(f"{name}-workers-default", "ebbtide-default-deny", workers, _Rules(pods={}))
        outside = _customer_egress(args)
        callers: NetworkPolicyIngressRuleArgsDict = {"from_": [_EVERY_POD, *_blocks(_PRIVATE)]}
        of_ray = [RAY_OPERATOR] if args.ray and args.ray_operator else []
        of_workloads = [WORKLOADS] if args.workload_controller else []
        of_metrics = [
            *([EXPORTER] if args.exporter else []),
            *([] if args.own_prometheus is None else [PROMETHEUS, ALERTMANAGER]),
        ]
        ours = _not_ours([CONTROLLER, CLOSER, IN_CLUSTER_REDIS, *of_workloads, *of_ray, *of_metrics])
        services = _Rules(pods=ours, ingress=[callers], egress=outside)
        self._policy(f"{name}-workloads", SERVICES, system, services)
        both: NetworkPolicyIngressRuleArgsDict = {"from_": [_namespace(system), _namespace(workers)]}
        self._policy(f"{name}-workers", "ebbtide-workers", workers, _Rules(pods={}, ingress=[both], egress=outside))
        scrapers = [_scraper(args)]
        scraped_process: NetworkPolicyIngressRuleArgsDict = {"from_": scrapers, "ports": _tcp(CONTROLLER_PORT)}
        calls = [
            *(_DNS, _API_SERVER, _redis(args), *_anywhere({*args.counted_ports})),
            *([_IDENTITY] if args.controller_on_aws else []),
        ]
        controller = _Rules(pods=_named(CONTROLLER), ingress=[scraped_process], egress=calls)
        self._policy(f"{name}-controller", CONTROLLER, system, controller)
        if args.exporter:
            looks_at = [_DNS, _API_SERVER, *([_redis(args)] if args.redis_tls else [])]
            exporter = _Rules(pods=_named(EXPORTER), ingress=[scraped_process], egress=looks_at)
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
        if args.workload_controller:
            heads: NetworkPolicyEgressRuleArgsDict = {
                "to": [_namespace(own) for own in args.ray.values()],
                "ports": _tcp(DASHBOARD_PORT),
            }
            servers: NetworkPolicyEgressRuleArgsDict = {
                "to": [_EVERY_POD, *_blocks(_ANYWHERE)],
                "ports": _tcp(*args.asked_ports),
            }
            asked_of = [_DNS, _API_SERVER, *([heads] if args.ray else []), *([servers] if args.asked_ports else [])]
            asks = _Rules(pods=_named(WORKLOADS), ingress=[scraped_process], egress=asked_of)
            self._policy(f"{name}-workload-controller", "ebbtide-workload-controller", system, asks)
        if args.ray and args.ray_operator:
            operator = _Rules(pods=_named(RAY_OPERATOR), egress=[_DNS, _API_SERVER])
            self._policy(f"{name}-ray-operator", RAY_OPERATOR, system, operator)
        if args.own_prometheus is not None:
            self._bundled_prometheus(name, args, args.own_prometheus)
        for port, pools in _by_port(args.brokers if args.allow else {}):
            calls_broker = _Rules(pods=_any(pools), egress=_anywhere({port}))
            self._policy(f"{name}-broker-{port}", f"ebbtide-broker-{port}", workers, calls_broker)
        for port, pools in _by_port(args.scraped if args.prometheus is not None else {}):
            scraped_pool: NetworkPolicyIngressRuleArgsDict = {"from_": scrapers, "ports": _tcp(port)}
            self._policy(
                f"{name}-scraped-{port}",
                f"ebbtide-scraped-{port}",
                workers,
                _Rules(pods=_any(pools), ingress=[scraped_pool]),
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
            rules = _Rules(
                pods=_named(ALERTMANAGER),
                ingress=[
                    {"from_": [_pod(system, PROMETHEUS), *_blocks(_PRIVATE)], "ports": _tcp(ALERTMANAGER_PORT)},
                ],
                egress=[_DNS, *_outside(args, bundled.alert_ports)],
            )
            self._policy(f"{name}-alertmanager", ALERTMANAGER, system, rules)
        controller = [_pod(system, WORKLOADS)] if args.asked_ports else []
        proxied: NetworkPolicyIngressRuleArgsDict = {
            "from_": [*map(_namespace, bundled.queried_from), *controller, *_blocks(_PRIVATE)],
            "ports": _tcp(PROMETHEUS_PORT),
        }
        rules = _Rules(
            pods=_named(PROMETHEUS), ingress=[proxied], egress=[_DNS, _API_SERVER, kubelets, *calls, *written]
        )
        self._policy(f"{name}-prometheus", PROMETHEUS, system, rules)

    def _policy(self, resource_name: str, name: str, namespace: pulumi.Input[str], rules: "_Rules") -> None:
        """Create a policy for both directions: a direction without rules is closed."""
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


def _by_port(ports: Mapping[str, int]) -> list[tuple[int, list[str]]]:
    """Return the pools of each port."""
    return [(port, [pool for pool in ports if ports[pool] == port]) for port in sorted({*ports.values()})]


def _customer_egress(args: NetworkPoliciesArgs) -> "list[NetworkPolicyEgressRuleArgsDict]":
    """Return the egress of customers' pods. Despite `allow` they may call the cluster, DNS, Pod Identity and Redis."""
    reach: NetworkPolicyEgressRuleArgsDict = {"to": [_EVERY_POD, *_blocks(args.allow or _ANYWHERE)]}
    if not args.allow:
        return [reach]
    return [reach, _DNS, _IDENTITY, _redis(args), *(_proxy(address) for address in args.proxies)]


def _scraper(args: NetworkPoliciesArgs) -> "NetworkPolicyPeerArgsDict":
    if args.own_prometheus is not None:
        return _pod(args.stack.namespace, PROMETHEUS)
    return _EVERY_POD if args.prometheus is None else _namespace(args.prometheus)


def _outside(args: NetworkPoliciesArgs, ports: Sequence[int]) -> "list[NetworkPolicyEgressRuleArgsDict]":
    """Allow these ports on every address (a receiver may be a pod), and calls of Pod Identity and the proxies."""
    reach = _anywhere({*ports})
    return [*reach, _IDENTITY, *(_proxy(address) for address in args.proxies)] if reach else []


def _anywhere(ports: Set[int]) -> "list[NetworkPolicyEgressRuleArgsDict]":
    """Allow these ports on every address, in the cluster too.

    Without ports, return no rule: a rule without ports would open all of them.
    """
    return [{"to": [_EVERY_POD, *_blocks(_ANYWHERE)], "ports": _tcp(*sorted(ports))}] if ports else []


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
        blocks = _ANYWHERE  # a host name
    return {"to": _blocks(blocks), "ports": _tcp(parts.port or _DEFAULT_PORTS[parts.scheme])}


def _blocks(ranges: Sequence[str]) -> "list[NetworkPolicyPeerArgsDict]":
    """Return the ranges without the addresses of the instance metadata service."""
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
    """Select all other pods, including pods without the label: one that a customer creates by hand is a workload."""
    return {"match_expressions": [{"key": WORKLOAD, "operator": "NotIn", "values": ours}]}


_DNS: "NetworkPolicyEgressRuleArgsDict" = {
    "to": [_namespace("kube-system"), *_blocks([_NODE_DNS])],
    "ports": [{"port": _DNS_PORT, "protocol": protocol} for protocol in ("UDP", "TCP")],
}

_API_SERVER: "NetworkPolicyEgressRuleArgsDict" = {"to": _blocks(_ANYWHERE), "ports": _tcp(*_API_PORTS)}

_IDENTITY: "NetworkPolicyEgressRuleArgsDict" = {"to": _blocks(_POD_IDENTITY), "ports": _tcp(_IDENTITY_PORT)}
