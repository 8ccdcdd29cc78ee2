"""A changed service: the effect on clients, and its cost with the fewest and the most pods."""

import json
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from io import StringIO

import pytest
from jsonschema import Draft202012Validator
from rich.console import Console

from ebbtide.findings import Severity
from ebbtide.preview.changes import changes_between
from ebbtide.preview.cost.comparison import compare_costs
from ebbtide.preview.cost.shares import service_costs
from ebbtide.preview.dangers import dangers_of
from ebbtide.preview.dangers.compared import Compared
from ebbtide.preview.dangers.services import service_dangers
from ebbtide.preview.document import CostComparison, Danger, PreviewDocument
from ebbtide.preview.render.as_json import as_json, json_schema
from ebbtide.preview.render.comment import as_comment
from ebbtide.preview.render.cost import services_sheet
from ebbtide.preview.render.text import text_parts
from ebbtide.preview.sides import Side
from ebbtide.recording.state import StackState
from ebbtide.settings.model import StackSettings
from tests.builders.preview import customer, document
from tests.builders.recorded import record
from tests.builders.workloads.services import ON_SPOT, services_stack

pytestmark = pytest.mark.whole

LARGE = """\
      large:
        hardware: gpu
        image: registry.example.com/ml/embedder:3
        cpu: 3
        memory: 12Gi
        gpu: 1
        when: { header: "x-model-size: large" }
"""
CHEAP = """\
      cheap:
        spot: true
        image: registry.example.com/ml/embedder-small:3
        cpu: 3
        memory: 12Gi
        scale: { metrics: { inFlight: 3 }, min: 1, max: 20 }
"""


@cache
def side(*changes: tuple[str, str], more: str = "") -> Side:
    settings = services_stack(*changes, more=more)
    return Side(stack="acme", settings=settings, resources=record(settings))


def between(before: StackSettings, after: StackSettings) -> list[Danger]:
    """Return the dangers that follow from the two settings, without a recording of either."""
    compared = Compared(before=StackState(before, ()), after=StackState(after, ()), changes=())
    return [*service_dangers(compared)]


def told(*changes: tuple[str, str]) -> list[Danger]:
    return between(services_stack(), services_stack(*changes))


def test_parts_of_ebbtide_that_go_with_the_last_service_hold_nothing() -> None:
    whole = side()
    without = services_stack().model_copy(update={"services": {}})
    after = Side(stack="acme", settings=without, resources=record(without))
    changes = changes_between(whole.resources, after.resources)

    fixes = {
        name: danger.remedy
        for danger in dangers_of(whole, after, changes)
        if danger.code == "workload-lost"
        for name in danger.subjects
    }

    assert sorted(name for name, fix in fixes.items() if not fix.startswith("none needed")) == [
        "embedder-large-deployment",
        "embedder-small-deployment",
        "ranker-deployment",
    ]
    assert {"envoy-gateway-certgen-job", "keda-operator-deployment"} <= fixes.keys()


def test_nothing_is_told_of_services_that_stay() -> None:
    assert told() == []


def test_a_variant_that_goes_while_its_service_is_routed() -> None:
    before, after = side(), side((LARGE, ""))
    found = dangers_of(before, after, changes_between(before.resources, after.resources))
    (danger,) = [it for it in found if it.code == "variant-lost"]

    assert told((LARGE, "")) == [danger]
    assert danger.subjects == ("embedder-large",)
    assert "x-model-size: large" in danger.impact
    assert "embedder-small" in danger.impact


def test_a_variant_on_spot_that_goes_leaves_its_requests_to_the_one_beside_it() -> None:
    (danger,) = between(services_stack(*ON_SPOT), services_stack(*ON_SPOT, (CHEAP, "")))

    assert (danger.code, danger.subjects) == ("variant-lost", ("embedder-cheap",))
    assert "embedder-small answers all requests" in danger.impact


def test_a_variant_on_spot_that_comes_rolls_no_pods_of_its_service() -> None:
    without, with_spot = side(*ON_SPOT, (CHEAP, "")), side(*ON_SPOT)

    found = dangers_of(without, with_spot, changes_between(without.resources, with_spot.resources))
    assert [it for it in found if any(name.startswith("embedder") for name in it.subjects)] == []


WHEN_LARGE = 'when: { header: "x-model-size: large" }'


def shared(small: int, large: int | None) -> tuple[tuple[str, str], ...]:
    """Both variants with these weights, or only `small`."""
    of_small = ("memory: 12Gi }", f"memory: 12Gi, weight: {small} }}")
    return (of_small, (LARGE, "") if large is None else (WHEN_LARGE, f"weight: {large}"))


def codes(before: StackSettings, after: StackSettings) -> list[tuple[str, tuple[str, ...]]]:
    of_shares = ("share-at-once", "variant-lost")
    return [(it.code, it.subjects) for it in between(before, after) if it.code in of_shares]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((100, None), (100, 0)),
        ((100, 0), (90, 10)),
        ((90, 10), (0, 100)),
        ((100, 0), (100, None)),
    ],
)
def test_a_canary_that_goes_through_a_weight_of_0_is_no_danger(
    before: tuple[int, int | None], after: tuple[int, int | None]
) -> None:
    assert codes(services_stack(*shared(*before)), services_stack(*shared(*after))) == []


def test_a_variant_that_begins_with_a_share_is_told_and_one_that_goes_with_one() -> None:
    alone, both = services_stack(*shared(100, None)), services_stack(*shared(90, 10))

    assert codes(alone, both) == [("share-at-once", ("embedder-large",))]
    assert codes(both, alone) == [("variant-lost", ("embedder-large",))]
    (danger,) = [it for it in between(both, alone) if it.code == "variant-lost"]
    assert danger.remedy.startswith("set its weight to 0 first")


def test_shares_in_the_place_of_conditions_are_told_of_both() -> None:
    assert ("share-at-once", ("embedder-small", "embedder-large")) in codes(
        services_stack(), services_stack(*shared(90, 10))
    )


@pytest.mark.parametrize("change", [("path: /embed,", "path: /vectors,"), ("host: models.acme", "host: ml.acme")])
def test_a_route_that_moves_is_lost_to_those_who_call_it(change: tuple[str, str]) -> None:
    (danger,) = told(change)

    assert (danger.code, danger.severity) == ("route-lost", Severity.WARNING)
    assert "404" in danger.impact


def test_a_target_that_changes_is_a_note_and_fewer_pods_are_a_warning() -> None:
    target = told(("inFlight: 3", "inFlight: 6"))
    bounds = told(("min: 1, max: 6", "min: 1, max: 3"))

    assert {(it.code, it.severity) for it in target} == {("target-changed", Severity.NOTE)}
    assert all("inFlight 3 → 6" in it.text for it in target)
    assert [(it.subjects, it.severity) for it in bounds] == [(("ranker",), Severity.WARNING)]


def test_another_kind_of_autoscaler_is_told_to_go_before_the_next_comes() -> None:
    (swapped,) = told(("cpu: 70%", "query: { promql: sum(backlog), target: 5 }"))
    (same_kind,) = told(("cpu: 70%", "memory: 80%"))

    assert "its autoscaler is deleted before the other kind is created" in swapped.text
    assert "autoscaler" not in same_kind.text


def test_less_time_for_a_request_is_told() -> None:
    (danger,) = told(("longestRequest: 10s", "longestRequest: 5s"))

    assert (danger.code, danger.subjects) == ("longest-request-lowered", ("ranker",))


def test_a_pod_costs_the_share_of_its_node_that_it_keeps_from_others() -> None:
    costs = {it.pods: it for it in service_costs(services_stack(), 2026)}
    small, large = costs["embedder-small"], costs["embedder-large"]

    assert (small.least, small.most) == (2, 12)
    assert small.usd_at_min is not None
    assert small.usd_at_max == pytest.approx(6 * small.usd_at_min)
    assert large.usd_at_min is not None
    assert large.usd_at_min > small.usd_at_min


CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
UNROUTED = (
    ("inFlight: 3, latency: 300ms", "cpu: 70%"),
    ("    route: { host: models.acme.internal, path: /embed, model: embedder-v3 }\n", ""),
    ("    variants:\n      small: { hardware: cpu, image", "    variants:\n      small: { image"),
    (LARGE, ""),
)


def opened(before: Side, after: Side) -> list[Danger]:
    found = dangers_of(before, after, changes_between(before.resources, after.resources))
    return [danger for danger in found if danger.code == "entrance-opened"]


@pytest.mark.parametrize(
    ("serving", "what", "impact"),
    [
        ("public: true", "opens port 80 of the gateway to the whole internet", "in the clear"),
        ("public: true, sources: [203.0.113.0/24]", "opens port 80 of the gateway to 203.0.113.0/24", "in the clear"),
        (f"public: true, certificate: '{CERTIFICATE}'", "opens port 443 of the gateway to the whole internet", ""),
    ],
)
def test_who_is_let_in_at_the_gateway_from_the_internet_is_told(serving: str, what: str, impact: str) -> None:
    (danger,) = opened(side(), side(more=f"ebbtide:serving: {{ {serving} }}\n"))

    assert (danger.text, danger.impact, danger.subjects) == (what, impact, ("the gateway",))
    assert "serving.sources" in danger.remedy


def test_the_first_route_opens_a_public_gateway() -> None:
    public = "ebbtide:serving: { public: true }\n"

    assert len(opened(side(*UNROUTED, more=public), side(more=public))) == 1
    assert opened(side(more=public), side(more=public)) == []
    assert opened(side(*UNROUTED), side(*UNROUTED, more=public)) == []


BOUNDS = "min: 2, max: 12"
SALE = 'events: [{ at: "2026-11-27T09:00", for: 6h, min: 8 }]'


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("floor: calendar, open: 6", "floor: calendar, open: 4", (Severity.WARNING, "open 6 → 4")),
        ("floor: calendar, open: 6", "", (Severity.WARNING, "open 6 → none")),
        ("floor: forecast", "floor: calendar, open: 4", (Severity.WARNING, "floor forecast → calendar")),
        ("floor: forecast, margin: 1.5", "floor: forecast, margin: 1.2", (Severity.WARNING, "margin 1.5 → 1.2")),
        (
            'floor: calendar, overnight: [{ at: "22:00", for: 2h, min: 6 }]',
            "floor: calendar, open: 6",
            (Severity.WARNING, "overnight 22:00 6 → none"),
        ),
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
    old, new = (services_stack(*([(BOUNDS, f"{BOUNDS}, {keys}")] if keys else [])) for keys in (before, after))
    found = [it for it in between(old, new) if it.code == "floor-lowered" and it.subjects == ("embedder-small",)]

    assert [(it.severity, it.text.partition(": ")[2]) for it in found] == ([] if told is None else [told])


def drawn(page: PreviewDocument) -> str:
    console = Console(width=200, record=True, file=StringIO())
    for part in text_parts(page, full=True):
        console.print(part)
    return console.export_text()


FORMS: Mapping[str, Callable[[PreviewDocument], str]] = {"text": drawn, "markdown": as_comment, "json": as_json}


def compared(before: StackSettings | None, after: StackSettings) -> CostComparison:
    return compare_costs(before, after, day=date(2026, 6, 1))


def test_costs_of_services_stand_beside_those_of_before() -> None:
    lines = {
        it.name: it
        for it in compared(services_stack(), services_stack(("min: 2, max: 12", "min: 4, max: 24"))).services
    }
    small = lines["embedder-small"]

    assert set(lines) == {"embedder-small", "embedder-large", "ranker"}
    assert (small.pods_before, small.pods_after) == ((2, 12), (4, 24))
    assert small.before is not None
    assert small.after is not None
    assert small.after.at_min == pytest.approx(2 * (small.before.at_min or 0))
    assert lines["ranker"].before == lines["ranker"].after


def test_a_variant_that_goes_costs_nothing_afterwards_and_a_new_customer_nothing_before() -> None:
    gone = compared(services_stack(), services_stack((LARGE, ""))).services[-1]

    assert (gone.name, gone.pods_after, gone.after) == ("embedder-large", None, None)
    assert all((it.pods_before, it.before) == (None, None) for it in compared(None, services_stack()).services)


def shown(cost: CostComparison) -> list[tuple[str, ...]]:
    return [tuple(row) for row in services_sheet(cost).body if row[0] == "embedder-large"]


def test_a_row_says_what_changes_and_what_is_gone() -> None:
    (stays,), (goes,) = (
        shown(compared(services_stack(), services_stack())),
        shown(compared(services_stack(), services_stack((LARGE, "")))),
    )
    (new,) = shown(compared(None, services_stack()))

    assert stays == new == ("embedder-large", "2 to 12", *stays[2:])
    assert "→" not in "".join(stays)
    assert goes == ("embedder-large", "2 to 12 → -", f"{stays[2]} → 0", f"{stays[3]} → 0")


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_the_page_shows_what_services_cost_in_every_form(form: str) -> None:
    cost = compared(services_stack(), services_stack(("min: 1, max: 6", "min: 3, max: 9")))
    page = document(customer(cost=cost))
    text = FORMS[form](page)

    if form == "json":
        services = json.loads(text)["customers"][0]["cost"]["services"]
        (ranker,) = [it for it in services if it["name"] == "ranker"]
        assert (ranker["pods_before"], ranker["pods_after"]) == ([1, 6], [3, 9])
        Draft202012Validator(json_schema()).validate(json.loads(text))
    else:
        assert "1 to 6 → 3 to 9" in text
        assert "the nodes that services take, on demand" in text
