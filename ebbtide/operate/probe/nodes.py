"""Check that a cluster has nodes for each set of pods in a stack, one of them large enough for the largest pod. Pure.

A node counts if a pod of the set may run there: it is not cordoned and has no taint that Ebbtide's pods do not
tolerate. Pods that request GPUs tolerate the usual taint of GPU nodes, or one with the name of their device, and no
other. GPU memory is known only from the label of NVIDIA's GPU feature discovery. Only the first nodes of a set are
checked: if there are more, a shortage is a note and not a fault.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from controllers.adapters.kube_api import Json
from ebbtide.kube.taints import GPU_TAINT, Taint, gpu_tolerations, taint_of
from ebbtide.operate.objects import quantity, words_at
from ebbtide.operate.probe.facts import Denied, Facts, NodeLabels
from ebbtide.operate.probe.findings import Probed, ProbeFinding, State, missing, note, ok
from ebbtide.operate.probe.wants import PodWant
from ebbtide.operate.why.node_pins import NODE_POOL
from ebbtide.prices import Capacity
from ebbtide.provisioning_labels import ARCH, GPU_MEMORY, INSTANCE_TYPE, NodeKind
from ebbtide.settings.capacity.packing import Nodes, packed
from ebbtide.settings.capacity.placement import PodSize
from ebbtide.settings.sections.existing import names_karpenter
from ebbtide.settings.sections.shapes import NodeSetShape
from ebbtide.text.quantities import cpu_text, memory_text
from ebbtide.vocabulary.labels import GPU_RESOURCE

_USUAL_PODS = 110  # if the kubelet does not say
_ALIKE = 0.01
"""Tolerated difference: nodes of one type differ by some MiB."""


class NodeCapacity(NamedTuple):
    """A node's allocatable millicores, MiB and devices by name; and what keeps pods off it."""

    cpu: Decimal
    memory: Decimal
    devices: Mapping[str, Decimal]
    gpu_memory: int | None  # MiB of each GPU; None without the label
    taints: frozenset[Taint]
    cordoned: bool
    pods: int
    arch: str = ""  # by its label
    instance_type: str = ""  # by its label
    node_pool: str = ""  # of Karpenter, by its label

    def gpus(self, pod: PodWant) -> Decimal:
        return self.devices.get(pod.gpu_resource, Decimal(0))

    def capacity(self, by_device: PodWant | None) -> Capacity:
        gpus = 0 if by_device is None else int(self.gpus(by_device))
        return Capacity(cpu=int(self.cpu), memory=int(self.memory), gpu=gpus, pods=self.pods)

    def can_hold(self, pod: PodWant) -> bool:
        enough = pod.gpu_memory is None or (self.gpu_memory is not None and self.gpu_memory >= pod.gpu_memory)
        return pod.cpu <= self.cpu and pod.memory <= self.memory and pod.gpu <= self.gpus(pod) and enough

    def accepts(self, pod: PodWant) -> bool:
        return not self.cordoned and all(tolerates(pod, taint) for taint in self.taints)

    def built_for(self, pod: PodWant) -> bool:
        return pod.arch in (None, self.arch)

    def reachable_by(self, pod: PodWant) -> bool:
        return self.accepts(pod) and self.built_for(pod)

    @property
    def closed_by(self) -> Iterator[str]:
        yield from map(str, self.taints)
        if self.cordoned:
            yield "cordoned"


def tolerates(pod: PodWant, taint: Taint) -> bool:
    return pod.gpu > 0 and taint.tolerated_by(gpu_tolerations(pod.gpu_resource))


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet:
    """The nodes that were read for one selector."""

    name: str
    selector: str
    nodes: Sequence[NodeCapacity]
    more: bool  # there are more nodes than were read

    def finding(self, pods: Sequence[PodWant], *, grows: bool) -> ProbeFinding:
        for pod in pods:
            reachable = [node for node in self.nodes if node.reachable_by(pod)]
            if not any(node.can_hold(pod) for node in reachable):
                lacking = self._lacking(pod, reachable)
                state = State.NOTE if self.more else State.MISSING
                partly = f"; only the first {len(self.nodes)} were checked" if self.more else ""
                return ProbeFinding(state, f"nodes {self.name}", f"{lacking}{partly}")
        if not grows and not self.more and self._full(pods):
            counts = ", ".join(f"{pod.most} {pod.name}" for pod in pods if pod.cpu)
            too_few = f"{len(self.nodes)} with {self.selector}, too few for all pods that may run there at once"
            return note(f"nodes {self.name}", f"{too_few}: {counts}")
        return ok(f"nodes {self.name}", f"{len(self.nodes)}{' or more' if self.more else ''} with {self.selector}")

    def _full(self, pods: Sequence[PodWant]) -> bool:
        """Return True if these pods need more nodes than exist; always False for several kinds of device."""
        sized = [pod for pod in pods if pod.cpu]
        devices = {pod.gpu_resource: pod for pod in sized if pod.gpu}
        if len(devices) > 1:
            return False
        by_device = next(iter(devices.values()), None)
        nodes = {str(number): Nodes(each=node.capacity(by_device), most=1) for number, node in enumerate(self.nodes)}
        reachable = [[str(number) for number, node in enumerate(self.nodes) if node.reachable_by(pod)] for pod in sized]
        sizes = [PodSize(cpu=pod.cpu, memory=pod.memory, gpu=pod.gpu) for pod in sized]
        demands = [(size, pod.most, within) for size, pod, within in zip(sizes, sized, reachable, strict=True)]
        return any(count > 1 for count in packed(demands, nodes).opened.values())

    def differences(self, shape: NodeSetShape, pods: Sequence[PodWant], *, by_karpenter: bool) -> Iterator[str]:
        """Compare the stack file's description with the nodes; for each resource, the smallest node counts."""
        number = len(self.nodes)
        least = shape.min if shape.autoscaled else shape.max
        least, most = 0 if by_karpenter else least, shape.max
        if not self.more and not least <= number <= most:
            yield f"{f'{least} to {most}' if least < most else most} nodes, the cluster has {number}"
        if not self.nodes:
            return
        pools = sorted({node.node_pool for node in self.nodes} - {""})
        if pools and not by_karpenter and self.name != NodeKind.FIXED:
            yield (
                f"no Karpenter, the nodes are of its NodePool {pools[0]} (for example cluster.nodePools: "
                f"{{ {self.name}: [{', '.join(pools)}] }})"
            )
        if shape.instance_types or shape.types:
            yield from self._other_types(shape)
            return
        devices = {pod.gpu_resource for pod in pods if pod.gpu} or {GPU_RESOURCE}
        gpus = [int(max(node.devices.get(device, Decimal(0)) for device in devices)) for node in self.nodes]
        for key, described, smallest, text in (
            ("cpu", shape.cpu, min(int(node.cpu) for node in self.nodes), cpu_text),
            ("memory", shape.memory, min(int(node.memory) for node in self.nodes), memory_text),
            ("gpu", shape.gpu, min(gpus), str),
            ("maxPods", shape.pods, min(node.pods for node in self.nodes), str),
        ):
            if abs(described - smallest) > _ALIKE * described:
                yield f"{key} {text(described)}, a node has {text(smallest)}"
        if others := sorted({node.arch for node in self.nodes} - {"", shape.arch}):
            yield f"arch {shape.arch}, a node has {others[0]}"

    def _other_types(self, shape: NodeSetShape) -> Iterator[str]:
        """Compare nodes with the types of the set: by name, and by less CPU or memory than a replay assumes."""
        types = {name: shape.as_type(name) for name in shape.type_names}
        unlisted = sorted({node.instance_type or "without a type" for node in self.nodes} - {*types})
        if unlisted:
            yield f"types {', '.join(types)}, a node is {unlisted[0]}"
        for name, kind in types.items():
            nodes = [node for node in self.nodes if node.instance_type == name]
            for key, assumed, smallest, text in (
                ("cpu", kind.allocatable_cpu, min((int(node.cpu) for node in nodes), default=0), cpu_text),
                ("memory", kind.allocatable_memory, min((int(node.memory) for node in nodes), default=0), memory_text),
            ):
                if nodes and smallest < (1 - _ALIKE) * assumed:
                    yield f"{key} {text(assumed)} of {name}, a node has {text(smallest)}"

    def _lacking(self, pod: PodWant, reachable: Sequence[NodeCapacity]) -> str:
        if not any(node.built_for(pod) for node in self.nodes):
            archs = ", ".join(sorted({node.arch for node in self.nodes} - {""})) or "no processor in their labels"
            return f"{pod.name} is for {pod.arch}, and nodes with {self.selector} have {archs}"
        if not reachable:
            closed = ", ".join(sorted({why for node in self.nodes for why in node.closed_by})[:3])
            taint = GPU_TAINT if pod.gpu_resource == GPU_RESOURCE else f"taints with the key {pod.gpu_resource}"
            tolerated = f"Ebbtide's pods tolerate only {taint}, and only if they request GPUs"
            return f"no node with {self.selector} accepts {pod.name}: {closed}; {tolerated}"
        if pod.gpu and not any(node.gpus(pod) > 0 for node in reachable):
            need = f"{pod.name} wants {pod.gpu} {pod.gpu_resource}"
            return f"{need}, and no node with {self.selector} offers any; is a device plugin there?"
        if pod.gpu_memory is not None and (too_little := self._gpu_memory(pod, pod.gpu_memory, reachable)):
            return too_little
        best = max(reachable, key=lambda node: (node.gpus(pod) >= pod.gpu, node.cpu, node.memory))
        sizes = ((pod.cpu, pod.memory, pod.gpu), (best.cpu, best.memory, best.gpus(pod)))
        needed, offered = (_size(size, gpu=pod.gpu > 0) for size in sizes)
        return f"{pod.name} wants {needed}; the largest node with {self.selector} offers {offered}"

    def _gpu_memory(self, pod: PodWant, least: int, reachable: Sequence[NodeCapacity]) -> str:
        """Return the shortage of GPU memory; empty if there is none."""
        labelled = [node.gpu_memory for node in reachable if node.gpus(pod) and node.gpu_memory is not None]
        need = f"{pod.name} wants GPUs of {memory_text(least)}"
        if not labelled:
            return (
                f"{need}, and no node with {self.selector} has the label {GPU_MEMORY}; is GPU feature discovery there?"
            )
        most = max(labelled)
        return "" if most >= least else f"{need}; the largest GPU of nodes with {self.selector} has {memory_text(most)}"


def nodes_and_capacity(probed: Probed) -> Iterator[ProbeFinding]:
    sets = probed.wants.nodes
    if sets is None:
        too_small = f"; too small for all pods that may run there at once: {', '.join(probed.wants.full)}"
        yield note("nodes", f"created by the stack, so not checked{too_small if probed.wants.full else ''}")
    for name, labels in (sets or {}).items():
        listed = probed.facts.nodes.get(name)
        if listed is None or isinstance(listed, Denied):
            yield note(f"nodes {name}", "nodes cannot be read: you need the right to list them")
            continue
        node_set = _node_set(name, labels, listed)
        grows = bool(autoscaler_name(probed.facts)) and name != NodeKind.FIXED
        pods = probed.wants.pods.get(name, ())
        yield node_set.finding(pods, grows=grows) if node_set.nodes else _no_nodes(node_set, probed.facts)
        shape = probed.wants.shapes.get(name)
        by_karpenter = names_karpenter(labels) or any(want.node_set == name for want in probed.wants.node_pools)
        differences = [*node_set.differences(shape, pods, by_karpenter=by_karpenter)] if shape is not None else []
        if differences:
            yield note(f"node shape {name}", f"cluster.nodeShapes.{name} differs: {'; '.join(differences)}")


def _no_nodes(empty: NodeSet, facts: Facts) -> ProbeFinding:
    subject, none = f"nodes {empty.name}", f"no node with {empty.selector}"
    grows = autoscaler_name(facts)
    if grows and empty.name != NodeKind.FIXED:
        return note(subject, f"{none} now; {grows} must be able to create one")
    return missing(subject, f"{none}; label nodes so, or change cluster.nodeSelectors.{empty.name}")


def _node_set(name: str, labels: NodeLabels, listed: Json) -> NodeSet:
    metadata: Json = listed.get("metadata") or {}
    nodes: Sequence[Json] = listed.get("items") or ()
    return NodeSet(
        name=name,
        selector=", ".join(f"{key}={value}" for key, value in labels.items()) or "any labels",
        nodes=[_capacity(node) for node in nodes],
        more=bool(metadata.get("continue")),
    )


def _capacity(node: Json) -> NodeCapacity:
    spec: Json = node.get("spec") or {}
    status: Json = node.get("status") or {}
    allocatable: Json = status.get("allocatable") or {}
    taints: Sequence[Json] = spec.get("taints") or ()
    memory = words_at(node, "metadata", "labels").get(GPU_MEMORY, "")
    return NodeCapacity(
        cpu=quantity(allocatable.get("cpu")) * 1000,
        memory=quantity(allocatable.get("memory")) / 2**20,
        devices={name: quantity(amount) for name, amount in allocatable.items() if "/" in name},
        gpu_memory=int(memory) if memory.isdecimal() else None,
        taints=frozenset(taint for taint in map(taint_of, taints) if taint.repels),
        cordoned=bool(spec.get("unschedulable")),
        pods=int(allocatable.get("pods") or _USUAL_PODS),
        arch=words_at(node, "metadata", "labels").get(ARCH, ""),
        instance_type=words_at(node, "metadata", "labels").get(INSTANCE_TYPE, ""),
        node_pool=words_at(node, "metadata", "labels").get(NODE_POOL, ""),
    )


def _size(size: tuple[Decimal | int, ...], *, gpu: bool) -> str:
    cpu, memory, gpus = size
    return f"{float(cpu) / 1000:g} CPU, {float(memory) / 1024:.4g}Gi" + (f", {gpus} GPU" if gpu else "")


def autoscaler_name(facts: Facts) -> str:
    if isinstance(facts.autoscaler_status, dict):
        return "the cluster autoscaler"
    return "Karpenter" if any(api.startswith("karpenter.sh/") for api in facts.apis) else ""
