"""One object under two resources: the engine creates first and deletes last, and the API server refuses a second one.

Where a resource has the other as an alias the engine changes the object, and no change here creates it.
"""

from collections.abc import Iterator

from ebbtide.preview.dangers.compared import Compared
from ebbtide.preview.document import ChangeKind, Danger, DangerCode, ResourceChange, Severity
from ebbtide.recording.values import value_at


def made_twice(compared: Compared) -> Iterator[Danger]:
    going = {
        found: change
        for change in compared.changes
        if change.kind is ChangeKind.DELETE and (found := _object(change, compared))
    }
    for change in compared.changes:
        found = _object(change, compared) if change.kind is ChangeKind.CREATE else None
        if found is not None and found in going:
            _, kind, namespace, name = found
            yield Danger(
                code=DangerCode.OBJECT_MADE_TWICE,
                severity=Severity.BLOCKING,
                subjects=(going[found].name, change.name),
                what=f"creates {kind} {'/'.join(filter(None, (namespace, name)))} before the one that has this name "
                "goes, so up fails",
                fix="give the new one another name, or take the old one away with an up before",
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
