"""From a stack file to what is played: the same steps that are rendered, and prices as in the preview."""

from datetime import UTC, datetime, timedelta
from statistics import fmean, pstdev
from typing import Any

import pytest

from components.serving.scaling import Scaled, behavior
from ebbtide.lab.simulator.services.floors import CalendarFloor
from ebbtide.lab.simulator.services.served import simulated
from ebbtide.lab.simulator.setup import ReplayError
from ebbtide.lab.simulator.strategies.hpa import TOLERANCE, HpaBehavior, HpaPolicy, HpaRules, TargetKind
from ebbtide.preview.cost.shares import service_costs
from ebbtide.text.money import HOURS_PER_MONTH
from ebbtide.vocabulary.workloads import FloorPolicy
from tests.builders.workloads.played import a_pod
from tests.builders.workloads.services import services_stack


def rules(rendered: dict[str, Any]) -> HpaRules:
    """`autoscaling/v2` scaling rules, read as the controller does."""
    assert rendered["selectPolicy"] == "Max"
    policies = tuple(
        HpaPolicy(it["periodSeconds"], percent=it["value"])
        if it["type"] == "Percent"
        else HpaPolicy(it["periodSeconds"], pods=it["value"])
        for it in rendered["policies"]
    )
    tolerance = float(rendered.get("tolerance", TOLERANCE))
    return HpaRules(policies=policies, stabilization_s=rendered["stabilizationWindowSeconds"], tolerance=tolerance)


@pytest.mark.parametrize("starts", ["20s", "90s", "10m", "45m"])
@pytest.mark.parametrize("metrics", ["{ inFlight: 3, latency: 300ms }", "{ inFlight: 3 }"])
def test_the_behavior_that_is_rendered_is_what_is_played(starts: str, metrics: str) -> None:
    settings = services_stack(
        ("startsWithin: 90s", f"startsWithin: {starts}"), ("{ inFlight: 3, latency: 300ms }", metrics)
    )
    service = settings.services["embedder"]
    rendered: Any = behavior(
        Scaled(
            pod="embedder-small",
            service=service,
            variant=service.variants["small"],
            customer="acme",
            cluster="",
            prometheus="",
            tolerance=True,
        )
    )
    played = simulated(settings, "embedder-small").behavior
    read = HpaBehavior(up=rules(rendered["scaleUp"]), down=rules(rendered["scaleDown"]))

    assert (played.up.policies, played.up.stabilization_s) == (read.up.policies, read.up.stabilization_s)
    assert played.up.tolerance == pytest.approx(read.up.tolerance, abs=1e-4)
    assert played.down == read.down


def test_metrics_and_what_a_pod_bears_are_the_stack_files() -> None:
    service = simulated(services_stack(), "embedder-small")

    assert [(it.key, it.target.kind, it.target.target) for it in service.metrics] == [
        ("inFlight", TargetKind.TOTAL, 3),
        ("latency", TargetKind.RATIO, 0.3),
    ]
    assert (service.least, service.most, service.slo_s, service.pod.at_once) == (2, 12, 0.4, 3)
    assert service.full_rate == pytest.approx(3 / 0.15)
    assert service.pod_rate == pytest.approx(14)
    assert simulated(services_stack(), "embedder-small", at_once=6).full_rate == pytest.approx(40)


def test_a_pod_hour_costs_what_the_preview_says() -> None:
    settings = services_stack()
    costs = {it.pods: it.usd_at_min for it in service_costs(settings, 2026)}
    usd = simulated(settings, "embedder-small").usd_per_pod_hour

    assert usd is not None
    assert costs["embedder-small"] == pytest.approx(2 * usd * HOURS_PER_MONTH)


def test_request_times_have_the_mean_and_the_spread_that_are_assumed() -> None:
    times = a_pod(request_s=2.0, spread=0.5).times()

    assert fmean(times) == pytest.approx(2.0)
    assert pstdev(times) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(
    ("name", "changes", "wanted"),
    [
        ("embeder", (), "found 'embeder' (they are embedder-small, embedder-large, ranker)"),
        ("embedder", (), "and of its variant where it has several"),
        ("ranker", (), "services.ranker: wanted requestTakes"),
    ],
)
def test_what_cannot_be_played_is_said_in_one_line(name: str, changes: tuple[Any, ...], wanted: str) -> None:
    with pytest.raises(ReplayError) as error:
        simulated(services_stack(*changes), name)

    assert wanted in str(error.value)
    assert "\n" not in str(error.value)


def test_the_calendars_floor_is_the_rule_of_the_workload_controller() -> None:
    hours = services_stack().business_hours.hours([2026])
    policy = FloorPolicy(name="a", namespace="b", keda=True, least=2, most=12, lead=timedelta(minutes=10), open=6)
    monday = datetime(2026, 6, 1, tzinfo=UTC)
    floor = CalendarFloor(policy, hours, monday)
    spans = [span for span in hours.open_spans(monday, monday + timedelta(days=1)) if span.start >= monday]
    opening = (spans[0].start - monday).total_seconds()

    assert [floor(opening + at) for at in (-601, -600, 0, 3600, -601)] == [2, 6, 6, 6, 2]
    assert floor.with_open(None)(opening) == 2
    by_minute = floor.by_minute(24 * 60)
    minute = round(opening / 60)
    assert [by_minute(minute + at, 4) for at in (-11, -10, 0)] == [2, 4, 4]
