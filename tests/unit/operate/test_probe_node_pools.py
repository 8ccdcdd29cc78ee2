"""What `ebbtide probe` reports on NodePools that get business hours."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.operate.probe.wants import Wants, wants_of
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.node_pools import CLOSED
from tests.builders.settings import loaded, shortest
from tests.unit.operate.test_probe import GROUPS, CannedCluster, findings, groups, wants

POOL = "/apis/karpenter.sh/v1/nodepools/general"
DEPLOYMENTS = "/apis/apps/v1/deployments"
DENIED = 403


def asked(tmp_path: Path) -> Wants:
    return wants(tmp_path, "nodePools: { flexible: [general] }")


def node_pool(manager: str = "kubectl", how: str = "Update", **changes: Any) -> dict[str, Any]:
    fields: Any = {"f:spec": {"f:disruption": {"f:budgets": {}}}}
    managed = [{"manager": manager, "operation": how, "fieldsV1": fields}]
    node = {"expireAfter": "Never", **changes.pop("node", {})}
    disruption = {"budgets": [{"nodes": "10%"}], "consolidateAfter": "1m", **changes}
    spec = {"template": {"spec": node}, "disruption": disruption}
    return {"metadata": {"name": "general", "resourceVersion": "1", "managedFields": managed}, "spec": spec}


def karpenter(version: str, policy: str | None = "Ignore") -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/version": version}
    env = [] if policy is None else [{"name": "PREFERENCE_POLICY", "value": policy}]
    spec = {"template": {"spec": {"containers": [{"name": "controller", "env": env}]}}}
    return {"items": [{"metadata": {"name": "karpenter", "labels": labels}, "spec": spec}]}


def said(
    tmp_path: Path, pool: Any = None, version: str = "1.14.1", *, api: bool = True, policy: str | None = "Ignore"
) -> dict[str, str]:
    served = groups(*GROUPS, *(["karpenter.sh/v1"] if api else []))
    answers = {"/apis": served, POOL: pool or node_pool(), DEPLOYMENTS: karpenter(version, policy)}
    return findings(CannedCluster(answers), asked(tmp_path))


def test_a_sound_node_pool_is_one_line(tmp_path: Path) -> None:
    lines = said(tmp_path)

    assert lines["karpenter"] == "ok: 1.14"
    assert [what for what in lines if what.startswith("nodepool")] == ["nodepool general"]
    assert said(tmp_path, node_pool(WORKLOADS, "Apply", budgets=CLOSED))["nodepool general"].startswith("ok")


def test_a_cluster_without_karpenter_lacks_it_once(tmp_path: Path) -> None:
    lines = said(tmp_path, api=False)

    assert lines["karpenter"].startswith("missing: no karpenter.sh/v1")
    assert not [what for what in lines if what.startswith("nodepool")]


def test_a_stack_without_node_pools_says_nothing(tmp_path: Path) -> None:
    assert not {"karpenter", "nodepool general"} & set(findings(CannedCluster(), wants(tmp_path)))


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.12.3", "missing: 1.12; upgrade to 1.13"),
        ("v1.15.0", "note: 1.15; Ebbtide is tested up to 1.14"),
        ("", "note"),
    ],
)
def test_another_release_is_named(tmp_path: Path, version: str, words: str) -> None:
    assert said(tmp_path, version=version)["karpenter"].startswith(words)


@pytest.mark.parametrize(("answer", "words"), [(404, "missing: not there"), (DENIED, "note: cannot be read")])
def test_a_node_pool_that_cannot_be_read_is_named(tmp_path: Path, answer: int, words: str) -> None:
    line = said(tmp_path, answer)["nodepool general"]

    assert line.startswith(words)
    assert answer == DENIED or "cluster.nodePools.flexible" in line


@pytest.mark.parametrize(
    ("pool", "what", "words"),
    [
        (node_pool("flux", "Apply"), "budgets", ("missing: flux manages", "remove these lines")),
        (node_pool("helm", budgets=[{"nodes": "0"}]), "budgets", ("missing: helm manages", '[{"nodes": "0"}]')),
        (node_pool(node={"expireAfter": "720h"}), "expireAfter", ("missing: wanted Never", "720h")),
        (node_pool(node={"terminationGracePeriod": "1h"}), "terminationGracePeriod", ("missing: wanted none", "1h")),
        (
            node_pool(node={"expireAfter": "336h", "nodeClassRef": {"group": "eks.amazonaws.com"}}),
            "expireAfter",
            ("note: wanted Never", "Auto Mode"),
        ),
        (node_pool(consolidateAfter="Never"), "consolidateAfter", ("note: Never",)),
        (node_pool(consolidationPolicy="WhenEmpty"), "consolidationPolicy", ("note: WhenEmpty",)),
    ],
)
def test_each_setting_that_contradicts_business_hours_is_one_line(
    tmp_path: Path, pool: dict[str, Any], what: str, words: tuple[str, ...]
) -> None:
    lines = {subject: line for subject, line in said(tmp_path, pool).items() if subject.startswith("nodepool")}

    assert [*lines] == [f"nodepool general {what}"]
    assert all(word in lines[f"nodepool general {what}"] for word in words)


@pytest.mark.parametrize(("policy", "found"), [(None, "none, which means Respect"), ("Respect", "found Respect")])
def test_preferences_that_hold_nodes_apart_are_named(tmp_path: Path, policy: str | None, found: str) -> None:
    line = said(tmp_path, policy=policy)["karpenter preferences"]

    assert line.startswith("note: wanted PREFERENCE_POLICY=Ignore")
    assert found in line
    assert "karpenter preferences" not in said(tmp_path)


def test_limits_below_what_the_pods_may_request_are_named(tmp_path: Path) -> None:
    def limited(cpu: str) -> dict[str, str]:
        pool = node_pool()
        return said(tmp_path, {**pool, "spec": {**pool["spec"], "limits": {"cpu": cpu}}})

    subject = "nodepools general limits"
    assert limited("1")[subject].startswith("note: wanted cpu for ")
    assert "found 1: jobs will wait" in limited("1")[subject]
    assert subject not in limited("1k")


def of_stack(tmp_path: Path, customer: str) -> dict[str, str]:
    """What is said of a stack with its own Karpenter, whose NodePool and EC2NodeClass exist with this label."""
    text = shortest(more="ebbtide:nodeGroups: { flexible: { max: 4, provisioner: karpenter } }")
    named = {"metadata": {"name": "flexible", "labels": {"ebbtide.dev/customer": customer}}}
    answers = {
        "/apis/karpenter.sh/v1/nodepools/flexible": named,
        "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/ebbtide-flexible": named,
    }
    lines = findings(CannedCluster(answers), wants_of(loaded(text, tmp_path), ()))
    return {subject: line for subject, line in lines.items() if "flexible" in subject}


def test_objects_of_others_with_the_names_of_the_stacks_own_are_named(tmp_path: Path) -> None:
    others = of_stack(tmp_path, "somebody")

    assert set(others) == {"nodepool flexible", "ec2nodeclass ebbtide-flexible"}
    assert all("belongs to somebody else; rename the group flexible" in line for line in others.values())
    assert of_stack(tmp_path, loaded(shortest(), tmp_path).customer) == {}
