"""What exists, as AWS would keep it between two runs; what it refuses; and what cannot change without a replacement.

A file for each resource: every run of the engine has a process of its own, and a test may be the autoscaler.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from tests.engine.stand_in.sdk import Json

CLUSTER, NODE_GROUP = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"
_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")

# Of AWS: what its provider is known to replace for; not read from its source.
# Of Kubernetes: `forceNew` in pulumi-kubernetes, provider/pkg/provider/diff.go.
_NAMES = "metadata.name metadata.namespace"
_STATEFUL = "spec.podManagementPolicy spec.revisionHistoryLimit spec.serviceName spec.volumeClaimTemplates"
_REPLACING = {
    CLUSTER: "name roleArn bootstrapSelfManagedAddons kubernetesNetworkConfig.serviceIpv4Cidr",
    NODE_GROUP: "amiType capacityType clusterName diskSize instanceTypes launchTemplate.id nodeGroupName "
    "nodeGroupNamePrefix nodeRoleArn remoteAccess subnetIds",
    "aws:autoscaling/tag:Tag": "autoscalingGroupName tag.key",
    "kubernetes:apps/v1:StatefulSet": f"{_NAMES} spec.selector {_STATEFUL}",
    "kubernetes:apps/v1:Deployment": f"{_NAMES} spec.selector",
    "kubernetes:core/v1:ConfigMap": f"{_NAMES} data binaryData",
    "kubernetes:core/v1:Secret": f"{_NAMES} type data stringData",
    "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding": f"{_NAMES} roleRef",
    "kubernetes:storage.k8s.io/v1:StorageClass": f"{_NAMES} provisioner parameters",
}
_FLAGS = {"kubernetes:core/v1:ConfigMap": "enableConfigMapMutable", "kubernetes:core/v1:Secret": "enableSecretMutable"}


class Refused(Exception):
    """In the words of the API."""


class Thing(NamedTuple):
    type: str
    id: str
    inputs: Json
    outputs: Json


class Cloud:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def things(self) -> Iterator[Thing]:
        return (Thing(*json.loads(file.read_text())) for file in sorted(self._folder.glob("*.json")))

    def find(self, type_: str, id_: str) -> Thing | None:
        file = self._file(type_, id_)
        return Thing(*json.loads(file.read_text())) if file.exists() else None

    def put(self, thing: Thing) -> None:
        """Create or change. Raises Refused."""
        if thing.type == NODE_GROUP:
            _check_sizes(thing.inputs["scalingConfig"])
        self._file(thing.type, thing.id).write_text(json.dumps(thing))

    def remove(self, type_: str, id_: str) -> None:
        """Raises Refused. What is gone already may be removed again."""
        found = self.find(type_, id_)
        if type_ == CLUSTER and found:
            groups = [each for each in self.things() if each.type == NODE_GROUP]
            if any(each.inputs["clusterName"] == found.outputs["name"] for each in groups):
                raise Refused("ResourceInUseException: Cluster has nodegroups attached")
            if found.inputs.get("deletionProtection"):
                raise Refused("InvalidRequestException: Cluster has deletion protection enabled")
        if type_ == NODE_GROUP and found:  # its Auto Scaling group goes with it, and so do that one's tags
            name = found.outputs["resources"][0]["autoscalingGroups"][0]["name"]
            for each in self.things():
                if each.inputs.get("autoscalingGroupName") == name:
                    self._file(each.type, each.id).unlink(missing_ok=True)
        self._file(type_, id_).unlink(missing_ok=True)

    def _file(self, type_: str, id_: str) -> Path:
        return self._folder / f"{sha256(f'{type_} {id_}'.encode()).hexdigest()[:24]}.json"


def _check_sizes(sizes: Json) -> None:
    words = {"minSize": "Minimum capacity", "desiredSize": "desired size", "maxSize": "maximum size"}
    for low, high in (("minSize", "desiredSize"), ("desiredSize", "maxSize")):
        if sizes[low] > sizes[high]:
            told = f"{words[low]} {sizes[low]:.0f} can't be greater than {words[high]} {sizes[high]:.0f}"
            raise Refused(f"InvalidParameterException: {told}")


def refused_inputs(type_: str, inputs: Json) -> Iterator[tuple[str, str]]:
    """What needs no cloud to be seen as wrong, so that a preview says it."""
    for number, taint in enumerate(inputs.get("taints", []) if type_ == NODE_GROUP else []):
        if taint.get("effect") not in _EFFECTS:
            yield f"taints[{number}].effect", f"wanted one of {', '.join(_EFFECTS)}, found {taint.get('effect')!r}"


def replacing(type_: str, provider: Json) -> Sequence[str]:
    """Paths whose change makes a new object, for a provider that is configured like this."""
    names = _NAMES if type_.startswith("kubernetes:") else ""
    in_place = provider.get(_FLAGS.get(type_, "")) in (True, "true")
    return (names if in_place else _REPLACING.get(type_, names)).split()


def at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part) if hasattr(value, "get") else None
    return value
