"""Both sides of a preview as the rules about dangers read them: pods and node groups beside the changes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ebbtide.preview.changes import identity
from ebbtide.preview.document import ChangeKind, ResourceChange
from ebbtide.preview.pods import NodeGroups, Pods, groups_of, pods_of, runs_on
from ebbtide.preview.resources import Resource
from ebbtide.preview.sides import Side


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Both sides are there and valid. The changes may be the engine's, which knows of more than both recordings."""

    before: Side
    after: Side
    changes: Sequence[ResourceChange]

    @cached_property
    def old_pods(self) -> tuple[Pods, ...]:
        return pods_of(self.before.resources, self.before.settings)

    @cached_property
    def new_pods(self) -> tuple[Pods, ...]:
        return pods_of(self.after.resources, self.after.settings)

    @cached_property
    def pairs(self) -> tuple[tuple[Pods, Pods], ...]:
        """Those of both sides, whatever makes them."""
        old = {(pods.namespace, pods.name): pods for pods in self.old_pods}
        return tuple((old[key], pods) for pods in self.new_pods if (key := (pods.namespace, pods.name)) in old)

    @cached_property
    def old_groups(self) -> Mapping[str, NodeGroups]:
        return groups_of(self.before.resources)

    @cached_property
    def new_groups(self) -> Mapping[str, NodeGroups]:
        return groups_of(self.after.resources)

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

    def was(self, change: ResourceChange) -> Resource:
        """What the change is made to; one without inputs, where only the engine knows it."""
        key = identity(change.urn)
        unknown = Resource(urn=change.urn, type="", name=change.name, parent="", custom=True, inputs={})
        return self.old.get(key) or self.new.get(key) or unknown

    def of(self, type_: str, *kinds: ChangeKind) -> list[ResourceChange]:
        return [change for change in self.changes if change.type == type_ and change.kind in kinds]

    def old_pods_on(self, groups: Iterable[NodeGroups]) -> list[Pods]:
        nodes = [group.labels for group in groups]
        return [pods for pods in self.old_pods if any(runs_on(pods, labels) for labels in nodes)]
