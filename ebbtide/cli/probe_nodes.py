"""Whether a cluster has nodes for each set of pods that a stack names, and room on one of them for the largest. Pure.

A node counts where a pod of the set could land: not cordoned, and without a taint that Ebbtide's pods do not tolerate.
They tolerate the usual taint of GPU nodes alone, and only where they ask for GPUs. The first nodes of a set stand for
all: where there are more, what none of them offers is no more than a note.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from controllers.adapters.kube_api import Json
from ebbtide.cli.node_use import quantity
from ebbtide.cli.probe_facts import Denied, Facts, NodeLabels
from ebbtide.cli.probe_verdicts import Probed, State, Verdict, missing, note, ok
from ebbtide.cli.probe_wants import PodWant
from ebbtide.vocabulary.labels import GPU_RESOURCE, GPU_TAINT_KEY, GPU_TAINT_VALUE, NodeKind

_GPU_TAINT = f"{GPU_TAINT_KEY}={GPU_TAINT_VALUE}:NoSchedule"


class Room(NamedTuple):
    """What a node can give: millicores, MiB and GPUs; and what keeps pods off it."""

    cpu: Decimal
    memory: Decimal
    gpu: Decimal
    closed_by: frozenset[str]

    def takes(self, pod: PodWant) -> bool:
        return pod.cpu <= self.cpu and pod.memory <= self.memory and pod.gpu <= self.gpu

    def open_to(self, pod: PodWant) -> bool:
        return not self.closed_by - ({_GPU_TAINT} if pod.gpu else set())


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSet:
    """The nodes of one selector, as far as they were looked at."""

    name: str
    selected: str
    rooms: Sequence[Room]
    more: bool  # than were looked at

    def verdict(self, pods: Sequence[PodWant]) -> Verdict:
        for pod in pods:
            reachable = [room for room in self.rooms if room.open_to(pod)]
            if not any(room.takes(pod) for room in reachable):
                said = self._lacking(pod, reachable)
                state = State.NOTE if self.more else State.MISSING
                partly = f"; only the first {len(self.rooms)} were looked at" if self.more else ""
                return Verdict(state, f"nodes {self.name}", f"{said}{partly}")
        return ok(f"nodes {self.name}", f"{len(self.rooms)}{' or more' if self.more else ''} with {self.selected}")

    def _lacking(self, pod: PodWant, reachable: Sequence[Room]) -> str:
        if not reachable:
            closed = ", ".join(sorted({why for room in self.rooms for why in room.closed_by})[:3])
            only = f"Ebbtide's pods tolerate {_GPU_TAINT} where they ask for GPUs, and nothing else"
            return f"every node with {self.selected} is closed to {pod.name}: {closed}; {only}"
        if pod.gpu and not any(room.gpu for room in reachable):
            wish = f"{pod.name} wants {pod.gpu} {GPU_RESOURCE}"
            return f"{wish}, and no node with {self.selected} offers any; is a device plugin there?"
        best = max(reachable, key=lambda room: (room.gpu >= pod.gpu, room.cpu, room.memory))
        asks, offers = (_size(size, gpu=pod.gpu > 0) for size in ((pod.cpu, pod.memory, pod.gpu), best[:3]))
        return f"{pod.name} wants {asks}; the largest node with {self.selected} offers {offers}"


def nodes_and_room(probed: Probed) -> Iterator[Verdict]:
    sets = probed.wants.nodes
    if sets is None:
        yield note("nodes", "made by the stack, so not looked for")
    for name, labels in (sets or {}).items():
        listed = probed.facts.nodes.get(name)
        if listed is None or isinstance(listed, Denied):
            yield note(f"nodes {name}", "nodes cannot be seen: that takes the right to list them")
            continue
        found = _node_set(name, labels, listed)
        yield found.verdict(probed.wants.pods.get(name, ())) if found.rooms else _no_nodes(found, probed.facts)


def _no_nodes(empty: NodeSet, facts: Facts) -> Verdict:
    what, said = f"nodes {empty.name}", f"no node with {empty.selected}"
    grows = autoscaler_name(facts)
    if grows and empty.name != NodeKind.FIXED:
        return note(what, f"{said} now; {grows} must be able to make one")
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
    keeping_off = {_taint(taint) for taint in taints if taint.get("effect") in ("NoSchedule", "NoExecute")}
    return Room(
        cpu=quantity(can.get("cpu")) * 1000,
        memory=quantity(can.get("memory")) / 2**20,
        gpu=quantity(can.get(GPU_RESOURCE)),
        closed_by=frozenset(keeping_off | ({"cordoned"} if spec.get("unschedulable") else set())),
    )


def _taint(taint: Json) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _size(size: tuple[Decimal | int, ...], *, gpu: bool) -> str:
    cpu, memory, gpus = size
    return f"{float(cpu) / 1000:g} CPU, {float(memory) / 1024:.4g}Gi" + (f", {gpus} GPU" if gpu else "")


def autoscaler_name(facts: Facts) -> str:
    if isinstance(facts.autoscaler_status, dict):
        return "the cluster autoscaler"
    return "Karpenter" if any(api.startswith("karpenter.sh/") for api in facts.apis) else ""
