"""A service that changes: what those who call it notice, and what it costs at its fewest and its most pods."""

from functools import cache

import pytest

from ebbtide.policies.rule import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.cost.services import service_costs
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.document import Danger, DangerCode
from ebbtide.preview.sides import Side
from ebbtide.recording.record import record
from tests.builders.workloads.services import services_stack

LARGE = """\
      large:
        hardware: gpu
        image: registry.example.com/ml/embedder:3
        cpu: 3
        memory: 12Gi
        gpu: 1
        when: { header: "x-model-size: large" }
"""


@cache
def side(*changes: tuple[str, str]) -> Side:
    settings = services_stack(*changes)
    return Side(stack="acme", settings=settings, resources=record(settings))


def told(*changes: tuple[str, str]) -> list[Danger]:
    before, after = side(), side(*changes)
    found = dangers_of(before, after, changes_between(before.resources, after.resources))
    ours = {
        DangerCode.ROUTE_LOST,
        DangerCode.VARIANT_LOST,
        DangerCode.LONGEST_REQUEST_LOWERED,
        DangerCode.TARGET_CHANGED,
    }
    return [danger for danger in found if danger.code in ours]


def test_nothing_is_told_of_services_that_stay() -> None:
    assert told() == []


def test_a_variant_that_goes_while_its_service_is_routed() -> None:
    (danger,) = told((LARGE, ""))

    assert (danger.code, danger.subjects) == (DangerCode.VARIANT_LOST, ("embedder-large",))
    assert "x-model-size: large" in danger.impact
    assert "embedder-small" in danger.impact


@pytest.mark.parametrize("change", [("path: /embed,", "path: /vectors,"), ("host: models.acme", "host: ml.acme")])
def test_a_route_that_moves_is_lost_to_those_who_call_it(change: tuple[str, str]) -> None:
    (danger,) = told(change)

    assert (danger.code, danger.severity) == (DangerCode.ROUTE_LOST, Severity.WARNING)
    assert "404" in danger.impact


def test_a_target_that_changes_is_a_note_and_fewer_pods_are_a_warning() -> None:
    target = told(("inFlight: 3", "inFlight: 6"))
    bounds = told(("min: 1, max: 6", "min: 1, max: 3"))

    assert {(it.code, it.severity) for it in target} == {(DangerCode.TARGET_CHANGED, Severity.NOTE)}
    assert all("inFlight 3 → 6" in it.what for it in target)
    assert [(it.subjects, it.severity) for it in bounds] == [(("ranker",), Severity.WARNING)]


def test_less_time_for_a_request_is_told() -> None:
    (danger,) = told(("longestRequest: 10s", "longestRequest: 5s"))

    assert (danger.code, danger.subjects) == (DangerCode.LONGEST_REQUEST_LOWERED, ("ranker",))


def test_a_pod_costs_the_share_of_its_node_that_it_keeps_from_others() -> None:
    costs = {it.pods: it for it in service_costs(services_stack())}
    small, large = costs["embedder-small"], costs["embedder-large"]

    assert (small.least, small.most) == (2, 12)
    assert small.usd_at_min is not None
    assert small.usd_at_max == pytest.approx(6 * small.usd_at_min)
    assert large.usd_at_min is not None
    assert large.usd_at_min > small.usd_at_min


BOUNDS = "min: 2, max: 12"
SALE = 'events: [{ at: "2026-11-27T09:00", for: 6h, min: 8 }]'


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("floor: calendar, open: 6", "floor: calendar, open: 4", (Severity.WARNING, "open 6 → 4")),
        ("floor: calendar, open: 6", "", (Severity.WARNING, "open 6 → none")),
        ("floor: forecast", "floor: calendar, open: 4", (Severity.WARNING, "floor forecast → calendar")),
        (
            f"floor: calendar, open: 4, {SALE}",
            "floor: calendar, open: 4",
            (Severity.NOTE, "event 2026-11-27T09:00 8 → none"),
        ),
        ("floor: calendar, open: 4", f"floor: calendar, open: 4, {SALE}", None),
        ("", "floor: calendar, open: 4", None),
    ],
)
def test_a_floor_that_is_lowered_is_told(before: str, after: str, told: tuple[Severity, str] | None) -> None:
    old, new = (side((BOUNDS, f"{BOUNDS}, {keys}")) if keys else side() for keys in (before, after))
    all_found = dangers_of(old, new, changes_between(old.resources, new.resources))
    found = [it for it in all_found if it.code is DangerCode.FLOOR_LOWERED and it.subjects == ("embedder-small",)]

    assert [(it.severity, it.what.partition(": ")[2]) for it in found] == ([] if told is None else [told])
