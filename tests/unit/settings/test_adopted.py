"""Rules for adopted pods: what a file may say, and the budgets that follow."""

from pathlib import Path

import pytest

from ebbtide.settings import controller_config
from ebbtide.settings.sections.adopted import disjoint
from ebbtide.vocabulary.controller_config import BudgetPolicy, RedisEndpoint
from tests.builders.existing import onprem
from tests.builders.settings import loaded, problem_of, problems_of, shortest, told

HUB = "hub: { namespace: jupyter, selector: { component: hub }, category: fixed, replicas: 1, cpu: 1, memory: 2Gi }"


def stack(*rules: str, version: str = "1.36") -> str:
    lines = "\n".join(f"  {rule}" for rule in rules)
    return shortest(more=f'ebbtide:cluster: {{ version: "{version}" }}\nebbtide:adopted:\n{lines}')


def rule(text: str = "", **changes: str) -> str:
    """A rule named api, with changed or further keys."""
    keys = {"namespace": "api", "selector": "{ app: api }", "category": "flexible", "replicas": "3"}
    keys = {**keys, "cpu": "1", "memory": "2Gi", **changes}
    inner = ", ".join(f"{key}: {value}" for key, value in keys.items() if value)
    return f"{text or 'api'}: {{ {inner} }}"


def test_a_budget_says_in_its_name_which_field_it_sets(tmp_path: Path) -> None:
    rules = (
        rule("api"),
        rule("shop", selector="{ app: shop }", budget="shop-pdb"),
        rule("web", selector="{ app: [web, front] }", replicas="", pods="4"),
        rule("db", namespace="postgres", category="fixed", replicas="", pods="3"),
        rule("tasks", namespace="airflow", category="worker", replicas="", usually="4"),
        HUB,
    )
    settings = loaded(stack(*rules), tmp_path)
    config = controller_config(settings, RedisEndpoint(host="redis"))

    assert settings.adopted["web"].selector == {"app": ("front", "web")}
    assert config.budgets == (
        BudgetPolicy(name="api", namespace="api", object_name="ebbtide-api"),
        BudgetPolicy(name="shop", namespace="api", object_name="shop-pdb"),
        BudgetPolicy(name="web", namespace="api", object_name="ebbtide-web.pods", open_minimum=3),
    )
    assert config.never_opened[-2:] == (
        BudgetPolicy(name="db", namespace="postgres", object_name="ebbtide-db.pods", open_minimum=2),
        BudgetPolicy(name="hub", namespace="jupyter", object_name="ebbtide-hub"),
    )


@pytest.mark.parametrize(
    ("written", "code", "parts"),
    [
        (rule(namespace="kube-system"), "namespace.system", ("adopted.api.namespace:", "'kube-system'")),
        (rule(namespace="ebbtide-workers"), "namespace.ours", ("'ebbtide-workers'",)),
        (rule(namespace="Api"), "namespace.form", ("'Api'",)),
        (rule(selector="{}"), "selector.type", ("adopted.api.selector:",)),
        (rule(selector="{ app: [] }"), "selector.values", ("selector.app:", "an empty list")),
        (rule(selector="{ app: [api, api] }"), "selector.values", ("a value twice",)),
        (rule(selector="{ app: 3 }"), "selector.value", ("quote it",)),
        (rule(selector="{ ebbtide.dev/category: fixed }"), "selector.ours", ("'ebbtide.dev/category'",)),
        (rule(selector="{ topology.kubernetes.io/zone: a }"), "selector.of-the-node", ("topology.kubernetes.io/zone",)),
        (rule(selector="{ 'a b': c }"), "selector.key", ("the key 'a b'",)),
        (rule(replicas=""), "adopted.uncounted", ("adopted.api.replicas:", "(for example replicas: 3)")),
        (rule(pods="3"), "keys.not-both", ("replicas or pods",)),
        (rule(usually="3"), "adopted.usually", ("adopted.api.usually:",)),
        (rule(category="worker"), "adopted.worker-count", ("adopted.api.replicas:", "usually")),
        (rule(category="worker", replicas=""), "adopted.uncounted", ("adopted.api.usually:",)),
        (rule(category="fixed", budget="api"), "adopted.chart-budget", ("adopted.api.budget:", "'api'")),
        (rule(replicas="", pods="3", budget="api"), "adopted.chart-budget", ("adopted.api.budget:",)),
        (rule(category="worker", replicas="", usually="3", budget="api"), "adopted.chart-budget", ("flexible",)),
        (rule("train"), "name.taken", ("adopted.train:", "'train', which is also in ebbtide:workers")),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_where_it_is(
    tmp_path: Path, written: str, code: str, parts: tuple[str, ...]
) -> None:
    faults = [told(problem) for problem in problems_of(stack(written), tmp_path)]

    assert any(fault.tells(code, *parts) for fault in faults), faults


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ({"app": ("hub",)}, {"app": ("web",)}, True),
        ({"app": ("hub", "web")}, {"app": ("web", "api")}, False),
        ({"app": ("hub",)}, {"component": ("web",)}, False),
        ({"app": ("x",), "component": ("hub",)}, {"app": ("x",), "component": ("web",)}, True),
        ({"app": ("hub",)}, {"app": ("hub",), "component": ("web",)}, False),
    ],
)
def test_rules_are_apart_if_they_require_other_values_of_one_label(
    one: dict[str, tuple[str, ...]], other: dict[str, tuple[str, ...]], apart: bool
) -> None:
    assert disjoint(one, other) is disjoint(other, one) is apart


def test_rules_that_one_pod_could_match_are_refused_within_a_namespace_only(tmp_path: Path) -> None:
    broad = rule("broad", namespace="jupyter", selector="{ tier: front }")

    assert problem_of(stack(HUB, broad), tmp_path).tells("adopted.overlap", "adopted.hub.selector:", "rule broad")
    assert loaded(stack(HUB, broad.replace("jupyter", "other")), tmp_path)


def test_a_charts_budget_is_of_one_rule(tmp_path: Path) -> None:
    one, other = (rule(name, selector=f"{{ app: {name} }}", budget="shared") for name in ("one", "other"))

    fault = problem_of(stack(one, other), tmp_path)

    assert fault.tells("adopted.budget-twice", "adopted.other.budget:", "found 'shared', which rule 'one' has")
    assert loaded(stack(one, other.replace("namespace: api", "namespace: web")), tmp_path)


def test_an_older_cluster_has_no_policies_that_change_pods(tmp_path: Path) -> None:
    fault = problem_of(stack(HUB, version="1.35"), tmp_path)

    assert fault.tells("adopted.old-kubernetes", "found 1.35")
    assert loaded(onprem(more=f"ebbtide:adopted:\n  {HUB}"), tmp_path)


def test_fixed_adopted_pods_need_fixed_nodes(tmp_path: Path) -> None:
    rules = [rule(f"db{n}", namespace=f"db{n}", category="fixed", replicas="9", cpu="7") for n in range(2)]

    assert problem_of(stack(*rules), tmp_path).tells(
        "fixed.no-room", ":1: ebbtide:nodeGroups.fixed.max: wanted at least 18", "found 6"
    )


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("", "adopted.redis-open"),
        ("ebbtide:redis: { kind: url, url: 'redis://cache.example.com:6379/0' }", "adopted.redis-elsewhere"),
        ("ebbtide:redis: { kind: elasticache }", "adopted.redis-elsewhere"),
    ],
)
def test_a_user_of_redis_takes_a_password_and_a_redis_of_the_stack(tmp_path: Path, more: str, code: str) -> None:
    text = stack(rule(redis="true")) + (f"  {more}\n" if more else "")
    faults = [told(problem) for problem in problems_of(text, tmp_path)]

    assert any(fault.tells(code, "adopted.api.redis:") for fault in faults), faults
