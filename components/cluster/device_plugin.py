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
from ebbtide.provisioning_labels import CUSTOMER, GPU_TAINT_KEY
from ebbtide.vocabulary.labels import WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

_SOCKETS = "/var/lib/kubelet/device-plugins"
_NAME = "nvidia-device-plugin"


class DevicePlugin(pulumi.ComponentResource):
    """One pod per GPU node, which tells the kubelet how many GPUs there are."""

    def __init__(self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:DevicePlugin", name, None, opts)
        DaemonSet(
            f"{name}-pods",
            metadata={
                "name": _NAME,
                "namespace": "kube-system",
                "labels": {WORKLOAD: _NAME, CUSTOMER: stack.customer},
            },
            spec={
                "selector": {"match_labels": {WORKLOAD: _NAME}},
                "update_strategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": {WORKLOAD: _NAME, CUSTOMER: stack.customer}},
                    "spec": stack.images.pulled(_pod(stack.images.of(DEVICE_PLUGIN))),
                },
            },
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def _pod(image: str) -> "PodSpecArgsDict":
    return {
        "priority_class_name": "system-node-critical",
        "automount_service_account_token": False,
        "affinity": {
            "node_affinity": {
                "required_during_scheduling_ignored_during_execution": {
                    "node_selector_terms": [{"match_expressions": [{"key": ACCELERATOR, "operator": "Exists"}]}]
                }
            }
        },
        "tolerations": [{"key": GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "plugin",
                "image": image,
                "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}],
                "resources": {
                    "requests": {"cpu": "20m", "memory": "128Mi"},
                    "limits": {"memory": "128Mi"},
                },
                "security_context": {
                    "allow_privilege_escalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volume_mounts": [{"name": "sockets", "mount_path": _SOCKETS}],
            }
        ],
        "volumes": [{"name": "sockets", "host_path": {"path": _SOCKETS}}],
    }
