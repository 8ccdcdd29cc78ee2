"""Which containers a stack file has, where it says what they ask for, and what keeps them from being lowered."""

from pathlib import Path

from ebbtide.advice.sizes.containers import Container, containers
from ebbtide.advice.sizes.rules import Requests, Resource
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.fragment.size import PodSize
from tests.builders.settings import loaded, shortest


def found_in(folder: Path, more: str) -> dict[str, Container]:
    return {it.path: it for it in containers(loaded(shortest(more=more), folder))}


def test_each_section_that_holds_pods_is_looked_at_under_the_name_of_its_container(tmp_path: Path) -> None:
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
    found = found_in(tmp_path, text)

    assert {path: (it.place.workload, it.place.container) for path, it in found.items()} == {
        "workers.train": ("train", "worker"),
        "jobs.once": ("once", "once"),
        "cronJobs.nightly": ("nightly", "nightly"),
        "ray.flow.head": ("flow-head", "ray"),
        "ray.flow.groups.cpu": ("flow-cpu", "ray"),
    }
    assert found["ray.flow.head"].other_containers == PodSize(cpu=200, memory=512, gpu=0), "Ray's autoscaler"
    assert found["ray.flow.head"].requests.careful
    assert found["ray.flow.groups.cpu"].requests.whole_cores


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


def test_what_the_file_says_keeps_a_container_from_being_lowered(tmp_path: Path) -> None:
    found = {path: it.requests for path, it in found_in(tmp_path, WORKLOADS).items()}
    one = Requests(cpu=1000, memory=4096)

    assert found["workloads.db"] == Requests(cpu=1000, memory=4096, careful=True, least_memory=1024)
    assert found["workloads.api"] == Requests(cpu=1000, memory=4096, limits_cpu=True, scaled_by=frozenset(Resource))
    assert found["workloads.cache"] == Requests(
        cpu=1000, memory=4096, careful=True, set_by="the Vertical Pod Autoscaler"
    ), "its pods keep state"
    assert found["services.ranker"].scaled_by == {Resource.CPU}
    assert found["workers.train"].margin == one.margin


def test_services_run_always_and_pools_while_there_is_work(tmp_path: Path) -> None:
    found = found_in(tmp_path, WORKLOADS)

    assert {path for path, it in found.items() if it.always} == found.keys() - {"workers.train"}
    assert {path for path, it in found.items() if it.several} == {"workloads.api"}
    assert (found["workers.train"].kind, found["workers.train"].group) == (NodeKind.FLEXIBLE, "flexible")
