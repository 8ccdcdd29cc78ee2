"""NVIDIA's device plugin, without which Kubernetes does not see the GPUs of a node.

The NVIDIA images of EKS bring the driver and the container runtime's hook, but not this. It runs wherever the GPU taint
is, whatever the group's kind, so it selects by the accelerator's presence and not by a kind of node.
"""

from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet

from components.aws.node_shape import ACCELERATOR
from components.context import StackContext
from components.images import DEVICE_PLUGIN
from components.pods.rules import resources
from ebbtide.labels import CUSTOMER, GPU_TAINT_KEY
from ebbtide.vocabulary.labels import WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        ContainerArgsDict,
        NodeSelectorArgsDict,
        NodeSelectorRequirementArgsDict,
        PodSpecArgsDict,
    )

_SOCKETS = "/var/lib/kubelet/device-plugins"
SOCKETS = "sockets"


class DevicePlugin(pulumi.ComponentResource):
    """One pod per GPU node. It reports the number of GPUs to the kubelet."""

    def __init__(self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:DevicePlugin", name, None, opts)
        container: ContainerArgsDict = {
            "name": "plugin",
            "image": stack.images.of(DEVICE_PLUGIN),
            "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}],
            "resources": resources(cpu=20, memory=128),
            "security_context": {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}},
            "volume_mounts": [{"name": SOCKETS, "mount_path": _SOCKETS}],
        }
        expressions: list[NodeSelectorRequirementArgsDict] = [{"key": ACCELERATOR, "operator": "Exists"}]
        nodes: NodeSelectorArgsDict = {"node_selector_terms": [{"match_expressions": expressions}]}
        pod: PodSpecArgsDict = {
            "affinity": {"node_affinity": {"required_during_scheduling_ignored_during_execution": nodes}},
            "containers": [container],
        }
        gpu_daemon(f"{name}-pods", "nvidia-device-plugin", pod, _SOCKETS, stack, parent=self)
        self.register_outputs({})


def gpu_daemon(
    resource_name: str,
    name: str,
    pod: "PodSpecArgsDict",
    sockets: str,
    stack: StackContext,
    *,
    parent: pulumi.Resource,
) -> DaemonSet:
    """Run the pod on nodes with NVIDIA's taint. The kubelet's directory `sockets` is its volume `SOCKETS`."""
    labels = {WORKLOAD: name, CUSTOMER: stack.customer}
    spec: PodSpecArgsDict = {
        **pod,
        "priority_class_name": "system-node-critical",
        "automount_service_account_token": False,
        "tolerations": [{"key": GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": SOCKETS, "host_path": {"path": sockets}}],
    }
    return DaemonSet(
        resource_name,
        metadata={"name": name, "namespace": "kube-system", "labels": labels},
        spec={
            "selector": {"match_labels": {WORKLOAD: name}},
            "update_strategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": stack.images.pulled(spec)},
        },
        opts=pulumi.ResourceOptions(parent=parent),
    )
