"""What a reviewer sees of spot groups with GPUs: their cost, and what a change of their types does."""

from datetime import date

import pytest

from ebbtide.preview.cost.alternatives import cheaper_places
from ebbtide.preview.cost.monthly import GroupCost, group_costs
from ebbtide.prices import spot_typical
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.shapes_of_group import parts_of
from ebbtide.settings.model import StackSettings
from ebbtide.text.money import HOURS_PER_MONTH
from tests.builders.sides import Change, dangers, demo, put, whole
from tests.builders.stack import group_settings, stack_settings

TYPES = ["g6e.2xlarge", "g6e.4xlarge", "g5.2xlarge", "g5.4xlarge", "g6.4xlarge"]
REQUIRED = {"store": "s3://saves/jobs", "required": True}


def settings(*types: str) -> StackSettings:
    groups = stack_settings().node_groups
    return stack_settings(
        node_groups={**groups, "gpu-spot": group_settings(NodeKind.SPOT, instance_types=types, max=30)}
    )


def line(stack: StackSettings) -> GroupCost:
    (found,) = (each for each in group_costs(stack, date(2026, 11, 30), {"gpu-spot": 100.0}) if each.name == "gpu-spot")
    return found


def test_at_the_maximum_each_size_costs_its_share_and_stated_hours_cost_the_dearest_type() -> None:
    stack = settings(*TYPES)
    region, group = stack.region, stack.node_groups["gpu-spot"]
    shares = [
        part.max * max(spot_typical(region, kind) for kind in part.types)
        for part in parts_of("gpu-spot", group).values()
    ]
    dearest = max(spot_typical(region, kind) for kind in TYPES)

    cost = line(stack)

    assert cost.usd_at_max == pytest.approx(sum(shares) * HOURS_PER_MONTH)
    assert (cost.usd_at_max or 0) < 30 * dearest * HOURS_PER_MONTH
    assert cost.usd_at_usage == pytest.approx(100 * dearest)


def test_types_without_a_typical_price_are_named_and_never_cost_as_much_as_on_demand() -> None:
    cost = line(settings("g5.2xlarge", "p5.4xlarge", "g6f.2xlarge"))

    assert (cost.usd_at_max, cost.usd_at_usage) == (None, None)
    assert cost.note == "no typical spot saving is known for p5.4xlarge, g6f.2xlarge in us-east-1"


def test_no_pod_without_gpus_is_offered_a_group_that_has_them() -> None:
    """Packing alone would find the larger nodes cheaper: they need no GPU."""
    stack = settings("g5.2xlarge")
    groups = {**stack.node_groups, "spot": group_settings(NodeKind.SPOT, instance_types=("m7i.24xlarge",), max=9)}
    pool = stack.workers["train"].model_copy(update={"node_group": "spot", "min": 1})
    stack = stack.model_copy(update={"node_groups": groups, "workers": {"train": pool}})

    assert [place.line for place in cheaper_places(stack, 2026) if "nodeGroup" in place.line] == []


def spot(*types: str) -> Change:
    return whole("nodeGroups", **{"gpu-spot": {"kind": "spot", "instanceTypes": [*types], "max": 30}})


def pool(**keys: object) -> Change:
    return put("workers", "train", **keys)


@pytest.mark.whole
def test_a_pool_of_short_jobs_is_told_that_no_notice_reaches_its_workers() -> None:
    before, after = pool(longestJob="1h"), pool(longestJob="1h", nodeGroup="gpu-spot")
    found = dangers(demo(spot(*TYPES), before), demo(spot(*TYPES), after))

    (moved,) = (danger for danger in found if danger.code == "pool-on-spot")
    assert "which AWS takes back mostly without a notice to the worker" in moved.text


@pytest.mark.whole
def test_a_size_that_goes_is_named_by_its_managed_groups() -> None:
    found = dangers(demo(spot(*TYPES)), demo(spot(*TYPES[1:])))

    (lost,) = (danger for danger in found if danger.code == "node-group-lost")
    assert lost.text.startswith("deletes node group gpu-spot (gpu-spot-8x64x1-")
    assert "16x128x1" not in lost.text


@pytest.mark.whole
def test_a_further_size_lowers_the_maximum_of_the_others() -> None:
    found = dangers(demo(spot(*TYPES)), demo(spot(*TYPES, "g6e.8xlarge")))

    (resized,) = (danger for danger in found if danger.code == "group-resized")
    assert "gpu-spot-16x128x1-a-nodes maxSize" in resized.text
    assert "AWS refuses a maximum below the nodes that run" in resized.remedy
