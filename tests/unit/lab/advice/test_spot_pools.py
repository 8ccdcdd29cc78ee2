"""Spot nodes for GPU pools with checkpoints, where a replay says that they cost less."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from ebbtide.lab.advice.savings.spot_pools import (
    SpotOffer,
    cautions_of,
    offer_lines,
    spot_offer,
    with_gpu_pools_on_spot,
)
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.settings import StackSettings
from tests.builders.settings import loaded, shortest
from tests.builders.simulator import HOUR, a_job, a_trace

OPTIONS = ReplayOptions(
    days=1, start=datetime(2026, 3, 3, tzinfo=UTC), strategies=(Strategy.FIXED_FLEXIBLE,), rollouts=False
)
JOBS = a_trace([a_job(1800.0 * i, lasts=2 * HOUR, gpu=1) for i in range(30)])
SAVES = "checkpoints: { store: s3://acme-states, required: true }"


def stack(folder: Path, pool: str = SAVES, types: str = "g5.2xlarge", region: str = "us-east-1") -> StackSettings:
    groups = f"ebbtide:nodeGroups: {{ gpu: {{ instanceTypes: [{types}], max: 8 }} }}\naws:region: {region}"
    return loaded(shortest(train=f"gpu: 1, {pool}".rstrip(", "), more=groups), folder)


def offer(settings: StackSettings) -> SpotOffer | None:
    return spot_offer(settings, JOBS, OPTIONS, replay(settings, JOBS, OPTIONS))


def test_the_lines_written_into_the_file_make_the_stack_that_was_replayed(tmp_path: Path) -> None:
    settings = stack(tmp_path)
    offered = offer(settings)
    assert offered is not None
    assert offered.pools == {"train": "gpu-spot"}
    assert offered.usd_on_spot < 0.8 * offered.usd  # a part of the dollars is for fixed nodes

    written = yaml.safe_load("\n".join(offered.lines).replace("…, ", ""))
    spot = yaml.safe_dump(written["ebbtide:nodeGroups"]["gpu-spot"], default_flow_style=True).strip()
    groups = f"ebbtide:nodeGroups: {{ gpu: {{ instanceTypes: [g5.2xlarge], max: 8 }}, gpu-spot: {spot} }}"
    pool = f"gpu: 1, {SAVES}, " + ", ".join(
        f"{key}: {value}" for key, value in written["ebbtide:workers"]["train"].items()
    )
    result = replay(loaded(shortest(train=pool, more=groups), tmp_path), JOBS, OPTIONS)
    by_file = result.strategies[Strategy.FIXED_FLEXIBLE]

    assert by_file.usd is not None
    assert abs(by_file.usd - offered.usd_on_spot) < 0.02 * offered.usd_on_spot  # which has interruptions


@pytest.mark.parametrize(
    ("group", "pool", "cluster"),
    [
        ("instanceTypes: [g5.2xlarge], max: 8, provisioner: karpenter", "", ""),
        ("instanceTypes: [g5.2xlarge, g5.4xlarge], max: 8", "", "provisioner: karpenter"),
        ("instanceTypes: [g5.2xlarge], max: 8, provisioner: cluster-autoscaler", "", "provisioner: karpenter"),
        ("families: [g5], cpu: 8-16, max: 8, provisioner: karpenter", "", ""),
        ("instanceTypes: [g5.2xlarge], max: 8, diskSize: 500", "ephemeralStorage: 300Gi", ""),
        ("instanceTypes: [g5.2xlarge], max: 8, priority: 7, reserved: { cpu: 500m, memory: 4Gi }", "", ""),
        ("instanceTypes: [g5.2xlarge], min: 2, max: 8", "", ""),
    ],
)
def test_check_accepts_the_lines_of_every_group_and_they_make_the_replayed_group(
    tmp_path: Path, group: str, pool: str, cluster: str
) -> None:
    more = f"ebbtide:cluster: {{ {cluster} }}" if cluster else ""

    def file(groups: str, keys: str) -> StackSettings:
        train = ", ".join(filter(None, ("gpu: 1", SAVES, pool, keys)))
        return loaded(shortest(train=train, more=f"ebbtide:nodeGroups: {{ {groups} }}\n{more}"), tmp_path)

    settings = file(f"gpu: {{ {group} }}", "")
    moved, pools = with_gpu_pools_on_spot(settings)
    written = yaml.safe_load("\n".join(offer_lines(settings, moved, pools)).replace("…, ", ""))
    spot = yaml.safe_dump(written["ebbtide:nodeGroups"]["gpu-spot"], default_flow_style=True, width=1000).strip()
    keys = ", ".join(f"{key}: {value}" for key, value in written["ebbtide:workers"]["train"].items())
    pasted = file(f"gpu: {{ {group} }}, gpu-spot: {spot}", keys)

    replayed = moved.node_groups["gpu-spot"].model_copy(update={"families": (), "cpu": ""})
    assert dict(pasted.node_groups["gpu-spot"]) == dict(replayed)
    assert pasted.workers == moved.workers


def test_a_pool_that_only_the_larger_of_karpenters_types_holds_stays(tmp_path: Path) -> None:
    group = "gpu: { instanceTypes: [g5.2xlarge, g5.4xlarge], max: 8, provisioner: karpenter }"
    train = f"gpu: 1, {SAVES}"
    text = shortest(train=train, more=f"ebbtide:nodeGroups: {{ {group} }}").replace("cpu: 4,", "cpu: 12,")

    assert with_gpu_pools_on_spot(loaded(text, tmp_path))[1] == {}


def test_groups_with_enough_types_have_no_caution(tmp_path: Path) -> None:
    settings = stack(tmp_path, types="g5.2xlarge")
    moved, pools = with_gpu_pools_on_spot(settings)
    many = moved.node_groups["gpu-spot"].model_copy(
        update={"instance_types": ("g5.2xlarge", "g5.4xlarge", "g6e.2xlarge")}
    )

    assert [*cautions_of(moved, pools)]
    assert [*cautions_of(moved.model_copy(update={"node_groups": {"gpu-spot": many}}), pools)] == []


def test_the_dollars_and_the_price_for_them_are_said(tmp_path: Path) -> None:
    offered = offer(stack(tmp_path))
    assert offered is not None
    first, second, *lines, few_pools = offered.sentences()

    assert first.startswith("On spot nodes the GPU pools with checkpoints (train) cost less: fixed-flexible costs $")
    assert "95 % of the jobs complete within" in first
    assert second == "Nodes are interrupted at the published rate here, and AWS always has capacity. Write:"
    assert lines[1] == "    gpu-spot: { kind: spot, instanceTypes: [g5.2xlarge], min: 0, max: 8, diskSize: 100 }"
    assert few_pools.startswith("nodeGroups.gpu-spot.instanceTypes: 1 type in 2 zones:")


def test_checkpoints_that_are_not_required_yet_become_so(tmp_path: Path) -> None:
    offered = offer(stack(tmp_path, "checkpoints: { store: s3://acme-states }"))

    assert offered is not None
    assert "  train: { …, nodeGroup: gpu-spot, fallback: gpu, checkpoints: { …, required: true } }" in offered.lines


def test_pools_without_checkpoints_or_with_long_saves_stay(tmp_path: Path) -> None:
    long = "checkpoints: { store: s3://acme-states, every: 30m, saveWithin: 10m }"

    assert with_gpu_pools_on_spot(stack(tmp_path, ""))[1] == {}
    assert with_gpu_pools_on_spot(stack(tmp_path, long))[1] == {}
    assert offer(stack(tmp_path, "")) is None


def test_without_a_typical_spot_price_nothing_is_offered(tmp_path: Path) -> None:
    assert offer(stack(tmp_path, types="p5.4xlarge")) is None


def test_what_is_not_cheaper_is_not_offered(tmp_path: Path) -> None:
    settings = stack(tmp_path)
    few = a_trace([a_job(0.0, lasts=60.0, gpu=1)])

    assert spot_offer(settings, few, OPTIONS, replay(settings, few, OPTIONS)) is None


@pytest.mark.parametrize(("jobs", "is_offered"), [(41, True), (43, False)])
def test_spot_nodes_on_which_more_jobs_remain_unfinished_are_not_offered(
    tmp_path: Path, jobs: int, is_offered: bool
) -> None:
    """The last jobs of the day end just in time where nothing interrupts them."""
    settings, often = stack(tmp_path), replace(OPTIONS, failures=Failures(spot_interruptions=3000))
    trace = a_trace([a_job(1800.0 * i, lasts=2 * HOUR, gpu=1) for i in range(jobs)])
    today = replay(settings, trace, often)

    assert today.strategies[Strategy.FIXED_FLEXIBLE].jobs_unfinished == 0
    assert (spot_offer(settings, trace, often, today) is not None) == is_offered
