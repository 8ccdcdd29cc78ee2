"""What a change of a Ray cluster's section means: most of it waits until nothing runs there (docs/adr/0027)."""

from collections.abc import Iterator
from typing import Any

from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.document import Danger, DangerCode, Severity
from ebbtide.recording.pods import RAY_CLUSTER
from ebbtide.settings.sections.ray import RayPod, RaySettings, namespace_of_ray

_AT_ONCE = {"min", "max", "idle_after"}
"""Of a group: what is written while it runs, a lower maximum as its workers go."""


def ray_dangers(compared: Compared) -> Iterator[Danger]:
    before = compared.before.settings.ray
    for name, cluster in compared.after.settings.ray.items():
        if name in before and (waiting := _waiting(before[name], cluster)):
            space = namespace_of_ray(name)
            pods = [it for it in compared.before.pods if it.kind == RAY_CLUSTER and it.namespace == space]
            yield Danger(
                code=DangerCode.RAY_CHANGE_WAITS,
                severity=Severity.WARNING,
                subjects=(name,),
                what=f"changes {listed(waiting)} of Ray cluster {name}: its pods keep the old spec until nothing runs "
                "there, and are then all made anew",
                impact=compared.impact(pods),
                fix="none needed; to have it sooner, at the price of what runs: ebbtide.dev/apply-until, see "
                "docs/how-to/ray.md",
            )


def _waiting(old: RaySettings, new: RaySettings) -> list[str]:
    """The keys, as the file has them. A group that comes or goes changes no other."""
    keys = {"version": "version", "image": "image", "longest_task": "longestTask", "head": "head"}
    changed = [key for field, key in keys.items() if _shape(getattr(old, field)) != _shape(getattr(new, field))]
    shared = [name for name in new.groups if name in old.groups]
    return changed + [f"groups.{name}" for name in shared if _shape(old.groups[name]) != _shape(new.groups[name])]


def _shape(value: Any) -> Any:
    return value.model_dump(exclude=_AT_ONCE) if isinstance(value, RayPod) else value
