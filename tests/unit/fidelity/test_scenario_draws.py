"""Which of many draws stands for them, chosen without a look at what was recorded."""

from collections.abc import Mapping
from typing import Any

from tests.fidelity.draws import draw, most_typical
from tests.fidelity.scenario import ScenarioRun

TIED: Mapping[str, Any] = {
    "name": "tied",
    "flags": {"scan_interval_s": 1, "expander": "random"},
    "node_groups": [
        {"name": name, "min": 0, "max": 5, "cpu_m": 4000, "memory_mib": 8192, "labels": {}, "taints": []}
        for name in ("one", "two")
    ],
    "workloads": [
        {
            "name": "api",
            "category": "flexible",
            "replicas": 2,
            "cpu_m": 3000,
            "memory_mib": 1024,
            "group": None,
            "anti_affinity_with": [],
            "tolerations": [],
        }
    ],
    "timeline": [],
    "end_s": 20,
}


def run(nodes: int, at: float = 10.0, packing: str = "a") -> ScenarioRun:
    return ScenarioRun(((0.0, {}), (at, {"flexible": nodes})), (tuple(packing),), ())


def test_the_run_that_most_others_agree_with_stands_for_all() -> None:
    odd, usual = run(9), run(3, at=12.0)

    assert most_typical([odd, run(3, at=9.5), usual, run(3, at=14.5), run(4)], end_s=60) is usual


def test_of_runs_that_agree_with_nobody_the_one_with_most_in_common_is_shown() -> None:
    runs = [run(1, packing="x"), run(2, packing="ab"), run(3, packing="ab")]

    assert most_typical(runs, end_s=60) is runs[1]


def test_full_agreement_counts_for_more_than_much_in_common() -> None:
    pair = [run(1, packing="x"), run(1, packing="x")]
    alike_but_for_their_packing = [run(2, packing=packing) for packing in ("ab", "ac", "bc")]

    assert most_typical([*alike_but_for_their_packing, *pair], end_s=60) is pair[0]


def test_the_choice_is_blind_to_what_was_recorded() -> None:
    bare = draw(TIED, 20)
    told = draw({**TIED, "observed": [{"t_s": 0, "nodes": {"two": 2}}]}, 20)

    assert bare.shown == told.shown
    assert (bare.holding, told.holding) == (20, 0)  # with nothing recorded there is nothing to contradict


def test_the_same_draws_give_the_same_run() -> None:
    assert draw(TIED, 10) == draw(TIED, 10)
