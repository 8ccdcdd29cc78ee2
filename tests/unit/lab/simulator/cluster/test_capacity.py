"""Hours without spot capacity, and interruptions at given instants, in a modelled cluster."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.cluster import AutoscalerFlags, ClusterModel, GroupModel, StopReason
from ebbtide.lab.simulator.cluster.capacity import SpotCapacity, joined
from ebbtide.lab.simulator.cluster.model import Accidents
from ebbtide.vocabulary.labels import NODE_GROUP
from tests.builders.cluster import Played, Witness, group, homes, node_pool, running, workload
from tests.counts import examples

HOUR = 3600.0
FLAGS = AutoscalerFlags(expander="priority", skip_nodes_with_local_storage=False)
SPOT = group("spot", priority=1, boot_s=30.0, zones=("a", "b"))
DEMAND = group("demand", boot_s=30.0)
BOTH_OUT = {"a": ((0.0, HOUR),), "b": ((0.0, HOUR),)}


def played(*groups: GroupModel, seed: int = 0, listener: Witness | None = None, **capacity: object) -> Played:
    """`capacity`: fields of `SpotCapacity` for the group `spot`."""
    accidents = Accidents(capacity=SpotCapacity(**{name: {"spot": zones} for name, zones in capacity.items()}))  # pyright: ignore[reportArgumentType] - by zone
    return Played(groups, FLAGS, seed=seed, listener=listener, accidents=accidents)


def zones(cluster: ClusterModel) -> Counter[str]:
    return Counter(node.zone for node in cluster.nodes())


def test_a_launch_without_capacity_makes_no_node_and_costs_nothing() -> None:
    it = played(SPOT, without=BOTH_OUT)
    it.cluster.deploy(workload(), 2)
    seen = [it.at(at).node_counts()["spot"] for at in range(0, 3600, 10)]

    assert set(seen) == {0}
    assert it.cluster.billed_seconds() == {"spot": 0.0}


def test_its_group_grows_once_the_zone_has_capacity_and_the_pause_is_over() -> None:
    it = played(SPOT, without=BOTH_OUT)
    it.cluster.deploy(workload(), 2)

    assert running(it.at(HOUR), "api") == []
    assert len(running(it.at(HOUR + 1800 + 120), "api")) == 2  # no pause is longer than half an hour
    (node,) = it.cluster.nodes()
    assert it.cluster.billed_seconds()["spot"] == it.timeline.now - node.launched_at


def test_the_next_group_grows_within_minutes_not_after_the_provision_timeout() -> None:
    """The autoscaler reads failed launches once a minute; each of the two zones is tried."""
    it = played(SPOT, DEMAND, without=BOTH_OUT)
    it.cluster.deploy(workload(), 1)

    assert it.at(60).node_counts() == {"spot": 0, "demand": 0}
    assert it.at(150).node_counts() == {"spot": 0, "demand": 1}


def test_a_zone_without_capacity_pauses_alone() -> None:
    it = played(SPOT, DEMAND, without={"a": ((0.0, HOUR),)})
    it.cluster.deploy(workload(), 6)
    it.at(200)

    assert zones(it.cluster) == {"b": 3}
    assert it.cluster.node_counts()["demand"] == 0


def test_a_zone_never_exceeds_its_part_of_the_maximum_while_the_other_pauses() -> None:
    it = played(replace(SPOT, max=4), DEMAND, without={"a": ((0.0, HOUR),)})
    it.cluster.deploy(workload(), 8)
    it.at(300)

    assert zones(it.cluster) == {"b": 2, "": 2}  # those on demand have no modelled zone


def test_pauses_become_longer_with_each_failure() -> None:
    """Else a group of higher priority would be tried every five minutes for as long as it has no capacity."""
    it = played(SPOT, without={"a": ((0.0, 4 * HOUR),), "b": ((0.0, 4 * HOUR),)})
    it.cluster.deploy(workload(), 1)
    state = it.cluster._state  # pyright: ignore[reportPrivateUsage] - requests that make no node are not shown
    tried: list[float] = []
    for at in range(0, 10_800, 5):
        it.at(at)
        tried += [node.launched_at for node in state.nodes.values() if node.launched_at not in tried]

    between = [later - earlier for earlier, later in pairwise(tried[::2])]  # of one of the two zones
    assert [round(wait / 300) * 300 for wait in between[:4]] == [300, 600, 1200, 1800]


def test_a_group_at_its_minimum_starts_the_machine_when_the_zone_has_capacity_again() -> None:
    it = played(replace(SPOT, min=1, zones=("a",), initial=1), without={"a": ((0.0, 600.0),)})

    assert (it.at(599).node_counts(), it.cluster.billed_seconds()) == ({"spot": 0}, {"spot": 0.0})
    assert it.at(700).node_counts() == {"spot": 1}
    assert it.cluster.billed_seconds() == {"spot": 100.0}


def test_a_shortage_ends_no_machine_that_runs() -> None:
    it = played(SPOT, without={"a": ((300.0, HOUR),), "b": ((300.0, HOUR),)})
    it.cluster.deploy(workload(), 2)

    assert it.at(299).node_counts() == it.at(HOUR).node_counts() == {"spot": 1}


def test_an_interruption_at_an_instant_concerns_the_nodes_of_its_zone() -> None:
    listener = Witness(lasts=5.0)
    it = played(SPOT, listener=listener, without={}, interrupted={"b": (600.0,)})
    it.cluster.deploy(workload(), 4)
    before = zones(it.at(599))
    in_b = {pod.name for pod in it.cluster.pods("api") if pod.node is not None and pod.node.zone == "b"}
    it.at(610)

    assert before == {"a": 1, "b": 1}
    assert {pod for pod, why in listener.stops if why is StopReason.INTERRUPTED} == in_b != set()


@given(st.integers(0, 99), st.integers(1, 8))
@settings(max_examples=examples(20))
def test_if_capacity_is_always_there_nothing_differs(seed: int, pods: int) -> None:
    never = {"a": ((1e9, 2e9),), "b": ((1e9, 2e9),)}
    with_trace, without = Witness(), Witness()
    modelled = played(SPOT, DEMAND, seed=seed, listener=with_trace, without=never)
    plain = Played([SPOT, DEMAND], FLAGS, seed=seed, listener=without)
    for it in (modelled, plain):
        it.cluster.deploy(workload(), pods)
        it.at(HOUR)
        it.cluster.scale("api", 1)
        it.at(3 * HOUR)

    assert with_trace.told == without.told
    assert modelled.cluster.billed_seconds() == plain.cluster.billed_seconds()


_SPANS = st.lists(st.tuples(st.floats(0, 7200), st.floats(60, 3600)), max_size=4).map(
    lambda spans: joined([(begin, begin + lasts) for begin, lasts in spans])
)


@given(st.integers(0, 999), _SPANS, _SPANS, st.integers(1, 12))
@settings(max_examples=examples(30))
def test_no_machine_begins_in_an_hour_without_capacity_and_no_pod_is_forgotten(
    seed: int, in_a: tuple[tuple[float, float], ...], in_b: tuple[tuple[float, float], ...], pods: int
) -> None:
    spans = {"a": in_a, "b": in_b}
    it = played(replace(SPOT, max=4), DEMAND, seed=seed, without=spans)
    it.cluster.deploy(workload(), pods)
    for at in range(0, 14_400, 60):
        for node in it.at(at).nodes():
            assert not any(begin <= node.launched_at < until for begin, until in spans.get(node.zone, ()))
        assert all(count <= 2 for zone, count in zones(it.cluster).items() if zone)

    assert len(running(it.cluster, "api")) == pods


def test_spans_that_touch_or_overlap_are_one() -> None:
    assert joined([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (3.0, 4.0)]) == ((0.0, 4.0), (5.0, 6.0))


def test_capacity_is_back_at_the_end_of_the_span() -> None:
    capacity = SpotCapacity(without={"spot": {"a": ((10.0, 20.0), (30.0, 40.0))}})

    assert [capacity.back_at("spot", "a", at) for at in (9.0, 10.0, 19.9, 20.0, 35.0, 50.0)] == [9, 20, 20, 20, 40, 50]
    assert capacity.back_at("spot", "b", 15.0) == capacity.back_at("other", "a", 15.0) == 15.0


def with_karpenter(*spans: str, end: float = HOUR) -> Played:
    """Two types of a spot pool, of which those named have no capacity in either zone, and one on demand."""
    spot = node_pool("spot", sizes=["large", "xlarge"], weight=10)
    types = tuple(replace(kind, shape=replace(kind.shape, zones=("a", "b"))) for kind in spot.types)
    out = {name: {"a": ((0.0, end),), "b": ((0.0, end),)} for name in spans}
    capacity = SpotCapacity(without=out)
    pools = [replace(spot, types=types), node_pool("demand", sizes=["large"])]
    return Played([], node_pools=pools, accidents=Accidents(capacity=capacity))


def launched(cluster: ClusterModel) -> list[str]:
    return sorted(node.group for node in cluster.nodes())


def test_karpenter_takes_the_next_type_at_once() -> None:
    it = with_karpenter("spot/large")
    it.cluster.deploy(workload(), 1)

    assert launched(it.at(5)) == ["spot/xlarge"]


def test_karpenter_takes_the_next_pool_after_seconds_and_the_first_one_again_after_three_minutes() -> None:
    it = with_karpenter("spot/large", "spot/xlarge", end=100.0)
    it.cluster.deploy(workload(), 1)
    assert launched(it.at(15)) == ["demand/large"]

    it.at(150)
    it.cluster.deploy(workload("soon"), 1)
    assert launched(it.at(160)) == ["demand/large", "demand/large"]
    it.at(185)
    it.cluster.deploy(workload("later"), 1)
    assert launched(it.at(195)) == ["demand/large", "demand/large", "spot/large"]


def test_pods_that_only_a_pool_without_capacity_takes_wait_until_it_has_some() -> None:
    it = with_karpenter("spot/large", "spot/xlarge", end=400.0)
    it.cluster.deploy(workload("other"), 1)  # a node exists, so the scheduler does not look again by itself
    it.at(30)
    it.cluster.deploy(workload(cpu_m=4000), 1)

    assert launched(it.at(390)) == ["demand/large"]
    assert it.cluster.billed_seconds()["spot/xlarge"] == 0.0
    assert launched(it.at(400 + 180 + 20)) == ["demand/large", "spot/xlarge"]


def test_the_scheduler_prefers_ready_nodes_of_the_first_choice_though_they_are_fuller() -> None:
    both = [group(name, min=1, initial=1, labels={NODE_GROUP: name}) for name in ("spot", "demand")]

    def homes_of(prefers: str) -> list[str]:
        it = Played(both, FLAGS)
        it.cluster.deploy(workload("first", cpu_m=1000, node_selector={NODE_GROUP: "spot"}), 1)
        it.at(10)
        it.cluster.deploy(workload(one_of=frozenset(["spot", "demand"]), prefers=prefers, spreads=False), 1)
        return [node.group for node in homes(it.at(20), "api")]

    assert (homes_of(""), homes_of("spot")) == (["demand"], ["spot"])


def test_on_demand_nodes_come_once_every_spot_group_has_failed_if_the_first_pause_lasts_that_long() -> None:
    """With the usual pause of 5 minutes the first group is tried again before the last one has failed."""
    shapes = [group(f"spot-{number}", priority=1, boot_s=30.0, zones=("a", "b")) for number in range(5)]
    capacity = SpotCapacity(without={shape.name: BOTH_OUT for shape in shapes})

    def minutes_until_on_demand(pause_s: float) -> int:
        flags = replace(FLAGS, first_backoff_s=pause_s)
        it = Played([*shapes, DEMAND], flags, accidents=Accidents(capacity=capacity))
        it.cluster.deploy(workload(), 1)
        return next(at for at in range(60) if it.at(60 * at).node_counts()["demand"])

    assert minutes_until_on_demand(20 * 60.0) <= 11  # ten zones, a minute each
    assert minutes_until_on_demand(5 * 60.0) > 11
