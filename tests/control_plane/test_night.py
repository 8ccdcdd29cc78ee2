"""A customer's whole night on the real control plane, in faster time, against the simulation of the same night.

The full run has a day and two nights at 120 times the speed, CI's part one night at 260 times. The controller is killed
before the morning's closing, so that it is the closer that closes. On a machine that is too busy for the speed, as the
control plane's own latencies tell, the night counts for nothing and is played again at half the speed.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from control_plane.night.night import Course, Latencies, Night, RealNight, demo_night, simulated
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, KubeApi
from ebbtide.lab.simulator.outcome import EvictionCounts, count_evictions, waits_of
from ebbtide.lab.simulator.world.waits import percentile
from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings import load_stack
from ebbtide.vocabulary.labels import CATEGORY, NAMESPACE, NODE_KIND, Category
from tests.builders.control_plane import eventually
from tests.control_plane.support.recorded_nodes import RecordedNodes, recorded_nodes
from tests.counts import count
from tests.paths import DATA

pytestmark = [pytest.mark.control_plane, pytest.mark.long, pytest.mark.redis, pytest.mark.timeout(4800)]

SPEED = count(120, 260)
HOURS = count(26, 13)  # to 07:40, five minutes before the budgets close
MORNING = datetime(2026, 6, 3, 7, 40)  # noqa: DTZ001 - of the customer's zone; a Wednesday, and no holiday near
FLEXIBLE = 5  # nodes on which the evening's services lie scattered; two would do
RESYNC = timedelta(minutes=5)  # at 5 s, as in production, no turn would be in time
AGREEMENT = 0.05
RECORDED_WITHIN = 0.01
AGE = " old, and no group may shrink"  # true of every node, by the real clock


@dataclass(frozen=True, kw_only=True)
class Played:
    """What the night left behind, and what was asked and done in its last minutes."""

    night: Night
    real: Course
    simulation: Course
    took: Latencies
    open_before: Mapping[str, int]  # budgets' maxUnavailable when the controller was dead
    open_after: Mapping[str, int]  # and when the closer had run
    closer: "subprocess.CompletedProcess[str]"
    told: Mapping[str, str]  # by flexible node: what `ebbtide why node` says
    refusal: ApiError  # of an eviction after the closing
    nodes: RecordedNodes | None  # as Prometheus has them


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    length = timedelta(hours=HOURS)
    night = demo_night(load_stack("demo", DATA), MORNING - length, length, resync=RESYNC, flexible=FLEXIBLE)
    speed = float(SPEED)
    result = play(night, speed, tmp_path_factory.mktemp("night"))
    while not result.took.tolerable and speed > SPEED / 4:
        speed /= 2
        result = play(night, speed, tmp_path_factory.mktemp("night"))
    return result


def play(night: Night, speed: float, folder: Path) -> Played:
    began = monotonic()
    with (
        ControlPlane(hands_off=f"{CATEGORY}={Category.WORKER}") as plane,
        RealNight(plane, night, speed, folder) as on_cluster,
        recorded_nodes(plane, folder) as nodes,
    ):
        on_cluster.wait_until(night.length.total_seconds())
        real, took = on_cluster.stop()
        if nodes is not None:
            nodes.stop()
        open_before = budgets(plane.api)
        told = {node: on_cluster.why(node) for node in flexible_nodes(plane.api)}
        closer = on_cluster.close_as_cron_would(closing_time(night))
        result = Played(
            night=night,
            real=real,
            simulation=simulated(night, took),
            took=took,
            open_before=open_before,
            open_after=budgets(plane.api),
            closer=closer,
            told=told,
            refusal=refused_eviction(plane.api),
            nodes=nodes,
        )
    print(figures(result, speed=speed, wall=monotonic() - began))
    return result


def closing_time(night: Night) -> datetime:
    """When the closer's CronJob fires."""
    hours = night.config.hours
    opening = hours.next_opening(night.start + night.length)
    assert opening is not None
    return opening - night.config.closing_guard


def budgets(api: KubeApi) -> Mapping[str, int]:
    items = api.get(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets")["items"]
    return {item["metadata"]["name"]: item["spec"].get("maxUnavailable", 0) for item in items}


def flexible_nodes(api: KubeApi) -> list[str]:
    items = api.get("/api/v1/nodes", labelSelector=f"{NODE_KIND}={NodeKind.FLEXIBLE}")["items"]
    return [item["metadata"]["name"] for item in items]


def refused_eviction(api: KubeApi) -> ApiError:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    name = api.get(pods, labelSelector=f"{CATEGORY}={Category.FLEXIBLE}")["items"][0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    eventually(lambda: not allowed(api), what="the disruption controller to see the closing")
    with pytest.raises(ApiError) as refused:
        api.create(f"{pods}/{name}/eviction", eviction)
    return refused.value


def allowed(api: KubeApi) -> int:
    items = api.get(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets")["items"]
    return sum(item["status"]["disruptionsAllowed"] for item in items)


def figures(played: Played, *, speed: float, wall: float) -> str:
    hours = [
        f"{side}: {sum(course.node_hours.values()):.1f} node-hours ("
        + ", ".join(f"{group} {hours:.1f}" for group, hours in course.node_hours.items())
        + f"), {counted(played, course)}, {waits(played, course)}"
        for side, course in (("real", played.real), ("simulated", played.simulation))
    ]
    void = "" if played.took.tolerable else ": too busy a machine for this speed, counts for nothing"
    head = f"\nnight of {HOURS} h at {speed:g} times, {wall:.0f} s of wall time; {played.took}{void}"
    told = ""
    if (seen := played.nodes) is not None:
        recorded, in_ledger = (hours / seen.lived - 1 for hours in (seen.recorded, seen.in_ledger))
        told = f"recorded by Prometheus {recorded:+.2%}, in the ledger {in_ledger:+.2%}"
    return "\n".join([head, *hours, f"difference {difference(played):+.2%}", told])


def counted(played: Played, course: Course) -> EvictionCounts:
    return count_evictions(course.evictions, played.night.config.window, played.night.start)


def waits(played: Played, course: Course) -> str:
    seconds = waits_of(course.jobs, played.night.length.total_seconds())
    return f"waits p50 {percentile(seconds, 0.5):.0f} s, p95 {percentile(seconds, 0.95):.0f} s"


def difference(played: Played) -> float:
    """Of the real side's node-hours from the simulation's."""
    real, simulation = (sum(course.node_hours.values()) for course in (played.real, played.simulation))
    return real / simulation - 1


def test_the_node_hours_are_those_of_the_simulation(played: Played) -> None:
    assert abs(difference(played)) <= AGREEMENT


def test_the_node_hours_that_prometheus_recorded_are_those_that_the_nodes_lived(played: Played) -> None:
    if (nodes := played.nodes) is None:
        pytest.skip("no prometheus on PATH (Debian's package)")

    assert nodes.lived > timedelta()
    assert abs(nodes.recorded / nodes.lived - 1) <= RECORDED_WITHIN


def test_the_ledger_of_the_night_has_the_hours_that_the_nodes_lived(played: Played) -> None:
    if (nodes := played.nodes) is None:
        pytest.skip("no prometheus on PATH (Debian's package)")
    assert abs(nodes.in_ledger / nodes.lived - 1) <= RECORDED_WITHIN


def test_pods_are_moved_in_the_window_and_none_in_business_hours(played: Played) -> None:
    evictions = counted(played, played.real)

    assert evictions.in_window > 0
    assert evictions.in_business_hours == 0


def test_only_flexible_pods_are_moved(played: Played) -> None:
    assert {eviction.category for eviction in played.real.evictions} == {Category.FLEXIBLE}


def test_no_job_is_interrupted_and_those_that_ended_in_the_simulation_ended(played: Played) -> None:
    """But for the last hour: real latencies look long."""
    last_hour = played.night.length.total_seconds() - 3600
    pairs = list(zip(played.real.jobs, played.simulation.jobs, strict=True))
    due = [real for real, simulated in pairs if simulated.done_at is not None and simulated.done_at < last_hour]

    assert sum(real.interruptions for real, _ in pairs) == 0
    assert due
    assert all(real.done_at is not None for real in due)


def test_the_night_tidies_up_what_the_evening_left(played: Played) -> None:
    window, start = played.night.config.window, played.night.start
    by_night = [nodes for at, nodes in played.real.history if window.is_open(start + timedelta(seconds=at))]

    assert min(nodes["flexible"] for nodes in by_night) < FLEXIBLE


def test_every_flexible_node_that_survived_has_a_named_reason(played: Played) -> None:
    reasons = {
        node: [line for line in told.splitlines() if line.startswith("  - ") and AGE not in line]
        for node, told in played.told.items()
    }

    assert reasons
    assert all(reasons.values()), played.told


def test_the_closer_closes_what_a_dead_controller_left_open(played: Played) -> None:
    flexible = {budget.name for budget in played.night.config.budgets}

    assert {name for name, value in played.open_before.items() if value} == flexible
    assert (played.closer.returncode, played.closer.stderr) == (0, "")
    assert set(played.closer.stdout.splitlines()) == {f"closer: {NAMESPACE}/{name} closed" for name in flexible}
    assert not any(played.open_after.values())
    assert played.refusal.status == 429
