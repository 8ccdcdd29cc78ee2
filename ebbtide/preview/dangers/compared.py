"""Both states of a stack beside the changes between them, and what a change has an impact on, in words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from components.ownership import MAX_UNAVAILABLE
from components.pods.rules import OPEN_TO_ALL
from ebbtide.preview.changes import identity
from ebbtide.preview.document import ChangeKind, ResourceChange
from ebbtide.provisioning_labels import POOL
from ebbtide.recording.pods import Pods
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import GroupOverZones, StackState
from ebbtide.recording.values import value_at

_NAMED = 6  # names in a line
_COME_AND_GO = ("DaemonSet", "CronJob", "Job")
"""What is on a node for a moment, or on every node: nobody misses it there."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The changes may be the engine's, which knows of more than both recordings."""

    before: StackState
    after: StackState
    changes: Sequence[ResourceChange]

    @cached_property
    def pairs(self) -> tuple[tuple[Pods, Pods], ...]:
        """Those of both sides, whatever makes them."""
        old = {(pods.namespace, pods.name): pods for pods in self.before.pods}
        return tuple((old[key], pods) for pods in self.after.pods if (key := (pods.namespace, pods.name)) in old)

    @cached_property
    def old(self) -> Mapping[str, Resource]:
        """What there was, by URN without the stack."""
        return {identity(resource.urn): resource for resource in self.before.resources}

    @cached_property
    def new(self) -> Mapping[str, Resource]:
        return {identity(resource.urn): resource for resource in self.after.resources}

    @cached_property
    def changed(self) -> Mapping[str, ResourceChange]:
        return {identity(change.urn): change for change in self.changes}

    def former(self, change: ResourceChange) -> Resource:
        """What the change is made to; one without inputs, where only the engine knows it."""
        key = identity(change.urn)
        unknown = Resource(urn=change.urn, type="", name=change.name, parent="", custom=True, inputs={})
        return self.old.get(key) or self.new.get(key) or unknown

    def of(self, type_: str, *kinds: ChangeKind) -> list[ResourceChange]:
        return [change for change in self.changes if change.type == type_ and change.kind in kinds]

    def impact(self, pods: Iterable[Pods]) -> str:
        return impact_on(self.before, pods)

    def impact_on_groups(self, groups: Sequence[GroupOverZones]) -> str:
        """The nodes that there may be, and the pods that ask for them."""
        pods = self.impact(self.before.pods_on({group.name for group in groups})) or "no pods of this stack"
        return f"up to {counted(sum(group.most for group in groups), 'node')}; {pods}"


def impact_on(state: StackState, pods: Iterable[Pods]) -> str:
    """Who runs there and what protects them: `4 services, 2 pools (50 pods at most); 3 closed budgets`.

    Numbers are the most there can be: a pool counts with its maximum. Empty for no pods that anybody would miss.
    """
    found = [each for each in pods if each.kind not in _COME_AND_GO]
    if not found:
        return ""
    pools = sum(POOL in each.labels for each in found)
    who = ", ".join(part for part in (counted(len(found) - pools, "service"), counted(pools, "pool")) if part)
    return f"{who} ({counted(sum(map(state.most_pods, found)), 'pod')} at most); {_protection(state, found)}"


def impact_on_all(state: StackState) -> str:
    nodes = sum(group.most for group in state.groups)
    return f"everything: {f'up to {nodes} nodes; ' if nodes else ''}{impact_on(state, state.pods)}"


def _protection(state: StackState, pods: Sequence[Pods]) -> str:
    budgets = {budget.urn: budget for each in pods for budget in state.budgets_of(each)}
    opening = sum(MAX_UNAVAILABLE in budget.ignore_changes for budget in budgets.values())
    always = sum(value_at(budget.inputs, MAX_UNAVAILABLE) == OPEN_TO_ALL for budget in budgets.values())
    closed = counted(len(budgets) - opening - always, "closed budget")
    night = f"{counted(opening, 'budget')} that open{'s' if opening == 1 else ''} at night" if opening else ""
    return ", ".join(part for part in (closed, night, counted(always, "open budget")) if part) or "no budget"


def counted(number: int, what: str) -> str:
    """Empty for none of them."""
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
