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

The HorizontalPodAutoscaler's arithmetic for one external metric with an average target, with its defaults. Pure.

Replicas wanted are the metric divided by the target, rounded up, unless that is within a tenth of what there is. In one
go it at most doubles, or grows to 4. It falls to the highest number it wanted within the last five minutes. It is off
while the replicas are 0, and never asks for less than 1.
Sources: kubernetes/kubernetes, pkg/controller/podautoscaler: horizontal.go (normalisation, stabilisation: what KEDA's
object gets, since it sets no behaviour) and replica_calculator.go; kube-controller-manager's flags
--horizontal-pod-autoscaler-sync-period, -tolerance and -downscale-stabilization.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from controllers.ports import Known, Reading, Scale, Unknown
from ebbtide.simulator.world.edges import Tally, ports_of
from ebbtide.simulator.world.world import World
from ebbtide.vocabulary.controller_config import ControllerConfig, PoolPolicy

SYNC_S = 15.0
TOLERANCE = 0.1
STABILISATION_S = 300.0
GROWS_TO_AT_LEAST = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HpaSpec:
    """`target` is what each replica should have of the metric."""

    target: float
    least: int  # at least 1
    most: int


@dataclass(slots=True)
class Hpa:
    """One object with its memory of what it wanted lately."""

    spec: HpaSpec
    _wanted: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])  # instant, replicas

    def sync(self, now: float, replicas: int, metric: float) -> int:
        """The replicas that there should be."""
        if replicas == 0:
            return 0
        if replicas > self.spec.most:
            return self.spec.most
        if replicas < self.spec.least:
            return self.spec.least
        if not self._wanted:
            self._wanted.append((now, replicas))
        calm = self._stabilised(now, self._by_metric(replicas, metric))
        limit = min(max(2 * replicas, GROWS_TO_AT_LEAST), self.spec.most)
        return max(self.spec.least, min(calm, limit))

    def _by_metric(self, replicas: int, metric: float) -> int:
        ratio = metric / (self.spec.target * replicas)
        return replicas if abs(1 - ratio) <= TOLERANCE else math.ceil(metric / self.spec.target)

    def _stabilised(self, now: float, wanted: int) -> int:
        while self._wanted and self._wanted[0][0] <= now - STABILISATION_S:
            self._wanted.popleft()
        highest = max([wanted, *(earlier for _, earlier in self._wanted)])
        self._wanted.append((now, wanted))
        return highest


POLL_S = 30.0
COOLDOWN_S = 300.0

_LONG = timedelta(days=365)


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
        spec = HpaSpec(target=pool.jobs_per_worker, least=max(1, pool.min_workers), most=max(1, pool.max_workers))
        self._hpa = Hpa(spec)
        self._last_active = -math.inf

    def wanted(self, now: float, replicas: int, jobs: int) -> int:
        """At one of the autoscaler's beats, every other of which is a look of KEDA's too."""
        wanted = self._hpa.sync(now, replicas, jobs)
        if now % POLL_S:
            return wanted
        if jobs:
            self._last_active = now
            return wanted or max(1, self.pool.min_workers)
        if not self.pool.min_workers and now > self._last_active + COOLDOWN_S:
            return 0
        return max(wanted, self.pool.min_workers)
