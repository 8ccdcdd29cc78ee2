"""KEDA with its default times as a controller of the modelled cluster: what `keda-defaults` runs instead of ours.

Every 30 s each pool's queue is looked at: the first job takes the pool from 0 to 1, and 300 s after the last look that
saw any it goes back to 0. In between the HorizontalPodAutoscaler decides (`hpa`), and the ReplicaSet controller picks
the victims, for nobody told it who is busy. A worker that is told to stop goes on for Kubernetes' default grace
period and is killed with the job it holds, which starts again from zero.

One thing is better than the default: running jobs count as well as waiting ones, with the pool's own jobs per worker as
the target. KEDA's Redis trigger looks at the list alone, with 5 jobs to a worker; every job that outlasts the cooldown
would then be killed again and again, and nothing else could be compared.
Sources: kedacore/keda, pkg/scaling/executor/scale_scaledobjects.go and pkg/scalers/redis_scaler.go; keda.sh, the
specification of ScaledObject (pollingInterval 30, cooldownPeriod 300).
"""

import math
from datetime import timedelta

from controllers.ports import Known, Reading, Scale, Unknown
from ebbtide.simulator.results import StrategyResult
from ebbtide.simulator.strategies.hpa import SYNC_S, Hpa, HpaSight, of_total
from ebbtide.simulator.strategies.run import StrategyRun, play
from ebbtide.simulator.world.edges import Tally, ports_of
from ebbtide.simulator.world.world import World
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy

POLL_S = 30.0
COOLDOWN_S = 300.0

_LONG = timedelta(days=365)


def keda(run: StrategyRun) -> StrategyResult:
    """KEDA owns the replicas."""
    return play(run, keda_controlled)


def keda_controlled(config: ControllerConfig, world: World, tally: Tally) -> None:
    """Runs a world to its end. Budgets stay as they are."""
    ports = ports_of(world, tally)
    names = [pool.name for pool in config.pools]
    scalers = [_Scaler(pool) for pool in config.pools]
    beat = 0.0
    while world.timeline.now < world.setup.end_s:
        readings = ports.demand.read(names)
        seen = ports.cluster.observe()
        if isinstance(seen, Unknown):
            raise TypeError("the modelled cluster is always known")
        at_rest = True
        for scaler in scalers:
            jobs, replicas = _jobs(readings[scaler.pool.name]), seen.pools[scaler.pool.name].replicas
            wanted = scaler.wanted(world.timeline.now, replicas, jobs)
            if wanted != replicas:
                action = Scale(pool=scaler.pool.name, replicas=wanted, version=None, reason="keda")
                ports.cluster.act(action)
            at_rest = at_rest and not jobs and replicas == wanted == scaler.pool.min_workers
        if at_rest and not ports.waker.wait(_LONG):
            return
        beat = max(beat + SYNC_S, math.ceil(world.timeline.now / SYNC_S) * SYNC_S)
        world.timeline.run_until(min(beat, world.setup.end_s))


def _jobs(reading: Reading) -> int:
    """What keys of Redis show: a job between pop and registration is in none."""
    return reading.waiting + reading.running if isinstance(reading, Known) else 0


class _Scaler:
    """One ScaledObject and the autoscaler object that KEDA made for it."""

    def __init__(self, pool: PoolPolicy) -> None:
        self.pool = pool
        least, most = max(1, pool.min_workers), max(1, pool.max_workers)
        self._hpa = Hpa(of_total(pool.jobs_per_worker, least=least, most=most))
        self._last_active = -math.inf

    def wanted(self, now: float, replicas: int, jobs: int) -> int:
        """At one of the autoscaler's beats, every other of which is a look of KEDA's too."""
        wanted = self._hpa.sync(now, HpaSight(replicas, (jobs,)))
        if now % POLL_S:
            return wanted
        if jobs:
            self._last_active = now
            return wanted or max(1, self.pool.min_workers)
        if not self.pool.min_workers and now > self._last_active + COOLDOWN_S:
            return 0
        return max(wanted, self.pool.min_workers)
