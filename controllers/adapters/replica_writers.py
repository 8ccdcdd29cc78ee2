"""The managers that wrote a Deployment's replicas, and which of them conflicts with the controller. Pure.

A conflicting manager writes another number than the controller's. The controller applies its number with force, which
takes the field from every manager with another one; a later write of another number takes the field from the
controller. So managers beside the controller agree with it. Without the controller in the list, the agreed number
decides: the controller's last one, or the one that a person has set since. An admission policy that keeps the replicas
(`pool.replicas: kept`) leaves the field to the applier, with the agreed number.

The trap: between two looks at the cluster a person may write and an applier take over the field. So the agreed number
follows every version of a Deployment, in the order of the watch.

After a restart there is no agreed number until the controller writes one. Meanwhile a write through `scale` conflicts,
since autoscalers write there, and so does a write of Ebbtide's own Deployments after their creation. The owner of an
adopted Deployment may have written its number.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from controllers.adapters.kube_api import Json
from ebbtide.vocabulary.labels import FIELD_MANAGER

# They write replicas when they create the object or when a person asks; "before-first-apply" covers unnamed writers.
_ONLY_DECLARE = ("ebbtide", "pulumi", "kubectl", "before-first-apply")
# Of adopted Deployments `kubectl apply` and Pulumi may be the owner's tools, which write their number again.
_ASKED_BY_A_PERSON = ("ebbtide", "kubectl-edit", "kubectl-patch")
_ONE_WRITE = timedelta(seconds=10)


class Writer(NamedTuple):
    """A manager that owns the replicas."""

    name: str
    through_scale: bool
    after_creation: bool
    at: datetime | None  # of its last change to any of its fields, by the API server's clock

    def __str__(self) -> str:
        return f"{self.name} (through scale)" if self.through_scale else self.name


class ReplicaWriters:
    """The agreed numbers of one namespace's Deployments. `adopted` are the names of those that others write."""

    def __init__(self, adopted: Collection[str]) -> None:
        self._adopted = adopted
        self._agreed: dict[str, int] = {}  # by uid

    def conflicting_manager(self, item: Json) -> str:
        """Take in the next version of a Deployment; return its conflicting manager, empty if there is none."""
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
    """True if the object has no replicas and the manager is among the owners of that number."""
    asleep = not (item.get("spec") or {}).get("replicas")
    return asleep and any(writer.name == manager for writer in writers_of(item["metadata"]))


def conflicting_manager(writers: Sequence[Writer], *, adopted: bool, differs: bool) -> str:
    """Return the first conflicting manager; empty if there is none.

    `differs`: there is an agreed number, and the present one is another.
    """
    for writer in () if _is_ours(writers) else writers:
        by_hand = writer.name.startswith("kubectl") and writer.through_scale
        if by_hand or writer.name.startswith(_ASKED_BY_A_PERSON if adopted else _ONLY_DECLARE):
            continue
        if differs or writer.through_scale or (writer.after_creation and not adopted):
            return str(writer)
    return ""


def _is_ours(writers: Sequence[Writer]) -> bool:
    return any(writer.name == FIELD_MANAGER for writer in writers)


def _is_later(time: str | None, created: str | None) -> bool:
    """Return True for a write after the creation, whose two times may lie in two different seconds."""
    return not (time and created) or datetime.fromisoformat(time) - datetime.fromisoformat(created) > _ONE_WRITE
