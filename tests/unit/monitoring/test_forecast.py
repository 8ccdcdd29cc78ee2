"""The forecast of a service, played by Prometheus over a week that is known and one that lies."""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from components.serving.scaling import scaled_object
from components.serving.service import scaled_variants
from ebbtide.monitoring.documents import rules_document
from ebbtide.monitoring.recorded import Recorded
from ebbtide.settings import StackSettings
from tests.builders.workloads.services import services_stack

pytestmark = pytest.mark.process

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH (Debian's package prometheus has it)")

TARGET, MOST, EVERY, DAY = 3, 40, 5, 24 * 60  # minutes
TODAY, HALF_A_DAY = 8 * DAY, DAY // 2
NIGHT, NOON, RUSH = 3 * 60, 12 * 60, 9 * 60
OF = {"service": "embedder", "variant": "small"}


def stack(floor: str = ", floor: forecast") -> StackSettings:
    return services_stack(("min: 2, max: 12", f"min: 2, max: {MOST}{floor}"))


def clear_week(minute: int) -> float:
    """A clear week: 30 from 9 to 17 o'clock, else 3; it has gone on for eight days."""
    return 30 if RUSH <= minute % DAY < 17 * 60 else 3


def forecast(folder: Path, at: int, load: Callable[[int], float | None]) -> float | None:
    """Pods at this minute of today. `load`: by minute, None where nothing is known."""
    begins = (TODAY + at) % HALF_A_DAY  # rules are played every half day up to now, which is enough and quick
    values = [load(minute) for minute in range(begins, TODAY + at + 1, EVERY)]
    group = rules_document(stack())["groups"][0]
    rules = [rule for rule in group["rules"] if rule["record"] in FORECAST and rule["labels"]["variant"] == "small"]
    (folder / "rules.json").write_text(json.dumps({"groups": [{**group, "rules": rules}]}), encoding="utf-8")
    name = Recorded.FORECAST_PODS.of("acme", **OF)
    test: dict[str, Any] = {
        "interval": f"{EVERY}m",
        "input_series": [
            {
                "series": Recorded.IN_FLIGHT.of("acme", **OF),
                "values": " ".join("_" if value is None else f"{value:g}" for value in values),
            }
        ],
        "promql_expr_test": [{"expr": name, "eval_time": f"{TODAY + at - begins}m", "exp_samples": []}],
    }
    test_file: dict[str, Any] = {"rule_files": ["rules.json"], "evaluation_interval": f"{HALF_A_DAY}m", "tests": [test]}
    (folder / "tests.json").write_text(json.dumps(test_file), encoding="utf-8")
    done = subprocess.run([PROMTOOL or "", "test", "rules", "tests.json"], cwd=folder, capture_output=True, text=True)
    text = done.stdout + done.stderr
    assert done.returncode == 0 or "got:" in text, text
    if done.returncode == 0:
        return None
    return float(text.partition("got:")[2].rpartition("}")[2].split()[0])


FORECAST = {Recorded.USUAL.value, Recorded.LEVEL.value, Recorded.FORECAST_PODS.value}


def but(changed: Mapping[int, float | None]) -> Callable[[int], float | None]:
    """The clear week with these minutes of today changed."""
    return lambda minute: changed[minute - TODAY] if minute - TODAY in changed else clear_week(minute)


@needs_promtool
@pytest.mark.parametrize(("at", "pods"), [(NIGHT, 1), (RUSH - 5, 10), (NOON, 10), (17 * 60 + 20, 1)])
def test_a_clear_week_is_known_before_its_rush(at: int, pods: int, tmp_path: Path) -> None:
    assert forecast(tmp_path, at, clear_week) == pods


@needs_promtool
def test_a_busier_day_asks_for_more_and_one_that_is_half_as_busy_for_less(tmp_path: Path) -> None:
    def times(factor: float) -> Callable[[int], float]:
        return lambda minute: clear_week(minute) * (factor if minute >= TODAY else 1)

    assert forecast(tmp_path, NOON, times(1.5)) == 15
    assert forecast(tmp_path, NOON, times(0.5)) == 6  # 30 * (15 + 3) / (30 + 3)


@needs_promtool
def test_next_to_nothing_at_night_does_not_take_the_morning_away(tmp_path: Path) -> None:
    quiet = but(dict.fromkeys(range(0, RUSH, EVERY), 1))

    assert forecast(tmp_path, RUSH - 5, quiet) == 7  # 30 * (1 + 3) / (3 + 3)


@needs_promtool
def test_a_wild_night_makes_twice_the_usual_morning_at_most(tmp_path: Path) -> None:
    wild = but(dict.fromkeys(range(0, RUSH, EVERY), 30))

    assert forecast(tmp_path, RUSH - 5, wild) == 20


@needs_promtool
def test_an_unusual_rise_is_extrapolated_to_at_most_twice_the_load(tmp_path: Path) -> None:
    rise = but({NIGHT - 15: 6, NIGHT - 10: 9, NIGHT - 5: 12, NIGHT: 15})

    assert forecast(tmp_path, NIGHT, rise) == 6  # 19.5 by the trend, 18 by the cap


@needs_promtool
def test_it_is_silent_before_it_has_seen_three_days(tmp_path: Path) -> None:
    assert forecast(tmp_path, NOON, lambda minute: clear_week(minute) if minute >= TODAY - 2 * DAY else None) is None
    assert forecast(tmp_path, NOON, lambda minute: clear_week(minute) if minute >= TODAY - 3 * DAY else None) == 10


@needs_promtool
@pytest.mark.parametrize(("missing", "pods"), [({3}, 10), ({7}, 10), ({1, 2, 4, 6}, 10), ({1, 2, 4, 6, 7}, None)])
def test_days_that_are_missing_are_left_out_up_to_four(missing: set[int], pods: int | None, tmp_path: Path) -> None:
    def holes(minute: int) -> float | None:
        return None if (TODAY - minute + DAY - 1) // DAY in missing else clear_week(minute)

    assert forecast(tmp_path, NOON, holes) == pods


@needs_promtool
def test_what_is_counted_twice_makes_twice_the_pods_at_most(tmp_path: Path) -> None:
    today = forecast(tmp_path, NOON, lambda minute: clear_week(minute) * (2 if minute >= TODAY else 1))
    yesterday = forecast(
        tmp_path, NOON, lambda minute: clear_week(minute) * (2 if TODAY - DAY <= minute < TODAY else 1)
    )

    assert today == 20
    assert yesterday == 10, "one of seven days does not move the median"


@needs_promtool
def test_one_reading_out_of_all_measure_stays_below_max_and_a_gap_changes_nothing(tmp_path: Path) -> None:
    spike = forecast(tmp_path, NOON, but({NOON - 5: 100_000}))
    gap = forecast(tmp_path, NOON, but(dict.fromkeys(range(NOON - 90, NOON + 1, EVERY))))
    reset = forecast(tmp_path, NOON, but({NOON - 10: 0, NOON - 5: 0}))

    assert spike == MOST
    assert gap == 10
    assert reset is not None
    assert 9 <= reset <= 20


@needs_promtool
def test_days_of_a_clock_that_was_late_miss_the_rush_and_the_trend_makes_up_for_it(tmp_path: Path) -> None:
    def jumped(minute: int) -> float:
        return clear_week(minute if minute >= TODAY - DAY else minute - 2 * 60)

    assert forecast(tmp_path, RUSH - 5, jumped) == 1, "of seven days one is right: the calendar's floor stands alone"
    assert forecast(tmp_path, RUSH + 60, jumped) == 10


def test_only_a_service_that_asks_for_a_forecast_has_its_rules_and_its_trigger() -> None:
    def records(of: StackSettings) -> list[str]:
        return [rule["record"] for rule in rules_document(of)["groups"][0]["rules"] if rule["record"] in FORECAST]

    def triggers(of: StackSettings) -> list[dict[str, str]]:
        small, *_ = scaled_variants(of, "embedder", prometheus="http://p:9090", tolerance=True)
        return [it["metadata"] for it in scaled_object(small)["triggers"] if it["name"] == "forecast"]

    assert records(stack(floor="")) == records(stack(floor=", floor: calendar, open: 4")) == []
    of_a_variant = [Recorded.USUAL.value, Recorded.LEVEL.value, Recorded.FORECAST_PODS.value]
    assert records(stack()) == 2 * of_a_variant, "each asks for the one before"
    assert triggers(stack(floor="")) == []
    (trigger,) = triggers(stack())
    assert trigger["query"] == Recorded.FORECAST_PODS.of("acme", **OF)
    assert (trigger["threshold"], trigger["ignoreNullValues"]) == ("1", "true")
