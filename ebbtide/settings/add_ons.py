"""The add-ons that EKS runs for us, as the stack file names them, and the versions it may ask for.

A version is EKS's own: the software's, and the number of the build (`v1.12.1-eksbuild.2`). The software's alone is
refused, since EKS would refuse it an hour later.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ebbtide.settings.problems import did_you_mean
from ebbtide.settings.wanted import wanted


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
    raise wanted("the name of an add-on", found=f"the key {value!r}", example=AddOn.COREDNS, hint=hint)


def parse_add_on_version(value: object) -> str:
    if not isinstance(value, str) or re.fullmatch(VERSION, value) is None:
        hint = "aws eks describe-addon-versions lists what a cluster version takes"
        raise wanted("a version of the add-on with its build, as EKS writes it", example=_EXAMPLE, hint=hint)
    return value


def kube_proxy_follows(version: str, versions: Mapping[AddOn, str]) -> None:
    """It may be no newer than the API server, and one left behind ends up outside the skew that Kubernetes allows."""
    asked = versions.get(AddOn.KUBE_PROXY)
    if asked is not None and not asked.startswith(f"v{version}."):
        raise wanted(
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
