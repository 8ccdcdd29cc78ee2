"""Size classes: the few worker sizes that run a load at the least cost.

Greedy: start with nothing, and add the candidate that runs most jobs that none so far runs, then the one that makes
the whole cheapest, until a further pool would save too little to be worth having. Each class then tries other nodes of
its own: a large node is cheap per share and is kept all night by one long job, which only a run over time shows.
"""

import math
import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ebbtide.advice.demand import NODE_OVERHEAD_S, Span, spread_node_hours
from ebbtide.advice.slots import Slot
from ebbtide.prices import Capacity
from ebbtide.settings.placement import PodSize, fits
from ebbtide.simulator.trace.traces import Job
from ebbtide.simulator.world.gangs import NODE_GPUS, is_gang

MOST_CLASSES = 6  # with and without GPUs each
ENOUGH = 0.995
"""No class of its own is made for the last few jobs: the largest ask for nodes that nothing else would use."""
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
    """Workers that the job takes at once: as few as machines with the most GPUs allow."""
    return math.ceil(job.gpu / NODE_GPUS - _ROUNDING) if is_gang(job) else 1


def asked(job: Job) -> _Size:
    """What each of its workers needs to run the job; a part of a GPU takes a whole one."""
    share = members(job)
    return (
        math.ceil(job.cpu * 1000 / share - _ROUNDING),
        math.ceil(job.memory_gib * 1024 / share - _ROUNDING),
        math.ceil(job.gpu / share - _ROUNDING),
    )


def spans_of(jobs: Sequence[Job]) -> list[Span]:
    """When each worker would be busy if nothing made a job wait."""
    return [(job.submitted_at, job.submitted_at + job.duration_s) for job in jobs for _ in range(members(job))]


def size_classes(jobs: Sequence[Job], candidates: Sequence[Slot]) -> list[SizeClass]:
    """The classes, smallest first; jobs that no candidate can run are in none.

    Jobs without a GPU have classes of their own: on a GPU node they would hold what they cannot use.
    """
    better: list[Slot] = []
    for with_gpu in (False, True):
        alike = [job for job in jobs if (job.gpu > 0) is with_gpu]
        nodes = [slot for slot in candidates if (slot.size.gpu > 0) is with_gpu]
        own = _jobs_of(alike, _chosen(alike, nodes))
        better += [_best_nodes(some, nodes) for some in own.values() if some]
    return [SizeClass(slot, tuple(some)) for slot, some in _jobs_of(jobs, better).items() if some]


def _jobs_of(jobs: Sequence[Job], chosen: Sequence[Slot]) -> dict[Slot, list[Job]]:
    found: dict[Slot, list[Job]] = {slot: [] for slot in sorted(chosen, key=lambda slot: (slot.order, slot.types))}
    home: dict[_Size, Slot | None] = {}
    for job in jobs:
        size = asked(job)
        if size not in home:
            home[size] = next((slot for slot in found if _runs(slot, size)), None)
        slot = home[size]
        if slot is not None:
            found[slot].append(job)
    return found


def _runs(slot: Slot, size: _Size) -> bool:
    return size[0] <= slot.size.cpu and size[1] <= slot.size.memory and size[2] <= slot.size.gpu


def _chosen(jobs: Sequence[Job], candidates: Sequence[Slot]) -> list[Slot]:
    """Adds the best until nothing is worth adding, and takes out what later ones made superfluous."""
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
    kept = list(chosen)
    for slot in chosen:
        fewer = [other for other in kept if other is not slot]
        if fewer and not _is_better(_worth(kept, load), _worth(fewer, load)):
            kept = fewer
    return kept


@dataclass(frozen=True, slots=True)
class _Load:
    """Jobs by the size they ask for: how many, and their hours with what starting and ending nodes takes."""

    counts: Mapping[_Size, int]
    hours: Mapping[_Size, float]


def _load(jobs: Sequence[Job], candidates: Sequence[Slot]) -> _Load:
    """Sizes are rounded up to the next that a candidate has, which no candidate can tell from the size itself: else a
    trace of as many sizes as jobs would take minutes."""
    known = [sorted({amounts[i] for amounts in map(_amounts, candidates)}) for i in range(3)]
    counts: dict[_Size, int] = defaultdict(int)
    hours: dict[_Size, float] = defaultdict(float)
    for job in jobs:
        cpu, memory, gpu = (_up(amount, values) for amount, values in zip(asked(job), known, strict=True))
        counts[cpu, memory, gpu] += 1
        hours[cpu, memory, gpu] += members(job) * (job.duration_s + NODE_OVERHEAD_S) / 3600
    return _Load(counts, hours)


def _amounts(slot: Slot) -> _Size:
    return (slot.size.cpu, slot.size.memory, slot.size.gpu)


def _up(amount: int, values: Sequence[int]) -> int:
    place = bisect_left(values, amount)
    return values[place] if place < len(values) else sys.maxsize


def _worth(chosen: Sequence[Slot], load: _Load) -> tuple[float, float]:
    """Jobs (of those that matter) that none of these runs, then dollars if all nodes are full. Lower is better."""
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
    """The node type whose node-hours cost least for the jobs of this class, nothing ever being moved."""
    most = [max(sizes) for sizes in zip(*map(asked, jobs), strict=True)]
    needed = PodSize(cpu=most[0], memory=most[1], gpu=most[2])
    able = [other for other in candidates if fits(needed, _as_room(other.size))]
    best_cut: dict[tuple[str, ...], Slot] = {}
    for other in able:  # of one node type the cut into most shares
        known = best_cut.get(other.types)
        if known is None or other.copies > known.copies:
            best_cut[other.types] = other
    cheapest = sorted(best_cut.values(), key=lambda other: (other.usd, other.order))[:NODES_TRIED]
    smallest = min(best_cut.values(), key=lambda other: (other.node_usd, other.order))
    spans = spans_of(jobs)
    tried = dict.fromkeys((*cheapest, smallest))
    return min(tried, key=lambda other: (spread_node_hours(spans, other.copies) * other.node_usd, other.order))


def _as_room(size: PodSize) -> Capacity:
    return Capacity(cpu=size.cpu, memory=size.memory, gpu=size.gpu, pods=1)
