"""Size classes: the few worker sizes that run a load at the least cost.

A worker slightly larger than half a node leaves the rest unused, since no second one fits. So sizes are not chosen
freely: a candidate is a slot, a k-th of a node's allocatable resources.

Greedy: add the candidate that runs the most jobs without a class, then the one with the lowest cost of all jobs, until
a further pool would save too little. Each class then tries other node types: a large node is cheap per share, but
one long job keeps it all night, which only a run over time shows.
"""

import math
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.lab.advice.demand import NODE_OVERHEAD_S, Span, spread_node_hours
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.gangs import NODE_GPUS, is_gang
from ebbtide.prices import (
    Capacity,
    InstanceType,
    NoPrice,
    estimate_note,
    hourly,
    instance_type,
    instance_type_names,
    usable,
)
from ebbtide.settings.capacity.placement import PodSize, fits

SHARES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
FAMILIES = ("m7i", "m6i", "c7i", "c6i", "r7i", "r6i", "g5", "g6", "g6e")
"""Families of steady performance, for the processor that most images are built for. Left out: burstable and flex types,
which give their full CPU only part of the time; g4dn, whose T4 lacks the bfloat16 that most training code expects; and
accelerators without a known plan discount."""

MOST_VCPUS = 48
"""The limit for nodes without GPUs: one long job keeps a larger node running all night."""

_CPU_STEP, _MEMORY_STEP = 100, 256  # millicores, MiB: round numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One worker's share of a node. `types` have the same shape, the cheapest first."""

    types: tuple[str, ...]
    copies: int  # that fit one node
    size: PodSize
    node_usd: float  # US dollars an hour, of the first type

    @property
    def usd(self) -> float:
        """US dollars an hour for one share, if all shares of the node are used."""
        return self.node_usd / self.copies

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key by size, as in `ebbtide.lab.simulator.world.pools`: jobs go to the smallest pool that fits."""
        return (self.size.gpu, self.size.cpu, self.size.memory)


def slots(region: str, assumption: str) -> list[Slot]:
    """Return all candidates of a region, in a fixed order, without types that have no price under the assumption."""
    shapes = sorted(_priced_shapes(region, assumption).items())
    return [slot for types, usd in shapes for slot in _shares(types, usd, usable(instance_type(types[0])))]


def _priced_shapes(region: str, assumption: str) -> Mapping[tuple[str, ...], float]:
    """Return groups of interchangeable types, the cheapest first, with the price of the cheapest.

    GPU models differ in more than their shape, so a group has one family of GPUs only.
    """
    by_shape: dict[tuple[object, ...], list[tuple[float, str]]] = {}
    for fact in map(instance_type, instance_type_names()):
        price = _price(region, fact, assumption)
        if price is not None:
            by_shape.setdefault((fact.shape, fact.gpu_model), []).append((price, fact.name))
    return {tuple(name for _, name in sorted(priced)): min(priced)[0] for priced in by_shape.values()}


def _price(region: str, fact: InstanceType, assumption: str) -> float | None:
    if fact.family not in FAMILIES or ".metal" in fact.name or (fact.vcpu > MOST_VCPUS and not fact.gpu):
        return None
    if estimate_note(region, fact.name):  # no advice is based on an estimate
        return None
    try:
        return hourly(region, fact.name, assumption)
    except NoPrice:
        return None


def _shares(types: tuple[str, ...], node_usd: float, node: Capacity) -> Iterator[Slot]:
    for count in SHARES:
        if node.gpu % count and node.gpu:
            continue
        size = PodSize(
            cpu=node.cpu // count // _CPU_STEP * _CPU_STEP,
            memory=node.memory // count // _MEMORY_STEP * _MEMORY_STEP,
            gpu=node.gpu // count,
        )
        if size.cpu > 0 and size.memory > 0 and count <= node.pods:
            yield Slot(types=types, copies=count, size=size, node_usd=node_usd)


MOST_CLASSES = 6  # with GPUs, and as many without
ENOUGH = 0.995
"""The last few jobs get no class: the largest request nodes that nothing else would use."""
LEAST_GAIN = 0.03
"""A further pool has to save this share of the cost: each one is a Deployment, a queue and a size to explain."""
NODES_TRIED = 8

_ROUNDING = 1e-6
_Size: TypeAlias = tuple[int, int, int]  # millicores, MiB, GPUs


@dataclass(frozen=True, slots=True)
class SizeClass:
    """A worker size and the jobs that go to it, in the order of submission."""

    slot: Slot
    jobs: tuple[Job, ...]


def members(job: Job) -> int:
    """Return how many workers the job takes at once: as few as machines with the most GPUs allow."""
    return math.ceil(job.gpu / NODE_GPUS - _ROUNDING) if is_gang(job) else 1


def requests(job: Job) -> _Size:
    """Return the requests of each of the job's workers; a fraction of a GPU takes one GPU."""
    share = members(job)
    return (
        math.ceil(job.cpu * 1000 / share - _ROUNDING),
        math.ceil(job.memory_gib * 1024 / share - _ROUNDING),
        math.ceil(job.gpu / share - _ROUNDING),
    )


def spans_of(jobs: Sequence[Job]) -> list[Span]:
    """Return when each worker would be busy if no job waited."""
    return [(job.submitted_at, job.submitted_at + job.duration_s) for job in jobs for _ in range(members(job))]


def size_classes(jobs: Sequence[Job], candidates: Sequence[Slot]) -> list[SizeClass]:
    """Return the classes, smallest first; jobs that no candidate can run are in none.

    Jobs without a GPU have separate classes: on a GPU node they would block GPUs that they cannot use.
    """
    slots: list[Slot] = []
    for with_gpu in (False, True):
        of_kind = [job for job in jobs if (job.gpu > 0) is with_gpu]
        nodes = [slot for slot in candidates if (slot.size.gpu > 0) is with_gpu]
        by_slot = _jobs_of(of_kind, _chosen(of_kind, nodes))
        slots += [_best_nodes(group, nodes) for group in by_slot.values() if group]
    return [SizeClass(slot, tuple(group)) for slot, group in _jobs_of(jobs, slots).items() if group]


def _jobs_of(jobs: Sequence[Job], chosen: Sequence[Slot]) -> dict[Slot, list[Job]]:
    jobs_by_slot: dict[Slot, list[Job]] = {
        slot: [] for slot in sorted(chosen, key=lambda slot: (slot.order, slot.types))
    }
    slot_of: dict[_Size, Slot | None] = {}
    for job in jobs:
        size = requests(job)
        if size not in slot_of:
            slot_of[size] = next((slot for slot in jobs_by_slot if _runs(slot, size)), None)
        slot = slot_of[size]
        if slot is not None:
            jobs_by_slot[slot].append(job)
    return jobs_by_slot


def _runs(slot: Slot, size: _Size) -> bool:
    return size[0] <= slot.size.cpu and size[1] <= slot.size.memory and size[2] <= slot.size.gpu


def _chosen(jobs: Sequence[Job], candidates: Sequence[Slot]) -> list[Slot]:
    """Add the best candidate until none is worth adding, and drop those that later ones made superfluous."""
    load = _load(jobs, candidates)
    chosen: list[Slot] = []
    while len(chosen) < MOST_CLASSES:
        now = _worth(chosen, load)
        best = min((slot for slot in candidates if slot not in chosen), key=_ranked(chosen, load), default=None)
        if best is None or not _is_better(_worth([*chosen, best], load), now):
            break
        chosen.append(best)
        chosen = _without_superfluous(chosen, load)
    return chosen


def _ranked(chosen: Sequence[Slot], load: "_Load") -> Callable[[Slot], tuple[float, float, float]]:
    def rank(slot: Slot) -> tuple[float, float, float]:
        return (*_worth([*chosen, slot], load), slot.node_usd)

    return rank


def _is_better(after: tuple[float, float], before: tuple[float, float]) -> bool:
    return after[0] < before[0] or after[1] < before[1] * (1 - LEAST_GAIN)


def _without_superfluous(chosen: Sequence[Slot], load: "_Load") -> list[Slot]:
    needed = list(chosen)
    for slot in chosen:
        others = [candidate for candidate in needed if candidate is not slot]
        if others and not _is_better(_worth(needed, load), _worth(others, load)):
            needed = others
    return needed


@dataclass(frozen=True, slots=True)
class _Load:
    """Jobs by requested size: their number, and their hours including the start and end of nodes."""

    counts: Mapping[_Size, int]
    hours: Mapping[_Size, float]


def _load(jobs: Sequence[Job], candidates: Sequence[Slot]) -> _Load:
    """Group jobs by size, rounded up to the next size of a candidate.

    Rounding changes no candidate's answer. Without it a trace with as many sizes as jobs would take minutes.
    """
    steps = [sorted({amounts[i] for amounts in map(_amounts, candidates)}) for i in range(3)]
    counts: dict[_Size, int] = defaultdict(int)
    hours: dict[_Size, float] = defaultdict(float)
    for job in jobs:
        cpu, memory, gpu = (_up(amount, values) for amount, values in zip(requests(job), steps, strict=True))
        counts[cpu, memory, gpu] += 1
        hours[cpu, memory, gpu] += members(job) * (job.duration_s + NODE_OVERHEAD_S) / 3600
    return _Load(counts, hours)


def _amounts(slot: Slot) -> _Size:
    return (slot.size.cpu, slot.size.memory, slot.size.gpu)


def _up(amount: int, values: Sequence[int]) -> int:
    index = bisect_left(values, amount)
    return values[index] if index < len(values) else sys.maxsize


def _worth(chosen: Sequence[Slot], load: _Load) -> tuple[float, float]:
    """Return the jobs left out beyond the ignored share, then dollars if all nodes are full. Lower is better."""
    by_order = sorted(chosen, key=lambda slot: (slot.order, slot.types))
    usd, left_out = 0.0, 0
    for size, hours in load.hours.items():
        slot = next((slot for slot in by_order if _runs(slot, size)), None)
        if slot is None:
            left_out += load.counts[size]
        else:
            usd += hours * slot.usd
    ignored = (1 - ENOUGH) * sum(load.counts.values())
    return max(0.0, left_out - ignored), usd


def _best_nodes(jobs: Sequence[Job], candidates: Sequence[Slot]) -> Slot:
    """Return the node type whose node-hours cost least for the jobs of this class, if no job is ever moved."""
    cpu, memory, gpu = (max(amounts) for amounts in zip(*map(requests, jobs), strict=True))
    largest = PodSize(cpu=cpu, memory=memory, gpu=gpu)
    fitting = [slot for slot in candidates if fits(largest, _capacity(slot.size))]
    best_cut: dict[tuple[str, ...], Slot] = {}
    for slot in fitting:  # keep the slot with the most shares of each node type
        best = best_cut.get(slot.types)
        if best is None or slot.copies > best.copies:
            best_cut[slot.types] = slot
    cheapest = sorted(best_cut.values(), key=lambda slot: (slot.usd, slot.order))[:NODES_TRIED]
    smallest = min(best_cut.values(), key=lambda slot: (slot.node_usd, slot.order))
    spans = spans_of(jobs)
    tried = dict.fromkeys((*cheapest, smallest))
    return min(tried, key=lambda slot: (spread_node_hours(spans, slot.copies) * slot.node_usd, slot.order))


def _capacity(size: PodSize) -> Capacity:
    return Capacity(cpu=size.cpu, memory=size.memory, gpu=size.gpu, pods=1)
