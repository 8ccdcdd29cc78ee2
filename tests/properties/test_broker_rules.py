"""Laws of pools in a message broker: counts that are late, missing or wrong stop no busy worker."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controllers.adapters.broker_rules import Answer, BrokerRules, Count, Reports
from controllers.ports import Known, Reading, Unknown, Untrusted
from tests.builders.brokers import POOL, BrokerWorld
from tests.counts import count

STEPS = 150
FEW = 60
MANY = 10_000
UNTIL_FOUND = 250


def wronged(seed: int, rules: type[BrokerRules] = BrokerRules) -> tuple[list[str], int]:
    """The busy or unreported pods that a run has removed, and the number of workers that it stopped."""
    world = BrokerWorld(seed, lambda: rules(POOL))
    for _ in range(STEPS):
        world.step()
        world.look()
    return [*world.cluster.removed_busy, *world.unreported], world.stopped


def test_no_sequence_of_answers_stops_a_worker_that_is_busy_or_does_not_report_idle() -> None:
    stopped = 0
    for seed in range(FEW):
        pods, workers = wronged(seed)
        assert pods == [], f"seed {seed}"
        stopped += workers

    assert stopped > FEW / 2  # the runs do shrink: otherwise the law would say nothing


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_ten_thousand_runs_stop_no_busy_worker(block: int) -> None:
    each = count(MANY, MANY // 10) // 10
    for seed in range(block * each, block * each + each):
        assert wronged(seed)[0] == [], f"seed {seed}"


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

    def __init__(self, pool: str) -> None:
        super().__init__(pool)
        self._hosts: set[str] = set()

    def changed(self, reading: Known, reports: Reports, _unacked: int, /) -> Known:
        self._hosts |= {worker.host for worker in reports.workers}
        busy = {worker.host for worker in reports.workers if not worker.idle}
        return replace(reading, idle=frozenset(self._hosts - busy))


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


@pytest.mark.whole
@pytest.mark.parametrize(
    "bug", [NobodyHoldsAMessage, BrokerKnowsBest, NoReportIsIdle, LastKnown, LostReportsAreNone, IdleAtOnce]
)
def test_a_planted_bug_is_found(bug: type[BrokerRules]) -> None:
    assert any(wronged(seed, bug)[0] for seed in range(UNTIL_FOUND))
