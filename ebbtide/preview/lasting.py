"""What a destroy refuses, and what it leaves behind: read from the recording, shown before anybody needs to know.

Pulumi looks for protected resources in the preview that it makes first, and stops there. Without that preview
(`--skip-preview`, or a destroy of the Automation API) it would delete all that lies outside of them before it stops.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ebbtide.preview.resources import Resource


@dataclass(frozen=True, slots=True)
class LastingRow:
    resource: str
    what: str


def lasting_rows(resources: Sequence[Resource]) -> list[LastingRow]:
    """Sorted by name. One resource may have two: protected first, and something left of it afterwards."""
    kept = {_name(r) for r in resources if r.inputs.get("reclaimPolicy") == "Retain"}
    regions = {r.urn: str(r.inputs["region"]) for r in resources if "region" in r.inputs}
    rows = [LastingRow(r.name, what) for r in resources if r.custom and not r.read for what in _lasting(r, kept)]
    rows += [LastingRow(r.name, _comes_back(r, regions.get(r.provider, ""))) for r in resources if _is_of_eks(r)]
    return sorted(rows, key=lambda row: row.resource)


def _lasting(resource: Resource, kept_classes: set[str]) -> Iterator[str]:
    if resource.protect:
        yield "protected: a destroy stops before it"
    if resource.retain_on_delete:
        yield "stays, and Pulumi forgets it"
    if resource.type == "aws:kms/key:Key":
        yield f"is deleted {resource.inputs.get('deletionWindowInDays', 30)} days later"
    if resource.inputs.get("finalSnapshotIdentifier"):
        yield "leaves a last snapshot"
    templates = cast("Sequence[Mapping[str, Any]]", resource.inputs.get("spec", {}).get("volumeClaimTemplates") or ())
    if any(template["spec"].get("storageClassName") in kept_classes for template in templates):
        yield "leaves its volumes"


def _is_of_eks(resource: Resource) -> bool:
    """EKS writes what was logged last after the cluster has gone, and for that makes the group anew."""
    return resource.type == "aws:cloudwatch/logGroup:LogGroup" and _log_group(resource).startswith("/aws/eks/")


def _comes_back(resource: Resource, region: str) -> str:
    where = f"--region {region} " if region else ""
    return f"may be made again by EKS: aws logs delete-log-group {where}--log-group-name {_log_group(resource)}"


def _log_group(resource: Resource) -> str:
    return str(resource.inputs.get("name", ""))


def _name(resource: Resource) -> str:
    return str(resource.inputs.get("metadata", {}).get("name", ""))
