"""Requests against pods: what is answered, lost and turned away, and when pods are there."""

from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.lab.simulator.services.fleet import ReplicaFleet
from ebbtide.lab.simulator.services.run import MinuteSeries, ServedRequests, ServiceSight, TraceSpan, play, quantile
from ebbtide.lab.simulator.services.served import PlayedMetric
from ebbtide.lab.simulator.services.strategies import Autoscaled, Fixed, hpa_of, keda_defaults
from ebbtide.lab.simulator.strategies.hpa import Hpa, HpaMetric, TargetKind
from ebbtide.settings.sections.serving.routes import BalanceKind
from tests.builders.workloads.played import a_pod, a_service, evenly
from tests.counts import examples

SURE = a_pod(spread=0.0)


@dataclass
class Steps:
    """So many pods from each second on."""

    plan: dict[float, int]
    least: int = 0

    def first(self) -> int:
        return self.plan[0]

    def decide(self, now: float, _seen: ServiceSight) -> int:
        return next(pods for at, pods in reversed(self.plan.items()) if at <= now)


def test_without_a_wait_a_request_takes_what_it_takes() -> None:
    served = play(a_service(pod=SURE), Fixed(1), evenly(1, 60), TraceSpan(0, 60))

    assert (served.sent, served.answered, served.lost) == (60, 60, 0)
    assert set(served.latencies) == {1.0}


def test_a_pod_works_on_so_many_at_once_and_the_others_wait_their_turn() -> None:
    served = play(a_service(pod=SURE), Fixed(1), [0, 0, 0, 0, 0.5], TraceSpan(0, 60))

    assert sorted(served.latencies) == [1, 1, 2, 2, 2.5]


def test_who_waits_longer_than_the_longest_request_is_lost_and_takes_no_place() -> None:
    served = play(a_service(pod=SURE, longest_s=2.5), Fixed(1), [0.0] * 8 + [3.0], TraceSpan(0, 60))

    assert (served.answered, served.lost) == (5, 4)
    assert sorted(served.latencies) == [1, 1, 1, 2, 2]


def test_more_than_may_be_under_way_are_turned_away_at_once() -> None:
    served = play(a_service(pod=SURE, max_in_flight=3), Fixed(1), [0.0] * 5, TraceSpan(0, 60))

    assert (served.answered, served.turned_away) == (3, 2)


def test_a_new_pod_takes_requests_once_its_node_and_it_are_there() -> None:
    service = a_service(pod=a_pod(spread=0.0, at_once=1, per_node=1))
    served = play(service, Steps({0: 1, 15: 2}), evenly(1.9, 400), TraceSpan(0, 400))
    ready = served.series.ready

    assert ready[:5] == [1, 1, 1, 2, 2]
    assert served.lost > 0


def test_where_a_node_has_room_only_the_pod_has_to_start() -> None:
    served = play(a_service(pod=a_pod(per_node=2)), Steps({0: 1, 15: 2}), evenly(1, 400), TraceSpan(0, 400))

    assert served.series.ready[:3] == [1, 2, 2]


def test_a_node_that_was_left_is_there_for_ten_minutes() -> None:
    fleet = ReplicaFleet(a_pod(per_node=1))
    fleet.begin(0, 2)
    fleet.scale(0, 1)
    fleet.scale(300, 2)
    assert fleet.next_ready == 360
    fleet.become_ready(360)
    fleet.scale(400, 1)
    fleet.scale(420, 1)
    fleet.scale(1100, 1)
    fleet.scale(1200, 2)
    assert fleet.next_ready == 1200 + 120 + 60


def test_a_pod_that_is_told_to_stop_answers_what_it_has() -> None:
    service = a_service(pod=a_pod(spread=0.0, request_s=20.0, at_once=4))
    served = play(service, Steps({0: 4, 15: 1}), [1.0] * 12, TraceSpan(0, 120))

    assert (served.answered, served.lost) == (12, 0)


def test_a_pod_is_billed_until_its_last_request_has_ended_and_at_least_until_it_may_stop() -> None:
    fleet = ReplicaFleet(a_pod(stop_s=5.0))
    fleet.begin(0, 3)
    fleet.ready[2].slots = [0.0, 21.0]
    fleet.scale(15, 1)

    assert fleet.hours(15) * 3600 == pytest.approx(15 + 20 + 21)


def test_pods_that_are_not_ready_go_before_those_that_are() -> None:
    fleet = ReplicaFleet(a_pod())
    fleet.begin(0, 3)
    fleet.scale(0, 5)
    fleet.scale(15, 3)

    assert (len(fleet.ready), len(fleet.starting)) == (3, 0)
    assert fleet.hours(15) * 3600 == pytest.approx(15 * 5)


def test_without_a_pod_requests_are_lost() -> None:
    assert play(a_service(), Fixed(0), evenly(1, 10), TraceSpan(0, 10)).lost == 10


def test_a_step_of_load_brings_pods_and_its_end_takes_them_away_slowly() -> None:
    service = a_service(most=20)
    load = [at for at in evenly(16, 2400) if 600 <= at < 1500 or not int(at * 16) % 16]
    served = play(service, Autoscaled(service, Hpa(hpa_of(service)), 1), load, TraceSpan(0, 2400))
    asked = served.series.replicas

    assert asked[8] == 1
    assert 9 <= max(asked) <= 20
    assert min(asked[25:29]) >= 8, "what the load needed until then, for five minutes"
    assert asked[-1] < 8


def test_while_metrics_are_missing_the_number_holds_and_kedas_defaults_let_go() -> None:
    service = a_service()
    blind = (TraceSpan(600, 1200),)

    def lowest(decider: Autoscaled) -> int:
        served = play(service, decider, evenly(10, 1200), TraceSpan(0, 1200), blind=blind)
        return min(served.series.replicas[10:])

    assert lowest(Autoscaled(service, Hpa(hpa_of(service)), 8)) >= 7
    assert lowest(Autoscaled(service, Hpa(keda_defaults(service)), 8, missing_is_zero=True)) == 1


def test_while_nothing_is_known_of_the_load_nobody_decides() -> None:
    served = play(a_service(), Steps({0: 4, 300: 1}), [], TraceSpan(0, 900), held=(TraceSpan(240, 600),))

    assert served.series.replicas == [4] * 10 + [1] * 5


def test_least_request_leaves_a_busy_pod_alone_and_round_robin_does_not() -> None:
    chance = Random(5)
    times = sorted(chance.random() * 3000 for _ in range(13_000))
    p95: dict[BalanceKind, float] = {}
    for kind in (BalanceKind.LEAST_REQUEST, BalanceKind.ROUND_ROBIN, BalanceKind.RANDOM):
        service = a_service(pod=a_pod(at_once=1, spread=1.0), balance=kind)
        p95[kind] = quantile(sorted(play(service, Fixed(6), times, TraceSpan(0, 3000)).latencies), 0.95)

    assert p95[BalanceKind.LEAST_REQUEST] < p95[BalanceKind.ROUND_ROBIN] < p95[BalanceKind.RANDOM]


@settings(max_examples=examples(25), deadline=None)
@given(
    rate=st.floats(0.2, 12),
    seed=st.integers(0, 100),
    cap=st.none() | st.integers(1, 40),
    at_once=st.integers(1, 4),
    floor=st.integers(1, 20),
    defaults=st.booleans(),
)
def test_every_request_is_answered_lost_or_turned_away_and_pods_stay_in_their_limits(
    rate: float, seed: int, cap: int | None, at_once: int, floor: int, defaults: bool
) -> None:
    service = a_service(pod=a_pod(at_once=at_once), max_in_flight=cap, most=12)
    spec = keda_defaults(service) if defaults else hpa_of(service)
    decider = Autoscaled(service, Hpa(spec), 1, floor=lambda now, _sent: floor if now > 300 else 1)
    chance = Random(seed)
    times = sorted(chance.random() * 900 for _ in range(int(rate * 900)))
    served = play(service, decider, times, TraceSpan(0, 900), seed=seed)

    assert served.sent == len(times) == served.answered + served.lost + served.turned_away
    assert 1 <= served.fewest_replicas <= served.most_replicas <= 12
    assert all(pods >= min(floor, 12) for pods in served.series.replicas[6:])
    assert sum(served.series.sent) == served.sent
    assert all(latency <= service.longest_s + 1e-6 for latency in served.latencies)


def test_the_same_seed_gives_the_same_figures() -> None:
    service = replace(a_service(), most=8)

    def once(seed: int) -> ServedRequests:
        decider = Autoscaled(service, Hpa(hpa_of(service)), 2)
        return play(service, decider, evenly(5, 900), TraceSpan(0, 900), seed=seed)

    assert play(service, Fixed(1), [1.0], TraceSpan(0, 60), seed=1) != play(
        service, Fixed(1), [1.0], TraceSpan(0, 60), seed=2
    )
    assert once(1) == once(1)
    assert once(1).latencies != once(2).latencies


@given(
    plan=st.dictionaries(st.integers(1, 19).map(lambda beat: beat * 45.0), st.integers(0, 6), max_size=6),
    rate=st.floats(0.1, 4),
    length=st.sampled_from((60, 300, 890)),
)
@settings(max_examples=examples(30), deadline=None)
def test_what_the_minutes_tell_adds_up_to_the_whole(plan: dict[float, int], rate: float, length: float) -> None:
    steps = {0.0: 2, **dict(sorted(plan.items()))}
    service = a_service(longest_s=2.0, max_in_flight=5)
    served = play(service, Steps(steps), evenly(rate, length), TraceSpan(0, length))
    series = served.series
    ends = [*list(steps)[1:], length]
    asked_s = sum(pods * max(0.0, min(end, length) - at) for (at, pods), end in zip(steps.items(), ends, strict=True))
    fewer = sum(max(0, one - other) for one, other in pairwise(steps.values()))

    assert sum(series.sent) == served.sent
    assert series.pod_hours == sorted(series.pod_hours)
    assert series.pod_hours[-1] == served.pod_hours
    assert asked_s - 1e-6 <= 3600 * served.pod_hours <= asked_s + fewer * service.pod.stop_s + 1e-6
    assert series.unanswered[-1] == served.lost + served.turned_away
    assert {len(values) for values in (series.sent, series.floor, series.replicas, series.ready, series.pod_hours)} == {
        -(-length // 60)
    }


def test_each_minute_knows_the_floor_that_its_strategy_had() -> None:
    service = a_service()
    strategy = Autoscaled(service, Hpa(hpa_of(service)), 1, lambda now, _sent: 4 if 120 <= now < 300 else 0)

    assert play(service, strategy, [], TraceSpan(0, 420)).series.floor == [1, 1, 4, 4, 4, 1, 1]
    assert play(service, Fixed(3), [], TraceSpan(0, 120)).series.floor == [3, 3]


def test_a_95th_percentile_is_of_what_was_answered_in_its_minutes() -> None:
    series = MinuteSeries(answered=[2, 2, 4, 5, 6, 6, 6])
    latencies = [1.0, 2.0, 9.0, 3.0, 4.0, 5.0]

    assert list(series.p95(latencies, 1)) == [2.0, None, 9.0, 4.0, 5.0, None, None]
    assert list(series.p95(latencies, 3)) == [9.0, 5.0, None]
    assert list(series.p95(latencies, 5)) == [9.0, None]


def test_latency_is_of_two_minutes_and_throughput_of_one() -> None:
    metrics = tuple(
        PlayedMetric(key, HpaMetric(TargetKind.RATIO, 1)) for key in ("latency", "throughput", "queue", "cpu")
    )
    service = a_service(pod=SURE, metrics=metrics)
    seen: list[tuple[float | None, ...]] = []

    @dataclass
    class Watching:
        least: int = 0

        def first(self) -> int:
            return 1

        def decide(self, _now: float, its: ServiceSight) -> int:
            seen.append(tuple(its.values))
            return 1

    play(service, Watching(), [*(at + 0.5 for at in range(60)), *(100.5 for _ in range(6))], TraceSpan(0, 300))

    assert seen[4] == (1.0, 59 / 60, 0, 50)
    assert (seen[7][0], seen[12][0]) == (2.0, 3.0)
    assert (seen[7][1], seen[9][1]) == pytest.approx((22 / 60, 6 / 60))
    assert seen[-1] == (0.0, 0.0, 0, 0)
