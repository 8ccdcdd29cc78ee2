"""The rules against complete stacks: the shipped ones keep all rules, and each rule finds the change that breaks it."""

import re
from dataclasses import replace
from datetime import date
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.findings import Severity
from ebbtide.policies import RULES, judge
from ebbtide.policies.cloud import TAGGABLE
from ebbtide.policies.rule import Hits, PolicyResult, Rule
from ebbtide.recording.resources import Resource
from ebbtide.recording.state import StackState
from ebbtide.settings import StackSettings
from ebbtide.settings.sections.entrance import Expose
from ebbtide.settings.sections.exceptions import POLICY_IDS, PolicyException
from ebbtide.settings.sections.redis import RedisKind, RedisSettings
from tests.builders.policies import (
    BERLIN,
    DEMO,
    GONE,
    MUTANTS,
    ON_PREMISES,
    STACKS,
    Change,
    added,
    autoscaler_of,
    balancer,
    both,
    edited,
    ignoring,
    pod,
    recorded,
    removed,
    settings_of,
)
from tests.builders.recorded import record
from tests.builders.stack import stack_settings
from tests.counts import examples

pytestmark = pytest.mark.whole

TODAY = date(2026, 11, 21)
API = "Deployment ebbtide/api"
POD = "spec.template.spec"


def judged(stack: str, change: Change | None = None) -> tuple[PolicyResult, ...]:
    resources = recorded(stack)
    return judge(settings_of(stack), change(resources) if change else resources, TODAY)


def broken(stack: str, change: Change) -> set[str]:
    return {result.code for result in judged(stack, change)}


@pytest.mark.parametrize("stack", STACKS)
def test_a_shipped_stack_breaks_no_rule(stack: str) -> None:
    assert judged(stack) == ()


def test_a_stack_with_a_managed_redis_breaks_no_rule() -> None:
    elasticache = stack_settings(redis=RedisSettings(kind=RedisKind.ELASTICACHE))

    assert judge(elasticache, record(elasticache), TODAY) == ()


@pytest.mark.parametrize("rule", [rule.code for rule in RULES])
def test_a_rule_finds_the_change_that_breaks_it_and_no_other_rule_does(rule: str) -> None:
    mutant = MUTANTS[rule]

    assert broken(mutant.stack, mutant.change) == {rule} | mutant.also


FURTHER: dict[str, tuple[str, str, Change]] = {
    "a budget in per cent": (
        "EB001",
        DEMO,
        edited("PodDisruptionBudget ebbtide/metrics", "spec.maxUnavailable", "50%"),
    ),
    "a flexible budget born open": ("EB001", DEMO, edited("PodDisruptionBudget ebbtide/api", "spec.maxUnavailable", 1)),
    "a budget in another namespace": (
        "EB002",
        DEMO,
        edited("PodDisruptionBudget ebbtide/metrics", "metadata.namespace", "default"),
    ),
    "a budget that says nothing": (
        "EB004",
        DEMO,
        edited("PodDisruptionBudget ebbtide/metrics", "spec.maxUnavailable", GONE),
    ),
    "a field that is not declared": ("EB007", DEMO, ignoring("Deployment ebbtide/dashboards", "spec.replica")),
    "a budget that is not handed over": ("EB008", DEMO, ignoring("PodDisruptionBudget ebbtide/api")),
    "a node group that is not handed over": ("EB008", DEMO, ignoring("NodeGroup gpu-a-nodes")),
    "two autoscalers on one service": (
        "EB009",
        BERLIN,
        both(autoscaler_of("translate", "ebbtide"), autoscaler_of("translate", "ebbtide")),
    ),
    "an autoscaler on a service that is Pulumi's": ("EB009", DEMO, autoscaler_of("api", "ebbtide")),
    "a category that nobody knows": (
        "EB012",
        DEMO,
        edited(API, "spec.template.metadata.labels.ebbtide\\.dev/category", "elastic"),
    ),
    "nodes that do not exist": ("EB013", DEMO, edited(API, f"{POD}.nodeSelector", {"ebbtide.dev/node-kind": "large"})),
    "a GPU without its toleration": (
        "EB013",
        DEMO,
        edited("Deployment ebbtide-workers/train", f"{POD}.tolerations", []),
    ),
    "a first step larger than a node": (
        "EB013",
        DEMO,
        edited(API, f"{POD}.initContainers.0", {"name": "load", "resources": {"requests": {"cpu": "20"}}}),
    ),
    "a bare pod": ("EB014", DEMO, pod("notebook")),
    "local volumes that the autoscaler minds": (
        "EB015",
        DEMO,
        both(
            edited("Deployment kube-system/cluster-autoscaler", f"{POD}.containers.0.args", []),
            edited(API, f"{POD}.volumes.0", {"name": "scratch", "emptyDir": {}}),
        ),
    ),
    "state on spot nodes": (
        "EB017",
        BERLIN,
        edited("Deployment ebbtide/scheduler", f"{POD}.nodeSelector", {"ebbtide.dev/node-kind": "spot"}),
    ),
    "one zone for all": (
        "EB018",
        DEMO,
        edited(API, f"{POD}.nodeSelector.topology\\.kubernetes\\.io/zone", "us-east-1a"),
    ),
    "a probe on a helper of a pool": (
        "EB020",
        DEMO,
        edited(
            "Deployment ebbtide-workers/prep",
            f"{POD}.initContainers.0",
            {
                "name": "proxy",
                "image": "registry.example.com/proxy:1",
                "restartPolicy": "Always",
                "readinessProbe": {"httpGet": {"port": 1}},
                "resources": {"limits": {"memory": "64Mi"}},
            },
        ),
    ),
    "a pool that is waited for": (
        "EB022",
        DEMO,
        edited("Deployment ebbtide-workers/train", "metadata.annotations.pulumi\\.com/skipAwait", GONE),
    ),
    "a lost tag of an empty group": (
        "EB026",
        DEMO,
        removed("Tag gpu-a-taint-nvidia-com-gpu"),
    ),
    "a privileged container": (
        "EB027",
        DEMO,
        edited(API, f"{POD}.containers.0.securityContext.privileged", True),
    ),
    "a directory of the node": (
        "EB027",
        DEMO,
        edited(API, f"{POD}.volumes.0", {"name": "logs", "hostPath": {"path": "/var/log"}}),
    ),
    "a rule for the whole internet": (
        "EB032",
        BERLIN,
        edited("SecurityGroupIngressRule cluster-api-from-10.20.0.0/16", "cidrIpv4", "0.0.0.0/0"),
    ),
    "a default group for the whole internet": (
        "EB032",
        DEMO,
        edited(
            "DefaultSecurityGroup network-default",
            "ingress",
            [{"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]}],
        ),
    ),
    "an ingress for the whole internet": (
        "EB033",
        ON_PREMISES,
        added(
            "kubernetes:networking.k8s.io/v1:Ingress",
            "web",
            {"metadata": {"name": "web", "annotations": {"alb.ingress.kubernetes.io/scheme": "internet-facing"}}},
        ),
    ),
    "nodes whose disks are not tagged": (
        "EB035",
        DEMO,
        edited("LaunchTemplate gpu-a-template", "tagSpecifications.1.tags", {}),
    ),
    "metadata without a token": (
        "EB036",
        DEMO,
        edited("LaunchTemplate gpu-a-template", "metadataOptions.httpTokens", "optional"),
    ),
    "a disk in the clear": (
        "EB037",
        DEMO,
        edited("LaunchTemplate gpu-a-template", "blockDeviceMappings.0.ebs.encrypted", "false"),
    ),
    "logs that EKS begins by itself": ("EB038", DEMO, removed("LogGroup cluster-logs")),
}


def test_an_image_that_check_warns_of_is_not_told_twice() -> None:
    """`check` warns of the image in the stack file; only the rule reports one that was set by hand."""
    workload = settings_of(DEMO).workloads["api"].model_copy(update={"image": "registry.example.com/api"})
    loose = settings_of(DEMO).model_copy(update={"workloads": {**settings_of(DEMO).workloads, "api": workload}})
    named, other = (
        edited(API, f"{POD}.containers.0.image", image)(recorded(DEMO))
        for image in (workload.image, "registry.example.com/other")
    )

    assert judge(loose, named, TODAY) == ()
    assert [result.code for result in judge(loose, other, TODAY)] == ["EB031"]


def test_a_public_load_balancer_is_declared_by_the_stack_file_and_its_workload_alone() -> None:
    api = settings_of(DEMO).workloads["api"].model_copy(update={"ports": {"http": 8000}, "expose": Expose(public=True)})
    workloads = {**settings_of(DEMO).workloads, "api": api}
    exposed = settings_of(DEMO).model_copy(update={"workloads": workloads})
    resources = record(exposed)

    assert judge(exposed, resources, TODAY) == ()
    assert [result.code for result in judge(settings_of(DEMO), resources, TODAY)] == ["EB033"]
    assert [result.code for result in judge(exposed, balancer()(resources), TODAY)] == ["EB033"]


@pytest.mark.parametrize("case", FURTHER)
def test_a_rule_finds_the_other_ways_to_break_it(case: str) -> None:
    rule, stack, change = FURTHER[case]

    assert rule in broken(stack, change)


ALLOWED: dict[str, tuple[str, Change]] = {
    "an internal load balancer": (
        DEMO,
        balancer(**{"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}),
    ),
    "an autoscaler on a service that is an autoscaler's": (BERLIN, autoscaler_of("translate", "ebbtide")),
    "local volumes that the stack's autoscaler does not mind": (
        DEMO,
        edited(API, f"{POD}.volumes.0", {"name": "scratch", "emptyDir": {}}),
    ),
    "a local volume in memory": (
        ON_PREMISES,
        edited(API, f"{POD}.volumes.0", {"name": "scratch", "emptyDir": {"medium": "Memory"}}),
    ),
    "local volumes that are named as safe": (
        ON_PREMISES,
        both(
            edited(API, f"{POD}.volumes.0", {"name": "scratch", "emptyDir": {}}),
            edited(
                API,
                "spec.template.metadata.annotations.cluster-autoscaler\\.kubernetes\\.io/safe-to-evict-local-volumes",
                "tmp, scratch",
            ),
        ),
    ),
    "a priority that drives nobody away": (
        DEMO,
        both(
            added(
                "kubernetes:scheduling.k8s.io/v1:PriorityClass",
                "early",
                {"metadata": {"name": "early"}, "value": 1000, "preemptionPolicy": "Never"},
            ),
            edited(API, f"{POD}.priorityClassName", "early"),
        ),
    ),
    "a service without pods in front": (
        DEMO,
        added(
            "kubernetes:core/v1:Service",
            "prep",
            {
                "metadata": {
                    "name": "prep",
                    "namespace": "ebbtide-workers",
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                "spec": {"selector": {"ebbtide.dev/workload": "prep"}},
            },
        ),
    ),
    "a first step that fits, though not beside the others": (
        DEMO,
        edited(
            API,
            f"{POD}.initContainers.0",
            {"name": "load", "image": "registry.example.com/load:1", "resources": {"requests": {"cpu": "15"}}},
        ),
    ),
    "an image by its digest": (
        DEMO,
        edited(API, f"{POD}.containers.0.image", "registry.example.com/ml/api@sha256:" + "0" * 64),
    ),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_what_only_looks_like_a_breach_is_left_alone(case: str) -> None:
    stack, change = ALLOWED[case]

    assert judged(stack, change) == ()


@pytest.mark.parametrize(("named", "found"), [((), {"EB032"}), (("20.30.40.0/24",), set[str]())])
def test_a_public_range_gets_in_only_where_the_stack_file_names_it(named: tuple[str, ...], found: set[str]) -> None:
    rule = "SecurityGroupIngressRule cluster-api-from-10.20.0.0/16"
    opened = edited(rule, "cidrIpv4", "20.30.40.0/24")(recorded(BERLIN))
    cluster = settings_of(BERLIN).cluster.model_copy(update={"public_access": named})

    results = judge(settings_of(BERLIN).model_copy(update={"cluster": cluster}), opened, TODAY)

    assert {result.code for result in results} == found


def test_the_gravest_come_first() -> None:
    results = judged(DEMO, both(MUTANTS["EB005"].change, MUTANTS["EB032"].change, MUTANTS["EB019"].change))

    assert [result.code for result in results] == ["EB032", "EB005", "EB019"]


def raising(error: Exception) -> Rule:
    def check(state: StackState) -> Hits:
        yield state.resources[0], "found before the fault"
        raise error

    return replace(RULES[0], code="EB900", check=check)


def test_a_rule_that_raises_is_one_line_and_the_others_still_count() -> None:
    changed = MUTANTS["EB005"].change(recorded(DEMO))

    results = judge(settings_of(DEMO), changed, TODAY, [raising(LookupError("no such zone")), *RULES])

    reasons = {result.code: result.text for result in results if "could not be judged" in result.text}
    assert list(reasons) == ["EB900"]
    assert "LookupError: no such zone" in reasons["EB900"]
    assert [r.text for r in results if r.code == "EB900" and r.text not in reasons.values()] == [
        "found before the fault"
    ]
    assert "EB005" in {result.code for result in results}


def excepting(policy: str, resource: str, until: date) -> StackSettings:
    given = PolicyException(policy=policy, resource=resource, reason="two people read it", until=until)
    return settings_of(DEMO).model_copy(update={"exceptions": (given,)})


@pytest.mark.parametrize("name", ["dashboards", "ebbtide/dashboards", "Deployment ebbtide/dashboards"])
def test_an_exception_shows_its_reason_and_its_last_day(name: str) -> None:
    changed = MUTANTS["EB019"].change(recorded(DEMO))

    results = judge(excepting("EB019", name, TODAY), changed, TODAY)

    assert [(result.code, result.excepted) for result in results] == [
        ("EB019", "two people read it (until 2026-11-21)")
    ]


def test_after_its_last_day_an_exception_counts_no_more() -> None:
    changed = MUTANTS["EB019"].change(recorded(DEMO))

    (result,) = judge(excepting("EB019", "dashboards", date(2026, 11, 20)), changed, TODAY)

    assert result.excepted == ""
    assert "its exception ended on 2026-11-20" in result.text


@pytest.mark.parametrize(("policy", "resource"), [("EB018", "dashboards"), ("EB019", "dashboard")])
def test_an_exception_is_for_one_rule_and_one_resource(policy: str, resource: str) -> None:
    changed = MUTANTS["EB019"].change(recorded(DEMO))

    results = judge(excepting(policy, resource, TODAY), changed, TODAY)

    assert [(r.code, r.severity, r.excepted) for r in results] == [
        ("EB019", Severity.WARNING, ""),
        (policy, Severity.NOTE, ""),
    ]


def test_the_ids_are_those_that_the_stack_file_takes() -> None:
    assert tuple(rule.code for rule in RULES) == POLICY_IDS, "out of date; run: make schema"


@pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])
def test_every_rule_names_an_issue_or_a_chapter(rule: Rule) -> None:
    issue, chapter = r"[\w.-]+/[\w.-]+#\d+", r"[a-z]+/[a-z_-]+(, .+)?"

    assert all(re.fullmatch(f"{issue}|{chapter}", source) for source in rule.source.split("; "))


@cache
def takes_tags(type_: str) -> bool:
    """Read the SDK's source, since loading its classes takes seconds."""
    _, module, name = type_.split(":")
    spec = find_spec("pulumi_aws")
    assert spec is not None
    assert spec.origin is not None
    file = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    text = (Path(spec.origin).parent / module.split("/")[0] / f"{file}.py").read_text(encoding="utf-8")
    return re.search(r"^ +tags: (Optional\[)?(_builtins\.)?pulumi|^ +tags: Optional", text, re.MULTILINE) is not None


def test_the_types_that_take_tags_are_those_of_the_sdk() -> None:
    registered = {one.type for stack in STACKS for one in recorded(stack) if one.type.startswith("aws:")}

    assert {type_ for type_ in registered | TAGGABLE if takes_tags(type_)} == TAGGABLE


JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.floats(),
    st.text(max_size=3),
    st.just("[unknown]"),
    st.lists(st.one_of(st.none(), st.integers(0, 1), st.text(max_size=2)), max_size=2),
    st.dictionaries(st.sampled_from(["name", "key", "value", "labels"]), st.none() | st.text(max_size=2), max_size=2),
)


def with_junk(value: Any, data: st.DataObject) -> Any:
    """The same value with another value somewhere inside."""
    if isinstance(value, dict | list) and value and data.draw(st.integers(0, 9)):
        held = cast("dict[str, Any] | list[Any]", value)
        keys: list[Any] = list(range(len(held))) if isinstance(held, list) else sorted(held)
        key = data.draw(st.sampled_from(keys))
        copied: Any = held.copy()
        copied[key] = with_junk(copied[key], data)
        return copied
    return data.draw(JUNK)


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_whatever_stands_in_a_resource_every_rule_can_be_judged(data: st.DataObject) -> None:
    resources = list[Resource](recorded(DEMO))
    index = data.draw(st.integers(0, len(resources) - 1))
    inputs = {key: with_junk(value, data) for key, value in resources[index].inputs.items()}
    resources[index] = replace(resources[index], inputs=inputs)

    results = judge(settings_of(DEMO), resources, TODAY)

    assert [result.text for result in results if "could not be judged" in result.text] == []


def test_a_log_group_whose_name_is_no_text_can_be_judged() -> None:
    resources = [
        replace(one, inputs={**one.inputs, "name": ["a"]}) if one.type == "aws:cloudwatch/logGroup:LogGroup" else one
        for one in recorded(DEMO)
    ]

    results = judge(settings_of(DEMO), resources, TODAY)

    assert "EB038" in {result.code for result in results}  # the cluster's own group has another name now
    assert [result.text for result in results if "could not be judged" in result.text] == []
