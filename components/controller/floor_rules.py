"""The only change that the workload controller may make to an autoscaler: a minimum between `min` and `max`. Pure.

The expressions are CEL, as in `components.controller.admission`. `AutoscalerResource.others` lists the other fields of
the autoscaler's spec, which must not change: CEL cannot enumerate the fields of an object.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from components.controller.admission import BINDINGS_STAY, unchanged
from ebbtide.vocabulary.workloads import FloorPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerResource:
    group: str
    version: str
    resource: str
    least: str  # the minimum's field in the spec
    others: tuple[str, ...]
    keda: bool

    def among(self, floors: Sequence[FloorPolicy]) -> Sequence[FloorPolicy]:
        return [policy for policy in floors if policy.keda is self.keda]


AUTOSCALERS = (
    AutoscalerResource(
        group="autoscaling",
        version="v2",
        resource="horizontalpodautoscalers",
        least="minReplicas",
        others=("scaleTargetRef", "maxReplicas", "metrics", "behavior"),
        keda=False,
    ),
    AutoscalerResource(
        group="keda.sh",
        version="v1alpha1",
        resource="scaledobjects",
        least="minReplicaCount",
        others=(
            *("scaleTargetRef", "maxReplicaCount", "idleReplicaCount", "pollingInterval", "initialCooldownPeriod"),
            *("cooldownPeriod", "fallback", "advanced", "triggers"),
        ),
        keda=True,
    ),
)
"""Source of the fields: Kubernetes, autoscaling/v2, HorizontalPodAutoscalerSpec; KEDA 2.21, ScaledObjectSpec."""


def bounds(floors: Sequence[FloorPolicy]) -> str:
    """Return a CEL map: the allowed range of the minimum by the autoscaler's name."""
    entries = ", ".join(f"'{policy.name}': [{policy.least}, {policy.most}]" for policy in floors)
    return f"{{{entries}}}"


def floor_rules(kind: AutoscalerResource) -> dict[str, str]:
    field = f"object.spec.{kind.least}"
    limits = "variables.bounds[object.metadata.name]"
    within = f"object.metadata.name in variables.bounds && {limits}[0] <= {field} && {field} <= {limits}[1]"
    fields = ("metadata.annotations", *(f"spec.{other}" for other in kind.others))
    return {
        **BINDINGS_STAY,
        **{unchanged(path): f"{path} must stay as it is" for path in fields},
        f"has({field}) && {within}": f"{kind.least} must lie between min and max of the stack file",
    }
