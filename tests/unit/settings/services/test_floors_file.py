"""Floors in the stack file: accepted values, refusals with one line each, and warnings."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from ebbtide.settings import StackSettings
from ebbtide.settings.capacity.process_documents import floors_of
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.sections.serving.scale import FloorKind
from ebbtide.settings.summary import summary
from ebbtide.vocabulary.workloads import FloorPolicy, PlannedEvent, PlannedNight
from tests.builders.settings import problem_of, problems_of, shortest
from tests.builders.workloads.services import services_stack, with_services

EMBEDDER, RANKER = "min: 2, max: 12", "min: 1, max: 6"
SALE = '{ at: "2026-11-27T09:00", for: 6h, min: 8 }'


def floor(keys: str, under: str = EMBEDDER) -> tuple[str, str]:
    return under, f"{under}, {keys}"


def test_each_variant_of_a_service_with_a_floor_has_a_policy() -> None:
    stack = services_stack(
        floor(f"floor: calendar, open: 4, events: [{SALE}]"), floor("floor: calendar, open: 2", RANKER)
    )
    sale = PlannedEvent(day=date(2026, 11, 27), at=9 * 60, lasting=timedelta(hours=6), pods=8)
    lead = stack.controller.node_startup + timedelta(seconds=90)
    of_pods = FloorPolicy(
        name="embedder-small", namespace="ebbtide", keda=True, least=2, most=12, lead=lead, open=4, events=(sale,)
    )

    large, small, ranker = floors_of(stack)
    assert small == of_pods
    assert large.name == "embedder-large"
    assert (ranker.name, ranker.keda, ranker.open, ranker.events) == ("ranker", False, 2, ())


def test_a_night_is_in_its_policy_and_in_the_summary() -> None:
    stack = services_stack(floor('floor: calendar, overnight: [{ at: "22:30", for: 2h, min: 6 }]'))
    policies = list(floors_of(stack))

    assert policies[0].overnight == (PlannedNight(at=22 * 60 + 30, lasting=timedelta(hours=2), pods=6),)
    assert any("at least 6 from 22:30 every day" in line for line in summary(stack))


def test_a_forecast_alone_has_nothing_to_write() -> None:
    stack = services_stack(floor("floor: forecast"))

    assert stack.services["embedder"].variants["small"].scale.floor is FloorKind.FORECAST
    assert list(floors_of(stack)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (floor("floor: calendar, open: 13"), ("floor.above-max", "scale.open:", "13", "at most max, which is 12")),
        (floor("floor: calendar, open: 2"), ("floor.within-min", "scale.open:", "which is 2")),
        (floor("open: 4"), ("floor.missing", "scale.open:", "floor: calendar")),
        (floor(f"events: [{SALE}]"), ("floor.missing", "scale.events:", "floor: calendar")),
        (floor("floor: calendar"), ("floor.nothing", "scale.floor:", "open, overnight or events")),
        (floor('overnight: [{ at: "22:30", for: 2h, min: 6 }]'), ("floor.missing", "scale.overnight:")),
        (
            floor('floor: calendar, overnight: [{ at: "22:30", for: 2h, min: 13 }]'),
            ("floor.above-max", "scale.overnight[0].min:", "at most max, which is 12"),
        ),
        (
            floor('floor: calendar, overnight: [{ at: "22:30", for: 25h, min: 6 }]'),
            ("duration.more-than-a-day", "scale.overnight[0].for:"),
        ),
        (floor("floor: history"), ("choice.unknown", "scale.floor:", "calendar or forecast")),
        (floor("floor: forecast, margin: 0.9"), ("floor.margin", "scale.margin:", "0.9", "from 1 to 4")),
        (floor("floor: forecast, margin: 12"), ("floor.margin", "scale.margin:", "12")),
        (floor("floor: calendar, open: 4, margin: 1.2"), ("floor.margin-alone", "scale.margin:", "floor: forecast")),
        (floor("margin: 1.2"), ("floor.margin-alone", "scale.margin:", "no floor")),
        (floor("floor: forecast", RANKER), ("floor.no-forecast", "services.ranker.scale.floor:", "inFlight", "cpu")),
        (
            ("metrics: { cpu: 70% }, min: 1, max: 6", "floor: calendar, open: 4"),
            ("floor.no-growth", "services.ranker.scale.floor:", "min: 1, max: 1"),
        ),
        (
            ("metrics: { cpu: 70% }, min: 1, max: 6", "min: 1, max: 6, floor: calendar, open: 4"),
            ("scale.no-metric", "services.ranker.scale.metrics:"),
        ),
        (
            floor('floor: calendar, events: [{ at: "2026-11-27", for: 6h, min: 8 }]'),
            ("wall-time.form", "scale.events[0].at:", "2026-11-27T09:00"),
        ),
        (
            floor('floor: calendar, events: [{ at: "2026-02-30T09:00", for: 6h, min: 8 }]'),
            ("wall-time.form", "2026-02-30T09:00"),
        ),
        (
            floor('floor: calendar, events: [{ at: "2026-11-27T09:00", for: 0h, min: 8 }]'),
            ("duration.zero", "scale.events[0].for:"),
        ),
    ],
)
def test_a_floor_that_cannot_be_meant_is_told_in_a_line(
    change: tuple[str, str], words: tuple[str, ...], tmp_path: Path
) -> None:
    problems = problems_of(with_services(change), tmp_path)
    text = "\n".join(map(str, problems))

    assert words[0] in {problem.code for problem in problems}
    assert [value for value in words[1:] if value not in text] == []


def test_everything_wrong_with_events_is_told_at_once(tmp_path: Path) -> None:
    events = ", ".join(
        f'{{ at: "2026-11-27T{at}", for: {lasting}, min: {pods} }}'
        for at, lasting, pods in (("09:00", "6h", 20), ("10:00", "1h", 8), ("14:59", "2h", 2), ("16:59", "2h", 8))
    )
    problems = problems_of(with_services(floor(f"floor: calendar, events: [{events}]")), tmp_path)

    assert {(problem.code, problem.path.rpartition("scale.events")[2]) for problem in problems} == {
        ("floor.above-max", "[0].min"),
        ("floor.events-overlap", "[1].at"),
        ("floor.within-min", "[2].min"),
        ("floor.events-overlap", "[2].at"),
    }


def test_a_forecast_takes_a_prometheus_that_this_stack_gives_rules(tmp_path: Path) -> None:
    changes = [floor("floor: forecast"), ("{ prometheus: bundled }", "{ prometheus: none }")]
    problem = problem_of(with_services(*changes, more="ebbtide:serving: { prometheus: 'http://p:9090' }\n"), tmp_path)

    assert problem.tells("floor.no-prometheus", "scale.floor:", "floor: calendar")


def test_a_forecast_takes_a_memory_of_a_week(tmp_path: Path) -> None:
    def retention(span: str) -> tuple[str, str]:
        return "{ prometheus: bundled }", f"{{ prometheus: bundled, retention: {span} }}"

    problem = problem_of(with_services(floor("floor: forecast"), retention("7d")), tmp_path)

    assert problem.tells("floor.short-memory", "scale.floor:", "8d", "168h")
    assert services_stack(floor("floor: forecast"), retention("8d"))


def test_a_pool_has_no_forecast_and_is_told_by_which_figures(tmp_path: Path) -> None:
    (problem,) = problems_of(shortest(train="floor: forecast"), tmp_path)
    page = Path("docs/evidence/results-of-pool-forecasts.md")

    assert (problem.code, problem.path) == ("key.elsewhere", "ebbtide:workers.train.floor")
    assert f"pays in none of 36 cases (ebbtide docs {page.stem})" in str(problem)
    assert "It pays in 0 of 36 cases." in page.read_text(encoding="utf-8")


def test_an_event_that_is_over_is_warned_of_from_the_next_day_on() -> None:
    stack = services_stack((RANKER, f"min: 1, max: 9, floor: calendar, events: [{SALE}]"))

    def warned(today: date) -> list[str]:
        return [caution.place for caution in warnings_of(stack, today) if caution.code == "floor.event-past"]

    assert warned(date(2026, 11, 27)) == []
    assert warned(date(2026, 11, 28)) == ["services.ranker.scale.events[0]"]


def test_an_event_of_all_variants_is_told_once_and_one_of_a_variant_where_it_stands() -> None:
    of_all = services_stack(floor(f"floor: calendar, events: [{SALE}]"))
    own = f"scale: {{ metrics: {{ inFlight: 3 }}, min: 1, max: 9, floor: calendar, events: [{SALE}] }}"
    of_one = services_stack(("        gpu: 1\n", f"        gpu: 1\n        {own}\n"))

    def warned(stack: StackSettings) -> list[str]:
        return [caution.place for caution in warnings_of(stack, date(2027, 1, 1)) if caution.code == "floor.event-past"]

    assert warned(of_all) == ["services.embedder.scale.events[0]"]
    assert warned(of_one) == ["services.embedder.variants.large.scale.events[0]"]


def test_a_summary_says_what_stands_before_the_load() -> None:
    stack = services_stack(floor(f"floor: forecast, open: 4, events: [{SALE}]"))
    (line,) = [line for line in summary(stack) if line.startswith("serves   embedder-small")]

    assert "2 to 12 by inFlight, latency, at least 4 when open, 8 from 2026-11-27 09:00, a forecast, 3 CPU" in line
    assert any(
        "1.3 times a forecast" in line for line in summary(services_stack(floor("floor: forecast, margin: 1.3")))
    )
