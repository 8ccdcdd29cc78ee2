"""Suggest a stack file for a trace: pools by size class, the nodes they fill, and limits from peak demand.

The text is a template, since a YAML library would lose the comments that explain each figure. A trace says nothing
about services, images, hours and zones: those lines are placeholders, and the file says so.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.lab.advice.classes import SizeClass, members, size_classes, slots, spans_of
from ebbtide.lab.advice.demand import peak_at_once
from ebbtide.lab.simulator.trace.traces import Job, Trace
from ebbtide.prices import PricingAssumption, priced_regions
from ebbtide.prices.missing import how_to_price
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS
from ebbtide.text.quantities import cpu_text, memory_text

REGION = "us-east-1"
ASSUMPTION = PricingAssumption.COMPUTE_1Y
"""Same as the demo's stack: the owner of a fixed fleet would buy a plan; on-demand prices would exaggerate savings."""

_ZONES = 2
_LONGEST_HOURS = (
    1,
    2,
    4,
    8,
    12,
    24,
    48,
    72,
    168,
    336,
    720,
    1440,
    2880,
    5760,
    8784,
)  # the last is the maximum of a stack file
_MAX_NAME = 24  # letters of a customer's name


class NoSuggestion(ValueError):
    """No stack can be suggested for a trace; the message is for the user, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedPool:
    """A pool with the figures that its lines follow from."""

    name: str
    group: str
    of: SizeClass
    most: int  # wanted at once
    longest_h: int

    @property
    def nodes(self) -> int:
        return -(-self.most // self.of.slot.copies)


def suggested_pools(
    jobs: Sequence[Job], region: str = REGION, assumption: str = ASSUMPTION, taken: Collection[str] = ()
) -> list[SuggestedPool]:
    """Return pools for these jobs, the smallest first; none if no known node runs any of them. `taken`: group names."""
    classes = size_classes(
        [job for job in jobs if job.cpu + job.gpu and _hours(job) is not None], slots(region, assumption)
    )
    groups = _group_names(classes, taken)
    names = _pool_names(classes)
    return [
        SuggestedPool(
            name=name,
            group=groups[size_class.slot.types],
            of=size_class,
            most=max(1, peak_at_once(spans_of(size_class.jobs))),
            longest_h=max(hours for job in size_class.jobs if (hours := _hours(job)) is not None),
        )
        for name, size_class in zip(names, classes, strict=True)
    ]


def suggested_stack(trace: Trace, name: str = "suggested", max_job_s: float | None = None) -> str:
    """Return the text of a stack file whose pools run the trace's jobs up to `max_job_s`. Raises `NoSuggestion`."""
    jobs = jobs_up_to(trace, max_job_s)
    pools = suggested_pools(jobs)
    if not pools:
        raise nothing_fits(trace, len(jobs), REGION)
    run = sum(len(pool.of.jobs) for pool in pools)
    return f"""\
# yaml-language-server: $schema=../docs/stack.schema.json
# Suggested for the trace {trace.name}: its pools run {run} of its {len(jobs)} jobs{_limit(max_job_s)}.
# Pools, node groups and their limits come from the trace and from list prices. Region, hours, images and queues do not:
# a trace does not know them, so put yours in. Add your services under ebbtide:workloads.
config:
  aws:region: {REGION}
  ebbtide:customer: {customer_name(name)}
  ebbtide:businessHours:
    timezone: UTC
    week: {{ mon-fri: "08:00-18:00" }}
  ebbtide:cluster: {{ version: "{KUBERNETES_VERSIONS[-1]}", zones: [a, b] }}
  # max: the nodes that the pools fill when all the jobs wanted at once run at once.
  ebbtide:nodeGroups:
    fixed: {{ instanceTypes: [m7i.2xlarge], min: 2, max: 4 }}
{groups_text(pools, _ZONES)}
  # Each size is a whole share of its node, so that workers fill nodes.
  ebbtide:workers:
{"".join(map(pool_text, pools))}\
  ebbtide:costs:
    # For estimates, never a purchase. A fixed fleet's owner would buy a plan; on-demand prices would flatter savings.
    pricingAssumption: {ASSUMPTION.value}
"""


def jobs_up_to(trace: Trace, max_job_s: float | None) -> list[Job]:
    return [job for job in trace.jobs if max_job_s is None or job.duration_s <= max_job_s]


def nothing_fits(trace: Trace, jobs: int, region: str) -> NoSuggestion:
    if not any(job.cpu or job.gpu for job in trace.jobs):
        return NoSuggestion(f"trace {trace.name}: wanted the CPUs or GPUs of its jobs for a stack file, found neither")
    if region not in priced_regions():
        return NoSuggestion(f"{region}: wanted prices, which choose the nodes, found none; {how_to_price(region)}")
    return NoSuggestion(
        f"trace {trace.name}: none of its {jobs} jobs fits a node of the price tables in {region}; wanted one that "
        "requests less than the largest node has (for example cpu 40, memory_gib 160)"
    )


def customer_name(text: str) -> str:
    """Return the closest valid customer name."""
    letters = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (letters if letters[:1].isalpha() else f"stack-{letters}")[:_MAX_NAME].strip("-")


def _hours(job: Job) -> int | None:
    """Return the `longestJob` of a pool for this job; None if it exceeds the maximum of a stack file."""
    return next((hours for hours in _LONGEST_HOURS if job.duration_s <= hours * 3600), None)


def _limit(max_job_s: float | None) -> str:
    return "" if max_job_s is None else f" of at most {max_job_s / 3600:g} h"


def _group_names(classes: Sequence[SizeClass], taken: Collection[str]) -> Mapping[tuple[str, ...], str]:
    """Name the group with most work after its kind; name the others after their size."""
    work: dict[tuple[str, ...], float] = {}
    for size_class in classes:
        work[size_class.slot.types] = work.get(size_class.slot.types, 0.0) + sum(
            job.duration_s for job in size_class.jobs
        )
    names: dict[tuple[str, ...], str] = {}
    for types in sorted(work, key=lambda types: (-work[types], types)):
        kind = "gpu" if _has_gpu(types, classes) else "flexible"
        unused = kind not in (*names.values(), *taken)
        names[types] = kind if unused else f"{kind}-{types[0].replace('.', '-')}"
    return names


def _has_gpu(types: tuple[str, ...], classes: Sequence[SizeClass]) -> bool:
    return any(size_class.slot.size.gpu > 0 for size_class in classes if size_class.slot.types == types)


def _pool_names(classes: Sequence[SizeClass]) -> list[str]:
    """Return names such as `jobs-8cpu` or `jobs-1gpu-8cpu`, with the memory if two would be equal."""
    short = [_pool_name(size_class, memory=False) for size_class in classes]
    return [
        name if short.count(name) == 1 else _pool_name(size_class, memory=True)
        for name, size_class in zip(short, classes, strict=True)
    ]


def _pool_name(size_class: SizeClass, *, memory: bool) -> str:
    size = size_class.slot.size
    parts = ["jobs", *([f"{size.gpu}gpu"] if size.gpu else []), f"{math.ceil(size.cpu / 1000)}cpu"]
    return "-".join([*parts, *([f"{size.memory // 1024}gib"] if memory else [])])


def groups_text(pools: Sequence[SuggestedPool], zones: int) -> str:
    """Return the lines of the pools' groups in a stack file."""
    most: dict[str, int] = {}
    types: dict[str, tuple[str, ...]] = {}
    for pool in pools:
        most[pool.group] = most.get(pool.group, 0) + pool.nodes
        types[pool.group] = pool.of.slot.types
    return "\n".join(
        f"    {name}: {{ {_kind_text(name)}instanceTypes: [{', '.join(types[name])}], max: {max(nodes, zones)} }}"
        for name, nodes in sorted(most.items())
    )


def _kind_text(group: str) -> str:
    return "" if group in ("gpu", "flexible") else f"kind: {group.partition('-')[0]}, "


def pool_text(pool: SuggestedPool) -> str:
    """Return the lines of a pool in a stack file, with a comment that explains them."""
    size, slot = pool.of.slot.size, pool.of.slot
    share = "a whole node" if slot.copies == 1 else f"1/{slot.copies} of a node"
    hours = sum(members(job) * job.duration_s for job in pool.of.jobs) / 3600
    return f"""\
    # {share}; {len(pool.of.jobs)} jobs, {hours:.0f} worker-hours, {pool.most} workers wanted at once
    {pool.name}:
      source: {{ kind: rq, queues: [{pool.name}] }}
      image: registry.example.com/ml/jobs:1
      max: {pool.most}
      cpu: {cpu_text(size.cpu)}
      memory: {memory_text(size.memory)}
{f"      gpu: {size.gpu}{chr(10)}" if size.gpu else ""}\
      longestJob: {pool.longest_h}h
      nodeGroup: {pool.group}
"""
