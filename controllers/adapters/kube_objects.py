"""The cached parts of the scaler's objects. Pure. Fields may be missing (a number is then 0); no object is refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from controllers.adapters.kube_api import Json
from controllers.adapters.replica_writers import ReplicaWriters
from controllers.ports import ObservedBudget, ObservedPod, ObservedPool, PodPhase
from ebbtide.vocabulary.holds import hold_of
from ebbtide.vocabulary.labels import DELETION_COST

T_co = TypeVar("T_co", covariant=True)

_PHASES = {"Pending": PodPhase.PENDING, "Succeeded": None, "Failed": None}  # an ended pod is no capacity
_USUAL_WAITS = ("ContainerCreating", "PodInitializing")  # any other wait of a container is a failure


@dataclass(frozen=True, slots=True)
class Stored(Generic[T_co]):
    uid: str
    owner: str  # uid of its controller
    seen: T_co


@dataclass(frozen=True, slots=True)
class StoredPool(Stored[ObservedPool]):
    selector: str  # from `matchLabels` only, so it matches all pods of the pool


@dataclass(frozen=True, slots=True)
class Lifetime:
    ending: bool
    startup: timedelta | None  # from creation to ready; None before it is ready


def deployment(item: Json, writers: ReplicaWriters) -> StoredPool:
    """Convert a Deployment to a pool without pods; `settled` considers only the Deployment."""
    metadata, spec, refusal = item["metadata"], item["spec"], _condition(item, "ReplicaFailure")
    replicas, labels = spec.get("replicas", 0), Json(spec.get("selector", {}).get("matchLabels") or ())
    version, hold = metadata["resourceVersion"], hold_of(_annotations(metadata))
    # The message contains the name of the refused pod, but the same refusal must have the same text.
    refused = refusal.get("message", "refused").rpartition(" is forbidden: ")[2] if refusal else ""
    existing: int = item.get("status", {}).get("replicas", 0)
    settled = _observed(item) and (bool(refusal) or existing == replicas)
    seen = ObservedPool(replicas=replicas, existing=existing, pods=(), settled=settled, version=version)
    other, grace = writers.conflicting_manager(item), _grace(spec.get("template", {}))
    seen = replace(seen, refused=refused, conflicting_manager=other, hold=hold, grace=grace)
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return StoredPool(metadata["uid"], "", seen, selector)


def replica_set(item: Json) -> Stored[int]:
    """Return the number of pods that a ReplicaSet requests or still has; -1 until it has observed its newest spec."""
    requested, existing = item["spec"].get("replicas", 0), item.get("status", {}).get("replicas", 0)
    return _stored(item["metadata"], max(requested, existing) if _observed(item) else -1)


def pod(item: Json) -> Stored[ObservedPod] | None:
    metadata = item["metadata"]
    phase = _PHASES.get(
        item.get("status", {}).get("phase", "Pending"), PodPhase.RUNNING
    )  # a pod in an unknown phase may work
    if phase is None:
        return None
    if "deletionTimestamp" in metadata:
        phase = PodPhase.TERMINATING
    elif _is_unreachable(item):
        phase = PodPhase.UNREACHABLE
    elif _is_failing(item):
        phase = PodPhase.FAILING
    marked = _annotations(metadata).get(DELETION_COST, "").startswith("-")
    return _stored(metadata, ObservedPod(name=metadata["name"], phase=phase, marked=marked, grace=_grace(item)))


def _grace(pod: Json) -> int:
    """Return the grace period in seconds, of a pod or a pod template."""
    return pod.get("spec", {}).get("terminationGracePeriodSeconds", 0)


def _is_unreachable(item: Json) -> bool:
    """If a node is silent, the node controller changes only `Ready`; a kubelet would also change `ContainersReady`."""
    ungated = not item["spec"].get("readinessGates")
    return ungated and bool(_condition(item, "Ready", "False") and _condition(item, "ContainersReady"))


def _is_failing(item: Json) -> bool:
    """Return True if a container is stuck and no main container runs, since a running one might hold a job."""
    status = item.get("status", {})
    main, early = (_states(status.get(kind)) for kind in ("containerStatuses", "initContainerStatuses"))
    waits: list[str] = [state["waiting"].get("reason", "") for state in main + early if "waiting" in state]
    stuck = any(why and why not in _USUAL_WAITS for why in waits)
    return stuck and not any("running" in state for state in main)


def _states(containers: Sequence[Json] | None) -> list[Json]:
    return [container.get("state") or {} for container in containers or ()]


def budget(item: Json) -> Stored[ObservedBudget]:
    """A percentage counts as its number, and `minAvailable` counts as open; a budget with neither is closed."""
    metadata, spec = item["metadata"], item["spec"]
    least, hold, version = spec.get("minAvailable"), hold_of(_annotations(metadata)), metadata["resourceVersion"]
    number = str(spec.get("maxUnavailable", int("minAvailable" in spec))).rstrip("%")
    most = int(number) if number.isdecimal() else 1
    seen = ObservedBudget(max_unavailable=most, settled=_observed(item), version=version, hold=hold)
    return _stored(metadata, replace(seen, minimum=least if isinstance(least, int) else None))


def lifetime(item: Json) -> Stored[Lifetime]:
    metadata, ready = item["metadata"], _condition(item, "Ready").get("lastTransitionTime")
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    startup = datetime.fromisoformat(ready) - created if ready else None
    return _stored(metadata, Lifetime("deletionTimestamp" in metadata, startup))


def _stored(metadata: Mapping[str, Any], seen: T_co) -> Stored[T_co]:
    owners = (owner["uid"] for owner in metadata.get("ownerReferences", ()) if owner.get("controller"))
    return Stored(metadata["uid"], next(owners, ""), seen)


def _annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("annotations") or {}


def _observed(item: Json) -> bool:
    return item.get("status", {}).get("observedGeneration", 0) >= item["metadata"].get("generation", 0)


def _condition(item: Json, kind: str, status: str = "True") -> Json:
    conditions = item.get("status", {}).get("conditions") or ()
    return next((entry for entry in conditions if (entry["type"], entry["status"]) == (kind, status)), Json())
