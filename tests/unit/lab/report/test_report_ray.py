"""Ray's workers on the page, as a table and in the terminal."""

import re

from rich.console import Console

from ebbtide.lab.report import strategy_table
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.over_time import ray_chart, ray_groups
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.pages.page import render
from ebbtide.lab.report.pages.ray import ray_lines, ray_sheet
from tests.builders.replay import a_replay, with_ray_workers

PLAIN = a_replay(days=4, samples_per_day=20)
REPLAY = with_ray_workers(PLAIN)
TOLD = "fixed-flexible"


def test_each_group_of_each_strategy_with_workers_has_a_row() -> None:
    sheet = ray_sheet(REPLAY)

    assert [row[0] for row in sheet.rows] == [
        "fixed-fleet, flow/cpu",
        "fixed-fleet, flow/gpu",
        "fixed-flexible, flow/cpu",
        "fixed-flexible, flow/gpu",
    ]
    assert dict(zip((column.name for column in sheet.columns), sheet.body[3], strict=True)) == {
        "strategy, group": "fixed-flexible, flow/gpu",
        "worker-hours": "12.5",
        "busy": "80 %",
        "idle hours": "2.5",
        "most workers": "5",
        "tasks": "1,234",
        "task wait p50": "0 s",
        "task wait p95": "2 min 30 s",
        "tasks interrupted": "2",
        "lost task work": "1 min 30 s",
    }
    assert sheet.body[2][2] == "\N{EN DASH}"


def test_the_terminal_names_each_group_and_how_long_the_head_was_awake() -> None:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(strategy_table(REPLAY, assumptions=False))
    text = capture.get()

    assert "Ray flow (fixed-flexible): head awake for 80 of 96 hours." in text
    assert "Ray flow/gpu: 12.5 worker-hours, 80 % busy, at most 5 workers; 1,234 tasks" in text
    assert list(ray_lines(PLAIN, TOLD)) == []


def test_the_chart_has_a_panel_for_each_group_in_its_picture() -> None:
    view = ChartView(ident="ray", width=700.0)
    chart = ray_chart(REPLAY, TOLD, view)
    drawn = draw(chart, view)

    assert list(ray_groups(REPLAY.strategies[TOLD])) == ["flow/cpu", "flow/gpu"]
    assert re.findall(r">(flow/\w+: workers)<", drawn) == ["flow/cpu: workers", "flow/gpu: workers"]
    assert max(float(y) for y in re.findall(r' y="([0-9.]+)"', drawn)) <= chart.height


def test_a_page_draws_ray_only_where_there_is_ray() -> None:
    with_ray, without = (render(replay, live={}, title="t") for replay in (REPLAY, PLAIN))

    assert with_ray.count("Ray workers by group</h2>") == 1
    assert "Workers and tasks of Ray" in with_ray
    assert "Ray" not in re.sub("ray-head", "", without)
