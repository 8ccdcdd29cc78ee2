"""The fields of autoscalers that contain the minimum of pods, and the observed parts of such objects. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ebbtide.vocabulary.labels import PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAutoscaler:
    """State of an autoscaler. `min_pods` and `max_pods` are None if they are unreadable."""

    annotations: Mapping[str, str]
    min_pods: int | None
    max_pods: int | None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorField:
    """`min_key` and `max_key` are keys of the spec; an absent key means the default."""

    api: str
    kind: str
    min_key: str
    max_key: str
    default_min: int
    default_max: int | None  # None: the API requires the key

    def path(self, namespace: str) -> str:
        return f"/apis/{self.api}/namespaces/{namespace}/{self.kind.lower()}s"

    def observed(self, item: Mapping[str, Any]) -> ObservedAutoscaler:
        annotations: Mapping[str, str] = item["metadata"].get("annotations") or {}
        spec: Mapping[str, Any] = item.get("spec") or {}
        return ObservedAutoscaler(
            annotations={key: value for key, value in annotations.items() if key.startswith(PREFIX)},
            min_pods=_integer(spec.get(self.min_key, self.default_min)),
            max_pods=_integer(spec.get(self.max_key, self.default_max)),
            version=item["metadata"]["resourceVersion"],
        )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# The API refuses a minimum above the maximum.
MIN_REPLICAS = FloorField(
    api="autoscaling/v2",
    kind="HorizontalPodAutoscaler",
    min_key="minReplicas",
    max_key="maxReplicas",
    default_min=1,
    default_max=None,
)

# KEDA overwrites the HPA that it creates, so the controller writes the ScaledObject.
# Source of the defaults: KEDA 2.21, `defaultHPAMinReplicas` and `defaultHPAMaxReplicas`.
MIN_REPLICA_COUNT = FloorField(
    api="keda.sh/v1alpha1",
    kind="ScaledObject",
    min_key="minReplicaCount",
    max_key="maxReplicaCount",
    default_min=0,
    default_max=100,
)
