"""Ray on real nodes: KubeRay's operator in a pod, a head, workers that Ray's autoscaler brings, a queue that drives it.

Every task's result is asked for, whatever was stopped, cut off or lost meanwhile.
"""

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from control_plane.nodes.images.recipes import RAY_TAG
from rq.job import Job

from controllers.adapters.kube_api import Json
from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.ray import TOKEN_KEY, token_secret
from ebbtide.vocabulary.labels import NAMESPACE
from tests.node import tasks
from tests.node.harbour import DAY, Harbour, config, is_ready, parsed, pool, settle

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

CLUSTER, POOL, GROUP = "flow", "drive", "cpu"
RAY = f"ebbtide-ray-{CLUSTER}"
CLAIM = "ray-checkpoints"
DRIVERS, WORKERS = 3, 2


def settings(week: Mapping[str, str] = DAY) -> StackSettings:
    code = {"files": {"tasks.py": Path(tasks.__file__).read_text(encoding="utf-8")}, "at": "/opt/jobs"}
    imported: dict[str, Any] = {"volumes": {"code": code}, "env": {"PYTHONPATH": "/opt/jobs"}}
    return parsed(
        {
            **config(week),
            "ebbtide:ray": {
                CLUSTER: {
                    "version": RAY_TAG.rpartition(":")[2],
                    "image": RAY_TAG,
                    "head": {"cpu": "500m", "memory": "2Gi"},
                    "groups": {GROUP: {"max": WORKERS, "cpu": 1, "memory": "2Gi", "idleAfter": "20s", **imported}},
                    "longestTask": "60s",
                    "sleep": {"when": "outsideBusinessHours", "after": "1m", "wake": ["businessHours", "queue"]},
                }
            },
            "ebbtide:workers": {
                POOL: pool(
                    POOL,
                    image=RAY_TAG,
                    max=DRIVERS,
                    memory="768Mi",
                    ray=CLUSTER,
                    longestJob="12h",
                    checkpoints={"claim": CLAIM, "every": "5s", "saveWithin": "5s"},
                    **imported,
                )
            },
        }
    )


@dataclass(frozen=True)
class Done:
    """A task."""

    number: int
    pod: str
    began: float
    ended: float


class Site:
    """The harbour, with Ray."""

    def __init__(self, harbour: Harbour) -> None:
        self.harbour, self.api = harbour, harbour.api

    def ray(self, group: str) -> list[Json]:
        path, selector = f"/api/v1/namespaces/{RAY}/pods", f"ray.io/group={group}"
        return self.api.get(path, labelSelector=selector)["items"]

    def workers(self) -> list[Json]:
        return [pod for pod in self.ray(GROUP) if "deletionTimestamp" not in pod["metadata"]]

    def ready_workers(self) -> list[Json] | None:
        """All that there may be."""
        ready = [pod for pod in self.workers() if is_ready(pod)]
        return ready if len(ready) == WORKERS else None

    def head(self) -> Json | None:
        """If it is ready."""
        return next((pod for pod in self.ray("headgroup") if is_ready(pod) and "deletionTimestamp" not in pod), None)

    def enqueue(self, count: int, pause: float) -> Job:
        plan, name = {"count": count, "pause": pause}, f"squares-{secrets.token_hex(4)}"
        return self.harbour.enqueue_call("tasks.squares", plan, name=name, queue=POOL)

    def tasks(self, job: Job) -> list[Done]:
        """In the order in which the driver heard of them, those of former attempts first."""
        found: Any = self.harbour.redis().lrange(tasks.DONE + job.id, 0, -1)
        parts = [line.decode().split() for line in found]
        return [Done(int(number), pod, float(began), float(ended)) for number, pod, began, ended in parts]

    def comebacks(self, job: Job) -> int:
        """How often the job was given back to its queue. Its attempt's number rises then and when the next begins."""
        attempt: Any = self.harbour.redis().hget(attempt_key(job.id), "attempt")
        return (int(attempt) - 1) // 2

    def tell(self, week: Mapping[str, str]) -> None:
        file = self.harbour.rendered(of=settings(week)) / "40-config.yaml"
        self.harbour.cluster.plane.kubectl("apply", "--server-side", "-f", str(file))

    def is_idle(self) -> bool:
        return not self.ray(GROUP) and not self.harbour.pods(POOL, WORKER_NAMESPACE)

    def wait(self, look: Any, what: str) -> Any:
        return self.harbour.wait(look, what)


@pytest.fixture(scope="module")
def _grown(_installed: Harbour) -> Iterator[Harbour]:
    harbour = _installed
    settle(harbour)
    kubectl = harbour.cluster.plane.kubectl
    harbour.cluster.shared_volume(CLAIM, ("n1", "n2", "n3"), "1Gi")
    files = harbour.rendered(of=settings())
    kubectl("apply", "--server-side", "-f", str(files / "10-namespaces.yaml"))
    token = f"--from-literal={TOKEN_KEY}={secrets.token_hex(32)}"
    for namespace in (NAMESPACE, RAY, WORKER_NAMESPACE):
        kubectl("create", "secret", "generic", token_secret(CLUSTER), "--namespace", namespace, token)
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": CLAIM}
    wanted = {"metadata": {"name": CLAIM}, "spec": {**claim, "resources": {"requests": {"storage": "1Gi"}}}}
    harbour.api.create(f"/api/v1/namespaces/{WORKER_NAMESPACE}/persistentvolumeclaims", wanted)
    kubectl("apply", "--server-side", "-f", str(files / "20-cluster.yaml"))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/rayclusters.ray.io")
    with harbour.grown(settings()):
        yield harbour
        harbour.api.delete(f"/apis/ray.io/v1/namespaces/{RAY}/rayclusters/{CLUSTER}")  # while its operator is there
        harbour.wait(lambda: not Site(harbour).ray("headgroup"), "the head to go")


@pytest.fixture
def site(_grown: Harbour) -> Site:
    """With a head, no worker and no driver."""
    site = Site(_grown)
    site.wait(site.head, "the head to be ready")
    site.wait(site.is_idle, "Ray's workers and the drivers to be gone")
    return site


def ended_right(site: Site, job: Job, count: int) -> bool:
    site.wait(lambda: job.get_status(refresh=True) in ("finished", "failed"), "the job to end")
    return job.return_value() == [number * number for number in range(count)]


def test_drivers_of_a_queue_bring_rays_workers_which_leave_when_they_are_idle(site: Site) -> None:
    jobs = [site.enqueue(80, 0.3) for _ in range(DRIVERS)]

    assert all(ended_right(site, job, 80) for job in jobs)
    site.wait(site.is_idle, "workers and drivers to leave")

    done = [site.tasks(job) for job in jobs]
    assert [sorted(task.number for task in of) for of in done] == [list(range(80))] * DRIVERS
    assert max(of[0].began for of in done) < min(of[-1].ended for of in done), "all at once"
    assert len({task.pod for of in done for task in of}) == WORKERS


def test_a_worker_that_is_told_to_stop_ends_its_task_first(site: Site) -> None:
    job = site.enqueue(40, 4.0)
    worker, _ = site.wait(site.ready_workers, "the workers to be ready")
    name = worker["metadata"]["name"]
    site.wait(lambda: name in {task.pod for task in site.tasks(job)}, "it to work")

    told = time.time()
    site.api.delete(f"/api/v1/namespaces/{RAY}/pods/{name}")
    site.wait(lambda: name not in {pod["metadata"]["name"] for pod in site.ray(GROUP)}, "the worker to be gone")

    assert ended_right(site, job, 40)
    done = site.tasks(job)
    assert sorted(task.number for task in done) == list(range(40))
    assert any(task.pod == name and task.began < told < task.ended for task in done)
    assert site.comebacks(job) == 0


def test_a_power_cut_of_a_workers_node_costs_no_task(site: Site) -> None:
    """Ray does again what was lost, and the driver, on another node, goes on."""
    job = site.enqueue(100, 1.0)
    workers = site.wait(site.ready_workers, "the workers to be ready")
    site.wait(lambda: len({task.pod for task in site.tasks(job)}) == WORKERS, "both to work")
    (driver,) = site.harbour.pods(POOL, WORKER_NAMESPACE)
    cluster, node = (
        site.harbour.cluster,
        next(pod["spec"]["nodeName"] for pod in workers if pod["spec"]["nodeName"] != driver["spec"]["nodeName"]),
    )

    cluster.cut_power(node)
    site.wait(lambda: not cluster.is_ready(node), "the control plane to notice")
    cluster.boot(node)
    cluster.wait_until_ready(node)

    assert ended_right(site, job, 100)
    assert sorted(task.number for task in site.tasks(job)) == list(range(100))
    assert site.comebacks(job) == 0


def test_a_head_that_is_lost_takes_its_drivers_along_and_the_queue_brings_each_back(site: Site) -> None:
    jobs = [site.enqueue(60, 1.0) for _ in range(2)]
    site.wait(lambda: all(len(site.tasks(job)) > 5 for job in jobs), "both to be at work")
    head = site.wait(site.head, "the head")

    path = f"/api/v1/namespaces/{RAY}/pods/{head['metadata']['name']}"
    site.harbour.cluster.plane.kubectl("delete", "--raw", f"{path}?gracePeriodSeconds=0")

    assert all(ended_right(site, job, 60) for job in jobs)
    assert [site.comebacks(job) for job in jobs] == [1, 1]


def test_a_night_takes_the_head_too_and_the_queue_wakes_it(site: Site) -> None:
    in_three_days = (datetime.now(UTC) + timedelta(days=3)).strftime("%a").lower()
    site.tell({in_three_days: "10:00-11:00"})
    try:
        site.wait(lambda: not site.ray("headgroup"), "the cluster to sleep")
        job = site.enqueue(10, 0.1)

        assert ended_right(site, job, 10)
        site.wait(lambda: not site.ray("headgroup"), "the cluster to sleep again")
    finally:
        site.tell(DAY)
    site.wait(site.head, "the opening to wake it")
