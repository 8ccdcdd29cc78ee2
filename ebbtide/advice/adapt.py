"""A customer's own stack file with pools and nodes made for a trace; every other line stays as it is, comments too.

Two sections are exchanged in the text, `ebbtide:workers` and `ebbtide:nodeGroups`. The stack's fixed and flexible
groups stay for its services; its GPU groups only if a service asks for GPUs. A line elsewhere that names a pool or a
group that is gone makes the file unsound, and that is refused with the line: only its owner knows what it should say.
"""

import re
from collections.abc import Iterator, Sequence

from ebbtide.advice.suggest import (
    NoSuggestion,
    SuggestedPool,
    groups_text,
    jobs_up_to,
    nothing_fits,
    pool_text,
    suggested_pools,
)
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings import StackInvalid, StackSettings
from ebbtide.settings.file.keys import GROUPS, WORKERS
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.placement import pod_size
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.simulator.setup import require_node_groups
from ebbtide.simulator.trace.traces import Trace
from ebbtide.units.quantities import cpu_quantity, memory_quantity


def adapted_stack(text: str, file: str, trace: Trace, max_job_s: float | None = None) -> str:
    """The text of the adapted file. Raises `StackInvalid`, `ReplayError` for an existing cluster, `NoSuggestion`."""
    settings = stack_of_text(text, stack=file, file=file)
    require_node_groups(settings)
    jobs = jobs_up_to(trace, max_job_s)
    kept = _remaining_groups(settings)
    pools = suggested_pools(jobs, settings.region, settings.costs.pricing_assumption, kept)
    if not pools:
        raise nothing_fits(trace, len(jobs), settings.region)
    adapted = _exchanged(text, {WORKERS: _workers(pools, trace), GROUPS: _groups(pools, kept, settings)})
    try:
        stack_of_text(adapted, stack=file, file=file)
    except StackInvalid as invalid:
        faults = "\n".join(f"  {problem}" for problem in invalid.problems)
        raise NoSuggestion(
            f"{file}: with pools made for {trace.name} other lines of it no longer hold; change these first:\n{faults}"
        ) from None
    return adapted


def _remaining_groups(settings: StackSettings) -> dict[str, NodeGroupSettings]:
    gpus = any(pod_size(workload).gpu for workload in settings.all_workloads.values())
    stays = {NodeKind.FIXED, NodeKind.FLEXIBLE, *([NodeKind.GPU] if gpus else [])}
    return {name: group for name, group in settings.node_groups.items() if group.kind in stays}


def _workers(pools: Sequence[SuggestedPool], trace: Trace) -> str:
    return f"  # Made for the trace {trace.name}; each size is a whole share of its node.\n  {WORKERS}:\n" + "".join(
        map(pool_text, pools)
    )


def _groups(pools: Sequence[SuggestedPool], kept: dict[str, NodeGroupSettings], settings: StackSettings) -> str:
    made = {pool.group for pool in pools}  # a file that was adapted before has groups of these names already
    lines = [f"    {name}: {{ {', '.join(_keys(name, group))} }}" for name, group in kept.items() if name not in made]
    return "\n".join([f"  {GROUPS}:", *lines, groups_text(pools, len(settings.cluster.zones))]) + "\n"


def _keys(name: str, group: NodeGroupSettings) -> Iterator[str]:
    if name != group.kind:
        yield f"kind: {group.kind.value}"
    yield f"instanceTypes: [{', '.join(group.instance_types)}]"
    yield f"min: {group.min}"
    yield f"max: {group.max}"
    yield f"diskSize: {group.disk_size}"
    if group.priority:
        yield f"priority: {group.priority}"
    held = group.reserved
    parts = [f"cpu: {cpu_quantity(held.cpu)}"] if held.cpu else []
    parts += [f"memory: {memory_quantity(held.memory)}"] if held.memory else []
    if parts:
        yield f"reserved: {{ {', '.join(parts)} }}"


def _exchanged(text: str, sections: dict[str, str]) -> str:
    """The text with these sections of `config` instead of its own; a section that it lacks comes last."""
    lines = [f"{line}\n" for line in text.splitlines()]
    for key, section in sections.items():
        begin = next((i for i, line in enumerate(lines) if re.match(rf"""\s+["']?{key}["']?\s*:""", line)), len(lines))
        lines[begin : _end(lines, begin)] = [f"{line}\n" for line in section.splitlines()]
    return "".join(lines)


def _end(lines: Sequence[str], begin: int) -> int:
    """Where a section ends: before the next line that is indented no more; what is bare above that belongs to it."""
    if begin >= len(lines):
        return begin
    indent = _indent(lines[begin])
    end = begin + 1
    while end < len(lines) and (_is_bare(lines[end]) or _indent(lines[end]) > indent):
        end += 1
    while end > begin + 1 and _is_bare(lines[end - 1]) and _indent(lines[end - 1]) <= indent:
        end -= 1
    return end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_bare(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")
