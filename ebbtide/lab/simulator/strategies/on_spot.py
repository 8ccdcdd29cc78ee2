"""The stack with its workers on spot nodes: each pool moves to a spot twin of its node group, with checkpoints.

The stack changes before production code reads it, so prices, rates, budgets and config follow as from a file. A file
would list more types than the one of the twin, and a fallback.
"""

from collections.abc import Iterator
from dataclasses import replace

from ebbtide.lab.simulator.strategies.karpenter import stack_nodes
from ebbtide.lab.simulator.strategies.plans import Topology
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.checks.checkpoints import LONGEST_SPOT_SAVE
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.checkpoints import CheckpointSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.text.durations import format_duration

_STORE = "s3://checkpoints"
"""The store of pools that have none; nothing is written to it."""


def moved_to_spot(settings: StackSettings) -> StackSettings:
    """Move every pool whose workers can pause to spot nodes, with required checkpoints; services stay."""
    groups, workers = dict(settings.node_groups), dict(settings.workers)
    for name, pool in settings.workers.items():
        if pool.safe_stop:
            group = pool.node_group if settings.on_spot(pool) else _twin(pool.node_group, settings)
            groups[group] = spot_twin(settings.node_groups[pool.node_group])
            workers[name] = pool.model_copy(update={"node_group": group, "checkpoints": _required(pool)})
    return settings.model_copy(update={"node_groups": groups, "workers": workers})


def spot_groups(settings: StackSettings) -> Topology:
    """The moved stack. Its nodes are interrupted at the published rate, unless the replay sets another."""
    moved = stack_nodes(moved_to_spot(settings))
    return replace(moved, spot_interruptions=1.0, assumptions=(*moved.assumptions, *spot_assumptions(settings)))


def spot_assumptions(settings: StackSettings) -> Iterator[str]:
    moved = moved_to_spot(settings)
    stay = [name for name, pool in settings.workers.items() if not pool.safe_stop]
    intervals = sorted({pool.checkpoints.every for pool in moved.workers.values() if pool.checkpoints})
    every = " or ".join(format_duration(interval) for interval in intervals)
    yield (
        "fixed-flexible-spot is fixed-flexible with each pool on spot nodes of its group's first type (groups "
        f"named GROUP-spot), at the typical spot price of a month, with required checkpoints every {every}; services "
        "and the groups' minimum stay on demand."
    )
    if settings.ray:
        yield "fixed-flexible-spot leaves the groups of Ray's workers where they are."
    if stay:
        yield f"fixed-flexible-spot leaves {', '.join(stay)} where they are: without a safe stop no job can pause."


def _twin(group: str, settings: StackSettings) -> str:
    name = f"{group}-spot"
    return _twin(name, settings) if name in settings.node_groups else name


def spot_twin(group: NodeGroupSettings) -> NodeGroupSettings:
    """Return the group with spot nodes and without a minimum."""
    return group if group.kind is NodeKind.SPOT else group.model_copy(update={"kind": NodeKind.SPOT, "min": 0})


def _required(pool: WorkerSettings) -> CheckpointSettings:
    checkpoints = pool.checkpoints or CheckpointSettings(store=_STORE)
    within = min(checkpoints.save_within, LONGEST_SPOT_SAVE)
    return checkpoints.model_copy(update={"required": True, "save_within": within})
