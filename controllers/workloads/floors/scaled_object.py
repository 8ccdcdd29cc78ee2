"""`spec.minReplicaCount` of KEDA's ScaledObject: the HPA that KEDA makes of it is written over by KEDA."""

from controllers.workloads.floors.field import Field

MIN_REPLICA_COUNT = Field(
    api="keda.sh/v1alpha1",
    kind="ScaledObject",
    least="minReplicaCount",
    most="maxReplicaCount",
    if_absent=0,
    most_if_absent=100,
)
"""Source of what an absent field means: KEDA 2.21, `defaultHPAMinReplicas` and `defaultHPAMaxReplicas`."""
