"""The only module that declares fields which another manager writes after Pulumi.

Pulumi declares the protected value once and then ignores the field; a controller in the cluster, an HPA or the cluster
autoscaler writes it. The trap: an ignore path is compared with the provider's names, so a snake_case path
(`spec.max_unavailable`) is silently accepted, matches nothing, and the next unrelated update resets the field. Hence
the fixed list of paths below, and one helper that fills `ignore_changes` and the table that previews and policies read.
"""

from dataclasses import dataclass
from enum import StrEnum

import pulumi

from ebbtide.vocabulary.labels import PREFIX
from ebbtide.vocabulary.node_pools import FIELD

REPLICAS = "spec.replicas"
MAX_UNAVAILABLE = "spec.maxUnavailable"
MIN_AVAILABLE = "spec.minAvailable"
DESIRED_SIZE = "scalingConfig.desiredSize"
MIN_REPLICAS = "spec.minReplicas"
MIN_REPLICA_COUNT = "spec.minReplicaCount"
DISRUPTION_BUDGETS = FIELD

KINDS_OF_FIELD = {
    REPLICAS: frozenset({"Deployment", "StatefulSet"}),
    MAX_UNAVAILABLE: frozenset({"PodDisruptionBudget"}),
    MIN_AVAILABLE: frozenset({"PodDisruptionBudget"}),
    DESIRED_SIZE: frozenset({"NodeGroup"}),
    MIN_REPLICAS: frozenset({"HorizontalPodAutoscaler"}),
    MIN_REPLICA_COUNT: frozenset({"ScaledObject"}),
    DISRUPTION_BUDGETS: frozenset({"NodePool"}),
}

REPLICAS_OWNER = PREFIX + "replicas-owner"
"""Annotation with the owner of `replicas`, on a Deployment or StatefulSet whose replicas Pulumi does not own."""


class FieldOwner(StrEnum):
    """The writer of a field after Pulumi declared it."""

    CONTROLLER = "controller"
    HPA = "hpa"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    WORKLOADS = "workload-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedField:
    """One field of one object. `initial` is the protected value, which is safe without the owner."""

    kind: str
    name: str
    field: str
    owner: FieldOwner
    initial: int
    namespace: pulumi.Input[str] = ""  # empty for objects outside the cluster

    def __post_init__(self) -> None:
        kinds = KINDS_OF_FIELD.get(self.field)
        if kinds is None:
            raise ValueError(
                f"{self.field}: wanted one of {', '.join(KINDS_OF_FIELD)} (camelCase, as the provider says)"
            )
        if self.kind not in kinds:
            raise ValueError(f"{self.field}: a {self.kind} has no such field (it is one of {', '.join(sorted(kinds))})")


class OwnershipTable:
    """The fields handed over so far; one per composed stack."""

    def __init__(self) -> None:
        self._rows: list[OwnedField] = []

    def add(self, row: OwnedField) -> None:
        self._rows.append(row)

    @property
    def rows(self) -> tuple[OwnedField, ...]:
        return tuple(self._rows)

    def exported(self) -> list[dict[str, pulumi.Input[str] | int]]:
        """Return the table as a stack output."""
        return [
            {
                "kind": row.kind,
                "namespace": row.namespace,
                "name": row.name,
                "field": row.field,
                "owner": row.owner.value,
                "initial": row.initial,
            }
            for row in self._rows
        ]


def hand_over(row: OwnedField, *, parent: pulumi.Resource, table: OwnershipTable | None) -> pulumi.ResourceOptions:
    """Return options for the field's object: Pulumi creates it with the initial value and then ignores the field."""
    if table is not None:
        table.add(row)
    return pulumi.ResourceOptions(parent=parent, ignore_changes=[row.field])
