"""Readings of a pool in a message broker, look by look."""

from dataclasses import replace

import pytest

from controllers.adapters.broker_rules import (
    LONGEST_GAP,
    RABBITMQ,
    SHORTAGE,
    SQS,
    Answer,
    BrokerRules,
    Count,
    Missing,
    Report,
    Reports,
    Timings,
)
from controllers.adapters.trust import DISTRUST
from controllers.ports import Known, Reading, Unknown, Untrusted
from tests.builders.brokers import POOL, QUEUE, count, report, reports

EMPTY = reports(served=False)
IDLE_FOR, TRANSIT, ZEROS = RABBITMQ.idle_for, RABBITMQ.transit, RABBITMQ.blind_for
LIMIT = DISTRUST.total_seconds()


class Looks:
    """Looks at the same pool, one second after the other."""

    def __init__(self, timings: Timings = RABBITMQ) -> None:
        self.rules, self.at = BrokerRules(POOL, timings), 0.0

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

    def pass_time(self, seconds: float, answer: Answer, *workers: Report, link: str = "rabbit 1") -> Reading:
        """Look once a second, with heartbeats."""
        seen: Reading = Unknown("nothing seen")
        for _ in range(int(seconds)):
            beating = (replace(worker, beat=str(self.at)) for worker in workers)
            seen = self.see(answer, reports(*beating, served=bool(workers)), link=link)
        return seen

    @property
    def beat(self) -> str:
        return str(self.at)


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest.fixture
def sqs() -> Looks:
    """Looks at a queue of a broker that counts no consumers."""
    return Looks(SQS)


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


def test_a_new_process_with_the_name_of_an_earlier_one_begins_the_time_again(looks: Looks) -> None:
    """It counts its messages from 0, so it may have received fewer."""
    looks.pass_time(IDLE_FOR + 2, count(consumers=1), report(received=9))

    assert idle(looks.pass_time(1, count(consumers=1), report(received=1))) == frozenset()


@pytest.mark.parametrize("contradictory", [report(held=1), report(active=1)], ids=["held", "active"])
def test_a_report_of_an_idle_worker_with_a_message_proves_nothing(looks: Looks, contradictory: Report) -> None:
    assert idle(looks.pass_time(IDLE_FOR + 2, count(consumers=1), contradictory)) == frozenset()


def test_a_pod_is_not_idle_while_the_report_of_its_other_worker_is_missing(looks: Looks) -> None:
    """Its thread may be stuck while the job runs."""
    idle_one, other = report("a"), report("b", host="a", idle=False, active=1)
    looks.pass_time(IDLE_FOR + 2, count(0, 1, 2), idle_one, other)

    assert idle(looks.pass_time(60, count(consumers=2), idle_one)) == frozenset()
    assert idle(looks.pass_time(1, count(consumers=2), idle_one, replace(other, idle=True, active=0))) == frozenset()
    assert idle(looks.pass_time(IDLE_FOR + 1, count(consumers=2), idle_one, replace(other, idle=True, active=0)))


def test_a_worker_that_stopped_leaves_its_pod_idle(looks: Looks) -> None:
    idle_one, other = report("a"), report("b", host="a", idle=False, stopping=True)
    looks.pass_time(IDLE_FOR + 2, count(consumers=2), idle_one, other)

    assert idle(looks.pass_time(2, count(consumers=1), idle_one)) == {"a"}


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


class TestRoundsOfABrokerWithManyQueues:
    """The controller looks once a second at answers that are up to five seconds old."""

    pause = 5

    def look(self, looks: Looks, answer: Count, *workers: Report) -> Reading:
        """Look five times at one answer; return the last reading."""
        seen: Reading = Unknown("nothing seen")
        for _ in range(self.pause):
            looks.at += 1
            beating = (replace(worker, beat=str(looks.at)) for worker in workers)
            seen = looks.rules.look(looks.at, "rabbit 1", {QUEUE: answer}, reports(*beating))
        return seen

    def test_a_pod_is_idle_as_soon_as_otherwise(self, looks: Looks) -> None:
        self.look(looks, count(consumers=1), report())
        self.look(looks, count(consumers=1), report())

        assert idle(self.look(looks, count(consumers=1), report())) == {"a"}

    def test_a_count_that_is_late_agrees_with_an_earlier_one(self, looks: Looks) -> None:
        for ready in range(0, 50, 5):
            assert isinstance(self.look(looks, count(ready, consumers=1, listed=max(0, ready - 5)), report()), Known)

    def test_a_message_that_left_the_queue_is_in_transit(self, looks: Looks) -> None:
        self.look(looks, count(1, consumers=1), report())

        seen = self.look(looks, count(0, consumers=1), report())

        assert isinstance(seen, Known)
        assert seen.in_transit == 1

    def test_two_rounds_with_too_few_consumers_are_untrusted(self, looks: Looks) -> None:
        busy = report(idle=False, active=1)
        self.look(looks, count(consumers=1), busy)

        assert isinstance(self.look(looks, count(consumers=0), busy), Known)
        assert isinstance(self.look(looks, count(consumers=0), busy), Untrusted)


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
    """Without reports an absent queue proves as little as an empty one: it may have been deleted."""
    first = looks.see(Missing())
    looks.pass_time(ZEROS, Missing())
    seen = looks.known(Missing())

    assert isinstance(first, Untrusted)
    assert (seen.in_flight, seen.seen_before) == (0, False)
    assert "the broker has no queue train" in seen.warning


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


def test_a_pod_on_sqs_is_idle_after_a_longer_time(sqs: Looks) -> None:
    """Another pod works, so the counts are not zero."""
    working = report("b", idle=False, active=1, held=1)

    assert idle(sqs.pass_time(SQS.idle_for, count(0, 1, None), report(), working)) == frozenset()
    assert idle(sqs.pass_time(2, count(0, 1, None), report(), working)) == {"a"}


def test_a_pool_on_sqs_is_empty_after_lasting_zeros_and_one_message_begins_them_again(sqs: Looks) -> None:
    assert idle(sqs.pass_time(SQS.empty_for, count(consumers=None), report())) == frozenset()
    assert idle(sqs.pass_time(2, count(consumers=None), report())) == {"a"}

    sqs.pass_time(1, count(1, consumers=None), report())

    assert idle(sqs.pass_time(SQS.empty_for, count(consumers=None), report())) == frozenset()


def test_sqs_counts_no_consumers_so_they_are_never_too_few(sqs: Looks) -> None:
    assert isinstance(sqs.pass_time(SHORTAGE + 5, count(consumers=None), report("a"), report("b")), Known)


def test_a_pool_on_sqs_without_reports_never_shrinks(sqs: Looks) -> None:
    sqs.see(count(1, consumers=None))

    zeros = [sqs.see(count(consumers=None)) for _ in range(1000)]

    assert all(isinstance(seen, Untrusted) and "hooks" in seen.why for seen in zeros)


def test_an_absent_queue_of_sqs_is_told_with_its_remedy_though_no_worker_has_reported(sqs: Looks) -> None:
    """An absent queue is the cause, and hooks would not cure it."""
    seen = sqs.see(Missing("compare its region"))

    assert isinstance(seen, Untrusted)
    assert f"no queue {QUEUE}: compare its region" in seen.why
    assert "hooks" not in seen.why


@pytest.mark.parametrize(
    ("answer", "shown", "link", "after"),
    [
        (Unknown("throttled"), EMPTY, "rabbit 1", 1.0),
        (count(), Unknown("Redis cannot be reached"), "rabbit 1", 1.0),
        (count(), EMPTY, "rabbit 1", LONGEST_GAP + 1),
        (count(), EMPTY, "rabbit 2", 1.0),
    ],
    ids=["no answer", "no reports", "a gap", "another broker"],
)
def test_zeros_count_only_while_each_look_shows_them(
    looks: Looks, answer: Answer, shown: Reports | Unknown, link: str, after: float
) -> None:
    looks.pass_time(ZEROS - 2, count())
    looks.see(answer, shown, link=link, after=after)

    assert isinstance(looks.pass_time(5, count(), link=link), Untrusted)
    assert isinstance(looks.pass_time(ZEROS, count(), link=link), Known)


@pytest.mark.parametrize("asked", [False, True])
def test_a_message_that_a_worker_has_taken_since_the_last_round_counts_once(looks: Looks, asked: bool) -> None:
    waits = count(ready=1, consumers=1)
    took = report(idle=False, active=1, held=1, received=1)

    def look(at: float, answer: Answer, worker: Report) -> tuple[int, int]:
        seen = looks.rules.look(at, "rabbit 1", {QUEUE: answer}, reports(replace(worker, beat=str(at))))
        assert isinstance(seen, Known)
        return seen.waiting, seen.running

    assert look(1.0, waits, report()) == (1, 0)
    assert look(1.2, replace(waits) if asked else waits, took) == (0, 1)
    assert look(2.2, count(ready=1, consumers=1, unacked=1), took) == (1, 1), "another one"


def test_more_received_than_run_hides_no_waiting_message(looks: Looks) -> None:
    """Short messages come and go between two rounds."""
    looks.known(count(ready=5, consumers=1), reports(report(beat="1", received=0)))

    seen = looks.known(count(ready=5, consumers=1), reports(report(beat="2", received=50)))

    assert seen.waiting == 5


@pytest.mark.parametrize("change", ["broker", "redis"])
def test_a_container_that_starts_again_before_a_fault_blocks_its_pod_for_the_limit_only(
    looks: Looks, change: str
) -> None:
    """Its old worker reports beside the new one until its report expires."""
    old, new = report("old", host="a"), report("new", host="a")
    looks.pass_time(5, count(consumers=2), old, new)
    link, identity = ("rabbit 2", "redis") if change == "broker" else ("rabbit 1", "another")

    def seen_after(seconds: float) -> Reading:
        seen: Reading = Unknown("nothing seen")
        for _ in range(int(seconds)):
            seen = looks.see(count(consumers=1), reports(replace(new, beat=looks.beat), identity=identity), link=link)
        return seen

    before = seen_after(LIMIT - 1)
    assert isinstance(before, Untrusted)
    assert before.seen.idle == frozenset()
    assert idle(seen_after(2)) == {"a"}


def test_a_worker_whose_report_is_missing_is_awaited_while_the_broker_counts_a_message_for_it(looks: Looks) -> None:
    present, other = report("a"), report("b", host="a", idle=False, active=1, held=1)
    looks.pass_time(5, count(0, 1, 2), present, other)

    assert idle(looks.pass_time(2 * LIMIT, count(0, 1, 2), present)) == frozenset()
    assert idle(looks.pass_time(TRANSIT + 2, count(0, 0, 2), present)) == {"a"}


def test_a_worker_that_never_gets_a_consumer_is_one_doubt_and_then_a_warning(looks: Looks) -> None:
    two = (report("a"), report("b"))
    assert isinstance(looks.pass_time(SHORTAGE + 1, count(consumers=1), *two), Untrusted)
    assert isinstance(looks.pass_time(IDLE_FOR, count(consumers=1), *two), Known)

    for _ in range(20):
        seen = looks.pass_time(1, count(consumers=1), *two)
        assert isinstance(seen, Known)
        assert "fewer consumers" in seen.warning
    assert isinstance(looks.pass_time(SHORTAGE + 1, count(consumers=0), *two), Untrusted)  # one more is missing
    seen = looks.pass_time(IDLE_FOR, count(consumers=2), *two)
    assert isinstance(seen, Known)
    assert seen.warning == ""
    assert isinstance(looks.pass_time(SHORTAGE + 1, count(consumers=1), *two), Untrusted)


def test_a_pool_that_reported_is_not_judged_without_reports_after_redis_lost_its_register(looks: Looks) -> None:
    looks.pass_time(2, count(0, 1, 1), report(idle=False, active=1, held=1))

    flushed = [looks.see(count(consumers=1), reports(served=False, size=0)) for _ in range(int(LIMIT + ZEROS))]

    assert isinstance(flushed[-1], Known)
    assert flushed[-1].names_idle


@pytest.mark.parametrize("step", [300, -300], ids=["grows", "drains"])
def test_a_queue_that_changes_between_the_two_counts_of_each_round_is_known(looks: Looks, step: int) -> None:
    readings = [
        looks.see(count(9000 + step * second, consumers=1, listed=9000 + step * second + step // 100))
        for second in range(2 * int(TRANSIT))
    ]

    assert all(isinstance(seen, Known) for seen in readings)
