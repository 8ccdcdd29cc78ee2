"""Replays on the described nodes of an existing cluster."""

from datetime import datetime
from pathlib import Path

import pytest

from ebbtide.lab.report.pages.sentences import headline, savings_rule
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import Replay, Strategy
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.settings import StackSettings
from tests.builders.existing import onprem
from tests.builders.settings import loaded
from tests.builders.simulator import HOUR, a_job, a_trace

START = datetime(2026, 6, 1, 6)  # noqa: DTZ001 - local time of the customer


def stack(folder: Path, shape: str) -> StackSettings:
    selectors = "nodeSelectors: { flexible: { pool: batch } }"
    return loaded(onprem(f"{selectors}{', nodeShapes: ' if shape else ''}{shape}"), folder)


def day(settings: StackSettings) -> Replay:
    jobs = [a_job(4 * HOUR + 600.0 * i, lasts=HOUR) for i in range(24)]
    options = ReplayOptions(days=1, start=START, strategies=(Strategy.FIXED_FLEXIBLE,), rollouts=False)
    return replay(settings, a_trace(jobs), options)


def test_without_an_autoscaler_all_nodes_stay_and_no_saving_is_stated(tmp_path: Path) -> None:
    shape = "{ flexible: { cpu: 4200m, memory: 20Gi, max: 5, usdPerHour: 1 } }"
    result = day(stack(tmp_path, shape))
    product = result.strategies["fixed-flexible"]

    assert product.node_hours == pytest.approx(5 * 24)
    assert (product.saving_vs_fixed_fleet, result.attainable) == (None, None)
    assert 4 < product.empty_nodes["flexible"] <= 5  # business hours and jobs end in the evening
    assert "of 5 nodes without a pod outside business hours" in headline(result)
    assert savings_rule(result).startswith("No saving is stated: the nodes of flexible have no autoscaler.")


def test_with_an_autoscaler_nodes_come_and_go(tmp_path: Path) -> None:
    shape = "{ flexible: { cpu: 4200m, memory: 20Gi, max: 5, autoscaled: true, usdPerHour: 1 } }"
    result = day(stack(tmp_path, shape))
    product = result.strategies["fixed-flexible"]

    assert 0 < product.node_hours < 5 * 24
    assert product.usd == pytest.approx(product.node_hours)
    assert product.saving_vs_fixed_fleet is not None
    assert product.empty_nodes == {}


def test_karpenter_adds_and_removes_nodes_of_several_types(tmp_path: Path) -> None:
    types = "{ small: { cpu: 4200m, memory: 20Gi, usdPerHour: 1 }, large: { cpu: 8400m, memory: 40Gi, usdPerHour: 2 } }"
    selectors = "nodeSelectors: { flexible: { pool: batch } }, nodePools: { flexible: [general] }"
    shapes = f"nodeShapes: {{ flexible: {{ types: {types}, max: 5 }} }}"
    result = day(loaded(onprem(f"{selectors}, {shapes}"), tmp_path))
    product = result.strategies["fixed-flexible"]

    assert set(product.node_hours_by_group) <= {"flexible/small", "flexible/large"}
    assert 0 < product.node_hours < 5 * 24
    assert product.usd is not None
    assert product.saving_vs_fixed_fleet is not None  # Karpenter's nodes need no `autoscaled: true`
    assert [text for text in result.assumptions if text.startswith("Karpenter 1.14 provides the nodes of flexible")]
    assert not [text for text in result.assumptions if "have a cluster autoscaler" in text]


def test_a_set_without_a_shape_is_named_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(
        ReplayError, match=r"cluster\.nodeShapes, found none for flexible \(for example nodeShapes: { fl"
    ):
        day(stack(tmp_path, ""))
