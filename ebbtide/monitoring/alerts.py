"""Alerts over the metrics of Ebbtide's own processes.

**Who is woken.** A promise that is broken wakes somebody: a budget open by day, a job that waits too long, nobody who
could tell. What may lead there, a quota or a node that does not come, has time until the morning.

**Not known is never fine.** A process that is away writes nothing, and an expression over nothing is empty, which looks
like all is well. So each of the processes is missed by name, and the alert that always fires tells that alerts arrive.

A condition that comes and goes, as a pod does that crashes in a loop, is looked at over some minutes: it would else
begin anew each time.
"""

from collections.abc import Iterator
from datetime import timedelta

from ebbtide.monitoring.cluster_alerts import cluster_alerts
from ebbtide.monitoring.rules import Alert, Metrics, Severity
from ebbtide.settings.model import StackSettings
from ebbtide.settings.process_documents import has_workloads
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from ebbtide.units.durations import format_duration

REFUSED = "cluster-creates-no-more-pods"
"""The controller's own word, as in `ebbtide_pool_reason`."""
UNKNOWN = "unknown"
"""Of a reading, or of the state of a workload."""

_MOMENT, _SHORT = timedelta(minutes=5), timedelta(minutes=10)
_WHILE, _LONG = timedelta(minutes=15), timedelta(minutes=30)
_STUCK_SECONDS = 120


def alerts(settings: StackSettings) -> tuple[Alert, ...]:
    """Those of one stack, in the order of what is lost; expressions see this customer's series alone."""
    of = Metrics(settings.customer)
    return (
        *_of_the_controller(of),
        *_of_pools(of, settings),
        *cluster_alerts(of, settings),
        *(_of_workloads(of) if has_workloads(settings) else ()),
        *(_of_ray(of) if settings.ray else ()),
    )


def _dead_man() -> Alert:
    return Alert(
        name="EbbtideDeadMan",
        expr="vector(1)",
        lasting=timedelta(0),
        severity=Severity.NONE,
        summary="This alert always fires: where it no longer arrives, alerts do not.",
        runbook="dead-man",
    )


def _of_the_controller(of: Metrics) -> Iterator[Alert]:
    yield _dead_man()
    above = f"{of.highest('budget_max_unavailable', 'budget')} > {of.highest('budget_wanted', 'budget')}"
    yield Alert(
        name="EbbtideBudgetOpen",
        expr=f"({above}) and on (customer) ({of.highest('window_open')} == 0)",
        lasting=_MOMENT,
        severity=Severity.CRITICAL,
        summary="The budget {{ $labels.budget }} is open outside the disruption window, so that its pods may be moved.",
        runbook="budget-open",
    )
    yield _no_leader(of, "EbbtideNoLeader", "leader", "controller", "queues are not scaled and budgets not flipped")
    yield Alert(
        name="EbbtideControllerStuck",
        expr=f"time() - {of.highest('last_reconcile_timestamp_seconds')} > {_STUCK_SECONDS}",
        lasting=_MOMENT,
        severity=Severity.CRITICAL,
        summary="The controller holds the Lease and has not reconciled for {{ $value | humanizeDuration }}.",
        runbook="controller-stuck",
    )
    yield Alert(
        name="EbbtideControllerBlind",
        expr=f"{of.highest('pool_reading', 'pool', state=UNKNOWN)} == 1",
        lasting=_MOMENT,
        severity=Severity.CRITICAL,
        summary="The controller cannot tell what the pool {{ $labels.pool }} needs, and holds its workers as they are.",
        runbook="controller-blind",
    )
    yield Alert(
        name="EbbtideControllerInDoubt",
        expr=f"{of.highest('troubles')} > 0",
        lasting=_WHILE,
        severity=Severity.WARNING,
        summary="The controller distrusts a clock, its config or its calendar, or cannot see the cluster.",
        runbook="controller-in-doubt",
    )


def _no_leader(of: Metrics, name: str, metric: str, process: str, lost: str) -> Alert:
    return Alert(
        name=name,
        expr=f"{of.highest(metric)} == 0 or absent({of(metric)})",
        lasting=_MOMENT,
        severity=Severity.CRITICAL,
        summary=f"No {process} is known to hold its Lease: {lost}.",
        runbook="no-leader",
    )


def _of_pools(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    for name, pool in sorted(settings.workers.items()):
        if pool.drain_within is not None:
            yield _late(of, name, pool.drain_within)
    yield Alert(
        name="EbbtideWorkersFail",
        expr=f"max by (customer, pool) (max_over_time({of('pool_failing')}[5m])) > 0",
        lasting=_SHORT,
        severity=Severity.CRITICAL,
        summary="Workers of the pool {{ $labels.pool }} crash in a loop or cannot get their image.",
        runbook="workers-fail",
    )
    yield Alert(
        name="EbbtidePoolCapped",
        # Asking again after a pause ends the complaint for half a minute.
        expr=f"max by (customer, pool) (max_over_time({of('pool_reason', reason=REFUSED)}[10m])) == 1",
        lasting=_WHILE,
        severity=Severity.WARNING,
        summary="The cluster creates no more pods for the pool {{ $labels.pool }}: a quota or an admission rule.",
        runbook="pool-capped",
    )
    fewer = f"{of.highest('pool_running', 'pool')} < {of.highest('pool_wanted', 'pool')}"
    yield Alert(
        name="EbbtideWorkersPending",
        expr=f"{of.highest('pool_pending', 'pool')} > 0 and ({fewer})",
        lasting=_LONG,
        severity=Severity.WARNING,
        summary="Workers of the pool {{ $labels.pool }} have waited for nodes or images for half an hour.",
        runbook="workers-pending",
    )
    for name, pool in sorted(settings.workers.items()):
        yield _will_not_stop(of, name, pool)


def _late(of: Metrics, name: str, target: timedelta) -> Alert:
    wait = of.highest("pool_oldest_wait_seconds", "pool", pool=name)
    return Alert(
        name="EbbtideQueueLate",
        expr=f"{wait} > {int(target.total_seconds())}",
        lasting=_MOMENT,
        severity=Severity.CRITICAL,
        summary=f"A job of the pool {{{{ $labels.pool }}}} has waited for {{{{ $value | humanizeDuration }}}}, "
        f"and drainWithin says {format_duration(target)}.",
        runbook="queue-late",
    )


def _will_not_stop(of: Metrics, name: str, pool: WorkerSettings) -> Alert:
    """No metric tells the age of one ending pod: so this fires, too, where others end all the time."""
    return Alert(
        name="EbbtideWorkerWillNotStop",
        expr=f"{of.highest('pool_terminating', 'pool', pool=name)} > 0",
        lasting=timedelta(seconds=grace_seconds(pool)) + _WHILE,
        severity=Severity.WARNING,
        summary="Pods of the pool {{ $labels.pool }} have been ending for longer than one may take.",
        runbook="worker-will-not-stop",
    )


def _of_workloads(of: Metrics) -> Iterator[Alert]:
    yield _no_leader(
        of,
        "EbbtideWorkloadsNoLeader",
        "workloads_leader",
        "workload controller",
        "Ray clusters do not wake or sleep, floors of services stay",
    )
    unknown = of.highest("workload_state", "workload", state=UNKNOWN)
    yield Alert(
        name="EbbtideWorkloadNeedsALook",
        expr=f"{of.highest('workload_noted', 'workload')} == 1 or {unknown} == 1",
        lasting=_LONG,
        severity=Severity.WARNING,
        summary="Something about {{ $labels.workload }} has needed a look for half an hour.",
        runbook="workload-needs-a-look",
    )


def _of_ray(of: Metrics) -> Iterator[Alert]:
    yield Alert(
        name="EbbtideRayWorkersKept",
        expr=f"{of.highest('workload_workers_overdue', 'workload', 'group')} > 0",
        lasting=_WHILE,
        severity=Severity.WARNING,
        summary="Ray keeps idle workers ({{ $value }}) of the group {{ $labels.group }} of {{ $labels.workload }} past "
        "their idle timeout: ebbtide status says in dollars what their nodes cost.",
        runbook="ray-workers-kept",
    )
