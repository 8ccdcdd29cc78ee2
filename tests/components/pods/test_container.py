"""The result of a pod section: the container, its volumes, and further objects."""

from dataclasses import replace
from typing import Any

import pytest

from components.pods.worker_pool import WorkerPool, WorkerPoolArgs
from components.pods.workload import Workload, WorkloadArgs
from ebbtide.provisioning_labels import FILES_DIGEST, NodeKind
from ebbtide.recording.resources import Resource
from ebbtide.settings.sections.workers import WorkerSettings
from ebbtide.settings.sections.workloads import WorkloadSettings
from ebbtide.vocabulary.labels import WORKLOAD, Category
from tests.builders.components import REDIS, STACK, of_kind, pod_of, recorded, the

BASE: dict[str, Any] = {"category": "flexible", "image": "api:1", "cpu": 1, "memory": "2Gi"}
WORKER: dict[str, Any] = {
    "source": {"queues": ["train"]},
    "image": "train:1",
    "max": 3,
    "cpu": 1,
    "memory": "2Gi",
    "longestJob": "1h",
    "nodeGroup": "flexible",
}


def workload(*, on_ebs: bool = False, **section: Any) -> tuple[Resource, ...]:
    settings = WorkloadSettings.model_validate({**BASE, **section})
    args = WorkloadArgs(
        stack=replace(STACK, on_ebs=on_ebs),
        name="api",
        namespace="ebbtide",
        settings=settings,
        node_kind=NodeKind.FLEXIBLE,
    )
    return recorded(lambda: Workload("api", args))


def pool(**section: Any) -> tuple[Resource, ...]:
    settings = WorkerSettings.model_validate({**WORKER, **section})
    args = WorkerPoolArgs(stack=STACK, name="train", settings=settings, redis=REDIS)
    return recorded(lambda: WorkerPool("train", args))


def container(resources: tuple[Resource, ...], kind: str = "Deployment") -> dict[str, Any]:
    (only,) = pod_of(the(resources, kind))["containers"]
    return dict(only)


def template(resources: tuple[Resource, ...], kind: str = "Deployment") -> dict[str, Any]:
    return dict(the(resources, kind).inputs["spec"]["template"]["metadata"])


def test_a_port_without_a_probe_must_take_connections_before_traffic_comes() -> None:
    made = container(workload(ports={"metrics": 9090, "http": 8080}))

    assert made["readinessProbe"]["tcpSocket"] == {"port": "http"}
    assert made["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}


def test_a_worker_has_no_readiness_probe_and_does_not_wait_to_stop() -> None:
    resources = pool(ports={"metrics": 9000}, probes={"startup": {"exec": ["true"]}})
    made = container(resources)

    assert "readinessProbe" not in made
    assert "lifecycle" not in made
    assert made["startupProbe"]["exec"] == {"command": ["true"]}
    assert the(resources, "Service").inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_a_scratch_volume_lets_the_node_go() -> None:
    annotations = template(workload(volumes={"a": {"scratch": "1Gi", "at": "/a"}}, shm="1Gi"))["annotations"]

    assert annotations == {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "a"}


def test_pods_roll_when_their_files_change_and_only_then() -> None:
    def digest(text: str) -> str:
        volumes = {"conf": {"files": {"app.toml": text}, "at": "/etc/app"}}
        return template(workload(volumes=volumes))["annotations"][FILES_DIGEST]

    assert digest("a") == digest("a")
    assert digest("a") != digest("b")


def test_the_disks_of_a_stateful_set_are_claimed_for_each_pod_and_kept() -> None:
    volumes = {"data": {"perPod": "100Gi", "class": "gp3", "at": "/data"}}
    resources = workload(kind="stateful-set", volumes=volumes, ports={"postgres": 5432})
    spec = the(resources, "StatefulSet").inputs["spec"]

    assert spec["volumeClaimTemplates"] == [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "100Gi"}},
                "storageClassName": "gp3",
            },
        }
    ]
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert "volumes" not in pod_of(the(resources, "StatefulSet"))
    assert container(resources, "StatefulSet")["volumeMounts"] == [{"name": "data", "mountPath": "/data"}]
    (service,) = of_kind(resources, "Service")
    assert service.inputs["spec"]["clusterIP"] == "None"
    assert service.inputs["spec"]["ports"] == [{"name": "postgres", "port": 5432, "targetPort": "postgres"}]


def test_a_disk_without_a_class_has_one_of_its_volume_that_keeps_it_where_the_driver_of_ebs_is() -> None:
    volumes = {"data": {"perPod": "100Gi", "at": "/data"}, "log": {"perPod": "1Gi", "class": "fast", "at": "/log"}}
    resources = workload(kind="stateful-set", volumes=volumes, on_ebs=True)
    pods, class_ = the(resources, "StatefulSet"), the(resources, "StorageClass")

    claimed = [template["spec"]["storageClassName"] for template in pods.inputs["spec"]["volumeClaimTemplates"]]
    assert claimed == [class_.inputs["metadata"]["name"], "fast"]
    assert class_.inputs["reclaimPolicy"] == "Retain"
    assert class_.inputs["volumeBindingMode"] == "WaitForFirstConsumer"
    assert class_.inputs["parameters"].items() >= {"type": "gp3", "encrypted": "true"}.items()
    assert class_.urn in pods.depends_on


@pytest.mark.parametrize("category", [Category.FIXED, Category.FLEXIBLE])
def test_no_label_of_a_file_stands_before_ebbtides(category: Category) -> None:
    labels = template(workload(category=category.value, labels={"team": "search"}))["labels"]

    assert labels[WORKLOAD] == "api"
    assert labels["ebbtide.dev/category"] == category.value


def test_names_that_look_alike_when_joined_have_files_of_their_own() -> None:
    files = {"files": {"x": "y"}, "at": "/etc/x"}

    def program() -> None:
        for name, volume in (("a-b", "c"), ("a", "b-c")):
            settings = WorkloadSettings.model_validate({**BASE, "volumes": {volume: files}})
            args = WorkloadArgs(
                stack=STACK, name=name, namespace="ebbtide", settings=settings, node_kind=NodeKind.FLEXIBLE
            )
            Workload(name, args)

    assert {it.inputs["metadata"]["name"] for it in of_kind(recorded(program), "ConfigMap")} == {"a-b.c", "a.b-c"}
