"""One setting on a history: the sum of several stretches, and the file's own floor."""

from datetime import datetime
from types import SimpleNamespace
from typing import cast

import pytest

from ebbtide.lab.advice.services import targets
from ebbtide.lab.advice.services.place import place_of
from ebbtide.lab.advice.services.stretches import stretches
from ebbtide.lab.advice.services.trial import SettingOutcome, Trials, mean_rate
from ebbtide.lab.simulator.services.counts import minutes_of
from ebbtide.lab.simulator.services.replay import ServiceCourse, ServiceOptions
from ebbtide.lab.simulator.services.run import TraceSpan
from ebbtide.lab.simulator.trace.counted import RequestTrace
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.tuned import a_stack

CROWDED = ("longestRequest: 60s", "longestRequest: 10s\n    maxInFlight: 40")
MONDAY = datetime(2026, 6, 1, 9)  # noqa: DTZ001 - a local time, given the customer's zone where it is read


def played(trace: RequestTrace, scale: str, *changes: tuple[str, str], most: int = 10**6) -> SettingOutcome:
    stack = a_stack(*changes, scale=scale)
    place = place_of(stack, "embedder-small")
    assert place is not None
    trials = Trials(stack=stack, place=place, trace=trace, options=ServiceOptions(rate=mean_rate(trace), start=MONDAY))
    hours = stretches(
        trace, 1.0, minutes_of(trace, 1.0), TraceSpan(0, len(trace.totals) * trace.window_s), most, seed=0
    )
    trial = trials.played(place.scale, hours)
    assert trial is not None
    return trial


@pytest.mark.parametrize(("slo_s", "share"), [(0.9, 0.0), (1.0, 0.25), (2.9, 0.5), (3.0, 0.75), (4.0, 1.0)])
def test_a_request_that_takes_as_long_as_the_slo_allows_is_within_it(slo_s: float, share: float) -> None:
    pod = SimpleNamespace(times=lambda: [1.0, 2.0, 3.0, 4.0])
    course = SimpleNamespace(service=SimpleNamespace(pod=pod, slo_s=slo_s))

    assert targets._alone(cast("ServiceCourse", course)) == share


def test_each_request_of_all_stretches_is_answered_lost_or_turned_away() -> None:
    rush = a_request_trace([*[300.0] * 12, 9000.0, *[300.0] * 12, 9000.0, *[300.0] * 12])

    trial = played(rush, "scale: { metrics: { inFlight: 3 }, min: 1, max: 2 }", CROWDED, most=16_000)

    result = trial.result
    assert trial.hours < 6
    assert result.lost > 0
    assert result.turned_away > 0
    assert result.sent == result.answered + result.lost + result.turned_away
    assert result.least_pods == 1
    assert result.most_pods == 2
    assert trial.within < 1 - (result.lost + result.turned_away) / result.sent


def test_the_calendars_floor_of_the_file_is_played() -> None:
    quiet = a_request_trace([60.0] * 12)
    scale = "scale: {{ metrics: {{ inFlight: 3 }}, min: 1, max: 12{} }}"

    assert played(quiet, scale.format("")).result.most_pods == 1
    assert played(quiet, scale.format(", floor: calendar, open: 5")).result.least_pods == 5
    assert played(quiet, scale.format(", floor: forecast, open: 5")).result.least_pods == 5


def test_a_month_is_extrapolated_from_the_hours_played() -> None:
    trial = played(a_request_trace([60.0] * 12), "scale: { metrics: { inFlight: 3 }, min: 2, max: 12 }")

    assert trial.hours == 2
    assert round(trial.month_pod_hours) == 2 * 730
    assert trial.result.usd is not None
    assert trial.month_usd == trial.result.usd / 2 * 730
