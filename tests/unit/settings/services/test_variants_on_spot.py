"""A variant on spot nodes: placement, evictions, its partner, and refusals with one line each."""

from datetime import timedelta
from pathlib import Path

import pytest

from ebbtide.provisioning_labels import NodeKind
from ebbtide.settings.capacity.placement import home_of
from ebbtide.settings.capacity.process_documents import controller_config
from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.summary import summary
from tests.builders.components import REDIS
from tests.builders.settings import problem_of, problems_of
from tests.builders.workloads.services import ON_SPOT, services_stack, spot_stack, with_services

BASE, SPOT, LARGE = "embedder-small", "embedder-cheap", "embedder-large"
WHEN = 'when: { header: "x-model-size: large" }'
OF_SPOT = "spot: true\n"
TARGETS = "scale: { metrics: { inFlight: 4.5 }, min: 2, max: 12 }"


def test_it_goes_to_spot_nodes_and_the_one_beside_it_does_not() -> None:
    workloads = spot_stack().all_workloads

    assert {name: home_of(workloads[name]) for name in (BASE, SPOT, LARGE)} == {
        BASE: NodeKind.FLEXIBLE,
        SPOT: NodeKind.SPOT,
        LARGE: NodeKind.GPU,
    }
    assert any(
        SPOT in line and line.endswith("on spot nodes, at models.acme.internal/embed") for line in summary(spot_stack())
    )


def test_the_controller_neither_opens_its_budget_nor_closes_it() -> None:
    config = controller_config(spot_stack(), REDIS, years=(2026,))

    assert BASE in {budget.name for budget in config.budgets}
    assert SPOT not in {budget.name for budget in (*config.budgets, *config.never_opened)}


def test_it_shares_a_service_with_the_variant_without_a_condition_alone() -> None:
    service = spot_stack().services["embedder"]

    assert (service.base, [*service.on_spot]) == ("small", ["cheap"])
    assert service.sharing("embedder") == [BASE, SPOT]
    assert services_stack().services["embedder"].sharing("embedder") == []


def test_without_a_route_both_are_called_by_the_name_of_the_service() -> None:
    alone = spot_stack(
        ("    route: { host: models.acme.internal, path: /embed, model: embedder-v3 }\n", ""),
        ("metrics: { inFlight: 4.5 }", "metrics: { cpu: 80% }"),
        ("metrics: { inFlight: 3 }", "metrics: { cpu: 70% }"),
        ("inFlight: 3, latency: 300ms", "cpu: 70%"),
        (
            """      large:
        hardware: gpu
        image: registry.example.com/ml/embedder:3
        cpu: 3
        memory: 12Gi
        gpu: 1
        when: { header: "x-model-size: large" }
""",
            "",
        ),
    )

    assert alone.services["embedder"].sharing("embedder") == [BASE, SPOT]


def test_one_pod_on_spot_nodes_is_no_lone_pod_since_others_serve() -> None:
    assert [caution.place for caution in warnings_of(spot_stack()) if caution.code == "scale.lone-pod"] == [
        "services.ranker.scale.min"
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            (OF_SPOT, f"{OF_SPOT}        {WHEN.replace('large', 'small')}\n"),
            ("variants.spot-when", "services.embedder.variants.cheap.spot:", "the variant without when"),
        ),
        (
            (OF_SPOT, f"{OF_SPOT}        weight: 10\n"),
            ("variants.spot-weight", "variants.cheap.spot:", "share of requests would fail"),
        ),
        (
            ("cpu: 3, memory: 12Gi, scale", "cpu: 3, memory: 12Gi, weight: 100, scale"),
            ("variants.spot-weight", "of small"),
        ),
        ((OF_SPOT, f"{OF_SPOT}        gpu: 1\n"), ("variant.spot-gpu", "variants.cheap.spot:", "gpu: 1")),
        ((OF_SPOT, f"{OF_SPOT}        category: fixed\n"), ("variant.spot-fixed", "variants.cheap.category:")),
        ((OF_SPOT, f"{OF_SPOT}        kind: stateful-set\n"), ("variant.spot-stateful", "variants.cheap.kind:")),
        (
            ("longestRequest: 60s", "longestRequest: 101s"),
            ("spot.long-requests", "services.embedder.longestRequest:", "100s", "101s"),
        ),
        ((", spot: { max: 12 } }", " }"), ("node-group.missing", "services.embedder.variants.cheap:", "kind spot")),
        (
            (", spot: { max: 12 } }", ", spot: { instanceTypes: [g5.2xlarge], max: 12 } }"),
            ("node-group.missing", "variants.cheap:", "kind spot without GPUs"),
        ),
        (
            (OF_SPOT, f"{OF_SPOT}        ports: {{ api: 8000 }}\n        probes: {{ readiness: {{ tcp: api }} }}\n"),
            ("service.no-such-port", "variants.cheap"),
        ),
        (
            ("inFlight: 4.5 }, min: 2, max: 12", "inFlight: 4.5 }, min: 2, max: 12, floor: forecast"),
            ("variants.spot-forecast", "small.scale.floor:", "requests of both variants are counted together"),
        ),
        (
            ("inFlight: 4.5", "inFlight: 3"),
            ("variants.spot-target", "small.scale.metrics.inFlight:", "above 3, the target of cheap", "inFlight: 4.5"),
        ),
        (
            ("inFlight: 4.5", "inFlight: 4.5, latency: 300ms"),
            ("variants.spot-target", "small.scale.metrics.latency:", "latency: 200ms of cheap"),
        ),
        (
            ("min: 1, max: 6 }", "min: 1, max: 6 }\n    spot: true"),
            ("key.elsewhere", "services.ranker.spot:", "spot is a key of a variant"),
        ),
        (
            ("cpu: 3\n        memory: 12Gi\n        scale", "cpu: 300\n        memory: 12Gi\n        scale"),
            ("pod.too-large", "cheap:", "a spot node"),
        ),
    ],
)
def test_what_cannot_work_is_told_in_a_line(change: tuple[str, str], words: tuple[str, ...], tmp_path: Path) -> None:
    problems = problems_of(with_services(*ON_SPOT, change), tmp_path)
    text = "\n".join(map(str, problems))

    assert words[0] in {problem.code for problem in problems}
    assert [value for value in words[1:] if value not in text] == []


def test_targets_that_both_have_from_the_service_are_told_once_where_they_stand(tmp_path: Path) -> None:
    inherited = (", " + TARGETS, ""), ("        scale: { metrics: { inFlight: 3 }, min: 1, max: 20 }\n", "")
    problem = problem_of(with_services(*ON_SPOT, *inherited), tmp_path)

    assert problem.tells("variants.spot-target", "services.embedder.scale.metrics.inFlight:", "inFlight: 4.5")


def test_with_nobody_beside_it_all_requests_would_be_refused_at_times(tmp_path: Path) -> None:
    alone = (
        ("memory: 12Gi, scale", "memory: 12Gi, spot: true, scale"),
        (WHEN, "spot: true"),
        ("gpu: 1\n", "labels: {}\n"),
    )
    problems = problems_of(with_services(*ON_SPOT, *alone, ("hardware: gpu\n", "hardware: cpu\n")), tmp_path)

    assert [problem.code for problem in problems] == ["variants.all-spot"]


def test_beside_variants_with_conditions_alone_somebody_must_take_the_rest(tmp_path: Path) -> None:
    problem = problem_of(with_services(*ON_SPOT, ("12Gi, scale", '12Gi, when: { header: "x-a: b" }, scale')), tmp_path)

    assert problem.tells("variants.no-rest")


def test_the_longest_request_that_two_minutes_leave() -> None:
    assert spot_stack(("longestRequest: 60s", "longestRequest: 100s")).services["embedder"].grace < timedelta(minutes=2)


def test_the_name_of_its_service_is_one_that_no_pods_have(tmp_path: Path) -> None:
    taken = "ebbtide:workloads: { embedder: { category: flexible, image: 'a/b:1', cpu: 1, memory: 1Gi } }\n"

    assert problem_of(with_services(*ON_SPOT, more=taken), tmp_path).tells("name.taken", "cheap.spot:", "a workload")
    assert services_stack(more=taken).all_workloads


def test_on_a_cluster_that_was_there_the_labels_of_spot_nodes_are_told(tmp_path: Path) -> None:
    groups = "ebbtide:nodeGroups: { fixed: { max: 8 }, flexible: { max: 12 }, gpu: { max: 12 }, spot: { max: 12 } }"
    cluster = "ebbtide:cluster: { kind: existing, context: here }\nebbtide:serving: { gatewayClass: eg, keda: true }"
    labelled = cluster.replace("context: here", "context: here, nodeSelectors: { spot: { pool: spot } }")

    assert problem_of(with_services(*ON_SPOT, (groups, cluster)), tmp_path).tells("nodes.no-spot", "cheap.spot:")
    assert home_of(spot_stack((groups, labelled)).all_workloads[SPOT]) is NodeKind.SPOT
