"""What is asked about services, played on Prometheus itself: values, known zeros, and nothing where nothing is."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ebbtide.monitoring import serving
from ebbtide.monitoring.serving_rules import serving_alerts
from ebbtide.settings.sections.serving.services import SINGLE_VARIANT
from tests.builders.workloads.services import services_stack, spot_stack

pytestmark = pytest.mark.process

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH (Debian's package prometheus has it)")

CLUSTER = "httproute/ebbtide/embedder-small/rule/0"
OTHERS = "httproute/ebbtide/embedder-large/rule/0"
IN_FLIGHT = serving.in_flight_query("acme", [CLUSTER])
LATENCY = serving.latency_query("acme", [CLUSTER])
THROUGHPUT = serving.throughput_query("acme", [CLUSTER])
MINUTES = 10
PORTS = "{ http: 8000, metrics: 9100 }"


def envoy(metric: str, pod: str = "one", *, cluster: str = CLUSTER, customer: str = "acme", more: str = "") -> str:
    return (
        f'envoy_cluster_{metric}{{customer="{customer}",pod="{pod}",envoy_cluster_name="{cluster}"'
        f"{',' + more if more else ''}}}"
    )


KNOWN = envoy("membership_total")


def asked(folder: Path, query: str, series: Mapping[str, str], value: float | None, *, interval: str = "1m") -> None:
    """`series`: each with its values, one for each interval, in promtool's own form. `value`: None for no result."""
    test = {
        "interval": interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"max({query})",  # the value alone
                "eval_time": f"{MINUTES}m",
                "exp_samples": [] if value is None else [{"labels": "{}", "value": value}],
            }
        ],
    }
    path = folder / "test.json"
    path.write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}), encoding="utf-8")
    done = subprocess.run([PROMTOOL or "", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def growing(*, by: float) -> str:
    return f"0+{by}x{MINUTES}"


def same(value: float) -> str:
    return f"{value}x{MINUTES}"


@needs_promtool
def test_what_is_in_flight_is_added_up_over_proxies_with_what_waits(tmp_path: Path) -> None:
    series = {
        envoy("upstream_rq_active"): same(3),
        envoy("upstream_rq_active", "two"): same(4),
        envoy("upstream_rq_pending_active"): same(0),
        envoy("upstream_rq_pending_active", "two"): same(5),
        envoy("upstream_rq_active", cluster=OTHERS): same(100),
        envoy("upstream_rq_active", customer="other"): same(1000),
    }

    asked(tmp_path, IN_FLIGHT, series, 12)
    asked(tmp_path, serving.in_flight_query("acme", [CLUSTER, OTHERS]), series, 112)


@needs_promtool
def test_a_cluster_that_is_named_after_its_backend_too_is_the_same(tmp_path: Path) -> None:
    """As Envoy Gateway names it where zones count, which is from six pods on."""
    of_zones = envoy("upstream_rq_active", cluster=f"{CLUSTER}/backend/0")
    of_others = envoy("upstream_rq_active", cluster=f"{OTHERS}/backend/0")
    waiting = envoy("upstream_rq_pending_active", cluster=f"{CLUSTER}/backend/0")

    asked(tmp_path, IN_FLIGHT, {of_zones: same(3), of_others: same(100), waiting: same(2)}, 5)
    asked(tmp_path, IN_FLIGHT, {envoy("membership_total", cluster=f"{CLUSTER}/backend/0"): same(2)}, 0)


@needs_promtool
@pytest.mark.parametrize("query", [IN_FLIGHT, LATENCY, THROUGHPUT])
def test_missing_series_are_not_zero_but_a_cluster_without_requests_is(query: str, tmp_path: Path) -> None:
    asked(tmp_path, query, {}, None)
    asked(tmp_path, query, {envoy("membership_total", cluster=OTHERS): same(2)}, None)
    asked(tmp_path, query, {KNOWN: same(2)}, 0)


@needs_promtool
@pytest.mark.parametrize("query", [IN_FLIGHT, LATENCY, THROUGHPUT])
def test_a_proxy_that_is_away_takes_its_zero_with_it(query: str, tmp_path: Path) -> None:
    asked(tmp_path, query, {KNOWN: "2x5 stale"}, None)


@needs_promtool
def test_for_each_pod_the_proxy_that_knows_most_of_them_counts(tmp_path: Path) -> None:
    per_pod = serving.for_each_pod("acme", [CLUSTER], IN_FLIGHT)
    busy = {envoy("upstream_rq_active", pod): same(6) for pod in ("one", "two")}
    busy |= {envoy("upstream_rq_pending_active", pod): same(0) for pod in ("one", "two")}
    others = {envoy("membership_total", cluster=OTHERS): same(50)}

    asked(tmp_path, per_pod, {**busy, KNOWN: same(4), envoy("membership_total", "two"): same(3), **others}, 3)
    asked(tmp_path, per_pod, {**others, KNOWN: same(4)}, 0)


@needs_promtool
def test_without_a_pod_there_is_no_number_for_each_that_would_lower_anything(tmp_path: Path) -> None:
    per_pod = serving.for_each_pod("acme", [CLUSTER], IN_FLIGHT)

    asked(tmp_path, per_pod, {KNOWN: same(0)}, None)
    asked(tmp_path, per_pod, {}, None)


@needs_promtool
def test_latency_is_in_seconds_and_zero_without_requests(tmp_path: Path) -> None:
    """95 of 100 lie within 250 ms, and so does the 95th percentile."""
    buckets = {"100": 50, "250": 95, "500": 100, "+Inf": 100}
    busy = {envoy("upstream_rq_time_bucket", more=f'le="{le}"'): growing(by=count) for le, count in buckets.items()}
    quiet = {envoy("upstream_rq_time_bucket", more=f'le="{le}"'): same(count) for le, count in buckets.items()}

    asked(tmp_path, LATENCY, {KNOWN: same(2), **busy}, 0.25)
    asked(tmp_path, LATENCY, {KNOWN: same(2), **quiet}, 0)


@needs_promtool
def test_throughput_is_by_the_second_over_all_proxies(tmp_path: Path) -> None:
    answered = {envoy("upstream_rq_time_count", pod): f"0+30x{2 * MINUTES}" for pod in ("one", "two")}

    asked(tmp_path, THROUGHPUT, answered, 2, interval="30s")


@needs_promtool
def test_what_waits_in_pods_is_added_up_and_away_with_them(tmp_path: Path) -> None:
    query = serving.queue_query("acme", "vllm:num_requests_waiting", "embedder-large")
    of = 'customer="acme",namespace="ebbtide",workload="embedder-large"'
    series = {f'vllm:num_requests_waiting{{{of},pod="{pod}"}}': same(4) for pod in ("a", "b")}

    asked(tmp_path, query, series, 8)
    asked(tmp_path, query, {}, None)


@needs_promtool
@pytest.mark.parametrize("kind", ["embedder-7d9c8b6f5-x2x4z", "embedder-0", "embedder-12"])
def test_gpus_are_those_of_the_pods_alone(kind: str, tmp_path: Path) -> None:
    def gpu(pod: str, namespace: str = "ebbtide") -> str:
        return f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",namespace="{namespace}",pod="{pod}"}}'

    others = {gpu(pod): same(100) for pod in ("embedder-large-7d9c8b6f5-x2x4z", "embedder-large-0", "embedder", "")}
    series = {gpu(kind): same(40), gpu(kind, "elsewhere"): same(90), **others}

    asked(tmp_path, serving.gpu_query("embedder"), series, 40)
    asked(tmp_path, serving.gpu_query("embedder"), others, None)


@needs_promtool
def test_use_of_a_mig_instance_is_its_profiling_metric_and_without_one_not_known(tmp_path: Path) -> None:
    def gpu(metric: str, instance: str = "") -> str:
        return f'DCGM_FI_{metric}{{gpu="0",namespace="ebbtide",pod="embedder-0"{instance}}}'

    shares = {f',GPU_I_ID="{number}",GPU_I_PROFILE="1g.10gb"': share for number, share in ((7, 0.2), (8, 0.6))}
    useless = {gpu("DEV_GPU_UTIL", instance): same(0) for instance in shares}
    profiled = {gpu("PROF_GR_ENGINE_ACTIVE", instance): same(share) for instance, share in shares.items()}
    whole = {gpu("DEV_GPU_UTIL"): same(40), gpu("PROF_GR_ENGINE_ACTIVE"): same(0.9)}

    asked(tmp_path, serving.gpu_query("embedder"), useless, None)
    asked(tmp_path, serving.gpu_query("embedder"), useless | profiled, 40)
    asked(tmp_path, serving.gpu_query("embedder"), whole, 40)


@needs_promtool
def test_a_service_that_sleeps_misses_no_gauge_of_its_pods_and_one_with_pods_does(tmp_path: Path) -> None:
    scale = "scale: { metrics: { cpu: 70% }, min: 1, max: 6 }"
    gauges = '{ query: { promql: "sum(backlog)", target: 10 }, queue: { metric: waiting, target: 4 } }'
    stack = services_stack((scale, f"scale: {{ metrics: {gauges}, min: 0, max: 6 }}"), ("{ http: 8000 }", PORTS))
    (alert,) = [
        it
        for it in serving_alerts(stack)
        if it.name == "EbbtideServiceMetricMissing" and it.labels["service"] == "ranker"
    ]
    pods = 'ebbtide_hpa_replicas{customer="acme",namespace="ebbtide",hpa="ranker"}'

    asked(tmp_path, alert.expr, {pods: same(0)}, None)
    asked(tmp_path, alert.expr, {pods: same(2)}, 1)


def test_a_variant_has_the_cluster_of_its_route_and_one_with_a_weight_that_of_its_place() -> None:
    stack = services_stack(
        (
            'when: { header: "x-model-size: large" }',
            "weight: 10",
        ),
        ("cpu: 3, memory: 12Gi }", "cpu: 3, memory: 12Gi, weight: 90 }"),
    )

    assert serving.envoy_cluster(services_stack(), "embedder", "small") == CLUSTER
    assert {serving.envoy_cluster(spot_stack(), "embedder", it) for it in ("small", "cheap")} == {CLUSTER}
    assert serving.envoy_cluster(services_stack(), "ranker", SINGLE_VARIANT) == "httproute/ebbtide/ranker/rule/0"
    assert [serving.envoy_cluster(stack, "embedder", it) for it in ("small", "large")] == [
        f"httproute/ebbtide/embedder/rule/0/backend/{place}" for place in (0, 1)
    ]


def test_a_variant_of_weight_0_is_the_last_of_its_route_wherever_the_file_has_it() -> None:
    stack = services_stack(
        ('when: { header: "x-model-size: large" }', "weight: 100"),
        ("cpu: 3, memory: 12Gi }", "cpu: 3, memory: 12Gi, weight: 0 }"),
    )

    assert [serving.envoy_cluster(stack, "embedder", it) for it in ("small", "large")] == [
        f"httproute/ebbtide/embedder/rule/0/backend/{place}" for place in (1, 0)
    ]
