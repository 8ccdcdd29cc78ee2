"""Adapt a customer's stack file to a trace: new pools and nodes, every other line and comment unchanged.

Replaces two sections in the text, `ebbtide:workers` and `ebbtide:nodeGroups`. The stack's fixed and flexible groups
stay for its services; its GPU groups stay only if a service requests GPUs. A line elsewhere that names a removed pool
or group makes the file invalid. The error shows that line: only the file's owner knows what it should say.
"""

import re
from collections.abc import Iterator, Sequence

from ebbtide.lab.advice.suggest import (
    NoSuggestion,
    SuggestedPool,
    groups_text,
    jobs_up_to,
    nothing_fits,
    pool_text,
    suggested_pools,
)
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.provisioning_labels import NodeKind, Provisioner
from ebbtide.settings import StackInvalid, StackSettings
from ebbtide.settings.capacity.placed import resident_pods
from ebbtide.settings.file.bases import is_mapping
from ebbtide.settings.file.contents import FileReader
from ebbtide.settings.file.document import read_document
from ebbtide.settings.file.keys import GROUPS, WORKERS
from ebbtide.settings.file.problems import Location
from ebbtide.settings.load import file_of_text, stack_of_text
from ebbtide.settings.patch import Change, patched
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.shapes import NodeShape, Reserved
from ebbtide.text.quantities import cpu_quantity, memory_quantity


def adapted_stack(text: str, file: str, reader: FileReader, trace: Trace, max_job_s: float | None = None) -> str:
    """Return the adapted file's text. Raises `StackInvalid`, `ReplayError` for an existing cluster, `NoSuggestion`."""
    settings = stack_of_text(text, stack=file, file=file, reader=reader)
    if settings.cluster.context is not None:
        raise ReplayError(
            f"{file}: wanted a stack that creates its nodes, found an existing cluster: other pools need other nodes, "
            "and Ebbtide changes none of them (for example kind: eks)"
        )
    jobs = jobs_up_to(trace, max_job_s)
    remaining = _remaining_groups(settings)
    pools = suggested_pools(jobs, settings.region, settings.costs.pricing_assumption, remaining)
    if not pools:
        raise nothing_fits(trace, len(jobs), settings.region)
    sections = {WORKERS: _workers(pools, trace), GROUPS: _groups(pools, remaining, settings)}
    adapted = _without_bases(_with_sections(text, sections), file, reader, "".join(sections.values()))
    try:
        stack_of_text(adapted, stack=file, file=file, reader=reader)
    except StackInvalid as invalid:
        faults = "\n".join(f"  {problem}" for problem in invalid.problems)
        raise NoSuggestion(
            f"{file}: with pools made for {trace.name} other lines are no longer valid; change these first:\n{faults}"
        ) from None
    return adapted


def _without_bases(text: str, file: str, reader: FileReader, sections: str) -> str:
    """Return the text with null for each key that a base adds to the sections."""
    values = file_of_text(text, stack=file, file=file, reader=reader).merged.config
    wanted = read_document(f"config:\n{sections}", file).config
    removed = [change for key in (WORKERS, GROUPS) for change in _removals((key,), values[key], wanted[key])]
    return patched(text, file, removed, reader) if removed else text


def _removals(at: Location, value: object, wanted: object) -> Iterator[Change]:
    if is_mapping(value) and is_mapping(wanted):
        for key, inner in value.items():
            here = (*at, key)
            if key not in wanted:
                yield Change(at=here, before=inner, after=None, reason="of a base")
            else:
                yield from _removals(here, inner, wanted[key])


def _remaining_groups(settings: StackSettings) -> dict[str, NodeGroupSettings]:
    gpus = any(pod.size.gpu for pod in resident_pods(settings))
    stays = {NodeKind.FIXED, NodeKind.FLEXIBLE, *([NodeKind.GPU] if gpus else [])}
    return {name: group for name, group in settings.node_groups.items() if group.kind in stays}


def _workers(pools: Sequence[SuggestedPool], trace: Trace) -> str:
    return f"  # Made for the trace {trace.name}; each size is a whole share of its node.\n  {WORKERS}:\n" + "".join(
        map(pool_text, pools)
    )


def _groups(pools: Sequence[SuggestedPool], remaining: dict[str, NodeGroupSettings], settings: StackSettings) -> str:
    pool_groups = {pool.group for pool in pools}  # a file that was adapted before has groups of these names
    lines = [
        f"    {name}: {{ {', '.join(group_keys(name, group, settings.cluster.provisioner))} }}"
        for name, group in remaining.items()
        if name not in pool_groups
    ]
    return "\n".join([f"  {GROUPS}:", *lines, groups_text(pools, len(settings.cluster.zones))]) + "\n"


def group_keys(name: str, group: NodeGroupSettings, usual: Provisioner) -> Iterator[str]:
    """Yield the keys of a group with their values, as a stack file has them.

    `usual` is the provisioner of groups that name none, apart from fixed ones.
    """
    if name != group.kind:
        yield f"kind: {group.kind.value}"
    if group.kind is not NodeKind.FIXED and group.provisioner is not usual:
        yield f"provisioner: {group.provisioner.value}"
    yield f"instanceTypes: [{', '.join(group.instance_types)}]"
    if group.shape is not None:
        shape = group.shape.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        parts = [f"{key}: {value}" for key, value in (shape | _quantities(group.shape)).items()]
        yield f"shape: {{ {', '.join(parts)} }}"
    yield f"min: {group.min}"
    yield f"max: {group.max}"
    yield f"diskSize: {group.disk_size}"
    if group.priority:
        yield f"priority: {group.priority}"
    reserved = group.reserved
    parts = [f"{key}: {text}" for key, text in _quantities(reserved).items()]
    if parts:
        yield f"reserved: {{ {', '.join(parts)} }}"


def _quantities(size: NodeShape | Reserved) -> dict[str, str]:
    cpu = {"cpu": cpu_quantity(size.cpu)} if size.cpu else {}
    return cpu | ({"memory": memory_quantity(size.memory)} if size.memory else {})


def _with_sections(text: str, sections: dict[str, str]) -> str:
    """Replace these sections of `config`; append those that are missing."""
    lines = [f"{line}\n" for line in text.splitlines()]
    for key, section in sections.items():
        begin = next((i for i, line in enumerate(lines) if re.match(rf"""\s+["']?{key}["']?\s*:""", line)), len(lines))
        lines[begin : _end(lines, begin)] = [f"{line}\n" for line in section.splitlines()]
    return "".join(lines)


def _end(lines: Sequence[str], begin: int) -> int:
    """Return the end of a section: the next line indented no more, or bare lines directly above it."""
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
