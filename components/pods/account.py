"""A pod's ServiceAccount, and its token for the API server.

By default a pod has neither. A pod with rights has a dedicated account with the pod's name. **Rights on AWS need no
token for the API server**: EKS mounts a separate token for Pod Identity (aws/amazon-eks-pod-identity-webhook,
`pkg/handler/handler.go`), whatever the value of `automountServiceAccountToken`.

For an existing account the pod leaves the field out, so the account's own `automountServiceAccountToken` decides, which
is true unless the account's owner set it. A value in the pod would overrule the owner, and many accounts only have
rights on a cloud.
"""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import ServiceAccount

from components.pods.rules import PodIdentity
from ebbtide.settings.sections.pods.pod import PodSettings


class AccountFields(TypedDict):
    """Fields of a pod's spec."""

    service_account_name: NotRequired[str]
    automount_service_account_token: NotRequired[bool]


def account_fields(name: str, pod: PodSettings, *, calls_api: bool = False) -> AccountFields:
    if pod.service_account is not None:
        return {"service_account_name": pod.service_account}
    if pod.aws is not None or calls_api:
        return {"service_account_name": name, "automount_service_account_token": calls_api}
    return {"automount_service_account_token": False}


def own_account(
    resource_name: str,
    identity: PodIdentity,
    pod: PodSettings,
    namespace: pulumi.Input[str],
    *,
    parent: pulumi.Resource,
    calls_api: bool = False,
) -> list[pulumi.Resource]:
    """Create the account of a pod with rights, before the pod. A pod without rights has none."""
    if pod.aws is None and not calls_api:
        return []
    return [
        ServiceAccount(
            resource_name,
            metadata={"name": identity.name, "namespace": namespace, "labels": identity.labels},
            automount_service_account_token=False,  # the pod's spec decides
            opts=pulumi.ResourceOptions(parent=parent),
        )
    ]
