"""Ways in: only declared ones are public, and each route of the gateway leads to a Service of the stack.

The Services of a namespace that the stack does not create are not known here.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_network

from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.recording.resources import Resource, kind_of, name_of, namespace_of
from ebbtide.recording.state import StackState
from ebbtide.recording.values import mappings, texts, value_at, words
from ebbtide.settings.capacity.pods import gateway_entrance
from ebbtide.settings.sections.entrance import load_balancer_name
from ebbtide.settings.sections.serving.gateway import GATEWAY_NAMESPACE
from ebbtide.text.addresses import SHARED
from ebbtide.vocabulary.labels import NAMESPACE

_CLUSTER = "aws:eks/cluster:Cluster"
_SUBNET = "aws:ec2/subnet:Subnet"
_SERVICE_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer-"
_INGRESS_SCHEME = "alb.ingress.kubernetes.io/scheme"
_PUBLIC = "internet-facing"


def _open_api(state: StackState) -> Hits:
    declared = set(state.settings.cluster.public_access)
    for cluster in state.of_type(_CLUSTER):
        access = value_at(cluster.inputs, "vpcConfig")
        ranges = words(value_at(access, "publicAccessCidrs")) or ("0.0.0.0/0",)  # the default of EKS
        if value_at(access, "endpointPublicAccess") is not False and (
            open_to := [r for r in ranges if r not in declared]
        ):
            yield cluster, f"its API is open to {', '.join(open_to)}, which cluster.publicAccess does not name"
    for rule, ranges in _ingress(state):
        for range_ in ranges:
            if _is_public(range_) and range_ not in declared:
                yield rule, f"it lets {range_} in, which cluster.publicAccess does not name"


_GROUPS = ("aws:ec2/securityGroup:SecurityGroup", "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")


def _ingress(state: StackState) -> list[tuple[Resource, list[str]]]:
    rules: list[tuple[Resource, list[str]]] = []
    for resource in state.resources:
        inputs = resource.inputs
        if resource.type == "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule":
            rules.append((resource, [texts(inputs)[key] for key in ("cidrIpv4", "cidrIpv6") if key in texts(inputs)]))
        elif resource.type == "aws:ec2/securityGroupRule:SecurityGroupRule" and inputs.get("type") == "ingress":
            rules.append((resource, _blocks(inputs)))
        elif resource.type in _GROUPS:
            rules.append((resource, [block for rule in mappings(inputs.get("ingress")) for block in _blocks(rule)]))
    return rules


def _blocks(rule: Mapping[str, object]) -> list[str]:
    return [*words(rule.get("cidrBlocks")), *words(rule.get("ipv6CidrBlocks"))]


def _is_public(text: str) -> bool:
    try:
        network = ip_network(text, strict=False)
    except ValueError:  # not known before the update
        return False
    shared = isinstance(network, IPv4Network) and network.subnet_of(IPv4Network(SHARED))
    return not (network.is_private or shared)


def _public_balancer(state: StackState) -> Hits:
    declared = _declared_public(state)
    for resource in state.of_kind("Service", "Ingress"):
        annotations = texts(value_at(resource.inputs, "metadata.annotations"))
        if kind_of(resource) == "Ingress":
            if annotations.get(_INGRESS_SCHEME) == _PUBLIC:
                yield resource, "it creates a load balancer that is reachable from the internet"
            continue
        scheme = annotations.get(f"{_SERVICE_ANNOTATION}scheme")
        internal = scheme == "internal" or annotations.get(f"{_SERVICE_ANNOTATION}internal") == "true"
        balanced = value_at(resource.inputs, "spec.type") == "LoadBalancer"
        if (
            balanced
            and (namespace_of(resource), name_of(resource)) not in declared
            and (scheme == _PUBLIC or not (internal or state.existing))
        ):
            yield resource, "it creates a load balancer that is reachable from the internet"


def _declared_public(state: StackState) -> set[tuple[str, str]]:
    """Namespaces and names of the Services of workloads, and of the gateway, with `public: true` in the stack file."""
    entrances = {name: workload.expose for name, workload in state.settings.workloads.items()}
    declared = {
        (NAMESPACE, load_balancer_name(name, entrance))
        for name, entrance in entrances.items()
        if entrance is not None and entrance.public
    }
    gateway = gateway_entrance(state.settings)
    if gateway is not None and gateway.public:
        declared.add((GATEWAY_NAMESPACE, state.settings.serving.balancer))
    return declared


def _public_nodes(state: StackState) -> Hits:
    for subnet in state.of_type(_SUBNET):
        if subnet.inputs.get("mapPublicIpOnLaunch") is True:
            yield subnet, "instances in it get a public address, which costs money and is reachable"


def _leads_nowhere(state: StackState) -> Hits:
    namespaces = {name_of(resource) for resource in state.of_kind("Namespace")}
    ports = {(namespace_of(svc), name_of(svc)): set(_ports(svc)) for svc in state.of_kind("Service")}
    for route in state.of_kind("HTTPRoute", "GRPCRoute"):
        for backend in _backends(route):
            place = str(backend.get("namespace", namespace_of(route))), str(backend.get("name"))
            if place[0] not in namespaces:
                continue
            if place not in ports:
                yield route, f"it leads to Service {'/'.join(place)}, which the stack does not have"
            elif backend.get("port") not in ports[place]:
                service = f"Service {'/'.join(place)}"
                yield route, f"it leads to port {backend.get('port')} of {service}, which does not have that port"


def _backends(route: Resource) -> Iterator[Mapping[str, object]]:
    """The Services among a route's backends."""
    for rule in mappings(value_at(route.inputs, "spec.rules")):
        yield from (
            backend for backend in mappings(rule.get("backendRefs")) if backend.get("kind", "Service") == "Service"
        )


def _ports(service: Resource) -> Iterator[object]:
    yield from (port.get("port") for port in mappings(value_at(service.inputs, "spec.ports")))


RULES = (
    Rule(
        code="EB032",
        severities=(Severity.BLOCKING,),
        title="only public address ranges that the stack file names may connect",
        remedy="name the range in cluster.publicAccess, or close it",
        source="security/iam, cluster endpoint",
        check=_open_api,
    ),
    Rule(
        code="EB033",
        severities=(Severity.BLOCKING,),
        title="no load balancer is internet-facing without being declared",
        remedy="set the scheme to internal, write expose.public or serving.public in the stack file, or an exception "
        "that says who may connect",
        source="security/network; networking/loadbalancing",
        check=_public_balancer,
    ),
    Rule(
        code="EB034",
        severities=(Severity.BLOCKING,),
        title="no subnet assigns public addresses automatically",
        remedy="set mapPublicIpOnLaunch: false on the subnet",
        source="security/hosts, private subnets",
        check=_public_nodes,
    ),
    Rule(
        code="EB044",
        severities=(Severity.BLOCKING,),
        title="a route of the gateway leads to a Service and a port that the stack has",
        remedy="name the Service of a variant, SERVICE-VARIANT, and its port; or delete the route",
        source="kubernetes-sigs/gateway-api#1243; envoyproxy/gateway#162",
        check=_leads_nowhere,
    ),
)
