"""A whole customer's settings with defaults, and ways to look through what a stack registers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pulumi

from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.record import record_program
from ebbtide.recording.resources import Resource
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import BusinessHoursSettings
from ebbtide.settings.sections.cluster import ClusterSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.node_groups import SPOT_TYPES, NodeGroupSettings
from ebbtide.settings.sections.workers import Source, WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import Category

SIZE: Mapping[str, Any] = {"cpu": "1", "memory": "2Gi"}
COST_TAGS = {"ebbtide.dev/customer": "acme", "cost-center": "research"}


def group_settings(kind: NodeKind = NodeKind.FLEXIBLE, **changes: Any) -> NodeGroupSettings:
    types = {NodeKind.GPU: ("g5.2xlarge",), NodeKind.FIXED: ("m7i.2xlarge",), NodeKind.SPOT: SPOT_TYPES}
    values: dict[str, Any] = {
        "kind": kind,
        "instance_types": types.get(kind, ("m7i.4xlarge", "m6i.4xlarge")),
        "min": 2 if kind is NodeKind.FIXED else 0,
        "max": 6,
    }
    return NodeGroupSettings.model_validate({**values, **changes})


def stack_settings(**changes: Any) -> StackSettings:
    values: dict[str, Any] = {
        "stack": "acme",
        "region": "us-east-1",
        "customer": "acme",
        "business_hours": BusinessHoursSettings.model_validate(
            {"timezone": "America/New_York", "week": {"mon-fri": "08:00-19:00"}}
        ),
        "cluster": ClusterSettings(zones=("a", "b")),
        "node_groups": {kind.value: group_settings(kind) for kind in (NodeKind.FIXED, NodeKind.FLEXIBLE, NodeKind.GPU)},
        "workloads": {
            "hub": WorkloadSettings(category=Category.FIXED, image="hub:1", **SIZE),
            "api": WorkloadSettings(category=Category.FLEXIBLE, image="api:1", **SIZE, replicas=3),
        },
        "workers": {"train": pool_settings()},
        "costs": CostSettings(tags={"cost-center": "research"}),
    }
    return StackSettings.model_validate({**values, **changes})


def pool_settings(longest_job: timedelta = timedelta(hours=12)) -> WorkerSettings:
    return WorkerSettings(
        source=Source(queues=("train",)),
        image="train:1",
        max=8,
        **SIZE,
        longest_job=longest_job,
        node_group="flexible",
    )


class Recorded:
    """What a program registered, by name and kind, and what must exist before what."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.all = tuple(resources)
        self._by_urn = {resource.urn: resource for resource in resources}

    def named(self, name: str, kind: str = "") -> Resource:
        found = [r for r in self.all if r.name == name and r.type.endswith(kind)]
        assert len(found) == 1, f"wanted one {name}, found {[r.type for r in found]}"
        return found[0]

    def of(self, kind: str) -> list[Resource]:
        return [resource for resource in self.all if resource.type.endswith(f":{kind}")]

    def before(self, resource: Resource) -> set[str]:
        """The names of all that exists before `resource` does, and is destroyed after it."""
        return {self._by_urn[urn].name for urn in self.urns_before(resource)}

    def urns_before(self, resource: Resource) -> set[str]:
        """The same by URN: components share names with what they hold."""
        found: set[str] = set()
        waiting = [resource]
        while waiting:
            current = waiting.pop()
            for urn in (*current.depends_on, current.parent, current.provider):
                if urn and urn not in found:
                    found.add(urn)
                    waiting.append(self._by_urn[urn])
        return found


def run(program: Callable[[], object]) -> Recorded:
    return Recorded(record_program(program).resources)


def inputs(resources: Iterable[Resource]) -> dict[str, Mapping[str, Any]]:
    return {resource.urn: resource.inputs for resource in resources}


def text(value: str) -> pulumi.Output[str]:
    """A value that is known only later, as from another resource."""
    return pulumi.Output.from_input(value)
