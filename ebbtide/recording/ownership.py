"""Fields that Pulumi leaves to other owners, and resources that a destroy refuses or leaves behind.

Read from a recording, without engine or cluster. A destroy first runs a preview, which stops at protected resources.
Without that preview (`--skip-preview`, or a destroy through the Automation API) Pulumi deletes the other resources
before it stops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.ownership import (
    DESIRED_SIZE,
    DISRUPTION_BUDGETS,
    MAX_UNAVAILABLE,
    MIN_AVAILABLE,
    MIN_REPLICA_COUNT,
    MIN_REPLICAS,
    REPLICAS,
    REPLICAS_OWNER,
    FieldOwner,
)
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.resources import Resource, display_name, name_of, namespace_of
from ebbtide.recording.values import mappings, texts, value_at
from ebbtide.settings.sections.adopted import AdoptedSettings
from ebbtide.vocabulary.node_pools import FIELD

_OWNERS = {
    MAX_UNAVAILABLE: FieldOwner.CONTROLLER,
    MIN_AVAILABLE: FieldOwner.CONTROLLER,
    DESIRED_SIZE: FieldOwner.CLUSTER_AUTOSCALER,
    MIN_REPLICAS: FieldOwner.WORKLOADS,
    MIN_REPLICA_COUNT: FieldOwner.WORKLOADS,
    DISRUPTION_BUDGETS: FieldOwner.WORKLOADS,
}
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"

KEPT = "nobody: kept as created"
_SNAPSHOTS = "aws:dlm/lifecyclePolicy:LifecyclePolicy"
_ABSENT = "-"
_STRUCTURE = "as created"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipRow:
    object: str  # "Deployment ebbtide-workers/train"
    field: str
    owner: str
    initial: str  # the value that Pulumi declares once


def ownership_rows(
    resources: Sequence[Resource],
    adopted: Mapping[str, AdoptedSettings] | None = None,
    node_pools: Sequence[str] = (),
) -> tuple[OwnershipRow, ...]:
    """One row per ignored field, per budget of a chart, per adopted object that sleeps and per existing NodePool,
    sorted: the order of registration depends on the SDK.
    """
    rows = [
        OwnershipRow(
            object=display_name(resource),
            field=field,
            owner=_owner(resource, field),
            initial=_shown(value_at(resource.inputs, field)),
        )
        for resource in resources
        for field in resource.ignore_changes
    ]
    rows += [
        OwnershipRow(
            object=f"PodDisruptionBudget {rule.namespace}/{rule.budget}",
            field=MAX_UNAVAILABLE,
            owner=FieldOwner.CONTROLLER,
            initial=_ABSENT,
        )
        for rule in (adopted or {}).values()
        if rule.budget is not None
    ]
    rows += [
        OwnershipRow(
            object=f"{rule.sleep.scale.kind} {rule.namespace}/{rule.sleep.scale.name}",
            field=REPLICAS,
            owner=FieldOwner.WORKLOADS,
            initial=_ABSENT,
        )
        for rule in (adopted or {}).values()
        if rule.sleep is not None and rule.sleep.sleeps
    ]
    own = {row.object for row in rows}
    rows += [
        OwnershipRow(object=f"NodePool {name}", field=FIELD, owner=FieldOwner.WORKLOADS, initial=_ABSENT)
        for name in node_pools
        if f"NodePool {name}" not in own
    ]
    return tuple(sorted(rows, key=lambda row: (row.object, row.field)))


def _owner(resource: Resource, field: str) -> str:
    if field == REPLICAS:
        owner = texts(value_at(resource.inputs, "metadata.annotations")).get(REPLICAS_OWNER, KEPT)
        sleeps = owner == FieldOwner.CONTROLLER and namespace_of(resource) != WORKER_NAMESPACE
        return FieldOwner.WORKLOADS if sleeps else owner
    return _OWNERS.get(field, KEPT)


def _shown(value: object) -> str:
    """The value for a table; a structure is shown as "as created"."""
    if value is None:
        return _ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    return _STRUCTURE if isinstance(value, Mapping | list) else str(value)


@dataclass(frozen=True, slots=True)
class LastingRow:
    resource: str
    what: str


def lasting_rows(resources: Sequence[Resource]) -> list[LastingRow]:
    """Sorted by name. A resource may have two rows: it is protected, and leaves something behind when it is deleted."""
    classes = _volume_classes(resources)
    regions = {r.urn: str(r.inputs["region"]) for r in resources if "region" in r.inputs}
    rows = [LastingRow(r.name, what) for r in resources if r.custom and not r.read for what in _lasting(r, classes)]
    rows += [
        LastingRow(r.name, _recreated_log_group(r, regions.get(r.provider, "")))
        for r in resources
        if _is_eks_log_group(r)
    ]
    rows += [
        LastingRow(r.name, _remaining_snapshots(r, regions.get(r.provider, "")))
        for r in resources
        if r.type == _SNAPSHOTS
    ]
    return sorted(rows, key=lambda row: row.resource)


def _lasting(resource: Resource, classes: Mapping[str | None, str]) -> Iterator[str]:
    if resource.protect:
        yield "protected: a destroy stops before it"
    if resource.retain_on_delete:
        yield "stays, and Pulumi forgets it"
    if resource.type == "aws:kms/key:Key":
        yield f"is deleted {resource.inputs.get('deletionWindowInDays', 30)} days later"
    if resource.inputs.get("finalSnapshotIdentifier"):
        yield "leaves a last snapshot"
    yield from _claims_left(resource, classes)


def _claims_left(resource: Resource, classes: Mapping[str | None, str]) -> Iterator[str]:
    """Claims outlive their StatefulSet. A destroy deletes their namespace and so the claims; the class decides about
    the volumes.
    """
    name, number = name_of(resource), value_at(resource.inputs, "spec.replicas")
    for template in mappings(value_at(resource.inputs, "spec.volumeClaimTemplates")):
        claims = _numbered(f"{value_at(template, 'metadata.name')}-{name}", number if isinstance(number, int) else 1)
        match classes.get(class_ := value_at(template, "spec.storageClassName")):
            case "Retain":
                yield f"leaves the volumes of {claims}"
            case "Delete":
                yield f"leaves {claims}; a destroy of the stack deletes the namespace, and with it claims and volumes"
            case _:
                which = f"class {class_}" if class_ else "the cluster's default class"
                yield f"leaves {claims}; a destroy deletes the namespace with them, and {which} decides if volumes stay"


def _numbered(stem: str, pods: int) -> str:
    return f"claim {stem}-0" if pods <= 1 else f"claims {stem}-0 to {stem}-{pods - 1}"


def _volume_classes(resources: Sequence[Resource]) -> dict[str | None, str]:
    """The reclaim policy of each StorageClass of the stack; the key None is the default class."""
    classes = [r for r in resources if r.type.endswith(":StorageClass")]
    policies: dict[str | None, str] = {name_of(r): str(r.inputs.get("reclaimPolicy", "Delete")) for r in classes}
    default = [name_of(r) for r in classes if _IS_DEFAULT in texts(value_at(r.inputs, "metadata.annotations"))]
    return policies | ({None: policies[default[0]]} if default else {})


def _is_eks_log_group(resource: Resource) -> bool:
    """True for the log group of EKS, which writes last logs after the cluster is deleted and so creates it again."""
    return resource.type == "aws:cloudwatch/logGroup:LogGroup" and _log_group(resource).startswith("/aws/eks/")


def _recreated_log_group(resource: Resource, region: str) -> str:
    return f"may be made again by EKS: aws logs delete-log-group {_in(region)}--log-group-name {_log_group(resource)}"


def _remaining_snapshots(policy: Resource, region: str) -> str:
    """Snapshots outlive the policy that deletes old ones."""
    tags = texts(value_at(policy.inputs, "policyDetails.targetTags"))
    filters = " ".join(f"Name=tag:{key},Values={value}" for key, value in tags.items())
    command = f"aws ec2 describe-snapshots {_in(region)}--owner-ids self --filters {filters}"
    return f"leaves its snapshots, which are then no longer deleted: {command}"


def _in(region: str) -> str:
    return f"--region {region} " if region else ""


def _log_group(resource: Resource) -> str:
    return str(resource.inputs.get("name", ""))
