"""Cheaper places of pods that a replay confirms."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.lab.advice import places
from ebbtide.lab.advice.places import cheaper_in_replay, waits_are_no_longer
from ebbtide.lab.simulator.replay import ReplayOptions, replay
from ebbtide.lab.simulator.results import PoolResult, Strategy, StrategyResult
from ebbtide.lab.simulator.setup import ReplaySetup, replay_setup_of
from ebbtide.lab.simulator.trace.jobs import Job, Trace
from ebbtide.settings import StackSettings
from tests.builders.replay import a_replay
from tests.builders.settings import loaded, shortest

TRITON = "{ category: flexible, image: 'example.com/triton:1', replicas: 3, cpu: 4, memory: 16Gi, gpu: 1 }"
GROUPS = """\
ebbtide:nodeGroups:
  fixed: { instanceTypes: [m7i.xlarge], min: 2, max: 4 }
  a10: { kind: gpu, instanceTypes: [g5.2xlarge], max: 8 }
  l4: { kind: gpu, instanceTypes: [g6.2xlarge], max: 8PRIORITY }
MORE
ebbtide:workloads: { triton: SERVICE }
"""
OPTIONS = ReplayOptions(
    days=1, start=datetime(2026, 3, 3, tzinfo=UTC), strategies=(Strategy.FIXED_FLEXIBLE,), rollouts=False
)
TRACE = Trace(name="short", jobs=(Job(40_000.0, 600.0, "train", 1.0, 1.0, 0.0),))


def stack(folder: Path, priority: str = "", more: str = "") -> StackSettings:
    text = GROUPS.replace("PRIORITY", priority).replace("MORE\n", more).replace("SERVICE", TRITON)
    return loaded(shortest(more=text), folder)


def sentences(settings: StackSettings) -> list[str]:
    return [*cheaper_in_replay(settings, TRACE, OPTIONS, replay(settings, TRACE, OPTIONS))]


def test_the_line_is_stated_with_both_costs_and_the_file_with_it_has_the_lower_one(tmp_path: Path) -> None:
    dear, cheap = stack(tmp_path), stack(tmp_path, priority=", priority: 10")
    dear_usd, cheap_usd = (
        replay(settings, TRACE, OPTIONS).strategies[Strategy.FIXED_FLEXIBLE].usd for settings in (dear, cheap)
    )
    assert dear_usd is not None
    assert cheap_usd is not None

    # Three nodes for a day, less the first half minute in which the autoscaler waits for more pods.
    assert dear_usd - cheap_usd == pytest.approx(3 * 24 * (1.212 - 0.9776), rel=0.01)
    assert (
        f"cheaper: write priority: 10 at nodeGroups.l4: fixed-flexible costs ${cheap_usd:.2f} instead of "
        f"${dear_usd:.2f} ({100 * (1 - cheap_usd / dear_usd):.0f} % less) with equal waits"
    ) in sentences(dear)
    assert not any("nodeGroups.l4" in sentence for sentence in sentences(cheap))


def test_at_most_three_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "".join(
        f"  m{name}: {{ kind: flexible, instanceTypes: [m7a.{name}, m7i.{name}], max: 9, min: 1 }}\n"
        for name in ("2xlarge", "4xlarge", "8xlarge", "12xlarge")
    )
    settings = stack(tmp_path, more=more)
    first = replay(settings, TRACE, OPTIONS)
    setups: list[StackSettings] = []

    def counted(stack: StackSettings, trace: Trace, options: ReplayOptions) -> ReplaySetup:
        setups.append(stack)
        return replay_setup_of(stack, trace, options)

    monkeypatch.setattr(places, "replay_setup_of", counted)

    assert [*cheaper_in_replay(settings, TRACE, OPTIONS, first)]
    assert len(setups) == 3


def test_an_overloaded_stack_has_no_line(tmp_path: Path) -> None:
    overloaded = replace(replay(stack(tmp_path), TRACE, OPTIONS), constant_nodes={"fixed": 2})

    assert [*cheaper_in_replay(stack(tmp_path), TRACE, OPTIONS, overloaded)] == []


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({}, True),
        ({"wait_p95_s": 120.0}, True),  # half a minute more counts as equal
        ({"wait_p95_s": 150.0}, False),
        ({"jobs_unfinished": 1}, False),
    ],
)
def test_no_pool_may_wait_longer(changes: dict[str, float], equal: bool) -> None:
    result = next(iter(a_replay().strategies.values()))
    pool = PoolResult(jobs=10, wait_p95_s=100.0, wait_p99_s=200.0, jobs_unfinished=0)
    other = PoolResult(jobs=1, wait_p95_s=9000.0, wait_p99_s=9000.0, jobs_unfinished=0)

    def of(first: PoolResult) -> StrategyResult:
        return replace(result, pools={"train": first, "other": other})

    assert waits_are_no_longer(of(pool), of(replace(pool, **changes))) is equal  # pyright: ignore[reportArgumentType] - of its fields


def test_no_more_jobs_may_be_interrupted() -> None:
    result = next(iter(a_replay().strategies.values()))

    assert not waits_are_no_longer(result, replace(result, jobs_interrupted=result.jobs_interrupted + 1))
