"""What `ebbtide probe` reports on NodePools that get business hours."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.cluster.karpenter import pools as rendered
from ebbtide.operate.probe.node_templates import architecture_of
from ebbtide.operate.probe.wants import PodWant, Wants, wants_of
from ebbtide.prices import instance_type, instance_type_names
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.node_pools import CLOSED
from tests.builders.settings import loaded, shortest
from tests.unit.operate.test_probe import GROUPS, CannedCluster, findings, groups, wants

POOL = "/apis/karpenter.sh/v1/nodepools/general"
CLASS = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses/workers"
DEPLOYMENTS = "/apis/apps/v1/deployments"
DENIED = 403


def asked(tmp_path: Path) -> Wants:
    return wants(tmp_path, "nodePools: { flexible: [general] }, nodeSelectors: { flexible: { team: ml } }")


def node_pool(manager: str = "kubectl", how: str = "Update", **changes: Any) -> dict[str, Any]:
    fields: Any = {"f:spec": {"f:disruption": {"f:budgets": {}}}}
    managed = [{"manager": manager, "operation": how, "fieldsV1": fields}]
    labels = changes.pop("labels", {"team": "ml"})
    metadata = {"labels": labels, "annotations": changes.pop("annotations", {})}
    node = {"expireAfter": "Never", "requirements": [*REQUIREMENTS.values()], **changes.pop("node", {})}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"conditions": changes.pop("conditions", conditions)}
    more = changes.pop("spec", {})
    disruption = {"budgets": [{"nodes": "10%"}], "consolidateAfter": "1m", **changes}
    spec = {"template": {"metadata": metadata, "spec": node}, "disruption": disruption, **more}
    own = {"name": "general", "resourceVersion": "1", "managedFields": managed}
    return {"metadata": own, "spec": spec, "status": status}


def one_of(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [*values]}


REQUIREMENTS = {
    "arch": one_of("kubernetes.io/arch", "amd64"),
    "capacity": one_of("karpenter.sh/capacity-type", "on-demand"),
    "os": one_of("kubernetes.io/os", "linux"),
    "types": one_of("node.kubernetes.io/instance-type", "m7i.xlarge", "m7i.2xlarge"),
}


def required(**changes: dict[str, Any] | None) -> dict[str, Any]:
    """A NodePool with other requirements; None removes one."""
    rows = (REQUIREMENTS | changes).values()
    return node_pool(node={"requirements": [row for row in rows if row is not None]})


def karpenter(version: str, policy: str | None = "Ignore") -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/version": version}
    env = [] if policy is None else [{"name": "PREFERENCE_POLICY", "value": policy}]
    spec = {"template": {"spec": {"containers": [{"name": "controller", "env": env}]}}}
    return {"items": [{"metadata": {"name": "karpenter", "labels": labels}, "spec": spec}]}


def said(
    tmp_path: Path,
    pool: Any = None,
    version: str = "1.14.1",
    *,
    api: bool = True,
    policy: str | None = "Ignore",
    of_class: Any = None,
) -> dict[str, str]:
    served = groups(*GROUPS, *(["karpenter.sh/v1"] if api else []))
    answers = {"/apis": served, POOL: pool or node_pool(), DEPLOYMENTS: karpenter(version, policy)}
    answers |= {CLASS: of_class} if of_class is not None else {}
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


DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pool", "what", "words"),
    [
        (
            node_pool(annotations={"karpenter.sh/do-not-disrupt": "true"}),
            "karpenter.sh/do-not-disrupt",
            ("note: true",),
        ),
        (node_pool(labels={}), "label team", ("missing: wanted ml", "found none", "write team: ml into")),
        (node_pool(labels={"team": "web"}), "label team", ("missing: wanted ml", "found web")),
        (
            required(team=one_of("team", "web", "ops")) | {"metadata": node_pool()["metadata"]},
            "",
            ("ok: ",),  # the label of the template stands beside the requirement
        ),
        (
            node_pool(node={"taints": [DEDICATED]}),
            "taint dedicated",
            ("missing: wanted only taints", "dedicated=ml:NoSchedule"),
        ),
        (node_pool(node={"taints": [{**DEDICATED, "effect": "NoExecute"}]}), "taint dedicated", ("NoExecute",)),
        (node_pool(node={"taints": [{**DEDICATED, "effect": "PreferNoSchedule"}]}), "", ("ok: ",)),
        (node_pool(node={"startupTaints": [DEDICATED]}), "startupTaint dedicated", ("note: a node accepts no pod",)),
        (
            required(arch=None, types=None),
            "kubernetes.io/arch",
            ("note: wanted one, found amd64 and arm64", "In [amd64]"),
        ),
        (
            required(arch=one_of("kubernetes.io/arch", "amd64", "arm64"), types=None),
            "kubernetes.io/arch",
            ("found amd64 and arm64",),
        ),
        (required(arch=None), "", ("ok: ",)),  # the listed types have one processor
        (required(arch=None, types=one_of("node.kubernetes.io/instance-type", "m99i.xlarge")), "", ("ok: ",)),
        (required(arch=None, types=one_of("karpenter.k8s.aws/instance-family", "m5", "g4dn", "c7i")), "", ("ok: ",)),
        (required(arch=None, types=one_of("eks.amazonaws.com/instance-family", "m7g", "im4gn")), "", ("ok: ",)),
        (
            required(arch=None, types=one_of("karpenter.k8s.aws/instance-family", "m5", "m7g")),
            "kubernetes.io/arch",
            ("found amd64 and arm64",),
        ),
        (
            required(arch=None, types=one_of("karpenter.k8s.aws/instance-cpu-manufacturer", "intel", "amd")),
            "",
            ("ok: ",),
        ),
        (
            required(
                arch=None,
                types={"key": "karpenter.k8s.aws/instance-cpu-manufacturer", "operator": "NotIn", "values": ["aws"]},
            ),
            "",
            ("ok: ",),
        ),
        (
            node_pool(node={"startupTaints": [{"key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute"}]}),
            "",
            ("ok: ",),
        ),
        (
            node_pool(node={"startupTaints": [{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}]}),
            "",
            ("ok: ",),
        ),
        (
            required(types={"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["2"]}),
            "karpenter.k8s.aws/instance-cpu",
            ("missing: wanted at least 4 for train, found at most 1", "cluster.nodePools.flexible"),
        ),
        (required(types=one_of("karpenter.k8s.aws/instance-cpu", "2", "16")), "", ("ok: ",)),
        (required(types={"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["1"]}), "", ("ok: ",)),
        (
            required(types=one_of("eks.amazonaws.com/instance-memory", "2048", "4096")),
            "eks.amazonaws.com/instance-memory",
            ("missing: wanted at least", "found at most 4096"),
        ),
        (required(types={"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}), "", ("ok: ",)),
        (required(os=one_of("kubernetes.io/os", "windows")), "kubernetes.io/os", ("missing: wanted linux",)),
        (
            required(capacity=one_of("karpenter.sh/capacity-type", "spot", "on-demand")),
            "karpenter.sh/capacity-type",
            ("missing: wanted on-demand, found spot, on-demand", "the jobs on it end"),
        ),
        (required(capacity=None), "karpenter.sh/capacity-type", ("found no requirement",)),
        (
            required(capacity={"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}),
            "",
            ("ok: ",),
        ),
        (
            required(types=one_of("node.kubernetes.io/instance-type", "m7i.large")),
            "node.kubernetes.io/instance-type",
            ("missing: wanted a type with", "found m7i.large"),
        ),
        (
            required(types={**REQUIREMENTS["types"], "minValues": 3}),
            "minValues node.kubernetes.io/instance-type",
            ("missing: 3 of 2 listed",),
        ),
        (
            required(types={**REQUIREMENTS["types"], "minValues": 2}),
            "minValues node.kubernetes.io/instance-type",
            ("note: 2: Karpenter launches no node",),
        ),
        (node_pool(spec={"replicas": 3}), "replicas", ("missing: wanted none, found 3",)),
        (node_pool(spec={"limits": {"nodes": "50"}}), "limits.nodes", ("note: 50 without limits.cpu",)),
        (
            node_pool(conditions=[{"type": "Ready", "status": "False", "message": "NodeClass is not ready"}]),
            "Ready",
            ("missing: NodeClass is not ready: Karpenter launches no node",),
        ),
        (node_pool(consolidationPolicy="Balanced"), "consolidationPolicy", ("note: Balanced",)),
    ],
)
def test_each_field_whose_nodes_do_not_suit_the_pods_is_one_line(
    tmp_path: Path, pool: dict[str, Any], what: str, words: tuple[str, ...]
) -> None:
    lines = {subject: line for subject, line in said(tmp_path, pool).items() if subject.startswith("nodepool")}

    subject = f"nodepool general {what}".strip()
    assert [*lines] == [subject]
    assert all(word in lines[subject] for word in words), lines[subject]


def test_a_node_pool_that_is_being_deleted_is_named(tmp_path: Path) -> None:
    pool = node_pool()
    pool["metadata"]["deletionTimestamp"] = "2026-11-29T10:00:00Z"

    assert said(tmp_path, pool)["nodepool general"].startswith("missing: is being deleted")


def test_a_limit_of_nodes_counts_as_the_largest_types_that_are_listed(tmp_path: Path) -> None:
    def limited(nodes: str) -> dict[str, str]:
        return said(tmp_path, node_pool(spec={"limits": {"nodes": nodes, "cpu": "1k"}}))

    assert "found 0: jobs will wait" in limited("0")["nodepools general limits"]
    assert "nodepools general limits" not in limited("100")


SOUND_CLASS: dict[str, Any] = {
    "amiSelectorTerms": [{"alias": "al2023@v20260903"}],
    "role": "nodes",
    "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
    "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi", "encrypted": True}}],
    "kubelet": {"maxPods": 110},
}
OF_CLASS = {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "workers"}}


def with_class(tmp_path: Path, of_class: Any) -> dict[str, str]:
    lines = said(tmp_path, node_pool(node={**OF_CLASS}), of_class=of_class)
    return {subject: line for subject, line in lines.items() if "general" in subject or "workers" in subject}


def test_a_sound_node_pool_with_a_sound_class_is_one_line(tmp_path: Path) -> None:
    lines = with_class(tmp_path, {"spec": SOUND_CLASS})

    assert [*lines] == ["nodepool general"]
    assert lines["nodepool general"] == "ok: its budgets are free for Ebbtide, and its nodes suit flexible"


@pytest.mark.parametrize(
    ("answer", "words"), [(404, "missing: not there, so Karpenter"), (DENIED, "note: cannot be read")]
)
def test_a_class_that_cannot_be_read_is_named(tmp_path: Path, answer: int, words: str) -> None:
    lines = with_class(tmp_path, answer)

    assert [*lines] == ["ec2nodeclass workers"]
    assert lines["ec2nodeclass workers"].startswith(words)


def test_what_the_stack_would_create_itself_has_no_finding(tmp_path: Path) -> None:
    own = "{ flexible: { max: 4, provisioner: karpenter, instanceTypes: [m7i.2xlarge, m7i.4xlarge] } }"
    group = loaded(shortest(more=f"ebbtide:nodeGroups: {own}"), tmp_path).node_groups["flexible"]
    spec = rendered.node_pool("flexible", group, weight=1, zones=["a"], region="us-east-1")
    spec["template"]["spec"]["nodeClassRef"] = OF_CLASS["nodeClassRef"]
    answers = {
        "/apis": groups(*GROUPS, "karpenter.sh/v1"),
        POOL: {**node_pool(WORKLOADS, "Apply", budgets=CLOSED), "spec": spec},
        CLASS: {"spec": rendered.node_class("flexible", group, tags={})},
        DEPLOYMENTS: karpenter("1.14.1"),
    }
    selector = "nodePools: { flexible: [general] }, nodeSelectors: { flexible: { ebbtide.dev/node-group: flexible } }"

    lines = findings(CannedCluster(answers), wants(tmp_path, selector))

    mine = {subject: line for subject, line in lines.items() if "general" in subject or "workers" in subject}
    assert mine == {"nodepool general": "ok: its budgets are free for Ebbtide, and its nodes suit flexible"}


def disk(**changes: bool) -> list[dict[str, Any]]:
    return [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi", **changes}}]


@pytest.mark.parametrize(
    ("changes", "what", "words"),
    [
        ({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, "amiSelectorTerms", ("note: al2023@latest", "drift")),
        ({"amiSelectorTerms": [{"alias": "windows2022@latest"}]}, "amiSelectorTerms", ("missing: wanted Linux",)),
        (
            {"kubelet": {"evictionSoft": {"memory.available": "5%"}}},
            "kubelet.evictionSoft",
            ("note: memory.available 5%",),
        ),
        ({"metadataOptions": {"httpPutResponseHopLimit": 2}}, "metadataOptions", ("found required and 2",)),
        ({"metadataOptions": {"httpTokens": "optional"}}, "metadataOptions", ("found optional and 1",)),
        (
            {"blockDeviceMappings": disk(deleteOnTermination=False)},
            "blockDeviceMappings /dev/xvda",
            ("note: deleteOnTermination: false", "is paid for"),
        ),
        ({"blockDeviceMappings": disk(encrypted=False)}, "blockDeviceMappings /dev/xvda encrypted", ("note: false",)),
        ({"associatePublicIPAddress": True}, "associatePublicIPAddress", ("note: true",)),
    ],
)
def test_each_field_of_a_class_that_costs_or_endangers_is_one_line(
    tmp_path: Path, changes: dict[str, Any], what: str, words: tuple[str, ...]
) -> None:
    lines = with_class(tmp_path, {"spec": SOUND_CLASS | changes})

    assert [*lines] == [f"ec2nodeclass workers {what}"]
    assert all(word in lines[f"ec2nodeclass workers {what}"] for word in words)


def test_what_aws_did_not_resolve_and_a_capacity_block_are_named(tmp_path: Path) -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "False", "message": "SubnetsReady=False, no subnet matches"}],
        "capacityReservations": [{"reservationType": "capacity-block", "endTime": "2026-12-24T12:00:00Z"}],
    }

    lines = with_class(tmp_path, {"spec": SOUND_CLASS, "status": status})

    assert lines["ec2nodeclass workers Ready"].startswith("missing: SubnetsReady=False, no subnet matches")
    assert "ends at 2026-12-24T12:00:00Z" in lines["ec2nodeclass workers capacityReservationSelectorTerms"]
    assert len(lines) == 2


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


@pytest.mark.parametrize(("count", "named"), [(3, "a, b, c get no node"), (4, "a, b, c and others get no node")])
def test_three_pods_that_a_taint_keeps_off_are_named(count: int, named: str, tmp_path: Path) -> None:
    pool = node_pool(node={"taints": [DEDICATED]})
    answers = {"/apis": groups(*GROUPS, "karpenter.sh/v1"), POOL: pool, DEPLOYMENTS: karpenter("1.14.1")}
    pods = tuple(PodWant(name, 0, 0, 0) for name in "abcd"[:count])

    lines = findings(CannedCluster(answers), replace(asked(tmp_path), pods={"flexible": pods}))

    assert named in lines["nodepool general taint dedicated"]


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


SECOND = "/apis/karpenter.sh/v1/nodepools/second"


def of_two(tmp_path: Path, second: Any, first: Any = None) -> dict[str, str]:
    """What is said of two NodePools of one set."""
    served = groups(*GROUPS, "karpenter.sh/v1")
    answers = {"/apis": served, POOL: first or node_pool(), SECOND: second, DEPLOYMENTS: karpenter("1.14.1")}
    cluster = "nodePools: { flexible: [general, second] }, nodeSelectors: { flexible: { team: ml } }"
    lines = findings(CannedCluster(answers), wants(tmp_path, cluster))
    return {subject: line for subject, line in lines.items() if subject.startswith("nodepool")}


@pytest.mark.parametrize(
    "second",
    [
        required(types=one_of("node.kubernetes.io/instance-type", "m7i.large")),
        node_pool(node={"taints": [DEDICATED]}),
    ],
)
def test_a_pod_needs_one_node_pool_of_its_set(tmp_path: Path, second: dict[str, Any]) -> None:
    """A NodePool that takes no pod at all is still named, and so is each that a pod depends on."""
    small = required(types=one_of("node.kubernetes.io/instance-type", "m7i.large"))
    lines = of_two(tmp_path, second)

    assert [line[:7] for line in lines.values()] == ["ok: its", "missing"]
    assert [line[:7] for line in of_two(tmp_path, second, small).values()] == ["missing", "missing"]


def test_a_pod_that_another_node_pool_of_its_set_takes_is_not_missed_here(tmp_path: Path) -> None:
    pods = (
        PodWant("small", 500, 1024, 0),
        PodWant("large", 14_000, 50_000, 0, arch="amd64"),
        PodWant("arm", 500, 1024, 0, arch="arm64"),
    )
    pools = {
        "general": node_pool(),
        "second": required(types=one_of("node.kubernetes.io/instance-type", "m7i.4xlarge")),
        "third": required(arch=one_of("kubernetes.io/arch", "arm64"), types=None),
    }

    def missed(*names: str) -> list[str]:
        answers = {f"/apis/karpenter.sh/v1/nodepools/{name}": pools[name] for name in names}
        answers |= {"/apis": groups(*GROUPS, "karpenter.sh/v1"), DEPLOYMENTS: karpenter("1.14.1")}
        cluster = f"nodePools: {{ flexible: [{', '.join(names)}] }}, nodeSelectors: {{ flexible: {{ team: ml }} }}"
        want = wants(tmp_path, cluster)
        lines = findings(CannedCluster(answers), replace(want, pods={**want.pods, "flexible": pods}))
        return [subject for subject, line in lines.items() if subject.startswith("nodepool") and line[:2] != "ok"]

    assert missed("general", "second", "third") == []
    assert missed("general", "third") == [
        "nodepool general node.kubernetes.io/instance-type",
        "nodepool third kubernetes.io/arch",
    ]
    assert missed("general", "second") == [f"nodepool {name} kubernetes.io/arch" for name in ("general", "second")]


def test_an_image_for_every_processor_may_have_nodes_of_both(tmp_path: Path) -> None:
    want, both = asked(tmp_path), required(arch=one_of("kubernetes.io/arch", "amd64", "arm64"), types=None)
    answers = {"/apis": groups(*GROUPS, "karpenter.sh/v1"), POOL: both, DEPLOYMENTS: karpenter("1.14.1")}

    def line(*pods: PodWant) -> str | None:
        lines = findings(CannedCluster(answers), replace(want, pods={"flexible": pods}))
        return lines.get("nodepool general kubernetes.io/arch")

    assert line(PodWant("web", 0, 0, 0, any_arch=True)) is None
    assert "api has no arch" in (line(PodWant("web", 0, 0, 0, any_arch=True), PodWant("api", 0, 0, 0)) or "")


def test_the_processor_by_the_name_of_a_type_is_that_of_every_type_in_the_catalog() -> None:
    assert {
        kind.name for kind in map(instance_type, instance_type_names()) if architecture_of(kind.name) != kind.arch
    } == set()


@pytest.mark.parametrize(("most_nodes", "full"), [(4, ()), (3, ("flexible",))])
def test_a_group_is_too_small_from_the_first_node_that_it_lacks_on(
    most_nodes: int, full: tuple[str, ...], tmp_path: Path
) -> None:
    # Four workers of 16 GiB, of which a node of 32 GiB holds one beside its system pods.
    text = shortest(more=f"ebbtide:nodeGroups: {{ flexible: {{ max: {most_nodes}, instanceTypes: [m6i.2xlarge] }} }}")

    assert tuple(wants_of(loaded(text, tmp_path), ()).full) == full
