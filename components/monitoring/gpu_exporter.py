"""NVIDIA's exporter of GPU metrics, on each node with GPUs: utilization of GPUs by pod.

It runs as root and looks at the kubelet's list of devices, so it lives in kube-system, as the device plugin does. It
has no right to profile, which would need SYS_ADMIN.

Source: NVIDIA/dcgm-exporter, `deployment/values.yaml` of 4.1.3.
"""

from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet

from components import images
from components.context import StackContext
from components.monitoring.reach import GPU_EXPORTER, GPU_EXPORTER_PORT
from ebbtide.provisioning_labels import CUSTOMER, GPU_TAINT_KEY, NodeKind
from ebbtide.settings.sections.pods.pod import METRICS_PORT
from ebbtide.vocabulary.labels import NODE_KIND, WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import PodSpecArgsDict

_NAME, _NAMESPACE = GPU_EXPORTER.workloads[0], GPU_EXPORTER.namespace
_SOCKETS = "/var/lib/kubelet/pod-resources"


class GpuExporter(pulumi.ComponentResource):
    """One pod per GPU node."""

    def __init__(self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:GpuExporter", name, None, opts)
        labels = {WORKLOAD: _NAME, CUSTOMER: stack.customer}
        DaemonSet(
            f"{name}-pods",
            metadata={"name": _NAME, "namespace": _NAMESPACE, "labels": labels},
            spec={
                "selector": {"match_labels": {WORKLOAD: _NAME}},
                "update_strategy": {"type": "RollingUpdate"},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": stack.images.pulled(_pod(stack.images.of(images.GPU_EXPORTER))),
                },
            },
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def _pod(image: str) -> "PodSpecArgsDict":
    return {
        "priority_class_name": "system-node-critical",
        "automount_service_account_token": False,
        "node_selector": {NODE_KIND: NodeKind.GPU.value},
        "tolerations": [{"key": GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "exporter",
                "image": image,
                "args": ["-f", "/etc/dcgm-exporter/default-counters.csv"],
                "env": [
                    {"name": "DCGM_EXPORTER_LISTEN", "value": f":{GPU_EXPORTER_PORT}"},
                    {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
                ],
                "ports": [{"name": METRICS_PORT, "container_port": GPU_EXPORTER_PORT}],
                "readiness_probe": {"http_get": {"path": "/health", "port": GPU_EXPORTER_PORT}, "period_seconds": 10},
                "resources": {"requests": {"cpu": "50m", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
                "security_context": {
                    "allow_privilege_escalation": False,
                    "capabilities": {"drop": ["ALL"]},
                    "run_as_non_root": False,
                    "run_as_user": 0,
                },
                "volume_mounts": [{"name": "sockets", "mount_path": _SOCKETS, "read_only": True}],
            }
        ],
        "volumes": [{"name": "sockets", "host_path": {"path": _SOCKETS}}],
    }
