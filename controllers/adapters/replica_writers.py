"""The managers that wrote a Deployment's replicas, and which of them conflicts with the controller. Pure.

A conflicting manager writes another number than the controller does. The controller applies its number with force,
which takes the field from every manager with another number; a later write of another number takes the field from the
controller. So managers that share the field with the controller agree with it. If the controller does not own the
field, the agreed number decides: the last number of the controller, or of a person who has set one since. An admission
policy that keeps the replicas (`pool.replicas: kept`) leaves the field to the applier, with the agreed number.

The trap: between two readings of the cluster, a person may write the field and an applier may take it over. So the
agreed number follows every version of a Deployment, in the order of the watch.

After a restart there is no agreed number until the controller writes one. Meanwhile a write through `scale` conflicts,
since autoscalers use `scale`, and so does a write to one of Ebbtide's own Deployments after its creation. Any other
write to an adopted Deployment does not, since it may come from the owner.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import FIELD_MANAGER

# These write replicas only at creation or when a person runs them; "before-first-apply" covers unnamed writers.
_ONLY_DECLARE = ("ebbtide", "pulumi", "kubectl", "before-first-apply")
# For adopted Deployments, `kubectl apply` and Pulumi may be the owner's tools, which write their number repeatedly.
_ASKED_BY_A_PERSON = ("ebbtide", "kubectl-edit", "kubectl-patch")
_ONE_WRITE = timedelta(seconds=10)


class Writer(NamedTuple):
    """A manager that owns the replicas."""

    name: str
    through_scale: bool
    after_creation: bool
    at: datetime | None  # last change to any of the manager's fields, by the API server's clock

    def __str__(self) -> str:
        return f"{self.name} (through scale)" if self.through_scale else self.name


class ReplicaWriters:
    """The agreed numbers of one namespace's Deployments. `adopted` are the names of adopted Deployments."""

    def __init__(self, adopted: Collection[str]) -> None:
        self._adopted = adopted
        self._agreed: dict[str, int] = {}  # by uid

    def conflicting_manager(self, item: Json) -> str:
        """Process the next version of a Deployment; return its conflicting manager, empty if there is none."""
        metadata, replicas = item["metadata"], item["spec"].get("replicas", 0)
        writers, agreed = writers_of(metadata), self._agreed.get(metadata["uid"])
        manager = ""
        if replicas != agreed:
            adopted = metadata["name"] in self._adopted
            manager = conflicting_manager(writers, adopted=adopted, differs=agreed is not None)
        if not manager and (agreed is not None or _is_ours(writers)):
            self._agreed[metadata["uid"]] = replicas
        return manager


def writers_of(metadata: Mapping[str, Any]) -> tuple[Writer, ...]:
    return tuple(
        Writer(
            name=entry.get("manager", ""),
            through_scale=entry.get("subresource") == "scale",
            after_creation=_is_later(entry.get("time"), metadata.get("creationTimestamp")),
            at=datetime.fromisoformat(entry["time"]) if entry.get("time") else None,
        )
        for entry in metadata.get("managedFields", ())
        if "f:replicas" in (entry.get("fieldsV1") or {}).get("f:spec", {})
    )


def has_put_to_sleep(manager: str, item: Json) -> bool:
    """Return True if the object has 0 replicas and `manager` is an owner of that field."""
    asleep = not (item.get("spec") or {}).get("replicas")
    return asleep and any(writer.name == manager for writer in writers_of(item["metadata"]))


def conflicting_manager(writers: Sequence[Writer], *, adopted: bool, differs: bool) -> str:
    """Return the first conflicting manager; empty if there is none.

    `differs`: there is an agreed number, and the present number is different.
    """
    for writer in () if _is_ours(writers) else writers:
        by_hand = writer.name.startswith("kubectl") and writer.through_scale
        if by_hand or writer.name.startswith(_ASKED_BY_A_PERSON if adopted else _ONLY_DECLARE):
            continue
        if differs or writer.through_scale or (writer.after_creation and not adopted):
            return str(writer)
    return ""


def scaling_manager(writers: Sequence[Writer]) -> str:
    """Return the first manager, other than Ebbtide and persons, that writes through `scale`; empty if there is none.

    An admission policy that keeps the replicas does not change such writes.
    """
    others = (w for w in writers if w.through_scale and not w.name.startswith(("ebbtide", "kubectl")))
    return next(map(str, others), "")


def _is_ours(writers: Sequence[Writer]) -> bool:
    return any(writer.name == FIELD_MANAGER for writer in writers)


def _is_later(time: str | None, created: str | None) -> bool:
    """Return True for a write after the creation. The two times of the creation itself may differ by seconds."""
    return not (time and created) or datetime.fromisoformat(time) - datetime.fromisoformat(created) > _ONE_WRITE
