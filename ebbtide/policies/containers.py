"""Containers: no access to the node, no needless tokens, memory limits, and image versions."""

from collections.abc import Mapping
from typing import Any

from ebbtide.findings import Severity
from ebbtide.policies.rule import Hits, Rule
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.drainable import SYSTEM_NAMESPACE
from ebbtide.recording.pods import Pods
from ebbtide.recording.record import UNKNOWN
from ebbtide.recording.resources import name_of
from ebbtide.recording.state import StackState
from ebbtide.recording.values import texts, value_at
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.sections.images import DIGEST
from ebbtide.settings.sections.pods.kubernetes import own_namespace
from ebbtide.vocabulary.labels import NAMESPACE

_ENFORCED = "pod-security.kubernetes.io/enforce"
_RESTRICTED = "restricted"
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC")


def _on_the_host(state: StackState) -> Hits:
    for pods in state.pods:
        access = [field for field in _HOST_FIELDS if pods.spec.get(field) is True]
        access += [f"privileged in {c.get('name')}" for c in pods.all_containers if _privileged(c)]
        if not (pods.kind == "DaemonSet" and pods.namespace == SYSTEM_NAMESPACE):
            access += [f"hostPath in volume {volume.get('name')}" for volume in pods.volumes if "hostPath" in volume]
        if access:
            yield pods.resource, f"it reaches the node itself: {', '.join(access)}"


def _privileged(container: object) -> bool:
    return value_at(container, "securityContext.privileged") is True


def _unguarded(state: StackState) -> Hits:
    own_namespaces = {
        own_namespace(name) for name, workload in state.settings.workloads.items() if workload.starts_pods
    }
    for namespace in state.of_kind("Namespace"):
        level = texts(value_at(namespace.inputs, "metadata.labels")).get(_ENFORCED, "nothing")
        if name_of(namespace) in {NAMESPACE, WORKER_NAMESPACE, *own_namespaces} and level != _RESTRICTED:
            yield namespace, f"the API server admits pods of level {level}, not only of level {_RESTRICTED}"


def _holds_token(state: StackState) -> Hits:
    for pods in state.pods:
        account = pods.spec.get("serviceAccountName")
        if account in (None, "default") and pods.spec.get("automountServiceAccountToken") is not False:
            yield pods.resource, "its pods hold a token of the default account, which they do not need"


def _without_limit(state: StackState) -> Hits:
    for pods in state.pods:
        free = [str(c.get("name")) for c in _long_lived(pods) if value_at(c, "resources.limits.memory") is None]
        if free:
            yield (
                pods.resource,
                f"without a memory limit {', '.join(free)} may use up the node's memory and kill a busy worker",
            )


def _long_lived(pods: Pods) -> list[Mapping[str, Any]]:
    return [c for c in pods.all_containers if c in pods.containers or c.get("restartPolicy") == "Always"]


def _without_version(state: StackState) -> Hits:
    """Images without a version; `ebbtide check` warns of those in the stack file."""
    in_file = {declared.pod.image for declared in declared_pods(state.settings)}
    for pods in state.pods:
        named = {str(c.get("name")): str(c.get("image", "")) for c in pods.all_containers}
        loose = [name for name, image in named.items() if _floats(image) and image not in in_file]
        if loose:
            yield (
                pods.resource,
                f"the image of {', '.join(loose)} has no version: two of its pods may run different code",
            )


def _floats(image: str) -> bool:
    """True if the image has neither tag nor digest, or the tag `latest`. An unknown image may have a version."""
    last = image.rpartition("/")[2]
    return image != UNKNOWN and DIGEST not in image and (":" not in last or last.endswith(":latest"))


RULES = (
    Rule(
        code="EB027",
        severities=(Severity.BLOCKING,),
        title="no pod reaches the node that it runs on",
        remedy="take it out of the pod template; run what needs the node as a DaemonSet in kube-system",
        source="security/pods, privileged containers and hostPath",
        check=_on_the_host,
    ),
    Rule(
        code="EB028",
        severities=(Severity.BLOCKING,),
        title="the API server enforces the restricted level in Ebbtide's namespaces",
        remedy=f"set the label {_ENFORCED}: {_RESTRICTED} on the namespace again",
        source="security/pods, Pod Security Admission",
        check=_unguarded,
    ),
    Rule(
        code="EB029",
        severities=(Severity.WARNING,),
        title="a pod that calls no API holds no token",
        remedy="set automountServiceAccountToken: false, or give the pod its own account",
        source="security/iam, service account tokens",
        check=_holds_token,
    ),
    Rule(
        code="EB030",
        severities=(Severity.WARNING,),
        title="every container has a memory limit",
        remedy="set resources.limits.memory to what it requests",
        source="awslabs/amazon-eks-ami#1145",
        check=_without_limit,
    ),
    Rule(
        code="EB031",
        severities=(Severity.WARNING,),
        title="every image has a version, also those of helper containers",
        remedy="name a tag that does not move, best with its digest",
        source="security/image",
        check=_without_version,
    ),
)
