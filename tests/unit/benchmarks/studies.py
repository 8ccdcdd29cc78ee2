"""A case of the study as its file holds it; only what a test is about has to be given."""

from pathlib import Path
from typing import Any


def figures(usd: float, *, hours: float = 100.0, p95: float = 100.0) -> dict[str, Any]:
    return {
        "node_hours": hours,
        "usd": usd / 2,
        "usd_on_demand": usd,
        "usd_with_spot": None,
        "wait_p50_s": 1.0,
        "wait_p95_s": p95,
        "wait_p99_s": p95,
        "jobs_unfinished": 0,
        "jobs_interrupted": 0,
        "lost_work_s": 0.0,
        "evictions_in_window": 0,
        "evictions_in_business_hours": 0,
    }


def a_case(product: float, *, hours: float = 110.0, shift_h: int = 0) -> dict[str, Any]:
    """The fleet costs 1,000 dollars and the bound 400."""
    return {
        "case": {"trace": "t", "scope": "all", "shift_h": shift_h, "seed": 0},
        "price_date": "2026-07-20",
        "start": "2026-06-01T08:00",
        "days": 7,
        "jobs": 10,
        "coverage": {"jobs": 0.99, "cpu_hours": 0.9},
        "median_job_s": 60.0,
        "launches": 5,
        "work_share_over_8h": 0.5,
        "work_share_over_24h": 0.25,
        "strategies": {
            "fixed-flexible": figures(product, hours=hours),
            "fixed-fleet": figures(1000.0, p95=99.0),
            "zero-wait-bound": figures(400.0, p95=0.0),
        },
    }


def of_this_tree(out: Path, _module: str) -> Path:
    """In place of a folder that is named by what the sources are."""
    return out / "of-this-tree"
