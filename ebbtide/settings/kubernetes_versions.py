"""The Kubernetes versions that a cluster may have, and for how long each costs the usual price.

The cluster autoscaler simulates the scheduler of one Kubernetes minor, so a version is supported once a release of the
autoscaler for it is known: `components.autoscaler_flags` names one for each, `components.add_on_versions` the add-ons,
and tests hold the three together.

EKS upgrades a control plane by one minor at a time, and never back. Past the end of standard support a cluster either
costs six times as much per hour (extended support) or is upgraded by EKS on a day of its own choice.
"""

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.wanted import wanted

STANDARD_SUPPORT_UNTIL: Mapping[str, date] = {
    "1.33": date(2026, 7, 29),
    "1.34": date(2026, 12, 2),
    "1.35": date(2027, 3, 27),
}
"""Source: Amazon EKS user guide, Kubernetes release calendar (`kubernetes-versions.html`), read in April 2026."""

KUBERNETES_VERSIONS = tuple(STANDARD_SUPPORT_UNTIL)
"""The oldest first."""

_MINOR = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?(-.*)?")


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
    if match is None:
        return ""
    if (minor := f"{match[1]}.{match[2]}") in KUBERNETES_VERSIONS:
        return f"did you mean {minor}? EKS chooses the patch release"
    oldest = tuple(map(int, KUBERNETES_VERSIONS[0].split(".")))
    if (int(match[1]), int(match[2])) < oldest:
        return "EKS has it in extended support at best"
    return "not known to this release of Ebbtide; EKS may not have it either"


KubernetesVersion: TypeAlias = Annotated[
    str,
    BeforeValidator(parse_kubernetes_version),
    WithJsonSchema({"type": "string", "enum": list(KUBERNETES_VERSIONS)}),
]
