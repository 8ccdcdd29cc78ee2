"""Choose the node group of a pod: kind first, then size, then the price of the nodes for all its replicas.

A pod that fits no node of its group stays pending without a message, so the stack file check refuses it.

**Processors.** An image for one processor does not start on another, and only `arch` says what an image was built for.
If all groups that a pod may use have one architecture, there is nothing to choose. If they differ, a pod without `arch`
is bound to amd64, which most images are built for.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ebbtide.prices import Capacity, InstanceType, shipped_on_demand, usable
from ebbtide.provisioning_labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, Architecture, NodeKind
from ebbtide.settings.fragment.nodes import NodeLabels, unmet
from ebbtide.settings.fragment.size import PodSize, total_size
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.pods.pod import PodSettings
from ebbtide.settings.sections.ray import AUTOSCALER_CPU, AUTOSCALER_MEMORY, RayHead
from ebbtide.settings.sections.shapes import Reserved
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.text.quantities import cpu_text
from ebbtide.vocabulary.labels import NODE_KIND, Category

_Pod = TypeVar("_Pod", bound=PodSettings)


def pod_size(settings: PodSettings) -> PodSize:
    """Return the size of a pod including the containers that its fragment adds."""
    return total_size(PodSize(cpu=settings.cpu, memory=settings.memory, gpu=settings.gpu.count), settings.pod)


def head_size(head: RayHead) -> PodSize:
    """Return the size of a Ray head including the container of Ray's autoscaler."""
    size = pod_size(head)
    return replace(size, cpu=size.cpu + AUTOSCALER_CPU, memory=size.memory + AUTOSCALER_MEMORY)


def copies(size: PodSize, node: Capacity) -> int:
    """Return how many of these pods fit on an empty node."""
    return node.copies(cpu=size.cpu, memory=size.memory, gpu=size.gpu)


def room_on_disk(gib: int) -> int:
    """Return GiB of a node's disk that pods may request: the kubelet reserves 1 GiB and a tenth, the file system a
    little.
    """
    return (9 * gib - 11) // 10


def disk_holds(group: NodeGroupSettings, mebibytes: int | None) -> bool:
    """True if a node of the group has the disk space that a pod requests."""
    return mebibytes is None or mebibytes <= room_on_disk(group.disk_size) * 1024


def gpu_memory(group: NodeGroupSettings) -> int | None:
    """Return the MiB of memory of each GPU of the group; None if only a shape describes them."""
    if any(kind.gpu and not kind.gpu_memory_mib for kind in group.types):
        return None
    return min(kind.gpu_memory_mib for kind in group.types)


def gpus_suffice(group: NodeGroupSettings, pod: PodSettings) -> bool:
    """True if every node of the group has GPUs with the memory that the pod requests, or if it requests none.

    The memory of a shape's GPUs is unknown and assumed to suffice.
    """
    memory = gpu_memory(group)
    return pod.gpu.memory is None or memory is None or pod.gpu.memory <= memory


def architecture(group: NodeGroupSettings) -> Architecture:
    """Return the processor of the group's nodes. All types of a group have the same."""
    return Architecture(group.types[0].arch)


def suits(group: NodeGroupSettings, pod: PodSettings) -> bool:
    """True if the group's nodes meet the pod's requirements other than kind and size: GPUs, processor, labels.

    Labels of existing nodes are unknown and assumed to match.
    """
    same = pod.arch in (None, Architecture.ANY, architecture(group))
    return same and gpus_suffice(group, pod) and (group.existing or not unmet(pod.pod, (labels_of_nodes(group),)))


def admits(group: NodeGroupSettings, kind: NodeKind, pod: PodSettings) -> bool:
    """True if a pod for this kind of nodes, which names no group, may run on the group's nodes.

    Only pods that name a spot group with GPUs run there.
    """
    return group.for_any_pod and group.kind is kind and not group.gpus_on_spot and suits(group, pod)


def names_rightly(group: NodeGroupSettings, kind: NodeKind) -> bool:
    """True if a pod for this kind of nodes may name the group, apart from its size: GPUs stay with GPUs."""
    if group.kind is NodeKind.SPOT:
        return kind is (NodeKind.GPU if group.has_gpus else NodeKind.FLEXIBLE)
    return group.kind is kind


def takes(group: NodeGroupSettings, workload: WorkloadSettings) -> bool:
    """True if the workload's pods may run on the group's nodes, by kind and by what they require."""
    return admits(group, home_of(workload), workload)


def on_one_architecture(pod: _Pod, groups: Iterable[NodeGroupSettings]) -> _Pod:
    """Return the pod bound to amd64 if its possible groups differ in architecture and the file has no `arch`."""
    architectures = {architecture(group) for group in groups}
    return pod.model_copy(update={"arch": Architecture.AMD64}) if pod.arch is None and len(architectures) > 1 else pod


def labels_of_nodes(group: NodeGroupSettings) -> NodeLabels:
    """Return the possible values of the labels of the group's nodes that are known before a node exists."""
    arch, types = frozenset((architecture(group).value,)), frozenset(group.instance_types)
    spot = group.kind is NodeKind.SPOT
    if group.by_karpenter:
        capacity = {CAPACITY_TYPE: frozenset(("spot" if spot else "on-demand",))}
    else:
        capacity = {"eks.amazonaws.com/capacityType": frozenset(("SPOT" if spot else "ON_DEMAND",))}
    return {
        ARCH: arch,
        "beta.kubernetes.io/arch": arch,
        "kubernetes.io/os": frozenset(("linux",)),
        "beta.kubernetes.io/os": frozenset(("linux",)),
        INSTANCE_TYPE: types,
        "beta.kubernetes.io/instance-type": types,
        NODE_KIND: frozenset((group.kind.value,)),
        **capacity,
    }


def home_of(workload: WorkloadSettings) -> NodeKind:
    """Return the kind of group for a workload's pods."""
    if workload.on_spot:
        return NodeKind.SPOT
    return home_kind(workload.category, pod_size(workload).gpu)


def home_kind(category: Category, gpu: int) -> NodeKind:
    """Return the kind of group for pods that name no group: GPUs decide first. Spot only if a pod names it."""
    if gpu:
        return NodeKind.GPU
    return NodeKind.FIXED if category is Category.FIXED else NodeKind.FLEXIBLE


def offered(node: Capacity, reserved: Reserved) -> Capacity:
    """Return the capacity that remains after the team's own DaemonSets."""
    return replace(
        node, cpu=max(0, node.cpu - (reserved.cpu or 0)), memory=max(0, node.memory - (reserved.memory or 0))
    )


def node_of(group: NodeGroupSettings) -> Capacity:
    """Return the capacity that every node of the group has for pods that are not of DaemonSets.

    With Karpenter it is the capacity of its largest nodes, since it launches one of these if no smaller one suffices,
    but with GPUs on spot that of its smallest.
    """
    if group.by_karpenter and group.gpus_on_spot:
        return _least(node_of_type(group, kind) for kind in group.types)
    return offered(smallest_node(group.types_to_fit), group.reserved)


def kubelet_reserves(kind: InstanceType) -> tuple[int, int]:
    """Return the millicores, and the MiB for pods, that a kubelet reserves.

    Source: `components.cluster.karpenter.pools`.
    """
    return 1000 * kind.vcpu - kind.allocatable_cpu, 11 * min(kind.max_pods, kind.default_pods)


def node_of_type(group: NodeGroupSettings, kind: InstanceType) -> Capacity:
    """Return the capacity of a node of one type of a Karpenter group.

    Every kubelet of a group of the stack reserves what the type with the largest reservation needs, and one of an
    existing NodePool what its own type needs.
    """
    own = kubelet_reserves(kind)
    types = group.types if group.gpus_on_spot else group.types[:1]  # elsewhere the first type is the largest in all
    most = zip(own) if group.existing else zip(*map(kubelet_reserves, types), strict=True)
    cpu, memory = (max(0, max(largest) - needed) for largest, needed in zip(most, own, strict=True))
    node = offered(usable(kind), group.reserved)
    return replace(node, cpu=node.cpu - cpu, memory=node.memory - memory)


def smallest_node(types: Sequence[InstanceType]) -> Capacity:
    """Return the capacity that a node of any of these types has at least; `types` is not empty."""
    return _least(map(usable, types))


def _least(nodes: Iterable[Capacity]) -> Capacity:
    offers = [*nodes]
    return Capacity(
        cpu=min(offer.cpu for offer in offers),
        memory=min(offer.memory for offer in offers),
        gpu=min(offer.gpu for offer in offers),
        pods=min(offer.pods for offer in offers),
    )


def fits(size: PodSize, node: Capacity) -> bool:
    return size.cpu <= node.cpu and size.memory <= node.memory and size.gpu <= node.gpu


def cheapest_group(size: PodSize, pods: int, groups: Mapping[str, NodeGroupSettings], region: str) -> str | None:
    """Return the group on which `pods` pods of this size cost least at on-demand list prices, or None if none fits.

    Entire nodes are counted, since a partly used node costs the same. In regions without prices the node's CPU replaces
    the price. Ties go to the name that sorts first.
    """
    nodes = {name: node_of(group) for name, group in groups.items()}
    offers = {name: node for name, node in nodes.items() if fits(size, node)}
    if not offers:
        return None
    costs = {name: _node_price(groups[name], region) for name in offers}
    if None in costs.values():
        costs = {name: float(node.cpu) for name, node in offers.items()}

    def together(name: str) -> tuple[float, str]:
        whole_nodes = math.ceil(pods / copies(size, offers[name]))
        return round((costs[name] or 0.0) * whole_nodes, 9), name

    return min(offers, key=together)


def with_adopted_pools(settings: StackSettings) -> StackSettings:
    """Return the stack with its adopted pools among the workers, for packing, costs and replays.

    Their pods may use any group of their kind. The model puts them on the cheapest.
    """
    workers, adopted = dict(settings.workers), dict(settings.adopted)
    if all(rule.pool is None for rule in adopted.values()):
        return settings
    for name, rule in settings.adopted.items():
        if (pool := rule.modelled_pool()) is not None:
            size = pod_size(pool)
            kind = home_kind(rule.category, size.gpu)
            groups = {key: group for key, group in settings.node_groups.items() if group.kind is kind}
            home = cheapest_group(size, pool.max, groups, settings.region) or kind.value
            workers[name] = pool.model_copy(update={"node_group": home})
            del adopted[name]
    return settings.model_copy(update={"workers": workers, "adopted": adopted})


def growth_ranks(groups: Mapping[str, NodeGroupSettings], region: str) -> Mapping[str, int]:
    """Return the order in which groups grow that are equal for their provisioner: NodePools by name, as Karpenter does;
    groups of the cluster autoscaler, which draws, by price, the most expensive first, and by name.
    """

    def order(name: str) -> tuple[float, str]:
        price = 0.0 if groups[name].by_karpenter else _node_price(groups[name], region)
        return -(price or 0.0), name

    return {name: rank for rank, name in enumerate(sorted(groups, key=order))}


def _node_price(group: NodeGroupSettings, region: str) -> float | None:
    """Return the price of the most expensive type, since AWS may choose any. Only shipped prices and those of the stack
    file count: newer prices must not move a pod.
    """
    prices = [shipped_on_demand(region, kind) for kind in group.types]
    known_prices = [price for price in prices if price is not None]
    return max(known_prices) if len(known_prices) == len(prices) else None


def room_text(node: Capacity) -> str:
    """Return the largest pod that would fit, in the notation of the file."""
    gpus = f", gpu: {node.gpu}" if node.gpu else ""
    return f"cpu: {cpu_text(node.cpu)}, memory: {node.memory}Mi{gpus}"
