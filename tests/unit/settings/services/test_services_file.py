"""The section of services: keys that variants inherit, and refusals with one line each."""

from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.provisioning_labels import NodeKind, ReplicasOwner
from ebbtide.settings.capacity.placement import home_of
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.declared import declared_pods
from ebbtide.settings.sections.serving.services import ServedWorkload
from ebbtide.text.durations import read_duration
from ebbtide.vocabulary.labels import Category
from tests.builders.components import REDIS
from tests.builders.settings import problem_of, problems_of
from tests.builders.workloads.services import services_stack, with_services

SMALL, LARGE = "embedder-small", "embedder-large"
TLS_SECRET = """
ebbtide:secrets: { models-tls: { tls.crt: { secure: AAA }, tls.key: { secure: AAA } } }
ebbtide:digestKey: { secure: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA }
"""
MIMIR = "prometheus: https://mimir.example.com/prometheus"
KEY = "{ secret: models-tls, key: tls.crt }"
SECRET_HEADER = "{ name: x-key, secret: models-tls, key: tls.crt }"
TOKEN = "{ token: { secret: mimir, key: token } }"
CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
LONGEST = "longestRequest: 60s"
TARGETS = "inFlight: 3, latency: 300ms"
EMBED = "path: /embed, model: embedder-v3"
ROUTE = "    route: { host: models.acme.internal, path: /embed, model: embedder-v3 }\n"
HERE = (
    "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 } }\n",
    "ebbtide:cluster: { kind: existing, context: here }\n",
)
BY_WHEN = 'when: { header: "x-model-size: large" }'


def served(name: str, *changes: tuple[str, str]) -> ServedWorkload:
    workload = services_stack(*changes).all_workloads[name]
    assert isinstance(workload, ServedWorkload)
    return workload


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
    assert "services.ranker" in [entry.path for entry in declared_pods(services_stack())]


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

    assert {budget.name for budget in config.budgets} >= {SMALL, LARGE}
    assert "ranker" in {budget.name for budget in config.never_opened}
    assert "ranker" not in {budget.name for budget in config.budgets}


def test_metrics_may_be_on_the_port_that_is_served() -> None:
    one_port = ("ports: { http: 8000, metrics: 9100 }", "ports: { http: 8000 }\n    metrics: http")
    queue = ("inFlight: 3, latency: 300ms", 'queue: { metric: "vllm:num_requests_waiting", target: 4 }')
    (small, large) = services_stack(one_port, queue).services["embedder"].variants.values()

    assert (small.metrics_port, large.metrics_port) == ("http", "http")
    assert services_stack().services["embedder"].variants["small"].metrics_port == "metrics"
    assert services_stack().services["ranker"].variants[""].metrics_port is None


@pytest.mark.parametrize("longest", ["15m", "2h"])
def test_a_request_may_take_longer_than_the_load_balancer_waits_for_a_silent_connection(longest: str) -> None:
    service = services_stack(("longestRequest: 60s", f"longestRequest: {longest}")).services["embedder"]

    assert service.longest_request == read_duration(longest)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("inFlight: 3", "inFlight: 0"), ("number.not-positive", "services.embedder.scale.metrics.inFlight:")),
        (("cpu: 70%", "cpu: 0%"), ("percent.form", "services.ranker.scale.metrics.cpu:", "0%")),
        (("min: 2, max: 12", "min: 20, max: 12"), ("min.above-max", "services.embedder.scale.min:", "12")),
        (
            ("ports: { http: 8000 }", "ports: { http: 8000 }\n    metrics: htpp"),
            ("metrics.no-such-port", "services.ranker.metrics:", "http", "'htpp'"),
        ),
        (("inFlight: 3, latency: 300ms", "gpu: 70%"), ("scale.gpu-without-gpu", "metrics.gpu:", "without a GPU")),
        ((BY_WHEN, "labels: {}"), ("variants.no-when", "services.embedder.variants", "small, large")),
        (
            ("inFlight: 3, latency: 300ms", "latency: 300ms"),
            ("scale.falls-silent", "latency only together with inFlight"),
        ),
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
        (
            ("min: 1, max: 6 }", "min: 1, max: 6 }\n    verticalMin: { memory: 1Gi }"),
            ("vertical.floor-alone", "services.ranker.verticalMin:", "vertical: inPlace"),
        ),
        (
            (
                "scale: { metrics: { cpu: 70% }, min: 1, max: 6 }",
                "vertical: inPlace\n    verticalMin: { cpu: 2, memory: 1Gi }",
            ),
            ("vertical.floor-above-request", "services.ranker.verticalMin.cpu:", "1000m"),
        ),
        (("min: 1, max: 6 }", "min: 1, max: 6 }\n    replicas: 3"), ("key.elsewhere", "scale: { min, max }")),
        (("cpu: 1\n", "cpu: 300\n"), ("pod.too-large", "services.ranker:")),
        (
            ("{ prometheus: bundled }", "{ prometheus: none }"),
            ("scale.no-prometheus", "metrics.inFlight", "metrics.latency"),
        ),
        (
            ("{ prometheus: bundled }", "{ prometheus: existing, namespace: monitoring, discovery: config-map }"),
            ("scale.no-prometheus", "metrics.inFlight", "found one whose address is not known", "prometheus: http://"),
        ),
        ((LONGEST, f"{LONGEST}\n    balance: fastest"), ("balance.unknown", "services.embedder.balance:")),
        (
            (LONGEST, f"{LONGEST}\n    balance: {{ consistentHash: 'no good' }}"),
            ("route.header-name", "services.embedder.balance.consistentHash:", "x-session-id"),
        ),
        ((BY_WHEN, "when: { header: large }"), ("route.header", "variants.large.when.header:", "x-model-size: large")),
        ((EMBED, "path: /embed, model: v3/large"), ("route.model", "services.embedder.route.model:")),
        (
            (TARGETS, 'queue: { metric: "num requests", target: 4 }'),
            ("scale.metric-name", "metrics.queue.metric:", "vllm:num_requests_waiting"),
        ),
        ((TARGETS, "query: { promql: ' ', target: 10 }"), ("scale.promql", "metrics.query.promql:")),
        (("min: 1, max: 6", "min: 6, max: 6"), ("scale.no-room", "services.ranker.scale.max:", "6 for both")),
        (
            ("cpu: 70%", 'queue: { metric: "vllm:num_requests_waiting", target: 4 }'),
            ("scale.queue-unseen", "services.ranker.scale.metrics.queue:", "metrics: 9100"),
        ),
        (
            ("requestTakes: 150ms", "requestTakes: 90s"),
            ("service.takes-too-long", "services.embedder.requestTakes:", "1m"),
        ),
        (("p95: 400ms", "p95: 61s"), ("slo.too-long", "services.embedder.slo.p95:", "1m")),
        (
            ("hardware: cpu, image", 'when: { header: "x-model-size: small" }, image'),
            ("variants.no-rest", "services.embedder.variants:"),
        ),
        ((ROUTE, ""), ("variants.no-route", "services.embedder.route:")),
        (
            (BY_WHEN, f"{BY_WHEN}\n        weight: 10"),
            ("variants.when-and-weight", "services.embedder.variants.large.when:"),
        ),
        (
            ("hardware: cpu, image", 'when: { header: "X-Model-Size: large" }, image'),
            ("variants.when-twice", "services.embedder.variants.large.when:", "which leads to small"),
        ),
        (
            ("scale: { metrics: { cpu: 70% }, min: 1, max: 6 }", "category: fixed\n    vertical: initial"),
            ("vertical.fixed", "services.ranker.vertical:"),
        ),
    ],
)
def test_what_cannot_work_is_told_in_a_line(change: tuple[str, str], words: tuple[str, ...], tmp_path: Path) -> None:
    problems = problems_of(with_services(change), tmp_path)
    text = "\n".join(map(str, problems))

    assert words[0] in {problem.code for problem in problems}
    assert [value for value in words[1:] if value not in text] == []


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


def ranker_at(route: str) -> tuple[str, str]:
    return "min: 1, max: 6 }", f"min: 1, max: 6 }}\n    route: {{ host: models.acme.internal, {route} }}"


LARGE_MODEL = (BY_WHEN, "when: { model: embedder-xl }")


@pytest.mark.parametrize(
    ("route", "embedder"),
    [
        ("path: /embed/, model: embedder-v3", ()),
        ("path: /embed/embedder-v3", ()),
        ("path: /embed, model: embedder-xl", (LARGE_MODEL,)),
        ("path: /embed/embedder-xl/", (LARGE_MODEL,)),
        ("path: /embed", ((EMBED, "path: /embed"),)),
    ],
    ids=["model", "a model's path", "a variant's model", "the path of a variant's model", "path"],
)
def test_two_services_never_wait_for_the_same_requests(
    route: str, embedder: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    problem = problem_of(with_services(*embedder, ranker_at(route)), tmp_path)

    assert problem.tells("route.taken", "'embedder'", "services.ranker.route:")


@pytest.mark.parametrize("route", ["path: /embed/", "path: /embed, model: embedder-xl", "path: /embed/embedder-v4"])
def test_services_with_different_models_share_a_host_and_path(route: str) -> None:
    assert services_stack(ranker_at(route)).services["ranker"].route is not None


def test_a_variant_never_waits_for_what_the_rest_of_its_service_takes(tmp_path: Path) -> None:
    problem = problem_of(with_services((BY_WHEN, "when: { model: embedder-v3 }")), tmp_path)

    assert problem.tells("route.taken", "'embedder' itself", "variants.large.when:")


def test_two_ways_to_name_a_model_are_one(tmp_path: Path) -> None:
    middle = 'middle: { image: "a/b:1", cpu: 1, memory: 1Gi, when: { header: "X-Model: embedder-xl" } }'
    stack = with_services((EMBED, "path: /embed"), LARGE_MODEL, ("      large:", f"      {middle}\n      large:"))

    assert problem_of(stack, tmp_path).tells("route.taken", "variant 'middle' of 'embedder'", "variants.large.when:")


def test_a_header_is_asked_for_once(tmp_path: Path) -> None:
    """The API server refuses two conditions on one header."""
    problem = problem_of(with_services((BY_WHEN, 'when: { header: "x-model: embedder-xl" }')), tmp_path)

    assert problem.tells("variants.when-header", "variants.large.when:", "{ model: embedder-xl }")


def test_pods_of_a_service_have_a_name_of_their_own(tmp_path: Path) -> None:
    taken = "ebbtide:workloads: { embedder-small: { category: flexible, image: 'a/b:1', cpu: 1, memory: 1Gi } }\n"

    assert problem_of(with_services(more=taken), tmp_path).tells("name.taken", "'embedder-small'", "a workload")


def test_a_fault_of_the_services_own_key_is_told_once_where_it_stands(tmp_path: Path) -> None:
    problem = problem_of(with_services(("http: 8000, metrics: 9100", "http: 8000, metrics: 8000")), tmp_path)

    assert problem.tells("port.twice", ":10:", "ebbtide:services.embedder.ports.metrics:")


def test_keys_of_another_kind_of_cluster_do_nothing_and_are_refused(tmp_path: Path) -> None:
    for section in ("{ gatewayClass: eg }", "{ keda: true }", "{ implementation: other }"):
        assert problem_of(with_services(more=f"ebbtide:serving: {section}\n"), tmp_path).tells("serving.other-cluster")


def test_one_proxy_is_too_few(tmp_path: Path) -> None:
    assert problem_of(with_services(more="ebbtide:serving: { proxies: 1 }\n"), tmp_path).tells("serving.one-proxy")


def test_a_pod_that_is_alone_at_night_is_warned_of() -> None:
    warned = [
        (caution.code, caution.place) for caution in warnings_of(services_stack()) if caution.code == "scale.lone-pod"
    ]

    assert warned == [("scale.lone-pod", "services.ranker.scale.min")]


@pytest.mark.parametrize(
    ("serving", "warned"),
    [
        ("public: true", True),
        ("public: false", False),
        ("public: true, sources: [203.0.113.0/24]", False),
        ("public: true, tls: models-tls", False),
        (f"public: true, certificate: '{CERTIFICATE}'", False),
    ],
)
def test_a_gateway_that_is_open_to_all_in_the_clear_is_warned_of(serving: str, warned: bool) -> None:
    stack = services_stack(more=f"ebbtide:serving: {{ {serving} }}\n{TLS_SECRET}")
    paths = [caution.place for caution in warnings_of(stack) if caution.code == "expose.public-in-the-clear"]

    assert paths == (["serving"] if warned else [])


@pytest.mark.parametrize(("least", "warned"), [(1, True), (2, False)])
def test_one_fixed_node_is_a_narrow_way_to_the_gateway(least: int, warned: bool) -> None:
    stack = services_stack(("fixed: { max: 8 }", f"fixed: {{ min: {least}, max: 8 }}"))
    (text,) = [caution.text for caution in warnings_of(stack) if caution.code == "expose.one-fixed-node"] or [""]

    assert ("the gateway" in text) is warned


@pytest.mark.parametrize(
    ("tls", "secrets", "words"),
    [
        ("nosuch", TLS_SECRET, ("serving.tls-unknown", "ebbtide:serving.tls:", "models-tls")),
        ("nosuch", "", ("serving.tls-unknown", "pulumi config set --secret", "nosuch")),
        ("models-tls", TLS_SECRET.replace("tls.key", "key"), ("secret.key-unknown", "ebbtide:serving.tls:", "tls.key")),
    ],
)
def test_the_certificate_of_the_gateway_is_a_secret_of_the_stack(
    tls: str, secrets: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    stack = with_services(more=f"ebbtide:serving: {{ tls: {tls} }}\n{secrets}")

    assert problem_of(stack, tmp_path).tells(*words)


def test_on_an_existing_cluster_the_certificate_may_be_somebody_elses() -> None:
    serving = "ebbtide:serving: { gatewayClass: eg, keda: true, tls: nosuch }\n"

    assert services_stack(HERE, more=serving).serving.tls == "nosuch"


def test_grpc_needs_the_gateway_to_end_tls(tmp_path: Path) -> None:
    grpc = (EMBED, "path: /, protocol: grpc")
    problem = problem_of(with_services(grpc, more=f"ebbtide:serving: {{ certificate: '{CERTIFICATE}' }}\n"), tmp_path)

    assert problem.tells("route.grpc-certificate", "services.embedder.route.protocol:", "use serving.tls")
    assert services_stack(grpc, more=f"ebbtide:serving: {{ tls: models-tls }}\n{TLS_SECRET}").serving.tls


@pytest.mark.parametrize(
    ("serving", "codes"),
    [
        ("keda: true", {"serving.no-gateway"}),
        ("gatewayClass: eg", {"scale.no-keda"}),
        ("gatewayClass: eg, keda: true, implementation: other", {"scale.not-counted"}),
    ],
)
def test_what_a_cluster_that_is_there_must_bring(serving: str, codes: set[str], tmp_path: Path) -> None:
    stack = with_services(HERE, more=f"ebbtide:serving: {{ {serving} }}\n")

    assert {problem.code for problem in problems_of(stack, tmp_path)} == codes


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ("prometheus: prometheus.monitoring.svc:9090", ("serving.prometheus-form", "ebbtide:serving.prometheus:")),
        ("prometheus: 'http://localhost:9090'", ("serving.prometheus-local", "ebbtide:serving.prometheus:")),
        (f"certificate: '{CERTIFICATE}', tls: models-tls", ("serving.tls-twice", "ebbtide:serving.tls:")),
        (f"prometheusAccess: {{ token: {KEY} }}", ("serving.access-alone", "ebbtide:serving.prometheusAccess:")),
        (f"{MIMIR}, prometheusAccess: {{}}", ("serving.access-nothing", "ebbtide:serving.prometheusAccess:")),
        (
            f"{MIMIR}, prometheusAccess: {TOKEN}",
            ("serving.secret-unknown", "prometheusAccess.token.secret:", "known here: models-tls"),
        ),
        (
            f"{MIMIR}, prometheusAccess: {{ token: {{ secret: models-tls, key: token }} }}",
            ("secret.key-unknown", "prometheusAccess.token.key:"),
        ),
        (
            f"{MIMIR}, prometheusAccess: {{ headers: {{ Authorization: Basic abc }} }}",
            ("headers.login", "prometheusAccess.headers.authorization:", "in a Secret"),
        ),
        (
            f"{MIMIR}, prometheusAccess: {{ headers: {{ X-Scope-OrgID: 'a,b=c' }} }}",
            ("headers.value", "X-Scope-OrgID"),
        ),
        (
            f"{MIMIR}, prometheusAccess: {{ token: {KEY}, header: {SECRET_HEADER} }}",
            ("serving.two-logins", "prometheusAccess.header:"),
        ),
        (
            f"prometheus: http://mimir, prometheusAccess: {{ authority: {KEY} }}",
            ("serving.authority-without-tls", "ebbtide:serving.prometheus:"),
        ),
    ],
)
def test_what_the_section_of_serving_refuses(serving: str, words: tuple[str, ...], tmp_path: Path) -> None:
    stack = with_services(more=f"ebbtide:serving: {{ {serving} }}\n{TLS_SECRET}")

    assert problem_of(stack, tmp_path).tells(*words)


GRPC_RANKER = (
    "min: 1, max: 6 }",
    "min: 1, max: 6 }\n    route: { host: models.acme.internal, path: /rank, protocol: grpc }",
)
BY_CPU = (TARGETS, "cpu: 70%")


@pytest.mark.parametrize(
    ("implementation", "changes", "paths"),
    [
        ("other", (), ["services.ranker.route.host"]),
        ("envoy-gateway", (), []),
        ("other", (("/rank, protocol: grpc", "/rank"),), []),
        ("other", (("models.acme.internal, path: /rank", "rank.acme.internal, path: /rank"),), []),
        ("other", ((EMBED, f"{EMBED}, protocol: grpc"),), []),
    ],
)
def test_http_and_grpc_under_one_host_are_warned_of_unless_the_gateway_is_envoys(
    implementation: str, changes: tuple[tuple[str, str], ...], paths: list[str]
) -> None:
    serving = f"ebbtide:serving: {{ gatewayClass: eg, implementation: {implementation} }}\n"
    cautions = warnings_of(services_stack(HERE, BY_CPU, GRPC_RANKER, *changes, more=serving))

    assert [caution.place for caution in cautions if caution.code == "route.grpc-beside-http"] == paths


def test_weights_and_sessions_that_stay_with_a_pod_exclude_each_other(tmp_path: Path) -> None:
    shares = ("memory: 12Gi }", "memory: 12Gi, weight: 90 }"), (BY_WHEN, "weight: 10")
    stack = with_services(*shares, (LONGEST, f"{LONGEST}\n    balance: {{ consistentHash: x-session-id }}"))

    assert problem_of(stack, tmp_path).tells("balance.weights", "services.embedder.balance:")


def test_a_service_may_sleep_where_a_query_wakes_it() -> None:
    stack = services_stack(
        ("cpu: 70% }, min: 1, max: 6", "query: { promql: sum(my_backlog), target: 10 } }, min: 0, max: 6")
    )
    ranker = stack.services["ranker"].variants[""]

    assert (ranker.scale.min, ranker.scale.max) == (0, 6)
