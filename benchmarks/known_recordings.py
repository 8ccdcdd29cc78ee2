"""Months made of recordings: of the real Karpenter, and of a night on a real control plane.

Karpenter: in a recording workers and a service start together, the workers end, and later the budgets open. The month
repeats these states each working day: the service sleeps at night, so each morning begins without nodes, as the
recording did. The states last for hours instead of seconds. Budgets that never open keep the last state before they
opened, until the service sleeps.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from benchmarks.known_month import Course, Known, Life, Money, Ran, peak_of, recording_of, setup_of
from ebbtide.lab.ledger.alternatives import NEVER_OPEN, PEAK, PEAK_WORKERS
from ebbtide.lab.ledger.month import Month
from ebbtide.lab.simulator.results import Strategy
from ebbtide.lab.simulator.setup import ReplaySetup
from ebbtide.lab.simulator.strategies.table import STRATEGIES
from ebbtide.lab.simulator.trace.traces import Job
from ebbtide.prices import instance_type
from ebbtide.settings import StackSettings, parse_stack
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.sections.node_groups import shape_name
from ebbtide.text.durations import HOUR_S
from ebbtide.vocabulary.windows import wall_to_instant

KARPENTER = ("day-budget-zero-then-open", "pdb-zero-blocks-then-opens")
NOVEMBER = Month(year=2026, month=11, zone="Europe/Berlin")
SCENARIOS = Path(__file__).parents[1] / "tests/data/karpenter-scenarios/given.json"
STACK_FILE = SCENARIOS.parents[1] / "stacks/Pulumi.demo.yaml"
NIGHT = SCENARIOS.parents[1] / "ledger-night.json"
_BOOT_S = 60.0  # of an instance before its node registers: KWOK's nodes have none
_WORK, _REST, _SLEEP = (7.5, 17.0), 18.0, 23.0
"""Local hours: of workers, of the end of business hours, and of the service's sleep."""
_STACK = """\
config:
  ebbtide:customer: acme
  ebbtide:businessHours: {{ timezone: Europe/Berlin, week: {{ mon-fri: "08:00-18:00" }} }}
  aws:region: us-east-1
  ebbtide:nodeGroups:
    fixed: {{ instanceTypes: [m7i.2xlarge], min: 2, max: 4 }}
    flexible: {{ instanceTypes: [{types}], max: 20, provisioner: karpenter }}
  ebbtide:workloads:
    api: {{ category: flexible, image: 'example.com/api:1', replicas: {api}, cpu: 1, memory: 2Gi, {sleep} }}
  ebbtide:workers:
    worker:
      {{ source: {{ queues: [worker] }}, image: 'example.com/worker:1', max: 8, cpu: 3, memory: 6Gi, longestJob: 12h }}
"""
_SLEEPS = "sleep: { when: outsideBusinessHours, after: 5h }"


def karpenter_month(scenario: str, month: Month = NOVEMBER) -> Known:
    """Return the month of the first run of a recorded scenario. The other runs have the same nodes."""
    recorded = next(it for it in json.loads(SCENARIOS.read_text(encoding="utf-8")) if it["name"] == scenario)
    settings = _stack(recorded)
    course = Course(settings=settings, month=month, jobs=(Job(0.0, 60.0, "worker", 1.0, 1.0, 0.0),))
    setup = setup_of(course)
    money = Money(course, STRATEGIES[Strategy.FIXED_FLEXIBLE].topology(setup.settings))
    states = _states(recorded, recorded["runs"][0])
    lives = [*_fixed(money.end_s), *_lives(states, setup)]
    workers = recorded["workloads"][0 if recorded["workloads"][0]["name"] == "worker" else 1]["replicas"]
    wanted = [(0.0, 0.0)]
    for begin in _days(setup):
        wanted += [(begin + _WORK[0] * HOUR_S, float(workers)), (begin + _WORK[1] * HOUR_S, 0.0)]
    ran = Ran(lives=lives, wanted={"worker": wanted})
    closed = [*_fixed(money.end_s), *_lives([*states[:2], states[1]], setup)]
    constant = [*_fixed(money.end_s), *(_life(f"all-{i}", kind, 0.0, money.end_s) for i, kind in enumerate(states[0]))]
    return Known(
        month=month,
        settings=settings,
        recording=recording_of(course, ran, setup, money),
        truths={
            NEVER_OPEN: money.usd(closed),
            PEAK: money.usd_of_month(peak_of(lives, money)),
            PEAK_WORKERS: money.usd_of_month(constant),
        },
        paid_usd=money.usd(lives),
    )


def _stack(recorded: Mapping[str, Any]) -> StackSettings:
    types = ", ".join(kind["name"] for kind in recorded["karpenter"]["instance_types"])
    counts = {"api": 0}
    for step in recorded["timeline"]:
        counts |= {name: count for name, count in step.get("scale", {}).items() if name == "api"}
    api = counts["api"] or next(it["replicas"] for it in recorded["workloads"] if it["name"] == "api")
    text = _STACK.format(types=types, api=api, sleep=_SLEEPS)
    return stack_of_text(text, stack=recorded["name"], file=recorded["name"])


def _states(recorded: Mapping[str, Any], run: Mapping[str, Any]) -> list[list[str]]:
    """Return the types of the nodes with the workers, without them before budgets open, and at the end."""
    ends = next(step["at_s"] for step in recorded["timeline"] if step.get("scale", {}).get("worker") == 0)
    opens = next((step["at_s"] for step in recorded["timeline"] if "pdb" in step), None)
    opens = recorded["karpenter"]["node_pools"][0]["budgets"][0]["until_s"] if opens is None else opens
    return [_types_at(run, at) for at in (ends - 1, opens - 1, recorded["end_s"] - 1)]


def _types_at(run: Mapping[str, Any], at: float) -> list[str]:
    return [node["type"] for node in run["nodes"] if node["from_s"] <= at < node["to_s"]]


def _days(setup: ReplaySetup) -> Iterator[float]:
    """Yield the local midnights of working days, in seconds."""
    hours = setup.config.hours
    day = setup.start.date()
    while (
        at := (wall_to_instant(hours.timezone, day, 0, last=False) - setup.start) / timedelta(seconds=1)
    ) < setup.end_s:
        if day.weekday() < 5:
            yield at
        day += timedelta(days=1)


def _fixed(end_s: float) -> list[Life]:
    return [_life_of(f"fixed-{number}", "fixed", 0.0, end_s) for number in range(2)]


def _lives(states: Sequence[Sequence[str]], setup: ReplaySetup) -> Iterator[Life]:
    """Yield the nodes of all days. A node goes on if the next state has one of its type."""
    edges = (_WORK[0], _WORK[1], _REST, _SLEEP)
    born = 0
    for begin in _days(setup):
        there: list[tuple[str, float]] = []
        for state, hour in zip((*states, []), edges, strict=True):
            at, left = begin + hour * HOUR_S, list(state)
            stay: list[tuple[str, float]] = []
            for kind, since in there:
                if kind in left:
                    left.remove(kind)
                    stay.append((kind, since))
                else:
                    born += 1
                    yield _life(f"{kind}-{born}", kind, since, at)
            there = [*stay, *((kind, at) for kind in left)]


def _life(name: str, kind: str, begin: float, end: float) -> Life:
    return _life_of(name, shape_name("flexible", instance_type(kind)), begin, end)


def _life_of(name: str, shape: str, begin: float, end: float) -> Life:
    return Life(name=name, shape=shape, launched=max(0.0, begin - _BOOT_S), registered=begin, end=end)


def night_month(file: Path = NIGHT) -> Known:
    """Return a month of the day and night that `benchmarks.ledger_night` recorded twice, at the same local times."""
    recorded = json.loads(file.read_text(encoding="utf-8"))
    settings = _all_days_alike(STACK_FILE.read_text(encoding="utf-8"))
    month = Month(year=2026, month=6, zone=settings.business_hours.timezone)
    course = Course(settings=settings, month=month, jobs=(Job(0.0, 60.0, "prep", 1.0, 1.0, 0.0),))
    setup = setup_of(course)
    money = Money(course, STRATEGIES[Strategy.FIXED_FLEXIBLE].topology(setup.settings))
    begun = datetime.fromisoformat(recorded["start"])
    first = (begun - month.begin) % timedelta(seconds=recorded["seconds"]) / timedelta(seconds=1)
    days = _Repeated(first_s=first, day_s=recorded["seconds"], end_s=money.end_s)
    as_it_was, closed = (recorded[name] for name in ("budgets open", "budgets never open"))
    lives = [*days.lives(as_it_was)]
    wanted = {pool: days.steps(steps) for pool, steps in as_it_was["wanted"].items()}
    return Known(
        month=month,
        settings=settings,
        recording=recording_of(course, Ran(lives=lives, wanted=wanted), setup, money),
        truths={NEVER_OPEN: money.usd(days.lives(closed)), PEAK: money.usd_of_month(peak_of(lives, money))},
        paid_usd=money.usd(lives),
    )


def _all_days_alike(text: str) -> StackSettings:
    """Return the stack with the same business hours on each day of the week, and without holidays."""
    config = yaml.safe_load(text)["config"]
    hours = config["ebbtide:businessHours"]
    config["ebbtide:businessHours"] = {"timezone": hours["timezone"], "week": {"mon-sun": hours["week"]["mon-thu"]}}
    return parse_stack(config, stack="demo", file=STACK_FILE.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repeated:
    """A recorded day for each day of a month. `first_s`: the second of the month at which it first begins."""

    first_s: float
    day_s: float
    end_s: float

    def steps(self, recorded: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return the recorded steps on all days, from second 0 on."""
        begins = (self.first_s + day * self.day_s for day in range(-1, math.ceil(self.end_s / self.day_s)))
        steps = [(begin + at, float(value)) for begin in begins for at, value in recorded if begin + at < self.end_s]
        before = [value for at, value in steps if at <= 0]
        return [(0.0, before[-1] if before else 0.0), *(step for step in steps if step[0] > 0)]

    def lives(self, course: Mapping[str, Any]) -> Iterator[Life]:
        """Yield nodes with the recorded number of each group. The newest node ends first."""
        for group in course["nodes"][0][1]:
            there: list[tuple[str, float]] = []
            born = 0
            for at, count in (*self.steps([(at, nodes[group]) for at, nodes in course["nodes"]]), (self.end_s, 0.0)):
                while len(there) < count:
                    born += 1
                    there.append((f"{group}-{born}", at))
                while len(there) > count:
                    name, since = there.pop()
                    boot_s = course["latencies"]["boot_s"] if since else 0.0
                    yield Life(name=name, shape=group, launched=since, registered=min(at, since + boot_s), end=at)
