"""Floors are computed from demand, are valid in a stack file as printed, and help in weeks they were not found on."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import yaml

from ebbtide.lab.advice.floors import Calendar, FloorRule, LearntFloor, Means, PoolDemand, floor_of, with_floors
from ebbtide.lab.advice.floors_text import as_json, as_text
from ebbtide.lab.advice.trials import FloorAdvice, Trial, TrialOutcome, floor_advice, within
from ebbtide.lab.simulator.results import UnpricedGroup
from ebbtide.lab.simulator.setup import ReplayError, ReplayOptions
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.lab.simulator.world.failures import Failures
from ebbtide.lab.simulator.world.pools import PooledJob
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.business_hours import Overnight
from ebbtide.vocabulary.windows import zone_of
from tests.builders.simulator import HOUR, a_job, a_pool, a_stack, a_trace
from tests.builders.terminal import shown_text

DAY = 24 * HOUR
MONDAY = datetime(2026, 6, 1, tzinfo=zone_of("America/New_York"))
CALENDAR = Calendar(hours=a_stack().business_hours.hours([2026]), start=MONDAY)
OPTIONS = ReplayOptions(start=MONDAY)


def text_of(advice: FloorAdvice, adopted: Collection[str] = (), overnight: Sequence[Overnight] = ()) -> str:
    return shown_text(as_text(advice, adopted, overnight))


def floors_of(means: Means, jobs: Sequence[PooledJob], weeks: int = 2, quantile: float = 0.5) -> LearntFloor | None:
    return floor_of(FloorRule(means, quantile), "train", PoolDemand(jobs), CALENDAR, range(weeks))


def every_day(*, at: float, lasts: float, members: int, days: Sequence[int] = range(14)) -> list[PooledJob]:
    return [PooledJob(day * DAY + at, lasts, "train", members) for day in days]


def test_a_morning_floor_is_the_demand_of_its_first_hour_for_as_long_as_demand_stays() -> None:
    jobs = every_day(at=8 * HOUR, lasts=2 * HOUR, members=3) + every_day(at=9.5 * HOUR, lasts=HOUR, members=2)

    floor = floors_of(Means.MORNING, jobs)

    assert floor is not None
    assert (floor.workers, floor.hours, floor.line) == (3, 2, "morning: { workers: 3, for: 2h }")
    assert floor.wanted == dict.fromkeys(range(5), 3)


def test_a_night_s_floor_is_the_longest_stretch_of_work_past_midnight_too() -> None:
    jobs = every_day(at=23 * HOUR, lasts=3 * HOUR, members=2) + every_day(at=12 * HOUR, lasts=HOUR, members=4)

    floor = floors_of(Means.OVERNIGHT, jobs)

    assert floor is not None
    assert floor.line == 'overnight: [{ pool: train, at: "23:00", for: 3h, workers: 2 }]'


def test_demand_in_business_hours_gives_no_floor_of_the_night() -> None:
    by_day = every_day(at=9 * HOUR, lasts=6 * HOUR, members=4)
    until_late = every_day(at=16 * HOUR, lasts=5 * HOUR, members=1)

    assert floors_of(Means.OVERNIGHT, by_day) is None
    assert getattr(floors_of(Means.OVERNIGHT, by_day + until_late), "line", None) == (
        'overnight: [{ pool: train, at: "19:00", for: 2h, workers: 1 }]'
    )


def test_work_around_the_clock_needs_a_min_and_no_nightly_floor() -> None:
    jobs = every_day(at=0, lasts=DAY, members=2)

    assert floors_of(Means.OVERNIGHT, jobs) is None
    assert getattr(floors_of(Means.MIN, jobs), "line", None) == "min: 2"


@pytest.mark.parametrize("means", list(Means))
def test_no_demand_gives_no_floor(means: Means) -> None:
    assert floors_of(means, every_day(at=8 * HOUR, lasts=HOUR, members=5, days=[2])) is None


def test_the_reason_can_be_recounted() -> None:
    floor = floors_of(Means.MORNING, every_day(at=8 * HOUR, lasts=HOUR, members=2, days=[0, 1, 2, 3, 7, 8, 9]))

    assert floor is not None
    assert floor.reason(FloorRule(Means.MORNING, 0.5), 2) == (
        "workers wanted in the first hour after opening, not exceeded in 50% of 2 weeks: "
        "Mon 2, Tue 2, Wed 2, Thu 0, Fri 0; the median is taken"
    )


def a_floor(means: Means, workers: int, hours: int = 2) -> LearntFloor:
    return LearntFloor(pool="train", means=means, workers=workers, hours=hours, at=6, wanted={})


def test_floors_enter_the_stack_and_never_pass_the_pool_s_max() -> None:
    stack = a_stack({"train": a_pool(most=4)})

    planned = with_floors(stack, [a_floor(Means.MORNING, 9), a_floor(Means.OVERNIGHT, 3), a_floor(Means.MIN, 1)])

    pool, (night,) = planned.workers["train"], planned.business_hours.overnight
    assert pool.morning is not None
    assert (pool.morning.workers, pool.morning.for_, pool.min) == (4, timedelta(hours=2), 1)
    assert (night.pool, night.at, night.workers) == ("train", "06:00", 3)


def test_a_floor_that_is_planned_already_is_never_lowered() -> None:
    stack = with_floors(a_stack(), [a_floor(Means.MORNING, 5, hours=3), a_floor(Means.MIN, 2)])

    again = with_floors(stack, [a_floor(Means.MORNING, 2), a_floor(Means.MIN, 1)])

    assert again.workers == stack.workers


FILE = """\
config:
  ebbtide:customer: acme
  ebbtide:businessHours:
    timezone: Europe/Berlin
    week: {{ mon-fri: "08:00-18:00" }}
    {hours}
  ebbtide:workers:
    train:
      source: {{ queues: [train] }}
      image: registry.example.com/ml/train:1
      max: 4
      cpu: 4
      memory: 16Gi
      longestJob: 12h
      {pool}
"""


def parsed_settings(*, hours: str = "", pool: str = "") -> StackSettings:
    return stack_of_text(FILE.format(hours=hours, pool=pool), stack="acme", file="acme.yaml")


@pytest.mark.parametrize("means", list(Means))
def test_a_printed_line_in_the_stack_file_is_the_floor_that_was_tried(means: Means) -> None:
    floor = a_floor(means, 2)

    written = parsed_settings(hours=floor.line) if means is Means.OVERNIGHT else parsed_settings(pool=floor.line)

    assert written == with_floors(parsed_settings(), [floor])
    assert written != parsed_settings()


def mornings(weeks: Sequence[int], *, at: float = 8 * HOUR, days: int = 5) -> Iterator[Job]:
    """On the first `days` of each week four jobs at opening, of twenty minutes."""
    for week in weeks:
        for day in range(days):
            yield from (a_job((7 * week + day) * DAY + at + second, 1200, cpu=4, memory=16) for second in range(4))


def advised(
    jobs: Sequence[Job], stack: StackSettings | None = None, spend: float = 0.5, failures: Failures | None = None
) -> FloorAdvice:
    end = a_job(3 * 7 * DAY - 1, 1)  # so that there are three weeks
    options = OPTIONS if failures is None else replace(OPTIONS, failures=failures)
    return floor_advice(stack or a_stack({"train": a_pool()}), a_trace([*jobs, end]), options, spend)


@pytest.fixture(scope="module")
def habit() -> FloorAdvice:
    return advised(list(mornings(range(3))))


def test_a_habit_of_every_week_gets_a_morning_that_cuts_the_waits_of_weeks_it_has_not_seen(habit: FloorAdvice) -> None:
    advice = habit

    (trial,) = advice.advised
    assert trial.floor.line == "morning: { workers: 4, for: 1h }"
    assert advice.total is not None
    before, after = advice.total.p95_wait_s
    assert before > 100  # a node's start
    assert after < 10
    assert advice.total.usd_a_month is not None
    assert advice.total.usd_a_month > 0


def test_what_happened_in_one_week_only_is_no_habit() -> None:
    assert advised(list(mornings([1]))).advised == ()


def test_a_gain_within_the_spread_of_five_seeds_is_not_advised() -> None:
    """Boots take between a second and hours, so what a floor saves is chance; its cost is within the limit."""
    advice = advised(list(mornings(range(3), days=3)), failures=Failures(slow_boots=2.5))

    (best,) = within(0.5, advice.trials)
    assert best.verdict.saved_hours > 0
    assert advice.advised == ()
    assert "by more than the spread of 5 seeds" in text_of(advice)


def test_no_floor_is_tried_on_the_week_that_taught_it() -> None:
    """Only week 1 has mornings: its own floor would cut its waits, the others' floors have nothing to cut."""
    trials = advised([a_job(6 * DAY, 60), *mornings([1])]).trials

    assert [trial.floor.means for trial in trials if trial.rule.quantile == 0.9] == [Means.MORNING]
    assert [trial.verdict.saved_hours for trial in trials] == [0.0] * len(trials)


def a_trial(pool: str, saved_hours: float, cost: float, better: int = 3) -> Trial:
    """On three weeks of 100 dollars."""
    verdict = TrialOutcome(
        weeks=3,
        weeks_better=better,
        jobs=10,
        usd=(300.0, 300.0 * (1 + cost)),
        vcpu_hours=(0.0, 0.0),
        waited_hours=(50.0, 50.0 - saved_hours),
        mean_wait_s=(0.0, 0.0),
        p95_wait_s=(0.0, 0.0),
    )
    floor = replace(a_floor(Means.MORNING, 1), pool=pool)
    return Trial(rule=FloorRule(Means.MORNING, 0.5), floor=floor, verdict=verdict)


@pytest.mark.parametrize(
    ("trials", "chosen"),
    [
        ([a_trial("a", 1, 0.01), a_trial("a", 2, 0.05)], [0]),  # the better one is too dear
        ([a_trial("a", 1, 0.01), a_trial("a", 2, 0.02)], [1]),
        ([a_trial("a", 2, 0.015), a_trial("a", 2, 0.01)], [1]),  # as good and cheaper
        ([a_trial("a", 1, 0.015), a_trial("b", 3, 0.015)], [1]),  # together they are too dear: most for the money
        ([a_trial("a", 1, 0.01), a_trial("b", 3, 0.01)], [1, 0]),
        ([a_trial("a", 1, -0.01), a_trial("b", 3, 0.02)], [0, 1]),  # what saves money leaves the limit as it is
        ([a_trial("a", -1, 0.0)], []),
        ([a_trial("a", 1, 0.0, better=1)], []),
    ],
)
def test_what_is_advised_stays_within_the_limit_and_cuts_most_for_it(trials: list[Trial], chosen: list[int]) -> None:
    assert list(within(0.02, trials)) == [trials[place] for place in chosen]


def test_a_floor_that_costs_more_than_may_be_spent_is_shown_and_not_advised() -> None:
    advice = advised(list(mornings(range(3))), spend=0.0001)

    assert advice.advised == ()
    assert any(trial.floor.means is Means.MORNING for trial in advice.trials)
    assert "No floor is worth it" in text_of(advice)


def test_a_morning_that_is_there_already_gains_nothing() -> None:
    stack = with_floors(a_stack({"train": a_pool()}), [a_floor(Means.MORNING, 6)])

    assert not [
        trial for trial in advised(list(mornings(range(3))), stack).advised if trial.floor.means is Means.MORNING
    ]


def test_one_week_is_too_short_to_find_a_floor_and_try_it() -> None:
    with pytest.raises(ReplayError, match=r"wanted at least 2 whole weeks with jobs, .*found 1 in 8 days"):
        floor_advice(a_stack(), a_trace([a_job(0), a_job(7 * DAY)]), OPTIONS, 1.0)


def test_text_and_document_tell_the_same(habit: FloorAdvice) -> None:
    text, document = text_of(habit), as_json(habit)
    pool = habit.advised[0].floor.pool

    assert f"ebbtide:workers, {pool}:" in text
    assert f"ebbtide:adopted, {pool}, pool:" in text_of(habit, [pool])
    (place,) = document["advised"]
    assert document["trials"][place]["line"] in text
    assert document["trials"][place]["reason"] in text.replace("\n# ", " ")
    assert max(len(line) for line in text.splitlines() if "→" in line) <= 80


def test_the_last_line_names_the_nodes_without_a_price(habit: FloorAdvice) -> None:
    lacking = replace(habit, unpriced=(UnpricedGroup(name="gpu", instance_type="g9g.4xlarge", region="eu-west-1"),))

    assert text_of(habit).endswith("Dollars are nodes only, at the stack's own pricing assumption.")
    assert "No price is known in eu-west-1 for the nodes of gpu (g9g.4xlarge)" in text_of(lacking)
    assert "Dollars are nodes only" not in text_of(lacking)


def test_nights_of_several_pools_are_one_list_that_keeps_those_of_the_file(habit: FloorAdvice) -> None:
    planned = "overnight: [{ pool: train, at: '02:00', for: 90m, workers: 3 }]"
    (trial,) = habit.advised
    nights = [replace(a_floor(Means.OVERNIGHT, 2), pool=pool, at=at) for pool, at in (("train", 23), ("prep", 4))]
    advice = replace(habit, advised=tuple(replace(trial, floor=floor) for floor in nights))

    text = text_of(advice, (), parsed_settings(hours=planned).business_hours.overnight)

    block = text[text.index("ebbtide:businessHours:") : text.index("\n\nIn total")]
    assert block.count("overnight:") == text.count("ebbtide:businessHours:") == 1
    entries = [dict(entry) for entry in yaml.safe_load(block)["ebbtide:businessHours"]["overnight"]]
    assert entries == [
        {"pool": "train", "at": "02:00", "for": "90m", "workers": 3},
        {"pool": "train", "at": "23:00", "for": "2h", "workers": 2},
        {"pool": "prep", "at": "04:00", "for": "2h", "workers": 2},
    ]


def test_comments_stay_comments_in_a_terminal_of_80_columns(habit: FloorAdvice) -> None:
    (trial,) = habit.advised
    both = [replace(trial, floor=a_floor(means, 2)) for means in (Means.MORNING, Means.OVERNIGHT)]

    comments = [line for line in text_of(replace(habit, advised=tuple(both))).splitlines() if line.lstrip()[:1] == "#"]

    assert len(comments) > len(both)
    assert all(len(line) < 80 for line in comments)


def test_a_floor_never_asks_for_more_workers_than_the_pool_may_have() -> None:
    advice = advised(list(mornings(range(3))), a_stack({"train": a_pool(most=3)}))

    assert {trial.floor.workers for trial in advice.trials if trial.floor.means is Means.MORNING} == {3}
