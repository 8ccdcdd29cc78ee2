"""Which plan is advised, on which usage, and the text about it."""

import json
from collections.abc import Sequence

import pytest

from ebbtide.lab.advice.savings.advice import HOURS_PER_MONTH, PLANS, Offer, SavingsAdvice, savings_advice
from ebbtide.lab.advice.savings.text import as_json, as_text
from ebbtide.lab.advice.savings.usage import Usage
from ebbtide.prices import hourly, on_demand
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.node_groups import NodeGroupSettings
from tests.builders.settings import shortest
from tests.builders.simulator import a_stack
from tests.builders.terminal import shown_text

WEEK = 7 * 24


def text_of(advice: SavingsAdvice) -> str:
    return shown_text(as_text(advice))


def a_usage(*, open_hours: Sequence[bool] | None = None, **nodes: Sequence[float]) -> Usage:
    """Nodes by group, hour by hour."""
    hours = len(next(iter(nodes.values())))
    return Usage(
        nodes={group: tuple(map(float, values)) for group, values in nodes.items()},
        open=tuple(open_hours or [False] * hours),
        source="made-up usage",
    )


def stack_with(**groups: tuple[NodeKind, str]) -> StackSettings:
    """Its groups have these kinds and instance types."""
    named = {
        name: NodeGroupSettings(kind=kind, instance_types=(type_,), min=int(kind is NodeKind.FIXED), max=9)
        for name, (kind, type_) in groups.items()
    }
    return a_stack().model_copy(update={"node_groups": named})


REGION = "us-east-1"
FLEXIBLE = "m7i.4xlarge"  # of the builders' stack


def offer_of(advice: SavingsAdvice, plan: str) -> Offer:
    return next(offer for offer in advice.offers if offer.plan == plan)


def steady_and_bursty() -> SavingsAdvice:
    """Two fixed nodes always; flexible ones in 45 of 50 hours."""
    return savings_advice(a_stack(), a_usage(fixed=[2] * 50, flexible=[0] * 5 + [3] * 45))


def test_a_commitment_stays_at_what_every_hour_used() -> None:
    advice = steady_and_bursty()

    offer = offer_of(advice, "compute-1y-no-upfront")

    assert offer.commitments == {"all": pytest.approx(2 * hourly(REGION, "m7i.xlarge", "compute-1y-no-upfront"))}
    assert offer.utilisation == pytest.approx(1)
    assert offer.best > offer.floor


def test_beyond_the_floor_it_is_the_cheapest_and_may_be_lost_in_some_hours() -> None:
    stack, usage = a_stack(), a_usage(fixed=[2] * 50, flexible=[0] * 5 + [3] * 45)

    within, beyond = (savings_advice(stack, usage, beyond_floor=asked) for asked in (False, True))

    for plan in PLANS:
        assert offer_of(beyond, plan).usd < offer_of(within, plan).usd
        assert offer_of(beyond, plan).utilisation < 1
        assert offer_of(beyond, plan).loads[1].regret_usd == pytest.approx(0, abs=1e-6)


def test_what_is_not_covered_is_paid_on_demand() -> None:
    advice = steady_and_bursty()
    rate = hourly(REGION, "m7i.xlarge", "ec2-1y-no-upfront")

    assert advice.on_demand_usd == pytest.approx(
        HOURS_PER_MONTH * (2 * on_demand(REGION, "m7i.xlarge") + 2.7 * on_demand(REGION, FLEXIBLE))
    )
    assert offer_of(advice, "ec2-1y-no-upfront").usd == pytest.approx(
        HOURS_PER_MONTH * (2 * rate + 2.7 * on_demand(REGION, FLEXIBLE))
    )


def test_an_instance_plan_is_a_commitment_for_each_family() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m7i.xlarge"), gpu=(NodeKind.GPU, "g6.2xlarge"))

    offer = offer_of(savings_advice(stack, a_usage(fixed=[2] * 9, gpu=[1] * 9)), "ec2-1y-no-upfront")

    assert offer.commitments == {
        "g6": pytest.approx(hourly(REGION, "g6.2xlarge", "ec2-1y-no-upfront")),
        "m7i": pytest.approx(2 * hourly(REGION, "m7i.xlarge", "ec2-1y-no-upfront")),
    }


def test_one_year_is_advised_though_three_would_be_cheaper() -> None:
    advice = steady_and_bursty()

    assert advice.chosen is not None
    assert advice.chosen.plan == "ec2-1y-no-upfront"
    assert offer_of(advice, "ec2-3y-no-upfront").usd < advice.chosen.usd


def test_usage_that_goes_to_zero_gets_no_commitment() -> None:
    advice = savings_advice(a_stack(), a_usage(flexible=[0] * 100 + [8] * 10))

    assert advice.chosen is None
    assert "leave everything on demand" in text_of(advice)


def test_layers_add_up_to_the_usage() -> None:
    daytime = [8 <= hour % 24 < 18 for hour in range(WEEK)]
    usage = a_usage(
        open_hours=daytime,
        fixed=[2] * WEEK,
        flexible=[5 + (hour == 9) if day else 1 for hour, day in enumerate(daytime)],
    )

    floor, business, rest = savings_advice(a_stack(), usage).layers

    assert (floor.node_hours, business.node_hours, rest.node_hours) == (3 * WEEK, 4 * sum(daytime), 1)
    assert business.share_of_hours == pytest.approx(10 / 24)
    assert floor.on_demand_usd == pytest.approx(
        HOURS_PER_MONTH * (2 * on_demand(REGION, "m7i.xlarge") + on_demand(REGION, FLEXIBLE))
    )


def test_a_type_without_a_plan_rate_stays_on_demand_and_is_named() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m7i.xlarge"), gpu=(NodeKind.GPU, "p5.48xlarge"))

    advice = savings_advice(stack, a_usage(fixed=[2] * 9, gpu=[1] * 9))

    assert any("No compute-1y-no-upfront rate is known for p5.48xlarge (gpu)" in line for line in advice.assumptions)
    assert offer_of(advice, "compute-1y-no-upfront").usd > HOURS_PER_MONTH * on_demand(REGION, "p5.48xlarge")


def test_spot_is_in_no_plan_and_the_text_says_so() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m7i.xlarge"), spot=(NodeKind.SPOT, "m7i.2xlarge"))

    advice = savings_advice(stack, a_usage(fixed=[2] * 9, spot=[4] * 9), beyond_floor=True)

    assert offer_of(advice, "compute-1y-no-upfront").commitments["all"] == pytest.approx(
        2 * hourly(REGION, "m7i.xlarge", "compute-1y-no-upfront")
    )
    assert any("Plans never cover spot: spot" in line for line in advice.assumptions)


def test_with_a_node_without_a_price_usage_is_shown_and_no_plan_is_compared() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m7i.xlarge"), gpu=(NodeKind.GPU, "g6.2xlarge")).model_copy(
        update={"region": "eu-west-1"}
    )

    advice = savings_advice(stack, a_usage(fixed=[2] * 9, gpu=[1] * 9))

    assert [group.name for group in advice.unpriced] == ["gpu"]
    assert (advice.on_demand_usd, advice.offers, advice.chosen) == (None, (), None)
    assert advice.layers[0].node_hours == 27
    assert "$" not in text_of(advice)
    assert "ebbtide prices update --region eu-west-1" in text_of(advice)
    assert json.loads(json.dumps(as_json(advice)))["unpriced"][0]["instance_type"] == "g6.2xlarge"


def test_without_any_plan_rate_the_text_does_not_say_that_no_plan_pays() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m8i.2xlarge")).model_copy(update={"region": "af-south-1"})

    text = text_of(savings_advice(stack, a_usage(fixed=[2] * 9)))

    assert "The price tables hold no plan rates for these nodes: no plan is compared." in text
    assert "leave everything on demand" not in text


def test_a_group_that_never_ran_needs_no_price() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m7i.xlarge"), gpu=(NodeKind.GPU, "g6.2xlarge")).model_copy(
        update={"region": "eu-west-1"}
    )

    assert savings_advice(stack, a_usage(fixed=[2] * 9, gpu=[0] * 9)).chosen is not None


def test_usage_without_any_node_that_a_plan_covers_is_left_on_demand() -> None:
    stack = stack_with(fixed=(NodeKind.FIXED, "m7i.xlarge"), spot=(NodeKind.SPOT, "m7i.2xlarge"))

    spot, idle = savings_advice(stack, a_usage(spot=[4] * 9)), savings_advice(stack, a_usage(fixed=[0] * 9))

    assert (spot.offers, spot.chosen, idle.offers, idle.on_demand_usd) == ((), None, (), 0)
    assert "leave everything on demand" in text_of(spot)


def test_a_larger_load_regrets_a_small_commitment() -> None:
    halves, same, doubles = offer_of(steady_and_bursty(), "compute-1y-no-upfront").loads

    assert (halves.load, same.load, doubles.load) == (0.5, 1.0, 2.0)
    assert doubles.usd > same.usd > halves.usd
    assert doubles.regret_usd > same.regret_usd > 0


def test_the_text_says_approximate_and_fits_eighty_columns_but_for_sentences() -> None:
    text = text_of(steady_and_bursty())

    assert "approximate" in text.splitlines()[2]
    tables = [line for line in text.splitlines() if "  " in line]
    assert max(map(len, tables)) <= 80


def test_the_document_holds_every_plan_and_the_chosen_one() -> None:
    document = json.loads(json.dumps(as_json(steady_and_bursty())))

    assert document["chosen"] == "ec2-1y-no-upfront"
    assert [offer["plan"] for offer in document["offers"]] == [plan.value for plan in PLANS]
    assert document["plans_of"] == "2025-04-24"


def test_a_group_of_several_sizes_is_priced_at_its_first_type_and_a_row_may_state_the_type() -> None:
    x86 = "x86: { kind: flexible, provisioner: karpenter, instanceTypes: [m7i.2xlarge, m7i.4xlarge], max: 10 }"
    stack = stack_of_text(shortest(more=f"ebbtide:nodeGroups: {{ {x86} }}"), stack="acme", file="Pulumi.acme.yaml")

    def usd(**nodes: Sequence[float]) -> float:
        advised = savings_advice(stack, a_usage(open_hours=None, **nodes))
        assert advised.on_demand_usd is not None
        return advised.on_demand_usd / HOURS_PER_MONTH

    small, large = on_demand(REGION, "m7i.2xlarge"), on_demand(REGION, "m7i.4xlarge")
    assert usd(x86=[3] * WEEK) == pytest.approx(3 * small)
    assert usd(**{"x86/m7i.2xlarge": [3] * WEEK}) == pytest.approx(3 * small)
    assert usd(**{"x86/m7i.2xlarge": [3] * WEEK, "x86/m7i.4xlarge": [1] * WEEK}) == pytest.approx(3 * small + large)
    assert any(
        sentence.startswith("x86 has types of several sizes, and the usage states none: its nodes count as m7i.2xl")
        for sentence in savings_advice(stack, a_usage(x86=[3])).assumptions
    )
    assert offer_of(savings_advice(stack, a_usage(x86=[3] * WEEK)), "compute-1y-no-upfront").commitments == {
        "all": pytest.approx(3 * hourly(REGION, "m7i.2xlarge", "compute-1y-no-upfront"))
    }
