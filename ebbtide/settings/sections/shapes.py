"""Sizes of nodes that a stack file describes: of instance types that the price tables lack, and of existing nodes.

A new instance type is described as AWS does, by its capacity. Existing nodes are described as Kubernetes does, by the
allocatable resources that `kubectl describe node` shows.
"""

from typing import Annotated, ClassVar

from pydantic import Field, Strict

from ebbtide.prices import InstanceType, allocatable, default_max_pods, most_pods_by_eni
from ebbtide.provisioning_labels import Architecture
from ebbtide.settings.file.problems import wanted
from ebbtide.settings.sections.checked import MIN_WITHIN_MAX, Check, Settings
from ebbtide.settings.sections.grammar import choice
from ebbtide.settings.sections.types import Count, Mebibytes, Millicores, Positive, PositiveNumber

_GPU_MODEL = "NVIDIA"


class Reserved(Settings):
    """Requests of the team's own DaemonSets on each node. Those of Ebbtide and EKS are always counted."""

    cpu: Millicores | None = Field(default=None, description="total CPU", examples=["500m"])
    memory: Mebibytes | None = Field(default=None, description="total memory", examples=["1Gi"])


def _whole_processors(cpu: int) -> None:
    if cpu % 1000:
        raise wanted("shape.cpu", "the type's vCPUs, a whole number", example="16", at="cpu")


class NodeShape(Settings):
    """An instance type that the price tables lack, by AWS's figures."""

    checks: ClassVar[tuple[Check, ...]] = (Check(("cpu",), _whole_processors),)

    cpu: Millicores = Field(description="the type's vCPUs", examples=["16"])
    memory: Mebibytes = Field(description="the type's memory", examples=["64Gi"])
    gpu: Count = Field(default=0, description="number of GPUs", examples=["1"])
    arch: Annotated[Architecture, *choice("amd64", "arm64", planned={})] = Field(
        default=Architecture.AMD64, description="processor architecture, amd64 or arm64", examples=["arm64"]
    )
    max_pods: Positive | None = Field(
        default=None, description="maximum number of pods; default: 110, from 30 vCPUs on 250", examples=["110"]
    )
    usd_per_hour: PositiveNumber | None = Field(
        default=None, description="US dollars per hour of one node; default: no estimate of its cost", examples=["0.85"]
    )

    def as_type(self, name: str) -> InstanceType:
        """Return the instance type `name` with these sizes."""
        vcpu = self.cpu // 1000
        cpu, memory = allocatable(vcpu, self.memory, self.arch, most_pods_by_eni(vcpu))
        return self._type(name, cpu, memory, self.max_pods or default_max_pods(vcpu))

    def _type(self, name: str, cpu: int, memory: int, max_pods: int, *, eks_daemons: bool = True) -> InstanceType:
        vcpu = -(-self.cpu // 1000)
        return InstanceType(
            name=name,
            vcpu=vcpu,
            memory_mib=self.memory,
            gpu=self.gpu,
            gpu_model=_GPU_MODEL if self.gpu else "",
            gpu_memory_mib=0,
            arch=self.arch,
            allocatable_cpu=cpu,
            allocatable_memory=memory,
            max_pods=max_pods,
            default_pods=most_pods_by_eni(vcpu),
            device="",
            usd_per_hour=self.usd_per_hour,
            eks_daemons=eks_daemons,
        )


class NodeSetShape(NodeShape):
    """The nodes of one set of an existing cluster. All have the same size."""

    checks: ClassVar[tuple[Check, ...]] = (MIN_WITHIN_MAX,)

    cpu: Millicores = Field(description="allocatable CPU of a node", examples=["15800m"])
    memory: Mebibytes = Field(description="allocatable memory of a node", examples=["60Gi"])
    gpu: Count = Field(default=0, description="allocatable GPUs of a node, or other devices", examples=["1"])
    max_pods: Positive | None = Field(
        default=None, description="allocatable pods of a node; default: 110", examples=["110"]
    )
    max: Positive = Field(description="number of nodes; with an autoscaler, their maximum", examples=["8"])
    min: Count = Field(default=0, description="minimum number of nodes, with an autoscaler", examples=["1"])
    autoscaled: Annotated[bool, Strict()] = Field(
        default=False, description="true: an autoscaler adds and removes nodes", examples=["true"]
    )
    reserved: Reserved = Field(
        default=Reserved(),
        description="requests of the DaemonSets on each node, which other pods cannot use",
        examples=["{ cpu: 500m, memory: 1Gi }"],
    )

    @property
    def pods(self) -> int:
        """Return the maximum number of pods of a node; without a value in the file, the kubelet's default."""
        return self.max_pods or 110

    def as_type(self, name: str) -> InstanceType:
        return self._type(name, self.cpu, self.memory, self.pods, eks_daemons=False)
