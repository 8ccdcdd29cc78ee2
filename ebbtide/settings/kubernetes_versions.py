"""The Kubernetes versions that a cluster may have.

The cluster autoscaler simulates the scheduler of one Kubernetes minor, so a version is supported once a release of the
autoscaler for it is known: `components.autoscaler_flags` names one for each, and a test holds the two together.
"""

import re
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.wanted import wanted

KUBERNETES_VERSIONS = ("1.33", "1.34", "1.35")

_MINOR = re.compile(r"v?(\d+\.\d+)(\.\d+)?")


def parse_kubernetes_version(value: object) -> str:
    """A supported minor, as text."""
    if isinstance(value, str) and value in KUBERNETES_VERSIONS:
        return value
    raise wanted(
        f"one of {', '.join(KUBERNETES_VERSIONS)} as text, the versions with a known cluster autoscaler",
        example=f'"{KUBERNETES_VERSIONS[-1]}"',
        hint=_hint(value),
    )


def _hint(value: object) -> str:
    if isinstance(value, int | float):
        return "quote it: as a number 1.30 is 1.3"
    match = _MINOR.fullmatch(value) if isinstance(value, str) else None
    if match and match[1] in KUBERNETES_VERSIONS:
        return f"did you mean {match[1]}? EKS chooses the patch release"
    return ""


KubernetesVersion: TypeAlias = Annotated[
    str,
    BeforeValidator(parse_kubernetes_version),
    WithJsonSchema({"type": "string", "enum": list(KUBERNETES_VERSIONS)}),
]
