"""Laws that hold for any scenario: it ends, groups stay within their sizes, pods are where they may be."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.counts import examples
from tests.fidelity.scenario import run_scenario

NAMES = ("api", "train")
GROUPS = ("small", "large")


def workloads() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "category": st.sampled_from(["fixed", "flexible", "worker", "system"]),
            "cpu_m": st.sampled_from([0, 500, 3000, 9000]),
            "memory_mib": st.sampled_from([0, 1024, 20000]),
            "gpu": st.sampled_from([0, 0, 1]),
            "group": st.sampled_from([None, None, *GROUPS, "unknown"]),
            "replicas": st.integers(0, 6),
            "one_per_node": st.booleans(),
            "anti_affinity_with": st.lists(st.sampled_from(["fixed", "worker"]), max_size=1),
            "pdb_max_unavailable": st.sampled_from([None, 0, 1, 2]),
            "empty_dir": st.booleans(),
            "safe_to_evict": st.sampled_from([None, True, False]),
            "grace_s": st.sampled_from([0, 1, 30]),
            "tolerations": st.sampled_from([[], [{"operator": "Exists"}]]),
        }
    )


def groups() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "min": st.integers(0, 1),
            "max": st.integers(1, 4),
            "cpu_m": st.sampled_from([1000, 8000]),
            "memory_mib": st.sampled_from([4096, 32768]),
            "gpu": st.sampled_from([0, 2]),
            "max_pods": st.sampled_from([1, 58]),
            "labels": st.just({}),
            "taints": st.sampled_from([[], [{"key": "only", "value": "", "effect": "NoSchedule"}]]),
        }
    )


FLAGS = st.fixed_dictionaries(
    {
        "scan_interval_s": st.sampled_from([0.5, 1, 10]),
        "scale_down_unneeded_s": st.sampled_from([0, 8]),
        "scale_down_delay_after_add_s": st.sampled_from([0, 8]),
        "scale_down_delay_after_delete_s": st.sampled_from([0, 1]),
        "unremovable_recheck_s": st.sampled_from([0.5, 5]),
        "utilization_threshold": st.sampled_from([0.0, 0.5, 1.0]),
        "max_drain_parallelism": st.sampled_from([1, 5]),
        "max_scale_down_parallelism": st.sampled_from([1, 10]),
        "expander": st.sampled_from(["least-waste", "random", "priority,most-pods", "least-nodes"]),
        "skip_nodes_with_local_storage": st.booleans(),
        "skip_nodes_with_system_pods": st.booleans(),
        "balance_similar": st.booleans(),
    }
)
CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "at_s": st.sampled_from([0, 5, 20.5, 70]),
            "scale": st.dictionaries(st.sampled_from(NAMES), st.integers(0, 8), max_size=2),
            "pdb": st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2), max_size=1),
        }
    ),
    max_size=3,
)


@settings(max_examples=examples(60), deadline=None)
@given(
    flags=FLAGS,
    sizes=st.tuples(groups(), groups()),
    sets=st.tuples(workloads(), workloads()),
    timeline=CHANGES,
    seed=st.integers(0, 3),
)
def test_any_scenario_ends_with_groups_within_their_sizes_and_comes_out_the_same_again(
    flags: dict[str, Any], sizes: Any, sets: Any, timeline: list[dict[str, Any]], seed: int
) -> None:
    scenario: dict[str, Any] = {
        "flags": flags,
        "node_groups": [{"name": name, **size} for name, size in zip(GROUPS, sizes, strict=True)],
        "workloads": [{"name": name, **workload} for name, workload in zip(NAMES, sets, strict=True)],
        "timeline": timeline,
        "end_s": 90,
    }

    run = run_scenario(scenario, seed)

    most = {group["name"]: group["max"] for group in scenario["node_groups"]}
    assert all(0 < count <= most[name] for _, counts in run.nodes for name, count in counts.items())
    times = [t for t, _ in run.nodes]
    assert times == sorted(set(times))
    assert sum(map(len, run.final_packing)) <= sum(
        {**{w["name"]: w["replicas"] for w in scenario["workloads"]}, **_last_scaled(timeline)}.values()
    )
    assert run_scenario(scenario, seed) == run


def _last_scaled(timeline: list[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for change in sorted(timeline, key=lambda change: change["at_s"]):
        found |= change["scale"]
    return found
