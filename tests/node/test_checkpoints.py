"""Trainings on real nodes, interrupted: their final weights are bit by bit those of an uninterrupted run."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rq.job import Job

from controllers.adapters.kube_api import Json
from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from tests.node import training
from tests.node.harbour import DAY, Harbour, config, parsed, pool, settle

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

POOL, CLAIM = "train", "checkpoints"
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"


def settings(week: Mapping[str, str] = DAY) -> StackSettings:
    code = Path(training.__file__).read_text(encoding="utf-8")
    return parsed(
        {
            **config(week),
            "ebbtide:workers": {
                **config(week)["ebbtide:workers"],
                POOL: pool(
                    POOL,
                    longestJob="12h",
                    checkpoints={"claim": CLAIM, "every": "5s", "saveWithin": "5s"},
                    volumes={"code": {"files": {"training.py": code}, "at": "/opt/jobs"}},
                    env={"PYTHONPATH": "/opt/jobs"},
                ),
            },
        }
    )


@pytest.fixture(scope="module")
def site(_installed: Harbour) -> Iterator[Harbour]:
    """With a pool whose workers share a volume for their checkpoints."""
    harbour = _installed
    settle(harbour)
    harbour.cluster.shared_volume(CLAIM, ("n1", "n2", "n3"), "1Gi")
    harbour.api.create(
        f"/api/v1/namespaces/{WORKER_NAMESPACE}/persistentvolumeclaims",
        {
            "metadata": {"name": CLAIM},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": CLAIM,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    with harbour.grown(settings()):
        yield harbour


@pytest.fixture
def training_of(site: Harbour, request: pytest.FixtureRequest) -> Job:
    """By day, one of 100 steps, of which several are done and saved."""
    say(site, DAY)
    site.wait(lambda: not workers(site), "the pool to be empty")
    job = site.enqueue_call("training.train", {"steps": 100, "pause": 0.4}, name=request.node.name, queue=POOL)
    site.wait(lambda: told(site, job).get("step", 0) >= 3, "the training to be saved")
    return job


def say(site: Harbour, week: Mapping[str, str]) -> None:
    """Business hours, of the larger stack."""
    file = site.rendered(of=settings(week)) / "40-config.yaml"
    site.cluster.plane.kubectl("apply", "--server-side", "-f", str(file))


def budget(site: Harbour) -> Json:
    return site.api.get(f"/apis/policy/v1/namespaces/{WORKER_NAMESPACE}/poddisruptionbudgets/{POOL}")


def told(site: Harbour, job: Job) -> dict[str, int]:
    """What Redis says of its last checkpoint."""
    found: Any = site.redis().hgetall(attempt_key(job.id))
    return {key.decode(): int(value) for key, value in found.items() if value.isdigit()}


def workers(site: Harbour) -> list[Json]:
    return site.pods(POOL, WORKER_NAMESPACE)


def uninterrupted(folder: Path) -> list[float]:
    return training.train({"steps": 100, "pause": 0.0, "store": str(folder), "job": "uninterrupted"})


def ended_as_if_nothing_had_been(site: Harbour, job: Job, folder: Path) -> bool:
    site.wait(lambda: site.done(job), "the training to end")
    return job.return_value() == uninterrupted(folder)


def test_a_pod_that_is_told_to_stop_leaves_within_seconds_and_its_training_goes_on(
    site: Harbour, training_of: Job, tmp_path: Path
) -> None:
    (worker,) = workers(site)
    name, before = worker["metadata"]["name"], told(site, training_of)
    assert worker["spec"]["terminationGracePeriodSeconds"] > 12 * 3600

    site.api.delete(f"{PODS}/{name}")
    site.wait(lambda: name not in {pod["metadata"]["name"] for pod in workers(site)}, "the pod to be gone")
    assert training_of.get_status(refresh=True) in ("queued", "started")

    assert ended_as_if_nothing_had_been(site, training_of, tmp_path)
    assert told(site, training_of)["attempt"] > before["attempt"]


def test_a_power_cut_costs_a_training_no_more_than_what_was_not_saved(
    site: Harbour, training_of: Job, tmp_path: Path
) -> None:
    (worker,) = workers(site)
    node, before = worker["spec"]["nodeName"], told(site, training_of)

    site.cluster.cut_power(node)
    site.wait(lambda: not site.cluster.is_ready(node), "the control plane to notice")
    site.cluster.boot(node)
    site.cluster.wait_until_ready(node)

    assert ended_as_if_nothing_had_been(site, training_of, tmp_path)
    assert told(site, training_of)["attempt"] > before["attempt"]
    assert training_of.retries_left is None


def test_a_drain_in_the_window_moves_a_training_and_by_day_it_does_not(
    site: Harbour, training_of: Job, tmp_path: Path
) -> None:
    (worker,) = workers(site)
    node, name = worker["spec"]["nodeName"], worker["metadata"]["name"]
    of_the_pool = f"app.kubernetes.io/name={POOL}"
    by_day = site.drain(node, seconds=5, only=of_the_pool)
    in_three_days = (datetime.now(UTC) + timedelta(days=3)).strftime("%a").lower()
    say(site, {in_three_days: "10:00-11:00"})
    site.wait(lambda: budget(site)["status"].get("disruptionsAllowed") == 1, "the pool's budget to be open")

    in_the_window = site.drain(node, seconds=120, only=of_the_pool)

    site.uncordon(node)
    assert by_day.returncode != 0
    assert "Cannot evict pod as it would violate the pod's disruption budget" in by_day.stderr
    assert in_the_window.returncode == 0, in_the_window.stderr
    assert name not in {pod["metadata"]["name"] for pod in workers(site)}
    assert ended_as_if_nothing_had_been(site, training_of, tmp_path)
