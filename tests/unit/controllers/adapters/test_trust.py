"""Trust in an empty Redis."""

from controllers.adapters.trust import DISTRUST, Trust

BUSY, IDLE = [("a", False)], [("a", True)]
LIMIT = DISTRUST.total_seconds()


def seen_once(workers: list[tuple[str, bool]]) -> Trust:
    trust = Trust()
    trust.observe_server("first", 1, 0.0)
    assert trust.doubts("train", workers, 0.0) is None
    return trust


def test_the_same_server_stays_trusted() -> None:
    trust = seen_once(BUSY)
    trust.observe_server("first", 1, 1.0)

    assert trust.doubts("train", [], 1.0) is None


def test_another_server_is_doubted_until_the_hosts_seen_before_report_idle() -> None:
    trust = seen_once(BUSY)
    trust.observe_server("second", 0, 1.0)

    assert trust.doubts("train", [], 1.0)
    assert trust.doubts("train", BUSY, 2.0)
    assert trust.doubts("train", IDLE, 3.0) is None


def test_hosts_that_never_report_are_given_up_after_the_limit() -> None:
    trust = seen_once(BUSY)
    trust.observe_server("second", 0, 1.0)

    assert trust.doubts("train", [], LIMIT + 0.9)
    assert trust.doubts("train", [], LIMIT + 1.0) is None


def test_the_reading_that_reveals_the_change_is_doubted_even_without_hosts() -> None:
    trust = seen_once([])
    trust.observe_server("second", 0, 1.0)

    assert trust.doubts("train", [], 1.0)
    assert trust.doubts("train", [], 1.1) is None


def test_a_register_that_shrank_is_a_flush() -> None:
    trust = seen_once(BUSY)
    trust.observe_server("first", 0, 1.0)

    why = trust.doubts("train", [], 1.0)

    assert why is not None
    assert "flushed" in why


def test_a_host_of_two_workers_is_idle_again_only_when_both_have_registered() -> None:
    one, both = [("a", True)], [("a", True), ("a", True)]
    trust = seen_once([("a", True), ("a", False)])
    assert trust.idle_hosts("train", one) == {"a"}  # the other has left: nothing was flushed
    trust.observe_server("first", 0, 1.0)

    assert trust.idle_hosts("train", one) == frozenset()
    assert trust.doubts("train", one, 2.0)
    assert trust.doubts("train", one, LIMIT + 1.0) is None
    assert trust.idle_hosts("train", one) == frozenset()  # however long the job of the other takes
    assert trust.idle_hosts("train", both) == {"a"}
    assert trust.idle_hosts("train", one) == {"a"}


def test_a_worker_that_is_back_busy_counts_as_back() -> None:
    trust = seen_once([("a", True), ("a", False)])
    trust.observe_server("first", 0, 1.0)

    assert trust.idle_hosts("train", [("a", True), ("a", False)]) == frozenset()
    assert trust.idle_hosts("train", [("a", True)]) == {"a"}


def test_two_flushes_forget_no_worker_that_is_not_back() -> None:
    trust = seen_once([("a", True), ("a", False)])
    for at in (1.0, 2.0):
        trust.observe_server("first", 1, at)
        trust.observe_server("first", 0, at)
        assert trust.doubts("train", [("a", True)], at)

    assert trust.idle_hosts("train", [("a", True)]) == frozenset()


def test_a_host_that_was_deleted_is_given_up_although_changes_go_on() -> None:
    trust, at = seen_once([("gone", True), ("a", True)]), 0.0
    for number in range(1, 4):
        at = number * LIMIT * 0.8
        trust.distrust("the connection was lost", at)
        assert trust.doubts("train", IDLE, at)
        if number == 1:
            assert trust.doubts("train", IDLE, at + LIMIT * 0.9)

    assert trust.doubts("train", IDLE, at + 1.0) is None


def test_a_host_that_reports_after_a_change_is_awaited_again_after_the_next_one() -> None:
    trust = seen_once(BUSY)
    for at in (1.0, LIMIT * 0.8):
        trust.distrust("the connection was lost", at)
        assert trust.doubts("train", BUSY, at)

    assert trust.doubts("train", BUSY, LIMIT + 1.0)
