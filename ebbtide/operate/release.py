"""Give up the controller's field ownership of replicas and budgets; the values stay unchanged.

Afterwards another manager can apply them without a conflict. A running controller would take them back at its next
write, so it must be stopped, or the object paused, first.

The same holds for the replicas of a service whose autoscaler was removed, or of a workload that no longer sleeps: the
autoscaler or the workload controller stays among the owners, and each later change of the number would conflict.

The trap: the usual way to give up a field, an apply *without* it, resets the value (replicas to 1, or to 0 on the scale
subresource) or removes it (maxUnavailable). Editing `managedFields` leaves the value alone.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

from controllers.adapters.kube_api import ApiError, KubeApi
from controllers.adapters.replica_writers import scaling_manager, writers_of
from ebbtide.operate.api import MANAGER, CannotOperate, Target, find, leader
from ebbtide.operate.holds import HoldResult
from ebbtide.operate.objects import annotations_of
from ebbtide.operate.sleepers import KIND as SLEEPER
from ebbtide.text.counts import number_of
from ebbtide.text.one_line import collapsed
from ebbtide.vocabulary.labels import FIELD_MANAGER, PAUSED, WORKLOADS

Entry = Mapping[str, Any]

REPLICAS = ("spec", "replicas")
MAX_UNAVAILABLE = ("spec", "maxUnavailable")
MIN_AVAILABLE = ("spec", "minAvailable")
AUTOSCALER = "kube-controller-manager"
"""Field manager of HPAs, including those that KEDA creates."""

_SERVICE = "service"
_OWNERS = {"pool": FIELD_MANAGER, "budget": FIELD_MANAGER, SLEEPER: WORKLOADS, _SERVICE: AUTOSCALER}
_WHOSE = {
    FIELD_MANAGER: "the controller's",
    WORKLOADS: "the workload controller's",
    AUTOSCALER: "an autoscaler's",
}
NONE_ENDING: Mapping[Target, int] = MappingProxyType({})
_TRIES = 5  # the object may change between read and write; each attempt reads it again


def release(
    api: KubeApi,
    namespace: str,
    targets: Sequence[Target],
    ending: Mapping[Target, int] = NONE_ENDING,
    kept: Collection[Target] = (),
) -> Iterator[HoldResult]:
    """Release each target. Raises `ApiError`, and `CannotOperate` while the controller would take the fields back.

    `ending` are workloads with `when: never`, each with its number of pods while awake: the workload controller takes
    back none of their fields, and raises only numbers that it owns. So a workload with fewer pods is not released. A
    policy keeps the number of `kept` workloads, so the controller raises it even if another manager owns it.
    """
    objects = {target: item for target in targets if (item := find(api, target.path)) is not None}
    acting = {
        target: _OWNERS[target.kind]
        for target, item in objects.items()
        if target not in ending and PAUSED not in annotations_of(item)
    }
    for owner in sorted({*acting.values()}):  # a process, its Lease and its field manager have one name
        if holder := leader(api, namespace, datetime.now(UTC), owner):
            names = " ".join(target.name for target, its_owner in acting.items() if its_owner == owner)
            raise CannotOperate(
                f"the controller runs ({holder}) and would take the fields back: first `ebbtide pause {names}`, "
                f"or stop it with `kubectl --namespace {namespace} scale deployment {owner} --replicas 0`"
            )
    yield from (
        HoldResult(target, done=True, detail="not in the cluster") for target in targets if target not in objects
    )
    for target, item in objects.items():
        pods, awake = item["spec"].get("replicas", 0), ending.get(target, 0)
        if pods < awake and _is_raised(item, kept=target in kept):
            detail = f"NOT released: it has {pods} of {number_of(awake, 'pod')}, and the workload controller wakes it"
            yield HoldResult(target, done=False, detail=detail)
        else:
            yield release_one(api, target)


def _is_raised(item: Mapping[str, Any], *, kept: bool) -> bool:
    """True if the workload controller raises the number of pods of an ending workload (`Sleeper`)."""
    writers = writers_of(item["metadata"])
    return any(writer.name == WORKLOADS for writer in writers) or (kept and not scaling_manager(writers))


def release_from_autoscaler(api: KubeApi, namespace: str, names: Sequence[str]) -> Iterator[HoldResult]:
    """Release services' replicas. Raises `ApiError`, and `CannotOperate` for an unknown name or a present HPA."""
    scaled = {
        str(item["spec"]["scaleTargetRef"]["name"])
        for item in api.get(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers")["items"]
    }
    targets: list[Target] = []
    for name in names:
        if name in scaled:
            raise CannotOperate(f"an HPA scales {name} and would take its replicas back: give it a fixed number first")
        paths = (f"/apis/apps/v1/namespaces/{namespace}/{kind}/{name}" for kind in ("deployments", "statefulsets"))
        existing = {path: item for path in paths if (item := find(api, path)) is not None}
        if not existing:
            raise CannotOperate(f"no Deployment and no StatefulSet is called {name} in namespace {namespace}", 2)
        targets += [Target(_scaled_by(item), name, path) for path, item in existing.items()]
    yield from (release_one(api, target) for target in targets)


def _scaled_by(item: Mapping[str, Any]) -> str:
    slept = WORKLOADS in owners_of(item["metadata"].get("managedFields") or (), REPLICAS)
    return SLEEPER if slept else _SERVICE


def release_one(api: KubeApi, target: Target) -> HoldResult:
    """Release one target, bound to the version that was read: a write in between is never undone."""
    owner = _OWNERS[target.kind]
    for attempts_left in reversed(range(_TRIES)):
        try:
            item = api.get(target.path)
            field = _field(target, item)
            metadata: Mapping[str, Any] = item["metadata"]
            entries: Sequence[Entry] = metadata.get("managedFields") or ()
            value = item["spec"].get(field[-1], 0)
            if owner not in owners_of(entries, field):
                return HoldResult(target, done=True, detail=f"{field[-1]} {value} was not {_WHOSE[owner]}")
            remaining = without_owner(entries, field, owner)
            body = {"metadata": {"managedFields": remaining, "resourceVersion": metadata["resourceVersion"]}}
            api.patch(target.path, body, fieldManager=MANAGER)
        except ApiError as error:
            if error.status != 409 or not attempts_left:
                return HoldResult(target, done=False, detail=f"NOT released: {collapsed(error)}")
        else:
            others = ", ".join(owners_of(remaining, field)) or "without an owner; the next apply takes it"
            return HoldResult(target, done=True, detail=f"{field[-1]} stays {value}; owner now: {others}")
    raise AssertionError("the last try returns")


def _field(target: Target, item: Mapping[str, Any]) -> tuple[str, str]:
    if target.kind != "budget":
        return REPLICAS
    return MIN_AVAILABLE if MIN_AVAILABLE[-1] in item["spec"] else MAX_UNAVAILABLE


def owners_of(entries: Sequence[Entry], field: Sequence[str]) -> list[str]:
    """Return the managers of a field, each once."""
    names = [str(entry.get("manager", "")) for entry in entries if _owns(entry.get("fieldsV1"), field)]
    return list(dict.fromkeys(names))


def without_owner(entries: Sequence[Entry], field: Sequence[str], manager: str) -> list[Entry]:
    """Return the entries with `manager` no longer an owner of `field`; an entry that owns nothing else is dropped.

    An empty result becomes one empty entry, which clears the list: the API server ignores an empty list.
    """
    remaining: list[Entry] = []
    for entry in entries:
        fields = entry.get("fieldsV1")
        if entry.get("manager") != manager or not _owns(fields, field):
            remaining.append(entry)
        elif other_fields := _without(cast("Mapping[str, Any]", fields), field):
            remaining.append({**entry, "fieldsV1": other_fields})
    return remaining or [{}]


def _owns(fields: object, path: Sequence[str]) -> bool:
    for name in path:
        if not isinstance(fields, Mapping) or f"f:{name}" not in fields:
            return False
        fields = cast("Mapping[str, Any]", fields)[f"f:{name}"]
    return True


def _without(fields: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Remove the field and every parent that only it needs; `.` marks a parent that is owned itself."""
    key, tail = f"f:{path[0]}", path[1:]
    inner = _without(cast("Mapping[str, Any]", fields[key]), tail) if tail else {}
    return {name: inner if name == key else value for name, value in fields.items() if name != key or inner}
