"""The Kubernetes versions that a cluster may have, and for how long each costs the usual price.

The cluster autoscaler simulates the scheduler of one Kubernetes minor, so a version is supported once a release of the
autoscaler for it is known: `components.cluster.autoscaler_settings` names one for each,
`components.aws.add_on_versions` the add-ons, and tests hold the three together.

EKS upgrades a control plane by one minor at a time, and never back. Past the end of standard support a cluster either
costs six times as much per hour (extended support) or is upgraded by EKS on a day of its own choice.

A version of an add-on is EKS's own: the software's, and the number of the build (`v1.12.1-eksbuild.2`). The software's
alone is refused, since EKS would refuse it an hour later.
"""

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.file.problems import did_you_mean
from ebbtide.settings.file.wanted import wanted

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
    code, hint = _version_fault(value)
    raise wanted(
        code,
        f"one of {', '.join(KUBERNETES_VERSIONS)} as text, the versions with a known cluster autoscaler",
        example=f'"{KUBERNETES_VERSIONS[-1]}"',
        hint=hint,
    )


def _version_fault(value: object) -> tuple[str, str]:
    """Its code, and a hint."""
    if isinstance(value, int | float):
        return "kubernetes-version.number", "quote it: as a number 1.30 is 1.3"
    match = _MINOR.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "kubernetes-version.form", ""
    if (minor := f"{match[1]}.{match[2]}") in KUBERNETES_VERSIONS:
        return "kubernetes-version.patch", f"did you mean {minor}? EKS chooses the patch release"
    oldest = tuple(map(int, KUBERNETES_VERSIONS[0].split(".")))
    if (int(match[1]), int(match[2])) < oldest:
        return "kubernetes-version.too-old", "EKS has it in extended support at best"
    return "kubernetes-version.unknown", "not known to this release of Ebbtide; EKS may not have it either"


KubernetesVersion: TypeAlias = Annotated[
    str,
    BeforeValidator(parse_kubernetes_version),
    WithJsonSchema({"type": "string", "enum": list(KUBERNETES_VERSIONS)}),
]


class AddOn(StrEnum):
    """The names are EKS's."""

    VPC_CNI = "vpc-cni"
    KUBE_PROXY = "kube-proxy"
    POD_IDENTITY_AGENT = "eks-pod-identity-agent"
    COREDNS = "coredns"
    EBS_CSI_DRIVER = "aws-ebs-csi-driver"
    METRICS_SERVER = "metrics-server"
    NODE_MONITORING_AGENT = "eks-node-monitoring-agent"


VERSION = r"^v\d+\.\d+\.\d+-eksbuild\.\d+$"
_EXAMPLE = "v1.12.1-eksbuild.2"
_NAMES = tuple(add_on.value for add_on in AddOn)


def parse_add_on(value: object) -> AddOn:
    if isinstance(value, str) and value in _NAMES:
        return AddOn(value)
    hint = did_you_mean(value, _NAMES) if isinstance(value, str) else ""
    raise wanted("add-on.name", "the name of an add-on", found=f"the key {value!r}", example=AddOn.COREDNS, hint=hint)


def parse_add_on_version(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(VERSION, value) is None:
        hint = "aws eks describe-addon-versions lists what a cluster version takes"
        raise wanted(
            "add-on.version", "a version of the add-on with its build, as EKS writes it", example=_EXAMPLE, hint=hint
        )
    return value


def kube_proxy_follows(version: str, versions: Mapping[AddOn, str]) -> None:
    """It may be no newer than the API server, and one left behind ends up outside the skew that Kubernetes allows."""
    asked = versions.get(AddOn.KUBE_PROXY)
    if asked is not None and not asked.startswith(f"v{version}."):
        raise wanted(
            "add-on.kube-proxy-version",
            f"a kube-proxy of the cluster's version {version}",
            found=asked,
            example=f"v{version}.0-eksbuild.2",
            hint="leave it out, and it moves with the cluster",
            at="addOnVersions",
        )


AddOnName: TypeAlias = Annotated[
    AddOn,
    BeforeValidator(parse_add_on),
    WithJsonSchema({"type": "string", "enum": list(_NAMES)}),
]
AddOnVersion: TypeAlias = Annotated[
    str, BeforeValidator(parse_add_on_version), WithJsonSchema({"type": "string", "pattern": VERSION})
]
