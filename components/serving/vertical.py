"""The Vertical Pod Autoscaler: recommends requests from usage, and sets them on new or running pods.

It has three programs: the recommender writes recommendations into each VerticalPodAutoscaler, the admission controller
sets them on new pods, and the updater sets them on running pods if the mode includes this. All three watch one
namespace. While they are down, running pods keep their requests, and new pods get the Deployment's requests, since
failures of the webhook are ignored.

**The webhook** is registered by the admission controller, for pods of all namespaces (in 1.8.1 two flags conflict, so
that a limit to one namespace is lost); it does not change pods without a VerticalPodAutoscaler. Its certificate is
created once, by the Job of the release's chart.

Source: `deploy/vpa-rbac.yaml` and the chart of the release that `data/README.md` names.

**Limits.** A recommendation never exceeds the largest pod that fits on the nodes: a larger pod would wait forever.
`InPlaceOrRecreate` evicts a pod if its node lacks capacity for the new size. Evictions respect the budget, which is
closed by day, so pods move only outside business hours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource

from components import images
from components.context import StackContext
from components.definitions import definitions
from components.granting import grant, grant_everywhere
from components.program import (
    POD_NAMESPACE,
    Program,
    ProgramArgs,
    account,
    network_policy,
    probe,
    run,
    run_once,
    service,
)
from ebbtide.provisioning_labels import CUSTOMER, SELF_MADE_SECRETS
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.sections.workloads import Vertical, WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.rbac.v1 import PolicyRuleArgsDict

VPA_API = "autoscaling.k8s.io/v1"
_MODES = {Vertical.INITIAL: "Initial", Vertical.IN_PLACE: "InPlaceOrRecreate"}


@dataclass(frozen=True, kw_only=True)
class VerticalAutoscalingArgs:
    stack: StackContext
    workloads: Mapping[str, WorkloadSettings]
    most: Mapping[str, PodSize] = field(default_factory=dict[str, PodSize])  # of the main container, by workload


class VerticalAutoscaling(pulumi.ComponentResource):
    def __init__(self, name: str, args: VerticalAutoscalingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:VerticalAutoscaling", name, None, opts)
        for workload, settings in args.workloads.items():
            if settings.vertical is not Vertical.OFF:
                CustomResource(
                    f"{workload}-vertical",
                    api_version=VPA_API,
                    kind="VerticalPodAutoscaler",
                    metadata={
                        "name": workload,
                        "namespace": NAMESPACE,
                        "labels": {CUSTOMER: args.stack.customer, WORKLOAD: workload},
                    },
                    spec=vertical_autoscaler(workload, settings, args.most.get(workload)),
                    opts=pulumi.ResourceOptions(parent=self),
                )
        self.register_outputs({})


def vertical_autoscaler(name: str, settings: WorkloadSettings, most: PodSize | None) -> Mapping[str, Any]:
    """Return the spec: it scales the main container's requests, and its limits in proportion."""
    container_policy: dict[str, Any] = {"containerName": name, "controlledResources": ["cpu", "memory"], "mode": "Auto"}
    if settings.vertical_min is not None:
        container_policy["minAllowed"] = settings.vertical_min.quantities
    if most is not None:
        container_policy["maxAllowed"] = {"cpu": f"{most.cpu}m", "memory": f"{most.memory}Mi"}
    kind = "StatefulSet" if settings.kind is WorkloadKind.STATEFUL_SET else "Deployment"
    return {
        "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name},
        "updatePolicy": {"updateMode": _MODES[settings.vertical]},
        "resourcePolicy": {"containerPolicies": [container_policy, {"containerName": "*", "mode": "Off"}]},
    }


ADMISSION, RECOMMENDER, UPDATER = "vpa-admission-controller", "vpa-recommender", "vpa-updater"
CERTGEN = "vpa-certgen"
_IMAGES = {ADMISSION: images.VPA_ADMISSION, RECOMMENDER: images.VPA_RECOMMENDER, UPDATER: images.VPA_UPDATER}
SECRET = "vpa-tls-certs"
WEBHOOK = "vpa-webhook"

_PORTS: Mapping[str, int] = {RECOMMENDER: 8942, UPDATER: 8943, ADMISSION: 8944}
_WEBHOOK_PORT = 8000
_USER = 65534
_READ = ["get", "list", "watch"]
_GROUP = "autoscaling.k8s.io"

READ_RULES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": [""], "resources": ["pods", "limitranges", "replicationcontrollers"], "verbs": _READ},
    {"api_groups": ["apps"], "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"], "verbs": _READ},
    {"api_groups": ["apps"], "resources": ["deployments/scale", "statefulsets/scale"], "verbs": ["get", "watch"]},
    {"api_groups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": _READ},
    {"api_groups": [_GROUP], "resources": ["verticalpodautoscalers"], "verbs": _READ},
]
RULES: "Mapping[str, list[PolicyRuleArgsDict]]" = {
    RECOMMENDER: [
        *READ_RULES,
        {"api_groups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["get", "list"]},
        {"api_groups": [""], "resources": ["events"], "verbs": _READ},  # which pods ran out of memory
        {"api_groups": [_GROUP], "resources": ["verticalpodautoscalers/status"], "verbs": ["get", "patch"]},
        {
            "api_groups": [_GROUP],
            "resources": ["verticalpodautoscalercheckpoints"],
            "verbs": [*_READ, "create", "patch", "delete"],
        },
    ],
    UPDATER: [
        *READ_RULES,
        {"api_groups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"api_groups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"api_groups": [""], "resources": ["pods", "pods/resize"], "verbs": ["patch"]},
    ],
    ADMISSION: READ_RULES,
}
"""Rights in the watched namespace."""

LEASES: "list[PolicyRuleArgsDict]" = [
    {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*_READ, "create"]},
    {
        "api_groups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resource_names": [ADMISSION, RECOMMENDER, UPDATER, f"{RECOMMENDER}-lease"],
        "verbs": ["update"],
    },
]
HOOKS: "list[PolicyRuleArgsDict]" = [
    {
        "api_groups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "verbs": ["create"],
    },
    {
        "api_groups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "resource_names": ["vpa-webhook-config"],
        "verbs": ["get", "delete", "patch"],
    },
]


@dataclass(frozen=True, kw_only=True)
class VerticalAutoscalerArgs(ProgramArgs):
    """Arguments of the three programs, which run in `namespace`, usually kube-system."""

    watched: pulumi.Input[str]


class VerticalAutoscaler(pulumi.ComponentResource):
    def __init__(self, name: str, args: VerticalAutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:VerticalAutoscaler", name, None, opts)
        self._name, self._args = name, args
        kinds = definitions(name, "vertical", provider=args.definitions, parent=self)
        certificates = self._certificates()
        service(f"{name}-webhook", WEBHOOK, ADMISSION, {"https": (443, _WEBHOOK_PORT)}, args, parent=self)
        for program in (_program(RECOMMENDER, args), _program(UPDATER, args), _admission(args)):
            part = f"{name}-{program.name}"
            listens = [*program.ports.values()]
            network_policy(part, program.name, args, listens=listens, parent=self)
            rights = [*self._rights(part, program.name), *([certificates] if program.name == ADMISSION else [])]
            run(part, program, args, parent=self, after=[*kinds, *rights])
        self.register_outputs({})

    def _rights(self, part: str, program: str) -> list[pulumi.Resource]:
        args = self._args
        watched = grant(f"{part}-watched", program, args.watched, RULES[program], home=args.namespace, parent=self)
        rights: list[pulumi.Resource] = [account(part, program, args, parent=self), *watched]
        rights += grant(part, program, args.namespace, LEASES, parent=self)
        if program == ADMISSION:
            rights += grant_everywhere(f"{part}-hooks", program, HOOKS, home=args.namespace, parent=self)
        return rights

    def _certificates(self) -> pulumi.Resource:
        name, args = f"{self._name}-certgen", self._args
        secrets: PolicyRuleArgsDict = {"api_groups": [""], "resources": ["secrets"], "verbs": ["create"]}
        own_secret: PolicyRuleArgsDict = {**secrets, "resource_names": [SECRET], "verbs": ["get"]}
        before = [
            account(name, CERTGEN, args, parent=self),
            *grant(name, CERTGEN, args.namespace, [secrets, own_secret], parent=self),
            network_policy(name, CERTGEN, args, listens=[_WEBHOOK_PORT], parent=self),
        ]
        hosts = pulumi.Output.concat(f"--host={WEBHOOK},{WEBHOOK}.", args.namespace, ".svc")
        program = Program(
            name=CERTGEN,
            image=images.VPA_CERTGEN,
            args=[
                "create",
                hosts,
                pulumi.Output.concat("--namespace=", args.namespace),
                f"--secret-name={SECRET}",
            ],
            ports={},
            cpu=20,
            memory=64,
            user=_USER,
        )
        return run_once(name, program, args, parent=self, after=before)


def _program(name: str, args: VerticalAutoscalerArgs, *further: str, **changes: Any) -> Program:
    fields: dict[str, Any] = {
        "name": name,
        "image": _IMAGES[name],
        "args": [pulumi.Output.concat("--vpa-object-namespace=", args.watched), "--stderrthreshold=info", *further],
        "env": [{**POD_NAMESPACE, "name": "NAMESPACE"}],
        "ports": {"metrics": _PORTS[name]},
        "ready": probe("/health-check", _PORTS[name]),
        "alive": probe("/health-check", _PORTS[name], failures=6),
        "cpu": 50,
        "memory": 500 if name == RECOMMENDER else 200,
        "user": _USER,
    }
    return Program(**fields | changes)


def _admission(args: VerticalAutoscalerArgs) -> Program:
    return _program(
        ADMISSION,
        args,
        "--client-ca-file=/etc/tls-certs/ca",
        "--tls-cert-file=/etc/tls-certs/cert",
        "--tls-private-key=/etc/tls-certs/key",
        f"--port={_WEBHOOK_PORT}",
        "--webhook-timeout-seconds=5",  # afterwards the pod starts with its Deployment's requests
        ports={"https": _WEBHOOK_PORT, "metrics": _PORTS[ADMISSION]},
        annotations={SELF_MADE_SECRETS: SECRET},
        mounts={"/etc/tls-certs": {"name": "", "secret": {"secret_name": SECRET}}},
    )
