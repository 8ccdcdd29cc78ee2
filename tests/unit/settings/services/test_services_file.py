"""The section of services: what a variant takes from its service, and what is refused, one line each."""

from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.labels import NodeKind, ReplicasOwner
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.controller_document import controller_config
from ebbtide.settings.every_pod import every_pod
from ebbtide.settings.placement import home_of
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.vocabulary.labels import Category
from tests.builders.components import REDIS
from tests.builders.settings import problem_of, problems_of
from tests.builders.workloads.services import services_stack, with_services

SMALL, LARGE = "embedder-small", "embedder-large"
BY_WHEN = 'when: { header: "x-model-size: large" }'


def served(name: str, *changes: tuple[str, str]) -> ServedWorkload:
    found = services_stack(*changes).all_workloads[name]
    assert isinstance(found, ServedWorkload)
    return found


def test_a_variant_has_the_keys_of_its_service_and_its_own() -> None:
    small, large = served(SMALL), served(LARGE)

    assert small.ports == large.ports == {"http": 8000, "metrics": 9100}
    assert (small.gpu.count, large.gpu.count) == (0, 1)
    assert (home_of(small), home_of(large)) == (NodeKind.FLEXIBLE, NodeKind.GPU)


def test_a_key_of_a_variant_goes_before_that_of_the_service() -> None:
    stack = services_stack((BY_WHEN, f"{BY_WHEN}, scale: {{ min: 3, max: 3 }}".replace(", scale", "\n        scale")))
    variants = stack.services["embedder"].variants

    assert (variants["small"].scale.max, variants["large"].scale.max) == (12, 3)


def test_a_service_without_variants_has_pods_of_its_own_name() -> None:
    ranker = served("ranker")

    assert (ranker.category, ranker.replicas, ranker.replicas_owner) == (Category.FLEXIBLE, 1, ReplicasOwner.HPA)
    assert "services.ranker" in [entry.path for entry in every_pod(services_stack())]


def test_the_grace_covers_the_wait_before_the_signal_and_the_longest_request() -> None:
    draining, cut = (
        served("ranker"),
        served("ranker", ("longestRequest: 10s", "longestRequest: 10s\n    drains: false")),
    )

    assert draining.stop_delay == timedelta(seconds=5)
    assert draining.grace >= draining.stop_delay + timedelta(seconds=10)
    assert timedelta(seconds=10) < cut.stop_delay <= cut.grace


def test_the_budget_of_a_pod_that_may_be_alone_never_opens() -> None:
    config = controller_config(services_stack(), REDIS, years=(2026,))

    assert {it.name for it in config.budgets} >= {SMALL, LARGE}
    assert "ranker" in {it.name for it in config.never_opened}
    assert "ranker" not in {it.name for it in config.budgets}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("inFlight: 3", "inFlight: 0"), ("number.not-positive", "services.embedder.scale.metrics.inFlight:")),
        (("cpu: 70%", "cpu: 0%"), ("percent.form", "services.ranker.scale.metrics.cpu:", "0%")),
        (("min: 2, max: 12", "min: 20, max: 12"), ("min.above-max", "services.embedder.scale.min:", "12")),
        (("longestRequest: 60s", "longestRequest: 600s"), ("service.longer-than-balancer", "350s", "10m")),
        (("inFlight: 3, latency: 300ms", "gpu: 70%"), ("scale.gpu-without-gpu", "metrics.gpu:", "without a GPU")),
        ((BY_WHEN, "labels: {}"), ("variants.no-when", "services.embedder.variants", "small, large")),
        (("inFlight: 3, latency: 300ms", "latency: 300ms"), ("scale.falls-silent", "latency beside inFlight")),
        (
            ("inFlight: 3, latency: 300ms", "inFlight: 3, throughput: 0"),
            ("number.not-positive", "metrics.throughput:"),
        ),
        (("probes: { readiness: { tcp: http } }", "labels: {}"), ("service.no-probe", "services.ranker.probes:")),
        (("p95: 400ms", "p95: 100ms"), ("slo.too-short", "150ms", "100ms", "300ms")),
        (("latency: 300ms", "latency: 100ms"), ("scale.latency-too-short", "metrics.latency:", "150ms")),
        (("p95: 400ms", "p95: 400"), ("duration.no-unit", "slo.p95:", "400ms")),
        (("errors: 0.1%", "errors: 0.1"), ("percent.form", "slo.errors:")),
        (
            ("port: http\n    probes: { readiness: { http", "port: web\n    probes: { readiness: { http"),
            ("service.no-such-port", "'web'"),
        ),
        (("min: 1, max: 6", "min: 0, max: 6"), ("scale.zero", "HTTP wakes nothing")),
        (("metrics: { cpu: 70% }, min: 1, max: 6", "min: 1, max: 6"), ("scale.no-metric", "metrics:")),
        (("hardware: cpu, image", "hardware: gpu, image"), ("variant.hardware", "variants.small.gpu:")),
        (
            ("metrics: { cpu: 70% }", "metrics: { inFlight: 2 }"),
            ("scale.no-route", "services.ranker.scale.metrics.inFlight:"),
        ),
        (
            ("min: 1, max: 6 }", "min: 1, max: 6 }\n    category: fixed"),
            ("scale.fixed", "services.ranker.scale:", "min: 1, max: 6"),
        ),
        (("min: 1, max: 6 }", "min: 1, max: 6 }\n    vertical: initial"), ("vertical.scaled", "metric cpu")),
        (("min: 1, max: 6 }", "min: 1, max: 6 }\n    replicas: 3"), ("key.elsewhere", "scale: { min, max }")),
        (("cpu: 1\n", "cpu: 300\n"), ("pod.too-large", "services.ranker:")),
        (
            ("{ prometheus: bundled }", "{ prometheus: none }"),
            ("scale.no-prometheus", "metrics.inFlight", "metrics.latency"),
        ),
    ],
)
def test_what_cannot_work_is_told_in_a_line(change: tuple[str, str], said: tuple[str, ...], tmp_path: Path) -> None:
    problems = problems_of(with_services(change), tmp_path)
    text = "\n".join(map(str, problems))

    assert said[0] in {problem.code for problem in problems}
    assert [value for value in said[1:] if value not in text] == []


@pytest.mark.parametrize(
    ("small", "large", "code"),
    [(90, 20, "variants.weights"), (90, None, "variants.weight-missing"), (0, 100, None), (90, 10, None)],
)
def test_weights_add_up_to_100(small: int, large: int | None, code: str | None, tmp_path: Path) -> None:
    changes = [
        ("memory: 12Gi }", f"memory: 12Gi, weight: {small} }}"),
        (BY_WHEN, "labels: {}" if large is None else f"weight: {large}"),
    ]
    if code is None:
        assert services_stack(*changes).services["embedder"].weighted
    else:
        assert problem_of(with_services(*changes), tmp_path).tells(code)


def test_two_services_may_share_a_host_and_path_by_model_alone(tmp_path: Path) -> None:
    routed = ("min: 1, max: 6 }", "min: 1, max: 6 }\n    route: { host: models.acme.internal, path: /embed/ }")
    same = (routed[0], routed[1].replace("/embed/", "/embed/, model: embedder-v3"))

    assert services_stack(routed).services["ranker"].route is not None
    assert problem_of(with_services(same), tmp_path).tells("route.taken", "'embedder'", "services.ranker.route:")


def test_pods_of_a_service_have_a_name_of_their_own(tmp_path: Path) -> None:
    taken = "ebbtide:workloads: { embedder-small: { category: flexible, image: 'a/b:1', cpu: 1, memory: 1Gi } }\n"

    assert problem_of(with_services(more=taken), tmp_path).tells("name.taken", "'embedder-small'", "a workload")


def test_a_fault_of_the_services_own_key_is_told_once_where_it_stands(tmp_path: Path) -> None:
    told = problem_of(with_services(("http: 8000, metrics: 9100", "http: 8000, metrics: 8000")), tmp_path)

    assert told.tells("port.twice", ":10:", "ebbtide:services.embedder.ports.metrics:")


def test_keys_of_another_kind_of_cluster_do_nothing_and_are_refused(tmp_path: Path) -> None:
    for section in ("{ gatewayClass: eg }", "{ keda: true }", "{ implementation: other }"):
        assert problem_of(with_services(more=f"ebbtide:serving: {section}\n"), tmp_path).tells("serving.other-cluster")


def test_one_proxy_is_too_few(tmp_path: Path) -> None:
    assert problem_of(with_services(more="ebbtide:serving: { proxies: 1 }\n"), tmp_path).tells("serving.one-proxy")


def test_a_pod_that_is_alone_at_night_is_warned_of() -> None:
    warned = [(it.code, it.path) for it in warnings_of(services_stack()) if it.code == "scale.lone-pod"]

    assert warned == [("scale.lone-pod", "services.ranker.scale.min")]
