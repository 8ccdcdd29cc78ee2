"""Whether a cluster has nodes for each set of pods that a stack names, and room on one of them for the largest. Pure.

A node counts where a pod of the set could land: not cordoned, and without a taint that Ebbtide's pods do not tolerate.
They tolerate the usual taint of GPU nodes alone, or one with the name of another device, and only where they ask for
it. How much memory a GPU has only the label of NVIDIA's GPU feature discovery says. The first nodes of a set stand for
all: where there are more, a lack is a note and not a fault.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from controllers.adapters.kube_api import Json
from ebbtide.operate.node_use import quantity
from ebbtide.operate.objects import words_at
from ebbtide.operate.probe.facts import Denied, Facts, NodeLabels
from ebbtide.operate.probe.findings import Finding, Probed, State, missing, note, ok
from ebbtide.operate.probe.wants import PodWant
from ebbtide.prices import Capacity
from ebbtide.provisioning_labels import ARCH, GPU_MEMORY, GPU_TAINT_KEY, GPU_TAINT_VALUE, NVIDIA, NodeKind
from ebbtide.settings.packing import Nodes, packed
from ebbtide.settings.placement import PodSize
from ebbtide.units.quantities import memory_text
from ebbtide.vocabulary.labels import GPU_RESOURCE

_USUAL_PODS = 110  # of a kubelet that says nothing
_GPU_TAINT = f"{GPU_TAINT_KEY}={GPU_TAINT_VALUE}:NoSchedule"


class Taint(NamedTuple):
    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"


class Room(NamedTuple):
    """What a node can give: millicores, MiB, and devices by name; and what keeps pods off it."""

    cpu: Decimal
    memory: Decimal
    devices: Mapping[str, Decimal]
    gpu_memory: int | None  # MiB of each GPU; None where no label says it
    taints: frozenset[Taint]
    cordoned: bool
    pods: int
    arch: str = ""  # as its label says

    def gpus(self, pod: PodWant) -> Decimal:
        return self.devices.get(pod.gpu_resource, Decimal(0))

    def capacity(self, by_device: PodWant | None) -> Capacity:
        gpus = 0 if by_device is None else int(self.gpus(by_device))
        return Capacity(cpu=int(self.cpu), memory=int(self.memory), gpu=gpus, pods=self.pods)

    def takes(self, pod: PodWant) -> bool:
        enough = pod.gpu_memory is None or (self.gpu_memory is not None and self.gpu_memory >= pod.gpu_memory)
        return pod.cpu <= self.cpu and pod.memory <= self.memory and pod.gpu <= self.gpus(pod) and enough

    def open_to(self, pod: PodWant) -> bool:
        return not self.cordoned and all(_tolerates(pod, taint) for taint in self.taints)

    def built_for(self, pod: PodWant) -> bool:
        return pod.arch in (None, self.arch)

    def reachable_by(self, pod: PodWant) -> bool:
        return self.open_to(pod) and self.built_for(pod)

    @property
    def closed_by(self) -> Iterator[str]:
        yield from map(str, self.taints)
        if self.cordoned:
            yield "cordoned"


def _tolerates(pod: PodWant, taint: Taint) -> bool:
    """As `components.pods.rules.tolerations` renders it, which a test compares."""
    if not pod.gpu or taint.effect != "NoSchedule":
        return False
    usual = (taint.key, taint.value) == (GPU_TAINT_KEY, GPU_TAINT_VALUE) and pod.gpu_resource.startswith(NVIDIA)
    return usual or (pod.gpu_resource != GPU_RESOURCE and taint.key == pod.gpu_resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet:
    """The nodes of one selector, as far as they were read."""

    name: str
    selected: str
    rooms: Sequence[Room]
    more: bool  # than were read

    def finding(self, pods: Sequence[PodWant], *, grows: bool) -> Finding:
        for pod in pods:
            reachable = [room for room in self.rooms if room.reachable_by(pod)]
            if not any(room.takes(pod) for room in reachable):
                said = self._lacking(pod, reachable)
                state = State.NOTE if self.more else State.MISSING
                partly = f"; only the first {len(self.rooms)} were checked" if self.more else ""
                return Finding(state, f"nodes {self.name}", f"{said}{partly}")
        if not grows and not self.more and self._full(pods):
            said = f"{len(self.rooms)} with {self.selected}, too few for all that may run there at its most"
            return note(
                f"nodes {self.name}", f"{said}: {', '.join(f'{pod.most} {pod.name}' for pod in pods if pod.cpu)}"
            )
        return ok(f"nodes {self.name}", f"{len(self.rooms)}{' or more' if self.more else ''} with {self.selected}")

    def _full(self, pods: Sequence[PodWant]) -> bool:
        """True if these pods alone need more nodes than there are. False for several kinds of device: not computed."""
        sized = [pod for pod in pods if pod.cpu]
        devices = {pod.gpu_resource: pod for pod in sized if pod.gpu}
        if len(devices) > 1:
            return False
        by_device = next(iter(devices.values()), None)
        nodes = {str(number): Nodes(each=room.capacity(by_device), most=1) for number, room in enumerate(self.rooms)}
        open_to = [[str(number) for number, room in enumerate(self.rooms) if room.reachable_by(pod)] for pod in sized]
        sizes = [PodSize(cpu=pod.cpu, memory=pod.memory, gpu=pod.gpu) for pod in sized]
        wanted = [(size, pod.most, within) for size, pod, within in zip(sizes, sized, open_to, strict=True)]
        return any(count > 1 for count in packed(wanted, nodes).opened.values())

    def _lacking(self, pod: PodWant, reachable: Sequence[Room]) -> str:
        if not any(room.built_for(pod) for room in self.rooms):
            found = ", ".join(sorted({room.arch for room in self.rooms} - {""})) or "no processor in their labels"
            return f"{pod.name} is for {pod.arch}, and nodes with {self.selected} have {found}"
        if not reachable:
            closed = ", ".join(sorted({why for room in self.rooms for why in room.closed_by})[:3])
            bears = _GPU_TAINT if pod.gpu_resource == GPU_RESOURCE else f"taints with the key {pod.gpu_resource}"
            only = f"Ebbtide's pods tolerate {bears} where they ask for GPUs, and nothing else"
            return f"no node with {self.selected} accepts {pod.name}: {closed}; {only}"
        if pod.gpu and not any(map(_offering(pod), reachable)):
            wish = f"{pod.name} wants {pod.gpu} {pod.gpu_resource}"
            return f"{wish}, and no node with {self.selected} offers any; is a device plugin there?"
        if pod.gpu_memory is not None and (said := self._too_little(pod, pod.gpu_memory, reachable)):
            return said
        best = max(reachable, key=lambda room: (room.gpus(pod) >= pod.gpu, room.cpu, room.memory))
        sizes = ((pod.cpu, pod.memory, pod.gpu), (best.cpu, best.memory, best.gpus(pod)))
        asks, offers = (_size(size, gpu=pod.gpu > 0) for size in sizes)
        return f"{pod.name} wants {asks}; the largest node with {self.selected} offers {offers}"

    def _too_little(self, pod: PodWant, least: int, reachable: Sequence[Room]) -> str:
        """Empty where the memory of GPUs is not what is lacking."""
        told = [room.gpu_memory for room in reachable if room.gpus(pod) and room.gpu_memory is not None]
        wish = f"{pod.name} wants GPUs of {memory_text(least)}"
        if not told:
            return (
                f"{wish}, and no node with {self.selected} has the label {GPU_MEMORY}; is GPU feature discovery there?"
            )
        most = max(told)
        return "" if most >= least else f"{wish}; the largest of a node with {self.selected} has {memory_text(most)}"


def _offering(pod: PodWant) -> Callable[[Room], bool]:
    return lambda room: room.gpus(pod) > 0


def nodes_and_room(probed: Probed) -> Iterator[Finding]:
    sets = probed.wants.nodes
    if sets is None:
        full = f"; too small for all that may run there at its most: {', '.join(probed.wants.full)}"
        yield note("nodes", f"created by the stack, so not checked{full if probed.wants.full else ''}")
    for name, labels in (sets or {}).items():
        listed = probed.facts.nodes.get(name)
        if listed is None or isinstance(listed, Denied):
            yield note(f"nodes {name}", "nodes cannot be read: you need the right to list them")
            continue
        found = _node_set(name, labels, listed)
        grows = bool(autoscaler_name(probed.facts)) and name != NodeKind.FIXED
        pods = probed.wants.pods.get(name, ())
        yield found.finding(pods, grows=grows) if found.rooms else _no_nodes(found, probed.facts)


def _no_nodes(empty: NodeSet, facts: Facts) -> Finding:
    what, said = f"nodes {empty.name}", f"no node with {empty.selected}"
    grows = autoscaler_name(facts)
    if grows and empty.name != NodeKind.FIXED:
        return note(what, f"{said} now; {grows} must be able to create one")
    return missing(what, f"{said}; label nodes so, or change cluster.nodeSelectors.{empty.name}")


def _node_set(name: str, labels: NodeLabels, listed: Json) -> NodeSet:
    metadata: Json = listed.get("metadata") or {}
    nodes: Sequence[Json] = listed.get("items") or ()
    return NodeSet(
        name=name,
        selected=", ".join(f"{key}={value}" for key, value in labels.items()) or "any labels",
        rooms=[_room(node) for node in nodes],
        more=bool(metadata.get("continue")),
    )


def _room(node: Json) -> Room:
    spec: Json = node.get("spec") or {}
    status: Json = node.get("status") or {}
    can: Json = status.get("allocatable") or {}
    taints: Sequence[Json] = spec.get("taints") or ()
    memory = words_at(node, "metadata", "labels").get(GPU_MEMORY, "")
    keeping_off = (taint for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute"))
    return Room(
        cpu=quantity(can.get("cpu")) * 1000,
        memory=quantity(can.get("memory")) / 2**20,
        devices={name: quantity(amount) for name, amount in can.items() if "/" in name},
        gpu_memory=int(memory) if memory.isdecimal() else None,
        taints=frozenset(Taint(t["key"], t.get("value") or "", t["effect"]) for t in keeping_off),
        cordoned=bool(spec.get("unschedulable")),
        pods=int(can.get("pods") or _USUAL_PODS),
        arch=words_at(node, "metadata", "labels").get(ARCH, ""),
    )


def _size(size: tuple[Decimal | int, ...], *, gpu: bool) -> str:
    cpu, memory, gpus = size
    return f"{float(cpu) / 1000:g} CPU, {float(memory) / 1024:.4g}Gi" + (f", {gpus} GPU" if gpu else "")


def autoscaler_name(facts: Facts) -> str:
    if isinstance(facts.autoscaler_status, dict):
        return "the cluster autoscaler"
    return "Karpenter" if any(api.startswith("karpenter.sh/") for api in facts.apis) else ""
