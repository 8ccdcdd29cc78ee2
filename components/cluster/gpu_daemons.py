"""NVIDIA's programs on GPU nodes, one pod per node: the device plugin and the exporter of metrics.

Without the device plugin Kubernetes does not see a node's GPUs: the NVIDIA images of EKS contain only the driver and
the container runtime's hook. The plugin runs on every node with the GPU taint, whatever the group's kind, so it selects
nodes by the accelerator's label.

The exporter reports the utilization of GPUs by pod. It runs as root and reads the kubelet's list of devices, so it runs
in kube-system, like the device plugin. It has no right to profile, which would need SYS_ADMIN.

Source: NVIDIA/dcgm-exporter, `deployment/values.yaml` of 4.1.3.
"""

from typing import TYPE_CHECKING

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet

from components import images
from components.aws.node_shape import ACCELERATOR
from components.context import StackContext
from components.images import DEVICE_PLUGIN
from components.monitoring.targets import GPU_EXPORTER, GPU_EXPORTER_PORT
from components.pods.rules import nodes_of_kind, resources, toleration_args
from ebbtide.kube.taints import ANY_GPU_TAINT
from ebbtide.provisioning_labels import CUSTOMER, NodeKind
from ebbtide.settings.sections.pods.pod import METRICS_PORT
from ebbtide.vocabulary.labels import WORKLOAD

if TYPE_CHECKING:
    from pulumi_kubernetes.core.v1 import (
        AffinityArgsDict,
        ContainerArgsDict,
        NodeSelectorArgsDict,
        NodeSelectorRequirementArgsDict,
        PodSpecArgsDict,
    )

_PLUGIN_SOCKETS = "/var/lib/kubelet/device-plugins"
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
            "volume_mounts": [{"name": SOCKETS, "mount_path": _PLUGIN_SOCKETS}],
        }
        pod: PodSpecArgsDict = {"affinity": _on_gpu_nodes(), "containers": [container]}
        gpu_daemon(f"{name}-pods", "nvidia-device-plugin", pod, _PLUGIN_SOCKETS, stack, parent=self)
        self.register_outputs({})


def _on_gpu_nodes() -> "AffinityArgsDict":
    expressions: list[NodeSelectorRequirementArgsDict] = [{"key": ACCELERATOR, "operator": "Exists"}]
    nodes: NodeSelectorArgsDict = {"node_selector_terms": [{"match_expressions": expressions}]}
    return {"node_affinity": {"required_during_scheduling_ignored_during_execution": nodes}}


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
        "tolerations": [toleration_args(ANY_GPU_TAINT)],
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


_POD_SOCKETS = "/var/lib/kubelet/pod-resources"


class GpuExporter(pulumi.ComponentResource):
    """One pod per GPU node. `on_spot`: the stack has spot nodes with GPUs, whose kind is not `gpu`."""

    def __init__(
        self, name: str, stack: StackContext, opts: pulumi.ResourceOptions | None = None, *, on_spot: bool = False
    ) -> None:
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
            "volume_mounts": [{"name": SOCKETS, "mount_path": _POD_SOCKETS, "read_only": True}],
        }
        # Another selector would restart the exporter on every node, so only stacks that need it have the label's.
        pod: PodSpecArgsDict = {"containers": [container]}
        if on_spot:
            pod["affinity"] = _on_gpu_nodes()
        else:
            pod["node_selector"] = nodes_of_kind(NodeKind.GPU)
        gpu_daemon(f"{name}-pods", GPU_EXPORTER.workloads[0], pod, _POD_SOCKETS, stack, parent=self)
        self.register_outputs({})
