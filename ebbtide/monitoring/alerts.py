"""Alerts over the metrics of Ebbtide's processes: the controllers, the closer and the exporter.

**Severity.** A broken promise pages: a budget open by day, a job that waits too long, a process that cannot be
observed. Causes that may lead there, such as a quota or a missing node, can wait until morning.

**Unknown is never fine.** A missing process writes nothing, and an expression over no series is empty, which looks
healthy. So the absence of each process has an alert, and an alert that always fires proves that alerts arrive.

A condition that comes and goes, such as a pod that crashes in a loop, is evaluated over some minutes: otherwise its
duration would start again each time.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Alert, AlertSeverity, Metrics
from ebbtide.settings.capacity.placement import with_adopted_pools
from ebbtide.settings.capacity.process_documents import has_workloads
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.workers import WorkerSettings, grace_seconds
from ebbtide.text.durations import format_duration
from ebbtide.vocabulary.windows import BusinessHours

REFUSED = "cluster-creates-no-more-pods"
"""The controller's reason, as in `ebbtide_pool_reason`."""
UNKNOWN = "unknown"
"""The state of a reading or of a workload."""

_MOMENT, _SHORT = timedelta(minutes=5), timedelta(minutes=10)
_WHILE, _LONG = timedelta(minutes=15), timedelta(minutes=30)
_STUCK_SECONDS = 120
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_LATE = timedelta(minutes=15)  # a run of the closer takes seconds, and its pod may wait for a node for minutes
_MONTH_HOURS = 730  # as in AWS' own calculator
_CERTIFICATE, _HOLIDAYS = timedelta(days=14), timedelta(days=30)


def alerts(settings: StackSettings) -> tuple[Alert, ...]:
    """Return a stack's alerts, the gravest first; expressions select only this customer's series."""
    of = Metrics(settings.customer)
    return (
        *_of_the_controller(of),
        *_of_pools(of, settings),
        *_of_the_cluster(of, settings),
        *(_of_workloads(of, settings) if has_workloads(settings) else ()),
        *(_of_ray(of) if settings.ray else ()),
        *(_of_adopted_pods(of) if settings.adopted else ()),
    )


def _dead_man() -> Alert:
    return Alert(
        name="EbbtideDeadMan",
        expr="vector(1)",
        lasting=timedelta(0),
        severity=AlertSeverity.NONE,
        summary="This alert always fires: if it no longer arrives, no alert does.",
        runbook="dead-man",
        fires_after="at once, always",
    )


def _of_the_controller(of: Metrics) -> Iterator[Alert]:
    yield _dead_man()
    above = f"{of.highest('budget_max_unavailable', 'budget')} > {of.highest('budget_wanted', 'budget')}"
    yield Alert(
        name="EbbtideBudgetOpen",
        expr=f"({above}) and on (customer) ({of.highest('window_open')} == 0)",
        lasting=_MOMENT,
        severity=AlertSeverity.CRITICAL,
        summary="The budget {{ $labels.budget }} is open outside the disruption window, so that its pods may be moved.",
        runbook="budget-open",
    )
    yield _no_leader(of, "EbbtideNoLeader", "leader", "controller", "queues are not scaled, budgets stay as they are")
    yield Alert(
        name="EbbtideControllerStuck",
        expr=f"time() - {of.highest('last_reconcile_timestamp_seconds')} > {_STUCK_SECONDS}",
        lasting=_MOMENT,
        severity=AlertSeverity.CRITICAL,
        summary="The controller holds the Lease and has not reconciled for {{ $value | humanizeDuration }}.",
        runbook="controller-stuck",
        fires_after="2 + 5 min",
    )
    yield Alert(
        name="EbbtideControllerBlind",
        expr=f"{of.highest('pool_reading', 'pool', state=UNKNOWN)} == 1",
        lasting=_MOMENT,
        severity=AlertSeverity.CRITICAL,
        summary="The controller cannot tell what the pool {{ $labels.pool }} needs, and holds its workers as they are.",
        runbook="controller-blind",
    )
    yield Alert(
        name="EbbtideControllerInDoubt",
        expr=f"{of.highest('troubles')} > 0",
        lasting=_WHILE,
        severity=AlertSeverity.WARNING,
        summary="The controller distrusts a clock, its config or its calendar, or cannot see the cluster.",
        runbook="controller-in-doubt",
    )


def _no_leader(of: Metrics, name: str, metric: str, process: str, lost: str) -> Alert:
    return Alert(
        name=name,
        expr=f"{of.highest(metric)} == 0 or absent({of(metric)})",
        lasting=_MOMENT,
        severity=AlertSeverity.CRITICAL,
        summary=f"No {process} is known to hold its Lease: {lost}.",
        runbook="no-leader",
    )


def _of_pools(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    pools = sorted(with_adopted_pools(settings).workers.items())
    for name, pool in pools:
        if pool.drain_within is not None and pool.source.broker is None:  # a broker does not show how long jobs wait
            yield _late(of, name, pool.drain_within)
    yield Alert(
        name="EbbtideWorkersFail",
        expr=f"max by (customer, pool) (max_over_time({of('pool_failing')}[5m])) > 0",
        lasting=_SHORT,
        severity=AlertSeverity.CRITICAL,
        summary="Workers of the pool {{ $labels.pool }} crash in a loop or cannot get their image.",
        runbook="workers-fail",
    )
    yield Alert(
        name="EbbtidePoolCapped",
        # A retry after a pause clears the reason for half a minute.
        expr=f"max by (customer, pool) (max_over_time({of('pool_reason', reason=REFUSED)}[10m])) == 1",
        lasting=_WHILE,
        severity=AlertSeverity.WARNING,
        summary="The cluster creates no more pods for the pool {{ $labels.pool }}: a quota or an admission rule.",
        runbook="pool-capped",
    )
    fewer = f"{of.highest('pool_running', 'pool')} < {of.highest('pool_wanted', 'pool')}"
    yield Alert(
        name="EbbtideWorkersPending",
        expr=f"{of.highest('pool_pending', 'pool')} > 0 and ({fewer})",
        lasting=_LONG,
        severity=AlertSeverity.WARNING,
        summary="Workers of the pool {{ $labels.pool }} have waited for nodes or images for half an hour.",
        runbook="workers-pending",
    )
    for name, pool in pools:
        yield _will_not_stop(of, name, pool)


def _late(of: Metrics, name: str, target: timedelta) -> Alert:
    wait = of.highest("pool_oldest_wait_seconds", "pool", pool=name)
    return Alert(
        name="EbbtideQueueLate",
        expr=f"{wait} > {int(target.total_seconds())}",
        lasting=_MOMENT,
        severity=AlertSeverity.CRITICAL,
        summary=f"A job of the pool {{{{ $labels.pool }}}} has waited for {{{{ $value | humanizeDuration }}}}, "
        f"and drainWithin says {format_duration(target)}.",
        runbook="queue-late",
        stacks="for pools in Redis with `drainWithin`",
        fires_after="`drainWithin` + 5 min",
    )


def _will_not_stop(of: Metrics, name: str, pool: WorkerSettings) -> Alert:
    """No metric has the age of one ending pod, so this also fires if different pods end all the time."""
    return Alert(
        name="EbbtideWorkerWillNotStop",
        expr=f"{of.highest('pool_terminating', 'pool', pool=name)} > 0",
        lasting=timedelta(seconds=grace_seconds(pool)) + _WHILE,
        severity=AlertSeverity.WARNING,
        summary="Pods of the pool {{ $labels.pool }} have been terminating for longer than a pod may take.",
        runbook="worker-will-not-stop",
        fires_after="a worker's grace + 15 min",
    )


def _of_workloads(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    by_hand = ", and only kubectl scale wakes charts" if any(rule.sleep for rule in settings.adopted.values()) else ""
    yield _no_leader(
        of,
        "EbbtideWorkloadsNoLeader",
        "workloads_leader",
        "workload controller",
        f"Ray clusters and workloads do not wake or sleep, floors of services stay{by_hand}",
    )
    unknown = of.highest("workload_state", "workload", state=UNKNOWN)
    yield Alert(
        name="EbbtideWorkloadNeedsALook",
        expr=f"{of.highest('workload_noted', 'workload')} == 1 or {unknown} == 1",
        lasting=_LONG,
        severity=AlertSeverity.WARNING,
        summary="Something about {{ $labels.workload }} has needed a look for half an hour.",
        runbook="workload-needs-a-look",
    )


def _of_ray(of: Metrics) -> Iterator[Alert]:
    yield Alert(
        name="EbbtideRayWorkersKept",
        expr=f"{of.highest('workload_workers_overdue', 'workload', 'group')} > 0",
        lasting=_WHILE,
        severity=AlertSeverity.WARNING,
        summary="Ray keeps idle workers ({{ $value }}) of the group {{ $labels.group }} of {{ $labels.workload }} past "
        "their idle timeout: ebbtide status shows what their nodes cost.",
        runbook="ray-workers-kept",
    )


def _of_adopted_pods(of: Metrics) -> Iterator[Alert]:
    yield Alert(
        name="EbbtideAdoptedPodsUnlabelled",
        expr=f"{of.highest('adopted_pods_unlabelled', 'workload')} > 0",
        lasting=_HOUR,
        severity=AlertSeverity.WARNING,
        summary="Pods of the rule {{ $labels.workload }} have lacked its label for an hour: {{ $value }} may run "
        "on any node.",
        runbook="adopted-pods-unlabelled",
        stacks="with `ebbtide:adopted`",
    )


def _of_the_cluster(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    yield Alert(
        name="EbbtideExporterAway",
        expr=f"absent({of('exporter_config_good')}) or {of.lowest('exporter_sees', 'what')} == 0",
        lasting=_SHORT,
        severity=AlertSeverity.WARNING,
        summary="The exporter is away or cannot see a part of the cluster, so alerts that depend on it cannot fire.",
        runbook="exporter-away",
    )
    yield from _closer(of, settings)
    yield Alert(
        name="EbbtideHpaBlind",
        # An HPA without replicas reports the same, but is only switched off.
        expr=f"{of.highest('hpa_scaling_active', 'namespace', 'hpa')} == 0 and on (customer, namespace, hpa) "
        f"({of.highest('hpa_replicas', 'namespace', 'hpa')} > 0)",
        lasting=_SHORT,
        severity=AlertSeverity.CRITICAL,
        summary="The HPA {{ $labels.hpa }} in {{ $labels.namespace }} cannot read its metrics, and holds its replicas.",
        runbook="hpa-blind",
    )
    yield Alert(
        name="EbbtideWorkloadLeftAsleep",
        expr=f"{of.highest('workload_left_asleep', 'workload')} == 1",
        lasting=_SHORT,
        severity=AlertSeverity.CRITICAL,
        summary="The workload controller put {{ $labels.workload }} to sleep, and no entry of the stack file wakes it.",
        runbook="workload-left-asleep",
    )
    yield Alert(
        name="EbbtideCertificateEnds",
        expr=f"{of.highest('certificate_end_timestamp_seconds', 'endpoint')} - time() < {_seconds(_CERTIFICATE)}",
        lasting=_HOUR,
        severity=AlertSeverity.WARNING,
        summary="The certificate of {{ $labels.endpoint }} ends in {{ $value | humanizeDuration }}.",
        runbook="certificate-ends",
        fires_after="below 14 days, for 60 min",
    )
    yield Alert(
        name="EbbtideHolidaysEnd",
        expr=f"{of.highest('holidays_end_timestamp_seconds')} - time() < {_seconds(_HOLIDAYS)}",
        lasting=_HOUR,
        severity=AlertSeverity.WARNING,
        summary="Holidays are known for {{ $value | humanizeDuration }}: later ones count as working days.",
        runbook="holidays-end",
        fires_after="below 30 days, for 60 min",
    )
    if (limit := settings.costs.alert_above) is not None:
        key, usd = limit
        yield Alert(
            name="EbbtideSpendAbovePlan",
            expr=f"({_spend(of)}) > {usd:g}",
            lasting=_HOUR,
            severity=AlertSeverity.WARNING,
            summary="At the rate of the last 7 days, nodes cost {{ $value | humanize }} dollars a month at list price, "
            f"and costs.{key} says {usd:g}.",
            runbook="spend-above-plan",
            stacks="with `costs.plan` or `costs.ceiling`",
            fires_after="a day of history, for 60 min",
        )


def _spend(of: Metrics) -> str:
    """Dollars a month at list price, extrapolated from the last 7 days; no result before the first day."""
    dollars = Recorded.ALL_DOLLARS.of(of.customer)
    return f"avg_over_time({dollars}[7d]) * {_MONTH_HOURS} and on ({CUSTOMER}) ({dollars} offset 1d)"


def _closer(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    due, done = (of.highest(f"closer_last_{event}_timestamp_seconds", "cronjob") for event in ("schedule", "success"))
    same = f"on ({CUSTOMER}, cronjob)"
    yield Alert(
        name="EbbtideCloserFailed",
        expr=f"time() - {due} > {_seconds(_LATE)} unless {same} ({done} >= {same} {due})",
        lasting=timedelta(0),  # the expression includes the wait
        severity=AlertSeverity.CRITICAL,
        summary="The closer {{ $labels.cronjob }} was due {{ $value | humanizeDuration }} ago and has not succeeded: "
        "budgets that the controller left open stay open.",
        runbook="closer-failed",
        fires_after="15 min",
    )
    apart = longest_between_openings(settings.business_hours.hours())
    yield Alert(
        name="EbbtideCloserNotStarted",
        expr=f"time() - max by ({CUSTOMER}) ({done}) > {_seconds(apart + _HOUR)}",
        lasting=_SHORT,
        severity=AlertSeverity.WARNING,
        summary="No closer has succeeded for {{ $value | humanizeDuration }}, although openings are at most "
        f"{format_duration(apart)} apart.",
        runbook="closer-failed",
        fires_after="the longest time between two openings + 1 h + 10 min",
    )


def longest_between_openings(hours: BusinessHours) -> timedelta:
    """Return the longest time between two openings in ordinary weeks, and so between two runs of the closer.

    A closer runs on holidays too. With hours that never open or never close it runs once a day.
    """
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    ordinary = BusinessHours(timezone=hours.timezone, week=hours.week)
    openings = [span.start for span in ordinary.open_spans(begun, begun + timedelta(days=366)) if span.start > begun]
    return max((later - earlier for earlier, later in pairwise(openings)), default=_DAY)


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())
