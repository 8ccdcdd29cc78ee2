"""The engine's plan as the changes of a page: only of this stack, project and program, and without secrets."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.preview.document import ChangeKind, ResourceChange
from ebbtide.preview.plan import PlanUnusable, plan_of, planned_changes, read_plan
from ebbtide.recording.resources import Resource
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.load import stack_of_text
from tests.builders.mutants import CANARY
from tests.builders.settings import SHORTEST

POOL = "urn:pulumi:acme::ebbtide::ebbtide:components:WorkerPool::train"
WORKERS = f"{POOL.removesuffix('::train')}$kubernetes:apps/v1:Deployment::train-workers"
GROUP = "urn:pulumi:acme::ebbtide::aws:eks/nodeGroup:NodeGroup::flexible-a"
REGISTERED = (
    Resource(urn=POOL, type="ebbtide:components:WorkerPool", name="train", parent="", custom=False, inputs={}),
    Resource(
        urn=WORKERS, type="kubernetes:apps/v1:Deployment", name="train-workers", parent=POOL, custom=True, inputs={}
    ),
    Resource(urn=GROUP, type="aws:eks/nodeGroup:NodeGroup", name="flexible-a", parent="", custom=True, inputs={}),
)


def state(urn: str, inputs: Any = None, **more: Any) -> dict[str, Any]:
    type_ = urn.split("::")[2].rsplit("$", 1)[-1]
    parent = POOL if urn == WORKERS else "urn:pulumi:acme::ebbtide::pulumi:pulumi:Stack::ebbtide-acme"
    return {"urn": urn, "type": type_, "custom": True, "parent": parent, "inputs": inputs or {}, **more}


def step(op: str, urn: str = WORKERS, before: Any = None, after: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": op, "urn": urn, "oldState": state(urn, before), "newState": state(urn, after), **more}


def changes(*steps: dict[str, Any], stack: str = "acme", **more: Any) -> tuple[ResourceChange, ...]:
    settings = stack_of_text(SHORTEST, stack=stack, file="Pulumi.acme.yaml")
    return planned_changes(plan_of(digest(*steps, **more), "plan.json"), settings, REGISTERED, no_files)


def digest(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"steps": list(steps), "changeSummary": {"same": 1}, **more}


def test_an_update_has_its_component_and_its_values() -> None:
    (found,) = changes(step("update", before={"spec": {"replicas": 1}}, after={"spec": {"replicas": 2}}))

    assert (found.kind, found.type, found.name, found.component) == (
        ChangeKind.UPDATE,
        "Deployment",
        "train-workers",
        "train",
    )
    assert [(field.path, field.before, field.after) for field in found.fields] == [("spec.replicas", "1", "2")]


@pytest.mark.parametrize(
    ("ops", "lowers"),
    [
        (["create-replacement", "replace", "delete-replaced"], False),
        (["delete-replaced", "replace", "create-replacement"], True),
        (["replace"], False),
    ],
)
def test_the_steps_of_a_replacement_are_one_change(ops: list[str], lowers: bool) -> None:
    (found,) = changes(*[step(op, GROUP, replaceReasons=["instanceTypes"]) for op in ops])

    assert (found.kind, found.reasons, found.lowers) == (ChangeKind.REPLACE, ("instanceTypes",), lowers)


def test_what_an_alias_found_under_another_urn_shows_the_fields_that_change() -> None:
    found = step("update", before={"spec": {"replicas": 1}}, after={"spec": {"replicas": 2}})
    found["oldState"]["urn"] = WORKERS.replace("::ebbtide:components:", "::ebbtide:components:Former")

    (change,) = changes(found)

    assert [(field.path, field.before, field.after) for field in change.fields] == [("spec.replicas", "1", "2")]


def test_what_the_engine_leaves_alone_is_no_change() -> None:
    stack = "urn:pulumi:acme::ebbtide::pulumi:pulumi:Stack::ebbtide-acme"
    provider = "urn:pulumi:acme::ebbtide::pulumi:providers:aws::default_7_51_0"

    assert changes(step("same"), step("read", GROUP), step("create", stack), step("update", provider)) == ()


def test_drift_that_only_the_provider_sees_is_named() -> None:
    (found,) = changes(step("update", GROUP, detailedDiff={"tags.owner": {"kind": "update"}}))

    assert [field.path for field in found.fields] == ["tags.owner"]


def test_the_engines_indices_of_a_changed_list_do_not_repeat_its_entries() -> None:
    before, after = ({"env": [{"name": name, "value": name} for name in names]} for names in ("abc", "ac"))
    detailed = dict.fromkeys(["env[1].name", "env[1].value", "env[2]", "env[0].value", "spec.nodeName"])

    (found,) = changes(step("update", before=before, after=after, detailedDiff=detailed))

    assert [(field.path, field.before, field.after) for field in found.fields] == [
        ("env[b].name", "b", ""),
        ("env[b].value", "b", ""),
        ("env[0].value", "", ""),  # drift, as the provider reports it
        ("spec.nodeName", "", ""),
    ]


def test_secrets_of_an_older_state_are_masked() -> None:
    secret = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": CANARY}
    found = changes(step("update", before={"env": secret, "password": CANARY}, after={"env": "x", "password": "y"}))

    assert CANARY not in repr(found)
    assert "env" in [field.path for field in found[0].fields]


@pytest.mark.parametrize(
    ("urn", "stack", "words"),
    [
        (WORKERS, "demo", "a plan of stack acme, wanted demo"),
        (WORKERS.replace("::ebbtide::", "::other::"), "acme", "a plan of project other, wanted ebbtide"),
        (WORKERS.replace("train-workers", "gone"), "acme", "a plan of another version: gone is in it"),
    ],
)
def test_a_plan_of_something_else_is_refused(urn: str, stack: str, words: str) -> None:
    with pytest.raises(PlanUnusable, match=words):
        changes(step("update", urn), stack=stack)


@pytest.mark.parametrize("type_", ["kubernetes:core/v1:ResourceQuota", "acme:Extra$ebbtide:components:WorkerPool"])
def test_a_resource_of_the_teams_own_program_is_a_change(type_: str) -> None:
    """A rendering does not have it, since it runs only Ebbtide's part of the program."""
    (change,) = changes(step("create", f"urn:pulumi:acme::ebbtide::{type_}::own"))

    assert (change.kind, change.name) == (ChangeKind.CREATE, "own")


CONFIG = {
    "ebbtide:customer": "acme",
    "ebbtide:businessHours": '{"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}}',
    "ebbtide:workers": json.dumps(yaml.safe_load(SHORTEST)["config"]["ebbtide:workers"]),
    "ebbtide:redisPassword": "[secret]",
    "aws:profile": "somebody's",
}


@pytest.mark.parametrize("urn", ["", "train-workers", "urn:pulumi:acme::ebbtide::Deployment", None, 7])
def test_a_state_without_a_whole_urn_is_no_plan(urn: Any) -> None:
    broken = step("update")
    broken["newState"]["urn"] = urn

    with pytest.raises(PlanUnusable, match="found a step without an op or a URN"):
        plan_of(digest(broken), "plan.json")


def test_a_severity_that_is_no_text_is_no_failure_and_no_traceback() -> None:
    assert plan_of(digest(step("update"), diagnostics=[{"severity": {"a": 1}}, 7]), "plan.json").stack == "acme"


def test_a_refusal_is_one_line_whatever_the_plan_calls_its_resources() -> None:
    strange = step("update", f"{WORKERS}\n\x1b[2J\ufeff")

    with pytest.raises(PlanUnusable) as refused:
        changes(strange)

    assert str(refused.value).isprintable()
    assert "of another version" in str(refused.value)


def test_parents_in_a_circle_do_not_lead_round_and_round() -> None:
    circle = step("update", before={"replicas": 1}, after={"replicas": 2})
    circle["oldState"]["parent"] = circle["newState"]["parent"] = WORKERS

    (found,) = changes(circle)

    assert (found.name, [field.path for field in found.fields]) == ("train-workers", ["replicas"])
    made = step("create", after={"replicas": 2})
    made["newState"]["parent"] = WORKERS
    assert [change.kind for change in changes(made)] == [ChangeKind.CREATE]


def test_a_plan_of_the_same_settings_is_taken_as_pulumi_writes_them_down() -> None:
    settings = {key: text for key, text in CONFIG.items() if key != "ebbtide:redisPassword"}

    assert len(changes(step("update", after={"a": 1}), config=settings)) == 1


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "redisPassword is not as the stack file says"),
        ({"ebbtide:customer": "other"}, "customer, redisPassword are not as the stack file says"),
        ({"ebbtide:businessHours": "{"}, "its settings are not valid here"),
        ({"ebbtide:workers": "[" * 100_000}, "its settings are not valid here"),
        ({"ebbtide:workers": 3}, "its settings are not valid here"),
    ],
)
def test_a_plan_of_other_settings_is_of_another_version(config: dict[str, Any], words: str) -> None:
    with pytest.raises(PlanUnusable, match=f"a plan of another version: {words}") as refused:
        changes(step("update"), config={**CONFIG, **config})

    assert "\n" not in str(refused.value)


def test_a_value_that_only_the_update_will_tell_is_shown_as_such() -> None:
    (found,) = changes(step("update", before={"arn": "a"}, after={"arn": "04da6b54-80e4-46f7-96ec-b56ff0331ba9"}))

    assert [field.after for field in found.fields] == ["(known after the update)"]


def test_what_goes_with_something_else_names_it() -> None:
    tag = step("replace", replaceReasons=["deletedWith"])
    tag["oldState"]["deletedWith"] = GROUP

    (found,) = changes(tag)

    assert found.reasons == ("deletedWith follows flexible-a",)


def test_what_keeps_its_name_goes_before_its_successor_comes() -> None:
    """The CLI writes one step for a replacement, and the provider's rule gives the order."""
    named = {"metadata": {"name": "train", "namespace": "ebbtide-workers"}}

    (found,) = changes(step("replace", before={**named, "spec": 1}, after={**named, "spec": 2}))

    assert found.lowers


def test_what_is_deleted_together_with_its_component_is_shown_below_it() -> None:
    pool = POOL.replace("::train", "::old")
    workers = WORKERS.replace("train-workers", "old-workers")
    parts: list[dict[str, Any]] = [{"op": "delete", "urn": urn, "oldState": state(urn)} for urn in (workers, pool)]
    parts[0]["oldState"]["parent"] = pool
    parts[1]["oldState"]["custom"] = False

    assert {(it.name, it.component) for it in changes(*parts)} == {("old-workers", "old"), ("old", "")}


@pytest.mark.parametrize("half", [{"changeSummary": {}}, {"diagnostics": [{"severity": "error", "message": "no"}]}])
def test_half_a_plan_is_refused(half: dict[str, Any]) -> None:
    with pytest.raises(PlanUnusable, match="the preview that wrote it failed"):
        plan_of(digest(step("update"), **half), "plan.json")


def test_warnings_of_a_preview_are_no_failure() -> None:
    warned = digest(step("update"), diagnostics=[{"severity": "warning", "message": "hm"}])

    assert plan_of(warned, "plan.json").stack == "acme"


def test_what_a_plan_deletes_need_not_be_in_the_program() -> None:
    (found,) = changes(step("delete", WORKERS.replace("train-workers", "gone")))

    assert (found.kind, found.name) == (ChangeKind.DELETE, "gone")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Previewing update (acme)",
        "[]",
        "{}",
        '{"steps": 3}',
        '{"steps": [{"op": "create"}]}',
        '{"steps": [{"urn": "a::b::c::d"}]}',
        '{"steps": ["x"]}',
        '{"steps": []}',
        "[" * 100_000,
        json.dumps({"steps": [step("same"), step("same", WORKERS.replace(":acme:", ":demo:"))]}),
    ],
)
def test_a_file_that_is_no_plan_is_one_clear_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(PlanUnusable) as refused:
        read_plan(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert "wanted the output of `pulumi preview --json`" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(PlanUnusable, match="No such file"):
        read_plan(tmp_path / "plan.json")
