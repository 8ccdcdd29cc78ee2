"""Descriptions of bundled programs: workload, account, Service, budget and network policy.

Their pods meet the restricted Pod Security level and run on fixed nodes, with an account of the program's name. Their
budget stays closed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment, StatefulSet
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import Service, ServiceAccount
from pulumi_kubernetes.networking.v1 import NetworkPolicy
from pulumi_kubernetes.rbac.v1 import ClusterRoleBinding, RoleBinding

from components.context import StackContext
from components.pods.budget import closed_budget
from components.pods.rules import (
    OLD_POD_FIRST,
    USER,
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
from ebbtide.text.quantities import memory_quantity
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.apps.v1 import DeploymentStrategyArgsDict
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PersistentVolumeClaimSpecArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
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
_ALL_PODS: "list[NetworkPolicyPeerArgsDict]" = [{"namespace_selector": {}}]
_LINK_LOCAL = "169.254.0.0/16"  # the node's own services, such as instance metadata
_RBAC = "rbac.authorization.k8s.io"
_DISK = "data"

POD_NAMESPACE: "EnvVarArgsDict" = {
    "name": "POD_NAMESPACE",
    "value_from": {"field_ref": {"field_path": "metadata.namespace"}},
}


@dataclass(frozen=True, kw_only=True)
class ProgramArgs:
    """Arguments of a component that runs programs. The namespace must exist before the component."""

    stack: StackContext
    namespace: pulumi.Input[str]
    replicas: int = 1
    log: str = "info"
    definitions: pulumi.ProviderResource | None = None  # see `components.definitions`


@dataclass(frozen=True, kw_only=True)
class Program:
    """One container. A field with None is not rendered; an empty one is."""

    name: str
    image: str
    cpu: int  # millicores
    memory: int  # MiB
    args: Sequence[pulumi.Input[str]] | None
    ports: Mapping[str, int]
    command: Sequence[str] = ()
    container: str = ""  # default: the program's name
    user: int = USER
    token: bool | None = True  # mount a token for the API server; None: the account decides
    account: str = ""  # default: the program's name
    ready: "ProbeArgsDict | None" = None
    alive: "ProbeArgsDict | None" = None
    env: "Sequence[EnvVarArgsDict] | None" = ()
    mounts: "Mapping[str, VolumeArgsDict] | None" = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    """Volumes by directory. A volume with an empty name gets the name of its directory."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, pulumi.Input[str]] | None = field(default_factory=dict[str, pulumi.Input[str]])
    grace: int | None = 30  # seconds
    strategy: "DeploymentStrategyArgsDict" = field(default_factory=lambda: OLD_POD_FIRST)
    connect: "Callable[[PodSpecArgsDict], PodSpecArgsDict] | None" = None
    """Adds proxy and certificate authorities to the pod. Default: the stack's certificate authorities."""


@dataclass(frozen=True, kw_only=True)
class Disk:
    directory: str
    mib: int
    storage_class: str | None  # None: the cluster's default


def identity(name: str, customer: str) -> PodIdentity:
    return PodIdentity(name=name, category=Category.FIXED, customer=customer)


def account(
    name: str,
    account_name: str,
    args: ProgramArgs,
    *,
    automount: bool | None = False,
    labels: Mapping[str, str] | None = None,
    parent: pulumi.Resource,
) -> ServiceAccount:
    metadata: ObjectMetaArgsDict = {"name": account_name, "namespace": args.namespace}
    return ServiceAccount(
        f"{name}-account",
        metadata={**metadata, "labels": labels} if labels else metadata,
        automount_service_account_token=automount,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def run(
    name: str, program: Program, args: ProgramArgs, *, parent: pulumi.Resource, after: Sequence[pulumi.Resource]
) -> Deployment:
    """Run the program after its account, its rights and its documents, so that a destroy deletes the program first."""
    pods = identity(program.name, args.stack.customer)
    closed_budget(f"{name}-budget", pods, args.namespace, parent=parent)
    return Deployment(
        f"{name}-deployment",
        metadata={"name": program.name, "namespace": args.namespace, "labels": pods.labels},
        spec={
            "replicas": args.replicas,
            "revision_history_limit": 3,
            "strategy": program.strategy,
            "selector": {"match_labels": pods.selector},
            "template": _template(program, args, pods, spread_out=True),
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=after),
    )


def run_with_disk(
    name: str,
    program: Program,
    disk: Disk,
    args: ProgramArgs,
    *,
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource],
) -> StatefulSet:
    """Run one pod with a disk. The disk is deleted with the StatefulSet.

    Changes of the claim template are ignored: Kubernetes refuses them, and a disk grows through its claim.
    """
    pods = identity(program.name, args.stack.customer)
    closed_budget(f"{name}-budget", pods, args.namespace, parent=parent)
    claim: PersistentVolumeClaimSpecArgsDict = {
        "access_modes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_quantity(disk.mib)}},
    }
    if disk.storage_class is not None:
        claim["storage_class_name"] = disk.storage_class
    return StatefulSet(
        f"{name}-server",
        metadata={"name": program.name, "namespace": args.namespace, "labels": pods.labels},
        spec={
            "replicas": 1,
            "service_name": program.name,
            "selector": {"match_labels": pods.selector},
            "template": _template(program, args, pods, spread_out=False, disk=disk),
            "volume_claim_templates": [{"metadata": {"name": _DISK}, "spec": claim}],
            "persistent_volume_claim_retention_policy": {"when_deleted": "Delete", "when_scaled": "Retain"},
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=after, ignore_changes=["spec.volumeClaimTemplates"]),
    )


def run_once(
    name: str, program: Program, args: ProgramArgs, *, parent: pulumi.Resource, after: Sequence[pulumi.Resource]
) -> Job:
    """Run the program until it succeeds. An update does not wait for it."""
    labels = identity(program.name, args.stack.customer).labels
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
                "spec": _connected({**_pod(program, args), "restart_policy": "Never"}, program, args),
            },
        },
        opts=pulumi.ResourceOptions(parent=parent, depends_on=after, delete_before_replace=True),
    )


def _template(
    program: Program, args: ProgramArgs, pods: PodIdentity, *, spread_out: bool, disk: Disk | None = None
) -> "PodTemplateSpecArgsDict":
    pod = _pod(program, args, disk)
    if spread_out:
        pod["topology_spread_constraints"] = spread(pods, revision_label="pod-template-hash")
    if program.grace is not None:
        pod["termination_grace_period_seconds"] = program.grace
    if program.mounts is not None:
        pod["volumes"] = [{**volume, "name": _volume_name(path, volume)} for path, volume in program.mounts.items()]
    metadata: ObjectMetaArgsDict = {"labels": {**pods.labels, **program.labels}}
    if program.annotations is not None:
        metadata["annotations"] = program.annotations
    return {"metadata": metadata, "spec": _connected(pod, program, args)}


def _pod(program: Program, args: ProgramArgs, disk: Disk | None = None) -> "PodSpecArgsDict":
    pod: PodSpecArgsDict = {
        "service_account_name": program.account or program.name,
        "affinity": affinity(Category.FIXED),
        **home(NodeKind.FIXED),
        "security_context": pod_security(program.user),
        "containers": [container(program, args, disk)],
    }
    if program.token is not None:
        pod["automount_service_account_token"] = program.token
    return pod


def _connected(pod: "PodSpecArgsDict", program: Program, args: ProgramArgs) -> "PodSpecArgsDict":
    return args.stack.images.pulled((program.connect or args.stack.egress.trusting)(pod))


def container(program: Program, args: ProgramArgs, disk: Disk | None = None) -> "ContainerArgsDict":
    rendered: ContainerArgsDict = {
        "name": program.container or program.name,
        "image": args.stack.images.of(program.image),
        "ports": [{"name": port, "container_port": number} for port, number in program.ports.items()],
        "resources": resources(cpu=program.cpu, memory=program.memory),
        "security_context": container_security(read_only=True),
    }
    if program.command:
        rendered["command"] = list(program.command)
    if program.args is not None:
        rendered["args"] = list(program.args)
    if program.env is not None:
        rendered["env"] = list(program.env)
    if program.ready is not None and program.alive is not None:
        rendered["readiness_probe"], rendered["liveness_probe"] = program.ready, program.alive
    if program.mounts is not None:
        disks: list[VolumeMountArgsDict] = [{"name": _DISK, "mount_path": disk.directory}] if disk else []
        rendered["volume_mounts"] = [
            *disks,
            *(
                {
                    "name": _volume_name(path, volume),
                    "mount_path": path,
                    "read_only": "empty_dir" not in volume,
                }
                for path, volume in program.mounts.items()
            ),
        ]
    return rendered


def _volume_name(path: str, volume: "VolumeArgsDict") -> pulumi.Input[str]:
    return volume["name"] or path.strip("/").replace("/", "-").lower()


def probe(
    path: str, port: int, *, failures: int = 3, every: int = 10, within: int | None = 5, scheme: str | None = "HTTP"
) -> "ProbeArgsDict":
    """Return an HTTP probe. `every` and `within` are in seconds; with None, Kubernetes' default applies."""
    rendered: ProbeArgsDict = {
        "http_get": {"path": path, "port": port},
        "period_seconds": every,
        "failure_threshold": failures,
    }
    if scheme is not None:
        rendered["http_get"] = {"path": path, "port": port, "scheme": scheme}
    if within is not None:
        rendered["timeout_seconds"] = within
    return rendered


def service(
    name: str,
    service_name: str,
    program: str,
    ports: Mapping[str, tuple[int, int]],
    args: ProgramArgs,
    *,
    parent: pulumi.Resource,
) -> Service:
    """Create the program's Service. `ports`: the Service's port and the pod's port, by name."""
    return Service(
        f"{name}-service",
        metadata={"name": service_name, "namespace": args.namespace},
        spec={
            "selector": identity(program, args.stack.customer).selector,
            "ports": [{"name": name, "port": port, "target_port": target} for name, (port, target) in ports.items()],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def delegated_authentication(
    name: str, account_name: str, args: ProgramArgs, *, parent: pulumi.Resource
) -> "tuple[ClusterRoleBinding, RoleBinding]":
    """Create the rights of an aggregated API server, which delegates authentication and authorization of callers."""
    opts = pulumi.ResourceOptions(parent=parent)
    subject = {"kind": "ServiceAccount", "name": account_name, "namespace": args.namespace}
    return (
        ClusterRoleBinding(
            f"{name}-delegator",
            metadata={"name": f"{account_name}-auth-delegator"},
            role_ref={"api_group": _RBAC, "kind": "ClusterRole", "name": "system:auth-delegator"},
            subjects=[subject],  # pyright: ignore[reportArgumentType]
            opts=opts,
        ),
        RoleBinding(
            f"{name}-reader",
            metadata={"name": f"{account_name}-auth-reader", "namespace": KUBE_SYSTEM},
            role_ref={"api_group": _RBAC, "kind": "Role", "name": "extension-apiserver-authentication-reader"},
            subjects=[subject],  # pyright: ignore[reportArgumentType]
            opts=opts,
        ),
    )


def network_policy(
    name: str,
    program: str,
    args: ProgramArgs,
    *,
    listens: Sequence[int],
    calls: "Sequence[NetworkPolicyEgressRuleArgsDict]" = (),
    parent: pulumi.Resource,
) -> NetworkPolicy:
    """Let all pods and nodes call the program on its ports, and the program call DNS, the API server and `calls`.

    The API server has no selector, so `listens` is open to all addresses; certificates and tokens decide about access.
    """
    return NetworkPolicy(
        f"{name}-policy",
        metadata={"name": program, "namespace": args.namespace},
        spec={
            "pod_selector": {"match_labels": identity(program, args.stack.customer).selector},
            "policy_types": ["Ingress", "Egress"],
            "ingress": [{"ports": tcp(*listens)}],
            "egress": [
                {"to": _ALL_PODS, "ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]},
                {"to": all_addresses(), "ports": tcp(443, 6443)},
                *calls,
            ],
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )


def all_addresses() -> "list[NetworkPolicyPeerArgsDict]":
    """Return all addresses except those of the node's own services."""
    return [{"ip_block": {"cidr": "0.0.0.0/0", "except_": [_LINK_LOCAL]}}, {"ip_block": {"cidr": "::/0"}}]


def tcp(*ports: int) -> "list[NetworkPolicyPortArgsDict]":
    return [{"port": port, "protocol": "TCP"} for port in ports]
