"""A replay as a JSON document: the figures, without the series that only the report draws."""

from typing import Any

from ebbtide.simulator.results import SCHEMA, Replay, StrategyResult


def as_json(replay: Replay) -> dict[str, Any]:
    """Plain values, keys in reading order. Equal replays give equal documents, except for `replay_seconds`."""
    return {
        "schema": SCHEMA,
        "seed": replay.seed,
        "stack": replay.stack,
        "trace": replay.trace,
        "start": replay.start.isoformat(),
        "days": replay.days,
        "max_job_s": replay.max_job_s,
        "rollouts": replay.rollouts,
        "failures": dict(replay.failures),
        "assumptions": list(replay.assumptions),
        "coverage": {"jobs": replay.coverage.jobs, "cpu_hours": replay.coverage.cpu_hours},
        "attainable": replay.attainable,
        "jobs": replay.jobs,
        "jobs_unfit": dict(replay.jobs_unfit),
        "strategies": {name: _strategy(result) for name, result in replay.strategies.items()},
        "replay_seconds": replay.replay_seconds,
    }


def _strategy(result: StrategyResult) -> dict[str, Any]:
    return {
        "node_hours": result.node_hours,
        "node_hours_by_group": dict(result.node_hours_by_group),
        "usd": result.usd,
        "usd_per_day": list(result.usd_per_day),
        "usd_on_demand": result.usd_on_demand,
        "usd_with_spot": result.usd_with_spot,
        "saving_vs_fixed_fleet": result.saving_vs_fixed_fleet,
        "jobs_done": result.jobs_done,
        "jobs_interrupted": result.jobs_interrupted,
        "jobs_unfinished": result.jobs_unfinished,
        "wait_p50_s": result.wait_p50_s,
        "wait_p95_s": result.wait_p95_s,
        "wait_p99_s": result.wait_p99_s,
        "lost_work_s": result.lost_work_s,
        "evictions_in_window": result.evictions_in_window,
        "evictions_in_business_hours": result.evictions_in_business_hours,
        "budget_openings": result.budget_openings,
        "scale_downs_to_zero": result.scale_downs_to_zero,
        "survivors": dict(result.survivors),
    }
