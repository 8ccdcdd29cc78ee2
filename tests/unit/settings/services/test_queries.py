"""Queries in the stack file: those that can never work are refused, those that work by chance have a warning."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ebbtide.settings.checks.cautions import warnings_of
from ebbtide.settings.sections.serving.queries import LONGEST, has_one_series, query_fault
from tests.builders.settings import problem_of
from tests.builders.workloads.services import services_stack, with_services

ONE = (
    "sum(a)",
    "(sum(a))",
    "-max(a)",
    "sum by () (a)",
    "sum(a) / sum(b)",
    "a / sum(b)",
    "sum(a) / on() sum(b)",
    "sum(a) or vector(0)",
    "sum(a) and on() b",
    "sum(a) * time()",
    "sum(a) + on() group_left sum(b)",
    "topk(1, a)",
    "absent(a)",
    "count(count by (x) (a))",
    "clamp_max(sum(a), 3)",
    'label_replace(sum(a), "y", "1", "", "")',
    "max_over_time(sum(a)[5m:1m])",
    "histogram_quantile(0.9, sum by (le) (h))",
    "sum by (x) (sum(a))",
    "vector(1)",
    "hour()",
)
SEVERAL = (
    "a",
    "-a",
    "a > 1",
    "a / b",
    "a or sum(b)",
    "sum by (x) (a)",
    "sum without () (a)",
    "topk(2, a)",
    'count_values("v", a)',
    "a * on() group_left sum(b)",
    "sum(b) * on() group_right a",
    "sum(a) or b",
    "max_over_time(a[5m])",
    "histogram_quantile(0.9, sum by (le, x) (h))",
    'label_replace(sum(a), "y", "1", "", "") or sum(b)',
)
SERIES = [
    *({"series": f'{name}{{x="{x}"}}', "values": f"{value}x20"} for name in "ab" for x, value in (("1", 2), ("2", 3))),
    *({"series": f'h{{x="{x}", le="{le}"}}', "values": "2x20"} for x in "12" for le in ("1", "+Inf")),
]


def query(text: str) -> tuple[str, str]:
    return "cpu: 70%", f"query: {{ promql: {json.dumps(text)}, target: 10 }}"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sum(my_backlog", "unclosed left parenthesis"),
        ("my backlog", "no PromQL"),
        ("summ(my_backlog)", "unknown function"),
        ("sum(rate(my_backlog))", "got vector"),
        ("my_backlog[5m]", "a range of time"),
        ("scalar(sum(my_backlog))", "vector()"),
        ("5 * 2", "vector()"),
        ('"many"', "a text"),
        ("(" * 10_000 + "a" + ")" * 10_000, f"at most {LONGEST}"),
    ],
)
def test_a_query_that_can_never_work_is_refused(text: str, why: str, tmp_path: Path) -> None:
    problem = problem_of(with_services(query(text)), tmp_path)

    assert problem.tells("scale.promql", "services.ranker.scale.metrics.query.promql:", why, "sum(my_backlog)")


@pytest.mark.whole  # the parser takes half a gigabyte for it
@pytest.mark.parametrize("deep", ["(" * 1_999 + "a" + ")" * 1_999, "-" * 3_999 + "a", "a" + "+a" * 1_999])
def test_a_query_that_is_nested_beyond_reason_is_refused_and_ends_no_process(deep: str) -> None:
    assert "nested brackets" in query_fault(deep)


def cautions(text: str) -> dict[str, str]:
    return {
        caution.place: caution.text
        for caution in warnings_of(services_stack(query(text)))
        if caution.code == "scale.query-several"
    }


def test_a_vector_without_an_aggregation_is_warned_of_with_what_helps() -> None:
    cautions_of_file = cautions("my_backlog")

    assert [*cautions_of_file] == ["services.ranker.scale.metrics.query.promql"]
    assert "sum(…)" in cautions_of_file["services.ranker.scale.metrics.query.promql"]
    assert cautions("sum(my_backlog)") == {}


def test_a_query_of_all_variants_is_warned_of_once() -> None:
    change = ("inFlight: 3, latency: 300ms", "inFlight: 3, query: { promql: my_backlog, target: 10 }")
    paths = [caution.place for caution in warnings_of(services_stack(change)) if caution.code == "scale.query-several"]

    assert paths == ["services.embedder.scale.metrics.query.promql"]


@pytest.mark.parametrize("text", ONE)
def test_what_has_one_series_is_known(text: str) -> None:
    assert query_fault(text) == ""
    assert has_one_series(text)


@pytest.mark.parametrize("text", SEVERAL)
def test_what_may_have_several_series_is_known(text: str) -> None:
    assert query_fault(text) == ""
    assert not has_one_series(text)


def test_two_vectors_that_are_matched_by_some_labels_need_one_series_each() -> None:
    """A second partner is an error in Prometheus."""
    assert not has_one_series("a / on() sum(b)")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on PATH (Debian's package prometheus has it)")
def test_prometheus_itself_agrees(tmp_path: Path) -> None:
    """Each metric has two series. A query that is classified as having one returns one."""
    questions = [
        {"expr": f"count({text}) > bool 1 == 1", "eval_time": "10m", "exp_samples": results}
        for texts, results in ((ONE, []), (SEVERAL, [{"value": 1}]))
        for text in texts
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(json.dumps({"tests": [{"interval": "1m", "input_series": SERIES, "promql_expr_test": questions}]}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
