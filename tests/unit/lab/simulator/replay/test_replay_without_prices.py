"""A replay whose nodes have no price: everything but money is as with prices, and no money is claimed."""

import json
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ebbtide.lab.advice.change import simulated
from ebbtide.lab.advice.comparison import comparison_json, comparison_table, shift_table
from ebbtide.lab.report.pages.comparison import render_comparison
from ebbtide.lab.report.pages.page import render
from ebbtide.lab.report.pages.sentences import headline
from ebbtide.lab.report.pages.table import strategy_table
from ebbtide.lab.simulator.replay.run import replay
from ebbtide.lab.simulator.results import Replay, Strategy, as_json
from ebbtide.lab.simulator.setup import ReplayOptions
from ebbtide.lab.simulator.trace.traces import Trace
from ebbtide.preview.render.simulation import simulated_sheet
from ebbtide.prices.tables import ENVIRONMENT
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.vocabulary.labels import Category
from tests.builders.prices import before
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace, a_workload

OPTIONS = ReplayOptions(days=1, start=datetime(2026, 6, 1, 12))  # noqa: DTZ001 - local time of the customer
TYPES = {"fixed": "m7i.xlarge", "flexible": "m7i.4xlarge", "gpu": "g5.2xlarge"}
UNPRICED = "ap-east-2"
PLAN = "compute-1y-no-upfront"


@cache
def stack(region: str = "us-east-1") -> StackSettings:
    workers = {"train": a_pool(), "vision": a_pool("vision", cpu="6", memory="24Gi", gpu=1, most=4)}
    services = {"head": a_workload(Category.FIXED), "api": a_workload(Category.FLEXIBLE, cpu="2", replicas=4)}
    return a_stack(workers, services).model_copy(update={"region": region})


@cache
def jobs(*, gpu: bool = True) -> Trace:
    return a_trace(
        [a_job(HOUR * (i % 5) + 60 * i, 600 + 90 * i, cpu=4, gpu=int(gpu and i % 3 == 0)) for i in range(24)]
    )


@cache
def played(region: str = "us-east-1") -> Replay:
    return replay(stack(region), jobs(), OPTIONS)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Use prices without the rows of this instance type or family in this file."""

    def use(name: str, file: str = "ec2.csv") -> None:
        for path, text in before().items():
            kept = [line for line in text.splitlines() if path != file or f",{name}," not in line]
            (tmp_path / path).write_text("\n".join(kept) + "\n", encoding="utf-8")
        monkeypatch.setenv(ENVIRONMENT, str(tmp_path))

    return use


def physical(replayed: Replay, *, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """All figures that are not money."""
    return {
        name: replace(
            result, usd=None, usd_per_day=(), usd_on_demand=None, usd_with_spot=None, saving_vs_fixed_fleet=None
        )
        for name, result in replayed.strategies.items()
        if not names or name in names
    }


def shown(renderable: Any) -> str:
    console = Console(width=200)
    with console.capture() as printed:
        console.print(renderable)
    return printed.get()


def test_a_region_without_prices_is_replayed_like_one_with_prices() -> None:
    with_prices, without_prices = physical(played()), physical(played(UNPRICED))

    assert without_prices.keys() == with_prices.keys()
    del with_prices["zero-wait-bound"], without_prices["zero-wait-bound"]  # its mix of nodes is the one of least cost
    assert without_prices == with_prices
    assert {result.usd for result in played(UNPRICED).strategies.values()} == {None}
    assert played(UNPRICED).attainable is None
    assert [group.name for group in played(UNPRICED).unpriced] == ["fixed", "flexible", "gpu"]


@pytest.mark.parametrize("group", TYPES)
def test_a_missing_row_changes_no_figure_but_dollars(without: Any, group: str) -> None:
    priced = replay(stack(), jobs(gpu=False), OPTIONS)
    without(TYPES[group])
    unpriced = replay(stack(), jobs(gpu=False), OPTIONS)

    for name, result in physical(unpriced).items():
        assert name == "zero-wait-bound" or result == physical(priced)[name]
        used = unpriced.strategies[name].node_hours_by_group
        assert (unpriced.strategies[name].usd is None) == any(used.get(key, 0) > 0 for key in _with_type(group, used))
    assert [entry.instance_type for entry in unpriced.unpriced] == [TYPES[group]]


def _with_type(group: str, used: Any) -> set[str]:
    """The groups of a strategy whose nodes have the type of this group of the stack."""
    return {group, *({"mixed"} if group == "flexible" and "mixed" in used else ())}


def test_vcpu_hours_are_node_hours_times_the_size_of_the_node() -> None:
    product = played().strategies["fixed-flexible"]
    by_group = product.node_hours_by_group

    assert by_group["gpu"] > 0
    assert product.vcpu_hours == pytest.approx(4 * by_group["fixed"] + 16 * by_group["flexible"] + 8 * by_group["gpu"])


def test_without_prices_the_bound_has_the_fewest_vcpus() -> None:
    strategies = played(UNPRICED).strategies

    assert strategies["zero-wait-bound"].vcpu_hours < min(
        result.vcpu_hours for name, result in strategies.items() if name in ("fixed-flexible", "fixed-fleet")
    )


def test_a_plan_without_a_known_discount_is_billed_on_demand_and_said(without: Any) -> None:
    planned = stack().model_copy(update={"costs": CostSettings.model_validate({"pricing_assumption": PLAN})})
    without("m7i", "savings_plans_approx.csv")

    replayed = replay(planned, jobs(), replace(OPTIONS, strategies=(Strategy.FIXED_FLEXIBLE,)))

    product = replayed.strategies["fixed-flexible"]
    assert product.usd == product.usd_on_demand
    assert any("No compute-1y-no-upfront discount is known for fixed and flexible" in s for s in replayed.assumptions)


def test_the_document_has_null_for_dollars_and_names_the_groups() -> None:
    document = json.loads(json.dumps(as_json(played(UNPRICED)), allow_nan=False))

    assert document["strategies"]["fixed-flexible"]["usd"] is None
    assert document["strategies"]["fixed-flexible"]["vcpu_hours"] > 0
    assert document["unpriced"][0] == {"name": "fixed", "instance_type": "m7i.xlarge", "region": UNPRICED}


def test_table_and_page_compare_vcpu_hours_and_claim_no_money() -> None:
    replayed = played(UNPRICED)
    for text in (shown(strategy_table(replayed)), headline(replayed), render(replayed, live={}, title="T")):
        assert "$" not in text.replace("${", "")
        assert "vCPU" in text
    assert f"ebbtide prices update --region {UNPRICED}" in shown(strategy_table(replayed))


def test_stacks_with_and_without_prices_are_compared_by_vcpu_hours() -> None:
    pair = [played(), replace(played(UNPRICED), stack="unpriced")]
    document = json.loads(json.dumps(comparison_json(pair), allow_nan=False))

    assert document["differences"][0]["strategies"]["fixed-flexible"]["usd"] is None
    assert document["differences"][0]["strategies"]["fixed-flexible"]["node_hours"] == 0
    for text in (shown(comparison_table(pair, assumptions=False)), shown(shift_table([played(UNPRICED)] * 2))):
        assert "$" not in text
        assert f"ebbtide prices update --region {UNPRICED}" in " ".join(text.split())  # lines wrap
    assert "uses as much as" in render_comparison(pair, title="T")


def test_a_comparison_names_estimated_prices_of_each_stack() -> None:
    pair = [
        played(),
        replace(played("af-south-1"), stack="cape", estimated_prices="m8i.large estimated from us-east-1"),
    ]

    for table in (comparison_table(pair, assumptions=False), shift_table(pair)):
        assert "Prices of cape: m8i.large estimated from us-east-1." in shown(table)


def test_a_preview_simulates_a_side_without_prices() -> None:
    rows = {
        name: str(shown) for name, shown in simulated_sheet(simulated(stack(), stack(UNPRICED), jobs(), days=1)).rows
    }

    assert rows["US dollars"].endswith("unknown")
    assert "unknown" not in rows["node-hours"]
