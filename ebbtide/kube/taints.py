"""Node taints and pod tolerations, compared as Kubernetes does, and the usual ones of GPU nodes.

Source: kubernetes, staging/src/k8s.io/component-helpers/scheduling/corev1, `ToleratesTaint`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ebbtide.provisioning_labels import NVIDIA
from ebbtide.vocabulary.labels import GPU_RESOURCE

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

EKS_EFFECTS: Mapping[str, str] = {
    "NO_SCHEDULE": NO_SCHEDULE,
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": PREFER_NO_SCHEDULE,
}
"""The effects of a managed node group's taints, with their names in Kubernetes."""


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    def __str__(self) -> str:
        return f"{self.key}{f'={self.value}' if self.value else ''}:{self.effect}"

    @property
    def document(self) -> dict[str, str]:
        """The taint in the form of the API."""
        return {"key": self.key, "value": self.value, "effect": self.effect}

    @property
    def eks_effect(self) -> str:
        return next(name for name, effect in EKS_EFFECTS.items() if effect == self.effect)

    @property
    def repels(self) -> bool:
        """True if the scheduler places no pod on the node that does not tolerate the taint."""
        return self.effect != PREFER_NO_SCHEDULE

    def tolerated_by(self, tolerations: Iterable["Toleration"]) -> bool:
        return any(toleration.tolerates(self) for toleration in tolerations)


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""  # empty: any key
    value: str | None = None  # None: any value, by the operator Exists
    effect: str = ""  # empty: any effect

    def tolerates(self, taint: Taint) -> bool:
        return self.key in ("", taint.key) and self.value in (None, taint.value) and self.effect in ("", taint.effect)

    @property
    def document(self) -> dict[str, str]:
        """The toleration in the form of the API."""
        operator = {"operator": "Exists"} if self.value is None else {"operator": "Equal", "value": self.value}
        fields = {"key": self.key, **operator, "effect": self.effect}
        return {field: text for field, text in fields.items() if text or field == "value"}


def taint_of(document: Mapping[str, object]) -> Taint:
    """Read a taint of the API, or of a managed node group in EKS' notation."""
    key, value, effect = (str(document.get(field) or "") for field in ("key", "value", "effect"))
    return Taint(key, value, EKS_EFFECTS.get(effect, effect))


def toleration_of(document: Mapping[str, object]) -> Toleration:
    key, value, effect = (str(document.get(field) or "") for field in ("key", "value", "effect"))
    return Toleration(key, None if document.get("operator") == "Exists" else value, effect)


GPU_TAINT = Taint(GPU_RESOURCE, "true")
"""The usual taint of NVIDIA GPU nodes, which Ebbtide sets on its GPU groups."""

ANY_GPU_TAINT = Toleration(GPU_TAINT.key, effect=NO_SCHEDULE)
"""For pods that run on every GPU node, whatever the value of its taint."""


def gpu_tolerations(resource: str) -> tuple[Toleration, ...]:
    """Tolerate the usual taint for NVIDIA's resources, and for any but the usual resource also a taint of its name."""
    usual = Toleration(GPU_TAINT.key, GPU_TAINT.value, GPU_TAINT.effect)
    of_resource = Toleration(resource, effect=NO_SCHEDULE)
    if resource == GPU_RESOURCE:
        return (usual,)
    return (usual, of_resource) if resource.startswith(NVIDIA) else (of_resource,)
