"""Sizes of instance types, and the capacity that they leave for pods.

Capacity is reduced in two steps: by the kubelet's and the system's reservations (in the table: allocatable), then by
the requests of the DaemonSets that every node runs. A pod that fits allocatable but not the remaining capacity stays
pending forever while the autoscaler adds nodes that cannot take it, so "fits" always means `usable`.
"""

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache

from ebbtide.prices.data_files import shipped_text

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


SUGGESTED_FAMILIES = frozenset(
    (
        *("t3", "t3a", "t4g", "m6i", "m6a", "m7i", "m7i-flex", "m7g", "m8g", "c6i", "c7i", "c7g", "r6i", "r7i", "r7g"),
        *("g4dn", "g5", "g6", "g6e", "p4d", "p4de", "p5"),
    )
)
"""Common families. Messages that suggest types other than the stack file's suggest only types of these."""

_TYPE = re.compile(r"(?P<class>[a-z]+)(?P<generation>\d+)(?P<more>[a-z-]*)\.(?P<size>\w+)")
_SHORT_SIZE = re.compile(r"[.-]?(\d*)xl(?:arge)?$")
"""The end of a name such as g6e.2xl, g6e-2xlarge or g6e2xlarge."""
_SIZE = re.compile(r"\d*xlarge|nano|micro|small|medium|large|metal")


class UnknownInstanceType(LookupError):
    """The type is not in the table; the message suggests the intended one where that is clear."""


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
    default_pods: int  # without prefix delegation
    device: str  # resource name of an accelerator that is no NVIDIA GPU, or ""
    usd_per_hour: float | None = None  # from the stack file; None: the price tables decide
    eks_daemons: bool = True  # False on an existing cluster, where only its owner knows the DaemonSets

    @property
    def shape(self) -> tuple[int, int, int, str]:
        """Sizes that must be equal within a node group: the autoscaler takes one node as the pattern for all."""
        return (self.vcpu, self.memory_mib, self.gpu, self.arch)

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def generation(self) -> int:
        """The number in the name: 7 of `m7i.4xlarge`. 0 for a name of another form."""
        parts = _TYPE.fullmatch(self.name)
        return int(parts["generation"]) if parts else 0


@dataclass(frozen=True, slots=True, order=True)
class Capacity:
    """Resources of one node that pods can request: millicores, MiB, GPUs, pods."""

    cpu: int
    memory: int
    gpu: int
    pods: int

    def copies(self, *, cpu: int, memory: int, gpu: int) -> int:
        """Return the number of pods of this size that fit on one empty node."""
        limits = [self.cpu // cpu, self.memory // memory, self.pods]
        if gpu:
            limits.append(self.gpu // gpu)
        return min(limits)

    def holds(self, load: "Capacity") -> bool:
        """True if a node of this capacity has all that pods take of another one."""
        pairs = ((load.cpu, self.cpu), (load.memory, self.memory), (load.gpu, self.gpu), (load.pods, self.pods))
        return all(taken <= offered for taken, offered in pairs)


@cache
def _lines() -> dict[str, str]:
    """The lines of the table by type. A run parses only the lines of the types that it uses."""
    _, *lines = shipped_text("instance_types.csv").splitlines()
    return {line.partition(",")[0]: line for line in lines}


@cache
def _columns() -> tuple[str, ...]:
    return tuple(shipped_text("instance_types.csv").partition("\n")[0].split(","))


def instance_type(name: str) -> InstanceType:
    """Return the sizes of one type. Raises `UnknownInstanceType`."""
    if name not in _lines():
        near = nearest_type(name)
        raise UnknownInstanceType(f"no facts about instance type {name!r}{f'; did you mean {near}?' if near else ''}")
    return _parsed(name)


@cache
def _parsed(name: str) -> InstanceType:
    row = dict(zip(_columns(), _lines()[name].split(","), strict=True))
    return InstanceType(
        name=name,
        vcpu=int(row["vcpu"]),
        memory_mib=int(row["memory_mib"]),
        gpu=int(row["gpu"]),
        gpu_model=row["gpu_model"],
        gpu_memory_mib=int(row["gpu_memory_mib"] or 0),
        arch=row["arch"],
        allocatable_cpu=int(row["allocatable_cpu_millicores"]),
        allocatable_memory=int(row["allocatable_memory_mib"]),
        max_pods=int(row["max_pods_prefix_delegation"]),
        default_pods=int(row["max_pods_eni"]),
        device=row["accelerator_resource"],
    )


@lru_cache(maxsize=1000)
def nearest_type(name: str) -> str:
    """Return the known type that a wrong name probably means, or "".

    It has the class, the processor and the size of the name: by letters only, `m5.4xlarge` is nearest to a node with
    GPUs. For an older generation, the newest one of the common families is returned. Cached: a list may repeat one name
    thousands of times.
    """
    wrong = _SHORT_SIZE.sub(r".\1xlarge", name.lower())
    if wrong in instance_type_names():
        return wrong
    parts = _TYPE.fullmatch(wrong)
    type_parts = {type_name: match for type_name in instance_type_names() if (match := _TYPE.fullmatch(type_name))}
    alike = {type_name: match for type_name, match in type_parts.items() if parts and _alike(match, parts)}
    if parts is None or not alike:
        return next((type_name for type_name in type_parts if _letters(type_name) == _letters(wrong)), "")
    if _SIZE.fullmatch(parts["size"]) is None:
        return next(iter(get_close_matches(wrong, alike, n=1, cutoff=0.85)), "")
    sized = [name for name in alike if alike[name]["size"] == parts["size"] and is_suggested(name)]
    return max(sized, key=lambda type_name: (int(alike[type_name]["generation"]), -len(type_name)), default="")


def is_suggested(name: str) -> bool:
    return name.partition(".")[0] in SUGGESTED_FAMILIES


def _alike(left: "re.Match[str]", right: "re.Match[str]") -> bool:
    """True for the same class and processor; a `g` after the generation means ARM."""
    return left["class"] == right["class"] and ("g" in left["more"]) is ("g" in right["more"])


def _letters(name: str) -> list[str]:
    return sorted(letter for letter in name if letter.isalnum())


@cache
def instance_type_names() -> tuple[str, ...]:
    """All types in the table, sorted."""
    return tuple(sorted(_lines()))


def default_max_pods(vcpu: int) -> int:
    """Return the pod limit that EKS recommends for a node of this size with prefix delegation."""
    return 110 if vcpu < 30 else 250


def allocatable(vcpu: int, memory_mib: int, arch: str, pods_by_eni: int) -> tuple[int, int]:
    """Return the millicores and MiB of a new EKS node that pods and DaemonSets can request.

    `pods_by_eni` is the number of pods without prefix delegation, from which nodeadm computes its reservation. The
    hypervisor and the kernel keep 7.5 % of the memory; the kubelet evicts pods when 100 MiB are left.
    Source: Karpenter, `pkg/providers/instancetype/types.go`.
    """
    shares = (600, 100, 50, 50)  # of the first four vCPUs, in tenths of a millicore; 25 of each further one
    reserved = (sum(shares[:vcpu]) + 25 * max(0, vcpu - len(shares))) // 10
    memory = memory_mib - (64 if arch == "arm64" else 0)
    return vcpu * 1000 - reserved, memory - math.ceil(memory * 0.075) - (11 * pods_by_eni + 255) - 100


_MOST_PODS_BY_ENI = ((4, 118), (8, 254), (16, 506), (36, 632), (64, 1010))
"""Pods by vCPUs, up to and including: the most of any type that AWS had in July 2026."""


def most_pods_by_eni(vcpu: int) -> int:
    """Return an upper bound for an unknown type, so that its allocatable memory is never estimated too high."""
    return next((pods for most_vcpu, pods in _MOST_PODS_BY_ENI if vcpu <= most_vcpu), 1514)


def usable(kind: InstanceType) -> Capacity:
    """Return the capacity of one node for pods: allocatable less the requests of the DaemonSets."""
    daemons = [*EVERY_NODE, *(ON_GPU_NODES if kind.gpu else ())] if kind.eks_daemons else []
    return Capacity(
        cpu=kind.allocatable_cpu - sum(cpu for cpu, _ in daemons),
        memory=kind.allocatable_memory - sum(memory for _, memory in daemons),
        gpu=kind.gpu,
        pods=kind.max_pods - len(daemons),
    )
