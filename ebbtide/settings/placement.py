"""Which node group a pod goes to: kinds first, then whether it fits, then the price per pod.

A pod that fits no node of its group stays pending for ever and nothing says why, so it is an error of the stack file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ebbtide.prices import Capacity, instance_type, shipped_on_demand, usable
from ebbtide.settings.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import Category, NodeKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """What one pod asks for: millicores, MiB, GPUs."""

    cpu: int
    memory: int
    gpu: int

    def __str__(self) -> str:
        parts = [f"{cpu_text(self.cpu)} CPU"] if self.cpu else []
        parts += [memory_text(self.memory)] if self.memory else []
        return ", ".join(parts) + (f" and {self.gpu} GPU" if self.gpu else "")


def home_kind(category: Category, gpu: int) -> NodeKind:
    """The kind of group that a pod is put on when nobody names one: GPUs decide first. Spot is only ever named."""
    if gpu:
        return NodeKind.GPU
    return NodeKind.FIXED if category is Category.FIXED else NodeKind.FLEXIBLE


def smallest_node(types: Sequence[str]) -> Capacity:
    """What every node of a group of these types, at least one, offers."""
    offers = [usable(instance_type(name)) for name in types]
    return Capacity(
        cpu=min(offer.cpu for offer in offers),
        memory=min(offer.memory for offer in offers),
        gpu=min(offer.gpu for offer in offers),
        pods=min(offer.pods for offer in offers),
    )


def fits(size: PodSize, node: Capacity) -> bool:
    return size.cpu <= node.cpu and size.memory <= node.memory and size.gpu <= node.gpu


def cheapest_group(size: PodSize, groups: Mapping[str, NodeGroupSettings], region: str) -> str | None:
    """The group whose nodes cost least per pod of this size, by on-demand list price; None if none fits.

    Where a region has no price the node's CPU stands in for it. Ties go to the name that sorts first.
    """
    nodes = {name: smallest_node(group.instance_types) for name, group in groups.items()}
    offers = {name: node for name, node in nodes.items() if fits(size, node)}
    if not offers:
        return None
    costs = {name: _node_price(groups[name], region) for name in offers}
    if None in costs.values():
        costs = {name: float(node.cpu) for name, node in offers.items()}

    def per_pod(name: str) -> tuple[float, str]:
        return (costs[name] or 0.0) / offers[name].copies(cpu=size.cpu, memory=size.memory, gpu=size.gpu), name

    return min(offers, key=per_pod)


def _node_price(group: NodeGroupSettings, region: str) -> float | None:
    """Of the dearest type: AWS may give any of them. By the shipped prices: newer ones must not move a pod."""
    prices = [shipped_on_demand(region, name) for name in group.instance_types]
    known = [price for price in prices if price is not None]
    return max(known) if len(known) == len(prices) else None


def cpu_text(millicores: int) -> str:
    return f"{millicores / 1000:g}" if millicores % 10 == 0 else f"{millicores}m"


def memory_text(mebibytes: int) -> str:
    return f"{mebibytes / 1024:g}Gi" if mebibytes % 256 == 0 else f"{mebibytes}Mi"


def room_text(node: Capacity) -> str:
    """The largest pod that would fit, as it could be written in the file."""
    gpus = f", gpu: {node.gpu}" if node.gpu else ""
    return f"cpu: {cpu_text(node.cpu)}, memory: {node.memory}Mi{gpus}"
