"""The modelled Karpenter against recordings of the real one, three runs of each scenario.

kube-scheduler does not know Karpenter's plan, so chance decides on which of two new nodes a pod lands, and whether
Karpenter plans a pod twice. Where that decides nothing that is compared, every draw must hold; elsewhere each
recording must be among the draws.
"""

import json
from collections.abc import Mapping
from functools import cache
from statistics import median
from typing import Any

import pytest

from tests.fidelity.karpenter import KarpenterRun, differences, run_scenario
from tests.paths import DATA

SCENARIOS: dict[str, Mapping[str, Any]] = {
    scenario["name"]: scenario
    for scenario in json.loads((DATA / "karpenter-scenarios" / "given.json").read_text(encoding="utf-8"))
}
EVERY_DRAW = (
    "burst-in-batches-then-empty-default-budget",
    "daemonset-takes-its-share",
    "gpu-pool-beside-cpu-pool",
    "pdb-zero-blocks-then-opens",
)
AMONG_THE_DRAWS = {  # for each recording, at least so many of eighty hold
    "mixed-sizes-cheapest-for-the-batch": (60, 60, 0),
    "day-budget-zero-then-open": (30, 6, 30),
}
RARE = "mixed-sizes-cheapest-for-the-batch", 2


@cache
def run(name: str, seed: int) -> KarpenterRun:
    return run_scenario(SCENARIOS[name], seed)


def holding(name: str, number: int, draws: int) -> int:
    recording = SCENARIOS[name]["runs"][number]
    return sum(not differences(SCENARIOS[name], recording, run(name, seed)) for seed in range(draws))


@pytest.mark.parametrize("name", EVERY_DRAW)
@pytest.mark.parametrize("seed", range(5))
def test_every_recording_without_chance_holds_in_every_draw(name: str, seed: int) -> None:
    recordings = SCENARIOS[name]["runs"]

    assert [line for recording in recordings for line in differences(SCENARIOS[name], recording, run(name, seed))] == []


@pytest.mark.parametrize("name", AMONG_THE_DRAWS)
@pytest.mark.parametrize("number", range(3))
def test_a_recording_with_chance_is_among_the_draws(name: str, number: int) -> None:
    assert holding(name, number, 80) >= AMONG_THE_DRAWS[name][number]


@pytest.mark.parametrize("name", AMONG_THE_DRAWS)
def test_the_draws_cost_what_the_recordings_cost(name: str) -> None:
    recorded = median(recording["dollars"] for recording in SCENARIOS[name]["runs"])

    assert median(run(name, seed).dollars for seed in range(80)) == pytest.approx(recorded, rel=0.05)


@pytest.mark.long
def test_a_rare_recording_is_among_many_draws() -> None:
    assert holding(*RARE, 1000) > 0


def test_every_recording_is_accounted_for() -> None:
    assert sorted(SCENARIOS) == sorted([*EVERY_DRAW, *AMONG_THE_DRAWS])


def test_other_commands_evictions_and_nodes_are_differences() -> None:
    scenario = SCENARIOS["pdb-zero-blocks-then-opens"]
    other = KarpenterRun(((0.0, {}),), (), (), 0.0, ())

    lines = differences(scenario, scenario["runs"][0], other)

    assert [line.partition(":")[0] for line in lines] == ["plateaus", "commands", "evictions", "final packing"]
