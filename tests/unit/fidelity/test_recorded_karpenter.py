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
from tests.fidelity.karpenter_reading import DO_NOT_DISRUPT, POOL_LABEL, left_out, node_pools, workload_of
from tests.paths import DATA


def scenarios_of(name: str) -> dict[str, Mapping[str, Any]]:
    text = (DATA / "karpenter-scenarios" / f"{name}.json").read_text(encoding="utf-8")
    return {scenario["name"]: scenario for scenario in json.loads(text)}


UNSEEN = scenarios_of("unseen")
SCENARIOS = scenarios_of("given") | scenarios_of("recorded") | UNSEEN
EVERY_DRAW = (
    "apart-by-anti-affinity",
    "burst-in-batches-then-empty-default-budget",
    "daemonset-takes-its-share",
    "gpu-pool-beside-cpu-pool",
    "heavier-pool-up-to-its-limit",
    "pdb-zero-blocks-then-opens",
    "smaller-node-at-the-limit",
)
AMONG_THE_DRAWS = {  # for each recording, at least so many of eighty hold
    "mixed-sizes-cheapest-for-the-batch": (60, 60, 0),
    "day-budget-zero-then-open": (30, 6, 30),
    "annotated-while-busy": (0, 5, 45),  # the first one: three nodes came 4.2 s after another, on a busy machine
    "nodes-that-boot-for-25-seconds": (20, 5, 5),
    "half-of-the-nodes-after-thirty-seconds": (10, 15, 10),
}
RARE = "mixed-sizes-cheapest-for-the-batch", 2
UNSEEN_DRAWS, UNSEEN_HOLD = 200, 5
"""Named before the model was compared with them: of six scenarios that the model was not built on, five hold. A
scenario holds if each of its three recordings holds in at least one of 200 draws, by the rule of all recordings: times
may differ by 2 s and 10 %.
"""


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


@pytest.mark.parametrize("name", ["mixed-sizes-cheapest-for-the-batch", "day-budget-zero-then-open"])
def test_the_draws_cost_what_the_recordings_cost(name: str) -> None:
    recorded = median(recording["dollars"] for recording in SCENARIOS[name]["runs"])

    assert median(run(name, seed).dollars for seed in range(80)) == pytest.approx(recorded, rel=0.05)


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name, least in AMONG_THE_DRAWS.items() for number in range(3) if least[number]],
)
def test_a_draw_in_which_a_recording_holds_costs_what_it_cost(name: str, number: int) -> None:
    """Where chance decides between two courses, so does it between their costs."""
    recording = SCENARIOS[name]["runs"][number]
    draws = [run(name, seed) for seed in range(80)]
    dollars = [draw.dollars for draw in draws if not differences(SCENARIOS[name], recording, draw)]

    assert median(dollars) == pytest.approx(recording["dollars"], rel=0.05)


@pytest.mark.long
def test_a_rare_recording_is_among_many_draws() -> None:
    assert holding(*RARE, 1000) > 0


def test_every_key_of_the_recordings_is_played() -> None:
    assert [line for scenario in SCENARIOS.values() for line in left_out(scenario)] == []


def test_keys_and_values_that_are_not_played_are_named() -> None:
    scenario: dict[str, Any] = json.loads(json.dumps(SCENARIOS["daemonset-takes-its-share"]))
    scenario["noise"] = 1
    scenario["karpenter"]["batch_idle_s"] = 5
    (pool,) = scenario["karpenter"]["node_pools"]
    pool |= {
        "startup_taints": [],
        "termination_grace_period": "5m",
        "expire_after": "720h",
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}],
        "limits": {"cpu": "16", "disks": "1"},
    }
    scenario["workloads"][0]["priority"] = 5
    annotations = {"example.com/team": "x", "karpenter.sh/do-not-disrupt": "true"}
    scenario["timeline"].append({"at_s": 1, "annotate_pods": {"api": {"count": 1, "annotations": annotations}}})

    named = [line.partition(": ")[0] for line in left_out(scenario)]

    assert named == [
        "noise",
        "karpenter.batch_idle_s",
        "karpenter.node_pools[0].startup_taints",
        "karpenter.node_pools[0].termination_grace_period",
        "karpenter.node_pools[0].limits.disks",
        "karpenter.node_pools[0].expire_after",
        "karpenter.node_pools[0].requirements[0]",
        "workloads[0].priority",
        "timeline[2].annotate_pods.api.example.com/team",
    ]


def test_what_a_recording_says_of_pools_and_workloads_reaches_the_model() -> None:
    pool = {
        "name": "spot",
        "limits": {"cpu": "16", "memory": "64Gi", "nodes": 3},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
        "consolidation_policy": "WhenEmpty",
        "consolidate_after": "30s",
        "budgets": [{"nodes": "10%"}],
    }
    kind = {"name": "m7i.xlarge", "cpu": 4, "memory_mib": 16384, "price": {"on-demand": 0.2, "spot": 0.08}}
    settings = {"instance_types": [kind], "node_pools": [pool], "registration_delay_s": 25}

    (model,) = node_pools({"karpenter": settings, "workloads": []})
    workload = workload_of(
        {
            "name": "db",
            "category": "fixed",
            "cpu_m": 1,
            "memory_mib": 1,
            "node_pool": "spot",
            "one_per_node": True,
            "anti_affinity_with": ["batch"],
            "do_not_disrupt": True,
            "deletion_cost": -1,
        }
    )

    (offer,) = model.types
    assert model.limits == {"cpu_m": 16000, "memory_mib": 65536, "nodes": 3}
    assert (model.spot, model.only_empty, offer.usd, offer.shape.boot_s) == (True, True, 0.08, 26.3)
    assert offer.capacity == {"cpu_m": 4000, "memory_mib": 16384, "gpu": 0}
    assert (workload.one_per_node, workload.do_not_disrupt, workload.deletion_cost) == (True, True, -1)
    assert (workload.anti_affinity_with, dict(workload.node_selector)) == (("batch",), {POOL_LABEL: "spot"})


def test_an_annotation_of_the_first_pods_is_set_and_removed() -> None:
    """Only the empty node goes while both pods have the annotation; without it one of the others goes, too."""
    scenario = {
        "name": "annotated",
        "karpenter": {
            "instance_types": [{"name": "m7i.xlarge", "cpu": 4, "memory_mib": 16384, "price": {"on-demand": 0.2}}],
            "node_pools": [{"name": "flexible", "consolidate_after": "0s", "budgets": [{"nodes": "100%"}]}],
        },
        "workloads": [
            {"name": "filler", "category": "worker", "replicas": 3, "cpu_m": 2500, "memory_mib": 64},
            {"name": "job", "category": "worker", "replicas": 0, "cpu_m": 1000, "memory_mib": 64},
        ],
        "timeline": [
            {"at_s": 10, "scale": {"job": 2}},
            {"at_s": 15, "annotate_pods": {"job": {"count": 9, "annotations": {DO_NOT_DISRUPT: "true"}}}},
            {"at_s": 20, "scale": {"filler": 0}},
            {"at_s": 80, "annotate_pods": {"job": {"count": 9, "annotations": {DO_NOT_DISRUPT: None}}}},
            {"at_s": 80.5, "budgets": {"flexible": [{"nodes": "100%"}]}},
        ],
        "end_s": 160,
    }

    commands = run_scenario(scenario).commands

    assert [reason for _, reason, _, _ in commands] == ["Empty", "Underutilized"]
    assert commands[0][0] < 80 < commands[1][0]


def test_the_model_holds_on_scenarios_that_it_was_not_built_on() -> None:
    held = [name for name in UNSEEN if all(holding(name, number, UNSEEN_DRAWS) for number in range(3))]

    assert (len(UNSEEN), len(held) >= UNSEEN_HOLD) == (6, True), held


def test_every_recording_is_accounted_for() -> None:
    assert sorted(SCENARIOS) == sorted([*EVERY_DRAW, *AMONG_THE_DRAWS, *UNSEEN])
    assert all(len(scenario["runs"]) == 3 for scenario in SCENARIOS.values())


def test_other_commands_evictions_and_nodes_are_differences() -> None:
    scenario = SCENARIOS["pdb-zero-blocks-then-opens"]
    other = KarpenterRun(((0.0, {}),), (), (), 0.0, ())

    lines = differences(scenario, scenario["runs"][0], other)

    assert [line.partition(":")[0] for line in lines] == ["plateaus", "commands", "evictions", "final packing"]
