"""The common parts of the processes of the controller's image: account, config document, budget, and pods.

The pods run on fixed nodes and their budget stays closed, although they are stateless: while a process is down, nothing
scales and no alert fires, and a drained fixed node would not save enough to justify this. A rollout stops the old pod
first and adds none: fixed nodes are few and full, and a new pod that fits nowhere would never replace the old one.

A changed document restarts no pod: each process rereads the mounted file, which the kubelet swaps within about a
minute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.coordination.v1 import Lease
from pulumi_kubernetes.core.v1 import ConfigMap

from components.context import StackContext
from components.pods.redis_access import PUBLIC, RedisAuthority
from components.program import POD_NAMESPACE, Program, ProgramArgs, account, probe, run
from ebbtide.settings.sections.controller import CONTROLLER_IMAGE

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import EnvVarArgsDict, PodSpecArgsDict
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

PORT = 8080
CONFIG_DIRECTORY = "/etc/ebbtide"
_GRACE_SECONDS = 30  # a process ends within 5 s; the rest covers a slow API server while budgets are closed

OWN_NAME: "list[EnvVarArgsDict]" = [
    {"name": "POD_NAME", "value_from": {"field_ref": {"field_path": "metadata.name"}}},
    POD_NAMESPACE,
]
"""The name with which a process holds its Lease."""


@dataclass(frozen=True, kw_only=True)
class ControllerProcess:
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
    """Mounted Secrets by directory: volume and Secret name. The process also starts without them."""
    redis_authority: RedisAuthority = PUBLIC
    trusts_bundle: bool = False  # trust the company's certificate authorities, which may sign Redis's certificate


class ControlledProcess(pulumi.ComponentResource):
    """The base of the components that run a process of the controller's image."""

    def __init__(
        self,
        token: str,
        name: str,
        process: ControllerProcess,
        stack: StackContext,
        opts: pulumi.ResourceOptions | None,
    ) -> None:
        super().__init__(token, name, None, opts)
        self._name, self._process, self._stack = name, process, stack
        self._place = ProgramArgs(stack=stack, namespace=process.namespace, replicas=process.replicas)

    def _own_objects(self, *, lease: bool) -> list[pulumi.Resource]:
        """Create account, config document and Lease. The Lease has no spec, so the process need not create one."""
        name, process, child = self._name, self._process, pulumi.ResourceOptions(parent=self)
        metadata: ObjectMetaArgsDict = {"name": process.name, "namespace": process.namespace}
        return [
            account(name, process.name, self._place, automount=None, parent=self),
            *([Lease(f"{name}-lease", metadata=metadata, opts=child)] if lease else []),
            ConfigMap(f"{name}-config", metadata=metadata, data={process.file: process.document}, opts=child),
        ]

    def _run(self, after: Sequence[pulumi.Resource]) -> None:
        """Run the process after its rights and documents, so that a destroy deletes the process first."""
        run(self._name, self._program(), self._place, parent=self, after=after)

    def _program(self) -> Program:
        process = self._process
        return Program(
            name=process.name,
            container=process.container,
            image=CONTROLLER_IMAGE,
            command=["python", "-m", process.module, "--config", f"{CONFIG_DIRECTORY}/{process.file}"],
            args=None,
            env=process.environment or None,
            ports={"http": PORT},
            alive=probe("/healthz", PORT, failures=6, every=5, within=3, scheme=None),
            ready=probe("/readyz", PORT, every=5, within=3, scheme=None),
            cpu=process.cpu,
            memory=128,
            token=None,
            annotations=None,
            mounts={
                CONFIG_DIRECTORY: {"name": "config", "config_map": {"name": process.name}},
                **{
                    directory: {"name": volume, "secret": {"secret_name": secret, "optional": True}}
                    for directory, (volume, secret) in process.secrets.items()
                },
            },
            grace=_GRACE_SECONDS,
            connect=self._connected,
        )

    def _connected(self, pod: "PodSpecArgsDict") -> "PodSpecArgsDict":
        pod = self._process.redis_authority.trusted_by(pod)
        return self._stack.egress.trusting(pod) if self._process.trusts_bundle else pod
