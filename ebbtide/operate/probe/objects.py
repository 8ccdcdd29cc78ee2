"""Whether the objects are there that a stack names and others make: Secrets, claims, classes. Pure.

Of a Secret only the keys are looked at, of a claim its modes of access: one that is attached to a single node holds up
every further pod that mounts it, and nothing but an event says so. What may not be read is a note and never called
missing, and neither is what cannot be there yet because its namespace is made by `pulumi up`.
"""

from collections.abc import Iterator, Mapping

from ebbtide.operate.probe.facts import LOOKED_FOR, Denied, ObjectWant, Sighted
from ebbtide.operate.probe.findings import Finding, Probed, missing, note, ok

_MADE_BY: Mapping[str, str] = {
    "ConfigMap": "create it, or write it as files of a volume",
    "IngressClass": "install its ingress controller, or name another class",
    "PersistentVolumeClaim": "create the claim",
    "Secret": "create it, or put it into ebbtide:secrets",
    "StorageClass": "create it, or name another class",
}


_OF_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def objects_of_others(probed: Probed) -> Iterator[Finding]:
    for want, seen in probed.facts.objects.items():
        absent = want.namespace in probed.facts.namespaces and probed.facts.namespaces[want.namespace] is None
        yield _no_namespace(want) if seen is None and absent else _finding(want, seen)


def _finding(want: ObjectWant, seen: Sighted) -> Finding:
    what, by = str(want), f" for {want.wanted_by}" if want.wanted_by else ""
    if isinstance(seen, Denied):
        where = f" in {want.namespace}" if want.namespace else ""
        return note(what, f"cannot be read: you need the right to get {LOOKED_FOR[want.kind][1]}{where}")
    if seen is None:
        return missing(what, f"not there{by}; {_MADE_BY[want.kind]}")
    lacking = [key for key in want.keys if key not in seen.keys]
    if lacking:
        there = ", ".join(sorted(seen.keys)) or "no key"
        return missing(what, f"lacks the key {', '.join(lacking)}{by}, found {there}; add it")
    if want.pods > 1 and seen.modes and seen.modes <= _OF_ONE_NODE:
        modes = " and ".join(sorted(seen.modes))
        said = f"{modes}, which one node has at a time, while {want.pods} pods mount it at once{by}"
        return missing(what, f"{said}; make it ReadWriteMany, or run one pod")
    return ok(what, f"there, with {', '.join(want.keys)}" if want.keys else "there")


def _no_namespace(want: ObjectWant) -> Finding:
    return note(
        str(want), f"cannot be there before namespace {want.namespace}, which pulumi up makes; pods wait for it"
    )
