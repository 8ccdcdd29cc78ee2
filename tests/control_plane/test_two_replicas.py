"""Two replicas: when the leader fails the other acts in time, and what the leader had sent may arrive later still."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane

from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from tests.builders.control_plane import Fresh, eventually
from tests.control_plane.support.quick_controller import DURATION
from tests.control_plane.support.two_replicas import QUICK, Cause, Gate, Pair, hand_overs, scenes, spread
from tests.counts import count

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]

PROMISE = 20.0  # seconds, with the Lease of 15 s that the controller has
ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 24 * 60) for day in range(7)))
SLACK = 5.0  # seconds that a busy machine may cost beside a Lease of few; the promise itself has none


def figures(plane: ControlPlane, fresh: Fresh, folder: Path, *, module: str, times: int, patience: float) -> list[str]:
    with ExitStack() as stack:
        places = scenes(plane, fresh, folder, stack, len(Cause))
        pairs = [Pair(scene, cause, stack, module=module) for scene, cause in zip(places, Cause, strict=True)]
        took = hand_overs(pairs, times, patience)
    return [f"leader {cause}: {spread(seconds)}" for cause, seconds in took.items()]


def test_the_other_acts_within_twenty_seconds(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> None:
    lines = figures(control_plane, fresh, tmp_path, module="controllers", times=1, patience=PROMISE)

    print("\n".join(lines))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_hand_overs_with_a_short_lease(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> None:
    each = -(-count(200, 20) // len(Cause))
    bound = PROMISE / 15 * DURATION + SLACK
    lines = figures(control_plane, fresh, tmp_path, module=QUICK, times=each, patience=bound)

    print("\n".join(lines))


# --- what the former leader sent and what arrives after the hand-over -------------------------------------------------


@pytest.fixture
def pair(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        (scene,) = scenes(control_plane, fresh, tmp_path, stack, 1)
        pair = Pair(scene, Cause.CUT_OFF, stack, module=QUICK)
        pair.wait_until_both_know()
        yield pair


def hold_writes(pair: Pair, what: str) -> None:
    """Of both: on a busy machine the Lease may change hands before the write is sent."""
    for gate in pair.gates.values():
        gate.hold(lambda method, path: method == "PATCH" and what in path)


def frozen_with_a_write_under_way(pair: Pair, what: str) -> tuple[str, Gate]:
    """The leader, once it has sent a PATCH of such a path; its gate holds it, the other lets all through again."""

    def writing() -> str:
        leader = pair.scene.lease_holder()
        return leader if leader and any(what in request for request in pair.gates[leader].held) else ""

    leader = eventually(writing, what=f"the leader's write of {what}")
    pair.freeze(leader)
    for name, gate in pair.gates.items():
        if name != leader:
            gate.release()
    return leader, pair.gates[leader]


def answers_to_the_late_writes(gate: Gate) -> set[int]:
    """One write, or a few: on a slow machine the leader gave up and tried again before it was frozen."""
    gate.release()
    eventually(lambda: len(gate.late_answers) == len(gate.held), what="the late writes' answers")
    return {status for _, status in gate.late_answers}


def test_a_late_growth_does_not_lower_what_the_successor_asked_for(pair: Pair) -> None:
    hold_writes(pair, "/scale")
    pair.scene.enqueue("one")
    leader, gate = frozen_with_a_write_under_way(pair, "/scale")
    pair.scene.enqueue("two", "three", "four")
    eventually(lambda: pair.scene.replicas() == 4, what="the successor's growth")

    assert answers_to_the_late_writes(gate) == {409}
    pair.thaw(leader)
    pair.wait_until_both_know()
    assert pair.scene.replicas() == 4
    # Refused, or given up before the refusal was read.
    assert {*pair.outcomes(leader, "replicas")} <= {(1, "stale"), (1, "failed")}


def test_a_late_shrink_does_not_take_the_successors_workers(pair: Pair) -> None:
    config = pair.scene.config()
    pools = tuple(replace(pool, stabilization_window=timedelta(seconds=1)) for pool in config.pools)
    pair.scene.write(dump(replace(config, pools=pools)))
    pair.scene.enqueue("one")
    eventually(lambda: pair.scene.replicas() == 1, what="the first worker")
    hold_writes(pair, "/scale")
    with pair.scene.redis.client() as client:
        client.delete("rq:queue:train")
    leader, gate = frozen_with_a_write_under_way(pair, "/scale")
    pair.scene.enqueue("two", "three")
    eventually(lambda: pair.scene.replicas() == 2, what="the successor's growth")

    assert answers_to_the_late_writes(gate) == {409}
    assert pair.scene.replicas() == 2
    pair.thaw(leader)
    pair.wait_until_both_know()
    assert pair.scene.replicas() == 2


def by_day(pair: Pair) -> None:
    pair.scene.write(dump(pair.scene.config(hours=ALWAYS_DAY)))


def frozen_while_opening(pair: Pair) -> tuple[str, Gate]:
    """The leader, once it has sent the opening of a budget that was closed until now."""
    # The budget is created closed: without this wait the first opening might still be on its way when the gate falls.
    eventually(lambda: pair.scene.max_unavailable() == 1, what="the first opening")
    by_day(pair)
    eventually(lambda: pair.scene.max_unavailable() == 0, what="the closing")
    hold_writes(pair, "/poddisruptionbudgets/")
    pair.scene.write(dump(pair.scene.config()))
    return frozen_with_a_write_under_way(pair, "/poddisruptionbudgets/")


def test_a_late_opening_is_refused_once_the_successor_has_written(pair: Pair) -> None:
    leader, gate = frozen_while_opening(pair)
    eventually(lambda: pair.scene.max_unavailable() == 1, what="the successor's opening")
    by_day(pair)
    eventually(lambda: pair.scene.max_unavailable() == 0, what="the successor's closing")

    assert answers_to_the_late_writes(gate) == {409}
    pair.thaw(leader)
    pair.wait_until_both_know()
    assert pair.scene.max_unavailable() == 0
    assert (1, "done") not in pair.outcomes(leader, "maxUnavailable")[1:]


def test_a_late_opening_of_an_unchanged_budget_lands_and_the_next_pass_closes_it(pair: Pair) -> None:
    leader, gate = frozen_while_opening(pair)
    by_day(pair)
    eventually(lambda: pair.scene.lease_holder() not in ("", leader), what="the successor to lead")
    successor = pair.scene.lease_holder()

    earlier = len(pair.outcomes(successor, "maxUnavailable"))

    assert 200 in answers_to_the_late_writes(gate)
    closed = (0, "done")
    eventually(lambda: closed in pair.outcomes(successor, "maxUnavailable")[earlier:], what="the successor's closing")
    assert pair.scene.max_unavailable() == 0
    pair.thaw(leader)
    pair.wait_until_both_know()
    assert pair.scene.max_unavailable() == 0
