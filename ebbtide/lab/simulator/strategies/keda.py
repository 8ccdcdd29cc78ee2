"""KEDA with its default times as a controller of the modelled cluster, for the strategy `keda-defaults`.

KEDA polls each queue every 30 s. The first job scales the pool from 0 to 1; 300 s after the last poll with a job it
scales to 0. In between the HorizontalPodAutoscaler decides (`hpa`), and the ReplicaSet controller picks the victims
without knowing which worker is busy. A worker has Kubernetes' default grace period after SIGTERM. Then it is killed
with its job, which starts again from zero.

One setting is better than the default: running jobs count as well as waiting ones, and the target is the pool's jobs
per worker. KEDA's Redis trigger counts only the list, with 5 jobs per worker. It would kill every job that outlasts the
cooldown again and again, and nothing else could be compared.
Sources: kedacore/keda, pkg/scaling/executor/scale_scaledobjects.go and pkg/scalers/redis_scaler.go; keda.sh, the
specification of ScaledObject (pollingInterval 30, cooldownPeriod 300).
"""

import math
from datetime import timedelta

from controllers.ports import Known, Reading, Scale, Unknown
from ebbtide.lab.simulator.results import StrategyResult
from ebbtide.lab.simulator.strategies.hpa import SYNC_S, Hpa, HpaSight, hpa_of_total
from ebbtide.lab.simulator.strategies.run import StrategyRun, play
from ebbtide.lab.simulator.world.edges import ActionCounts, ports_of
from ebbtide.lab.simulator.world.world import World
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy

POLL_S = 30.0
COOLDOWN_S = 300.0

_LONG = timedelta(days=365)


def keda(run: StrategyRun) -> StrategyResult:
    """KEDA owns the replicas."""
    return play(run, keda_controlled)


def keda_controlled(config: ControllerConfig, world: World, tally: ActionCounts) -> None:
    """Run a world to its end. Budgets stay unchanged."""
    ports = ports_of(world, tally)
    names = [pool.name for pool in config.pools]
    scalers = [_Scaler(pool) for pool in config.pools]
    sync_at = 0.0
    while world.timeline.now < world.setup.end_s:
        readings = ports.demand.read(names)
        cluster = ports.cluster.observe()
        if isinstance(cluster, Unknown):
            raise TypeError("the modelled cluster is always known")
        at_rest = True
        for scaler in scalers:
            jobs, replicas = _jobs(readings[scaler.pool.name]), cluster.pools[scaler.pool.name].replicas
            target = scaler.target(world.timeline.now, replicas, jobs)
            if target != replicas:
                action = Scale(pool=scaler.pool.name, replicas=target, version=None, reason="keda")
                ports.cluster.act(action)
            at_rest = at_rest and not jobs and replicas == target == scaler.pool.min_workers
        if at_rest and not ports.waker.wait(_LONG):
            return
        sync_at = max(sync_at + SYNC_S, math.ceil(world.timeline.now / SYNC_S) * SYNC_S)
        world.timeline.run_until(min(sync_at, world.setup.end_s))


def _jobs(reading: Reading) -> int:
    """Jobs in the keys of Redis; a job between pop and registration is in none."""
    return reading.waiting + reading.running if isinstance(reading, Known) else 0


class _Scaler:
    """One ScaledObject, and the HorizontalPodAutoscaler that KEDA creates for it."""

    def __init__(self, pool: PoolPolicy) -> None:
        self.pool = pool
        least, most = max(1, pool.min_workers), max(1, pool.max_workers)
        self._hpa = Hpa(hpa_of_total(pool.jobs_per_worker, least=least, most=most))
        self._last_active = -math.inf

    def target(self, now: float, replicas: int, jobs: int) -> int:
        """The replicas at a sync of the autoscaler; KEDA polls at every other sync."""
        target = self._hpa.sync(now, HpaSight(replicas, (jobs,)))
        if now % POLL_S:
            return target
        if jobs:
            self._last_active = now
            return target or max(1, self.pool.min_workers)
        if not self.pool.min_workers and now > self._last_active + COOLDOWN_S:
            return 0
        return max(target, self.pool.min_workers)
