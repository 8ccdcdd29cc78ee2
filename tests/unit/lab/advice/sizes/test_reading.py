"""What is read from Prometheus' answers, written by hand: days, peaks, kills, throttling, recorded pods."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ebbtide.lab.advice.sizes.containers import Container, containers
from ebbtide.lab.advice.sizes.evidence import ContainerUsage
from ebbtide.lab.advice.sizes.queries import NothingRecorded
from ebbtide.lab.advice.sizes.reading import RecordedUsage, is_daemon_pod, read_uses
from ebbtide.lab.advice.sizes.uses import quantile
from ebbtide.monitoring.client import Prometheus
from ebbtide.monitoring.links import NoReply, Reply
from ebbtide.settings.fragment.size import PodSize
from tests.builders.evidence.of_sizes import EVIDENCE
from tests.builders.evidence.told import Points, Told, hourly
from tests.builders.settings import loaded, shortest

UNTIL = datetime(2026, 11, 24, 12, tzinfo=UTC)
CPU, MEMORY, SLOWED = "container_cpu_usage", "container_memory_working", "cfs_throttled"
KILLS, MEMORY_ASKED, CPU_ASKED = "oom_kills", "max_over_time(ebbtide_pod_requested_memory", "_requested_cpu_cores"
API = "namespace=ebbtide workload=api"
OF_API, GIB = f"{API} container=api", 2.0**30
STACK = """\
ebbtide:workloads:
  api: { category: flexible, image: "api:1", cpu: 2, memory: 4Gi, limits: { cpu: 4 }, pod: { containers: [SIDECAR] } }
"""
SIDECAR = '{ name: log, image: "log:1", resources: { requests: { cpu: 500m, memory: 1Gi } } }'


@pytest.fixture
def wanted(tmp_path: Path) -> list[Container]:
    return containers(loaded(shortest(more=STACK.replace("SIDECAR", SIDECAR)), tmp_path))


def read(wanted: list[Container], courses: Mapping[str, Mapping[str, Points]]) -> RecordedUsage:
    asking = Prometheus(Told(UNTIL, courses), "acme", lambda: UNTIL)
    return read_uses(asking, "acme", wanted, UNTIL, EVIDENCE)


def api(wanted: list[Container], courses: Mapping[str, Mapping[str, Points]]) -> ContainerUsage:
    found = read(wanted, {MEMORY: {OF_API: hourly(14, lambda _: GIB)}, **courses})
    return found.uses[next(item.place for item in wanted if item.place.workload == "api")]


def test_days_are_those_on_which_it_was_seen(wanted: list[Container]) -> None:
    weekdays = [(hour, GIB) for hour, _ in hourly(14, lambda _: 1) if hour // 24 % 7 < 5]

    assert api(wanted, {MEMORY: {OF_API: weekdays}}).days == 10


def test_cpu_is_what_is_enough_for_95_percent_of_the_time_and_memory_the_most(wanted: list[Container]) -> None:
    cpu = hourly(10, lambda hour: 3.0 if hour % 25 == 0 else 0.5)  # 4 % of the time

    found = api(wanted, {CPU: {OF_API: cpu}, MEMORY: {OF_API: hourly(10, lambda hour: GIB * (1 + (hour == 7)))}})

    assert found.cpu is not None
    assert found.memory is not None
    assert (found.cpu.total, found.memory.total, found.memory.older) == (500, 2048, 1024)


def test_the_quantile_is_a_value_that_was_seen() -> None:
    assert quantile([*range(1, 101)]) == 95
    assert quantile([7]) == 7


def test_memory_that_is_higher_each_day_grows_and_one_level_day_means_it_does_not(wanted: list[Container]) -> None:
    rising = hourly(14, lambda hour: GIB * (2 - hour / 336))
    flat_once = hourly(14, lambda hour: GIB * (2 - (hour if hour // 24 != 3 else 96) / 336))

    assert api(wanted, {MEMORY: {OF_API: rising}}).growing
    assert not api(wanted, {MEMORY: {OF_API: flat_once}}).growing
    assert not api(wanted, {MEMORY: {OF_API: hourly(14, lambda hour: GIB * (2 - hour / 33600))}}).growing


def test_a_kill_is_counted_once_at_its_own_containers_request_before_it(wanted: list[Container]) -> None:
    """The increase is seen in two steps; a rollout follows in the same step. A sidecar asks for 1Gi of the pod's 5."""
    step = EVIDENCE.step.total_seconds() / 3600
    kills = [(30 + step, 0.0), (30.0, 1.0), (30 - step, 1.0), (30 - 2 * step, 0.0)]
    requested = [(at, GIB * (5 if at >= 30 else 9)) for at in (30 + 2 * step, 30 + step, 30.0, 30 - step, 1.0)]

    found = api(wanted, {KILLS: {"workload=api": kills}, MEMORY_ASKED: {API: requested}})

    assert (found.kills, found.killed_at) == (1, 4096)


def test_of_several_kills_the_one_with_most_memory_counts(wanted: list[Container]) -> None:
    kills = [(60.0, 1.0), (30.0, 1.0)]
    requested = [(60.0, 3 * GIB), (30.0, 5 * GIB), (1.0, 9 * GIB)]

    assert api(wanted, {KILLS: {"workload=api": kills}, MEMORY_ASKED: {API: requested}}).killed_at == 4096


def test_no_kill_is_known_and_no_counter_is_not(wanted: list[Container]) -> None:
    assert api(wanted, {KILLS: {"workload=api": hourly(1, lambda _: 0)}}).kills == 0
    assert api(wanted, {}).kills is None


def test_throttling_counts_at_the_largest_size_that_it_held_back(wanted: list[Container]) -> None:
    shares = hourly(14, lambda hour: 0.2 if hour >= 48 else 0.01)
    requested = hourly(14, lambda hour: 1.5 if hour >= 48 else 2.5)

    found = api(wanted, {SLOWED: {OF_API: shares}, CPU_ASKED: {API: requested}})

    assert (found.throttled, found.throttled_at) == (0.2, 1000)


def test_of_two_sizes_that_were_held_back_the_larger_one_counts(wanted: list[Container]) -> None:
    shares = hourly(14, lambda hour: 0.4 if hour >= 48 else 0.2)
    requested = hourly(14, lambda hour: 1.5 if hour >= 48 else 2.5)

    found = api(wanted, {SLOWED: {OF_API: shares}, CPU_ASKED: {API: requested}})

    assert (found.throttled, found.throttled_at) == (0.2, 2000)


def test_without_throttling_the_share_of_all_counts_and_without_a_limit_none_is_known(wanted: list[Container]) -> None:
    assert api(wanted, {SLOWED: {OF_API: hourly(14, lambda _: 0.01)}}).throttled == 0.01
    assert api(wanted, {}).throttled is None


def test_pods_run_as_long_as_they_were_seen_and_daemons_are_left_out(wanted: list[Container]) -> None:
    pod = "customer=acme group=flexible node=n1 namespace=ebbtide"
    placed = {
        f"{pod} workload=api pod=api-6d4f8b7c9d-x2v4z": hourly(2, lambda _: 1),
        f"{pod} workload= pod=coredns-6d4f8b7c9d-bcdfg": hourly(1, lambda _: 1)[:12],
        f"{pod} workload= pod=kube-proxy-bcdfg": hourly(2, lambda _: 1),
    }
    asked = {"namespace=ebbtide pod=api-6d4f8b7c9d-x2v4z": [(0.0, 2.5)]}

    found = read(
        wanted,
        {
            MEMORY: {OF_API: hourly(1, lambda _: GIB)},
            "node_info": placed,
            "last_over_time(ebbtide_pod_requested_cpu": asked,
        },
    )

    assert [(item.workload, item.start, item.end) for item in found.pods] == [("api", 47.5, 0.0), ("", 23.5, 11.5)]
    assert found.pods[0].size == PodSize(cpu=2500, memory=0, gpu=0)


def test_pods_whose_requests_cannot_be_read_are_unknown_and_not_small(wanted: list[Container]) -> None:
    class RequestsAway(Told):
        def get(self, path: str, query: Mapping[str, object]) -> Reply:
            if "last_over_time(ebbtide_pod_requested_memory" in str(query.get("query")):
                raise NoReply("timed out")
            return super().get(path, query)

    pod = "customer=acme group=flexible node=n1 namespace=ebbtide workload=api pod=api-6d4f8b7c9d-x2v4z"
    told = RequestsAway(UNTIL, {MEMORY: {OF_API: hourly(1, lambda _: GIB)}, "node_info": {pod: hourly(2, lambda _: 1)}})

    found = read_uses(Prometheus(told, "acme", lambda: UNTIL), "acme", wanted, UNTIL, EVIDENCE)

    assert found.pods == ()
    assert found.missing["pods that ran"] == "Prometheus at test: timed out"


@pytest.mark.parametrize(
    ("pod", "is_daemon"),
    [
        ("aws-node-4kx9z", True),
        ("api-7d9f8b6c5d-x2v4z", False),
        ("db-0", False),
        ("metrics-server-54bf7cdd6-9q7rp", False),
    ],
)
def test_pods_of_daemon_sets_are_known_by_their_names(pod: str, is_daemon: bool) -> None:
    assert is_daemon_pod(pod) is is_daemon


def test_without_cpu_and_memory_there_is_no_advice_and_each_is_a_line(wanted: list[Container]) -> None:
    with pytest.raises(NothingRecorded) as nothing:
        read(wanted, {})

    assert nothing.value.lines == (
        "Prometheus at test has nothing for container_cpu_usage_seconds_total of its pods",
        "Prometheus at test has nothing for container_memory_working_set_bytes of its pods",
    )


def test_other_missing_metrics_are_named(wanted: list[Container]) -> None:
    found = read(wanted, {MEMORY: {OF_API: hourly(1, lambda _: GIB)}})

    assert found.missing["CPU used"].endswith("has nothing for container_cpu_usage_seconds_total of its pods")
    assert found.missing["kills for lack of memory"].endswith(
        "has nothing for ebbtide_container_oom_kills_total of its pods"
    )
    assert not {"number of GPUs used", ""} & found.missing.keys(), "no GPUs, and no CPU limits"
