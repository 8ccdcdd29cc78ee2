from dataclasses import replace

import pytest

from ebbtide.lab.report.pages.sheets import sheets
from ebbtide.lab.simulator.results import ClusterSeries
from ebbtide.text.sheet import Sheet
from tests.builders.replay import a_replay

REPLAY = a_replay(samples_per_day=60)
PRODUCT = REPLAY.strategies["fixed-flexible"]
DASH = "\N{EN DASH}"


def sheet(name: str, **changed: object) -> Sheet:
    """The table of one figure, after changes to the product's result."""
    product = replace(PRODUCT, **changed)  # pyright: ignore[reportArgumentType] - the fields are the test's
    return sheets(replace(REPLAY, strategies={**REPLAY.strategies, "fixed-flexible": product}), "fixed-flexible")[name]


def column(table: Sheet, name: str) -> list[str]:
    """The texts of a column, the total last."""
    place = [column.name for column in table.columns].index(name)
    return [row[place] for row in table.body]


def number(text: str) -> float:
    return float(text.replace(",", "").replace("$", ""))


@pytest.mark.parametrize("name", sheets(REPLAY, "fixed-flexible"))
def test_each_row_has_a_cell_for_each_column(name: str) -> None:
    table = sheet(name, survivors={"above-threshold": 3.0}, wait_quantiles_s=tuple(float(i) for i in range(101)))

    assert table.rows
    assert {len(row) for row in table.body} == {len(table.columns)}


def test_node_hours_of_the_days_add_up_to_those_of_the_strategy() -> None:
    table = sheet("nodes")
    *hours, total = map(number, column(table, "total node-hours"))

    assert column(table, "day")[:2] == ["Mon 2 Mar", "Tue 3 Mar"]
    assert sum(hours) == pytest.approx(PRODUCT.node_hours, abs=len(hours))
    assert total == pytest.approx(PRODUCT.node_hours, abs=1)


def test_the_cost_of_each_day_and_strategy_is_listed_with_its_sum() -> None:
    *days, total = map(number, column(sheet("cost"), "fixed-flexible"))

    assert days == pytest.approx(PRODUCT.usd_per_day, abs=0.51)
    assert total == pytest.approx(PRODUCT.usd, abs=0.51)


def test_every_hour_of_the_day_looked_at_has_its_row() -> None:
    nodes = {"fixed": (2, 2, 2), "flexible": (1, 9, 1)}
    series = ClusterSeries(
        at=(0.0, 86_400 + 13.5 * 3600, 86_400 + 13.6 * 3600), nodes=nodes, waiting=(0, 4, 0), running=(1, 8, 1)
    )
    table = sheet("day", series=series)
    row = next(row for row in table.body if row[0] == "13:00")

    assert "Tue 3 Mar" in table.caption
    assert len(table.rows) == 24
    assert row[1:] == ["2", "9", "8", "4"]


def test_waits_are_listed_by_share_of_the_jobs() -> None:
    table = sheet("waits", wait_p99_s=300.0, wait_quantiles_s=tuple(float(i) for i in range(101)))
    rows = {row[0]: row for row in table.body}
    told = dict(zip((column.name for column in table.columns), rows["fixed-flexible"], strict=True))

    assert told["99 % (p99)"] == "5 min 00 s"
    assert told["90 %"] == "1 min 30 s"
    assert rows["fixed-fleet"][3:] == [DASH] * 6


def test_a_reason_that_kept_no_node_of_a_strategy_is_a_dash_there() -> None:
    fleet = replace(REPLAY.strategies["fixed-fleet"], survivors={"too-much-gpu": 1.0})
    product = replace(
        PRODUCT, survivors={"not enough pod disruption budget to move api": 12.25, "above-threshold": 30.0}
    )
    replay = replace(REPLAY, strategies={"fixed-fleet": fleet, "fixed-flexible": product})
    table = sheets(replay, "fixed-flexible")["kept"]

    assert table.body == [
        ["too much GPU", "1.0", DASH],
        ["above threshold", DASH, "30.0"],
        ["not enough pod disruption budget to move api", DASH, "12.2"],
        ["total", "1.0", "42.2"],
    ]
