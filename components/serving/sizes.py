"""The requests that the Vertical Pod Autoscaler may set, and when it may evict a pod to do so.

It never asks for more than the largest pod that the nodes hold: that one would wait for ever.

`InPlaceOrRecreate` evicts where a node has no room for the new size. An eviction goes by the budget, which is closed by
day: so it moves pods outside business hours alone, as everybody else does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource

from components.context import StackContext
from ebbtide.provisioning_labels import CUSTOMER
from ebbtide.settings.fragment.size import PodSize
from ebbtide.settings.sections.workloads import Vertical, WorkloadKind, WorkloadSettings
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD

VPA_API = "autoscaling.k8s.io/v1"
_MODES = {Vertical.INITIAL: "Initial", Vertical.IN_PLACE: "InPlaceOrRecreate"}


@dataclass(frozen=True, kw_only=True)
class VerticalAutoscalingArgs:
    stack: StackContext
    workloads: Mapping[str, WorkloadSettings]
    most: Mapping[str, PodSize] = field(default_factory=dict[str, PodSize])  # of a workload's own container


class VerticalAutoscaling(pulumi.ComponentResource):
    def __init__(self, name: str, args: VerticalAutoscalingArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ebbtide:components:VerticalAutoscaling", name, None, opts)
        for workload, settings in args.workloads.items():
            if settings.vertical is not Vertical.OFF:
                CustomResource(
                    f"{workload}-vertical",
                    api_version=VPA_API,
                    kind="VerticalPodAutoscaler",
                    metadata={
                        "name": workload,
                        "namespace": NAMESPACE,
                        "labels": {CUSTOMER: args.stack.customer, WORKLOAD: workload},
                    },
                    spec=vertical_autoscaler(workload, settings, args.most.get(workload)),
                    opts=pulumi.ResourceOptions(parent=self),
                )
        self.register_outputs({})


def vertical_autoscaler(name: str, settings: WorkloadSettings, most: PodSize | None) -> Mapping[str, Any]:
    """The spec: the requests of the workload's own container, and its limits in proportion."""
    own: dict[str, Any] = {"containerName": name, "controlledResources": ["cpu", "memory"], "mode": "Auto"}
    if settings.vertical_min is not None:
        own["minAllowed"] = settings.vertical_min.quantities
    if most is not None:
        own["maxAllowed"] = {"cpu": f"{most.cpu}m", "memory": f"{most.memory}Mi"}
    kind = "StatefulSet" if settings.kind is WorkloadKind.STATEFUL_SET else "Deployment"
    return {
        "targetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name},
        "updatePolicy": {"updateMode": _MODES[settings.vertical]},
        "resourcePolicy": {"containerPolicies": [own, {"containerName": "*", "mode": "Off"}]},
    }
