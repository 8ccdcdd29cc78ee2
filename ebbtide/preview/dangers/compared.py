"""Both states of a stack with the changes between them, and the impact of a change as text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from components.ownership import MAX_UNAVAILABLE, MIN_AVAILABLE
from components.pods.rules import OPEN_TO_ALL
from ebbtide.preview.changes import identity
from ebbtide.preview.document import ChangeKind, ResourceChange
from ebbtide.provisioning_labels import POOL
from ebbtide.recording.pods import Pods
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import GroupOverZones, StackState
from ebbtide.recording.values import value_at
from ebbtide.text.counts import several, verb

_NAMED = 6  # names in a line
_COME_AND_GO = ("DaemonSet", "CronJob", "Job")
"""Pods that run on every node, or only for a moment: losing one is no impact."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The changes may come from the engine, which knows more resources than both recordings."""

    before: StackState
    after: StackState
    changes: Sequence[ResourceChange]

    @cached_property
    def pairs(self) -> tuple[tuple[Pods, Pods], ...]:
        """Pods that exist on both sides, whatever kind of object makes them."""
        old = {(pods.namespace, pods.name): pods for pods in self.before.pods}
        return tuple((old[key], pods) for pods in self.after.pods if (key := (pods.namespace, pods.name)) in old)

    @cached_property
    def old(self) -> Mapping[str, Resource]:
        """The earlier resources by URN without the stack."""
        return {identity(resource.urn): resource for resource in self.before.resources}

    @cached_property
    def new(self) -> Mapping[str, Resource]:
        return {identity(resource.urn): resource for resource in self.after.resources}

    @cached_property
    def changed(self) -> Mapping[str, ResourceChange]:
        return {identity(change.urn): change for change in self.changes}

    def former(self, change: ResourceChange) -> Resource:
        """The resource before the change; one without inputs if only the engine knows it."""
        key = identity(change.urn)
        undeclared = Resource(urn=change.urn, type="", name=change.name, parent="", custom=True, inputs={})
        return self.old.get(key) or self.new.get(key) or undeclared

    def of(self, type_: str, *kinds: ChangeKind) -> list[ResourceChange]:
        return [change for change in self.changes if change.type == type_ and change.kind in kinds]

    def impact(self, pods: Iterable[Pods]) -> str:
        return impact_on(self.before, pods)

    def impact_on_groups(self, groups: Sequence[GroupOverZones]) -> str:
        """The highest number of nodes, and the pods that may run on them."""
        pods = self.impact(self.before.pods_on({group.name for group in groups})) or "no pods of this stack"
        return f"up to {counted(sum(group.most for group in groups), 'node')}; {pods}"


def impact_on(state: StackState, pods: Iterable[Pods]) -> str:
    """The affected pods and their protection: `4 services, 2 pools (50 pods at most); 3 closed budgets`.

    Numbers are maxima: a pool counts with its `max`. Empty if only pods of DaemonSets, CronJobs and Jobs are affected.
    """
    affected = [entry for entry in pods if entry.kind not in _COME_AND_GO]
    if not affected:
        return ""
    pools = sum(POOL in entry.labels for entry in affected)
    who = ", ".join(part for part in (counted(len(affected) - pools, "service"), counted(pools, "pool")) if part)
    return f"{who} ({counted(sum(map(state.most_pods, affected)), 'pod')} at most); {_protection(state, affected)}"


def impact_on_all(state: StackState) -> str:
    nodes = sum(group.most for group in state.groups)
    return f"everything: {f'up to {nodes} nodes; ' if nodes else ''}{impact_on(state, state.pods)}"


def _protection(state: StackState, pods: Sequence[Pods]) -> str:
    budgets = {budget.urn: budget for entry in pods for budget in state.budgets_of(entry)}
    opening = sum(bool({MAX_UNAVAILABLE, MIN_AVAILABLE} & {*budget.ignore_changes}) for budget in budgets.values())
    always = sum(value_at(budget.inputs, MAX_UNAVAILABLE) == OPEN_TO_ALL for budget in budgets.values())
    closed = counted(len(budgets) - opening - always, "closed budget")
    night = f"{counted(opening, 'budget')} that {verb(opening, 'opens', 'open')} at night" if opening else ""
    return ", ".join(part for part in (closed, night, counted(always, "open budget")) if part) or "no budget"


def counted(number: int, noun: str) -> str:
    """`3 nodes`; empty for zero."""
    return several(number, noun) if number else ""


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def paths_text(paths: Sequence[str]) -> str:
    more = f", and {len(paths) - 2} more" if len(paths) > 2 else ""
    return f"{', '.join(paths[:2])} changes{more}"
