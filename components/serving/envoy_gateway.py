"""Envoy Gateway: reads Gateways, routes and policies, and runs the Envoy pods that proxy requests.

Its chart lets it read the Secrets of all namespaces. In Ebbtide it watches only two: its own, with the Gateway and the
Envoy pods, and the namespace of the routes. It creates the Envoy pods' Deployment, Service and budget from the
EnvoyProxy. While it is down, Envoy continues with its last endpoints, including deleted ones.

**Certificates** for the connection to Envoy are created once, by a Job that runs `certgen` of the same image, and are
valid for five years. Another version reruns the Job, which keeps existing certificates.

**Draining.** A stopping Envoy pod first fails its health check, so that the load balancer sends no new requests, and
waits for requests in flight, up to `drain`.

Source: `charts/gateway-helm` of the release that `data/README.md` names.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import ConfigMap
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components import images
from components.definitions import definitions
from components.granting import grant, grant_everywhere
from components.pods.rules import ZONE, affinity, container_security, home, pod_security, resources, spread
from components.program import (
    Program,
    ProgramArgs,
    account,
    all_addresses,
    identity,
    network_policy,
    probe,
    run,
    run_once,
    service,
    tcp,
)
from ebbtide.provisioning_labels import FILES_DIGEST, SELF_MADE_SECRETS, NodeKind
from ebbtide.settings.sections.serving.gateway import ENVOY_GATEWAY_CONTROLLER, GATEWAY, GATEWAY_NAMESPACE
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAMESPACE = GATEWAY_NAMESPACE
NAME = "envoy-gateway"  # Envoy looks for a Service of this name
CLASS = GATEWAY
ENVOY = "ebbtide-envoy"
"""The Deployment, the Service and the budget of the Envoy pods."""
ENVOY_METRICS_PORT = 19001
ENVOY_METRICS_PATH = "/stats/prometheus"
MIN_DRAIN = timedelta(seconds=10)
"""After this time nodes and clients no longer send requests to a stopping Envoy pod."""

_API = "gateway.envoyproxy.io/v1alpha1"
_READ = ["get", "list", "watch"]
_MAKE = [*_READ, "create", "delete", "deletecollection", "patch"]
_PORTS = {"grpc": 18000, "ratelimit": 18001, "wasm": 18002, "metrics": 19001}
_HEALTH = 8081
_USER = 65532  # of the image
_CERTGEN = "envoy-gateway-certgen"
_CONFIG_FILE = "envoy-gateway.yaml"

_POLICIES = [
    "envoyproxies",
    "envoypatchpolicies",
    "clienttrafficpolicies",
    "backendtrafficpolicies",
    "securitypolicies",
    "envoyextensionpolicies",
    "backends",
    "httproutefilters",
]
_ROUTES = [
    "gateways",
    "listenersets",
    "grpcroutes",
    "httproutes",
    "referencegrants",
    "tcproutes",
    "tlsroutes",
    "udproutes",
    "backendtlspolicies",
]

WATCHED_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["configmaps", "secrets", "services"], "verbs": _READ},
    {"api_groups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": _READ},
    {"api_groups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
    {"api_groups": ["gateway.envoyproxy.io"], "resources": _POLICIES, "verbs": _READ},
    {
        "api_groups": ["gateway.envoyproxy.io"],
        "resources": [f"{kind}/status" for kind in _POLICIES],
        "verbs": ["update"],
    },
    {"api_groups": ["gateway.networking.k8s.io"], "resources": _ROUTES, "verbs": _READ},
    {
        "api_groups": ["gateway.networking.k8s.io"],
        "resources": [f"{kind}/status" for kind in _ROUTES],
        "verbs": ["update"],
    },
]

OWN_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["serviceaccounts", "services", "configmaps"], "verbs": _MAKE},
    {"api_groups": ["apps"], "resources": ["deployments", "daemonsets"], "verbs": _MAKE},
    {"api_groups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": _MAKE},
    {"api_groups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _MAKE},
    {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, "create", "update", "patch"]},
    {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]

CLUSTER_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["nodes", "namespaces"], "verbs": _READ},
    {
        "api_groups": ["gateway.networking.k8s.io"],
        "resources": ["gatewayclasses"],
        "verbs": [*_READ, "patch", "update"],
    },
    {"api_groups": ["gateway.networking.k8s.io"], "resources": ["gatewayclasses/status"], "verbs": ["update"]},
]

CERTGEN_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["secrets"], "verbs": ["create", "get", "update"]},
]


@dataclass(frozen=True, kw_only=True)
class EnvoyGatewayArgs(ProgramArgs):
    """Arguments of Envoy Gateway. Of its `replicas` one leads, and each sends endpoints to Envoy."""

    replicas: int = 2  # if none runs, Envoy still sends requests to pods that an HPA has removed
    routes: pulumi.Input[str]  # the namespace of routes and their backends
    envoys: int = 2
    longest: timedelta  # the longest request of all services
    cpu: int = 500  # of an Envoy pod
    memory: int = 512
    listens: tuple[int, ...] = (10080, 10443)  # the pods' ports; for a Gateway's port below 1024, that port plus 10000

    @property
    def drain(self) -> timedelta:
        """Return how long a stopping Envoy pod waits for requests in flight, including those that still arrive."""
        return MIN_DRAIN + max(MIN_DRAIN, self.longest)


class EnvoyGateway(pulumi.ComponentResource):
    """Envoy Gateway. A Gateway, its routes and its policies depend on it, since it handles their deletion."""

    def __init__(self, name: str, args: EnvoyGatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:EnvoyGateway", name, None, opts)
        self._name, self._args = name, args
        self._child = pulumi.ResourceOptions(parent=self)
        kinds = definitions(name, "envoy-gateway", provider=args.definitions, parent=self)
        config = pulumi.Output.json_dumps(_config(args), indent=1)
        settings = ConfigMap(
            f"{name}-config",
            metadata={"name": NAME, "namespace": args.namespace},
            data={_CONFIG_FILE: config},  # JSON is YAML
            opts=self._child,
        )
        program = _program(config.apply(lambda text: hashlib.sha256(text.encode()).hexdigest()))
        service(name, NAME, NAME, {port: (number, number) for port, number in _PORTS.items()}, args, parent=self)
        network_policy(name, NAME, args, listens=list(_PORTS.values()), parent=self)
        self._envoy_policy()
        runs = run(name, program, args, parent=self, after=[*kinds, settings, *self._rights(), self._certificates()])
        self._class(after=[*kinds, runs])
        self.register_outputs({})

    def _rights(self) -> list[pulumi.Resource]:
        name, args = self._name, self._args
        return [
            account(name, NAME, args, parent=self),
            *grant(f"{name}-routes", NAME, args.routes, WATCHED_RULES, home=args.namespace, parent=self),
            *grant(f"{name}-own", NAME, args.namespace, [*WATCHED_RULES, *OWN_RULES], parent=self),
            *grant_everywhere(f"{name}-cluster", NAME, CLUSTER_RULES, home=args.namespace, parent=self),
        ]

    def _certificates(self) -> pulumi.Resource:
        name, args = f"{self._name}-certgen", self._args
        before = [
            account(name, _CERTGEN, args, parent=self),
            *grant(name, _CERTGEN, args.namespace, CERTGEN_RULES, parent=self),
            network_policy(name, _CERTGEN, args, listens=[_HEALTH], parent=self),
        ]
        program = Program(
            name=_CERTGEN,
            image=images.ENVOY_GATEWAY,
            command=["envoy-gateway", "certgen"],
            args=["--disable-topology-injector"],
            env=_ENVIRONMENT,
            ports={},
            cpu=50,
            memory=128,
            user=_USER,
        )
        return run_once(name, program, args, parent=self, after=before)

    def _class(self, after: list[pulumi.Resource]) -> None:
        args = self._args
        opts = pulumi.ResourceOptions(parent=self, depends_on=after)
        proxy = CustomResource(
            f"{self._name}-envoy-proxy",
            api_version=_API,
            kind="EnvoyProxy",
            metadata={"name": CLASS, "namespace": args.namespace},
            spec=envoy_proxy(args),
            opts=opts,
        )
        CustomResource(
            f"{self._name}-class",
            api_version="gateway.networking.k8s.io/v1",
            kind="GatewayClass",
            metadata={"name": CLASS},
            spec={
                "controllerName": ENVOY_GATEWAY_CONTROLLER,
                "parametersRef": {
                    "group": "gateway.envoyproxy.io",
                    "kind": "EnvoyProxy",
                    "name": CLASS,
                    "namespace": args.namespace,
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, proxy]),
        )

    def _envoy_policy(self) -> None:
        """Create Envoy's network policy: Envoy may call any backend, and the load balancer decides who calls Envoy."""
        NetworkPolicy(
            f"{self._name}-envoys-policy",
            metadata={"name": ENVOY, "namespace": self._args.namespace},
            spec={
                "pod_selector": {"match_labels": identity(ENVOY, self._args.stack.customer).selector},
                "policy_types": ["Ingress", "Egress"],
                "ingress": [{"ports": tcp(*self._args.listens, ENVOY_METRICS_PORT, 19003)}],
                "egress": [{"to": [{"namespace_selector": {}}, *all_addresses()]}],
            },
            opts=self._child,
        )


_ENVIRONMENT: Any = [
    {"name": "ENVOY_GATEWAY_NAMESPACE", "value_from": {"field_ref": {"field_path": "metadata.namespace"}}},
    {"name": "KUBERNETES_CLUSTER_DOMAIN", "value": "cluster.local"},
]


def _config(args: EnvoyGatewayArgs) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "EnvoyGateway",
        "gateway": {"controllerName": ENVOY_GATEWAY_CONTROLLER},
        "logging": {"level": {"default": args.log}},
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                "watch": {"type": "Namespaces", "namespaces": [args.namespace, args.routes]},
                "leaderElection": {"disable": False},
                "shutdownManager": {"image": args.stack.images.of(images.ENVOY_GATEWAY)},
            },
        },
    }


def _program(digest: pulumi.Output[str]) -> Program:
    return Program(
        name=NAME,
        image=images.ENVOY_GATEWAY,
        args=["server", f"--config-path=/config/{_CONFIG_FILE}"],
        env=_ENVIRONMENT,
        ports=_PORTS,
        ready=probe("/readyz", _HEALTH),
        alive=probe("/healthz", _HEALTH, failures=6),
        cpu=100,
        memory=512,
        user=_USER,
        grace=10,
        annotations={FILES_DIGEST: digest, SELF_MADE_SECRETS: NAME},
        mounts={
            "/config": {"name": "", "config_map": {"name": NAME}},
            "/certs": {"name": "", "secret": {"secret_name": NAME}},
            "/var/lib/eg/wasm": {"name": "", "empty_dir": {}},
        },
    )


_ZONE_OF_POD = {
    "name": "ENVOY_SERVICE_ZONE",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{ZONE}']"}},
}
"""From 1.35 on, Kubernetes copies the node's zone to each pod's labels. Envoy Gateway's default is an annotation by a
webhook of its chart, which may change every pod of the cluster and is not installed."""


def envoy_proxy(args: EnvoyGatewayArgs) -> dict[str, Any]:
    """Return the spec of the EnvoyProxy in the API's form."""
    pods = identity(ENVOY, args.stack.customer)
    pod: dict[str, Any] = {
        # Envoy Gateway's selector has another name label, and a Deployment that does not select its pods is refused.
        "labels": {key: value for key, value in pods.labels.items() if not key.startswith("app.kubernetes.io/")},
        "affinity": _camel(affinity(Category.FIXED)),
        "topology_spread_constraints": spread(pods, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "security_context": pod_security(_USER),
    }
    if args.stack.images.pull_secrets:
        pod["image_pull_secrets"] = [{"name": secret} for secret in args.stack.images.pull_secrets]
    return {
        "logging": {"level": {"default": "warn"}},
        "provider": {
            "type": "Kubernetes",
            "kubernetes": {
                "envoyDeployment": {
                    "name": ENVOY,
                    "replicas": args.envoys,
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                    "pod": _camel(pod),
                    "container": {
                        "image": args.stack.images.of(images.ENVOY),
                        "env": [_ZONE_OF_POD],
                        "resources": resources(cpu=args.cpu, memory=args.memory),
                        "securityContext": _camel(container_security(read_only=True)),
                    },
                },
                "envoyPDB": {"name": ENVOY, "maxUnavailable": 1},
                # The load balancer in front is a Service of the stack: see `components.serving.gateway`.
                "envoyService": {"name": ENVOY, "type": "ClusterIP"},
            },
        },
        "shutdown": {"drainTimeout": format_duration(args.drain), "minDrainDuration": format_duration(MIN_DRAIN)},
        "telemetry": {"metrics": {"prometheus": {}}},
    }


def _camel(value: Any) -> Any:
    """Return Kubernetes' spelling, for objects that the provider does not translate. No label contains `_` + letter."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {re.sub("_([a-z])", lambda match: match[1].upper(), key): _camel(field) for key, field in fields.items()}
    return [_camel(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value
