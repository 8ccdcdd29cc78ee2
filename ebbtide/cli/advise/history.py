"""The history of a service: a trace file or its stack's Prometheus, and variants' figures from the command line."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

import typer

from ebbtide.cli.cluster import watching
from ebbtide.cli.console import fail
from ebbtide.lab.advice.services.history import HistoryQuery, RequestHistory, quiet_latency, recorded_requests
from ebbtide.lab.advice.services.variants import ServiceTime, variant_names
from ebbtide.lab.simulator.trace.counted import RequestTrace, find_requests
from ebbtide.lab.simulator.trace.traces import TraceError, bundled
from ebbtide.monitoring.client import Prometheus, UnknownAnswer
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.settings.sections.serving.services import ServiceSettings
from ebbtide.settings.sections.types import parse_latency, parse_percent
from ebbtide.vocabulary.windows import zone_of

_INSTEAD = "or give a history: --trace requests.csv"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySource:
    """The source of a history, as given on the command line."""

    trace: str | None
    queue: str | None
    rate: float | None
    since: timedelta
    prometheus: str
    token_file: Path | None
    context: str | None
    kubeconfig: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    trace: RequestTrace
    start: datetime | None  # aware; None: not known
    latencies: dict[str, float]  # seconds at quiet times, by variant, if recorded
    shares: dict[str, float]  # of the requests, from 0 to 1, by variant; empty if not known


def history_of(settings: StackSettings, service: str, variants: Sequence[str], source: HistorySource) -> Found:
    """Read the history, or end the command with one line. Raises `TraceError`."""
    if source.trace is not None:
        return Found(trace=_of_file(source.trace, source), start=None, latencies={}, shares={})
    if not source.prometheus and settings.monitoring.prometheus is PrometheusKind.NONE:
        fail(
            f"{settings.stack}: wanted a history of {service}, found neither --trace nor a Prometheus (for example "
            "--trace requests.csv, --prometheus URL, or monitoring: { prometheus: bundled } in the stack file)"
        )
    prometheus = watching(settings, source.prometheus, source.token_file, source.context, source.kubeconfig)
    return _recorded(settings, service, variants, source, prometheus)


def _of_file(name: str, source: HistorySource) -> RequestTrace:
    """A history is not scaled; a public trace has another size, so the rate is required."""
    if name in bundled() and source.rate is None:
        raise TraceError(
            f"{name}: wanted --requests-per-second with a public trace, whose load is not the service's "
            "(for example --requests-per-second 2)"
        )
    return find_requests(name, source.queue)


def _recorded(
    settings: StackSettings, service: str, variants: Sequence[str], source: HistorySource, prometheus: Prometheus
) -> Found:
    now = datetime.now(zone_of(settings.business_hours.timezone))
    asking = HistoryQuery(prometheus=prometheus, customer=settings.customer, since=source.since, now=now)
    requests = prometheus.doubt() or recorded_requests(asking, service, variants)
    if not isinstance(requests, RequestHistory):
        fail(f"{requests.why} ({_INSTEAD})")
    latencies = {variant: quiet_latency(asking, service, variant) for variant in variants}
    return Found(
        trace=requests.trace,
        start=requests.start,
        latencies={variant: value for variant, value in latencies.items() if not isinstance(value, UnknownAnswer)},
        shares=_shares(requests.trace),
    )


def _shares(trace: RequestTrace) -> dict[str, float]:
    requests = {variant: sum(count or 0.0 for count in queue.counts) for variant, queue in trace.queues.items()}
    return {variant: count / sum(requests.values()) for variant, count in requests.items()}


@dataclass(frozen=True, slots=True)
class VariantFigures:
    """Figures from the command line, by variant: `--service-time large=60ms`, `--share large=20%`."""

    stated_times: Mapping[str, timedelta]
    stated_shares: Mapping[str, float]

    @classmethod
    def of(cls, name: str, service: ServiceSettings, times: Sequence[str], shares: Sequence[str]) -> "VariantFigures":
        variants = dict(variant_names(service, name))
        found_times: dict[str, timedelta] = {}
        found_shares: dict[str, float] = {}
        for text in times:
            variant, value = _pair("--service-time", text, variants, "60ms")
            found_times[variant] = _parsed("--service-time", text, value, parse_latency, "60ms")
        for text in shares:
            variant, value = _pair("--share", text, variants, "20%")
            found_shares[variant] = _parsed("--share", text, value, parse_percent, "20%") / 100
        if sum(found_shares.values()) > 1 + 1e-9:
            raise typer.BadParameter(f"--share: wanted at most 100% in all, found {', '.join(shares)}")
        return cls(found_times, found_shares)

    def times(self, history: Found) -> Mapping[str, ServiceTime]:
        """Stated times, otherwise recorded ones; for other variants the stack file's time applies."""
        recorded = {
            variant: ServiceTime(timedelta(seconds=time), "at quiet times, by Prometheus")
            for variant, time in history.latencies.items()
        }
        stated = {variant: ServiceTime(time, "--service-time") for variant, time in self.stated_times.items()}
        return {**recorded, **stated}

    def shares(self, history: Found) -> Mapping[str, float]:
        return self.stated_shares or history.shares


def _pair(option: str, text: str, variants: Mapping[str, str], example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in variants:
        names = ", ".join(variants)
        raise typer.BadParameter(
            f"{option}: wanted VARIANT={example}, with one of {names}, found {text!r} (for example "
            f"{next(iter(variants))}={example})"
        )
    return variants[name], value


def _parsed(option: str, text: str, value: str, parse: Callable[[object], _Value], example: str) -> _Value:
    try:
        return parse(value)
    except ValueError:
        raise typer.BadParameter(f"{option}: wanted VARIANT={example}, found {text!r}") from None
