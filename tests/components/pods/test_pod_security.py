"""Every pod in the customer's namespaces passes the restricted level that these enforce, with all options on.

The rules are those of Kubernetes 1.36, "Pod Security Standards"; of fields that no pod of ours has, their absence.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.egress import EgressSettings
from ebbtide.settings.sections.images import ImageSettings
from ebbtide.settings.sections.pods.pod import Gpu
from tests.builders.authority import AUTHORITY
from tests.builders.recorded import record
from tests.builders.stack import Recorded, pool_settings, stack_settings

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
POD_FIELDS_OF_THE_HOST = ("hostNetwork", "hostPID", "hostIPC", "hostUsers", "initContainers", "ephemeralContainers")


@pytest.fixture(scope="module")
def all_options_on() -> Recorded:
    egress = EgressSettings(https_proxy="http://proxy:3128", ca_bundle=AUTHORITY)
    images = ImageSettings(pull_secrets=("regcred",))
    on_gpus = pool_settings().model_copy(update={"gpu": Gpu(count=1), "node_group": "gpu"})
    pools = {"train": pool_settings(), "vision": on_gpus}
    return Recorded(record(stack_settings(egress=egress, images=images, workers=pools)))


def pods(stack: Recorded, *namespaces: str) -> dict[str, Mapping[str, Any]]:
    found = {resource.name: _pod(resource) for resource in stack.all if _namespace(resource) in namespaces}
    return {name: pod for name, pod in found.items() if pod}


def _namespace(resource: Resource) -> str:
    metadata: Mapping[str, Any] = resource.inputs.get("metadata") or {}
    return str(metadata.get("namespace"))


def _pod(resource: Resource) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = resource.inputs.get("spec") or {}
    template: Mapping[str, Any] = spec.get("jobTemplate", {}).get("spec", spec).get("template") or {}
    return template.get("spec") or {}


def against_restricted(pod: Mapping[str, Any]) -> Iterator[str]:
    """The violations that the admission would report."""
    own = pod.get("securityContext", {})
    yield from (name for name in POD_FIELDS_OF_THE_HOST if name in pod)
    yield from (kind for volume in pod.get("volumes", ()) for kind in volume if kind not in {"name", *VOLUMES})
    if own.get("runAsNonRoot") is not True or own.get("runAsUser") == 0:
        yield "runAsNonRoot"
    if own.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "seccompProfile"
    for container in pod["containers"]:
        held = container.get("securityContext", {})
        if held.get("allowPrivilegeEscalation") is not False or held.get("privileged"):
            yield "allowPrivilegeEscalation"
        if held.get("capabilities") != {"drop": ["ALL"]}:
            yield "capabilities"
        yield from ("hostPort" for port in container.get("ports", ()) if "hostPort" in port)


def test_no_pod_of_the_customers_namespaces_would_be_refused(all_options_on: Recorded) -> None:
    found = pods(all_options_on, "ebbtide", "ebbtide-workers")

    assert {"api-deployment", "vision-deployment", "controller-deployment", "redis-server"} < set(found)
    assert {name: [*against_restricted(pod)] for name, pod in found.items()} == {name: [] for name in found}


def test_only_the_device_plugin_sees_the_node(all_options_on: Recorded) -> None:
    found = {name: set(against_restricted(pod)) for name, pod in pods(all_options_on, "kube-system").items()}

    assert {name for name, faults in found.items() if "hostPath" in faults} == {"device-plugin-pods"}
