"""What one run is made of, drawn from its seed: pools, hours, load and the faults it aims at."""

from bisect import bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig, PoolPolicy, RedisEndpoint
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.harness.words import CELLS, Fault, Gap

RESYNC = 5.0
GUARD = 50.0
FLEXIBLE, FIXED = ("api", "web"), "ray-head"
_DAY = datetime(2026, 3, 4, tzinfo=UTC)  # a Wednesday
_FIRST_MINUTE = 12 * 60
TARGETS = 4  # faults that each run aims at a gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A fault to come at the first such gap after `armed_at`."""

    fault: Fault
    gap: Gap
    armed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    config: ControllerConfig
    start: datetime
    open_spans: tuple[tuple[float, float], ...]  # business hours, in the run's seconds
    faults_end: float
    targets: tuple[Target, ...]
    stray: tuple[tuple[float, Fault], ...]  # faults at no gap in particular
    lags: tuple[float, float]  # of the caches of objects and pods, without any fault
    closer_works: bool

    def in_hours(self, at: float) -> bool:
        index = bisect_right(self.open_spans, (at, float("inf"))) - 1
        return index >= 0 and at < self.open_spans[index][1]

    def in_window(self, at: float) -> bool:
        return not self.in_hours(at) and not self.in_hours(at + GUARD)

    def window_starts(self) -> tuple[float, ...]:
        return tuple(end for _, end in self.open_spans if self.in_window(end))

    def closing_times(self) -> tuple[float, ...]:
        return tuple(start - GUARD for start, _ in self.open_spans)


def scenario(seed: int) -> Scenario:
    random = Random(seed)
    hours, first_closing = _hours(random)
    # Most runs see the window open soon; some begin in the middle of it.
    lead = random.uniform(10, 50) if random.random() < 0.75 else random.uniform(-60, 10)
    start = _DAY + timedelta(minutes=first_closing, seconds=-lead)
    faults_end = random.uniform(140, 180)
    config = ControllerConfig(
        customer="acme",
        hours=hours,
        closing_guard=timedelta(seconds=GUARD),
        node_startup=timedelta(seconds=30),
        resync=timedelta(seconds=RESYNC),
        redis=RedisEndpoint(host="redis"),
        pools=tuple(_pool(random, name) for name in ("train", "embed")),
        budgets=tuple(BudgetPolicy(name=name, namespace="apps") for name in FLEXIBLE),
        never_opened=(BudgetPolicy(name=FIXED, namespace="apps"),),
    )
    spans = hours.open_spans(start - timedelta(minutes=10), start + timedelta(minutes=40))
    cells = [CELLS[(seed * TARGETS + number) % len(CELLS)] for number in range(TARGETS)]
    return Scenario(
        config=config,
        start=start,
        open_spans=tuple(((span.start - start).total_seconds(), (span.end - start).total_seconds()) for span in spans),
        faults_end=faults_end,
        targets=tuple(
            Target(fault=fault, gap=gap, armed_at=random.uniform(0, 0.3 * faults_end)) for fault, gap in cells
        ),
        stray=tuple(
            (random.uniform(0, faults_end), random.choice(list(Fault))) for _ in range(random.choice([0, 0, 1, 2]))
        ),
        lags=(random.choice([0.0, 0.02, 0.3]), random.choice([0.0, 0.02, 0.3])),
        closer_works=random.random() < 0.7,
    )


def _hours(random: Random) -> tuple[BusinessHours, int]:
    """Days and nights of a few minutes each; gives the minute at which the first day ends, too."""
    minute = _FIRST_MINUTE + 10
    intervals = [WeeklyInterval(2, _FIRST_MINUTE, minute)]
    for _ in range(6):
        opening = minute + random.randint(2, 3)
        closing = opening + random.randint(1, 3)
        intervals.append(WeeklyInterval(2, opening, closing))
        minute = closing
    return BusinessHours(timezone="UTC", week=tuple(intervals)), _FIRST_MINUTE + 10


def _pool(random: Random, name: str) -> PoolPolicy:
    pool = PoolPolicy(
        name=name,
        namespace="workers",
        deployment=name,
        source="rq",
        queues=(name,),
        jobs_per_worker=random.choice([1, 1, 2, 3]),
        min_workers=random.choice([0, 0, 0, 0, 1]),
        max_workers=random.randint(2, 6),
        stabilization_window=timedelta(seconds=random.choice([6, 9, 15])),
        longest_job=timedelta(hours=1),
        safe_stop=name == "train" or random.random() < 0.85,
    )
    return replace(pool, growth_per_minute=random.choice([None, None, None, 2]))
