"""Bursts of jobs on the demo customer's stack: pods of the real control plane, each a real RQ worker process.

Judged is what the jobs wrote down themselves (`tests.harness.real_jobs`), and what the kubelet did to their workers.
Nothing waits for a time alone but for what is to happen, so a busy machine makes a run longer and changes nothing else.
"""

import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random

from control_plane.plane.driver import ControlPlane
from control_plane.plane.kubelet import Happening, Kubelet, What
from control_plane.plane.stack import InstalledStack, add_group_node, install
from rq import Queue, Retry

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.demo.process_cluster import rq_worker_command
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import load_stack
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CATEGORY, NAMESPACE, WORKLOAD, Category
from tests.builders.control_plane import eventually
from tests.builders.operation import Scene
from tests.builders.redis import endpoint
from tests.control_plane.support.burst_jobs import hold
from tests.control_plane.support.two_replicas import kubeconfig_through
from tests.harness.api_proxy import ApiFault, ApiProxy
from tests.harness.real_jobs import Ledger, Turn, read_ledger, work
from tests.paths import DATA

HANDS_OFF = f"{CATEGORY}={Category.WORKER}"
WORKER_CLASS = "tests.control_plane.support.burst_jobs.HastyWorker"
POOLS = ("prep", "train")
MOST = 3  # workers of a pool
CALM = timedelta(seconds=1)
# A worker fills a node, and a rollout's old ones keep theirs; the services come first and fill nodes of their own.
SERVICE_NODES, WORKER_NODES = {"fixed": 3, "flexible": 3}, {"flexible": 2 * MOST + 1, "gpu": 2 * MOST + 1}
PATIENCE = 120.0  # seconds; for what takes less than thirty on a quiet machine

_PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
_QUOTAS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/resourcequotas"
_DEPLOYMENTS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
_STRAY = {What.NOT_STARTED, What.OUT_OF_GRACE, What.WITHOUT_POD}


@dataclass(kw_only=True)
class Platform:
    """The stack with its controller at work, and somebody who sends jobs."""

    plane: ControlPlane
    redis: EmbeddedRedis
    kubelet: Kubelet
    proxy: ApiProxy  # between the controller and the API server
    folder: Path
    sent: int = 0
    struck: set[int] = field(default_factory=set[int])  # jobs whose worker was killed from outside

    # --- jobs -----------------------------------------------------------------------------------------------------

    def send(self, pool: str, seconds: float) -> int:
        return self._send(pool, work, seconds)

    @contextmanager
    def held(self, pool: str, jobs: int) -> Generator[list[Turn]]:
        """Jobs that last as long as the block; each in a pod that runs in the API server's eyes, too."""
        gate = self.folder / f"gate-{secrets.token_hex(4)}"
        try:
            numbers = [self._send(pool, hold, str(gate)) for _ in range(jobs)]
            self.until(lambda: len(self.turns(numbers)) == jobs, "the held jobs to begin")
            turns = self.turns(numbers)
            self.until(lambda: {turn.pod for turn in turns} <= self._running(), "their pods to run")
            yield turns
        finally:
            gate.touch()

    def turns(self, numbers: Sequence[int]) -> list[Turn]:
        return [turn for turn in self.ledger().turns if turn.number in numbers]

    def ledger(self) -> Ledger:
        return read_ledger(self.folder / "ledger")

    def _send(self, pool: str, job: Callable[..., None], how: object) -> int:
        self.sent += 1
        with self.redis.client() as client:
            queue = Queue(pool, connection=client)
            queue.enqueue(job, str(self.folder / "ledger"), self.sent, how, retry=Retry(max=3), job_timeout=3600)
        return self.sent

    # --- pods -----------------------------------------------------------------------------------------------------

    def pods(self) -> list[Json]:
        return self.plane.api.get(_PODS)["items"]

    def _running(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods() if pod["status"]["phase"] == "Running"}

    def told(self) -> Counter[str]:
        """How often each worker was told to stop."""
        return Counter(entry.pod for entry in self.kubelet.history() if entry.what is What.TOLD_TO_STOP)

    def evict(self, pod: str) -> int:
        """The status of the Eviction API's answer."""
        try:
            self.plane.api.create(f"{_PODS}/{pod}/eviction", {"metadata": {"name": pod}})
        except ApiError as error:
            return error.status
        return 201

    def strike(self, turn: Turn) -> None:
        """Kill the worker of a job that runs, as the kernel does when memory runs out."""
        self.struck.add(turn.number)
        self.kubelet.kill(turn.pod)

    @contextmanager
    def frozen(self, turn: Turn) -> Generator[None]:
        """Its worker stands still, as where a node is out of memory or of disk."""
        worker = self.kubelet.processes()[turn.pod]
        os.killpg(worker, signal.SIGSTOP)
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(worker, signal.SIGCONT)

    @contextmanager
    def redis_full(self) -> Generator[None]:
        with self.redis.client() as client:
            client.config_set("maxmemory", 1)
            try:
                yield
            finally:
                client.config_set("maxmemory", 0)

    @contextmanager
    def quota(self, more: int) -> Generator[None]:
        """No more than `more` pods beside those that are there."""
        body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(len(self.pods()) + more)}}}
        self.plane.api.create(_QUOTAS, {"apiVersion": "v1", "kind": "ResourceQuota", **body})
        try:
            yield
        finally:
            self.plane.api.delete(f"{_QUOTAS}/few")

    @contextmanager
    def pods_silent(self) -> Generator[None]:
        self.proxy.begin(ApiFault.PODS_SILENT)
        try:
            yield
        finally:
            self.proxy.end()

    @contextmanager
    def slow_starts(self, seconds: float) -> Generator[None]:
        self.kubelet.start_after = seconds
        try:
            yield
        finally:
            self.kubelet.start_after = 0.0

    def roll_out(self, pool: str) -> None:
        """A new image, written as the provisioning side does: the template alone, and under a name of its own."""
        container = {"name": "worker", "image": f"registry.example.com/{pool}:{secrets.token_hex(4)}"}
        head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": pool}}
        change = {**head, "spec": {"template": {"spec": {"containers": [container]}}}}
        self.plane.api.apply(f"{_DEPLOYMENTS}/{pool}", change, manager="pulumi-kubernetes-1a2b3c4d")

    def is_rolled_out(self, pool: str) -> bool:
        """As `kubectl rollout status` judges it."""
        deployment = self.plane.api.get(f"{_DEPLOYMENTS}/{pool}")
        status, wanted = deployment["status"], deployment["spec"].get("replicas", 0)
        current = status["observedGeneration"] >= deployment["metadata"]["generation"]
        return current and {status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")} == {
            wanted
        }

    # --- the end --------------------------------------------------------------------------------------------------

    def until(self, holds: Callable[[], object], what: str) -> None:
        try:
            eventually(holds, what=what, patience=PATIENCE)
        except AssertionError as error:
            error.add_note("so far: " + ("; ".join(self.broken()) or "nothing is wrong"))
            raise

    def until_empty(self) -> None:
        """All that was sent is done, and no worker is left."""
        self.until(lambda: len(self.ledger().finished) == self.sent, "the end of the jobs")
        self.until(lambda: not self.pods() and not self.kubelet.processes(), "zero workers")

    def broken(self) -> list[str]:
        """What must not have happened to any job or worker since the beginning; what still runs counts as cut short."""
        turns = self.ledger().turns
        runs = Counter(turn.number for turn in turns)
        return [
            *(f"job {number} was lost" for number in range(1, self.sent + 1) if not runs[number]),
            *(f"job {number} ran {runs[number]} times" for number in runs if runs[number] != self._fair(number)),
            *(f"job {turn.number} was cut short in {turn.pod}" for turn in turns if self._is_cut_short(turn)),
            *(f"{entry.pod}: {entry.what}" for entry in self.kubelet.history() if entry.what in _STRAY),
            *(f"{pod} ended and nobody had asked" for pod in self._left_by_themselves()),
        ]

    def _fair(self, number: int) -> int:
        return 2 if number in self.struck else 1

    def _is_cut_short(self, turn: Turn) -> bool:
        return turn.finished is None and turn.number not in self.struck

    def _left_by_themselves(self) -> list[str]:
        before: dict[str, Happening] = {}
        left: list[str] = []
        for entry in self.kubelet.history():
            if entry.what is What.EXITED and before[entry.pod].what is What.STARTED:
                left.append(entry.pod)
            before[entry.pod] = entry
        return left


@contextmanager
def platform(plane: ControlPlane, folder: Path) -> Generator[Platform]:
    settings = load_stack("demo", DATA)
    with EmbeddedRedis() as redis:
        stack = install(plane, settings, folder / "rendered")
        for purpose, nodes in (("service", SERVICE_NODES), ("worker", WORKER_NODES)):
            for group, number in nodes.items():
                for place in range(number):
                    add_group_node(plane, settings, group, f"{group}-{purpose}-{place}")
            eventually(lambda: _services_are_placed(plane), what="the services to be placed", patience=PATIENCE)
        scene = Scene(plane=plane, redis=redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=folder)
        scene.write(dump(hasty(stack, redis)))

        def command(pod: Json) -> list[str]:
            name, queue = pod["metadata"]["name"], pod["metadata"]["labels"][WORKLOAD]
            return rq_worker_command(f"redis://{redis.host}:{redis.port}", name, [queue], WORKER_CLASS)

        with (
            Kubelet(plane.api, WORKER_NAMESPACE, command, log_folder=folder) as kubelet,
            ApiProxy(plane.url, str(plane.configuration().ssl_ca_cert)) as proxy,
            scene.leader(kubeconfig=kubeconfig_through(proxy, scene, "one")),
        ):
            yield Platform(plane=plane, redis=redis, kubelet=kubelet, proxy=proxy, folder=folder)


def hasty(stack: InstalledStack, redis: EmbeddedRedis) -> ControllerConfig:
    """As rendered, with fewer workers and a short calm."""
    config = stack.config_with(endpoint(redis))
    return replace(
        config, pools=tuple(replace(pool, max_workers=MOST, stabilization_window=CALM) for pool in config.pools)
    )


def _services_are_placed(plane: ControlPlane) -> bool:
    flexible = f"{CATEGORY}={Category.FLEXIBLE}"
    pods = plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=flexible)["items"]
    return bool(pods) and all(pod["spec"].get("nodeName") for pod in pods)


class Bursts:
    """Random bursts, the same for the same seed as far as a machine allows; among ten are nine with an incident."""

    def __init__(self, platform: Platform, seed: int) -> None:
        self._platform, self._random = platform, Random(f"bursts {seed}")
        self._incidents = {
            1: self._strike,
            2: self._freeze,
            3: self._roll_out,
            4: self._refuse_unseen,
            5: self._evict,
            6: self._fill_redis,
            7: self._roll_out_at_once,
            8: self._start_slowly,
            9: self._fall_silent,
        }
        self.met = 0  # bursts that came while workers were being told to stop
        self.growth = 0

    def run(self, number: int) -> None:
        for place in range(number):
            self._pause()
            pool = self._random.choice(POOLS)
            self._incidents.get(place % 10, self._burst)(pool)
        self._platform.until_empty()

    def _pause(self) -> None:
        """Hardly any, or until workers begin to go: the next jobs then come into the middle of it."""
        if self._random.random() < 0.5:
            time.sleep(self._random.uniform(0, 1))
            return
        deadline, before = time.monotonic() + 20, self._platform.told()
        while self._platform.kubelet.processes() and time.monotonic() < deadline:
            if self._platform.told() != before:
                self.met += 1
                return
            time.sleep(0.02)

    def _burst(self, pool: str) -> None:
        for other in POOLS:
            if other == pool or self._random.random() < 0.3:
                for _ in range(self._random.randint(1, 2 * MOST)):
                    self._platform.send(other, self._random.choice((0.05, 0.3, 1.0, 3.0)))
                    time.sleep(self._random.choice((0, 0, 0.1, 0.3)))

    def _strike(self, pool: str) -> None:
        """A worker is killed with its job, which must run again, and no other."""
        with self._platform.held(pool, 1) as (turn,):
            self._platform.strike(turn)
            self._burst(pool)

    def _evict(self, pool: str) -> None:
        with self._platform.held(pool, 1) as (turn,):
            status = self._platform.evict(turn.pod)
            # Of a worker that is leaving already, and ends its job within its grace, no budget is asked.
            assert status == 429 or self._platform.told()[turn.pod], status
            assert turn.pod in self._platform.kubelet.processes()
            self._burst(pool)

    def _freeze(self, pool: str) -> None:
        """A worker stands still for less than its registration lasts."""
        with self._platform.held(pool, 1) as (turn,), self._platform.frozen(turn):
            self._burst(pool)
            time.sleep(3)

    def _refuse_unseen(self, pool: str) -> None:
        """A quota stops the growth while the controller's view of the pods stands still."""
        with self._platform.held(pool, 1), self._platform.quota(1), self._platform.pods_silent():
            self._burst(pool)
            time.sleep(3)

    def _fill_redis(self, pool: str) -> None:
        """Workers can write neither heartbeats nor results for a while."""
        with self._platform.held(pool, 1):
            self._burst(pool)
            with self._platform.redis_full():
                time.sleep(5)

    def _start_slowly(self, pool: str) -> None:
        with self._platform.slow_starts(4):
            self._burst(pool)
            time.sleep(2)
        self._burst(pool)

    def _fall_silent(self, pool: str) -> None:
        """The controller goes on by what it saw last, until pods are lowered that it cannot see."""
        with self._platform.held(pool, 1), self._platform.pods_silent():
            self._burst(pool)
            time.sleep(5)

    def _roll_out_at_once(self, pool: str) -> None:
        """While workers start and pop."""
        self._burst(pool)
        self._platform.roll_out(pool)
        self._burst(pool)

    def _roll_out(self, pool: str) -> None:
        """It is over, and the new workers have done jobs, while the old ones still have theirs."""
        with self._platform.held(pool, MOST) as turns:
            old = {turn.pod for turn in turns}
            self._platform.roll_out(pool)
            self._platform.until(lambda: self._platform.is_rolled_out(pool), "the rollout")
            self._platform.until(lambda: old <= self._platform.told().keys(), "the old workers to be told")
            jobs = [self._platform.send(pool, 0.1) for _ in range(MOST)]
            self._platform.until(lambda: set(jobs) <= self._platform.ledger().finished, "jobs of the new workers")
            assert not old & {turn.pod for turn in self._platform.turns(jobs)}
            assert old <= self._platform.kubelet.processes().keys()
