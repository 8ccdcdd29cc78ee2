"""The results of a service's replay: plain data, written as JSON. Later versions only add fields.

Units: seconds, pod-hours, US dollars, requests a second, fractions from 0 to 1.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from ebbtide.lab.simulator.services.backtest import Backtest
from ebbtide.lab.simulator.services.run import MinuteSeries, ServedRequests, quantile
from ebbtide.text.records import plain_values

SCHEMA = 1
STEP_MINUTES = 5
"""The step of the latency series: a minute has too few requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceResult:
    """One strategy. sent = answered + lost + turned_away."""

    pod_hours: float
    usd: float | None  # shares of nodes; None: a node has no price
    sent: int
    answered: int
    lost: int  # no pod was ready, or longer than longestRequest
    turned_away: int  # above maxInFlight
    p50_s: float
    p95_s: float
    p99_s: float
    beyond_slo: float  # share of requests answered later than the SLO's p95, or not answered
    least_pods: int
    most_pods: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedStrategy:
    """A result, with series for the charts."""

    result: ServiceResult
    series: MinuteSeries
    p95_s: tuple[float | None, ...]  # by `STEP_MINUTES`; None: no request was answered


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReplay:
    stack: str
    service: str
    trace: str
    seed: int
    start: datetime  # second 0 of the trace, aware
    begin_s: float  # the played span, seconds of the trace
    end_s: float
    mean_rate: float
    busiest_rate: float
    slo_s: float
    assumptions: tuple[str, ...]
    strategies: Mapping[str, ReplayedStrategy]
    left_out: Mapping[str, str]  # strategies that could not be played, with the reason
    replay_seconds: float
    open_spans: tuple[tuple[float, float], ...] = ()  # business hours, seconds of the trace
    gaps: tuple[tuple[float, float], ...] = ()  # spans without data in the trace
    tested: Backtest | None = None  # of the forecast; None: too little history


def result_of(served: ServedRequests, slo_s: float, usd_per_pod_hour: float | None) -> ServiceResult:
    ordered = sorted(served.latencies)
    beyond_slo = len(ordered) - bisect_right(ordered, slo_s) + served.lost + served.turned_away
    return ServiceResult(
        pod_hours=served.pod_hours,
        usd=None if usd_per_pod_hour is None else served.pod_hours * usd_per_pod_hour,
        sent=served.sent,
        answered=served.answered,
        lost=served.lost,
        turned_away=served.turned_away,
        p50_s=quantile(ordered, 0.5),
        p95_s=quantile(ordered, 0.95),
        p99_s=quantile(ordered, 0.99),
        beyond_slo=beyond_slo / served.sent if served.sent else 0.0,
        least_pods=served.fewest_replicas,
        most_pods=served.most_replicas,
    )


def as_json(replay: ServiceReplay) -> dict[str, Any]:
    """Keys in reading order. Equal replays give equal documents, except for `replay_seconds`."""
    names = [figure.name for figure in fields(replay)]
    figures = {name: getattr(replay, name) for name in names[: names.index("open_spans")]}  # the rest is for charts
    return (
        {"schema": SCHEMA}
        | figures
        | {
            "start": replay.start.isoformat(),
            "assumptions": list(replay.assumptions),
            "strategies": {name: plain_values(played.result) for name, played in replay.strategies.items()},
            "left_out": dict(replay.left_out),
        }
    )
