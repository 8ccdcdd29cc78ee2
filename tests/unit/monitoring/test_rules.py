"""Rules name existing metrics, and each alert fires, stays quiet and resolves as it should, evaluated by Prometheus."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from controllers.ports import Unknown
from controllers.scaler.workers.decision import Reason
from ebbtide.monitoring.alerts import REFUSED, UNKNOWN, alerts
from ebbtide.monitoring.documents import rule_groups, rules_document
from ebbtide.monitoring.recorded import Recorded
from ebbtide.monitoring.recordings import recordings
from ebbtide.monitoring.rules import CUSTOMER, Alert, AlertSeverity, RecordingRule
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.costs import CostSettings
from ebbtide.settings.sections.workers import Acks, Source, SourceKind
from ebbtide.text.pages import titles
from tests.builders.adoption import stack_with
from tests.builders.monitoring.alert_cases import CASES, GONE, HARMLESS, STACK, minutes, played, timeline
from tests.builders.monitoring.expositions import (
    of_an_idle_ray_cluster,
    of_the_exporter,
    of_the_scaler,
    of_the_workload_controller,
)
from tests.builders.monitoring.promql import outer_labels, series, uses
from tests.builders.stack import stack_settings
from tests.paths import DATA, ROOT

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool on PATH (Debian's package prometheus has it)")
EXPOSITIONS = DATA / "expositions"
JOINED = ("container_", "DCGM_")
"""Metrics without a customer, which become ours by the pods that the exporter names."""
RUNBOOKS = ROOT / "docs" / "runbooks"
HEADINGS = ["What it means", "How to look", "What to do", "Can it wait until morning?"]


RULES = [rule for group in rule_groups(STACK) for rule in group.rules]
ALERTS = {rule.name: rule for rule in RULES if isinstance(rule, Alert)}
RECORDED = {rule.record: rule for rule in RULES if isinstance(rule, RecordingRule)}


def labels_of(recorded: str) -> Sequence[str]:
    """As the first part of its name says: `customer_pool:…`."""
    return [CUSTOMER, *recorded.partition(":")[0].split("_")[1:]]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[Mapping[str, str]]]:
    """What the processes of a stack write, by metric: the labels of each series."""
    folder = tmp_path_factory.mktemp("processes")
    of_processes = (
        of_the_scaler(folder),
        of_an_idle_ray_cluster(),
        of_the_workload_controller(folder),
        of_the_exporter(),
    )
    texts = (*of_processes, *(file.read_text(encoding="utf-8") for file in EXPOSITIONS.glob("*.txt")))
    written = {name: found for text in texts for name, found in series(text).items()}
    recorded: dict[str, list[Mapping[str, str]]] = {name: [dict.fromkeys(labels_of(name), "")] for name in RECORDED}
    return written | recorded


# --- what rules name --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=[getattr(rule, "name", getattr(rule, "record", "")) for rule in RULES])
def test_a_rule_names_metrics_and_labels_that_our_processes_write(
    rule: RecordingRule | Alert, exposed: Mapping[str, list[Mapping[str, str]]]
) -> None:
    for use in uses(rule.expr):
        assert use.metric in exposed
        absent = {CUSTOMER}
        if use.metric.startswith("container_"):
            absent.add("node")  # by scraping
        if use.metric.startswith("DCGM_"):
            absent.add("GPU_I_ID")  # of MIG instances alone
        for labels in exposed[use.metric]:
            assert use.labels - labels.keys() <= absent, f"{use.metric} has no such label"
        if not use.metric.startswith(JOINED):
            assert use.asked[CUSTOMER] == "acme", "a rule may see the series of its own stack alone"


@pytest.mark.parametrize("rule", RECORDED.values(), ids=list(RECORDED))
def test_a_recording_keeps_the_labels_that_its_name_says(rule: RecordingRule) -> None:
    (labels,) = outer_labels(rule.expr)

    assert [*dict.fromkeys((*labels, *rule.labels))] == labels_of(rule.record)


def test_each_name_that_pages_and_commands_ask_for_is_recorded_and_no_other() -> None:
    of_labels = {rule.record for rule in recordings("acme", ["team"])}

    assert RECORDED.keys() | of_labels == {*Recorded}


def test_the_words_of_a_rule_are_those_of_the_controller() -> None:
    assert REFUSED == Reason.REFUSED
    assert Unknown(why="").kind == UNKNOWN


def test_names_follow_prometheus_conventions_and_are_unique() -> None:
    assert all(re.fullmatch(r"[a-z_]+:ebbtide_[a-z_]+:[a-z0-9_]+", name) for name in RECORDED)
    assert len(RECORDED) + len(set(ALERTS)) == len(RULES), "one pool, so nothing is there twice"
    document = json.dumps(rules_document(STACK))
    assert all(group.name in document and "acme" in group.name for group in rule_groups(STACK))


# --- which alerts a stack has -----------------------------------------------------------------------------------------


def test_the_alert_of_the_spend_has_the_ceiling_if_there_is_no_plan() -> None:
    (alert,) = (
        rule
        for group in rule_groups(stack_settings(costs=CostSettings(ceiling=500.0)))
        for rule in group.rules
        if isinstance(rule, Alert) and rule.name == "EbbtideSpendAbovePlan"
    )

    assert alert.expr.endswith(" > 500")
    assert "costs.ceiling says 500" in alert.summary


def test_without_the_workload_controller_charts_that_sleep_are_woken_by_hand_alone() -> None:
    sleep = {"when": "outsideBusinessHours", "scale": {"kind": "Deployment", "name": "hub"}}
    rule = {"selector": {"app": "hub"}, "category": "fixed", "replicas": 1}
    summaries = [
        alert.summary
        for settings in (stack_with(hub={**rule, "sleep": sleep}), STACK)
        for alert in alerts(settings)
        if alert.name == "EbbtideWorkloadsNoLeader"
    ]

    assert ["only kubectl scale wakes charts" in summary for summary in summaries] == [True, False]


def test_a_pool_without_a_target_cannot_be_late_and_a_stack_without_ray_has_no_alerts_on_it() -> None:
    names = {rule.name for group in rule_groups(stack_settings()) for rule in group.rules if isinstance(rule, Alert)}

    assert set(ALERTS) - names == {
        "EbbtideQueueLate",
        "EbbtideWorkloadsNoLeader",
        "EbbtideWorkloadNeedsALook",
        "EbbtideRayWorkersKept",
        "EbbtideAdoptedPodsUnlabelled",
        "EbbtideSpendAbovePlan",
        "EbbtideServiceSlow",
        "EbbtideServiceBurnsErrorBudget",
        "EbbtideServiceAtMax",
        "EbbtideServiceMetricMissing",
        "EbbtideGatewayProxiesFew",
        "EbbtideGatewayUnled",
    }


def test_a_pool_in_a_broker_cannot_be_late_since_no_wait_is_known() -> None:
    pool = STACK.workers["train"]
    in_broker = Source(kind=SourceKind.CELERY, acks=Acks.LATE, broker="jobs", queues=("train",))
    stack = STACK.model_copy(update={"workers": {"train": pool.model_copy(update={"source": in_broker})}})

    assert {alert.name for alert in alerts(STACK)} - {alert.name for alert in alerts(stack)} == {"EbbtideQueueLate"}


def test_the_page_says_how_long_each_alert_waits() -> None:
    page = (ROOT / "docs" / "how-to" / "monitoring.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`Ebbtide.*?) \| (.*?) \| \[", page, re.MULTILINE)
    documented = {name: after for names, after in rows for name in re.findall(r"`(Ebbtide\w+)`", names)}
    by_hand = {
        "EbbtideDeadMan": "at once, always",
        "EbbtideWorkerWillNotStop": "a worker's grace + 15 min",
        "EbbtideCloserFailed": "15 min",  # the expression itself waits
    }

    assert documented.keys() == ALERTS.keys()
    assert {name: documented.pop(name) for name in by_hand} == by_hand
    assert {name: after.split()[-2:] for name, after in documented.items()} == {
        name: [str(minutes(ALERTS[name].lasting)), "min"] for name in documented
    }


def test_no_alert_fires_within_a_workers_grace_period() -> None:
    assert ALERTS["EbbtideWorkerWillNotStop"].lasting == timedelta(minutes=30 + 2 + 15)


@pytest.mark.parametrize("alert", ALERTS.values(), ids=list(ALERTS))
def test_an_alert_has_one_sentence_and_a_runbook(alert: Alert) -> None:
    assert alert.summary.endswith(".")
    assert ". " not in alert.summary
    page = (RUNBOOKS / f"{alert.runbook}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    assert f"`{alert.name}`" in page


def test_each_page_is_of_an_alert_and_has_a_place_in_the_navigation() -> None:
    navigation = (ROOT / "tools" / "docs" / "zensical.toml").read_text(encoding="utf-8")
    pages = {path.stem for path in RUNBOOKS.glob("*.md")}
    unambiguous = titles()

    assert pages == {alert.runbook for alert in ALERTS.values()}
    assert pages <= unambiguous.keys()  # `ebbtide docs` prints each by this name
    assert {page for page in pages if f'"runbooks/{page}.md"' not in navigation} == set()


@pytest.mark.parametrize(
    ("runbooks", "annotation"),
    [
        (None, {"runbook": "ebbtide docs no-leader"}),
        ("https://docs.example/e/", {"runbook_url": "https://docs.example/e/runbooks/no-leader.html"}),
    ],
)
def test_an_alert_leads_to_its_page(runbooks: str | None, annotation: Mapping[str, str]) -> None:
    rules: Sequence[Any] = rules_document(STACK, runbooks)["groups"][1]["rules"]
    (annotations,) = [rule["annotations"] for rule in rules if rule["alert"] == "EbbtideNoLeader"]

    assert annotations.items() >= annotation.items()


# --- what they do, on Prometheus' own evaluation ----------------------------------------------------------------------


def test_every_alert_is_played() -> None:
    assert {case.alert for case in CASES} == ALERTS.keys() - {"EbbtideDeadMan", "EbbtideSpendAbovePlan"}, (
        "these have tests of their own"
    )


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize("case", CASES, ids=[f"{case.alert}-{index}" for index, case in enumerate(CASES)])
def test_an_alert_is_quiet_waits_fires_with_its_message_and_resolves(case: Any, tmp_path: Path) -> None:
    alert = ALERTS[case.alert]

    promtool(tmp_path, [played(case, alert, f"ebbtide docs {alert.runbook}")], only=alert)


@pytest.mark.process
@needs_promtool
@pytest.mark.parametrize("harmless", HARMLESS)
def test_harmless_states_raise_no_alert(harmless: str, tmp_path: Path) -> None:
    hours = 2 * 60
    moment = f"{hours - 1}m"
    promtool(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": timeline(HARMLESS[harmless], (0, hours, 0)),
                "alert_rule_test": [
                    {"eval_time": moment, "alertname": name, "exp_alerts": []}
                    for name in ALERTS
                    if name != "EbbtideDeadMan"
                ],
            }
        ],
    )


@pytest.mark.process
@needs_promtool
def test_another_customer_in_the_same_prometheus_is_not_ours(tmp_path: Path) -> None:
    """Neither its faults nor its health: with its controller alone there, ours is missed."""
    theirs = {name: value for case in CASES for name, value in case.wrong.items()}
    during = minutes(timedelta(hours=2))
    well = {**played(CASES[0], ALERTS[CASES[0].alert], ""), "alert_rule_test": list[Any]()}
    well["input_series"] = [*timeline({}, (0, during, 0)), *timeline(theirs, (0, during, 0), customer="other")]
    well["alert_rule_test"] = [
        {"eval_time": f"{during - 1}m", "alertname": name, "exp_alerts": []}
        for name in ALERTS
        if name != "EbbtideDeadMan"
    ]
    promtool(tmp_path, [well])


@pytest.mark.process
@needs_promtool
def test_the_dead_mans_alert_fires_where_nothing_at_all_is_scraped(tmp_path: Path) -> None:
    alert = ALERTS["EbbtideDeadMan"]
    expected = {
        "exp_labels": {"severity": AlertSeverity.NONE.value, CUSTOMER: "acme"},
        "exp_annotations": {"summary": alert.summary, "runbook": "ebbtide docs dead-man"},
    }
    moments = [{"eval_time": when, "alertname": alert.name, "exp_alerts": [expected]} for when in ("0m", "1m", "90m")]

    promtool(tmp_path, [{"interval": "1m", "alert_rule_test": moments}])


@pytest.mark.process
@needs_promtool
def test_spend_above_plan_fires_after_a_day_and_ends_after_a_week_below(tmp_path: Path) -> None:
    """The plan is 4000 dollars a month of 730 hours, which is 5.48 an hour."""
    alert = ALERTS["EbbtideSpendAbovePlan"]
    day, total = 24, 14 * 24  # in hours, of which each is a sample
    dear = 10 * day

    def told(hour: int, dollars: str) -> dict[str, Any]:
        firing = {
            "exp_labels": {"severity": "warning", CUSTOMER: "acme"},
            "exp_annotations": {
                "summary": f"At the rate of the last 7 days, nodes cost {dollars} dollars a month at list price, "
                "and costs.plan says 4000.",
                "runbook": "ebbtide docs spend-above-plan",
            },
        }
        return {"eval_time": f"{hour}h", "alertname": alert.name, "exp_alerts": [firing] if dollars else []}

    of = 'customer="acme",namespace="ebbtide",pod="one"'
    prices = [6.0] * dear + [0.0] * (total - dear)
    promtool(
        tmp_path,
        [
            {
                "interval": "1h",
                "input_series": [
                    {"series": f'ebbtide_node_dollars_per_hour{{{of},node="a"}}', "values": f"{1.0}x{total}"},
                    {
                        "series": f'ebbtide_node_dollars_per_hour{{{of},node="b"}}',
                        "values": " ".join(str(price - 1) if price else GONE for price in prices),
                    },
                ],
                "alert_rule_test": [told(23, ""), told(2 * day, "4.38k"), told(13 * day, "")],
            }
        ],
        evaluated="1h",
    )


@pytest.mark.process
@needs_promtool
def test_recordings_of_nodes_and_pods_say_what_is_paid_for_asked_for_and_used(tmp_path: Path) -> None:
    """Two nodes of two groups, one pod of ours on each and one of somebody else; the exporter rolls, so it is twice."""
    # Until three minutes ago the node had no group yet, and a pod of this name was on the other node.
    ended, since = "1x16", "_x17 1"
    once = {
        'ebbtide_node_info{%s,node="n1",group="flexible"}': since,
        'ebbtide_node_info{%s,node="n2",group="gpu"}': "1",
        'ebbtide_node_cpu_cores{%s,node="n1"}': "8",
        'ebbtide_node_cpu_cores{%s,node="n2"}': "4",
        'ebbtide_node_gpus{%s,node="n2"}': "1",
        'ebbtide_node_dollars_per_hour{%s,node="n1"}': "0.4",
        'ebbtide_node_dollars_per_hour{%s,node="n2"}': "1.2",
        'ebbtide_pod_info{%s,namespace="w",pod="t-1",node="n1",workload="train",category="worker"}': since,
        'ebbtide_pod_info{%s,namespace="e",pod="api-1",node="n2",workload="api",category="flexible"}': "1",
        'ebbtide_pod_requested_cpu_cores{%s,namespace="w",pod="t-1"}': "2",
        'ebbtide_pod_requested_cpu_cores{%s,namespace="e",pod="api-1"}': "1",
        'ebbtide_pod_requested_gpus{%s,namespace="e",pod="api-1"}': "1",
    }
    twice = {name % f'customer="acme",instance="{one}"': value for name, value in once.items() for one in ("a", "b")}
    kubelet = {
        'container_cpu_usage_seconds_total{node="n1",namespace="w",pod="t-1",container="t"}': "0+30",
        'container_cpu_usage_seconds_total{node="n1",namespace="w",pod="t-1",container=""}': "0+33",
        'container_cpu_usage_seconds_total{node="n9",namespace="w",pod="t-1",container="t"}': "0+60",
        'container_cpu_usage_seconds_total{node="n1",namespace="x",pod="other",container="t"}': "0+60",
        'container_memory_working_set_bytes{node="n1",namespace="w",pod="t-1",container="t"}': "5",
        'container_memory_working_set_bytes{node="n1",namespace="w",pod="t-1",container="sidecar"}': "6",
        'container_cpu_cfs_periods_total{node="n1",namespace="w",pod="t-1",container="t"}': "0+600",
        'container_cpu_cfs_throttled_periods_total{node="n1",namespace="w",pod="t-1",container="t"}': "0+150",
        'DCGM_FI_DEV_GPU_UTIL{namespace="e",pod="api-1",gpu="0"}': "50",
        'DCGM_FI_DEV_GPU_UTIL{namespace="",pod="",gpu="1"}': "0",
        'DCGM_FI_DEV_GPU_UTIL{namespace="e",pod="api-1",gpu="2",GPU_I_ID="7"}': "0",
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{namespace="e",pod="api-1",gpu="2",GPU_I_ID="7"}': "0.125",
        'DCGM_FI_PROF_GR_ENGINE_ACTIVE{namespace="e",pod="api-1",gpu="2",GPU_I_ID="8"}': "0.25",
    }
    # The kubelet and the exporter of GPUs are scraped by two addresses.
    kubelet |= {f'{name[:-1]},instance="[fd00::1]"}}': value for name, value in kubelet.items()}
    before = {
        'ebbtide_node_info{customer="acme",node="n1",group=""}': ended,
        'ebbtide_pod_info{customer="acme",namespace="w",pod="t-1",node="n2",workload="old",category=""}': ended,
    }
    of = "customer_group_category_workload:ebbtide"
    train = '{category="worker",customer="acme",group="flexible",workload="train"}'
    api = '{category="flexible",customer="acme",group="gpu",workload="api"}'
    flexible, gpu = (f'{{customer="acme",group="{group}"}}' for group in ("flexible", "gpu"))
    expected: dict[str, list[tuple[str, float]]] = {
        "customer_group:ebbtide_nodes:count": [(flexible, 1), (gpu, 1)],
        "customer_group:ebbtide_node_cpu_cores:sum": [(flexible, 8), (gpu, 4)],
        "customer_group:ebbtide_node_gpus:sum": [(gpu, 1)],
        "customer_group:ebbtide_node_dollars_per_hour:sum": [(flexible, 0.4), (gpu, 1.2)],
        "customer:ebbtide_node_dollars_per_hour:sum": [('{customer="acme"}', 1.6)],
        f"{of}_requested_cpu_cores:sum": [(train, 2), (api, 1)],
        f"{of}_requested_gpus:sum": [(api, 1)],
        f"{of}_used_cpu_cores:sum": [(train, 0.5)],
        f"{of}_used_memory_bytes:sum": [(train, 11)],
        f"{of}_used_gpus:sum": [(api, 0.875)],
        "customer_workload:ebbtide_throttled_periods:ratio5m": [('{customer="acme",workload="train"}', 0.25)],
    }
    promtool(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": value if name in before else f"{value}x30"}
                    for name, value in (twice | kubelet | before).items()
                ],
                "promql_expr_test": [
                    {
                        "expr": record,
                        "eval_time": "20m",
                        "exp_samples": [{"labels": record + labels, "value": value} for labels, value in samples],
                    }
                    for record, samples in expected.items()
                ],
            }
        ],
    )


@pytest.mark.process
@needs_promtool
def test_recordings_add_up(tmp_path: Path) -> None:
    def sample(labels: str, value: float) -> dict[str, Any]:
        return {"labels": labels, "value": value}

    name = "customer_reason:ebbtide_budgets_open:count"
    open_, reason = "ebbtide_budget_max_unavailable", "ebbtide_budget_reason"
    of = 'customer="acme",pod="one"'
    inputs = {
        f'ebbtide_pool_jobs{{{of},pool="a",part="waiting"}}': "3x30",
        f'ebbtide_pool_jobs{{{of},pool="b",part="waiting"}}': "4x30",
        f'ebbtide_pool_jobs{{{of},pool="b",part="running"}}': "1x30",
        f'{open_}{{{of},budget="a"}}': "1x30",
        f'{open_}{{{of},budget="b"}}': "1x30",
        f'{open_}{{{of},budget="c"}}': "0x30",
        f'{reason}{{{of},budget="a",reason="disruption-window-open"}}': "1x30",
        f'{reason}{{{of},budget="b",reason="disruption-window-open"}}': "1x30",
        f'{reason}{{{of},budget="c",reason="held-by-an-operator"}}': "1x30",
        f"ebbtide_reconciles_total{{{of}}}": "0+30x30",
        f"ebbtide_reconcile_seconds_total{{{of}}}": "0+6x30",
    }
    expected = {
        "customer_part:ebbtide_pool_jobs:sum": [
            ('{customer="acme",part="waiting"}', 7.0),
            ('{customer="acme",part="running"}', 1.0),
        ],
        name: [('{customer="acme",reason="disruption-window-open"}', 2.0)],
        "customer:ebbtide_reconcile_seconds:mean5m": [('{customer="acme"}', 0.2)],
    }
    promtool(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": [{"series": key, "values": values} for key, values in inputs.items()],
                "promql_expr_test": [
                    {
                        "expr": record,
                        "eval_time": "20m",
                        "exp_samples": [sample(record + labels, value) for labels, value in samples],
                    }
                    for record, samples in expected.items()
                ],
            }
        ],
    )


@pytest.mark.process
@needs_promtool
def test_recordings_of_labels_divide_what_pods_request_and_values_do_not_multiply(tmp_path: Path) -> None:
    """A pod with both labels, one whose value is new, and one of an exporter that does not know the labels."""
    stack = STACK.model_copy(update={"costs": CostSettings(labels=("team", "example.com/cost-center"))})
    pod, both = 'customer="acme",namespace="w",pod="%s"', 'label_team="ml",label_example_com_cost_center="c1"'
    inputs = {
        'ebbtide_node_info{customer="acme",node="n1",group="flexible"}': "1x30",
        **{f"ebbtide_pod_requested_cpu_cores{{{pod % name}}}": "2x30" for name in ("a", "b", "c")},
        f'ebbtide_pod_info{{{pod % "a"},node="n1",{both}}}': "1x30",
        f'ebbtide_pod_info{{{pod % "b"},node="n1",{both}}}': "1x16",
        f'ebbtide_pod_info{{{pod % "b"},node="n1",label_team="web",label_example_com_cost_center="c1"}}': "_x17 1x30",
        f'ebbtide_pod_info{{{pod % "c"},node="n1"}}': "1x30",
    }
    record = Recorded.LABELLED_CPU.value
    expected = {
        'label="team",value="ml"': 2,
        'label="team",value="web"': 2,
        'label="team"': 2,
        'label="example.com/cost-center",value="c1"': 4,
        'label="example.com/cost-center"': 2,
    }
    promtool(
        tmp_path,
        [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in inputs.items()],
                "promql_expr_test": [
                    {
                        "expr": record,
                        "eval_time": "20m",
                        "exp_samples": [
                            {"labels": f'{record}{{customer="acme",group="flexible",{labels}}}', "value": value}
                            for labels, value in expected.items()
                        ],
                    }
                ],
            }
        ],
        stack=stack,
    )


def promtool(
    folder: Path,
    tests: Sequence[Mapping[str, Any]],
    evaluated: str = "1m",
    only: Alert | None = None,
    stack: StackSettings = STACK,
) -> None:
    """JSON is YAML enough for it. All rules take seconds: `only` plays one alert, and the recordings that it asks."""
    assert PROMTOOL is not None
    rules = rules_document(stack)
    if only is not None:
        rules = {"groups": [*_asked_by(only, rules["groups"])]}
    (folder / "rules.json").write_text(json.dumps(rules), encoding="utf-8")
    test_file = {
        "rule_files": ["rules.json"],
        "evaluation_interval": evaluated,
        # An alert's figure may be recorded by a group before its own.
        "group_eval_order": [group["name"] for group in rules["groups"]],
        "tests": tests,
    }
    (folder / "tests.json").write_text(json.dumps(test_file), encoding="utf-8")
    done = subprocess.run([PROMTOOL, "test", "rules", "tests.json"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _asked_by(alert: Alert, groups: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Return the groups with only the rules that the alert needs, directly or through other rules."""
    needed, left = {alert.name}, [alert.name]
    by_name = {rule.get("alert", rule.get("record")): rule for group in groups for rule in group["rules"]}
    while left:
        named = {name for name in re.findall(r"[\w:]+", by_name[left.pop()]["expr"]) if name in by_name} - needed
        needed |= named
        left += named
    for group in groups:
        rules = [rule for rule in group["rules"] if rule.get("alert", rule.get("record")) in needed]
        if rules:
            yield {**group, "rules": rules}
