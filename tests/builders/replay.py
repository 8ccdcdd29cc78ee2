"""A replay that looks like a real one: a bursty working day, quiet nights, four strategies. Made up and seeded."""

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ebbtide.lab.simulator.results import (
    ClusterSeries,
    Coverage,
    RayClusterResult,
    RayGroupResult,
    Replay,
    StrategyResult,
)
from ebbtide.vocabulary.windows import zone_of

DAY = 86_400.0
ZONE = zone_of("America/New_York")
START = datetime(2026, 3, 2, tzinfo=ZONE)  # a Monday
USD_PER_NODE_HOUR = {"fixed": 0.4032, "flexible": 0.8064, "gpu": 1.212, "gpu-large": 5.672}
FLEET = {"fixed": 2, "flexible": 13, "gpu": 5, "gpu-large": 2}


def a_replay(*, days: int = 7, seed: int = 7, samples_per_day: int = 700, strategies: Sequence[str] = ()) -> Replay:
    names = tuple(strategies) or ("fixed-fleet", "worker-autoscaling", "cluster-autoscaling", "fixed-flexible")
    load = _load(days, samples_per_day, random.Random(seed))
    series = {name: _series(name, load) for name in names}
    fleet_usd = sum(FLEET[group] * usd * 24 * days for group, usd in USD_PER_NODE_HOUR.items())
    return Replay(
        seed=seed,
        stack="demo",
        trace="openb2023-a",
        start=START,
        days=days,
        max_job_s=None,
        assumptions=(
            "Prices are EC2 On-Demand, Linux, us-east-1, billed by the second.",
            "A node takes 120 s to boot; the autoscaler waits 10 min before it calls a node unneeded.",
            "The trace's time 0 was put at a Monday, 00:00 local time: the source does not state its own.",
        ),
        coverage=Coverage(jobs=0.874, cpu_hours=0.612),
        jobs_unfit={"too-much-gpu": 41, "fits-no-node-group": 378},
        open_spans=tuple((day * DAY + 8 * 3600, day * DAY + 19 * 3600) for day in range(days) if day % 7 < 5),
        strategies={name: a_result(name, series[name], days=days, fleet_usd=fleet_usd) for name in names},
        replay_seconds=11.4,
    )


def a_result(name: str, series: ClusterSeries, *, days: int, fleet_usd: float) -> StrategyResult:
    hours = {group: _integral(series.at, values, days * DAY) / 3600 for group, values in series.nodes.items()}
    per_day = tuple(_usd_of_day(series, day) for day in range(days))
    usd = sum(per_day)
    return StrategyResult(
        node_hours=sum(hours.values()),
        node_hours_by_group=hours,
        usd=usd,
        usd_per_day=per_day,
        saving_vs_fixed_fleet=None if name == "fixed-fleet" else 1 - usd / fleet_usd,
        jobs_done=2907,
        jobs_interrupted=0,
        jobs_unfinished=3,
        wait_p50_s=4.0 if name == "fixed-fleet" else 38.0,
        wait_p95_s=212.0 if name == "fixed-fleet" else 224.0,
        evictions_in_window=0 if name in ("fixed-fleet", "worker-autoscaling") else 63,
        evictions_in_business_hours=0,
        budget_openings=days,
        scale_downs_to_zero=19,
        series=series,
    )


def priced(usd: float | None) -> float:
    """The dollars of a result whose nodes all have a price."""
    assert usd is not None
    return usd


def with_ray_workers(replay: Replay) -> Replay:
    """The same replay, with a Ray cluster `flow` under the product and in the fixed fleet."""
    busy, idle = (0, 3, 5, 1, 0), (0, 1, 0, 2, 0)
    at = (0.0, 30_000.0, 40_000.0, 60_000.0, 61_000.0)
    gpu = RayGroupResult(
        worker_hours=12.5,
        busy_hours=10.0,
        most_workers=5,
        tasks_done=1234,
        tasks_interrupted=2,
        task_hours=9.0,
        lost_task_s=90.0,
        wait_p50_s=0.0,
        wait_p95_s=150.0,
        series=ClusterSeries(
            at=at, nodes={"busy": busy, "idle": idle}, waiting=(0, 0, 4, 0, 0), running=(0, 5, 9, 1, 0)
        ),
    )
    never = replace(gpu, worker_hours=0.0, busy_hours=0.0, most_workers=0, tasks_done=0)
    flow = RayClusterResult(head_hours=80.0, groups={"cpu": never, "gpu": gpu})
    told = {
        name: replace(result, ray={"flow": flow} if name in ("fixed-flexible", "fixed-fleet") else {})
        for name, result in replay.strategies.items()
    }
    return replace(replay, strategies=told)


def cheaper_fleet(replay: Replay) -> Replay:
    """The same replay with a fixed fleet at half the product's price: the product loses."""
    fleet, product = replay.strategies["fixed-fleet"], replay.strategies["fixed-flexible"]
    fleet = replace(fleet, usd=priced(product.usd) / 2, usd_per_day=tuple(usd / 2 for usd in product.usd_per_day))
    product = replace(product, saving_vs_fixed_fleet=-1.0)
    return replace(replay, strategies={**replay.strategies, "fixed-fleet": fleet, "fixed-flexible": product})


def _load(days: int, samples_per_day: int, rng: random.Random) -> list[tuple[float, float]]:
    """Wanted capacity, in jobs, at uneven instants: office hours, bursts, and a long job now and then."""
    at, burst, night_job, load = 0.0, 0.0, 0.0, list[tuple[float, float]]()
    while at < days * DAY:
        local = START + timedelta(seconds=at)
        hour = local.hour + local.minute / 60
        office = math.exp(-(((hour - 13.2) / 3.4) ** 2)) * (1.0 if local.weekday() < 5 else 0.12)
        burst = burst * 0.965 + (rng.uniform(6, 30) * (0.25 + office) if rng.random() < 0.016 else 0.0)
        night_job = night_job * 0.993 + (5 if rng.random() < 0.002 else 0)
        load.append((at, 26 * office + burst + night_job))
        at += rng.expovariate(samples_per_day / DAY)
    return load


def _series(name: str, load: Sequence[tuple[float, float]]) -> ClusterSeries:
    at = tuple(round(instant, 3) for instant, _ in load)
    jobs = [max(0, round(wanted)) for _, wanted in load]
    lag = {"worker-autoscaling": 0.9993, "cluster-autoscaling": 0.9955}.get(name, 0.94)
    floor = {"worker-autoscaling": 6.0, "cluster-autoscaling": 4.0}.get(name, 0.0)
    nodes: dict[str, tuple[int, ...]] = {}
    for group, share in {"flexible": 0.28, "gpu": 0.11, "gpu-large": 0.035}.items():
        held, counts = 0.0, list[int]()
        for wanted in jobs:
            held = max(wanted * share, held * lag, floor * share * 2.2)
            counts.append(min(FLEET[group], math.ceil(held - 0.25)))
        nodes[group] = (FLEET[group],) * len(at) if name == "fixed-fleet" else tuple(counts)
    fixed = {"fixed": (2,) * len(at)}
    capacity = [sum(counts[i] for counts in nodes.values()) * 3.1 for i in range(len(at))]
    return ClusterSeries(
        at=at,
        nodes={**fixed, **nodes},
        waiting=tuple(max(0, round((job - room) * 3)) for job, room in zip(jobs, capacity, strict=True)),
        running=tuple(round(min(job, room)) for job, room in zip(jobs, capacity, strict=True)),
    )


def _integral(at: Sequence[float], values: Sequence[int], end: float, begin: float = 0.0) -> float:
    first, last = max(0, bisect_right(at, begin) - 1), bisect_left(at, end)
    stops = (*at[first + 1 : last], end)
    return sum(
        value * (stop - max(since, begin))
        for since, stop, value in zip(at[first:last], stops, values[first:last], strict=True)
    )


def _usd_of_day(series: ClusterSeries, day: int) -> float:
    counted: Mapping[str, Sequence[int]] = series.nodes
    return sum(
        _integral(series.at, values, (day + 1) * DAY, day * DAY) / 3600 * USD_PER_NODE_HOUR[group]
        for group, values in counted.items()
    )
