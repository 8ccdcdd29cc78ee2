"""The section of monitoring: what belongs to a Prometheus that is there, and what would do nothing."""

from pathlib import Path

import pytest

from ebbtide.settings.sections.monitoring import PrometheusKind
from tests.builders.settings import loaded, problem_of, shortest


def monitoring(section: str) -> str:
    return shortest(more=f"ebbtide:monitoring: {section}")


def test_the_shortest_file_is_watched_by_nobody(tmp_path: Path) -> None:
    assert loaded(shortest(), tmp_path).monitoring.prometheus is PrometheusKind.NONE


def test_one_that_is_there_needs_its_namespace(tmp_path: Path) -> None:
    section = loaded(monitoring("{ prometheus: existing, namespace: monitoring }"), tmp_path).monitoring

    assert (section.prometheus, section.namespace, section.labels) == (PrometheusKind.EXISTING, "monitoring", {})
    assert problem_of(monitoring("{ prometheus: existing }"), tmp_path) == (
        ":6: ebbtide:monitoring.namespace: wanted the namespace that Prometheus runs in: the network policies let it "
        "through, and nobody else, found nothing (for example monitoring)"
    )


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{ prometheus: bundled }", ("choice.planned", "found 'bundled'")),
        ("{ prometheus: thanos }", ("choice.unknown", "found 'thanos'")),
        ("{ namespace: monitoring }", ("monitoring.key-of-nothing", "monitoring.namespace:")),
        ("{ labels: { release: stack } }", ("monitoring.key-of-nothing", "monitoring.labels:")),
        ('{ runbooks: "https://docs.example" }', ("monitoring.key-of-nothing", "monitoring.runbooks:")),
        ("{ prometheus: existing, namespace: Monitoring }", ("monitoring.namespace-form", "'Monitoring'")),
        ("{ prometheus: existing, namespace: m, labels: { a: true } }", ("label.value", "quote it")),
        ("{ prometheus: existing, namespace: m, runbooks: docs }", ("monitoring.runbooks-form", "'docs'")),
        ("{ prometheus: existing, namespace: m, retention: 30d }", ("key.unknown", "retention")),
    ],
)
def test_what_would_do_nothing_is_refused(section: str, said: tuple[str, ...], tmp_path: Path) -> None:
    assert problem_of(monitoring(section), tmp_path).tells(*said)


def test_an_address_with_a_login_is_not_shown(tmp_path: Path) -> None:
    login = '{ prometheus: existing, namespace: m, runbooks: "https://me:geheim@docs.example" }'
    problem = problem_of(monitoring(login), tmp_path)

    assert problem.tells("monitoring.runbooks-form")
    assert "geheim" not in problem
