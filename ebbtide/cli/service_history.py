"""Where a service's history comes from: a file, or what its stack's Prometheus recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.advice.services.history import History, HistoryQuery, quiet_latency, recorded_requests
from ebbtide.cli.console import fail
from ebbtide.monitoring.client import Prometheus, Unknown
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.monitoring import PrometheusKind
from ebbtide.simulator.trace.counted import RequestTrace, find_requests
from ebbtide.simulator.trace.traces import TraceError, bundled
from ebbtide.vocabulary.windows import zone_of

if TYPE_CHECKING:
    from ebbtide.monitoring.links import Link

_INSTEAD = "or give a history: --trace requests.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What was asked for on the command line."""

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
    latencies: dict[str, float]  # seconds at quiet times, by variant, where they were recorded
    shares: dict[str, float]  # of the requests, from 0 to 1, by variant; nothing where they are not known


def history_of(settings: StackSettings, service: str, variants: Sequence[str], source: Source) -> Found:
    """Ends the command with one line where there is none. Raises `TraceError`."""
    if source.trace is not None:
        return Found(trace=_of_file(source.trace, source), start=None, latencies={}, shares={})
    if not source.prometheus and settings.monitoring.prometheus is PrometheusKind.NONE:
        fail(
            f"{settings.stack}: wanted a history of {service}, found neither --trace nor a Prometheus (for example "
            "--trace requests.csv, --prometheus URL, or monitoring: { prometheus: bundled } in the stack file)"
        )
    return _asked(settings, source, lambda link: _recorded(settings, service, variants, source, link))


def _of_file(name: str, source: Source) -> RequestTrace:
    """A history is taken as it is; a public trace is of another size, which somebody has to say."""
    if name in bundled() and source.rate is None:
        raise TraceError(
            f"{name}: wanted --requests-per-second beside a public trace, which is of another size than the service "
            "(for example --requests-per-second 2)"
        )
    return find_requests(name, source.queue)


def _recorded(
    settings: StackSettings, service: str, variants: Sequence[str], source: Source, link: "Link | None"
) -> Found:
    if link is None:
        fail(f"{settings.stack}: wanted a Prometheus, or --trace FILE, found neither")
    now = datetime.now(zone_of(settings.business_hours.timezone))
    prometheus = Prometheus(link, settings.customer, lambda: datetime.now(UTC))
    query = HistoryQuery(prometheus=prometheus, customer=settings.customer, since=source.since, now=now)
    found = prometheus.doubt() or recorded_requests(query, service, variants)
    if not isinstance(found, History):
        fail(f"{found.why} ({_INSTEAD})")
    latencies = {variant: quiet_latency(query, service, variant) for variant in variants}
    return Found(
        trace=found.trace,
        start=found.start,
        latencies={variant: it for variant, it in latencies.items() if not isinstance(it, Unknown)},
        shares=_shares(found.trace),
    )


def _shares(trace: RequestTrace) -> dict[str, float]:
    each = {variant: sum(count or 0.0 for count in queue.counts) for variant, queue in trace.queues.items()}
    return {variant: count / sum(each.values()) for variant, count in each.items()}


def _asked(settings: StackSettings, source: Source, ask: "Callable[[Link | None], Found]") -> Found:
    try:
        from ebbtide.cli.cluster import reported
        from ebbtide.operate.api import CannotOperate, connect
        from ebbtide.operate.prometheus import link_of, named_link
    except ModuleNotFoundError as missing:
        fail(f"a history from Prometheus needs {missing.name}; pip install 'ebbtide[controller]', or --trace", code=2)
    try:
        if source.prometheus:
            return ask(named_link(source.prometheus, source.token_file))
        api = connect(source.kubeconfig, source.context or settings.cluster.context)
    except CannotOperate as error:
        fail(f"{error} ({_INSTEAD})", code=error.code)
    with reported(api):
        return ask(link_of(settings, api))
