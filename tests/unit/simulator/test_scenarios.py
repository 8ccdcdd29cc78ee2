"""The modelled cluster against recordings of the real scheduler and the real cluster autoscaler.

Chance has a part in the real thing: in which order waiting pods are packed, which of two equal nodes is taken. Where it
decides nothing that is compared, every draw must hold; elsewhere the recording must be among the model's draws.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ebbtide.simulator.scenario import ScenarioRun, differences, replay, run_scenario

RECORDED: dict[str, Mapping[str, Any]] = {
    scenario["name"]: scenario
    for scenario in json.loads(
        (Path(__file__).parents[2] / "data" / "ca-scenarios" / "given.json").read_text(encoding="utf-8")
    )
}
EVERY_DRAW = (
    "scale-up-from-zero-one-shape",
    "above-the-utilisation-threshold-stays",
    "local-storage-blocks-when-flagged",
    "least-waste-chooses-the-shape",
    "gpu-group-from-zero-and-back",
    "group-at-its-maximum-leaves-pods-pending",
)
A_FREQUENT_DRAW = (
    "closed-budget-pins-open-budget-frees",
    "fixed-pods-pin-a-shared-group",
    "separated-by-anti-affinity-only",
    "safe-to-evict-false-blocks",
    "parallel-drain-of-six-nodes",
)
A_RARE_DRAW = ("serial-drain-of-six-nodes",)
"""Eight nodes at first and two delayed drains at the end: about one draw in a thousand."""


@pytest.mark.parametrize("name", EVERY_DRAW)
@pytest.mark.parametrize("seed", range(5))
def test_a_recording_without_chance_holds_in_every_draw(name: str, seed: int) -> None:
    assert differences(RECORDED[name], run_scenario(RECORDED[name], seed)) == []


@pytest.mark.parametrize("name", A_FREQUENT_DRAW)
def test_a_recording_with_chance_is_among_the_draws(name: str) -> None:
    assert differences(RECORDED[name], replay(RECORDED[name], draws=40)) == []


@pytest.mark.parametrize("name", A_RARE_DRAW)
def test_a_rare_recording_differs_from_its_draws_only_in_how_many_nodes_came_and_when(name: str) -> None:
    run = replay(RECORDED[name], draws=40)

    assert run.unremovable_reasons == tuple(RECORDED[name]["unremovable_reasons"])
    assert [sorted(node) for node in RECORDED[name]["final_packing"]] == [list(node) for node in run.final_packing]


def test_every_recording_is_accounted_for() -> None:
    assert sorted(RECORDED) == sorted(EVERY_DRAW + A_FREQUENT_DRAW + A_RARE_DRAW)


SMALL: Mapping[str, Any] = {
    "end_s": 60,
    "observed": [
        {"t_s": 0.0, "nodes": {}},
        {"t_s": 7.0, "nodes": {"flexible": 2}},
        {"t_s": 7.3, "nodes": {"flexible": 10}},
        {"t_s": 40.0, "nodes": {"flexible": 4}},
    ],
    "final_packing": [["b", "a"]],
    "unremovable_reasons": [],
}


def run_like_small(
    first: tuple[float, int] = (7.0, 10), last: tuple[float, int] = (40.0, 4), packing: str = "ab", reason: str = ""
) -> ScenarioRun:
    nodes = ((0.0, dict[str, int]()), *((t, {"flexible": count}) for t, count in (first, last)))
    return ScenarioRun(nodes, (tuple(packing),), (reason,) if reason else ())


def test_steps_on_the_way_to_a_number_of_nodes_are_no_difference() -> None:
    assert differences(SMALL, run_like_small()) == []


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (run_like_small(first=(7.0, 9)), "plateaus: recorded"),
        (run_like_small(last=(46.1, 4)), "recorded at 40 s, found at 46.1 s"),
        (run_like_small(packing="aa"), "final packing: recorded"),
        (run_like_small(reason="pod with local storage present: a"), "reasons: recorded"),
    ],
)
def test_each_kind_of_difference_is_told(run: ScenarioRun, says: str) -> None:
    (line,) = differences(SMALL, run)

    assert says in line
