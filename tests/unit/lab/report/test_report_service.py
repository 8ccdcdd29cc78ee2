"""The page of a replayed service: sound HTML, all its figures, and words that stay inside their pictures."""

import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import pytest

from ebbtide.lab.advice.describe_requests import describe_requests, load_sheet
from ebbtide.lab.report.charts.drawing import draw
from ebbtide.lab.report.charts.panel import ChartView
from ebbtide.lab.report.charts.services import served_day, service_day_chart
from ebbtide.lab.report.pages.figures import WIDTHS
from ebbtide.lab.report.pages.service_page import render_service, write_service_report
from ebbtide.lab.report.pages.services import verdict
from ebbtide.lab.simulator.services.results import ServiceReplay
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.served import a_served_replay
from tests.unit.lab.report.looking import outline, words_outside, words_overlapping

COMMAND = "ebbtide simulate acme --service embedder-small --trace made-up --seed 0 --report report.html"
LOAD = load_sheet(describe_requests(a_request_trace([60.0] * 72 * 3 + [600.0] * 72)))


@cache
def service_page() -> str:
    return render_service(a_served_replay(), COMMAND, load=LOAD)


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)).split())


def test_every_tag_is_closed_ids_are_unique_and_links_lead_to_them() -> None:
    page = outline(service_page())
    ids = [attributes["id"] for _, attributes, _ in page.tags if "id" in attributes]
    links = {attributes["href"].removeprefix("#") for tag, attributes, _ in page.tags if tag == "a"}
    labels = {name for _, attributes, _ in page.tags for name in attributes.get("aria-labelledby", "").split()}

    assert page.around == []
    assert len(ids) == len(set(ids))
    assert links | labels <= set(ids)
    assert {"load", "compared", "day", "assumed", "again", "main"} == links


def test_pictures_have_names_and_their_figures_are_a_table_too() -> None:
    page = outline(service_page())

    assert [
        attributes["role"] for tag, attributes, _ in page.tags if tag == "svg" and "aria-hidden" not in attributes
    ] == ["img"] * len(WIDTHS)
    (figure,) = re.findall(r"<figure.*?</figure>", service_page(), flags=re.DOTALL)
    table = figure.partition("<details><summary>")[2].partition("</details>")[0]
    assert table.count('<th scope="row">') == 25
    regions = [
        attributes["aria-label"]
        for tag, attributes, _ in page.tags
        if tag == "div" and attributes.get("class") == "scroll"
    ]
    assert len(regions) == len(set(regions)) == 3


def test_every_strategy_stands_in_the_table_with_its_figures() -> None:
    shown = words(service_page())

    for name, played in a_served_replay().strategies.items():
        its = played.result
        assert f"{name} {its.pod_hours:,.0f} ${its.usd:,.2f}" in shown
        assert f"{its.beyond_slo:.3%} {its.lost} {its.turned_away}" in shown


def test_the_sentence_on_top_compares_what_is_drawn() -> None:
    results = [played.result for played in a_served_replay().strategies.values()]
    first, *others = results

    assert verdict(a_served_replay()) == (
        f"embedder-small takes {first.pod_hours:,.0f} pod-hours with {100 * first.beyond_slo:.2f} % of its requests "
        f"beyond the SLO under hpa-only, {others[0].pod_hours:,.0f} with {100 * others[0].beyond_slo:.2f} % under "
        f"calendar-floor, {others[1].pod_hours:,.0f} with {100 * others[1].beyond_slo:.2f} % under forecast-floor"
    )


def test_the_page_describes_the_load_the_command_and_what_is_left_out() -> None:
    page = words(
        render_service(replace(a_served_replay(), left_out={"keda-defaults": "nobody asked"}), COMMAND, load=LOAD)
    )

    assert "predictable" in page
    assert "--service embedder-small" in page
    assert "keda-defaults is left out: nobody asked." in page
    assert all(line in page for line in a_served_replay().assumptions)


def test_a_service_that_does_not_grow_has_a_page_of_one_strategy() -> None:
    page = render_service(
        replace(a_served_replay(), strategies={"fixed-replicas": a_served_replay().strategies["hpa-only"]}), COMMAND
    )

    assert "fixed-replicas: p95 latency" in page
    assert 'href="#load"' not in page


def test_a_replay_of_less_than_a_step_has_a_page_without_a_picture() -> None:
    played = a_served_replay().strategies["hpa-only"]
    brief = replace(played, series=replace(played.series, sent=[3]), p95_s=(0.2,))

    assert "<figure" not in render_service(
        replace(a_served_replay(), end_s=60.0, strategies={"hpa-only": brief}), COMMAND
    )


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    hostile = "</title><script>alert(1)</script>"
    write_service_report(replace(a_served_replay(), service=hostile, left_out={hostile: hostile}), path, hostile)
    page = path.read_text(encoding="utf-8")

    assert "<script>alert" not in page
    assert outline(page).around == []


def odd_replays() -> dict[str, ServiceReplay]:
    """Long names, no loss and many, latencies from milliseconds to hours, one pod and thousands."""
    result = a_served_replay().strategies["hpa-only"]
    minutes, steps = len(result.series.sent), len(result.p95_s)

    def like(pods: int, p95_s: float, lost: int) -> ServiceReplay:
        series = replace(
            result.series,
            ready=[pods] * minutes,
            replicas=[pods + 1] * minutes,
            unanswered=[lost * minute for minute in range(minutes)],
            pod_hours=[pods * minute / 60 for minute in range(minutes)],
        )
        played = replace(result, series=series, p95_s=(p95_s, p95_s * 3000) * (steps // 2))
        return replace(a_served_replay(), strategies=dict.fromkeys(a_served_replay().strategies, played))

    return {
        "usual": a_served_replay(),
        "small": like(0, 0.001, 0),
        "large": like(4000, 2.0, 90_000),
        "late": like(9, 0.9, 1),
    }


@pytest.mark.parametrize("form", WIDTHS)
@pytest.mark.parametrize("name", ["usual", "small", "large", "late"])
def test_words_of_the_picture_stay_inside_and_apart(name: str, form: str) -> None:
    day = served_day(odd_replays()[name])
    view = ChartView(ident="day", width=WIDTHS[form])
    picture = draw(service_day_chart(day, view), view)

    assert not words_outside(picture, WIDTHS[form])
    assert not words_overlapping(picture)
