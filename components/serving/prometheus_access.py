"""KEDA's access to a Prometheus that requires authentication: the Secrets, and how KEDA uses them.

KEDA reads the name of a secret header only from a ConfigMap or Secret, hence the ConfigMap.

Source: `pkg/scalers/prometheus_scaler.go` and `pkg/scalers/authentication` of the release that `data/README.md` names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import ConfigMap

from components.context import StackContext
from components.serving.scaling import ACCESS
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.sections.serving.access import PrometheusAccess as AccessSettings
from ebbtide.vocabulary.labels import NAMESPACE

if TYPE_CHECKING:
    from pulumi_kubernetes.meta.v1 import ObjectMetaArgsDict

_NAME = "header"
_PARAMETERS = {"token": "bearerToken", "header": "customAuthValue", "authority": "ca"}


@dataclass(frozen=True, kw_only=True)
class PrometheusAccessArgs:
    stack: StackContext
    access: AccessSettings


class PrometheusAccess(pulumi.ComponentResource):
    def __init__(self, name: str, args: PrometheusAccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:PrometheusAccess", name, None, opts)
        metadata: ObjectMetaArgsDict = {
            "name": ACCESS,
            "namespace": NAMESPACE,
            "labels": {CUSTOMER: args.stack.customer},
        }
        before: list[pulumi.Resource] = []
        if args.access.header is not None:
            data = {_NAME: args.access.header.name}
            child = pulumi.ResourceOptions(parent=self)
            before.append(ConfigMap(f"{name}-header", metadata=metadata, data=data, opts=child))
        CustomResource(
            f"{name}-authentication",
            api_version="keda.sh/v1alpha1",
            kind="TriggerAuthentication",
            metadata=metadata,
            spec=authentication(args.access),
            opts=pulumi.ResourceOptions(parent=self, depends_on=before),
        )
        self.register_outputs({})


def authentication(access: AccessSettings) -> Mapping[str, Any]:
    """Return the spec of the TriggerAuthentication, which maps Secrets to parameters."""
    secrets = [{"parameter": _PARAMETERS[key], "name": source.secret, "key": source.key} for key, source in access.held]
    if access.header is None:
        return {"secretTargetRef": secrets}
    header_name = [{"parameter": "customAuthHeader", "name": ACCESS, "key": _NAME}]
    return {"secretTargetRef": secrets, "configMapTargetRef": header_name}
