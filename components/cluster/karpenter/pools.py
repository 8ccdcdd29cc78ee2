"""The NodePool and the EC2NodeClass of a group. Pure.

Nodes have the labels and taints of managed groups (`components.aws.node_shape`), so that pods are placed the same way.

**Budgets.** A NodePool is created with the budgets of a working day: nodes with pods stay, empty ones may go. The
workload controller writes other budgets outside business hours. Without budgets, Karpenter's default would allow 10% of
the nodes at any time.

**Workers.** Nodes do not expire and have no `terminationGracePeriod`: either would end a worker, budgets or not.

**Memory.** Karpenter estimates a node's memory before the node exists, as `ebbtide.prices` does. By default Karpenter
reserves 11 MiB for each of `maxPods`, while nodeadm counts only the pods that fit without prefix delegation, so the
EC2NodeClass states the reservation. In a group with several sizes, the reservation of the largest nodes applies to all.

**Images.** The alias names one release, so that new images arrive with an update of Ebbtide, and not at any time as
drift. Karpenter picks the NVIDIA variant for types with GPUs. Source: aws/karpenter-provider-aws v1.14.1,
`pkg/providers/amifamily/al2023.go`, `pkg/providers/instancetype/types.go`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.aws.node_shape import NodeTemplate, node_shape
from ebbtide.prices import InstanceType
from ebbtide.provisioning_labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, NodeKind
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.settings.sections.zones import is_id
from ebbtide.vocabulary.node_pools import CLOSED

IMAGES = "al2023@v20260903"
"""A release of awslabs/amazon-eks-ami for all supported versions of Kubernetes."""

CLASS_API = "karpenter.k8s.aws/v1"


def class_name(group: str) -> str:
    """Return the name of a group's EC2NodeClass. Each group has one, since tags and disks differ between groups."""
    return f"ebbtide-{group}"


def weights(groups: Mapping[str, NodeGroupSettings]) -> dict[str, int]:
    """Return the weights of NodePools, 1 to 100, in the order of `growth_priority`."""
    ranks = sorted({group.growth_priority for group in groups.values()})
    return {name: 1 + ranks.index(group.growth_priority) for name, group in groups.items()}


def node_pool(name: str, group: NodeGroupSettings, *, weight: int, zones: Sequence[str], region: str) -> dict[str, Any]:
    """Return the spec of a group's NodePool."""
    shape = node_shape(name, group)
    ids = all(map(is_id, zones))
    zone_key = "topology.k8s.aws/zone-id" if ids else "topology.kubernetes.io/zone"
    requirements = {
        INSTANCE_TYPE: [*group.instance_types],
        zone_key: [zone if ids else f"{region}{zone}" for zone in zones],
        CAPACITY_TYPE: ["spot" if group.kind is NodeKind.SPOT else "on-demand"],
        ARCH: [group.types[0].arch],
        "kubernetes.io/os": ["linux"],
    }
    template: dict[str, Any] = {
        "nodeClassRef": {"group": CLASS_API.split("/")[0], "kind": "EC2NodeClass", "name": class_name(name)},
        "requirements": [{"key": key, "operator": "In", "values": values} for key, values in requirements.items()],
        "expireAfter": "Never",
    }
    if shape.taints:
        template["taints"] = [taint.document for taint in shape.taints]
    return {
        "weight": weight,
        # Within one batch Karpenter counts the CPUs of planned nodes, but not the nodes (docs/evidence/karpenter.md).
        "limits": {"nodes": str(group.max), "cpu": str(group.max * max(kind.vcpu for kind in group.types))},
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            # An idle worker stays for its stabilization window. Keeping its node longer costs 5 % more in replays, and
            # shortens waits only if jobs return within minutes (docs/evidence/karpenter-model.md).
            "consolidateAfter": "0s",
            "budgets": CLOSED,
        },
        "template": {"metadata": {"labels": {**shape.labels}}, "spec": template},
    }


def node_class(name: str, group: NodeGroupSettings, *, tags: Mapping[str, str]) -> dict[str, Any]:
    """Return the spec of a group's EC2NodeClass, without network and instance profile."""
    shape = node_shape(name, group)
    return {
        "amiSelectorTerms": [{"alias": IMAGES}],
        # One hop: a pod cannot reach the metadata service, and so cannot take the node's role.
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1},
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "ebs": {
                    "volumeType": "gp3",
                    "volumeSize": f"{group.disk_size}Gi",
                    "encrypted": True,
                    "deleteOnTermination": True,
                },
            }
        ],
        "kubelet": _kubelet(group.types_to_fit, shape),
        "tags": {**tags},
    }


def _kubelet(types: Sequence[InstanceType], shape: NodeTemplate) -> dict[str, Any]:
    cpu = max(1000 * kind.vcpu - kind.allocatable_cpu for kind in types)
    pods = min(shape.max_pods, max(kind.default_pods for kind in types))
    return {
        "maxPods": shape.max_pods,
        "kubeReserved": {"cpu": f"{cpu}m", "memory": f"{11 * pods + 255}Mi", "ephemeral-storage": "1Gi"},
    }
