"""What an instance type offers, and what of it is left for pods.

Capacity comes off in two steps: the kubelet's and the system's reservations (in the table: allocatable), then the
requests of the DaemonSets that every node runs. A pod that fits allocatable but not what is left stays pending for
ever while the autoscaler adds nodes that cannot take it, so "fits" always means `usable`.
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache

from ebbtide.prices.tables import rows

# Requests of the DaemonSets on every node, as (millicores, MiB). Scheduling counts requests, not use.
KUBE_PROXY = (100, 0)  # EKS add-on kube-proxy, default resources
VPC_CNI = (50, 0)  # EKS add-on vpc-cni: aws-node and its network policy agent, 25m each, no memory request
EBS_CSI_NODE = (30, 120)  # EKS add-on aws-ebs-csi-driver, node part: three containers of 10m and 40Mi
POD_IDENTITY_AGENT = (0, 0)  # EKS add-on eks-pod-identity-agent: no requests by default
NODE_MONITORING_AGENT = (10, 30)  # EKS add-on eks-node-monitoring-agent, default resources
GPU_MONITOR = (0, 0)  # the same add-on's DCGM server, GPU nodes only: no requests by default
DEVICE_PLUGIN = (20, 128)  # NVIDIA device plugin, GPU nodes only: no requests upstream, so this is headroom

EVERY_NODE = (KUBE_PROXY, VPC_CNI, EBS_CSI_NODE, POD_IDENTITY_AGENT, NODE_MONITORING_AGENT)
ON_GPU_NODES = (DEVICE_PLUGIN, GPU_MONITOR)


_TYPE = re.compile(r"(?P<class>[a-z]+)(?P<generation>\d+)(?P<more>[a-z-]*)\.(?P<size>\w+)")
_SIZE = re.compile(r"\d*xlarge|nano|micro|small|medium|large|metal")


class UnknownInstanceType(LookupError):
    """Not in the table; the message names the one that is meant, where that is clear."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """Units: vCPUs, MiB, whole GPUs, millicores. `allocatable_*` is before DaemonSets."""

    name: str
    vcpu: int
    memory_mib: int
    gpu: int
    gpu_model: str  # "" without a GPU
    gpu_memory_mib: int  # of each GPU; 0 without one
    arch: str  # amd64 or arm64
    allocatable_cpu: int
    allocatable_memory: int
    max_pods: int  # with prefix delegation, as a managed node group caps it

    @property
    def shape(self) -> tuple[int, int, int, str]:
        """What must agree inside a node group: the autoscaler takes one node as the pattern for all."""
        return (self.vcpu, self.memory_mib, self.gpu, self.arch)

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True, order=True)
class Capacity:
    """What pods can request of one node: millicores, MiB, GPUs, pods."""

    cpu: int
    memory: int
    gpu: int
    pods: int

    def copies(self, *, cpu: int, memory: int, gpu: int) -> int:
        """How many pods of this size fit on one empty node."""
        room = [self.cpu // cpu, self.memory // memory, self.pods]
        if gpu:
            room.append(self.gpu // gpu)
        return min(room)


@cache
def _catalog() -> dict[str, InstanceType]:
    return {
        row["instance_type"]: InstanceType(
            name=row["instance_type"],
            vcpu=int(row["vcpu"]),
            memory_mib=int(row["memory_mib"]),
            gpu=int(row["gpu"]),
            gpu_model=row["gpu_model"],
            gpu_memory_mib=int(row["gpu_memory_mib"] or 0),
            arch=row["arch"],
            allocatable_cpu=int(row["allocatable_cpu_millicores"]),
            allocatable_memory=int(row["allocatable_memory_mib"]),
            max_pods=int(row["max_pods_prefix_delegation"]),
        )
        for row in rows("instance_types")
    }


def instance_type(name: str) -> InstanceType:
    """The facts of one type. Raises `UnknownInstanceType`."""
    found = _catalog().get(name)
    if found is None:
        near = nearest_type(name)
        raise UnknownInstanceType(f"no facts about instance type {name!r}{f'; did you mean {near}?' if near else ''}")
    return found


@lru_cache(maxsize=1000)
def nearest_type(name: str) -> str:
    """The known type that a wrong name means; "" where there is none.

    It has the class, the processor and the size of the name: by letters alone `m5.4xlarge` is nearest to a node with
    GPUs. An older generation means the newest known one. Remembered: a list may repeat one name thousands of times.
    """
    wrong = name.lower()
    parts = _TYPE.fullmatch(wrong)
    known_parts = {known: it for known in instance_type_names() if (it := _TYPE.fullmatch(known))}
    alike = {known: it for known, it in known_parts.items() if parts and _alike(it, parts)}
    if parts is None or not alike:
        return next((known for known in known_parts if _letters(known) == _letters(wrong)), "")
    if _SIZE.fullmatch(parts["size"]) is None:
        return next(iter(get_close_matches(wrong, alike, n=1, cutoff=0.85)), "")
    sized = [known for known, it in alike.items() if it["size"] == parts["size"]]
    return max(sized, key=lambda known: (int(alike[known]["generation"]), -len(known)), default="")


def _alike(one: "re.Match[str]", other: "re.Match[str]") -> bool:
    """The same class; a `g` after the generation means a processor of ARM."""
    return one["class"] == other["class"] and ("g" in one["more"]) is ("g" in other["more"])


def _letters(name: str) -> list[str]:
    return sorted(letter for letter in name if letter.isalnum())


def instance_type_names() -> tuple[str, ...]:
    """All types in the table, sorted."""
    return tuple(sorted(_catalog()))


def usable(kind: InstanceType) -> Capacity:
    """What is left of one node for pods: allocatable less the requests of the DaemonSets."""
    daemons = [*EVERY_NODE, *(ON_GPU_NODES if kind.gpu else ())]
    return Capacity(
        cpu=kind.allocatable_cpu - sum(cpu for cpu, _ in daemons),
        memory=kind.allocatable_memory - sum(memory for _, memory in daemons),
        gpu=kind.gpu,
        pods=kind.max_pods - len(daemons),
    )
