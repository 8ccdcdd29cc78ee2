"""The common parts of serving programs: restricted pods on fixed nodes, an account, a budget, network policies.

Their budgets are closed, as those of all fixed pods: they stay where they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import Service, ServiceAccount
from pulumi_kubernetes.networking.v1 import NetworkPolicy
from pulumi_kubernetes.rbac.v1 import ClusterRoleBinding, RoleBinding

from components.context import StackContext
from components.pods.budget import closed_budget
from components.pods.rules import (
    OLD_POD_FIRST,
    PodIdentity,
    affinity,
    container_security,
    home,
    pod_security,
    resources,
    spread,
)
from components.pods.workload import SKIP_AWAIT
from ebbtide.provisioning_labels import NodeKind
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        ProbeArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict
    from pulumi_kubernetes.networking.v1 import (
        NetworkPolicyEgressRuleArgsDict,
        NetworkPolicyPeerArgsDict,
        NetworkPolicyPortArgsDict,
    )

KUBE_SYSTEM = "kube-system"
_EVERYWHERE: "list[NetworkPolicyPeerArgsDict]" = [{"namespace_selector": {}}]
_METADATA = ("169.254.0.0/16",)


@dataclass(frozen=True, kw_only=True)
class PartArgs:
    """Arguments of every part. `namespace` exists before the part does. `definitions`: see `crds`."""

    stack: StackContext
    namespace: pulumi.Input[str]
    replicas: int = 1
    log: str = "info"
    definitions: pulumi.ProviderResource | None = None


@dataclass(frozen=True, kw_only=True)
class Program:
    """One Deployment. `cpu` in millicores, `memory` in MiB; `ports` by name; `mounts` by directory."""

    name: str
    image: str
    args: Sequence[pulumi.Input[str]]
    ports: Mapping[str, int]
    cpu: int
    memory: int
    user: int
    ready: "ProbeArgsDict | None" = None  # of a server
    alive: "ProbeArgsDict | None" = None
    command: Sequence[str] = ()
    env: "Sequence[EnvVarArgsDict]" = ()
    mounts: "Mapping[str, VolumeArgsDict]" = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, pulumi.Input[str]] = field(default_factory=dict[str, pulumi.Input[str]])
    grace: int = 30


OWN_NAMESPACE: "EnvVarArgsDict" = {
    "name": "POD_NAMESPACE",
    "value_from": {"field_ref": {"field_path": "metadata.namespace"}},
}


def identity(name: str, customer: str) -> PodIdentity:
    return PodIdentity(name=name, category=Category.FIXED, customer=customer)


def account(name: str, which: str, args: PartArgs, *, parent: pulumi.Resource) -> ServiceAccount:
    return ServiceAccount(
        f"{name}-account",
        metadata={"name": which, "namespace": args.namespace},
        automount_service_account_token=False,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def run(
    name: str, program: Program, args: PartArgs, *, parent: pulumi.Resource, after: Sequence[pulumi.Resource]
) -> Deployment:
    """The program as an account of its own name, which is among what is there before it."""
    who = identity(program.name, args.stack.customer)
    meta: ObjectMetaArgsDict = {"name": program.name, "namespace": args.namespace, "labels": who.labels}
    closed_budget(f"{name}-budget", who, args.namespace, parent=parent)
    return Deployment(
        f"{name}-deployment",
        metadata=meta,
        spec={
            "replicas": args.replicas,
            "revision_history_limit": 3,
            "strategy": OLD_POD_FIRST,
            "selector": {"match_labels": who.selector},
            "template": {
                "metadata": {"labels": {**who.labels, **program.labels}, "annotations": program.annotations},
                "spec": args.stack.images.pulled(args.stack.egress.trusting(_pod(program, args, who))),
            },
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=after),
    )


def run_once(
    name: str, program: Program, args: PartArgs, *, parent: pulumi.Resource, after: Sequence[pulumi.Resource]
) -> Job:
    """The program as an account of its own name, until it has succeeded. An update does not wait for it."""
    labels = identity(program.name, args.stack.customer).labels
    pod: PodSpecArgsDict = {
        "restart_policy": "Never",
        "service_account_name": program.name,
        "automount_service_account_token": True,
        "affinity": affinity(Category.FIXED),
        **home(NodeKind.FIXED),
        "security_context": pod_security(program.user),
        "containers": [container(program, args)],
    }
    return Job(
        f"{name}-job",
        metadata={
            "name": program.name,
            "namespace": args.namespace,
            "labels": labels,
            "annotations": {SKIP_AWAIT: "true"},
        },
        spec={
            "backoff_limit": 5,
            "template": {
                "metadata": {"labels": labels},
                "spec": args.stack.images.pulled(args.stack.egress.trusting(pod)),
            },
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=after, delete_before_replace=True),
    )


def _pod(program: Program, args: PartArgs, who: PodIdentity) -> "PodSpecArgsDict":
    return {
        "service_account_name": program.name,
        "automount_service_account_token": True,
        "affinity": affinity(Category.FIXED),
        "topology_spread_constraints": spread(who, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "security_context": pod_security(program.user),
        "termination_grace_period_seconds": program.grace,
        "containers": [container(program, args)],
        "volumes": [{**volume, "name": _volume(path)} for path, volume in program.mounts.items()],
    }


def container(program: Program, args: PartArgs) -> "ContainerArgsDict":
    mounts: list[VolumeMountArgsDict] = [
        {"name": _volume(path), "mount_path": path, "read_only": "empty_dir" not in volume}
        for path, volume in program.mounts.items()
    ]
    made: ContainerArgsDict = {
        "name": program.name,
        "image": args.stack.images.of(program.image),
        "args": list(program.args),
        "env": list(program.env),
        "ports": [{"name": port, "container_port": number} for port, number in program.ports.items()],
        "resources": resources(cpu=program.cpu, memory=program.memory),
        "security_context": container_security(read_only=True),
        "volume_mounts": mounts,
    }
    if program.command:
        made["command"] = list(program.command)
    if program.ready is not None and program.alive is not None:
        made["readiness_probe"], made["liveness_probe"] = program.ready, program.alive
    return made


def _volume(path: str) -> str:
    return path.strip("/").replace("/", "-").lower()


def probe(path: str, port: int, *, scheme: str = "HTTP", failures: int = 3) -> "ProbeArgsDict":
    return {
        "http_get": {"path": path, "port": port, "scheme": scheme},
        "period_seconds": 10,
        "timeout_seconds": 5,
        "failure_threshold": failures,
    }


def service(
    name: str,
    which: str,
    program: str,
    ports: Mapping[str, tuple[int, int]],
    args: PartArgs,
    *,
    parent: pulumi.Resource,
) -> Service:
    """`ports`: by name, the Service's own and the pod's."""
    return Service(
        f"{name}-service",
        metadata={"name": which, "namespace": args.namespace},
        spec={
            "selector": identity(program, args.stack.customer).selector,
            "ports": [{"name": port, "port": own, "target_port": pods} for port, (own, pods) in ports.items()],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def asks_about_callers(
    name: str, which: str, args: PartArgs, *, parent: pulumi.Resource
) -> "tuple[ClusterRoleBinding, RoleBinding]":
    """What a server that stands behind the API server has to ask it: who calls, whether they may, and by which CA."""
    opts = pulumi.ResourceOptions(parent=parent)
    role, subject = "rbac.authorization.k8s.io", {"kind": "ServiceAccount", "name": which, "namespace": args.namespace}
    return (
        ClusterRoleBinding(
            f"{name}-delegator",
            metadata={"name": f"{which}-auth-delegator"},
            role_ref={"api_group": role, "kind": "ClusterRole", "name": "system:auth-delegator"},
            subjects=[subject],  # pyright: ignore[reportArgumentType]
            opts=opts,
        ),
        RoleBinding(
            f"{name}-reader",
            metadata={"name": f"{which}-auth-reader", "namespace": KUBE_SYSTEM},
            role_ref={"api_group": role, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
            subjects=[subject],  # pyright: ignore[reportArgumentType]
            opts=opts,
        ),
    )


def opened(
    name: str,
    program: str,
    args: PartArgs,
    *,
    called_on: Sequence[int],
    calls: "Sequence[NetworkPolicyEgressRuleArgsDict]" = (),
    parent: pulumi.Resource,
) -> NetworkPolicy:
    """Who may talk to it: any pod and any node on its ports, and it to DNS, the API server and `calls`.

    The API server has no selector, so the ports that it calls are open to all: certificates and tokens decide there.
    """
    return NetworkPolicy(
        f"{name}-policy",
        metadata={"name": program, "namespace": args.namespace},
        spec={
            "pod_selector": {"match_labels": identity(program, args.stack.customer).selector},
            "policy_types": ["Ingress", "Egress"],
            "ingress": [{"ports": tcp(*called_on)}],
            "egress": [
                {"to": _EVERYWHERE, "ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]},
                {"to": outside(), "ports": tcp(443, 6443)},
                *calls,
            ],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def outside() -> "list[NetworkPolicyPeerArgsDict]":
    """Every address but those of the node's own services."""
    return [{"ip_block": {"cidr": "0.0.0.0/0", "except_": list(_METADATA)}}, {"ip_block": {"cidr": "::/0"}}]


def tcp(*ports: int) -> "list[NetworkPolicyPortArgsDict]":
    return [{"port": port, "protocol": "TCP"} for port in ports]
