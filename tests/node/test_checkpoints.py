"""Trainings on real nodes, interrupted: their final weights are bit by bit those of an uninterrupted run."""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rq.job import Job

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.provisioning_labels import WORKER_NAMESPACE, NodeKind
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.control_plane import eventually
from tests.node import training
from tests.node.harbour import DAY, Harbour, config, night, parsed, pool, settle

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

POOL, SPOT, CLAIM = "train", "spot", "checkpoints"
NOTICE = 120.0  # seconds from AWS' notice until the machine is shut down
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"


def settings(week: Mapping[str, str] = DAY) -> StackSettings:
    """With a group of spot nodes, which no file can give to a cluster that others made: n2 and n3."""
    given = config(week)
    given["ebbtide:cluster"]["nodeSelectors"][SPOT] = {"set": "flexible"}
    given["ebbtide:workers"] |= {POOL: trained(POOL), SPOT: trained(SPOT, nodeGroup=SPOT)}
    given["ebbtide:workers"][SPOT]["checkpoints"]["required"] = True
    group = NodeGroupSettings.model_validate({"kind": NodeKind.SPOT, "instanceTypes": ["m7i.4xlarge"], "max": 3})
    return parsed(given).model_copy(update={"node_groups": {SPOT: group}})


def trained(queue: str, **more: object) -> dict[str, Any]:
    code = Path(training.__file__).read_text(encoding="utf-8")
    return pool(
        queue,
        longestJob="12h",
        checkpoints={"claim": CLAIM, "every": "5s", "saveWithin": "5s"},
        volumes={"code": {"files": {"training.py": code}, "at": "/opt/jobs"}},
        env={"PYTHONPATH": "/opt/jobs"},
        **more,
    )


@pytest.fixture(scope="module")
def site(_installed: Harbour) -> Iterator[Harbour]:
    """With a pool whose workers share a volume for their checkpoints."""
    harbour = _installed
    settle(harbour)
    harbour.share_volume(CLAIM)
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
    site.tell(week, settings(week))


def budget(site: Harbour) -> Json:
    return site.api.get(f"/apis/policy/v1/namespaces/{WORKER_NAMESPACE}/poddisruptionbudgets/{POOL}")


def told(site: Harbour, job: Job) -> dict[str, int]:
    """What Redis says of its last checkpoint."""
    found: Any = site.redis().hgetall(attempt_key(job.id))
    return {key.decode(): int(value) for key, value in found.items() if value.isdigit()}


def workers(site: Harbour, name: str = POOL) -> list[Json]:
    return site.pods(name, WORKER_NAMESPACE)


def steps_done(site: Harbour, job: Job) -> list[int]:
    found: Any = site.redis().lrange(training.STEPS + job.id, 0, -1)
    return [int(step) for step in found]


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
    say(site, night())
    site.wait(lambda: budget(site)["status"].get("disruptionsAllowed") == 1, "the pool's budget to be open")

    in_the_window = site.drain(node, seconds=120, only=of_the_pool)

    site.uncordon(node)
    assert by_day.returncode != 0
    assert "Cannot evict pod as it would violate the pod's disruption budget" in by_day.stderr
    assert in_the_window.returncode == 0, in_the_window.stderr
    assert name not in {pod["metadata"]["name"] for pod in workers(site)}
    assert ended_as_if_nothing_had_been(site, training_of, tmp_path)


def test_a_spot_notice_saves_all_trainings_of_the_node_and_none_repeats_a_step(site: Harbour, tmp_path: Path) -> None:
    """What EKS does at the notice, by hand: it cordons the node and evicts all of its pods at once. Two minutes later
    the machine is off; here as soon as its workers have left, which they must do within them."""
    say(site, DAY)
    plan = {"steps": 100, "pause": 0.4}
    jobs = [site.enqueue_call("training.train", plan, name=f"spot-{number}", queue=SPOT) for number in range(3)]
    site.wait(lambda: all(told(site, job).get("step", 0) >= 3 for job in jobs), "the trainings to be saved")
    [(node, count)] = Counter(pod["spec"]["nodeName"] for pod in workers(site, SPOT)).most_common(1)
    training_there = {uid(pod) for pod in workers(site, SPOT) if pod["spec"]["nodeName"] == node}
    assert count >= 2
    there = site.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]

    site.cordon(node)
    with ThreadPoolExecutor(len(there)) as at_once:
        answers = dict(zip(map(uid, there), at_once.map(partial(evict, site), there), strict=True))
    eventually(
        lambda: not {uid(pod) for pod in workers(site, SPOT)} & training_there, what="them to go", patience=NOTICE
    )
    site.cluster.cut_power(node)
    try:
        site.wait(lambda: site.done(*jobs), "the trainings to end elsewhere")
    finally:
        site.cluster.boot(node)
        site.cluster.wait_until_ready(node)
        site.uncordon(node)

    assert [answers[uid(pod)] for pod in there if uid(pod) in training_there] == [201] * count
    assert [job.return_value() for job in jobs] == [uninterrupted(tmp_path)] * 3
    assert [steps_done(site, job) for job in jobs] == [list(range(100))] * 3
    assert sum(told(site, job)["attempt"] > 1 for job in jobs) == count


def uid(pod: Json) -> str:
    return pod["metadata"]["uid"]


def evict(site: Harbour, pod: Json) -> int:
    """The server's answer: 201, or 429 where a budget refuses."""
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    try:
        body = {"metadata": {"name": name, "namespace": namespace}}
        site.api.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)
    except ApiError as error:
        return error.status
    return 201
