"""`spec.minReplicas` of a HorizontalPodAutoscaler. The API refuses one above `spec.maxReplicas`."""

from controllers.workloads.floors.field import Field

MIN_REPLICAS = Field(
    api="autoscaling/v2",
    kind="HorizontalPodAutoscaler",
    least="minReplicas",
    most="maxReplicas",
    if_absent=1,
    most_if_absent=None,  # it has no default
)
