"""Why a node still exists: each cause by itself, in the sentence that an operator reads."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.adapters.kube_api import ApiError
from ebbtide.operate.objects import quantity, utilisation
from ebbtide.operate.why.node import NodeFacts, explain_node, node_facts
from ebbtide.operate.why.node_pins import PodContext, Rules, judge, rule_of
from ebbtide.vocabulary.labels import CLOSED_MINIMUM
from ebbtide.vocabulary.node_pools import budgets_for
from tests.unit.operate.raw_objects import NOW, budget, node, pod

DAEMON = [{"kind": "DaemonSet", "name": "cni", "controller": True}]
SCRATCH: dict[str, Any] = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
PREFIX = "cluster-autoscaler.kubernetes.io/"
STATUS = """
time: 2026-11-20 14:59:55 +0000 UTC
clusterWide: { scaleDown: { status: CandidatesPresent } }
nodeGroups:
  - name: eks-flexible-9ac1b2c3-6b0d-4c57-9f5e-0a4d8c7b6e21
    health: { minSize: 1, cloudProviderTarget: 1 }
    scaleDown: { status: CandidatesPresent, candidates: 1 }
"""


def reasons(subject: dict[str, Any], *budgets: dict[str, Any], rules: Rules | None = None) -> str:
    return "; ".join(judge(subject, PodContext(budgets=budgets, rules=rules or Rules())).reasons)


def text_for(facts: NodeFacts) -> str:
    return "\n".join(explain_node(facts))


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (pod(meta={"ownerReferences": []}), "is a bare pod"),
        (pod(spec=SCRATCH), "keeps files on the node: emptyDir scratch"),
        (pod(spec={"volumes": [{"name": "logs", "hostPath": {"path": "/var"}}]}), "hostPath logs"),
        (pod(annotations={PREFIX + "safe-to-evict": "false"}), "safe-to-evict: false"),
        (pod(namespace="kube-system"), "is a kube-system pod without a budget"),
    ],
)
def test_a_pod_pins_its_node_by_itself(subject: dict[str, Any], said: str) -> None:
    assert said in reasons(subject)


@pytest.mark.parametrize(
    ("subject", "note"),
    [
        (pod(meta={"ownerReferences": DAEMON}, spec=SCRATCH), "DaemonSet"),
        (pod(status={"phase": "Succeeded"}, spec=SCRATCH), "has ended"),
        (pod(annotations={"kubernetes.io/config.mirror": "x"}, spec=SCRATCH), "static pod"),
        (pod(meta={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 7200}, spec=SCRATCH), "up to 120 min"),
        (pod(annotations={PREFIX + "safe-to-evict": "true"}, spec=SCRATCH), "may be evicted"),
        (pod(annotations={PREFIX + "safe-to-evict-local-volumes": "tmp,scratch"}, spec=SCRATCH), "may be evicted"),
        (pod(spec={"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]}), "may be evicted"),
    ],
)
def test_a_pod_that_pins_nothing_has_a_reason(subject: dict[str, Any], note: str) -> None:
    verdict = judge(subject, PodContext())

    assert (verdict.reasons, note in verdict.note) == ((), True), verdict


@pytest.mark.parametrize(
    ("category", "extra", "said"),
    [
        ("fixed", {}, "fixed workloads are never evicted outside a maintenance"),
        ("flexible", {}, "flexible workloads are evicted in the disruption window only (now: business hours)"),
        ("worker", {"nvidia.com/gpu": "1"}, "workers are never evicted (a GPU job may be running)"),
        ("", {}, "Ebbtide does not own it"),
    ],
)
def test_a_closed_budget_is_explained_by_the_category(category: str, extra: dict[str, str], said: str) -> None:
    labels = {"ebbtide.dev/workload": "api", "ebbtide.dev/category": category}

    assert said in reasons(pod(labels=labels, extra=extra), budget(), rules=Rules(window_reason="business-hours"))


def test_an_open_budget_without_room_counts_its_pods() -> None:
    assert "2 pods are healthy and 3 must be" in reasons(pod(), budget(max_unavailable=1))
    assert reasons(pod(), budget(max_unavailable=1, allowed=1)) == ""


def test_a_budget_without_a_number_is_closed_too() -> None:
    bare = budget()
    del bare["spec"]["maxUnavailable"]

    assert "is closed" in reasons(pod(), bare)
    assert "is closed" not in reasons(pod(), {**bare, "spec": {**bare["spec"], "minAvailable": 3}})


def test_the_minimum_of_a_jobs_budget_is_closed_and_its_pod_waits_for_no_pool() -> None:
    job = budget()
    job["spec"] = {"selector": job["spec"]["selector"], "minAvailable": CLOSED_MINIMUM}
    labels = {"ebbtide.dev/workload": "api", "ebbtide.dev/category": "worker"}

    said = reasons(pod(labels=labels), job)

    assert "is closed: workers are never evicted; this one belongs to no pool" in said


def test_two_budgets_on_one_pod_refuse_always() -> None:
    other = budget("other", allowed=1, selector={"matchLabels": {"ebbtide.dev/workload": "api"}})

    assert "several budgets (api, other)" in reasons(pod(), budget(allowed=1), other)


def test_a_status_that_lags_allows_nothing_yet() -> None:
    assert "has not caught up" in reasons(pod(), budget(allowed=1, status={"observedGeneration": 1}))


def test_a_budget_that_kubernetes_cannot_calculate_is_no_budget_that_has_just_changed() -> None:
    row = {"type": "DisruptionAllowed", "reason": "SyncFailed", "message": "found no controllers for pod agent-1"}
    failed = budget(max_unavailable=1, status={"observedGeneration": 1, "conditions": [row]})

    assert "Kubernetes cannot calculate it (SyncFailed: found no controllers for pod agent-1)" in reasons(pod(), failed)


def test_an_unready_pod_may_leave_where_the_budget_says_so() -> None:
    crashing = pod(status={"conditions": [{"type": "Ready", "status": "False"}]})

    assert reasons(crashing, budget(policy="AlwaysAllow")) == ""
    assert "is closed" in reasons(pod(), budget(policy="AlwaysAllow"))
    assert "is closed" in reasons(crashing, budget())


RULE = {"ebbtide.dev/workload": "hub", "ebbtide.dev/category": "fixed"}


def team_budget() -> dict[str, Any]:
    """The budget of a rule, which selects by the team's label."""
    meta = {"namespace": "jupyter", "labels": RULE}
    return budget("hub", meta=meta, selector={"matchLabels": {"app": "hub"}})


@pytest.mark.parametrize(("labels", "rule"), [({"app": "hub", **RULE}, "hub"), ({"app": "hub"}, "hub"), ({}, "")])
def test_a_pod_belongs_to_a_rule_by_its_label_or_by_the_budget_that_covers_it(
    labels: dict[str, str], rule: str
) -> None:
    assert rule_of(pod(namespace="jupyter", labels=labels), [team_budget()]) == rule


def test_pods_of_the_stack_belong_to_no_rule() -> None:
    assert rule_of(pod(), [budget()]) == rule_of(pod(namespace="ebbtide-workers", labels=RULE), []) == ""


def test_a_pod_that_is_older_than_its_rule_is_explained_by_the_budgets_category() -> None:
    older = pod(namespace="jupyter", labels={"app": "hub"})

    assert "fixed workloads are never evicted outside a maintenance" in reasons(older, team_budget())


def test_an_adopted_pod_is_named_with_its_owner_and_its_rule() -> None:
    adopted = pod("hub-1-a", namespace="jupyter", labels={"app": "hub", **RULE})
    owners = {"jupyter/hub-1-a": "Deployment jupyter/hub, rule hub"}
    facts = NodeFacts(now=NOW, node=node(), pods=[adopted, pod()], budgets=[team_budget()], owners=owners)

    assert "  - jupyter/hub-1-a (Deployment jupyter/hub, rule hub) its budget hub is closed: fixed" in text_for(facts)
    assert "    ebbtide/api-1-a may be evicted" in text_for(facts)


def test_a_budget_of_another_namespace_or_workload_does_not_matter() -> None:
    assert reasons(pod(namespace="other"), budget()) == ""
    assert reasons(pod(), budget("web")) == ""


def test_the_autoscalers_flags_decide_what_pins() -> None:
    flags = {"skip-nodes-with-local-storage": "false", "skip-nodes-with-system-pods": "false"}
    pods = [pod(spec=SCRATCH), pod(namespace="kube-system")]

    assert "keeps files" in text_for(NodeFacts(now=NOW, node=node(), pods=pods))
    assert "nothing that is known here keeps it" in text_for(NodeFacts(now=NOW, node=node(), pods=pods, flags=flags))


@pytest.mark.parametrize("kind", ["RayCluster", "StrimziPodSet", "Workflow", "Cluster"])
def test_a_pod_of_a_controller_that_the_autoscaler_does_not_know_pins(kind: str) -> None:
    """Source: the autoscaler's FAQ and its rule `replicated`; the default of the flag is true."""
    owned = pod(meta={"ownerReferences": [{"kind": kind, "name": "one", "controller": True}]})
    facts = NodeFacts(now=NOW, node=node(), pods=[owned], flags={})

    assert f"is a {kind}'s: the autoscaler does not move it" in text_for(facts)
    moved = replace(facts, flags={"skip-nodes-with-custom-controller-pods": "False"})
    assert "nothing that is known here keeps it" in text_for(moved)
    assert "does not move it" not in text_for(replace(facts, node=karpenters_node()))


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job", "ReplicationController"])
def test_a_pod_of_a_controller_that_the_autoscaler_knows_may_move(kind: str) -> None:
    assert reasons(pod(meta={"ownerReferences": [{"kind": kind, "name": "one", "controller": True}]})) == ""


@pytest.mark.parametrize("off", ["false", "False", "0", "f"])
def test_an_autoscaler_that_removes_no_node_says_so(off: str) -> None:
    facts = NodeFacts(now=NOW, node=node(), flags={"scale-down-enabled": off})

    assert "the autoscaler removes no node at all: scale-down-enabled is false" in text_for(facts)


@pytest.mark.parametrize(
    ("delay", "said"),
    [("0", ""), ("45m", "for 45 min"), ("0.75h", "for 45 min"), ("0h45m0s", "for 45 min"), ("2700000ms", "for 45 min")],
)
def test_every_notation_of_a_duration_is_read(delay: str, said: str) -> None:
    young = node(age=timedelta(seconds=30))
    text = text_for(NodeFacts(now=NOW, node=young, flags={"scale-down-delay-after-add": delay}))

    assert ("no group may shrink" in text, said in text) == (bool(said), True)


@pytest.mark.parametrize(
    "args",
    [
        ["--scale-down-delay-after-add=7m", "--scale-down-delay-type-local=true"],
        ["--scale-down-delay-after-add", "7m", "--scale-down-delay-type-local"],
        [
            "/bin/sh",
            "-c",
            "exec ./cluster-autoscaler --scale-down-delay-after-add=7m --scale-down-delay-type-local=True",
        ],
    ],
    ids=["one word", "two words", "in a shell"],
)
def test_flags_are_read_in_every_form(args: list[str]) -> None:
    facts = node_facts(Nodes(args, {"ebbtide.dev/node-group": "b"}), "node-1", "ebbtide")  # pyright: ignore[reportArgumentType] - answers as the API does

    said = text_for(replace(facts, now=NOW, node=node(age=timedelta(minutes=5))))

    assert "its group may not shrink for 7 min after" in said


def test_the_status_of_a_group_is_not_that_of_one_whose_name_only_begins_alike() -> None:
    other = STATUS.replace("eks-flexible-", "eks-flexible-a100-")

    assert "at its minimum" not in text_for(NodeFacts(now=NOW, node=node(), autoscaler_status=other))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"node": node(annotations={PREFIX + "scale-down-disabled": "true"})}, "scale-down-disabled: true"),
        ({"node": node("fixed")}, "it is a fixed node"),
        ({"node": node(), "pods": [pod(cpu="12")]}, "its pods request 75% of it, and from 65% on"),
        (
            {"node": node(age=timedelta(minutes=2))},
            "it is 2 min old, and no group may shrink for 10 min by default after one grew",
        ),
        (
            {"node": node(), "autoscaler_status": STATUS},
            "its group eks-flexible-9ac1b2c3-6b0d-4c57-9f5e-0a4d8c7b6e21 is at its minimum of 1",
        ),
        (
            {"node": node("gpu", taints=[{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1795186740"}])},
            "has found it unneeded for 1 min and removes it after 3 min",
        ),
    ],
)
def test_the_node_itself_may_be_the_cause(facts: dict[str, Any], said: str) -> None:
    assert said in text_for(NodeFacts(now=NOW, **facts))


LOCAL = {"scale-down-delay-type-local": "true", "scale-down-delay-after-add": "3m0s"}


def named(name: str, **changes: Any) -> dict[str, Any]:
    other = node(**changes)
    return {**other, "metadata": {**other["metadata"], "name": name}}


def test_an_old_node_stays_while_the_youngest_of_its_group_is_young() -> None:
    young, older = named("node-9", age=timedelta(minutes=2)), named("node-8", age=timedelta(minutes=9))
    facts = NodeFacts(now=NOW, node=node(), flags=LOCAL, growth=[node(), older, young])

    said = explain_node(facts)

    assert said[0] == "node-1 (flexible) is still here, though no pod pins it:"
    assert said[1] == (
        "  - node-9, the youngest node of its group, is 2 min old, and its group may not shrink for 3 min after it grew"
    )
    assert "nothing that is known here keeps it" in explain_node(replace(facts, growth=[node(), older]))[0]


def test_without_a_delay_for_each_group_any_new_node_of_the_cluster_counts() -> None:
    young = named("node-9", kind="gpu", age=timedelta(minutes=2))

    said = text_for(NodeFacts(now=NOW, node=node(), flags={}, growth=[node(), young]))

    assert (
        "node-9, the youngest node of the autoscaler, is 2 min old, and no group may shrink for 10 min after one grew"
        in said
    )


@pytest.mark.parametrize(("flags", "who"), [(LOCAL, "its group is growing now"), ({}, "a group is growing now")])
def test_growth_counts_before_its_node_is_there(flags: dict[str, str], who: str) -> None:
    growing = STATUS.replace("scaleDown: { status: CandidatesPresent }", "scaleUp: { status: InProgress }")
    growing = growing.replace("scaleDown: { status: CandidatesPresent,", "scaleUp: { status: InProgress,")

    assert who in text_for(NodeFacts(now=NOW, node=node(), flags=flags, autoscaler_status=growing))
    assert who not in text_for(NodeFacts(now=NOW, node=node(), flags=flags, autoscaler_status=STATUS))


def test_an_unready_node_waits_for_the_time_of_unready_nodes() -> None:
    unready = node(taints=[{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1795186740"}])
    unready["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]

    assert "removes it after 20 min, since it is not ready" in text_for(NodeFacts(now=NOW, node=unready))


def test_a_node_that_nothing_keeps_still_has_to_be_unneeded_for_a_while() -> None:
    flags = {**LOCAL, "unremovable-node-recheck-timeout": "1m0s"}

    assert explain_node(NodeFacts(now=NOW, node=node(), flags=flags)) == [
        (
            "node-1 (flexible): nothing that is known here keeps it; the autoscaler removes it when it has found it "
            "unneeded for 1 min, and waits 1 min before it rechecks a node that it could not remove."
        ),
        "not known: whether a removal in its group failed less than 3 min ago",
    ]


def test_a_delay_after_removals_is_named_where_the_autoscaler_has_one() -> None:
    flags = {"scale-down-delay-after-delete": "10m", "scale-down-delay-after-failure": "5m"}

    assert "a group failed less than 5 min ago, or one succeeded less than 10 min ago" in text_for(
        NodeFacts(now=NOW, node=node(), flags=flags)
    )


def test_a_node_with_gpus_has_a_threshold_of_its_own() -> None:
    gpus = node("other", allocatable={"cpu": "8", "memory": "30Gi", "nvidia.com/gpu": "4"})
    half = pod(extra={"nvidia.com/gpu": "2"})

    assert "from 40% on" in text_for(
        NodeFacts(now=NOW, node=gpus, pods=[half], flags={"scale-down-gpu-utilization-threshold": "0.4"})
    )
    assert "from 40% on" not in text_for(
        NodeFacts(
            now=NOW, node=node("other"), pods=[pod(cpu="15")], flags={"scale-down-gpu-utilization-threshold": "0.4"}
        )
    )


def test_a_spot_node_with_gpus_has_the_options_of_gpu_nodes() -> None:
    """Without them the autoscaler's defaults would apply: half of the GPUs, and ten minutes."""
    unneeded = [{"key": "DeletionCandidateOfClusterAutoscaler", "value": "1795186740"}]
    spot = node("spot", allocatable={"cpu": "8", "memory": "30Gi", "nvidia.com/gpu": "4"}, taints=unneeded)
    three = pod(extra={"nvidia.com/gpu": "3"})

    assert "removes it after 3 min" in text_for(NodeFacts(now=NOW, node=spot))
    assert "request 75% of it, and from 65% on" in text_for(NodeFacts(now=NOW, node=spot, pods=[three]))


class Nodes:
    """An API server with the nodes of two groups and the autoscaler's flags."""

    def __init__(self, flags: Sequence[str], labels: dict[str, str]) -> None:
        self.flags, self.labels, self.asked = flags, labels, list[str]()

    def get(self, path: str, **query: str) -> dict[str, Any]:
        if path == "/api/v1/nodes":
            self.asked.append(query.get("labelSelector", ""))
            return {"items": [node(), karpenters_node(age=timedelta(minutes=1))]}
        if path == "/api/v1/nodes/node-1":
            plain = node()
            return {**plain, "metadata": {**plain["metadata"], "labels": self.labels}}
        if path.endswith("deployments/cluster-autoscaler"):
            return {"spec": {"template": {"spec": {"containers": [{"args": [*self.flags]}]}}}}
        if path.endswith(("/pods", "/poddisruptionbudgets")):
            return {"items": []}
        raise ApiError(404, "not found")


@pytest.mark.parametrize(
    ("flags", "labels", "selector"),
    [
        (
            ["--scale-down-delay-type-local=true"],
            {"eks.amazonaws.com/nodegroup": "a", "ebbtide.dev/node-group": "b"},
            0,
        ),
        (["--scale-down-delay-type-local"], {"ebbtide.dev/node-group": "b"}, 1),
        (["--scale-down-delay-type-local=true"], {}, None),
        ([], {"eks.amazonaws.com/nodegroup": "a"}, 2),
    ],
    ids=["EKS' group", "Ebbtide's group", "no group", "all groups"],
)
def test_the_nodes_that_are_read_are_those_whose_growth_delays_this_one(
    flags: list[str], labels: dict[str, str], selector: int | None
) -> None:
    api = Nodes(flags, labels)

    facts = node_facts(api, "node-1", "ebbtide")  # pyright: ignore[reportArgumentType] - answers as the API does

    expected = ["eks.amazonaws.com/nodegroup=a", "ebbtide.dev/node-group=b", ""]
    assert api.asked == ([] if selector is None else [expected[selector]])
    assert len(facts.growth) == (0 if selector is None else 1), "nodes of Karpenter delay nothing"


def test_a_node_to_be_removed_is_shown_as_such() -> None:
    going = node(taints=[{"key": "ToBeDeletedByClusterAutoscaler", "value": "1"}])

    assert "is being removed" in explain_node(NodeFacts(now=NOW, node=going, pods=[pod(spec=SCRATCH)]))[0]


def test_the_autoscalers_own_words_come_last() -> None:
    lines = explain_node(NodeFacts(now=NOW, node=node(), autoscaler_status=STATUS, unread=["its flags: forbidden"]))

    assert "of group eks-flexible-9ac1b2c3-6b0d-4c57-9f5e-0a4d8c7b6e21: CandidatesPresent, 1 candidates" in lines[-2]
    assert lines[-1] == "not known: its flags: forbidden"
    assert "the autoscaler says: Cluster-wide: Health" in text_for(
        NodeFacts(now=NOW, node=node(), autoscaler_status="Cluster-wide:\n  Health: Healthy: yes\n - x")
    )


def test_only_gpus_count_on_a_node_that_has_them() -> None:
    gpu_node = node("gpu", allocatable={"cpu": "8", "memory": "30Gi", "nvidia.com/gpu": "4"})

    assert utilisation(gpu_node, [pod(cpu="8", extra={"nvidia.com/gpu": "1"})], daemons_count=True) == 0.25


def test_daemons_count_only_where_the_autoscaler_counts_them() -> None:
    daemon = pod(cpu="8", meta={"ownerReferences": DAEMON})

    assert utilisation(node(), [daemon], daemons_count=True) == 0.5
    assert utilisation(node(), [daemon], daemons_count=False) == 0.0


def test_a_pods_share_of_a_node_includes_its_sidecars_and_its_overhead() -> None:
    sidecar = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    meshed = pod(cpu="4", spec={"initContainers": [sidecar], "overhead": {"cpu": "2"}})

    assert utilisation(node(), [meshed], daemons_count=True) == 0.5


@pytest.mark.parametrize(
    ("text", "number"), [("2e9", 2 * 10**9), ("250u", Decimal("0.00025")), ("1Pi", 2**50), ("", 0)]
)
def test_every_notation_of_a_quantity_is_read(text: str, number: object) -> None:
    assert quantity(text) == number


@given(st.integers(0, 10**6))
def test_a_quantity_means_the_same_in_any_unit(amount: int) -> None:
    assert quantity(f"{amount}") * 1000 == quantity(f"{amount}k")
    assert quantity(f"{amount * 1000}m") == amount
    assert quantity(f"{amount}Gi") == quantity(f"{amount * 1024}Mi")


CLOSED_POOL = {
    "metadata": {"name": "flexible"},
    "spec": {"limits": {"nodes": "20"}, "disruption": {"budgets": [*budgets_for(0)]}},
    "status": {"resources": {"nodes": "3"}},
}


def karpenters_node(**changes: Any) -> dict[str, Any]:
    plain = node(**changes)
    labels = {**plain["metadata"]["labels"], "karpenter.sh/nodepool": "flexible"}
    return {**plain, "metadata": {**plain["metadata"], "labels": labels}}


def test_a_node_of_karpenter_is_judged_by_karpenters_rules() -> None:
    """Files on the node, kube-system and requests keep no node of Karpenter; its annotation does."""
    system = pod(namespace="kube-system", spec=SCRATCH, cpu="15", meta={"ownerReferences": []})
    pinned = pod("api-1-b", annotations={"karpenter.sh/do-not-disrupt": "true"})
    open_pool = {**CLOSED_POOL, "spec": {"disruption": {"budgets": [*budgets_for(5)]}}}

    free = text_for(NodeFacts(now=NOW, node=karpenters_node(), pods=[system], node_pool=open_pool))
    kept = text_for(NodeFacts(now=NOW, node=karpenters_node(), pods=[system, pinned], node_pool=open_pool))

    assert free.startswith("node-1 (flexible, by Karpenter): nothing that is known here keeps it")
    assert "1 pod pins it" in kept
    assert "api-1-b carries karpenter.sh/do-not-disrupt: true" in kept


KARPENTER = Rules(karpenter=True, now=NOW)
KEPT = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
DAEMONS_BUDGET = budget(selector={"matchLabels": {"ebbtide.dev/workload": "api"}})


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        (pod(meta={"ownerReferences": DAEMON, **KEPT}), "carries karpenter.sh/do-not-disrupt: true"),
        (pod(meta={"ownerReferences": DAEMON}), "its budget api is closed"),
        (pod(meta={"ownerReferences": DAEMON}, spec={"tolerations": [{"operator": "Exists"}]}), ""),
        (pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}), ""),
        (pod(status={"phase": "Succeeded"}, meta=KEPT), ""),
    ],
    ids=["annotated", "under a budget", "that Karpenter leaves alone", "mirror", "ended"],
)
def test_pods_of_a_daemon_set_pin_a_node_of_karpenter(subject: dict[str, Any], said: str) -> None:
    """Source: Karpenter 1.14, `ValidatePodsDisruptable` and `IsEvictable`."""
    assert reasons(subject, DAEMONS_BUDGET, rules=KARPENTER).startswith(said)
    assert bool(reasons(subject, DAEMONS_BUDGET, rules=KARPENTER)) is bool(said)
    assert reasons(subject, DAEMONS_BUDGET) == ""


@pytest.mark.parametrize("karpenter", [False, True])
def test_only_karpenter_leaves_a_pod_alone_that_tolerates_everything(karpenter: bool) -> None:
    subject = pod(spec={"tolerations": [{"operator": "Exists"}]})

    assert ("its budget api is closed" in reasons(subject, budget(), rules=Rules(karpenter=karpenter))) is not karpenter


@pytest.mark.parametrize(("value", "pins"), [("2h", True), ("30m", False), ("true", True), ("false", False)])
def test_an_annotation_with_a_duration_counts_from_the_pods_start(value: str, pins: bool) -> None:
    started = {"startTime": "2026-11-20T14:00:00Z"}  # an hour ago

    subject = pod(annotations={"karpenter.sh/do-not-disrupt": value}, status=started)

    assert bool(reasons(subject, rules=KARPENTER)) is pins


@pytest.mark.parametrize(
    ("disruption", "busy", "empty"),
    [
        ({"consolidationPolicy": "WhenEmpty"}, "its NodePool removes only empty nodes", ""),
        ({"consolidateAfter": "Never"}, "consolidateAfter is Never", "consolidateAfter is Never"),
        ({"budgets": [{"nodes": "0"}]}, "its NodePool lets no node go now", "its NodePool lets no node go now"),
    ],
)
def test_a_node_pool_that_removes_fewer_nodes_says_which(disruption: dict[str, Any], busy: str, empty: str) -> None:
    facts = NodeFacts(now=NOW, node=karpenters_node(), node_pool={**CLOSED_POOL, "spec": {"disruption": disruption}})

    assert busy in text_for(replace(facts, pods=[pod()]))
    assert (empty or "nothing that is known here keeps it") in text_for(facts)


def test_a_closed_node_pool_keeps_nodes_with_pods_and_is_shown_with_its_nodes() -> None:
    daemon = pod(meta={"ownerReferences": DAEMON})
    busy = text_for(NodeFacts(now=NOW, node=karpenters_node(), pods=[pod()], node_pool=CLOSED_POOL))
    empty = text_for(NodeFacts(now=NOW, node=karpenters_node(), pods=[daemon], node_pool=CLOSED_POOL))

    assert "its NodePool lets only empty nodes go now" in busy
    assert "only empty nodes" not in empty
    assert "NodePool flexible: 3 of 20 nodes; budgets in force: Underutilized, Drifted 0; Empty 100%" in busy


def test_a_node_that_karpenter_removes_says_so() -> None:
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]

    assert "is being removed by Karpenter now" in text_for(NodeFacts(now=NOW, node=karpenters_node(taints=taints)))
