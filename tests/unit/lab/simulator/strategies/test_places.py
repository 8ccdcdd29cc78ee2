"""Estimate and replay place a pod that may use several node groups on the same one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.trace.jobs import Job, Trace
from ebbtide.settings.capacity.homes import home_groups
from ebbtide.settings.capacity.packing import lasting_pods
from tests.builders.settings import loaded, shortest

TRITON = "{ category: flexible, image: 'example.com/triton:1', replicas: 3, cpu: 4, memory: 16Gi, gpu: 1 }"
LARGE = "{ category: flexible, image: 'example.com/large:1', replicas: 2, cpu: 12, memory: 50Gi, gpu: 1 }"


def stack(groups: str, workloads: str) -> str:
    return shortest(more=f"ebbtide:nodeGroups:\n{groups}\nebbtide:workloads:\n{workloads}\n")


def of_replay(text: str, folder: Path) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The nodes of each group of a day with one short job, in the estimate and in the replay."""
    settings = loaded(text, folder)
    options = ReplayOptions(
        days=1, start=datetime(2026, 3, 2, tzinfo=UTC), strategies=(Strategy.FIXED_FLEXIBLE,), rollouts=False
    )
    result = replay(
        settings, Trace(name="short", jobs=(Job(40_000.0, 60.0, "train", 1.0, 1.0, 0.0),)), options
    ).strategies[Strategy.FIXED_FLEXIBLE]
    played = {name: max(nodes) for name, nodes in result.series.nodes.items()}
    return lasting_pods(settings).opened, played


@pytest.mark.parametrize(
    ("dear", "cheap", "nodes"),
    [
        # Both have 8 CPUs and 32 GiB. An hour costs 1.212 and 0.9776 USD.
        ("", "", {"a10": 3, "l4": 0}),
        ("", ", priority: 10", {"a10": 0, "l4": 3}),
        (", priority: 10", "", {"a10": 3, "l4": 0}),
        (", min: 1", ", priority: 10", {"a10": 1, "l4": 2}),  # a node that exists takes a pod
        (", max: 2", "", {"a10": 2, "l4": 1}),
    ],
)
def test_groups_with_equal_nodes(dear: str, cheap: str, nodes: Mapping[str, int], tmp_path: Path) -> None:
    most = {"a10": "" if "max" in dear else ", max: 8", "l4": ", max: 8"}
    groups = (
        f"  l4: {{ kind: gpu, instanceTypes: [g6.2xlarge]{most['l4']}{cheap} }}\n"
        f"  a10: {{ kind: gpu, instanceTypes: [g5.2xlarge]{most['a10']}{dear} }}"
    )

    text = stack(groups, f"  triton: {TRITON}")
    estimated, played = of_replay(text, tmp_path)

    assert {name: estimated[name] for name in nodes} == nodes
    assert {name: played.get(name, 0) for name in nodes} == nodes
    assert home_groups(loaded(text, tmp_path))["triton"] == max(nodes, key=lambda name: nodes[name])


@pytest.mark.parametrize("large", [False, True])
def test_the_least_idle_group_grows_for_all_pods_that_fit_there(large: bool, tmp_path: Path) -> None:
    """A pod of 4 CPUs leaves less of a small node idle. Beside large pods both fit a large node."""
    groups = (
        "  small: { kind: gpu, instanceTypes: [g5.2xlarge], max: 8 }\n"
        "  big: { kind: gpu, instanceTypes: [g6.4xlarge], max: 8 }"
    )
    workloads = f"  triton: {TRITON}" + (f"\n  large: {LARGE}" if large else "")

    estimated, played = of_replay(stack(groups, workloads), tmp_path)

    assert {name: estimated[name] for name in ("small", "big")} == {
        name: played.get(name, 0) for name in ("small", "big")
    }
    assert home_groups(loaded(stack(groups, workloads), tmp_path))["triton"] == "small"
