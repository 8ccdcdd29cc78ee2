"""Jobs of a queue drive Ray: several at once, interrupted, and with what they may not have."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from rq.job import Job

from ebbtide.jobs import __version__
from tests.builders.redis import wait_until
from tests.processes import lives
from tests.ray.drivers import Pool, tree_of

pytestmark = pytest.mark.ray

OLDER = """
import importlib.metadata, sys, types

ours = types.ModuleType("ray._version")
ours.version, ours.commit = "2.59.0", ""
sys.modules["ray._version"] = ours
found = importlib.metadata.version
importlib.metadata.version = lambda name: ours.version if name == "ray" else found(name)
"""


def ended(job: Job) -> bool:
    return job.get_status() in {"finished", "failed"}


def result(job: Job) -> object:
    wait_until(lambda: ended(job), f"the job {job.id} to end")
    return job.return_value() if job.is_finished else str(job.latest_result())


def why(job: Job) -> str:
    """The last line of the error."""
    wait_until(lambda: ended(job), f"the job {job.id} to end")
    failed = job.latest_result()
    assert failed is not None
    return str(failed.exc_string).strip().splitlines()[-1]


def is_still(path: Path) -> bool:
    """Whether the task has stopped writing."""
    size = path.stat().st_size
    time.sleep(0.5)
    return path.stat().st_size == size


def assert_still(path: Path) -> None:
    assert is_still(path), "the task goes on"


def test_three_drivers_at_once_all_end_and_record_what_repeats_each_run(pool: Pool) -> None:
    for _ in range(3):
        pool.worker(EBBTIDE_RAY=pool.cluster.told(image="registry/flow@sha256:1f"))

    jobs = [pool.enqueue("squares", count, 0.5) for count in (4, 5, 5)]

    wait_until(lambda: all(job.get_status() == "started" for job in jobs), "three drivers at once")
    assert [result(job) for job in jobs] == [14, 30, 30]
    records: list[dict[str, str]] = [job.get_meta(refresh=True)["ebbtide:run"] for job in jobs]
    assert {key: records[0][key] for key in ("image", "function", "ray", "ebbtide-jobs")} == {
        "image": "registry/flow@sha256:1f",
        "function": "ray_app.squares",
        "ray": "2.60.0",
        "ebbtide-jobs": __version__,
    }
    assert records[0] != records[1] == records[2]
    assert json.dumps(records[0]) in pool.log.read_text()


def test_a_paused_driver_cancels_its_task_and_another_goes_on_at_its_checkpoint(pool: Pool, tmp_path: Path) -> None:
    worker = pool.worker()
    job = pool.enqueue("steps", 3, str(tmp_path))
    wait_until((tmp_path / "1-1").exists, "the second step to run")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    assert_still(tmp_path / "1-1")
    pool.worker()
    assert result(job) == [0, 1, 2]
    assert not list(tmp_path.glob("0-[2-9]*")), "the first step was repeated"


def test_a_driver_whose_machine_is_gone_loses_its_task_and_its_job_begins_again_at_its_checkpoint(
    pool: Pool, tmp_path: Path
) -> None:
    worker = pool.worker()
    job = pool.enqueue("steps", 3, str(tmp_path))
    wait_until((tmp_path / "1-1").exists, "the second step to run")

    pool.kill(worker)

    wait_until(lambda: is_still(tmp_path / "1-1"), "the task to be cancelled")
    pool.expire(job)
    pool.worker()
    assert result(job) == [0, 1, 2]
    assert not list(tmp_path.glob("0-[2-9]*")), "the first step was repeated"


def test_a_driver_that_is_killed_alone_loses_its_task_and_raylet_and_its_worker_begins_it_again(
    pool: Pool, tmp_path: Path
) -> None:
    pool.worker()
    job = pool.enqueue("steps", 2, str(tmp_path))
    wait_until((tmp_path / "1-1").exists, "the second step to run")

    driver, *beside = tree_of(int((tmp_path / "driver").read_text()))

    os.kill(driver, signal.SIGKILL)

    assert result(job) == [0, 1]
    assert_still(tmp_path / "1-1")
    assert len(beside) > 1
    wait_until(lambda: not any(map(lives, beside)), "the raylet beside it to be gone")
    assert not list(tmp_path.glob("0-[2-9]*")), "the first step was repeated"


def test_a_driver_ends_with_the_raylet_beside_it_and_its_worker_begins_it_again(pool: Pool, tmp_path: Path) -> None:
    """Ray ends the raylet when a new head stands where its own was, and leaves the driver waiting for its tasks:
    `tests/node/test_ray.py` loses a head."""
    pool.worker()
    job = pool.enqueue("steps", 2, str(tmp_path))
    wait_until((tmp_path / "1-1").exists, "the second step to run")

    pool.end(tree_of(int((tmp_path / "driver").read_text()))[1:])

    assert result(job) == [0, 1]
    assert "the raylet beside this driver has ended" in pool.log.read_text()
    assert not list(tmp_path.glob("0-[2-9]*")), "the first step was repeated"


def test_a_pool_of_another_version_is_refused_in_one_line(pool: Pool) -> None:
    pool.worker(EBBTIDE_RAY=pool.cluster.told(version="2.59.0"))

    said = why(pool.enqueue("squares", 1))

    assert said == (
        "ebbtide.jobs.ray_node.RayError: EBBTIDE_RAY: this image has Ray 2.60.0 "
        "and the Ray cluster flow has 2.59.0: both must be equal"
    )


def test_a_head_of_another_version_than_it_was_said_to_have_is_refused_in_one_line(pool: Pool, tmp_path: Path) -> None:
    """An older image under the same tag: here the installed one says that it is older."""
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "sitecustomize.py").write_text(OLDER)
    found = os.pathsep.join([str(tmp_path / "image"), pool.cluster.environment()["PYTHONPATH"]])
    pool.worker(EBBTIDE_RAY=pool.cluster.told(version="2.59.0"), PYTHONPATH=found)

    said = why(pool.enqueue("squares", 1))

    assert re.fullmatch(
        r"ebbtide.jobs.ray_node.RayError: Ray cluster flow at \S+ runs Ray 2.60.0 on Python \S+, "
        r"and this image has Ray 2.59.0 on Python \S+: both must be equal",
        said,
    ), said


@pytest.mark.parametrize("token", ["another cluster's", None])
def test_a_wrong_token_is_refused_in_one_line(pool: Pool, tmp_path: Path, token: str | None) -> None:
    if token:
        (tmp_path / "token").write_text(token)
    pool.worker(RAY_AUTH_TOKEN_PATH=str(tmp_path / "token"))

    said = why(pool.enqueue("squares", 1))

    assert said == (
        f"ebbtide.jobs.ray_node.RayError: Ray cluster flow at {pool.cluster.address} refuses the token: "
        f"found RAY_AUTH_MODE token, RAY_AUTH_TOKEN_PATH {tmp_path / 'token'}; "
        "wanted RAY_AUTH_MODE token and a file with the cluster's token"
    )


def test_a_job_waits_for_a_head_that_sleeps_and_goes_back_when_its_worker_is_told_to_stop(pool: Pool) -> None:
    worker = pool.worker(EBBTIDE_RAY=pool.cluster.told(address=f"{pool.cluster.head.ip}:1"))
    job = pool.enqueue("squares", 3)
    wait_until(lambda: "waiting for Ray cluster flow" in pool.log.read_text(), "the job to wait")

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(60) == 0
    assert job.get_status() == "queued"
    pool.worker()
    assert result(job) == 5
