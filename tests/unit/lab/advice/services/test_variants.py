"""What variants cost: each with all requests, shared as in the file, and the assumptions on each."""

import json
from datetime import timedelta

import pytest

from ebbtide.lab.advice.services.variants import ServiceTime, VariantAdvice, as_json, variant_advice
from ebbtide.lab.advice.services.variants_text import as_text
from ebbtide.lab.simulator.services.replay import ServiceOptions
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.settings import StackSettings
from tests.builders.terminal import shown_text
from tests.builders.workloads.services import ON_SPOT
from tests.builders.workloads.tuned import SMALL, a_stack, an_afternoon

SCALE = "scale: { metrics: { inFlight: 3 }, min: 1, max: 4 }"
WEIGHTED = (
    (SMALL, "cpu: 3, memory: 12Gi, weight: 75 }\n"),
    ('when: { header: "x-model-size: large" }', "weight: 25"),
)
FAST = {"large": ServiceTime(timedelta(milliseconds=200), "--service-time")}


def text_of(comparison: VariantAdvice) -> str:
    return shown_text(as_text(comparison))


def settings(*changes: tuple[str, str]) -> StackSettings:
    return a_stack(*changes, scale=SCALE).settings


def advised(
    stack: StackSettings, *, times: dict[str, ServiceTime] | None = None, shares: dict[str, float] | None = None
) -> VariantAdvice:
    return variant_advice(stack, "embedder", an_afternoon(), ServiceOptions(), times or {}, shares or {})


def test_the_cheapest_that_keeps_the_slo_is_named_with_its_price_for_a_thousand() -> None:
    comparison = advised(settings())
    small, large = comparison.rows

    assert comparison.cheapest is small
    result = small.outcome.result
    assert result.usd is not None
    assert small.outcome.usd_per_1000 == pytest.approx(1000 * result.usd / result.answered)
    assert (small.outcome.usd_per_1000 or 0) < (large.outcome.usd_per_1000 or 0)
    assert small.outcome.result.sent == large.outcome.result.sent
    assert f"Cheapest within the SLO: small, ${small.outcome.usd_per_1000:.3g}" in text_of(comparison)


def test_a_variant_that_is_too_slow_is_not_the_cheapest() -> None:
    comparison = advised(settings(), times={"small": ServiceTime(timedelta(seconds=7), "--service-time")})

    assert comparison.cheapest is not None
    assert comparison.cheapest.name == "large"
    assert "* misses the SLO" in text_of(comparison)


def test_a_given_service_time_applies_only_to_its_variant_and_is_shown() -> None:
    comparison = advised(settings(), times=FAST)
    small, large = comparison.rows

    assert large.outcome.result.p50_s < 0.25 < 1.5 < small.outcome.result.p50_s
    text = text_of(comparison)
    assert "a request takes 200 ms (--service-time)" in text
    assert "a request takes 2.0 s (requestTakes)" in text


def test_a_variant_by_itself_can_serve_all_requests() -> None:
    comparison = advised(settings(("max: 4 }", "max: 2 }")))

    assert all(row.most > 2 and row.outcome.result.lost == 0 for row in comparison.rows)


def test_weights_are_the_shares_and_both_parts_are_counted() -> None:
    comparison = advised(settings(*WEIGHTED))

    assert comparison.shares == {"small": 0.75, "large": 0.25}
    assert comparison.shared is not None
    whole = comparison.rows[0].outcome.result.sent
    assert comparison.shared.result.sent == pytest.approx(whole, rel=0.01)
    prices = [row.usd_per_pod_hour or 0 for row in comparison.rows]
    hours, usd = comparison.shared.result.pod_hours, comparison.shared.result.usd or 0
    assert prices[0] * hours < usd < prices[1] * hours


def test_shares_that_no_trace_contains_are_requested() -> None:
    unsaid = advised(settings())
    said = advised(settings(), shares={"large": 0.2})

    assert unsaid.shared is None
    assert "state it, for example --share large=20%" in text_of(unsaid)
    assert said.shares == {"small": 0.8, "large": 0.2}
    assert "shared: small 80 %, large 20 %" in text_of(said)


def test_variants_on_spot_nodes_are_not_played_together() -> None:
    comparison = advised(settings(*ON_SPOT))

    assert comparison.shared is None
    assert "variants on spot nodes take each other's requests" in text_of(comparison)
    cheap = next(row for row in comparison.rows if row.name == "cheap")
    assert (cheap.usd_per_pod_hour or 0) < (comparison.rows[0].usd_per_pod_hour or 0)


def test_a_service_without_variants_is_one_row_with_its_own_name() -> None:
    comparison = variant_advice(settings(), "ranker", an_afternoon(), ServiceOptions(), {"": FAST["large"]}, {})

    assert [row.name for row in comparison.rows] == ["ranker"]
    assert (comparison.shared, comparison.why_not_shared) == (None, "")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nobody", "wanted the name of a service, found 'nobody' (they are embedder, ranker)"),
        ("ranker", "wanted requestTakes, or --service-time for each variant, found none"),
    ],
)
def test_what_cannot_be_advised_on_is_one_line(name: str, told: str) -> None:
    with pytest.raises(ReplayError, match=r"\A[^\n]*\Z") as refused:
        variant_advice(settings(), name, an_afternoon(), ServiceOptions(), {}, {})

    assert told in str(refused.value)


def test_the_figures_are_plain_json() -> None:
    document = json.loads(json.dumps(as_json(advised(settings(*WEIGHTED), times=FAST))))

    assert document["cheapest"] in document["variants"]
    assert document["variants"]["large"]["request_s"] == 0.2
    assert document["variants"]["large"]["request_s_from"] == "--service-time"
    assert document["shared"]["sent"] > 0
