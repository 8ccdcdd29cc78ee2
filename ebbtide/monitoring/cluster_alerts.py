"""Alerts over what the exporter tells: of the closer, of HPAs, of what runs out, and of what the nodes cost."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.rules import CUSTOMER, Alert, Metrics, Severity
from ebbtide.settings.model import StackSettings
from ebbtide.units.durations import format_duration
from ebbtide.vocabulary.windows import BusinessHours

_SHORT, _WHILE = timedelta(minutes=10), timedelta(minutes=15)
_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_LATE = timedelta(minutes=15)  # a run of the closer takes seconds, and its pod may wait for a node for minutes
_MONTH_HOURS = 730  # as in AWS' own calculator
_CERTIFICATE, _HOLIDAYS = timedelta(days=14), timedelta(days=30)


def cluster_alerts(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    yield Alert(
        name="EbbtideExporterAway",
        expr=f"absent({of('exporter_config_good')}) or {of.lowest('exporter_sees', 'what')} == 0",
        lasting=_SHORT,
        severity=Severity.WARNING,
        summary="The exporter is away or cannot see a part of the cluster, so that alerts on it cannot fire.",
        runbook="exporter-away",
    )
    yield from _closer(of, settings)
    yield Alert(
        name="EbbtideHpaBlind",
        # With no replicas an HPA says the same of itself, and means that it is switched off.
        expr=f"{of.highest('hpa_scaling_active', 'namespace', 'hpa')} == 0 and on (customer, namespace, hpa) "
        f"({of.highest('hpa_replicas', 'namespace', 'hpa')} > 0)",
        lasting=_SHORT,
        severity=Severity.CRITICAL,
        summary="The HPA {{ $labels.hpa }} in {{ $labels.namespace }} cannot read its metrics, and holds its replicas.",
        runbook="hpa-blind",
    )
    yield Alert(
        name="EbbtideCertificateEnds",
        expr=f"{of.highest('certificate_end_timestamp_seconds', 'endpoint')} - time() < {_seconds(_CERTIFICATE)}",
        lasting=_HOUR,
        severity=Severity.WARNING,
        summary="The certificate of {{ $labels.endpoint }} ends in {{ $value | humanizeDuration }}.",
        runbook="certificate-ends",
    )
    yield Alert(
        name="EbbtideHolidaysEnd",
        expr=f"{of.highest('holidays_end_timestamp_seconds')} - time() < {_seconds(_HOLIDAYS)}",
        lasting=_HOUR,
        severity=Severity.WARNING,
        summary="Holidays are known for {{ $value | humanizeDuration }}: after that each of them is a working day.",
        runbook="holidays-end",
    )
    if (plan := settings.costs.plan) is not None:
        yield Alert(
            name="EbbtideSpendAbovePlan",
            expr=f"({_spend(of)}) > {plan:g}",
            lasting=_HOUR,
            severity=Severity.WARNING,
            summary="Nodes cost {{ $value | humanize }} dollars a month at list price if it goes on as in the last 7 "
            f"days, and costs.plan says {plan:g}.",
            runbook="spend-above-plan",
        )


def _spend(of: Metrics) -> str:
    """Dollars a month at list price if it goes on as in the last 7 days; nothing before there is a day to go by."""
    dollars = Recorded.ALL_DOLLARS.of(of.customer)
    return f"avg_over_time({dollars}[7d]) * {_MONTH_HOURS} and on ({CUSTOMER}) ({dollars} offset 1d)"


def _closer(of: Metrics, settings: StackSettings) -> Iterator[Alert]:
    due, done = (of.highest(f"closer_last_{what}_timestamp_seconds", "cronjob") for what in ("schedule", "success"))
    same = f"on ({CUSTOMER}, cronjob)"
    yield Alert(
        name="EbbtideCloserFailed",
        expr=f"time() - {due} > {_seconds(_LATE)} unless {same} ({done} >= {same} {due})",
        lasting=timedelta(0),  # the expression has waited
        severity=Severity.CRITICAL,
        summary="The closer {{ $labels.cronjob }} was due {{ $value | humanizeDuration }} ago and has not succeeded: "
        "budgets that the controller left open are open.",
        runbook="closer-failed",
    )
    apart = longest_between_openings(settings.business_hours.hours())
    yield Alert(
        name="EbbtideCloserNotStarted",
        expr=f"time() - max by ({CUSTOMER}) ({done}) > {_seconds(apart + _HOUR)}",
        lasting=_SHORT,
        severity=Severity.WARNING,
        summary="No closer has succeeded for {{ $value | humanizeDuration }}, and no two openings are further apart "
        f"than {format_duration(apart)}.",
        runbook="closer-failed",
    )


def longest_between_openings(hours: BusinessHours) -> timedelta:
    """The longest time between two openings of ordinary weeks, which is what lies between two runs of the closer.

    A closer runs on holidays too. Hours that never open have one a day, and so do those that never close.
    """
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    ordinary = BusinessHours(timezone=hours.timezone, week=hours.week)
    openings = [span.start for span in ordinary.open_spans(begun, begun + timedelta(days=366)) if span.start > begun]
    return max((later - earlier for earlier, later in pairwise(openings)), default=_DAY)


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())
