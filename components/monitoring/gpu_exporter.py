"""NVIDIA's exporter of GPU metrics, on each node with GPUs: utilization of GPUs by pod.

It runs as root and looks at the kubelet's list of devices, so it lives in kube-system, as the device plugin does. It
has no right to profile, which would need SYS_ADMIN.

Source: NVIDIA/dcgm-exporter, `deployment/values.yaml` of 4.1.3.
"""

from typing import TYPE_CHECKING

import pulumi

from components import images
from components.cluster.device_plugin import SOCKETS, gpu_daemon
from components.context import StackContext
from components.monitoring.reach import GPU_EXPORTER, GPU_EXPORTER_PORT
from components.pods.rules import nodes_of_kind, resources
from ebbtide.labels import NodeKind
from ebbtide.settings.sections.pods.pod import METRICS_PORT

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import ContainerArgsDict, PodSpecArgsDict

_SOCKETS = "/var/lib/kubelet/pod-resources"


class GpuExporter(pulumi.ComponentResource):
    """One pod per GPU node."""

    def __init__(self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:GpuExporter", name, None, opts)
        container: ContainerArgsDict = {
            "name": "exporter",
            "image": stack.images.of(images.GPU_EXPORTER),
            "args": ["-f", "/etc/dcgm-exporter/default-counters.csv"],
            "env": [
                {"name": "DCGM_EXPORTER_LISTEN", "value": f":{GPU_EXPORTER_PORT}"},
                {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
            ],
            "ports": [{"name": METRICS_PORT, "container_port": GPU_EXPORTER_PORT}],
            "readiness_probe": {"http_get": {"path": "/health", "port": GPU_EXPORTER_PORT}, "period_seconds": 10},
            "resources": resources(cpu=50, memory=512),
            "security_context": {
                "allow_privilege_escalation": False,
                "capabilities": {"drop": ["ALL"]},
                "run_as_non_root": False,
                "run_as_user": 0,
            },
            "volume_mounts": [{"name": SOCKETS, "mount_path": _SOCKETS, "read_only": True}],
        }
        pod: PodSpecArgsDict = {"node_selector": nodes_of_kind(NodeKind.GPU), "containers": [container]}
        gpu_daemon(f"{name}-pods", GPU_EXPORTER.workloads[0], pod, _SOCKETS, stack, parent=self)
        self.register_outputs({})
