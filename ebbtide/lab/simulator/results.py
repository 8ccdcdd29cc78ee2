"""The results of a replay: plain data, written as JSON and drawn by the report.

Units: seconds, node-hours, US dollars, fractions from 0 to 1. Later versions only add fields. The JSON document has the
figures, without the series, which only the report draws.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from ebbtide.lab.simulator.trace.jobs import Reading
from ebbtide.text.records import plain_values

SCHEMA = 1


class Strategy(StrEnum):
    """The strategies in the order of their results; `strategies.table` defines them."""

    FIXED_FLEXIBLE = "fixed-flexible"
    FIXED_FLEXIBLE_SPOT = "fixed-flexible-spot"
    KARPENTER = "karpenter"
    MANAGED_GROUPS = "managed-groups"
    CLUSTER_AUTOSCALING = "cluster-autoscaling"
    WORKER_AUTOSCALING = "worker-autoscaling"
    FIXED_FLEET = "fixed-fleet"
    PEAK_FLEET = "peak-fleet"
    KEDA_DEFAULTS = "keda-defaults"
    KARPENTER_DEFAULTS = "karpenter-defaults"
    ZERO_WAIT_BOUND = "zero-wait-bound"


BASELINE = Strategy.FIXED_FLEET
"""Savings are relative to this strategy."""

OTHER_PROVISIONER = (Strategy.KARPENTER, Strategy.MANAGED_GROUPS)
"""The product with one provisioner for all flexible and GPU groups; a stack is compared with the one that it lacks."""

_ONLY_IF_NAMED = (Strategy.FIXED_FLEXIBLE_SPOT, *OTHER_PROVISIONER, Strategy.KARPENTER_DEFAULTS)
DEFAULT_STRATEGIES = tuple(strategy for strategy in Strategy if strategy not in _ONLY_IF_NAMED)
"""The strategies that run the stack unchanged; `simulate` adds the other provisioner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyResult:
    """One strategy over the whole replay."""

    # In the order of the JSON document.
    node_hours: float
    node_hours_by_group: Mapping[str, float]
    vcpu_hours: float = 0.0
    usd: float | None  # None: a node that ran has no price
    usd_per_day: tuple[float, ...]  # local calendar days from the start; empty without a price
    usd_on_demand: float | None = 0.0  # the same nodes without any commitment
    usd_with_spot: float | None = None  # flexible nodes above min at typical spot prices; None: a price is missing
    saving_vs_fixed_fleet: float | None  # fraction of the fixed fleet's dollars; None for the fleet itself, or unknown
    jobs_done: int
    jobs_interrupted: int
    jobs_unfinished: int
    wait_p50_s: float
    wait_p95_s: float
    wait_p99_s: float = 0.0
    lost_work_s: float = 0.0  # worker-seconds of work that interrupted jobs repeat
    lost_work_share: float = 0.0  # of the worker-seconds in which workers held a job
    saving_s: float = 0.0  # worker-seconds in which jobs saved instead of working
    resumes: int = 0  # attempts that continued from a save
    completion_p95_s: float = 0.0  # from submission to the end; of an unfinished job, to the end of the replay
    evictions_in_window: int
    evictions_in_business_hours: int
    budget_openings: int
    scale_downs_to_zero: int
    survivors: Mapping[str, float] = field(default_factory=dict[str, float])
    """Node-hours in the disruption window, by the reason for which the nodes stayed."""
    ray: "Mapping[str, RayClusterResult]" = field(default_factory=dict[str, "RayClusterResult"])
    """By cluster; empty without Ray, and for the bound."""
    pools: "Mapping[str, PoolResult]" = field(default_factory=dict[str, "PoolResult"])
    """The figures of each pool that has jobs; empty for the bound."""
    empty_nodes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Mean number of nodes without a pod outside business hours, of groups without an autoscaler."""
    series: "ClusterSeries"
    wait_quantiles_s: tuple[float, ...] = ()
    """Quantiles of the wait at 0, 1, 2, … 100 %; empty if no job waits by definition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolResult:
    """The jobs of one pool under one strategy. A job that never started counts with its wait until the end."""

    jobs: int
    wait_p95_s: float
    wait_p99_s: float
    jobs_unfinished: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeries:
    """Sampled at the changes: value i holds from `at[i]` to `at[i + 1]`. `at` is seconds from the start."""

    at: tuple[float, ...] = ()
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])  # by node group
    waiting: tuple[int, ...] = ()  # jobs
    running: tuple[int, ...] = ()  # jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class RayGroupResult:
    """The workers and tasks of one group of a Ray cluster. Task hours sum over all members of the gang."""

    worker_hours: float  # with Ray running
    busy_hours: float  # with at least one task
    most_workers: int  # at one time
    tasks_done: int
    tasks_interrupted: int  # attempts that were lost with their worker
    task_hours: float  # of the tasks done
    lost_task_s: float  # task-seconds that run again, or that ran for a driver that had ended
    wait_p50_s: float  # from request to first start, of tasks that started
    wait_p95_s: float
    series: ClusterSeries  # `nodes` are workers, "busy" and "idle"; `waiting` and `running` are tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class RayClusterResult:
    head_hours: float  # awake
    groups: Mapping[str, RayGroupResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The share of the trace that the stack's pools can run, by count and by requested CPU-hours."""

    jobs: float
    cpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpricedGroup:
    """A node group whose nodes have no price. `region` is empty if no region has its price."""

    name: str
    instance_type: str
    region: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """A pool, or a group of Ray workers, whose jobs need more workers than the stack can run."""

    name: str
    max: int  # workers that the stack can run
    node_group: str | None  # the groups whose `max` is the limit, joined by "+"; None: the limit is the pool's `max`
    needed: int  # at least

    def __str__(self) -> str:
        who = self.name if self.name.startswith("ray ") else f"pool {self.name}"
        limit = "its max is" if self.node_group is None else f"node group {self.node_group} holds"
        return f"{who} needs at least {self.needed} workers, {limit} {self.max}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The arguments of a command: files as typed, and how the trace was read. `begin`: second 0 of the trace."""

    stack: str
    trace: str
    reading: Reading
    begin: datetime | None = None
    prices: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of `ebbtide simulate`."""

    seed: int
    stack: str
    trace: str
    start: datetime  # second 0 of the trace: aware, in the customer's zone
    days: int
    max_job_s: float | None
    assumptions: tuple[str, ...]
    coverage: Coverage
    jobs_unfit: Mapping[str, int]  # by reason
    open_spans: tuple[tuple[float, float], ...]  # business hours, seconds from the start, clipped
    strategies: Mapping[str, StrategyResult]
    replay_seconds: float
    gaps: tuple[
        tuple[float, float], ...
    ] = ()  # spans in which the trace may lack data, seconds from the start, clipped
    rollouts: bool = True  # services were deployed
    failures: Mapping[str, float] = field(default_factory=dict[str, float])  # those requested, by option
    without_spot_price: str = ""  # spot groups with their types, which cost the on-demand price here
    spot_capacity: str = ""  # the file of hours without it, or `synthetic`; empty: always there
    spot_capacity_origin: str = ""  # the sources of the file's rows, or `synthetic`
    attainable: float | None = None  # saving of the zero-wait bound, a fraction of the fixed fleet's dollars
    price_dates: Mapping[str, date] = field(default_factory=dict[str, date])  # the date of each kind of price
    estimated_prices: str = ""  # types whose price is an estimate, and from what; they count like prices
    jobs: int = 0  # submitted in the replayed days and assigned to a pool
    unpriced: tuple[UnpricedGroup, ...] = ()
    overloads: tuple[Overload, ...] = ()
    constant_nodes: Mapping[str, int] = field(default_factory=dict[str, int])  # of groups without an autoscaler
    queue_names: Mapping[str, str] = field(default_factory=dict[str, str])  # queues of the trace by their new names
    by_queue: bool = False  # each job went to the pool of its queue; False: no pool serves a queue of the trace
    queues_not_served: Mapping[str, int] = field(default_factory=dict[str, int])  # jobs left out, by queue
    typed: Typed | None = None  # None: the replay was not run by a command

    @property
    def states_saving(self) -> bool:
        """True if dollars depend on the strategy: the stack can run the demand, and all groups have an autoscaler."""
        return not self.overloads and not self.constant_nodes


def as_json(replay: Replay) -> dict[str, Any]:
    """Plain values, keys in reading order. Equal replays give equal documents, except for `replay_seconds`."""
    return {
        "schema": SCHEMA,
        "overloads": plain_values(replay.overloads),
        "constant_nodes": dict(replay.constant_nodes),
        "seed": replay.seed,
        "stack": replay.stack,
        "trace": replay.trace,
        "start": replay.start.isoformat(),
        "days": replay.days,
        "max_job_s": replay.max_job_s,
        "rollouts": replay.rollouts,
        "failures": dict(replay.failures),
        **_spot_capacity(replay),
        "assumptions": list(replay.assumptions),
        "coverage": {"jobs": replay.coverage.jobs, "cpu_hours": replay.coverage.cpu_hours},
        "attainable": replay.attainable,
        "jobs": replay.jobs,
        "queue_names": dict(replay.queue_names),
        "by_queue": replay.by_queue,
        "queues_not_served": dict(replay.queues_not_served),
        "jobs_unfit": dict(replay.jobs_unfit),
        "unpriced": plain_values(replay.unpriced),
        "strategies": {name: _strategy(result) for name, result in replay.strategies.items()},
        "replay_seconds": replay.replay_seconds,
    }


def _spot_capacity(replay: Replay) -> dict[str, Any]:
    if not replay.spot_capacity:
        return {}
    return {"spot_capacity": {"name": replay.spot_capacity, "source": replay.spot_capacity_origin}}


def _strategy(result: StrategyResult) -> dict[str, Any]:
    return _figures(result) | {
        "node_hours_by_group": dict(result.node_hours_by_group),
        "usd_per_day": list(result.usd_per_day),
        "survivors": dict(result.survivors),
        "empty_nodes": dict(result.empty_nodes),
        "pools": plain_values(result.pools),
        "ray": {
            name: {
                "head_hours": cluster.head_hours,
                "groups": {group: _figures(figures) for group, figures in cluster.groups.items()},
            }
            for name, cluster in result.ray.items()
        },
    }


def _figures(result: StrategyResult | RayGroupResult) -> dict[str, Any]:
    names = (figure.name for figure in fields(result))
    return {name: getattr(result, name) for name in names if name not in ("series", "wait_quantiles_s", "empty_nodes")}


@dataclass(slots=True)
class SeriesRecorder:
    """Builds a `ClusterSeries`. The last sample of an instant counts; a sample without a change is dropped."""

    groups: tuple[str, ...]
    _at: list[float] = field(default_factory=list[float])
    _samples: list[tuple[tuple[int, ...], int, int]] = field(default_factory=list[tuple[tuple[int, ...], int, int]])

    def sample(self, at: float, nodes: Mapping[str, int], waiting: int, running: int) -> None:
        sample = (tuple(nodes.get(group, 0) for group in self.groups), waiting, running)
        if self._at and self._at[-1] == at:
            self._at.pop()
            self._samples.pop()
        if not self._samples or self._samples[-1] != sample:
            self._at.append(at)
            self._samples.append(sample)

    def series(self) -> ClusterSeries:
        return ClusterSeries(
            at=tuple(self._at),
            nodes={group: tuple(nodes[i] for nodes, _, _ in self._samples) for i, group in enumerate(self.groups)},
            waiting=tuple(waiting for _, waiting, _ in self._samples),
            running=tuple(running for _, _, running in self._samples),
        )
