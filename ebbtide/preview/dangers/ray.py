"""What a change of a Ray cluster's section means: most of it waits until nothing runs there (docs/adr/0027)."""

from collections.abc import Iterator
from typing import Any

from components.pods.redis_access import redis_endpoint
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.document import ChangeKind, Danger, DangerCode, Severity
from ebbtide.recording.pods import RAY_CLUSTER
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.ray import FaultTolerance, RayPod, RaySettings, namespace_of_ray

_AT_ONCE = {"min", "max", "idle_after"}
"""Of a group: what is written while it runs, a lower maximum as its workers go."""


def ray_dangers(compared: Compared) -> Iterator[Danger]:
    before = compared.before.settings.ray
    yield from _heads_stranded(compared)
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


def _heads_stranded(compared: Compared) -> Iterator[Danger]:
    """A head keeps the address that it began with, and ends itself when nothing answers there."""
    old, new = compared.before.settings, compared.after.settings
    if _redis(old) == _redis(new) and not compared.of("ReplicationGroup", ChangeKind.REPLACE):
        return
    for name, cluster in old.ray.items():
        if name in new.ray and cluster.head.fault_tolerance is FaultTolerance.REDIS:
            yield Danger(
                code=DangerCode.RAY_HEAD_STRANDED,
                severity=Severity.WARNING,
                subjects=(name,),
                what=f"moves Redis, which holds the state of the head of Ray cluster {name}: the head keeps the former "
                "address, and ends when Redis is gone from there",
                impact="what runs in the cluster, unless it has ended before; the new address is applied when nothing "
                "runs there, or half an hour after the head was last ready",
                fix=f"change it while nothing runs there; a head that has ended comes back sooner with: "
                f"ebbtide maintenance --ray {name}",
            )


def _redis(settings: StackSettings) -> object:
    endpoint = redis_endpoint(settings.redis)
    return endpoint.host, endpoint.port, endpoint.tls, endpoint.username


def _waiting(old: RaySettings, new: RaySettings) -> list[str]:
    """The keys, as the file has them. A group that comes or goes changes no other."""
    keys = {"version": "version", "image": "image", "longest_task": "longestTask", "head": "head"}
    changed = [key for field, key in keys.items() if _shape(getattr(old, field)) != _shape(getattr(new, field))]
    shared = [name for name in new.groups if name in old.groups]
    return changed + [f"groups.{name}" for name in shared if _shape(old.groups[name]) != _shape(new.groups[name])]


def _shape(value: Any) -> Any:
    return value.model_dump(exclude=_AT_ONCE) if isinstance(value, RayPod) else value
