"""The two namespaces of a stack: one for workloads, one for queue workers. Workloads that start pods have their own.

Workers have a namespace of their own because the controller may patch pods there, and nowhere else.
Both enforce the restricted Pod Security level: everything Ebbtide writes meets it, and a pod that does not is refused
at once rather than found in an audit. GPUs need no exception, since the kubelet hands a container its devices; what
must see the node itself, the device plugin, lives in kube-system.
"""

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from components.context import StackContext
from components.pods.egress import ca_bundle
from ebbtide.provisioning_labels import CUSTOMER, WORKER_NAMESPACE
from ebbtide.vocabulary.labels import NAMESPACE

_POD_SECURITY = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}


class Namespaces(pulumi.ComponentResource):
    system: Namespace
    workers: Namespace

    def __init__(self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:Namespaces", name, None, opts)
        self.system = restricted_namespace(f"{name}-system", NAMESPACE, stack.customer, parent=self)
        self.workers = restricted_namespace(f"{name}-workers", WORKER_NAMESPACE, stack.customer, parent=self)
        for part, namespace in (("system", self.system), ("workers", self.workers)):
            ca_bundle(f"{name}-{part}-ca-bundle", stack.egress, namespace.metadata.name, parent=self)
        self.register_outputs({})


def restricted_namespace(
    resource_name: str,
    namespace: str,
    customer: str,
    *,
    parent: pulumi.Resource,
    timeouts: pulumi.CustomTimeouts | None = None,
) -> Namespace:
    return Namespace(
        resource_name,
        metadata={"name": namespace, "labels": {CUSTOMER: customer, **_POD_SECURITY}},
        opts=pulumi.ResourceOptions(parent=parent, custom_timeouts=timeouts),
    )
