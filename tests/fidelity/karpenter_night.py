"""`python -m tests.fidelity.karpenter_night`: what the model of Karpenter forecasts for the night of a test.

It is the course of tests/control_plane/karpenter/test_day_and_night.py on its flexible nodes, without what a team has.
Prints each command with the seconds from its cause, as median and extremes of 200 draws.
"""

from collections import defaultdict
from statistics import median
from typing import Any

from ebbtide.vocabulary.node_pools import CLOSED, budgets_for
from tests.fidelity.karpenter import KarpenterScenario, run_scenario

DRAWS = 200
CLEARED_S, OPENED_S, CLOSED_S = 40.0, 86.0, 140.0


def _workload(name: str, cpu_m: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "category": "worker", "replicas": 0, "cpu_m": cpu_m, "memory_mib": 1024, **more}


NIGHT: KarpenterScenario = {
    "karpenter": {
        "instance_types": [{"name": "m7i.xlarge", "cpu": 4, "memory_mib": 16384, "price": {"on-demand": 0.2016}}],
        "node_pools": [{"name": "flexible", "consolidate_after": "0s", "budgets": CLOSED}],
    },
    "workloads": [
        _workload("big", 2500),
        _workload("full", 3500),
        _workload("prep", 2000, pdb_max_unavailable=0),
        _workload("web", 500, category="flexible", pdb_max_unavailable=0),
    ],
    "timeline": [
        {"at_s": 1.0, "scale": {"big": 2, "full": 1}},
        {"at_s": 10.0, "scale": {"web": 4}},
        {"at_s": 20.0, "scale": {"prep": 1}},
        {"at_s": CLEARED_S, "scale": {"big": 0, "full": 0}},
        {"at_s": OPENED_S, "pdb": {"web": 1}},
        {"at_s": OPENED_S + 0.2, "budgets": {"flexible": budgets_for(5)}},
        {"at_s": CLOSED_S, "budgets": {"flexible": CLOSED}},
    ],
    "end_s": 200.0,
    "minute_at_s": None,  # unknown, and the loop's phase is drawn
}


def main() -> None:
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(DRAWS):
        run = run_scenario(NIGHT, seed)
        for at, reason, removed, added in run.commands:
            cause = CLEARED_S if at < OPENED_S else OPENED_S
            what = f"{len(removed)} removed, {len(added)} added; evictions by morning: {len(run.evicted)}"
            seconds[reason, what].append(at - cause)
    for (reason, what), found in seconds.items():
        print(f"{reason}: {what}: {median(found):.1f} s ({min(found):.1f}-{max(found):.1f}), {len(found)} of {DRAWS}")


if __name__ == "__main__":
    main()
