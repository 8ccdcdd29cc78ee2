"""Laws of pools in a message broker: counts that are late, missing or wrong stop no busy worker."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pytest

from controllers.adapters.broker_rules import Answer, BrokerRules, Count, Reports, Timings
from controllers.ports import Known, Reading, Unknown, Untrusted
from tests.builders.brokers import POOL, BrokerWorld, SqsWorld
from tests.counts import count

WORLDS = (BrokerWorld, SqsWorld)
STEPS = {BrokerWorld: 150, SqsWorld: 300}
FEW = 60
MANY = 10_000
UNTIL_FOUND = 400


def run(world_type: type[BrokerWorld], seed: int, rules: type[BrokerRules] = BrokerRules) -> BrokerWorld:
    world = world_type(seed, partial(rules, POOL))
    for _ in range(STEPS[world_type]):
        world.step()
        for _ in range(world.random.choice([1, 1, 1, 1, 0, 3])):  # events wake the controller sooner, or are late
            world.look()
    return world


@pytest.mark.parametrize("world_type", WORLDS)
def test_no_sequence_of_answers_stops_a_worker_that_is_busy_or_does_not_report_idle(
    world_type: type[BrokerWorld],
) -> None:
    stopped = 0
    for seed in range(FEW):
        world = run(world_type, seed)
        assert world.wrongs() == [], f"seed {seed}"
        stopped += world.stopped

    assert stopped > FEW / 4  # the runs do shrink: otherwise the law would say nothing


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize("world_type", WORLDS)
def test_ten_thousand_runs_stop_no_busy_worker(world_type: type[BrokerWorld], block: int) -> None:
    each = count(MANY, MANY // 10) // 10
    for seed in range(block * each, block * each + each):
        assert run(world_type, seed).wrongs() == [], f"seed {seed}"


class _Bug(BrokerRules):
    """Rules whose reading is changed as `changed` says."""

    def look(self, at: float, link: str, answers: Mapping[str, Answer], reports: Reports | Unknown) -> Reading:
        reading = super().look(at, link, answers, reports)
        if isinstance(reading, Known) and isinstance(reports, Reports):
            unacked = sum(answer.unacked for answer in answers.values() if isinstance(answer, Count))
            return self.changed(reading, reports, unacked)
        return reading

    def changed(self, reading: Known, reports: Reports, unacked: int, /) -> Known:
        raise NotImplementedError


class NobodyHoldsAMessage(_Bug):
    """All workers are idle if the broker counts no unacknowledged message."""

    def changed(self, reading: Known, reports: Reports, unacked: int, /) -> Known:
        return reading if unacked else replace(reading, idle=frozenset(worker.host for worker in reports.workers))


class BrokerKnowsBest(_Bug):
    """No more workers are busy than the broker counts unacknowledged messages."""

    def changed(self, reading: Known, reports: Reports, unacked: int, /) -> Known:
        busy = [worker.host for worker in reports.workers if not worker.idle]
        running = min(reading.running, unacked)
        return replace(reading, running=running, idle=reading.idle.union(busy[unacked:]))


class NoReportIsIdle(_Bug):
    """A pod whose report is missing is idle."""

    def __init__(self, pool: str, timings: Timings) -> None:
        super().__init__(pool, timings)
        self._ever: set[str] = set()

    def changed(self, reading: Known, reports: Reports, _unacked: int, /) -> Known:
        self._ever |= {worker.host for worker in reports.workers}
        busy = {worker.host for worker in reports.workers if not worker.idle}
        return replace(reading, idle=frozenset(self._ever - busy))


class LastKnown(BrokerRules):
    """What cannot be read is empty, and the idle pods are those of the last reading."""

    _idle: frozenset[str] = frozenset()

    def look(self, at: float, link: str, answers: Mapping[str, Answer], reports: Reports | Unknown) -> Reading:
        reading = super().look(at, link, answers, reports)
        if isinstance(reading, Unknown):
            return Known(waiting=0, in_transit=0, running=0, idle=self._idle)
        if isinstance(reading, Known):
            self._idle = reading.idle
        return reading


class LostReportsAreNone(BrokerRules):
    """Reports that cannot be read are none, and nothing is untrusted."""

    def look(self, at: float, link: str, answers: Mapping[str, Answer], reports: Reports | Unknown) -> Reading:
        reading = super().look(at, link, answers, Reports() if isinstance(reports, Unknown) else reports)
        return reading.seen if isinstance(reading, Untrusted) else reading


class IdleAtOnce(BrokerRules):
    """The newest report counts however old it is, nothing is in transit, and nothing is untrusted."""

    def look(self, at: float, link: str, answers: Mapping[str, Answer], reports: Reports | Unknown) -> Reading:
        reading = super().look(at, link, answers, reports)
        seen = reading.seen if isinstance(reading, Untrusted) else reading
        if isinstance(seen, Unknown) or isinstance(reports, Unknown):
            return seen
        return replace(seen, in_transit=0, idle=frozenset(worker.host for worker in reports.workers if worker.idle))


class OneZeroIsEmpty(BrokerRules):
    """Counts are never late."""

    def __init__(self, pool: str, timings: Timings) -> None:
        super().__init__(pool, replace(timings, empty_for=0.0))


class ZerosAreEnough(BrokerRules):
    """Without reports a minute of zeros proves that the pool is empty."""

    def __init__(self, pool: str, timings: Timings) -> None:
        super().__init__(pool, replace(timings, blind_for=60.0))


ANYWHERE = (NobodyHoldsAMessage, BrokerKnowsBest, NoReportIsIdle, LastKnown, LostReportsAreNone, IdleAtOnce)
ON_SQS = (OneZeroIsEmpty, ZerosAreEnough)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("world_type", "bug"),
    [(world, bug) for world in WORLDS for bug in (*ANYWHERE, *(ON_SQS if world is SqsWorld else ()))],
)
def test_a_planted_bug_is_found(world_type: type[BrokerWorld], bug: type[BrokerRules]) -> None:
    assert any(run(world_type, seed, bug).wrongs() for seed in range(UNTIL_FOUND))
