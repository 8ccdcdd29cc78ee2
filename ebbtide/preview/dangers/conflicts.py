"""Changes that conflict with existing objects: claim templates and their disks, zones, and names in use.

Kubernetes accepts claim templates only in a new StatefulSet, so the old one is deleted first. Claims and disks stay,
and the pods of the new set find claims by name (volume, set and pod number). So a new size or class does not change
existing disks, and a new name leaves them unused. To avoid the gap, delete the set without its pods: a refresh
notices that it is gone, `up` creates it again, and the new set adopts the running pods.

Two resources must not declare the same object: the engine creates first and deletes last, and the API server refuses
the second one. If one resource is an alias of the other, the engine updates the object, and no change here creates it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.findings import Severity
from ebbtide.preview.dangers.compared import Compared, listed
from ebbtide.preview.dangers.kinds import danger_kind
from ebbtide.preview.document import ChangeKind, Danger, ResourceChange
from ebbtide.recording.resources import Resource, name_of, namespace_of
from ebbtide.recording.values import mappings, value_at
from ebbtide.settings.sections.zones import is_id
from ebbtide.text.pages import page_command

OBJECT_MADE_TWICE = danger_kind(
    "object-made-twice", "an object is created before the existing one of its name is deleted", Severity.BLOCKING
)
ZONES_RENAMED = danger_kind(
    "zones-renamed", "zones are named by ids instead of letters, or by letters instead of ids", Severity.BLOCKING
)
DISKS_OUT_OF_REACH = danger_kind("disks-out-of-reach", "a zone is removed where disks may be", Severity.WARNING)

TEMPLATES = "spec.volumeClaimTemplates"


@dataclass(frozen=True, slots=True)
class ClaimChange:
    impact: str
    fix: str


def claim_change(before: Resource, after: Resource) -> ClaimChange | None:
    """Return None if the claims are the same, so that another field replaces the set."""
    old, new = _by_name(before), _by_name(after)
    if old == new:
        return None
    set_ = name_of(after)
    changed = [name for name in old if name in new and old[name] != new[name]]
    removed, added = [name for name in old if name not in new], [name for name in new if name not in old]
    parts = ["its disks stay"] if old else []
    parts += [f"disks of {name} keep their size and class, whatever the file says" for name in changed]
    parts += [f"disks of {name} ({name}-{set_}-0 …) are unused and still billed" for name in removed]
    parts += [f"disks of {name} are new and empty" for name in added]
    orphan = f"kubectl -n {namespace_of(after)} delete statefulset {set_} --cascade=orphan, then pulumi up --refresh"
    grow = f"; grow each disk by its claim, {changed[0]}-{set_}-0 … (kubectl edit pvc)" if changed else ""
    return ClaimChange(
        impact="; ".join(parts),
        fix=f"{orphan}: the new set takes over the running pods{grow} ({page_command('life#the-disk-of-a-service')})",
    )


def disks_out_of_reach(compared: Compared) -> Iterator[Danger]:
    """An EBS disk stays in its zone, so its pod waits for a node there. Only AWS knows the zone of each disk."""
    before, after = (side.settings.cluster for side in (compared.before, compared.after))
    if before.context is not None or after.context is not None:
        return
    if any(map(is_id, before.zones)) != any(map(is_id, after.zones)):
        yield _zones_renamed(before.zones, after.zones)
        return
    removed = [zone for zone in before.zones if zone not in after.zones]
    owners = [pods for pods in compared.before.pods if _by_name(pods.resource)]
    if removed and owners:
        names = tuple(pods.name for pods in owners)
        yield DISKS_OUT_OF_REACH.danger(
            subjects=names,
            text=f"removes zone {' and '.join(removed)}, where disks of {listed(names)} may be",
            impact=f"a pod whose disk is there stays pending; {compared.impact(owners)}",
            remedy="see where the disks are (kubectl describe pv), and first copy their data through a snapshot",
        )


def _zones_renamed(before: Sequence[str], after: Sequence[str]) -> Danger:
    old, new = ", ".join(before), ", ".join(after)
    return ZONES_RENAMED.danger(
        subjects=tuple(before),
        text=f"names the zones [{new}] instead of [{old}]: a live cluster cannot go from letters to ids or back",
        impact="new subnets are created before the old ones are deleted, and AWS refuses them in the middle of an up: "
        "their addresses are taken",
        remedy=f"keep the {'ids' if is_id(before[0]) else 'letters'}: zones: [{old}]",
    )


def _by_name(resource: Resource) -> Mapping[str, Any]:
    templates = mappings(value_at(resource.inputs, TEMPLATES))
    return {str(value_at(template, "metadata.name")): template.get("spec") for template in templates}


def names_in_use(compared: Compared) -> Iterator[Danger]:
    deletions = {
        key: change
        for change in compared.changes
        if change.kind is ChangeKind.DELETE and (key := _object(change, compared))
    }
    for change in compared.changes:
        key = _object(change, compared) if change.kind is ChangeKind.CREATE else None
        if key is not None and key in deletions:
            _, kind, namespace, name = key
            yield OBJECT_MADE_TWICE.danger(
                subjects=(deletions[key].name, change.name),
                text=f"creates {kind} {'/'.join(filter(None, (namespace, name)))} before the existing object of this "
                "name is deleted, so up fails",
                remedy="give the new one another name, or remove the old one in an earlier up",
            )


def _object(change: ResourceChange, compared: Compared) -> tuple[str, str, str, str] | None:
    """Group, kind, namespace and name of a Kubernetes object."""
    resource = compared.former(change)
    package, module, kind = [*resource.type.split(":"), "", ""][:3]
    name = value_at(resource.inputs, "metadata.name")
    if package != "kubernetes" or not isinstance(name, str):
        return None
    group = module.split("/")[0]
    return "" if group == "core" else group, kind, str(value_at(resource.inputs, "metadata.namespace") or ""), name
