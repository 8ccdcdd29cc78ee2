"""The rendered rules of a forecast, evaluated by Prometheus, against the simulator's: pod by pod, minute by minute.

A minute of the simulator is a sample in its middle: then a range has as many minutes in every version of Prometheus.
What may differ is one pod where a number lies on the edge of two.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ebbtide.lab.simulator.services.counts import DAY_MINUTES, Minutes
from ebbtide.lab.simulator.services.floors import ClosedDay, forecast_of
from ebbtide.lab.simulator.services.served import simulated
from ebbtide.monitoring.documents import rules_document
from ebbtide.monitoring.recorded import Recorded
from ebbtide.settings import StackSettings
from tests.builders.workloads.played import clear_week, never
from tests.builders.workloads.services import services_stack

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH (Debian's package prometheus has it)"),
]

MOST, MARGIN, TODAY = 40, 1.3, 7 * DAY_MINUTES
STACK = services_stack(
    ("{ inFlight: 3, latency: 300ms }", "{ inFlight: 3 }"),
    ("min: 2, max: 12", f"min: 2, max: {MOST}, floor: forecast, margin: {MARGIN}"),
)
OF = {"service": "embedder", "variant": "small"}


CLOSED = Recorded.CLOSED_DAY.of("acme")


def rule(stack: StackSettings) -> str:
    """The last of the three, with the others written out where it asks for them."""
    by_rules = {
        it["record"]: it["expr"]
        for it in rules_document(stack)["groups"][0]["rules"]
        if it.get("labels", {}).get("variant") == "small"
    }
    expression: str = by_rules[Recorded.FORECAST_PODS.value]
    for record in (Recorded.USUAL, Recorded.LEVEL):
        series = record.of("acme", **OF)
        assert series in expression
        expression = expression.replace(series, f"({by_rules[record.value]})")
    return expression


def by_prometheus(
    folder: Path, in_flight: Sequence[float | None], closed: ClosedDay, at: Sequence[int]
) -> Mapping[int, int]:
    """Pods at each of these minutes; 0 where it is silent."""
    expr = rule(STACK)
    values = " ".join("_ _" if value is None else f"_ {value:.6f}" for value in in_flight)
    test: dict[str, Any] = {
        "interval": "30s",
        "input_series": [
            {"series": Recorded.IN_FLIGHT.of("acme", **OF), "values": values},
            {"series": CLOSED, "values": " ".join(f"{closed(minute):d}x1" for minute in range(len(in_flight)))},
        ],
        "promql_expr_test": [
            {"expr": expr, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": -1}]} for minute in at
        ],
    }
    (folder / "tests.json").write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}), encoding="utf-8")
    done = subprocess.run([PROMTOOL or "", "test", "rules", "tests.json"], cwd=folder, capture_output=True, text=True)
    got = [line.partition("got:")[2] for line in (done.stdout + done.stderr).splitlines() if "got:" in line]
    assert len(got) == len(at), done.stderr[:2000]
    return {minute: int(float(it.split()[-1])) if "}" in it else 0 for minute, it in zip(at, got, strict=True)}


def by_simulator(in_flight: Sequence[float | None], closed: ClosedDay, at: Sequence[int]) -> Mapping[int, int]:
    service = simulated(STACK, "embedder-small")
    takes = service.pod.request_s
    rates = [None if value is None else value / takes for value in in_flight]
    return {
        minute: forecast_of(service, Minutes(rates[:minute]), closed).pods(minute, MARGIN, service.most)
        for minute in at
    }


def week(seed: int) -> list[float | None]:
    return [3 * (rate or 0) for rate in clear_week(days=8, seed=seed, noise=0.1).rates]


def a_day_missing(rates: list[float | None]) -> None:
    rates[3 * DAY_MINUTES : 4 * DAY_MINUTES] = [None] * DAY_MINUTES


def doubled(rates: list[float | None]) -> None:
    begin = 6 * DAY_MINUTES
    rates[begin:] = [2 * (rate or 0) for rate in rates[begin:]]


def a_reset(rates: list[float | None]) -> None:
    for minute in (TODAY + 440, TODAY + 481, TODAY + 700):
        rates[minute : minute + 10] = [0.0] * 10


def a_jump_of_the_clock(rates: list[float | None]) -> None:
    rates[TODAY - 400 : TODAY] = [None] * 400


def holes(rates: list[float | None]) -> None:
    chance = Random(4)
    for minute in range(len(rates)):
        if chance.random() < 0.3:
            rates[minute] = None


def four_days(rates: list[float | None]) -> None:
    rates[: 4 * DAY_MINUTES] = [None] * (4 * DAY_MINUTES)


def two_days(rates: list[float | None]) -> None:
    rates[: 5 * DAY_MINUTES] = [None] * (5 * DAY_MINUTES)


LIES = (a_day_missing, doubled, a_reset, a_jump_of_the_clock, holes, four_days, two_days)


def compared(
    folder: Path, in_flight: list[float | None], at: Sequence[int], closed: ClosedDay = never
) -> tuple[list[int], list[int]]:
    rule_says, simulator_says = by_prometheus(folder, in_flight, closed, at), by_simulator(in_flight, closed, at)
    return [rule_says[minute] for minute in at], [simulator_says[minute] for minute in at]


def differing(by_rules: list[int], played: list[int]) -> int:
    """Minutes in which the two are not equal, and never more than a pod apart."""
    assert max(abs(left - right) for left, right in zip(by_rules, played, strict=True)) <= 1
    return sum(left != right for left, right in zip(by_rules, played, strict=True))


def test_a_rush_is_foreseen_alike_minute_by_minute(tmp_path: Path) -> None:
    by_rules, played = compared(tmp_path, week(1), range(TODAY + 455, TODAY + 505))

    assert max(by_rules) > 3 * min(by_rules), "the rush is among these minutes"
    assert differing(by_rules, played) <= 1


@pytest.mark.parametrize("lie", LIES)
def test_a_history_that_lies_is_read_alike_and_stays_within_max(lie: Any, tmp_path: Path) -> None:
    in_flight = week(2)
    lie(in_flight)
    by_rules, played = compared(tmp_path, in_flight, range(TODAY + 435, TODAY + 720, 15))

    assert differing(by_rules, played) <= 1
    assert max(by_rules) <= MOST
    assert (max(by_rules) == 0) == (lie is two_days)


def on_days(*closed: int) -> ClosedDay:
    return lambda minute: minute // DAY_MINUTES in closed


@pytest.mark.parametrize(
    ("today", "before", "pods"),
    [
        (True, (4, 5), range(1, 5)),  # a holiday is like the weekend before
        (False, (4, 5), range(17, 20)),
        (False, (3, 4, 5), range(17, 20)),  # nor is an open day misled by a holiday among the seven
        (True, (), range(17, 20)),  # nothing is like it
    ],
)
def test_a_holiday_has_the_shape_of_closed_days_and_an_open_day_that_of_open_ones(
    *, today: bool, before: tuple[int, ...], pods: range, tmp_path: Path
) -> None:
    quiet = on_days(*before)
    in_flight = [3.0 if quiet(minute) else rate for minute, rate in enumerate(week(3)[: TODAY + 480])]
    days = on_days(*before, *([7] if today else []))
    by_rules, played = compared(tmp_path, in_flight, range(TODAY + 470, TODAY + 480), days)

    assert differing(by_rules, played) <= 1
    assert by_rules[-1] in pods
