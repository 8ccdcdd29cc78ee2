"""What a changed claim template does: Kubernetes takes it of a new StatefulSet only, so the old one is deleted first.

Claims and disks stay, and the new set's pods find them again by name: that of the volume, of the set and of the pod. So
another size or class says nothing to disks that are there, and another name leaves them to nobody.

The way round the gap is to delete the set and leave its pods: a refresh finds it gone, `up` makes it again, and the new
set takes over the pods that it would make.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.document import Danger, DangerCode, Severity
from ebbtide.recording.resources import Resource, name_of, namespace_of
from ebbtide.recording.values import mappings, value_at
from ebbtide.settings.sections.zones import is_id

TEMPLATES = "spec.volumeClaimTemplates"


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """Words for the impact and for what to do."""

    impact: str
    fix: str


def claim_change(before: Resource, after: Resource) -> ClaimChange | None:
    """None where the same disks are claimed, so that something else replaces the set."""
    old, new = _by_name(before), _by_name(after)
    if old == new:
        return None
    set_ = name_of(after)
    kept = [name for name in old if name in new and old[name] != new[name]]
    left, added = [name for name in old if name not in new], [name for name in new if name not in old]
    parts = ["its disks stay"] if old else []
    parts += [f"those of {name} keep their size and class, whatever the file says" for name in kept]
    parts += [f"those of {name} ({name}-{set_}-0 …) are left to nobody and billed on" for name in left]
    parts += [f"those of {name} are new and empty" for name in added]
    orphan = f"kubectl -n {namespace_of(after)} delete statefulset {set_} --cascade=orphan, then pulumi up --refresh"
    grow = f"; grow each disk by its claim, {kept[0]}-{set_}-0 … (kubectl edit pvc)" if kept else ""
    return ClaimChange(
        impact="; ".join(parts),
        fix=f"{orphan}: the new set takes over the pods that run{grow} (docs/how-to/life.md, The disk of a service)",
    )


def zones_left(compared: Compared) -> Iterator[Danger]:
    """A disk of EBS stays in its zone, and so its pod waits for a node there. Which disks are where, only AWS knows."""
    before, after = (side.settings.cluster for side in (compared.before, compared.after))
    if before.context is not None or after.context is not None:
        return
    if any(map(is_id, before.zones)) != any(map(is_id, after.zones)):
        yield _zones_renamed(before.zones, after.zones)
        return
    lost = [zone for zone in before.zones if zone not in after.zones]
    owners = [pods for pods in compared.before.pods if _by_name(pods.resource)]
    if lost and owners:
        names = tuple(pods.name for pods in owners)
        yield Danger(
            code=DangerCode.DISKS_OUT_OF_REACH,
            severity=Severity.WARNING,
            subjects=names,
            what=f"takes zone {' and '.join(lost)} away, where disks of {listed(names)} may be",
            impact=f"a pod whose disk is there stays pending; {compared.impact(owners)}",
            fix="see where they are (kubectl describe pv), and copy what is there through a snapshot before",
        )


def _zones_renamed(before: Sequence[str], after: Sequence[str]) -> Danger:
    old, new = ", ".join(before), ", ".join(after)
    return Danger(
        code=DangerCode.ZONES_RENAMED,
        severity=Severity.BLOCKING,
        subjects=tuple(before),
        what=f"names the zones [{new}] instead of [{old}]: a live cluster cannot go from letters to ids or back",
        impact="the subnets of the new names come before the old ones go, and AWS refuses them in the middle of an up: "
        "their addresses are taken",
        fix=f"keep the {'ids' if is_id(before[0]) else 'letters'}: zones: [{old}]",
    )


def _by_name(resource: Resource) -> Mapping[str, Any]:
    templates = mappings(value_at(resource.inputs, TEMPLATES))
    return {str(value_at(template, "metadata.name")): template.get("spec") for template in templates}
