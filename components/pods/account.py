"""The ServiceAccount of a pod, and whether the pod has a token of the API server.

By default none and no. A pod with rights has an account of its own, named after it and made here. **Rights on AWS need
no token of the API server**: EKS puts a volume with a token for Pod Identity alone into the pod
(aws/amazon-eks-pod-identity-webhook, `pkg/handler/handler.go`), whatever `automountServiceAccountToken` says.

An account that others made is named as it is, and the field is left out: then the account's own
`automountServiceAccountToken` decides, which is true unless its owner said otherwise. To set it here would overrule the
one who knows what the account is for: many hold rights on a cloud alone.
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
    """The account that a pod with rights needs before it starts; nothing for one without."""
    if pod.aws is None and not calls_api:
        return []
    return [
        ServiceAccount(
            resource_name,
            metadata={"name": identity.name, "namespace": namespace, "labels": identity.labels},
            automount_service_account_token=False,  # the pod that is to hold one says so itself
            opts=pulumi.ResourceOptions(parent=parent),
        )
    ]
