"""The rules in the policy pack, on the real `pulumi_policy` with the engine's messages."""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Protocol, TypeAlias, cast

import grpc
import pulumi_policy
import pytest
import yaml
from google.protobuf import empty_pb2
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import analyzer_pb2 as rpc
from pulumi.runtime.proto import analyzer_pb2_grpc
from pulumi.runtime.rpc import UNKNOWN
from pulumi_policy.policy import _PolicyAnalyzerServicer

from ebbtide.findings import Severity
from ebbtide.policies import RULES, judge
from ebbtide.policies.rule import Hits
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState
from tests.builders.mutants import as_pulumi_passes
from tests.builders.policies import DEMO, MUTANTS, Change, both, edited, recorded, settings_of
from tests.paths import ROOT, STACK_FILES

pytestmark = pytest.mark.whole

PACK = ROOT / "ebbtide" / "policies" / "pack"
CANARY = "canary-3f9a"
BUDGET = "PodDisruptionBudget ebbtide/api"
CONFIG, _ = as_pulumi_passes(yaml.safe_load((STACK_FILES / "Pulumi.demo.yaml").read_text())["config"])
"""As the engine has it: texts, and no order but that of the keys."""
LEVELS = {rpc.MANDATORY: "mandatory", rpc.ADVISORY: "advisory"}
OURS = {"stack-inputs", "stack-config", "all-judged"}

Violations: TypeAlias = list[tuple[str, str, str]]
"""The policy, the message without the policy's own description, the URN."""


class Analyzer(Protocol):
    """The pack's side of the protocol, in this process or in another one."""

    def GetAnalyzerInfo(self, request: empty_pb2.Empty, context: Any = None, /) -> rpc.AnalyzerInfo: ...  # noqa: N802

    def Analyze(self, request: rpc.AnalyzeRequest, context: Any = None, /) -> rpc.AnalyzeResponse: ...  # noqa: N802

    def AnalyzeStack(self, request: rpc.AnalyzeStackRequest, context: Any = None, /) -> rpc.AnalyzeResponse: ...  # noqa: N802


@pytest.fixture
def pack(monkeypatch: pytest.MonkeyPatch) -> Analyzer:
    return started(monkeypatch)


@pytest.fixture
def some(monkeypatch: pytest.MonkeyPatch) -> Analyzer:
    """Run a few rules: for each of them the SDK reads all resources again, which is slow."""
    return started(monkeypatch, "EB001", "EB002", "EB019", "EB030", "EB031")


def started(monkeypatch: pytest.MonkeyPatch, *only: str) -> Analyzer:
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(CONFIG))
    served: list[Analyzer] = []

    def serve(name: str, policies: list[pulumi_policy.Policy]) -> None:
        level = pulumi_policy.EnforcementLevel.ADVISORY
        kept = [it for it in policies if not only or it.name in {*only, *OURS}]
        served.append(cast("Analyzer", _PolicyAnalyzerServicer(name, "1", kept, level)))

    monkeypatch.setattr(pulumi_policy, "PolicyPack", serve)
    runpy.run_path(str(PACK), run_name="__main__")
    (found,) = served
    return found


def struct(inputs: Mapping[str, Any]) -> Struct:
    message = Struct()
    message.update(dict(inputs))
    return message


def options(one: Resource) -> rpc.AnalyzerResourceOptions:
    return rpc.AnalyzerResourceOptions(ignoreChanges=one.ignore_changes, protect=one.protect, parent=one.parent)


def show(pack: Analyzer, resources: Sequence[Resource], *, stack: str = DEMO, made: bool = True) -> Violations:
    """Pass each resource with its inputs, then all with their outputs, which are empty before `made`."""
    named = [replace(one, urn=one.urn.replace(f"urn:pulumi:{DEMO}::", f"urn:pulumi:{stack}::")) for one in resources]
    for one in named:
        inputs, opts = struct(one.inputs), options(one)
        answer = pack.Analyze(rpc.AnalyzeRequest(type=one.type, urn=one.urn, properties=inputs, options=opts), None)
        assert list(answer.diagnostics) == []
    state = [
        rpc.AnalyzerResource(
            type=one.type,
            urn=one.urn,
            name=one.name,
            properties=struct(one.inputs if made else {}),
            options=options(one),
            parent=one.parent,
            propertyDependencies={"metadata": rpc.AnalyzerPropertyDependencies(urns=one.depends_on)},
        )
        for one in named
    ]
    return violations(pack.AnalyzeStack(rpc.AnalyzeStackRequest(resources=state), None))


def violations(answer: rpc.AnalyzeResponse) -> Violations:
    return [(it.policyName, it.message.removeprefix(f"{it.description}\n"), it.urn) for it in answer.diagnostics]


def changed(change: Change) -> tuple[Resource, ...]:
    return change(recorded(DEMO))


def not_named_yet(resources: Sequence[Resource]) -> tuple[Resource, ...]:
    """A first preview: references to the names of namespaces are unknown."""
    made = {one.inputs["metadata"]["name"]: one.urn for one in resources if one.type == "kubernetes:core/v1:Namespace"}

    def early(one: Resource) -> Resource:
        metadata = one.inputs.get("metadata")
        where = made.get(metadata.get("namespace")) if isinstance(metadata, dict) else None
        if where is None:
            return one
        inputs = {**one.inputs, "metadata": {**cast("dict[str, Any]", metadata), "namespace": UNKNOWN}}
        return replace(one, inputs=inputs, depends_on=(where,))

    return tuple(early(one) for one in resources)


def test_every_rule_is_a_policy_and_what_blocks_is_mandatory(pack: Analyzer) -> None:
    info = pack.GetAnalyzerInfo(empty_pb2.Empty(), None)

    levels = {it.name: LEVELS[it.enforcementLevel] for it in info.policies if it.name not in OURS}
    wanted = {rule.code: "mandatory" if rule.severity is Severity.BLOCKING else "advisory" for rule in RULES}
    assert (info.name, levels) == ("ebbtide", wanted)


def test_the_pack_says_the_version_that_the_project_has() -> None:
    described = yaml.safe_load((PACK / "PulumiPolicy.yaml").read_text())

    assert described["version"] == version("ebbtide")


@pytest.mark.parametrize("made", [True, False], ids=["once it is up", "before anything of it exists"])
def test_the_engine_finds_nothing_in_a_shipped_stack(pack: Analyzer, made: bool) -> None:
    resources = recorded(DEMO) if made else not_named_yet(recorded(DEMO))

    assert show(pack, resources, made=made) == []


def test_the_engine_finds_what_the_plain_functions_find(pack: Analyzer) -> None:
    """All compatible manual changes of one stack; of two to one object the later counts."""
    together = both(*(MUTANTS[rule].change for rule in ("EB002", "EB003", "EB005", "EB009", "EB011", "EB014")))
    resources = both(together, *(MUTANTS[rule].change for rule in ("EB020", "EB025", "EB032", "EB036")))(recorded(DEMO))
    plain = judge(settings_of(DEMO), resources, datetime.now(UTC).date())

    found = show(pack, resources)

    assert sorted((policy, text) for policy, text, _ in found) == sorted(
        (result.code, f"{result.resource}: {result.text}") for result in plain
    )
    assert len({policy for policy, _, _ in found}) >= 10


def test_a_breach_is_found_before_the_namespace_that_it_is_of_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods need a category only in Ebbtide's namespaces."""
    broken = not_named_yet(changed(MUTANTS["EB012"].change))

    ((_, message, _),) = show(started(monkeypatch, "EB012"), broken, made=False)

    assert message.startswith("Deployment ebbtide/api: its pods are without the label")


def test_a_breach_names_its_resource(some: Analyzer) -> None:
    ((policy, message, urn),) = show(some, changed(MUTANTS["EB019"].change))

    assert (policy, message.split(":")[0]) == ("EB019", "Deployment ebbtide/dashboards")
    assert urn.endswith("::dashboards-deployment")


def test_a_number_is_shown_as_it_was_written(some: Analyzer) -> None:
    """The engine passes floats."""
    ((_, message, _),) = show(some, changed(MUTANTS["EB001"].change))

    assert "declared as 1, so ray-head" in message


def test_a_budget_that_the_controller_opened_for_the_night_breaks_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = started(monkeypatch, "EB001", "EB004", "EB008")

    assert show(pack, changed(edited(BUDGET, "spec.maxUnavailable", 1))) == []


def test_what_is_not_known_before_the_update_breaks_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    later = both(
        edited("Deployment ebbtide/api", "spec.template.spec.containers.0.image", UNKNOWN),
        edited("NodeGroup flexible-a-nodes", "launchTemplate", UNKNOWN),
        edited("Cluster cluster-control-plane", "roleArn", UNKNOWN),
    )

    assert show(started(monkeypatch, "EB013", "EB031", "EB036", "EB037"), changed(later)) == []


def test_no_message_shows_a_secret(some: Analyzer) -> None:
    """The engine passes secrets in the clear."""
    leaking = both(
        edited("Secret ebbtide/ebbtide-redis", "stringData", {"password": CANARY}),
        edited("Deployment ebbtide/api", "spec.template.spec.containers.0.env.0", {"name": "TOKEN", "value": CANARY}),
        *(MUTANTS[rule].change for rule in ("EB002", "EB019", "EB030", "EB031")),
    )

    found = show(some, changed(leaking))

    assert {policy for policy, _, _ in found} >= {"EB002", "EB019", "EB030", "EB031"}
    assert CANARY not in str(found)


def test_a_rule_that_raises_is_one_line_of_advice_and_the_others_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the rule is mandatory, a fault of Ebbtide stops no update."""
    monkeypatch.setattr("ebbtide.policies.RULES", tuple(faulty if it.code == faulty.code else it for it in RULES))

    found = show(started(monkeypatch, "EB001", "EB019"), changed(MUTANTS["EB019"].change))

    assert [policy for policy, _, _ in found] == ["EB019", "all-judged"]
    assert found[1][1].startswith("EB001: the rule could not be judged (KeyError: 'metadata')")


def _raises(state: StackState) -> Hits:
    raise KeyError("metadata")
    yield state.resources[0], ""


faulty = replace(next(rule for rule in RULES if rule.code == "EB001"), check=_raises)


def test_a_run_without_config_is_one_line(some: Analyzer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PULUMI_CONFIG")

    ((policy, message, _),) = show(some, recorded(DEMO))

    assert policy == "stack-config"
    assert message.startswith("no rule was judged: wanted the stack's config")


def test_a_config_that_is_wrong_is_told_once(some: Analyzer, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**CONFIG, "ebbtide:exceptions": '[{"policy": "EB019"}]'}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(wrong))

    ((policy, message, _),) = show(some, recorded(DEMO))

    assert policy == "stack-config"
    assert "config of demo: ebbtide:exceptions[0].reason" in message


def test_an_exception_of_the_config_that_runs_counts(some: Analyzer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files next to the pack have no effect."""
    entry = {"policy": "EB019", "resource": "dashboards", "reason": "read in the morning", "until": "2999-01-31"}
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({**CONFIG, "ebbtide:exceptions": json.dumps([entry])}))

    assert show(some, changed(MUTANTS["EB019"].change)) == []


@contextmanager
def as_a_process() -> Generator[Analyzer]:
    """Start the pack as Pulumi's language host does."""
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", str(PACK)]
    environment = {**os.environ, "PULUMI_CONFIG": json.dumps(CONFIG)}
    process = subprocess.Popen(command, cwd=PACK, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with grpc.insecure_channel(f"127.0.0.1:{int(process.stdout.readline())}") as channel:
            yield cast("Analyzer", analyzer_pb2_grpc.AnalyzerStub(channel))
    finally:
        process.terminate()
        process.communicate()


@pytest.mark.process
def test_the_pack_serves_in_a_process_of_its_own() -> None:
    with as_a_process() as pack:
        ((policy, message, _),) = show(pack, changed(MUTANTS["EB001"].change))

    assert policy == "EB001"
    assert "declared as 1, so ray-head" in message
