"""Sleep of charts: `ebbtide:adopted.<rule>.sleep`, and the documents that follow."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from components.controller.workloads import _scale_rules  # pyright: ignore[reportPrivateUsage] - the rights of a document
from components.monitoring.exporter import rights_by_namespace
from ebbtide.settings import warnings_of
from ebbtide.settings.capacity.process_documents import exporter_config, workloads_config
from ebbtide.settings.model import StackSettings
from ebbtide.settings.summary import summary
from ebbtide.vocabulary.controller_config import RedisEndpoint
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.workloads import SleepPolicy, WorkloadsConfig
from tests.builders.adoption import policies
from tests.builders.settings import loaded, problems_of, shortest, told

CLOCK = "when: outsideBusinessHours"
HUB = f"{CLOCK}, scale: {{ kind: Deployment, name: hub }}"


def rule(sleep: str = HUB, *, name: str = "hub", **changes: str) -> str:
    keys = {"namespace": "jupyter", "selector": f"{{ app: {name} }}", "category": "fixed", "replicas": "2"}
    keys = {**keys, "cpu": "1", "memory": "2Gi", "sleep": f"{{ {sleep} }}", **changes}
    return f"{name}: {{ {', '.join(f'{key}: {value}' for key, value in keys.items() if value)} }}"


def stack(*rules: str, more: str = "") -> str:
    lines = "\n".join(f"  {line}" for line in rules)
    return shortest(more=f'ebbtide:cluster: {{ version: "1.36" }}\nebbtide:adopted:\n{lines}\n{more}')


def document(settings: StackSettings) -> WorkloadsConfig:
    return workloads_config(settings, lambda name: name)


SLEEPER = SleepPolicy(
    name="hub",
    namespace="jupyter",
    kind="Deployment",
    replicas=2,
    asleep=0,
    lead=timedelta(minutes=15),
    adopted=True,
    selector="app in (hub)",
)


def test_a_rule_is_one_more_entry_of_the_workload_controllers_document(tmp_path: Path) -> None:
    labels = "scale: { kind: StatefulSet, name: label-studio, replicas: kept }"
    settings = loaded(
        stack(rule(), rule(f"{CLOCK}, after: 1h, replicas: 1, {labels}", name="labels", replicas="3")), tmp_path
    )
    config = document(settings)

    assert config.adopted_sleepers == (
        SLEEPER,
        replace(
            SLEEPER,
            name="labels",
            kind="StatefulSet",
            replicas=3,
            asleep=1,
            after=timedelta(hours=1),
            object_name="label-studio",
            kept=True,
            selector="app in (labels)",
        ),
    )
    assert config.adopted_sleepers[1].subject == "statefulset jupyter/label-studio"
    assert load(WorkloadsConfig, dump(config)) == config
    exporter = exporter_config(settings, RedisEndpoint(host="redis"))
    assert (exporter.workload_namespaces, exporter.team_namespaces) == ((NAMESPACE,), ("jupyter",))
    assert "deployments" in str(rights_by_namespace(exporter)["jupyter"])
    assert exporter.sleepers == ("deployment jupyter/hub", "statefulset jupyter/label-studio")


def test_a_controller_that_does_not_know_adopted_objects_reads_none_of_them(tmp_path: Path) -> None:
    """It would lower them without a look at their autoscalers and owners."""
    workload = "{ image: a/b:1, cpu: 1, memory: 1Gi, category: flexible, sleep: { when: outsideBusinessHours } }"
    settings = loaded(stack(rule(), more=f"ebbtide:workloads: {{ notes: {workload} }}"), tmp_path)
    written = json.loads(dump(document(settings)))

    assert [policy["name"] for policy in written["sleepers"]] == ["notes"]
    assert [policy.name for policy in document(settings).all_sleepers] == ["notes", "hub"]


def test_a_deployment_and_a_stateful_set_may_have_one_name(tmp_path: Path) -> None:
    other = rule(HUB.replace("Deployment", "StatefulSet"), name="database")
    config = document(loaded(stack(rule(), other), tmp_path))

    assert load(WorkloadsConfig, dump(config)) == config


def test_the_first_step_of_a_removal_keeps_entry_and_policy(tmp_path: Path) -> None:
    settings = loaded(stack(rule("when: never, scale: { kind: Deployment, name: hub, replicas: kept }")), tmp_path)

    assert document(settings).adopted_sleepers == (replace(SLEEPER, never=True, kept=True),)
    assert "ebbtide-kept-replicas" in [item["metadata"]["name"] for item in policies(settings.adopted)]


def test_its_rights_are_these_scales_by_name_and_sight(tmp_path: Path) -> None:
    idle = "when: idle, scale: { kind: StatefulSet, name: set }"
    more = "ebbtide:monitoring: { prometheus: bundled }"
    text = stack(rule(), rule(idle, name="labels", category="flexible"), more=more)
    rights: Any = _scale_rules(document(loaded(text, tmp_path)).all_sleepers)

    written = [
        (it["resources"], it["verbs"], it["resource_names"]) for it in rights["jupyter"] if "resource_names" in it
    ]
    assert written == [
        (["deployments/scale"], ["get", "patch"], ["hub"]),
        (["statefulsets/scale"], ["get", "patch"], ["set"]),
    ]
    read = {str(it["resources"]): it["verbs"] for it in rights["jupyter"] if "resource_names" not in it}
    watch = ["get", "list", "watch"]
    assert read == {
        "['deployments']": watch,
        "['statefulsets']": watch,
        "['pods']": ["list"],
        "['horizontalpodautoscalers']": watch,
    }
    assert [*rights] == ["jupyter"]


@pytest.mark.parametrize(
    ("written", "code", "parts"),
    [
        (rule(replicas=""), "adopted.uncounted", ("adopted.hub.replicas:",)),
        (rule(replicas="", pods="2"), "adopted.sleep-uncounted", ("adopted.hub.replicas:", "while awake")),
        (rule(category="worker", replicas="", usually="2"), "adopted.sleep-worker", ("adopted.hub.sleep:",)),
        (rule(CLOCK), "key.missing", ("adopted.hub.sleep.scale:",)),
        (rule(f"{CLOCK}, scale: {{ kind: Deployment }}"), "key.missing", ("sleep.scale.name:",)),
        (rule(f"{CLOCK}, scale: {{ kind: Job, name: hub }}"), "choice.unknown", ("sleep.scale.kind:", "Deployment")),
        (rule(f"{HUB}, hub: {{ secret: a, key: b }}"), "key.unknown", ("adopted.hub.sleep.hub:",)),
        (rule(f"{HUB}, replicas: 2"), "sleep.no-fewer", ("adopted.hub.sleep.replicas:",)),
        (rule(HUB.replace(CLOCK, "when: idle")), "sleep.fixed-idle", ("adopted.hub.sleep.when:",)),
        (
            rule(HUB.replace(CLOCK, "when: idle"), category="flexible"),
            "sleep.no-prometheus",
            ("adopted.hub.sleep.when:",),
        ),
        (f"{rule()}\n  {rule(name='other')}", "adopted.scale-twice", ("adopted.other.sleep.scale.name:", "'hub'")),
    ],
)
def test_a_sleep_that_cannot_hold_is_refused_where_it_is(
    tmp_path: Path, written: str, code: str, parts: tuple[str, ...]
) -> None:
    faults = [told(problem) for problem in problems_of(stack(written), tmp_path)]

    assert any(fault.tells(code, *parts) for fault in faults), faults


def test_check_says_when_it_sleeps_and_which_owner_would_wake_it(tmp_path: Path) -> None:
    kept = HUB.replace("name: hub", "name: hub, replicas: kept")
    settings = loaded(stack(rule(), rule(kept.replace("name: hub", "name: board"), name="board")), tmp_path)

    assert "sleeps   hub: 0 of 2 outside business hours" in summary(settings)
    cautions = [(it.code, it.place) for it in warnings_of(settings) if it.code == "adopted.sleep-of-owner"]
    assert cautions == [("adopted.sleep-of-owner", "adopted.hub.sleep.scale.replicas")]
