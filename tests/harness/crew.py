"""The workers in the pods: they register, pop, run and finish jobs, and stop between jobs when told to."""

from collections import Counter
from collections.abc import Callable
from random import Random

from tests.harness.agenda import Agenda
from tests.harness.cluster import Cluster, Pod
from tests.harness.queues import MAINTENANCE, Redis

RETRY = 1.0  # seconds until a worker tries again what Redis did not take


class Crew:
    def __init__(self, agenda: Agenda, random: Random, redis: Redis, cluster: Cluster) -> None:
        self._agenda = agenda
        self._random = random
        self._redis = redis
        self._cluster = cluster
        self.counts: Counter[str] = Counter()
        self.stale_waits: list[float] = []
        redis.on_return = self._wake_all
        redis.on_cleared = self._register_again
        self._idle: dict[str, dict[str, Pod]] = {name: {} for name in redis.queues}
        self._frozen: set[str] = set()  # pods whose processes stand still
        self._dead: set[str] = set()  # pods whose node has no power: nothing in them hears anything

    def news(self, pool: str) -> None:
        """A job waits: the idle worker that waited longest takes it."""
        if self._idle[pool]:
            self._agenda.after(self._random.uniform(0.001, 0.01), lambda: self._serve(pool))

    def started(self, pod: Pod) -> None:
        self._agenda.after(self._random.uniform(0.1, 1.0), lambda: self._register(pod))

    def stopping(self, pod: Pod) -> None:
        self._idle[pod.pool].pop(pod.name, None)
        if pod.name in self._dead:
            return
        if pod.job is not None and pod.safe:
            return  # it goes when the job is done
        if pod.job is not None:
            self.counts["interrupted by others, in pools without a safe stop"] += 1
        self._agenda.after(self._random.uniform(0.2, 1.0), lambda: self._end(pod))

    def lose(self, pod: Pod) -> None:
        """The pod vanishes with its node."""
        self._idle[pod.pool].pop(pod.name, None)
        self._redis.die(pod.pool, pod.name)
        self._cluster.remove(pod)

    def power_cut(self, pod: Pod) -> None:
        """Its worker is gone, and its job with it; the pod is still there for all that the cluster knows."""
        self._idle[pod.pool].pop(pod.name, None)
        self._dead.add(pod.name)
        self._redis.die(pod.pool, pod.name)
        pod.job = None

    def freeze(self, pod: Pod) -> None:
        self._frozen.add(pod.name)

    def thaw(self, pod: Pod) -> None:
        self._frozen.discard(pod.name)
        self._serve(pod.pool)

    def _stands_still(self, pod: Pod, then: Callable[[Pod], None]) -> bool:
        """Whether it can do nothing now: dead for good, or frozen, and then tried again."""
        if pod.name in self._frozen:
            self._agenda.after(RETRY, lambda: then(pod))
        return pod.name in self._frozen or pod.name in self._dead

    def _end(self, pod: Pod) -> None:
        if pod.gone or self._stands_still(pod, self._end):
            return
        if pod.job is not None:
            self._redis.die(pod.pool, pod.name)
        self._redis.leave(pod.pool, pod.name)
        self._cluster.remove(pod)

    def _register(self, pod: Pod) -> None:
        if pod.gone or pod.leaving or pod.job is not None or self._stands_still(pod, self._register):
            return
        if not self._redis.writable:
            self._agenda.after(RETRY, lambda: self._register(pod))
            return
        self._redis.queues[pod.pool].workers.add(pod.name)
        if not pod.registered:
            pod.registered = True
            self._maintain(pod)
        self._rest(pod)

    def _rest(self, pod: Pod) -> None:
        self._idle[pod.pool][pod.name] = pod
        self._serve(pod.pool)

    def _serve(self, pool: str) -> None:
        idle = self._idle[pool]
        while pod := next((pod for pod in idle.values() if pod.name not in self._frozen), None):
            job = self._redis.pop(pool, pod.name)
            if job is None:
                return
            del idle[pod.name]
            pod.job = job
            # Two in ten take their time between pop and registration: a large payload, a slow network.
            transit = self._random.uniform(0.3, 9.0) if self._random.random() < 0.2 else 0.003
            self._agenda.after(transit, lambda pod=pod: self._start(pod))

    def _start(self, pod: Pod) -> None:
        if pod.gone or pod.job is None or self._stands_still(pod, self._start):
            return
        if not self._redis.writable:
            self._agenda.after(RETRY, lambda: self._start(pod))
            return
        self._redis.start(pod.pool, pod.name)
        self._agenda.after(pod.job.seconds, lambda: self._finish(pod))

    def _finish(self, pod: Pod) -> None:
        if pod.gone or pod.job is None or self._stands_still(pod, self._finish):
            return
        if not self._redis.writable:
            self._agenda.after(RETRY, lambda: self._finish(pod))
            return
        pod.job = None
        self._redis.finish(pod.pool, pod.name)
        if pod.leaving:
            self._end(pod)
        else:
            self._rest(pod)

    def _maintain(self, pod: Pod) -> None:
        if pod.gone or pod.leaving or self._stands_still(pod, self._maintain):
            return
        waited = self._redis.maintain(pod.pool) if pod.job is None else None
        if waited is not None:
            self.stale_waits.append(waited)
        # A worker that is busy when it is time does it after its job.
        self._agenda.after(MAINTENANCE if pod.job is None else RETRY, lambda: self._maintain(pod))

    def _wake_all(self) -> None:
        for pool in self._idle:
            self._serve(pool)

    def _register_again(self) -> None:
        """Data was lost: idle workers come back at their next heartbeat, busy ones after their job."""
        for idle in self._idle.values():
            for pod in list(idle.values()):
                del idle[pod.name]
                self._agenda.after(self._random.uniform(0.3, 10.0), lambda pod=pod: self._register(pod))
