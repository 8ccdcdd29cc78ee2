"""Kubernetes versions of a cluster, and the end of each one's standard support.

The cluster autoscaler simulates the scheduler of one Kubernetes minor, so a version is supported once an autoscaler
release for it is known: `components.cluster.autoscaler_settings` names one per version,
`components.aws.add_ons` the add-ons, and tests compare the three. A newer version is accepted if the stack file
names all of these.

EKS upgrades a control plane by one minor at a time, and never back. After standard support a cluster either costs six
times as much per hour (extended support) or EKS upgrades it on a day that EKS chooses.

Versions of add-ons have EKS' form: the software's version and a build number (`v1.12.1-eksbuild.2`). A version without
the build number is refused, as EKS would refuse it an hour later.
"""

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.file.problems import did_you_mean, wanted
from ebbtide.settings.sections.grammar import text

STANDARD_SUPPORT_UNTIL: Mapping[str, date] = {
    "1.33": date(2026, 7, 29),
    "1.34": date(2026, 12, 2),
    "1.35": date(2027, 3, 27),
    "1.36": date(2027, 8, 2),
}
"""Sources: Amazon EKS user guide, Kubernetes release calendar (`kubernetes-versions.html`), read in April 2026; for
1.36 public outputs of `aws eks describe-cluster-versions` of September 2026."""

KUBERNETES_VERSIONS = tuple(STANDARD_SUPPORT_UNTIL)
"""Oldest first."""

UNSET_VERSION = "1.35"
"""Version of a file without the key. Never raised: that would upgrade live clusters, which cannot be undone."""

_MINOR = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?(-.*)?")
_NEWER = r"^1\.(3[7-9]|[4-9]\d)$"
"""Versions newer than the table."""


UNKNOWN_VERSION = "kubernetes-version.unknown"
KNOWN_VERSION = f"one of {', '.join(KUBERNETES_VERSIONS)} as text, the versions with a known cluster autoscaler"
VERSION_EXAMPLE = f'"{KUBERNETES_VERSIONS[-1]}"'


def parse_kubernetes_version(value: object) -> str:
    """Accept a minor of the table or a newer one, as text."""
    if isinstance(value, str) and (value in KUBERNETES_VERSIONS or is_newer(value)):
        return value
    code, hint = _version_fault(value)
    raise wanted(code, KNOWN_VERSION, example=VERSION_EXAMPLE, hint=hint)


def is_newer(version: str) -> bool:
    """True if the version comes after the last one whose autoscaler and add-ons this release knows."""
    return re.fullmatch(_NEWER, version) is not None


def _version_fault(value: object) -> tuple[str, str]:
    """Return code and hint."""
    if isinstance(value, int | float):
        return "kubernetes-version.number", "quote it: as a number 1.30 is 1.3"
    match = _MINOR.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return "kubernetes-version.form", ""
    if (minor := f"{match[1]}.{match[2]}") in KUBERNETES_VERSIONS or is_newer(minor):
        return "kubernetes-version.patch", f"did you mean {minor}? EKS chooses the patch release"
    oldest = tuple(map(int, KUBERNETES_VERSIONS[0].split(".")))
    if (int(match[1]), int(match[2])) < oldest:
        return "kubernetes-version.too-old", "EKS has it in extended support at best"
    return UNKNOWN_VERSION, "not known to this release of Ebbtide; EKS may not have it either"


KubernetesVersion: TypeAlias = Annotated[
    str,
    BeforeValidator(parse_kubernetes_version),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": list(KUBERNETES_VERSIONS)},
                {"type": "string", "pattern": _NEWER, "description": "a newer version"},
            ]
        }
    ),
]


class AddOn(StrEnum):
    """Add-ons by EKS' names."""

    VPC_CNI = "vpc-cni"
    KUBE_PROXY = "kube-proxy"
    POD_IDENTITY_AGENT = "eks-pod-identity-agent"
    COREDNS = "coredns"
    EBS_CSI_DRIVER = "aws-ebs-csi-driver"
    METRICS_SERVER = "metrics-server"
    NODE_MONITORING_AGENT = "eks-node-monitoring-agent"


_VERSION = r"^v\d+\.\d+\.\d+-eksbuild\.\d+$"
_EXAMPLE = "v1.12.1-eksbuild.2"
_NAMES = tuple(add_on.value for add_on in AddOn)


def parse_add_on(value: object) -> AddOn:
    if isinstance(value, str) and value in _NAMES:
        return AddOn(value)
    hint = did_you_mean(value, _NAMES) if isinstance(value, str) else ""
    raise wanted("add-on.name", "the name of an add-on", found=f"the key {value!r}", example=AddOn.COREDNS, hint=hint)


def kube_proxy_follows(version: str, versions: Mapping[AddOn, str]) -> None:
    """kube-proxy must not be newer than the API server, and an old one exceeds the version skew that is allowed."""
    kube_proxy = versions.get(AddOn.KUBE_PROXY)
    if kube_proxy is not None and not kube_proxy.startswith(f"v{version}."):
        raise wanted(
            "add-on.kube-proxy-version",
            f"a kube-proxy of the cluster's version {version}",
            found=kube_proxy,
            example=f"v{version}.0-eksbuild.2",
            hint="leave it out, and it moves with the cluster",
            at="addOnVersions",
        )


def add_ons_of_a_newer_version(version: str, versions: Mapping[AddOn, str]) -> None:
    """The tables of this release have no add-ons for a newer version."""
    missing = [add_on.value for add_on in AddOn if add_on not in versions]
    if is_newer(version) and missing:
        raise wanted(
            UNKNOWN_VERSION,
            KNOWN_VERSION,
            found=repr(version),
            example=VERSION_EXAMPLE,
            hint=f"{to_use_a_newer(version)} (missing: {', '.join(missing)})",
            at="version",
        )


def to_use_a_newer(version: str) -> str:
    return (
        f"this release knows no cluster autoscaler and no add-ons for {version}: to use it anyway, name an image in "
        "images.autoscaler and each add-on in cluster.addOnVersions"
    )


AddOnName: TypeAlias = Annotated[
    AddOn,
    BeforeValidator(parse_add_on),
    WithJsonSchema({"type": "string", "enum": list(_NAMES)}),
]
AddOnVersion: TypeAlias = Annotated[
    str,
    *text(
        _VERSION,
        "add-on.version",
        "a version of the add-on with its build, as EKS writes it",
        _EXAMPLE,
        hint="aws eks describe-addon-versions lists what a cluster version takes",
    ),
]
