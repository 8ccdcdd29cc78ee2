"""The common parts of the processes of the controller's image: account, config document, budget, and pods.

The pods run on fixed nodes and their budget stays closed, although they are stateless: while a process is away,
nothing scales and no alert fires, and a fixed node is not worth that wait. A rollout stops the old pod first and adds
none. Fixed nodes are few and full, and a new pod without room would never replace the old one.

A changed document restarts no pod: each process rereads the mounted file, which the kubelet swaps within about a
minute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.coordination.v1 import Lease
from pulumi_kubernetes.core.v1 import ConfigMap, ServiceAccount

from components.context import StackContext
from components.pods.budget import closed_budget
from components.pods.redis_access import PUBLIC, RedisAuthority
from components.pods.rules import (
    OLD_POD_FIRST,
    PodIdentity,
    affinity,
    container_security,
    home,
    http_probe,
    pod_security,
    resources,
    spread,
)
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE
from ebbtide.vocabulary.labels import Category

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        EnvVarArgsDict,
        PodSpecArgsDict,
        PodTemplateSpecArgsDict,
        VolumeArgsDict,
        VolumeMountArgsDict,
    )
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

PORT = 8080
CONFIG_DIRECTORY = "/etc/ebbtide"
_GRACE_SECONDS = 30  # a process ends within 5 s; the rest is for a slow API server while it closes the budgets

OWN_NAME: "list[EnvVarArgsDict]" = [
    {"name": "POD_NAME", "value_from": {"field_ref": {"field_path": "metadata.name"}}},
    {"name": "POD_NAMESPACE", "value_from": {"field_ref": {"field_path": "metadata.namespace"}}},
]
"""The name with which a process holds its Lease."""


@dataclass(frozen=True, kw_only=True)
class Process:
    name: str  # of the Deployment, the account, the Lease and the ConfigMap
    namespace: pulumi.Input[str]
    container: str
    module: str
    file: str  # name of the config document
    document: pulumi.Input[str]
    cpu: int = 50  # millicores
    replicas: int = 1
    environment: "Sequence[EnvVarArgsDict]" = ()
    secrets: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Mounted Secrets by directory, each with the name of its volume."""
    redis_authority: RedisAuthority = PUBLIC
    trusts_bundle: bool = False  # the company's certificate authorities, for a Redis with such a certificate


class ControlledProcess(pulumi.ComponentResource):
    """The base of the components that run a process of the controller's image."""

    def __init__(
        self, token: str, name: str, process: Process, stack: StackContext, opts: pulumi.ResourceOptions | None
    ) -> None:
        super().__init__(token, name, None, opts)
        self._name, self._process, self._stack = name, process, stack

    def _own_objects(self, *, lease: bool) -> list[pulumi.Resource]:
        """Create account, config document and Lease. The Lease has no spec, so the process need not create one."""
        name, child = self._name, pulumi.ResourceOptions(parent=self)
        metadata: ObjectMetaArgsDict = {"name": self._process.name, "namespace": self._process.namespace}
        data = {self._process.file: self._process.document}
        return [
            ServiceAccount(f"{name}-account", metadata=metadata, opts=child),
            *([Lease(f"{name}-lease", metadata=metadata, opts=child)] if lease else []),
            ConfigMap(f"{name}-config", metadata=metadata, data=data, opts=child),
        ]

    def _run(self, after: Sequence[pulumi.Resource]) -> None:
        """Run the process after its rights and documents, so that a destroy deletes the process first."""
        process = self._process
        identity = PodIdentity(name=process.name, category=Category.FIXED, customer=self._stack.customer)
        closed_budget(f"{self._name}-budget", identity, process.namespace, parent=self)
        Deployment(
            f"{self._name}-deployment",
            metadata={"name": process.name, "namespace": process.namespace, "labels": identity.labels},
            spec={
                "replicas": process.replicas,
                "selector": {"match_labels": identity.selector},
                "strategy": OLD_POD_FIRST,
                "revision_history_limit": 3,
                "template": _template(process, self._stack, identity),
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*after]),
        )


def _template(process: Process, stack: StackContext, identity: PodIdentity) -> "PodTemplateSpecArgsDict":
    mounts: list[VolumeMountArgsDict] = [{"name": "config", "mount_path": CONFIG_DIRECTORY, "read_only": True}]
    volumes: list[VolumeArgsDict] = [{"name": "config", "config_map": {"name": process.name}}]
    for directory, (volume, secret) in process.secrets.items():
        mounts.append({"name": volume, "mount_path": directory, "read_only": True})
        volumes.append({"name": volume, "secret": {"secret_name": secret}})
    container: ContainerArgsDict = {
        "name": process.container,
        "image": stack.images.of(CONTROLLER_IMAGE),
        "command": ["python", "-m", process.module, "--config", f"{CONFIG_DIRECTORY}/{process.file}"],
        "ports": [{"name": "http", "container_port": PORT}],
        "liveness_probe": http_probe("/healthz", PORT, failures=6),
        "readiness_probe": http_probe("/readyz", PORT, failures=3),
        "resources": resources(cpu=process.cpu, memory=128),
        "security_context": container_security(read_only=True),
        "volume_mounts": mounts,
    }
    if process.environment:
        container["env"] = [*process.environment]
    pod: PodSpecArgsDict = {
        "service_account_name": process.name,
        "affinity": affinity(Category.FIXED),
        "topology_spread_constraints": spread(identity, revision_label="pod-template-hash"),
        **home(NodeKind.FIXED),
        "termination_grace_period_seconds": _GRACE_SECONDS,
        "security_context": pod_security(),
        "containers": [container],
        "volumes": volumes,
    }
    pod = process.redis_authority.trusted_by(pod)
    spec = stack.images.pulled(stack.egress.trusting(pod) if process.trusts_bundle else pod)
    return {"metadata": {"labels": identity.labels}, "spec": spec}
