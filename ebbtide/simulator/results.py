"""What a replay found: plain data, written as JSON and drawn by the report.

Units: seconds, node-hours, US dollars, fractions from 0 to 1. Later versions only add fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyResult:
    """One strategy over the whole replay."""

    node_hours: float
    node_hours_by_group: Mapping[str, float]
    usd: float
    usd_per_day: tuple[float, ...]  # local calendar days from the start
    saving_vs_fixed_fleet: float | None  # fraction of the fixed fleet's dollars; None for the fleet itself
    jobs_done: int
    jobs_interrupted: int
    jobs_unfinished: int
    wait_p50_s: float
    wait_p95_s: float
    evictions_in_window: int
    evictions_in_business_hours: int
    budget_openings: int
    scale_downs_to_zero: int
    series: "Series"
    usd_on_demand: float = 0.0  # the same nodes without any commitment
    usd_with_spot: float | None = None  # flexible nodes above min at typical spot prices; None: a price is missing
    wait_p99_s: float = 0.0
    lost_work_s: float = 0.0  # what interrupted jobs had run when their worker went
    survivors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Node-hours of nodes that were kept in the disruption window, by the reason that kept them."""
    wait_quantiles_s: tuple[float, ...] = ()
    """The longest wait of the luckiest 0, 1, 2, … 100 % of the jobs; empty where nothing waits by definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Sampled at the changes: value i holds from `at[i]` to `at[i + 1]`. `at` is seconds from the start."""

    at: tuple[float, ...] = ()
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])  # by node group
    waiting: tuple[int, ...] = ()  # jobs
    running: tuple[int, ...] = ()  # jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The share of the trace that the stack's pools can run, by count and by requested CPU-hours."""

    jobs: float
    cpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Everything `ebbtide simulate` says."""

    seed: int
    stack: str
    trace: str
    start: datetime  # aware, in the customer's zone: where the trace's time 0 was put
    days: int
    max_job_s: float | None
    assumptions: tuple[str, ...]
    coverage: Coverage
    jobs_unfit: Mapping[str, int]  # by reason
    open_spans: tuple[tuple[float, float], ...]  # business hours, seconds from the start, clipped
    strategies: Mapping[str, StrategyResult]
    replay_seconds: float
    gaps: tuple[tuple[float, float], ...] = ()  # where the trace may lack data, seconds from the start, clipped
    rollouts: bool = True  # whether services were deployed
    failures: Mapping[str, float] = field(default_factory=dict[str, float])  # those that were asked for, by option
    attainable: float | None = None  # fraction of the fixed fleet's dollars that the zero-wait bound would save
    price_dates: Mapping[str, date] = field(default_factory=dict[str, date])  # when each kind of price was current
    jobs: int = 0  # submitted in the replayed days and run by a pool: done and unfinished ones of each strategy
