"""The pools' workers, and the producers of their jobs, simulated by one thread in faster time.

They are simulated because of time: a real RQ worker takes a second to start, which at 240 times the speed would be four
minutes, and thirty of them share the machine with a control plane. Their keys are real, written to a real Redis in RQ's
order: a job is moved to the intermediate list, then registered as running while its worker is busy, then removed. A
worker keeps its job through SIGTERM, as the safe class of `ebbtide.jobs` does, and ends when the job is done.

The kubelet's part is simulated too: pods run some time after they are bound, and vanish with the process. KWOK would
end them at once.
"""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from types import TracebackType
from typing import Self, cast

from redis import Redis

from control_plane.night.paced import Paced
from control_plane.night.scaled import ScaledClock
from control_plane.plane.pod_status import STRATEGIC_MERGE, PodState, status_patch
from control_plane.plane.watched import Watched
from controllers.adapters.kube_api import ApiError, Json, KubeApi
from ebbtide.lab.simulator.world.workers import JobRun, WorkerTimes
from ebbtide.provisioning_labels import POOL, WORKER_NAMESPACE

_PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
_GOOD_FOR = 3600.0  # real seconds until a running job's entry counts as stale; no run lasts longer


@dataclass(slots=True, eq=False)
class _Worker:
    name: str  # of its pod
    queue: str
    running: bool = False
    stopping: bool = False
    job: str = ""  # popped or running


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """The jobs of a night. `startup_s` is virtual: from bound to ready to pop."""

    jobs: Sequence[JobRun]  # `started_at`, `done_at` and `interruptions` are written
    queue_of: Mapping[str, str]  # by pool
    startup_s: float


class PlayedWorkers:
    """Context manager. Jobs are enqueued at their virtual second."""

    def __init__(self, api: KubeApi, redis: Redis, clock: ScaledClock, shift: Shift) -> None:
        self._api, self._redis, self._shift = api, redis, shift
        self._pace = Paced(clock, "workers")
        self._pods = Watched(api, _PODS, lambda: self._pace.call(self._look))
        self._jobs = {f"job-{number}": job for number, job in enumerate(shift.jobs)}
        self._workers: dict[str, _Worker] = {}  # by the uid of the pod
        self._free: dict[str, list[_Worker]] = {queue: [] for queue in shift.queue_of.values()}  # longest first
        self._times, self._random, self._addresses = WorkerTimes(), Random(0), itertools.count()

    def __enter__(self) -> Self:
        for name, job in self._jobs.items():
            self._pace.timeline.at(job.submitted_at, lambda name=name, job=job: self._enqueue(name, job))
        self._pods.start()
        self._pace.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pods.close()
        self._pace.__exit__(kind, error, trace)

    @property
    def failed(self) -> bool:
        return self._pace.failed

    # --- the kubelet's part -----------------------------------------------------------------------------------------

    def _look(self) -> None:
        items = {item["metadata"]["uid"]: item for item in self._pods.snapshot().values()}
        for uid in self._workers.keys() - items.keys():
            self._vanish(self._workers.pop(uid))
        for uid, item in items.items():
            if "nodeName" in item["spec"]:
                self._tend(uid, item)

    def _tend(self, uid: str, item: Json) -> None:
        metadata, worker = item["metadata"], self._workers.get(uid)
        if worker is None:
            queue = self._shift.queue_of[metadata["labels"][POOL]]
            worker = self._workers[uid] = _Worker(metadata["name"], queue)
            self._pace.timeline.after(self._shift.startup_s, lambda: self._start(uid, item))
        if "deletionTimestamp" in metadata and not worker.stopping:
            worker.stopping = True
            if worker in self._free[worker.queue]:
                self._free[worker.queue].remove(worker)
            if not worker.job:
                self._pace.timeline.after(self._times.idle_exit_s, lambda: self._exit(uid))

    def _start(self, uid: str, item: Json) -> None:
        worker, now = self._workers.get(uid), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if worker is None or worker.stopping:
            return
        number = next(self._addresses)
        state = PodState(running=True, since=now, started=now, ip=f"10.244.{number // 250}.{number % 250 + 1}")
        try:
            self._api.patch(f"{_PODS}/{worker.name}/status", status_patch(item, state), STRATEGIC_MERGE)
        except ApiError as error:
            if error.status != 404:  # just deleted: the watch reports it
                raise
            return
        worker.running = True
        self._register(worker)

    def _exit(self, uid: str) -> None:
        """End the process, and with it the pod."""
        worker = self._workers.get(uid)
        if worker is None:
            return
        if worker.running:
            self._unregister(worker)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        try:
            # The controller deletes nothing, so its client has no method for a deletion with options.
            self._api._answer("DELETE", f"{_PODS}/{worker.name}", {}, options)  # noqa: SLF001
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def _vanish(self, worker: _Worker) -> None:
        """Forget a worker whose object is gone: after its exit, or by force, which interrupts a job."""
        if worker in self._free[worker.queue]:
            self._free[worker.queue].remove(worker)
        if worker.job:
            self._jobs[worker.job].interruptions += 1

    # --- the worker's part, in RQ's keys ----------------------------------------------------------------------------

    def _enqueue(self, name: str, job: JobRun) -> None:
        queue = self._shift.queue_of[job.pool]
        with self._redis.pipeline() as pipeline:
            pipeline.sadd("rq:queues", f"rq:queue:{queue}")
            pipeline.hset(f"rq:job:{name}", mapping={"enqueued_at": datetime.now(UTC).isoformat()})
            pipeline.rpush(f"rq:queue:{queue}", name)
            pipeline.execute()
        self._feed(queue)

    def _register(self, worker: _Worker) -> None:
        key = f"rq:worker:{worker.name}"
        with self._redis.pipeline() as pipeline:
            pipeline.hset(key, mapping={"hostname": worker.name, "state": "idle", "current_job": ""})
            pipeline.sadd("rq:workers", key)
            pipeline.sadd(f"rq:workers:{worker.queue}", key)
            pipeline.execute()
        self._free[worker.queue].append(worker)
        self._feed(worker.queue)

    def _unregister(self, worker: _Worker) -> None:
        key = f"rq:worker:{worker.name}"
        with self._redis.pipeline() as pipeline:
            pipeline.srem("rq:workers", key)
            pipeline.srem(f"rq:workers:{worker.queue}", key)
            pipeline.delete(key)
            pipeline.execute()

    def _feed(self, queue: str) -> None:
        """Schedule one attempt for each new job and each free worker."""
        self._pace.timeline.after(self._times.pop_s, lambda: self._pop(queue))

    def _pop(self, queue: str) -> None:
        free = self._free[queue]
        if not free:
            return
        popped = self._redis.lmove(f"rq:queue:{queue}", f"rq:queue:{queue}:intermediate", "LEFT", "RIGHT")
        if popped is None:
            return
        worker = free.pop(0)
        worker.job = cast("bytes", popped).decode()
        window = self._random.uniform(*self._times.window_s)
        self._pace.timeline.after(window, lambda: self._run(worker))

    def _run(self, worker: _Worker) -> None:
        job, name, queue = self._jobs[worker.job], worker.job, worker.queue
        with self._redis.pipeline() as pipeline:
            pipeline.hset(f"rq:worker:{worker.name}", mapping={"state": "busy", "current_job": name})
            pipeline.zadd(f"rq:wip:{queue}", {name: time.time() + _GOOD_FOR})
            pipeline.lrem(f"rq:queue:{queue}:intermediate", 1, name)
            pipeline.execute()
        job.started_at = self._pace.timeline.now
        self._pace.timeline.after(job.duration_s, lambda: self._finish(worker))

    def _finish(self, worker: _Worker) -> None:
        uid = next((uid for uid, other in self._workers.items() if other is worker), None)
        if uid is None:
            return
        self._jobs[worker.job].done_at = self._pace.timeline.now
        with self._redis.pipeline() as pipeline:
            pipeline.zrem(f"rq:wip:{worker.queue}", worker.job)
            pipeline.hset(f"rq:worker:{worker.name}", mapping={"state": "idle", "current_job": ""})
            pipeline.execute()
        worker.job = ""
        if worker.stopping:
            self._pace.timeline.after(self._times.idle_exit_s, lambda: self._exit(uid))
        else:
            self._free[worker.queue].append(worker)
            self._feed(worker.queue)
