"""What is told of two looks at a cluster, and what a night adds up to."""

from collections.abc import Sequence

import pytest
from control_plane.playground.seen import JobsSeen, Seen
from control_plane.playground.story import Story, summary

from tests.builders.controllers import NIGHT, NOON
from tests.unit.playground.moments import CONFIG, EVENING, RATES, leaving, moved, node_seen, pool_seen, seen


def told(*looks: Seen) -> list[str]:
    return [happening.text for happening in story_of(*looks).happenings]


def story_of(*looks: Seen) -> Story:
    story = Story(CONFIG, RATES, lambda _: None)
    for look in looks:
        story.observe(look)
    return story


def test_when_nothing_changes_nothing_is_told() -> None:
    assert told(seen(0, [node_seen()]), seen(1, [node_seen()])) == []


def test_an_empty_node_is_told_of_once_it_is_gone() -> None:
    assert told(seen(0, [node_seen(pods=0)]), seen(1, [leaving(pods=0)])) == []


def test_the_clock_and_the_budgets_are_told_before_what_they_lead_to() -> None:
    before = seen(at=EVENING.replace(hour=18), nodes=[node_seen()])
    after = seen(0, [leaving()], budgets={"api": True, "hub": True})

    assert told(before, after) == [
        "closing time: the night begins",
        "budgets of 2 flexible workloads open",
        "flexible-1 is being drained",
    ]


def test_a_pool_is_told_with_what_it_works_on() -> None:
    busy = seen(1, pools=(pool_seen(workers=2, waiting=3, running=1),))
    idle = seen(2, pools=(pool_seen(),))

    assert told(seen(pools=(pool_seen(),)), busy, idle) == [
        "train: 0 → 2 workers, 3 waiting, 1 running",
        "train: 2 → 0 workers, no job left",
    ]


NODES: dict[str, tuple[Sequence[Seen], str]] = {
    "joins": ((seen(0), seen(1, [node_seen()])), "flexible-1 joins"),
    "stays": (
        (seen(0, [leaving()]), seen(1, [node_seen()])),
        "flexible-1 stays after all: not every pod could be moved",
    ),
    "gone": ((seen(0, [leaving()]), seen(1)), "flexible-1 is gone: it was empty"),
    "drained": (
        (seen(0, [leaving()]), seen(1, moved=[moved(), moved(), moved("flexible-2")])),
        "flexible-1 is drained and gone: 2 pods moved",
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_a_node_is_told(name: str) -> None:
    looks, words = NODES[name]

    assert told(*looks) == [words]


def test_a_later_node_of_the_same_name_is_not_blamed_for_the_first_ones_pods() -> None:
    gone = [moved(at=EVENING)]

    texts = told(seen(0, [leaving()]), seen(1, moved=gone), seen(2, [node_seen()], moved=gone), seen(3, moved=gone))

    assert texts[-1] == "flexible-1 is gone: it was empty"


def test_node_hours_dollars_and_the_extremes_add_up() -> None:
    two, one = [node_seen("flexible-1"), node_seen("flexible-2")], [node_seen("flexible-1")]

    totals = story_of(seen(0), seen(30, two), seen(90, one)).totals

    assert totals.node_hours == {"flexible": pytest.approx(0.5 * 2 + 1 * 1)}
    assert (totals.hours, totals.dollars) == (pytest.approx(1.5), pytest.approx(1.0))
    assert (totals.least, totals.most, totals.peak_usd) == (0, 2, 1.0)


def test_evictions_are_told_apart_by_the_hour_and_by_whom_they_hit() -> None:
    wrong = moved(at=NOON, category="fixed")

    totals = story_of(seen(moved=[moved(at=NIGHT), moved(), wrong])).totals

    assert (totals.window, totals.outside, totals.unsafe) == (2, 1, 1)


def test_the_end_says_what_was_saved_and_what_was_done() -> None:
    looks = seen(0, [node_seen("flexible-1"), node_seen("flexible-2")]), seen(60, [node_seen("flexible-1")])
    last = seen(120, [], jobs=JobsSeen(done=4, interrupted=0), moved=[moved()])

    lines = summary(story_of(*looks, last).totals, last, "1 min 00 s")

    assert lines == [
        "2.0 hours of the customer's in 1 min 00 s:",
        "  nodes      2 at the peak, 0 at the lowest, 0 at the end",
        "  node-hours flexible 1.0",
        "  evictions  1 in the window, 0 outside it",
        "  jobs       4 done, 0 interrupted",
        "  dollars    0.50, 75% less than with the peak's nodes all the time",
    ]


def test_the_end_does_not_hide_what_must_not_happen() -> None:
    last = seen(moved=[moved(category="worker")])

    assert any("never to be moved" in line for line in summary(story_of(last).totals, last, ""))
