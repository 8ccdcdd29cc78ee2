"""Trainings on real nodes, interrupted: their final weights are bit by bit those of an uninterrupted run."""

import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rq.job import Job

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.kube.taints import GPU_TAINT
from ebbtide.provisioning_labels import WORKER_NAMESPACE, NodeKind
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from ebbtide.vocabulary.labels import NODE_GROUP
from tests.builders.control_plane import eventually
from tests.node import training
from tests.node.device_plugin import RESOURCE
from tests.node.harbour import DAY, Harbour, config, is_ready, night, parsed, pool, settle
from tests.paths import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

POOL, SPOT, CLAIM = "train", "spot", "checkpoints"
TUNE, GPU_SPOT, GPU = "tune", "gpu-spot", "gpu"  # a pool with its first node group and its fallback
GPUS = "2"  # of a node
NOTICE = 120.0  # seconds from AWS' notice until the machine is shut down
PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"


def settings(week: Mapping[str, str] = DAY) -> StackSettings:
    """With groups of spot nodes and a fallback, which no file can give to a cluster that others made."""
    given = config(week)
    given["ebbtide:cluster"]["nodeSelectors"] |= {SPOT: {"set": "flexible"}, GPU_SPOT: {"set": "gpu"}}
    pools = {SPOT: trained(SPOT, nodeGroup=SPOT), TUNE: trained(TUNE, nodeGroup=GPU_SPOT, gpu=1)}
    for saved in pools.values():
        saved["checkpoints"]["required"] = True
    given["ebbtide:workers"] |= {POOL: trained(POOL), **pools}
    plain = parsed(given)
    tune = plain.workers[TUNE].model_copy(update={"fallback": GPU})
    return plain.model_copy(
        update={
            "node_groups": {SPOT: spot_group("m7i.4xlarge"), GPU_SPOT: spot_group("g5.2xlarge")},
            "workers": {**plain.workers, TUNE: tune},
        }
    )


def spot_group(kind: str) -> NodeGroupSettings:
    return NodeGroupSettings.model_validate({"kind": NodeKind.SPOT, "instanceTypes": [kind], "max": 3})


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
    say(site, DAY)
    jobs = trainings(site, SPOT, 3)
    [(node, count)] = Counter(pod["spec"]["nodeName"] for pod in workers(site, SPOT)).most_common(1)
    assert count >= 2

    with interrupted(site, node, SPOT) as answers:
        site.wait(lambda: site.done(*jobs), "the trainings to end elsewhere")

    assert answers == [201] * count
    assert [job.return_value() for job in jobs] == [uninterrupted(tmp_path)] * 3
    assert [steps_done(site, job) for job in jobs] == [list(range(100))] * 3
    assert sum(told(site, job)["attempt"] > 1 for job in jobs) == count


def test_trainings_on_gpus_of_a_spot_node_go_on_at_its_notice_on_the_fallback(
    site: Harbour, gpus: tuple[str, str], tmp_path: Path
) -> None:
    """The GPUs are a stand-in's (`tests.node.device_plugin`). Nothing is computed on one."""
    on_spot, on_demand = gpus
    say(site, DAY)
    jobs = trainings(site, TUNE, 2)
    assert [pod["spec"]["nodeName"] for pod in workers(site, TUNE)] == [on_spot] * 2  # both nodes have free GPUs

    with interrupted(site, on_spot, TUNE) as answers:
        site.wait(lambda: places(site, TUNE) == [on_demand] * 2, "the workers to fall back")
        site.wait(lambda: site.done(*jobs), "the trainings to end there")

    assert answers == [201] * 2
    assert [job.return_value() for job in jobs] == [uninterrupted(tmp_path)] * 2
    assert [steps_done(site, job) for job in jobs] == [list(range(100))] * 2
    assert [told(site, job)["attempt"] > 1 for job in jobs] == [True] * 2


@pytest.fixture
def gpus(site: Harbour) -> Iterator[tuple[str, str]]:
    """A spot node and an ordinary one, each with two GPUs, and with the labels by which the pool's pods choose."""
    cluster, on_spot, on_demand = site.cluster, "n4", "n3"
    site.wait(lambda: not workers(site, TUNE), "the worker that an installation starts to be gone")
    cluster.boot(on_spot, labels={"set": "gpu", NODE_GROUP: GPU_SPOT}, taints=[str(GPU_TAINT)])
    cluster.wait_until_ready(on_spot)
    label(site, on_demand, GPU)
    for node in (on_spot, on_demand):
        plug_in_gpus(site, node)
    for node in (on_spot, on_demand):
        site.wait(lambda node=node: takes_gpu_pods(site, node), f"the GPUs of {node} to be offered")
    try:
        yield on_spot, on_demand
    finally:
        for node in (on_spot, on_demand):
            cluster.processes.stop(plugin_of(node))
        cluster.cut_power(on_spot)
        site.api.delete(f"/api/v1/nodes/{on_spot}")
        label(site, on_demand, None)


def plugin_of(node: str) -> str:
    return f"device-plugin-{node}"


def plug_in_gpus(site: Harbour, node: str) -> None:
    """Start the stand-in, for a kubelet that has none, or that has started anew."""
    sockets = site.cluster.folder_of(node) / "lib" / "kubelet" / "device-plugins"
    program = [sys.executable, "-m", "tests.node.device_plugin", str(sockets), GPUS]
    site.cluster.processes.start(plugin_of(node), ["env", f"--chdir={ROOT}", *program])


def takes_gpu_pods(site: Harbour, node: str) -> bool:
    """Whether it offers its GPUs and has no taint but theirs: after a boot it is ready, and tainted for a while."""
    found = site.api.get(f"/api/v1/nodes/{node}")
    offered = found["status"].get("allocatable", {}).get(RESOURCE)
    return offered == GPUS and {taint["key"] for taint in found["spec"].get("taints", ())} <= {GPU_TAINT.key}


def label(site: Harbour, node: str, group: str | None) -> None:
    site.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {NODE_GROUP: group}}})


def places(site: Harbour, pool: str) -> list[str]:
    return [pod["spec"].get("nodeName", "") for pod in workers(site, pool) if is_ready(pod)]


def trainings(site: Harbour, pool: str, count: int) -> list[Job]:
    """So many of 100 steps, of which several are done and saved."""
    plan = {"steps": 100, "pause": 0.4}
    first = site.redis().incrby("test:trainings", count) - count  # a job's name is never used twice
    names = [f"{pool}-{first + number}" for number in range(count)]
    jobs = [site.enqueue_call("training.train", plan, name=name, queue=pool) for name in names]
    site.wait(lambda: all(told(site, job).get("step", 0) >= 3 for job in jobs), "the trainings to be saved")
    return jobs


@contextmanager
def interrupted(site: Harbour, node: str, pool: str) -> Generator[list[int]]:
    """The answers to the evictions of the pool's workers there.

    What EKS does at the notice, by hand: it cordons the node and evicts all of its pods at once. Two minutes later the
    machine is off; here as soon as its workers have left, which they must do within them. It boots again at the end.
    """
    there = site.api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    training_there = {uid(pod) for pod in workers(site, pool) if pod["spec"]["nodeName"] == node}
    site.cordon(node)
    with ThreadPoolExecutor(len(there)) as at_once:
        answers = dict(zip(map(uid, there), at_once.map(partial(evict, site), there), strict=True))
    eventually(
        lambda: not {uid(pod) for pod in workers(site, pool)} & training_there, what="them to go", patience=NOTICE
    )
    site.cluster.cut_power(node)
    try:
        yield [answers[each] for each in training_there]
    finally:
        site.cluster.boot(node)
        site.cluster.wait_until_ready(node)
        if plugin_of(node) in site.cluster.processes.names():
            site.cluster.processes.stop(plugin_of(node))
            plug_in_gpus(site, node)
        site.uncordon(node)


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
