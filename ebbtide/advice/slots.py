"""Worker sizes that fill nodes: each node type cut into equal shares, with what a share costs.

A worker of half a node and a bit leaves the rest of the node unused for ever, since nothing else fits beside it. So
sizes are not chosen freely: a candidate is a k-th of what a node offers to pods.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebbtide.prices import Capacity, InstanceType, NoPrice, hourly, instance_type, instance_type_names, usable
from ebbtide.settings.placement import PodSize

SHARES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FAMILIES = ("m7i", "m6i", "c7i", "c6i", "r7i", "r6i", "g5", "g6", "g6e")
"""Steady families of the processor that most images are built for. Burstable and flex types give their whole CPU for a
part of the time only, which a job of hours would notice; the T4 of g4dn has no bfloat16, which most training code now
takes for granted; accelerators that no plan discount is known for are left to whoever needs them."""

_CPU_STEP, _MEMORY_STEP = 100, 256  # millicores, MiB: sizes that can be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One worker's share of a node. `types` have one shape, the cheapest first."""

    types: tuple[str, ...]
    copies: int  # that fit one node
    size: PodSize
    node_usd: float  # US dollars an hour, of the first type

    @property
    def usd(self) -> float:
        """US dollars an hour of one share, if all shares of the node are used."""
        return self.node_usd / self.copies

    @property
    def order(self) -> tuple[int, int, int]:
        """Jobs go to the smallest pool that fits, compared as `ebbtide.simulator.world.pools` compares them."""
        return (self.size.gpu, self.size.cpu, self.size.memory)


def slots(region: str, assumption: str) -> list[Slot]:
    """All candidates of a region, in a fixed order. A type without a price under the assumption is none."""
    found: list[Slot] = []
    for types, node_usd in sorted(_priced_shapes(region, assumption).items()):
        room = usable(instance_type(types[0]))
        found += _shares(types, node_usd, room)
    return found


def _priced_shapes(region: str, assumption: str) -> Mapping[tuple[str, ...], float]:
    """Groups of interchangeable types, with the price of the cheapest, which is named first.

    GPU models differ in more than their shape, so a group has one family of GPUs only.
    """
    by_shape: dict[tuple[object, ...], list[tuple[float, str]]] = {}
    for fact in map(instance_type, instance_type_names()):
        price = _price(region, fact, assumption)
        if price is not None:
            by_shape.setdefault((fact.shape, fact.gpu_model), []).append((price, fact.name))
    return {tuple(name for _, name in sorted(some)): min(some)[0] for some in by_shape.values()}


def _price(region: str, fact: InstanceType, assumption: str) -> float | None:
    if fact.family not in FAMILIES:
        return None
    try:
        return hourly(region, fact.name, assumption)
    except NoPrice:
        return None


def _shares(types: tuple[str, ...], node_usd: float, room: Capacity) -> Iterator[Slot]:
    for count in SHARES:
        if room.gpu % count and room.gpu:
            continue
        size = PodSize(
            cpu=room.cpu // count // _CPU_STEP * _CPU_STEP,
            memory=room.memory // count // _MEMORY_STEP * _MEMORY_STEP,
            gpu=room.gpu // count,
        )
        if size.cpu > 0 and size.memory > 0 and count <= room.pods:
            yield Slot(types=types, copies=count, size=size, node_usd=node_usd)
