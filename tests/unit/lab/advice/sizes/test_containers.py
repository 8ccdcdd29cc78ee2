"""Which containers a stack file has, where it sets their requests, and what keeps them from being lowered."""

from pathlib import Path

from ebbtide.lab.advice.sizes.containers import Container, containers
from ebbtide.lab.advice.sizes.rules import ContainerRequests, ResourceName
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.fragment.size import PodSize
from tests.builders.settings import loaded, shortest


def containers_in(folder: Path, more: str) -> dict[str, Container]:
    return {container.path: container for container in containers(loaded(shortest(more=more), folder))}


def test_each_section_with_pods_is_read_under_the_name_of_its_container(tmp_path: Path) -> None:
    text = """\
    ebbtide:jobs:
      once: { image: "once:1", cpu: 1, memory: 1Gi, longestRun: 1h }
    ebbtide:cronJobs:
      nightly: { image: "once:1", cpu: 1, memory: 1Gi, longestRun: 1h, schedule: "30 2 * * *" }
    ebbtide:ray:
      flow:
        version: "2.60.0"
        image: "ray:2.60.0"
        head: { cpu: 2, memory: 8Gi }
        groups: { cpu: { max: 4, cpu: 7, memory: 24Gi } }
        longestTask: 30m
    """
    by_path = containers_in(tmp_path, text)

    assert {path: (container.place.workload, container.place.container) for path, container in by_path.items()} == {
        "workers.train": ("train", "worker"),
        "jobs.once": ("once", "once"),
        "cronJobs.nightly": ("nightly", "nightly"),
        "ray.flow.head": ("flow-head", "ray"),
        "ray.flow.groups.cpu": ("flow-cpu", "ray"),
    }
    assert by_path["ray.flow.head"].other_containers == PodSize(cpu=200, memory=512, gpu=0), "Ray's autoscaler"
    assert by_path["ray.flow.head"].requests.careful
    assert by_path["ray.flow.groups.cpu"].requests.whole_cores


WORKLOADS = """\
ebbtide:monitoring: { prometheus: bundled }
ebbtide:workloads:
  db: { category: fixed, kind: stateful-set, image: "db:1", cpu: 1, memory: 4Gi, shm: 1Gi }
  api: { category: flexible, image: "api:1", cpu: 1, memory: 4Gi, limits: { cpu: 2 }, replicasOwner: hpa, replicas: 2 }
  cache: { category: flexible, kind: stateful-set, image: "db:1", cpu: 1, memory: 4Gi, vertical: initial }
ebbtide:services:
  ranker:
    image: "ranker:1"
    cpu: 2
    memory: 4Gi
    ports: { http: 8000 }
    port: http
    probes: { readiness: { http: /healthz, port: http } }
    longestRequest: 10s
    scale: { metrics: { cpu: 70% }, max: 4 }
"""


def test_settings_of_the_file_keep_a_container_from_being_lowered(tmp_path: Path) -> None:
    by_path = {path: container.requests for path, container in containers_in(tmp_path, WORKLOADS).items()}
    one = ContainerRequests(cpu=1000, memory=4096)

    assert by_path["workloads.db"] == ContainerRequests(cpu=1000, memory=4096, careful=True, least_memory=1024)
    assert by_path["workloads.api"] == ContainerRequests(
        cpu=1000, memory=4096, limits_cpu=True, scaled_by=frozenset(ResourceName)
    )
    assert by_path["workloads.cache"] == ContainerRequests(
        cpu=1000, memory=4096, careful=True, set_by="the Vertical Pod Autoscaler"
    ), "its pods keep state"
    assert by_path["services.ranker"].scaled_by == {ResourceName.CPU}
    assert by_path["workers.train"].margin == one.margin


def test_services_run_always_and_pools_while_there_is_work(tmp_path: Path) -> None:
    by_path = containers_in(tmp_path, WORKLOADS)

    assert {path for path, container in by_path.items() if container.always} == by_path.keys() - {"workers.train"}
    assert {path for path, container in by_path.items() if container.several} == {"workloads.api"}
    assert (by_path["workers.train"].kind, by_path["workers.train"].group) == (NodeKind.FLEXIBLE, "flexible")
