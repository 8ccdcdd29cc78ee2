"""The modelled cluster against further recordings of the real autoscaler, some of them several runs of one scenario.

A recording is one draw of the real thing, so it must be among the model's draws. Where chance has no part, every draw
holds. Where it has so large a part that a whole recording comes up in fewer than one draw of ten, its beginning, its
end and its reasons are looked for one by one.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from tests.fidelity.scenario import Counts, Plateau, ScenarioRun, differences, plateaus, run_scenario
from tests.paths import DATA

pytestmark = pytest.mark.whole

Recording = Mapping[str, Any]

RECORDINGS: dict[str, list[Recording]] = {}
for found in json.loads((DATA / "ca-scenarios" / "recorded.json").read_text(encoding="utf-8")):
    RECORDINGS.setdefault(found["name"], []).append(found)
DRAWS = 60
NO_CHANCE = (
    "above-the-utilisation-threshold-stays",
    "budget-of-one-for-a-single-pod",
    "fits-no-group",
    "gpu-and-cpu-pending-together",
    "gpu-group-from-zero-and-back",
    "group-at-its-maximum-leaves-pods-pending",
    "least-waste-chooses-the-shape",
    "local-storage-blocks-when-flagged",
    "minimum-is-kept",
    "most-pods",
    "one-per-node-grows-one-by-one",
    "removes-one-at-a-time",
    "selectors-keep-groups-apart",
    "short-unneeded-time",
    "twenty-five-nodes-and-back",
    "two-gpus-a-node-half-used",
)
MUCH_CHANCE = (
    "closed-budget-pins-open-budget-frees",
    "drains-five-at-a-time-no-budget",
    "drains-two-at-a-time",
    "first-12s-fixed-pods-pin-a-shared-group",
    "first-12s-separated-by-anti-affinity-only",
    "first-12s-two-of-one-budget-on-a-node",
    "fixed-pods-pin-a-shared-group",
    "local-storage-moves-when-not-skipped",
    "long-delay-after-delete",
    "no-budget-drains",
    "parallel-drain-of-six-nodes",
    "scan-every-three-seconds",
    "separated-by-anti-affinity-only",
    "separated-with-open-budgets",
    "serial-drain-of-six-nodes",
    "threshold-0.8",
    "two-of-one-budget-on-a-node",
)


@cache
def run(name: str, seed: int) -> ScenarioRun:
    return run_scenario(RECORDINGS[name][0], seed)


@pytest.mark.parametrize("name", NO_CHANCE)
@pytest.mark.parametrize("seed", range(3))
def test_where_chance_has_no_part_every_draw_holds(name: str, seed: int) -> None:
    assert [line for recording in RECORDINGS[name] for line in differences(recording, run(name, seed))] == []


@pytest.mark.parametrize("name", sorted(RECORDINGS.keys() - {*NO_CHANCE, *MUCH_CHANCE}))
def test_each_recording_is_among_the_draws(name: str) -> None:
    missed = [
        number
        for number, recording in enumerate(RECORDINGS[name])
        if all(differences(recording, run(name, seed)) for seed in range(DRAWS))
    ]

    assert missed == []


@pytest.mark.parametrize("name", MUCH_CHANCE)
def test_where_much_is_chance_draws_begin_end_and_explain_themselves_like_each_recording(name: str) -> None:
    end = float(RECORDINGS[name][0]["end_s"])
    drawn = [run(name, seed) for seed in range(DRAWS)]
    drawn_nodes = [sizes(one.nodes, end) for one in drawn]

    for recording in RECORDINGS[name]:
        seen = sizes([(row["t_s"], row["nodes"]) for row in recording["observed"]], end)
        assert seen[0] in [nodes[0] for nodes in drawn_nodes]
        assert seen[-1] in [nodes[-1] for nodes in drawn_nodes]
        assert set(recording["unremovable_reasons"]) <= {why for one in drawn for why in one.unremovable_reasons}


def sizes(rows: Sequence[Plateau], end: float) -> list[Counts]:
    """From the first node on: whether the wait for it counts as a plateau is a matter of a moment."""
    return [counts for _, counts in plateaus(rows, end) if counts]
