"""KEDA: scales by metrics from Prometheus. It creates an HPA for each ScaledObject and serves the HPA's metrics.

The manifest of KEDA's release lets it read every Secret and every object of the cluster, and scale every kind. In
Ebbtide it watches one namespace, reads Secrets only in its own namespace (`KEDA_RESTRICT_SECRET_ACCESS`), and scales
only Deployments and StatefulSets.

While it is down, HPAs keep their replicas: a missing metric never scales down. A cluster has one external metrics
server; the API server finds it by the APIService, whose CA the operator writes and renews.

Source: `config/rbac`, `config/manager` and `config/metrics-server` of the release that `data/README.md` names.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apiregistration.v1 import APIService

from components import images
from components.definitions import definitions
from components.granting import grant, grant_everywhere
from components.program import (
    POD_NAMESPACE,
    Program,
    ProgramArgs,
    account,
    all_addresses,
    delegated_authentication,
    network_policy,
    probe,
    run,
    service,
    tcp,
)
from ebbtide.provisioning_labels import SELF_MADE_SECRETS
from ebbtide.settings.sections.serving.gateway import KEDA_NAMESPACE

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

NAMESPACE = KEDA_NAMESPACE
OPERATOR, ADAPTER = "keda-operator", "keda-metrics-apiserver"
API = "v1beta1.external.metrics.k8s.io"

_READ = ["get", "list", "watch"]
_CHANGE = [*_READ, "patch", "update"]
_GRPC, _METRICS, _HEALTH, _HTTPS = 9666, 8080, 8081, 6443
_USER = 65532  # of the image
_CERTIFICATES = "kedaorg-certs"

WATCHED_RULES: "list[PolicyRuleArgsDict]" = [
    {
        "api_groups": ["keda.sh"],
        "resources": [
            "scaledobjects",
            "scaledobjects/finalizers",
            "scaledobjects/status",
            "scaledjobs",
            "scaledjobs/finalizers",
            "scaledjobs/status",
            "triggerauthentications",
            "triggerauthentications/status",
        ],
        "verbs": _CHANGE,
    },
    {"api_groups": ["eventing.keda.sh"], "resources": ["cloudeventsources"], "verbs": _READ},
    {
        "api_groups": ["autoscaling"],
        "resources": ["horizontalpodautoscalers"],
        "verbs": [*_CHANGE, "create", "delete"],
    },
    {"api_groups": ["apps"], "resources": ["deployments", "statefulsets", "replicasets"], "verbs": _READ},
    {
        "api_groups": ["apps"],
        "resources": ["deployments/scale", "statefulsets/scale"],
        "verbs": ["get", "patch", "update"],
    },
    {"api_groups": ["batch"], "resources": ["jobs"], "verbs": _READ},  # for ScaledJobs, which Ebbtide does not create
    {"api_groups": [""], "resources": ["pods", "services", "configmaps"], "verbs": _READ},
    {"api_groups": [""], "resources": ["limitranges", "serviceaccounts"], "verbs": ["list", "watch"]},
    {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]

OWN_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["secrets"], "verbs": [*_CHANGE, "create"]},
    {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_CHANGE, "create"]},
    {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]

CLUSTER_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": ["keda.sh"], "resources": ["clustertriggerauthentications"], "verbs": _READ},
    {"api_groups": ["eventing.keda.sh"], "resources": ["clustercloudeventsources"], "verbs": _READ},
    {"api_groups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "verbs": ["list", "watch"]},
    {
        "api_groups": ["apiregistration.k8s.io"],
        "resources": ["apiservices"],
        "resource_names": [API],
        "verbs": ["get", "patch", "update"],
    },
]

ADAPTER_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": ["keda.sh"], "resources": ["scaledobjects"], "verbs": _READ},
]


@dataclass(frozen=True, kw_only=True)
class KedaArgs(ProgramArgs):
    watched: pulumi.Input[str]  # the namespace of ScaledObjects and their targets
    prometheus_port: int = 9090


class Keda(pulumi.ComponentResource):
    """KEDA. ScaledObjects depend on it, since only KEDA removes the finalizer of a deleted ScaledObject."""

    def __init__(self, name: str, args: KedaArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Keda", name, None, opts)
        self._name, self._args = name, args
        kinds = definitions(name, "keda", provider=args.definitions, parent=self)
        operator = run(f"{name}-operator", _operator(args), args, parent=self, after=[*kinds, *self._operator_rights()])
        service(
            f"{name}-operator",
            OPERATOR,
            OPERATOR,
            {"metricsservice": (_GRPC, _GRPC), "metrics": (_METRICS, _METRICS)},
            args,
            parent=self,
        )
        adapter_service = service(f"{name}-adapter", ADAPTER, ADAPTER, {"https": (443, _HTTPS)}, args, parent=self)
        network_policy(
            f"{name}-operator",
            OPERATOR,
            args,
            listens=[_GRPC, _METRICS],
            calls=[{"to": [{"namespace_selector": {}}, *all_addresses()], "ports": tcp(args.prometheus_port)}],
            parent=self,
        )
        network_policy(
            f"{name}-adapter",
            ADAPTER,
            args,
            listens=[_HTTPS, _METRICS],
            calls=[{"to": [{"pod_selector": {}}], "ports": tcp(_GRPC)}],
            parent=self,
        )
        adapter = run(f"{name}-adapter", _adapter(args), args, parent=self, after=[operator, *self._adapter_rights()])
        APIService(
            f"{name}-api",
            metadata={"name": API},
            spec={
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "group_priority_minimum": 100,
                "version_priority": 100,
                "service": {"name": ADAPTER, "namespace": args.namespace},
            },
            # The operator writes the APIService, even while it stops.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[adapter, adapter_service]),
        )
        self.register_outputs({})

    def _operator_rights(self) -> list[pulumi.Resource]:
        name, args = f"{self._name}-operator", self._args
        return [
            account(name, OPERATOR, args, parent=self),
            *grant(f"{name}-watched", OPERATOR, args.watched, WATCHED_RULES, home=args.namespace, parent=self),
            *grant(name, OPERATOR, args.namespace, OWN_RULES, parent=self),
            *grant_everywhere(f"{name}-cluster", OPERATOR, CLUSTER_RULES, home=args.namespace, parent=self),
        ]

    def _adapter_rights(self) -> list[pulumi.Resource]:
        name, args = f"{self._name}-adapter", self._args
        return [
            account(name, ADAPTER, args, parent=self),
            *grant(name, ADAPTER, args.watched, ADAPTER_RULES, home=args.namespace, parent=self),
            *delegated_authentication(name, ADAPTER, args, parent=self),
        ]


def _operator(args: KedaArgs) -> Program:
    return Program(
        name=OPERATOR,
        image=images.KEDA,
        args=[
            "--leader-elect",
            f"--zap-log-level={args.log}",
            "--zap-encoder=json",
            "--enable-cert-rotation=true",
            "--enable-webhook-patching=false",  # there is no webhook: `check` validates files
        ],
        env=[
            POD_NAMESPACE,
            {"name": "WATCH_NAMESPACE", "value": args.watched},
            {"name": "KEDA_CLUSTER_OBJECT_NAMESPACE", "value": args.namespace},
            {"name": "KEDA_RESTRICT_SECRET_ACCESS", "value": "true"},
        ],
        ports={"http": _METRICS, "metricsservice": _GRPC},
        ready=probe("/readyz", _HEALTH),
        alive=probe("/healthz", _HEALTH, failures=6),
        cpu=100,
        memory=512,
        user=_USER,
        grace=10,
        # At its first start the operator creates the certificates and exits; the restarted pod mounts them.
        mounts={"/certs": {"name": "", "secret": {"secret_name": _CERTIFICATES, "optional": True}}},
    )


def _adapter(args: KedaArgs) -> Program:
    return Program(
        annotations={SELF_MADE_SECRETS: _CERTIFICATES},
        name=ADAPTER,
        image=images.KEDA_METRICS,
        args=[
            "--client-ca-file=/certs/ca.crt",
            "--tls-cert-file=/certs/tls.crt",
            "--tls-private-key-file=/certs/tls.key",
            "--cert-dir=/certs",
            f"--zap-log-level={args.log}",
        ],
        env=[POD_NAMESPACE, {"name": "WATCH_NAMESPACE", "value": args.watched}],
        ports={"https": _HTTPS, "http": _METRICS},
        ready=probe("/readyz", _HTTPS, scheme="HTTPS"),
        alive=probe("/healthz", _HTTPS, scheme="HTTPS", failures=6),
        cpu=100,
        memory=384,
        user=_USER,
        mounts={
            "/tmp": {"name": "", "empty_dir": {}},
            "/certs": {"name": "", "secret": {"secret_name": _CERTIFICATES}},
        },
    )
