"""A stack above its ceiling is blocked by what it always costs or is expected to cost, never by an unknown price."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from ebbtide.findings import Severity
from ebbtide.preview.cost.comparison import compare_costs
from ebbtide.preview.dangers import ceiling_dangers
from ebbtide.preview.document import Amounts, CostComparison, CostLine, Danger, Simulated
from ebbtide.settings.load import stack_of_text
from tests.builders.preview import cost
from tests.builders.settings import loaded, shortest

EKS = Amounts(always=73, at_min=73, at_max=73, at_usage=73)
EKS_LINE = CostLine(name="EKS control plane", before=None, after=EKS, assumption="on-demand")


def estimate(always: float | None = None, most: float | None = None, usage: float | None = None) -> CostComparison:
    return replace(cost(), after=Amounts(always=always, at_min=0, at_max=most, at_usage=usage))


def above(ceiling: float | None, amounts: CostComparison, replay: Simulated | None = None) -> list[Danger]:
    usage = "expectedNodeHours: { fixed: 1 }"
    costs = f"{{ {usage} }}" if ceiling is None else f"{{ {usage}, ceiling: {ceiling} }}"
    settings = stack_of_text(shortest(more=f"ebbtide:costs: {costs}"), stack="acme", file="Pulumi.acme.yaml")
    return [*ceiling_dangers(settings, amounts, replay)]


@pytest.mark.parametrize(
    ("amounts", "severities"),
    [
        (estimate(always=1000), []),  # equal
        (estimate(always=1000.4), []),  # equal in the whole dollars that the page shows
        (estimate(always=1001), [Severity.BLOCKING]),
        (estimate(always=900, usage=1000), []),
        (estimate(always=900, usage=1001), [Severity.BLOCKING]),
        (estimate(always=900, most=1000), []),
        (estimate(always=900, most=1001), [Severity.NOTE]),
        (estimate(always=1001, most=5000), [Severity.BLOCKING]),  # the note would say less
        (estimate(), []),
        (estimate(most=900), []),
    ],
)
def test_a_cost_above_the_ceiling_blocks_and_one_above_it_at_max_is_a_note(
    amounts: CostComparison, severities: list[Severity]
) -> None:
    assert [danger.severity for danger in above(1000, amounts)] == severities
    assert above(None, amounts) == []


def test_the_danger_has_each_amount_above_and_the_groups_that_cost_most() -> None:
    lines = [
        CostLine(name=name, before=None, after=Amounts(always=usd, at_min=0, at_max=usd, at_usage=None), assumption="")
        for name, usd in (("fixed", 300), ("flexible", 2000))
    ]
    amounts = replace(estimate(always=2300, usage=2500), lines=(*lines, EKS_LINE))
    (danger,) = above(1000, amounts)

    assert (danger.code, danger.subjects) == ("ceiling-exceeded", ("flexible", "fixed"))
    assert danger.text == (
        "costs more than costs.ceiling, 1,000 US dollars a month: 2,300 always, 2,500 at the stated usage"
    )
    assert "costs.ceiling" in danger.remedy


def test_a_replay_of_jobs_makes_an_expected_cost() -> None:
    """A week of 230 dollars is a month of 1,000, in addition to 73 for the control plane."""
    week = 1000 / 730 * 24 * 7
    amounts = replace(estimate(always=100), lines=(*cost().lines, EKS_LINE))
    replay = Simulated(trace="t", node_hours=(None, 9), usd=(None, week), p95_wait=(None, 1), days=7)

    (danger,) = above(1072, amounts, replay)
    assert (danger.severity, danger.text.partition(": ")[2]) == (Severity.BLOCKING, "1,073 by the replay of t")
    assert above(1073, amounts, replay) == []
    assert above(1, estimate(), replace(replay, usd=(None, None))) == []


def test_what_has_no_price_never_blocks_and_the_rest_is_said_to_be_the_least(tmp_path: Path) -> None:
    keys = "ebbtide:nodeGroups: { fixed: { min: 2, max: 4 }, flexible: { max: 4 } }"

    def found(region: str, ceiling: int) -> list[Danger]:
        text = f"aws:region: {region}\n{keys}\nebbtide:costs: {{ ceiling: {ceiling} }}"
        settings = loaded(shortest(more=text), tmp_path)
        return [*ceiling_dangers(settings, compare_costs(None, settings, date(2026, 6, 1)), None)]

    assert found("ap-east-2", 100) == []  # only the control plane, for 73 dollars, has a price there
    (danger,) = found("ap-east-2", 70)
    assert danger.text.endswith(": at least 73 always")


@pytest.mark.parametrize(
    ("keys", "limit"),
    [("{}", None), ("{ plan: 400, ceiling: 400 }", ("plan", 400)), ("{ ceiling: 400 }", ("ceiling", 400))],
)
def test_the_ceiling_is_the_figure_of_the_alert_without_a_plan(
    keys: str, limit: tuple[str, float] | None, tmp_path: Path
) -> None:
    assert loaded(shortest(more=f"ebbtide:costs: {keys}"), tmp_path).costs.alert_above == limit


@pytest.mark.parametrize(
    ("amounts", "remedy"),
    [
        (estimate(always=1001), "lower the minimum of pods or node groups, let workloads sleep"),
        (estimate(always=1, usage=1001), "use fewer node-hours and correct costs.expectedNodeHours"),
    ],
)
def test_the_remedy_fits_the_amount_that_is_above(amounts: CostComparison, remedy: str) -> None:
    (danger,) = above(1000, amounts)

    assert danger.remedy == f"{remedy}, or agree on a higher costs.ceiling"
