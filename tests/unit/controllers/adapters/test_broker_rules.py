"""Readings of a pool in a message broker, look by look."""

from dataclasses import replace

import pytest

from controllers.adapters.broker_rules import (
    IDLE_FOR,
    LONGEST_GAP,
    TRANSIT,
    ZEROS,
    Answer,
    BrokerRules,
    Count,
    Missing,
    Report,
    Reports,
)
from controllers.ports import Known, Reading, Unknown, Untrusted
from tests.builders.brokers import POOL, QUEUE, count, report, reports

EMPTY = reports(served=False)


class Looks:
    """Looks at the same pool, one second after the other."""

    def __init__(self) -> None:
        self.rules, self.at = BrokerRules(POOL), 0.0

    def see(
        self, answer: Answer | Unknown, shown: Reports | Unknown = EMPTY, *, link: str = "rabbit 1", after: float = 1.0
    ) -> Reading:
        self.at += after
        asked_again = replace(answer) if isinstance(answer, Count) else answer
        return self.rules.look(self.at, link, {QUEUE: asked_again}, shown)

    def known(self, answer: Answer, shown: Reports = EMPTY) -> Known:
        seen = self.see(answer, shown)
        assert isinstance(seen, Known), seen
        return seen

    def pass_time(self, seconds: float, answer: Answer, *workers: Report) -> Reading:
        """Look once a second, with heartbeats."""
        seen: Reading = Unknown("nothing seen")
        for _ in range(int(seconds)):
            seen = self.see(answer, reports(*(replace(worker, beat=str(self.at)) for worker in workers)))
        return seen

    @property
    def beat(self) -> str:
        return str(self.at)


@pytest.fixture
def looks() -> Looks:
    return Looks()


def idle(seen: Reading) -> frozenset[str]:
    assert isinstance(seen, Known), seen
    return seen.idle


def test_waiting_and_running_messages_are_counted_apart(looks: Looks) -> None:
    seen = looks.known(count(3, 1, 1), reports(report(idle=False, active=1, held=1)))

    assert (seen.waiting, seen.in_transit, seen.running) == (3, 0, 1)


def test_a_running_task_counts_although_the_broker_shows_none(looks: Looks) -> None:
    """A quorum queue shows it seconds later, and after a restart the broker never does."""
    assert looks.known(count(0, 0, 1), reports(report(idle=False, active=1))).running == 1


def test_delayed_tasks_in_a_worker_keep_it_and_need_no_other(looks: Looks) -> None:
    seen = looks.known(count(0, 5, 1), reports(report(idle=False, held=5)))

    assert (seen.in_flight, seen.idle) == (0, frozenset())


def test_a_pod_is_idle_after_it_has_reported_so_for_a_while(looks: Looks) -> None:
    assert idle(looks.pass_time(IDLE_FOR, count(consumers=1), report())) == frozenset()
    assert idle(looks.pass_time(2, count(consumers=1), report())) == {"a"}


def test_a_short_task_between_two_looks_begins_the_time_again(looks: Looks) -> None:
    looks.pass_time(IDLE_FOR + 2, count(consumers=1), report())

    assert idle(looks.pass_time(1, count(consumers=1), report(received=1))) == frozenset()


def test_a_report_without_heartbeats_proves_nothing(looks: Looks) -> None:
    looks.pass_time(IDLE_FOR + 2, count(consumers=1), report())
    frozen = reports(report(beat=looks.beat))

    assert idle(looks.known(count(consumers=1), frozen)) == {"a"}
    assert [idle(looks.known(count(consumers=1), frozen)) for _ in range(4)][-1] == frozenset()


def test_a_gap_between_looks_begins_the_time_again(looks: Looks) -> None:
    looks.pass_time(IDLE_FOR + 2, count(consumers=1), report())

    seen = looks.see(count(consumers=1), reports(report(beat="x")), after=LONGEST_GAP + 1)

    assert idle(seen) == frozenset()


def test_a_pod_of_two_workers_is_idle_when_both_are(looks: Looks) -> None:
    two = (report("a"), report("b", idle=False, active=1, host="a"))

    assert idle(looks.pass_time(IDLE_FOR + 2, count(0, 1, 2), *two)) == frozenset()


def test_an_unacknowledged_message_that_no_report_explains_is_in_transit_then_running(looks: Looks) -> None:
    looks.pass_time(2, count(consumers=1), report())

    first = looks.pass_time(1, count(0, 1, 1), report())
    assert isinstance(first, Known)
    assert (first.in_transit, first.running) == (1, 0)

    later = looks.pass_time(TRANSIT + 1, count(0, 1, 1), report())
    assert isinstance(later, Known)
    assert (later.in_transit, later.running) == (0, 1)


def test_a_message_that_left_the_queue_is_in_transit_until_a_report_explains_it(looks: Looks) -> None:
    looks.pass_time(2, count(1, 0, 1), report())

    left = looks.pass_time(1, count(0, 0, 1), report())  # a quorum queue: unacknowledged is late
    explained = looks.pass_time(1, count(0, 0, 1), report(idle=False, active=1, held=1, received=1))

    assert isinstance(left, Known)
    assert isinstance(explained, Known)
    assert (left.in_transit, explained.in_transit, explained.running) == (1, 0, 1)


def test_messages_that_busy_workers_took_are_not_counted_again(looks: Looks) -> None:
    """A purge, or short tasks: no more can be in transit than consumers are free."""
    looks.pass_time(2, count(500, 1, 1), report(idle=False, active=1, held=1))

    seen = looks.pass_time(1, count(0, 1, 1), report(idle=False, active=1, held=1))

    assert isinstance(seen, Known)
    assert seen.in_flight == 1


def test_a_queue_that_no_worker_ever_served_is_empty_with_a_warning(looks: Looks) -> None:
    seen = looks.known(Missing())

    assert (seen.in_flight, seen.seen_before) == (0, False)
    assert "min: 1" in seen.warning


def test_a_queue_that_was_served_before_and_is_absent_is_unknown(looks: Looks) -> None:
    assert isinstance(looks.see(Missing(), reports()), Unknown)


def test_a_queue_that_vanished_and_came_back_is_untrusted_until_its_hosts_are_idle(looks: Looks) -> None:
    looks.pass_time(2, count(0, 1, 1), report(idle=False, active=1, held=1))

    gone = looks.see(Missing(), reports(report(idle=False, active=1)))
    back = looks.see(count(consumers=1), reports(report(idle=False, active=1)))

    assert isinstance(gone, Unknown)
    assert isinstance(back, Untrusted)
    assert "vanished" in back.why
    assert isinstance(looks.pass_time(IDLE_FOR + 2, count(consumers=1), report()), Known)


def test_after_a_restart_of_the_broker_hosts_must_report_idle_again(looks: Looks) -> None:
    looks.pass_time(IDLE_FOR + 2, count(consumers=1), report())

    seen = looks.see(count(consumers=1), reports(report(beat="x")), link="rabbit 2")

    assert isinstance(seen, Untrusted)
    assert "the broker restarted" in seen.why
    assert seen.seen.idle == frozenset()


def test_a_restart_of_the_reports_redis_is_untrusted(looks: Looks) -> None:
    looks.pass_time(2, count(0, 1, 1), report(idle=False, active=1, held=1))

    assert isinstance(looks.see(count(), reports(identity="another")), Untrusted)


def test_fewer_consumers_than_reporting_workers_are_untrusted_when_it_lasts(looks: Looks) -> None:
    looks.pass_time(2, count(consumers=2), report("a"), report("b"))

    first = looks.pass_time(3, count(consumers=1), report("a"), report("b"))
    lasting = looks.pass_time(4, count(consumers=1), report("a"), report("b"))

    assert isinstance(first, Known)
    assert isinstance(lasting, Untrusted)
    assert "fewer consumers" in lasting.why


def test_two_counts_that_stay_apart_are_unknown_and_a_late_one_is_not(looks: Looks) -> None:
    for ready in range(1, 20):
        assert isinstance(looks.see(count(ready, listed=max(1, ready - 5))), Known)  # as late as a quorum queue's

    assert isinstance([looks.see(count(3, listed=99)) for _ in range(int(TRANSIT) + 3)][-1], Unknown)


def test_an_answer_or_reports_that_are_missing_are_unknown(looks: Looks) -> None:
    assert looks.see(Unknown("no answer")) == Unknown("no answer")
    assert isinstance(looks.see(count(), Unknown("Redis cannot be reached")), Unknown)


def test_without_reports_only_lasting_zeros_are_empty(looks: Looks) -> None:
    assert isinstance(looks.see(count(0, 1, 1)), Known)

    zeros = [looks.see(count(consumers=1)) for _ in range(int(ZEROS) + 1)]

    assert all(isinstance(seen, Untrusted) for seen in zeros[:-1])
    assert isinstance(zeros[-1], Known)
    assert not zeros[-1].names_idle


def test_pods_of_a_pool_whose_reports_are_missing_are_not_idle(looks: Looks) -> None:
    """A full Redis drops the reports of busy workers; the queue's name shows that they once reported."""
    zeros = [looks.see(count(consumers=1), reports()) for _ in range(int(ZEROS) + 5)]

    assert all(isinstance(seen, Known) and seen.names_idle and not seen.idle for seen in zeros)
