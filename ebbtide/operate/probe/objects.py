"""Check that the objects exist that a stack refers to but does not create: Secrets, claims, classes. Pure.

Only a Secret's keys and a claim's access modes are read: a claim that is attached to a single node blocks every further
pod that mounts it, and only an Event reports it. An unreadable object is a note, not missing, and so is an object whose
namespace `pulumi up` creates.
"""

from collections.abc import Iterator, Mapping

from ebbtide.operate.probe.facts import API_OF_KIND, Denied, ObjectWant, StateAnswer
from ebbtide.operate.probe.findings import Probed, ProbeFinding, missing, note, ok

_REMEDIES: Mapping[str, str] = {
    "ConfigMap": "create it, or write it as files of a volume",
    "IngressClass": "install its ingress controller, or name another class",
    "PersistentVolumeClaim": "create the claim",
    "Secret": "create it, or put it into ebbtide:secrets",
    "StorageClass": "create it, or name another class",
}


_SINGLE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


def objects_of_others(probed: Probed) -> Iterator[ProbeFinding]:
    for want, state in probed.facts.objects.items():
        absent = want.namespace in probed.facts.namespaces and probed.facts.namespaces[want.namespace] is None
        yield _no_namespace(want) if state is None and absent else _finding(want, state)


def _finding(want: ObjectWant, state: StateAnswer) -> ProbeFinding:
    subject, user = str(want), f" for {want.wanted_by}" if want.wanted_by else ""
    if isinstance(state, Denied):
        where = f" in {want.namespace}" if want.namespace else ""
        return note(subject, f"cannot be read: you need the right to get {API_OF_KIND[want.kind][1]}{where}")
    if state is None:
        return missing(subject, f"not there{user}; {_REMEDIES[want.kind]}")
    lacking = [key for key in want.keys if key not in state.keys]
    if lacking:
        keys = ", ".join(sorted(state.keys)) or "no key"
        return missing(subject, f"lacks the key {', '.join(lacking)}{user}, found {keys}; add it")
    if want.pods > 1 and state.modes and state.modes <= _SINGLE_NODE:
        modes = " and ".join(sorted(state.modes))
        shared = f"{modes}, which one node has at a time, while {want.pods} pods mount it at once{user}"
        return missing(subject, f"{shared}; make it ReadWriteMany, or run one pod")
    return ok(subject, f"there, with {', '.join(want.keys)}" if want.keys else "there")


def _no_namespace(want: ObjectWant) -> ProbeFinding:
    return note(str(want), f"cannot exist before namespace {want.namespace}, which pulumi up creates; pods wait for it")
