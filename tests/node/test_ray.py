"""Ray on real nodes: KubeRay's operator in a pod, a head, workers that Ray's autoscaler brings, a queue that drives it.

Every task's result is asked for, whatever was stopped, cut off or lost meanwhile.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from rq.job import Job

from ebbtide.provisioning_labels import WORKER_NAMESPACE
from tests.node.harbour import DAY, Harbour, night
from tests.node.ray_site import DRIVERS, GROUP, HEAD, PLAYED, POOL, RAY, WORKERS, Site, with_ray

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def _site(_installed: Harbour) -> Iterator[Site]:
    with with_ray(_installed) as site:
        yield site


@pytest.fixture
def site(_site: Site) -> Site:
    """With a head, no worker and no driver."""
    _site.wait(_site.head, "the head to be ready")
    _site.wait(_site.is_idle, "Ray's workers and the drivers to be gone")
    return _site


def found(site: Site, job: Job) -> Any:
    """What it gave."""
    site.wait(lambda: job.get_status(refresh=True) in ("finished", "failed"), "the job to end")
    result: Any = job.return_value()
    assert result is not None, job.latest_result()
    return result


def ended_right(site: Site, job: Job, count: int) -> bool:
    return found(site, job) == [number * number for number in range(count)]


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

    def is_within_a_task() -> bool:
        """True if the worker's last task ended 1 to 3 s ago: the next one began at once and takes 4 s."""
        ends = [task.ended for task in site.tasks(job) if task.pod == name]
        return bool(ends) and 1 < time.time() - max(ends) < 3

    site.wait(is_within_a_task, "a task of the worker to be under way")
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


def test_a_sweep_brings_rays_workers_and_loses_one_and_has_the_figures_of_one_process(site: Site) -> None:
    """Through Ray Client, from a pod with the same image that is not one of Ray's."""
    here = found(site, site.sweep("--processes", "1"))
    job = site.sweep("--ray", HEAD)
    # A fast machine may play all before the second worker is ready.
    site.wait(lambda: site.played(job), "a replay to be kept")
    worker = next(pod for pod in site.workers() if pod["status"]["phase"] == "Running")  # its probe may lag behind

    path = f"/api/v1/namespaces/{RAY}/pods/{worker['metadata']['name']}"
    site.harbour.cluster.plane.kubectl("delete", "--raw", f"{path}?gracePeriodSeconds=0")

    assert 0 < site.played(job) < PLAYED
    there = found(site, job)
    assert there["replays"] == here["replays"] == PLAYED
    assert there["digest"] == here["digest"]


def test_a_head_that_is_lost_takes_its_drivers_along_and_the_queue_brings_each_back(site: Site) -> None:
    jobs = [site.enqueue(60, 1.0) for _ in range(2)]
    site.wait(lambda: all(len(site.tasks(job)) > 5 for job in jobs), "both to be at work")
    head = site.wait(site.head, "the head")

    path = f"/api/v1/namespaces/{RAY}/pods/{head['metadata']['name']}"
    site.harbour.cluster.plane.kubectl("delete", "--raw", f"{path}?gracePeriodSeconds=0")

    assert all(ended_right(site, job, 60) for job in jobs)
    assert [site.comebacks(job) for job in jobs] == [1, 1]


def test_a_night_takes_the_head_too_and_the_queue_wakes_it(site: Site) -> None:
    site.tell(night())
    try:
        site.wait(lambda: not site.ray("headgroup"), "the cluster to sleep")
        job = site.enqueue(10, 0.1)

        assert ended_right(site, job, 10)
        site.wait(lambda: not site.ray("headgroup"), "the cluster to sleep again")
    finally:
        site.tell(DAY)
    site.wait(site.head, "the opening to wake it")
