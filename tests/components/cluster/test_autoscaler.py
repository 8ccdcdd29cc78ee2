"""The cluster autoscaler: what it is told, what it may do, where it runs."""

import json
import re
from datetime import timedelta
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from components.aws.node_shape import group_options
from components.cluster.autoscaler import CLUSTER_RULES, NAMESPACE_RULES, cloud_rights
from components.cluster.autoscaler_settings import RELEASES, autoscaler_flags, autoscaler_image
from ebbtide.labels import NodeKind
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS
from ebbtide.settings.sections.workers import grace_seconds
from tests.builders.stack import Recorded, pool_settings, stack_settings


def pod(stack: Recorded) -> dict[str, Any]:
    return stack.named("autoscaler-deployment").inputs["spec"]["template"]


@given(minutes=st.integers(1, 60 * 24 * 14))
def test_a_drain_never_ends_a_worker_before_its_own_grace_does(minutes: int) -> None:
    pool = pool_settings(timedelta(minutes=minutes))
    flags = autoscaler_flags(stack_settings(workers={"train": pool}))

    assert int(flags["max-graceful-termination-sec"]) >= grace_seconds(pool)


def test_what_names_a_port_is_ready_once_it_listens(stack: Recorded) -> None:
    containers = [
        container
        for it in stack.all
        if it.type.endswith((":Deployment", ":StatefulSet"))
        for container in it.inputs["spec"]["template"]["spec"]["containers"]
    ]
    silent = [it["name"] for it in containers if it.get("ports") and not it.get("readinessProbe")]

    assert sum(bool(it.get("ports")) for it in containers) >= 3  # the autoscaler's, the controller's, and of Redis
    assert silent == []


def test_without_pools_pods_keep_the_usual_grace() -> None:
    assert int(autoscaler_flags(stack_settings(workers={}))["max-graceful-termination-sec"]) >= 600


def test_it_finds_the_groups_of_its_own_cluster_only() -> None:
    flags = autoscaler_flags(stack_settings(customer="other"))

    assert flags["node-group-auto-discovery"].endswith(",k8s.io/cluster-autoscaler/other")


def test_a_night_is_not_spent_waiting_for_the_defaults() -> None:
    """Which are 5 and 10 minutes, one node at a time, and one group's growth in the way of all."""
    flags = autoscaler_flags(stack_settings())

    assert minutes(flags["unremovable-node-recheck-timeout"]) < 5
    assert minutes(flags["scale-down-delay-after-add"]) < 10
    assert int(flags["max-drain-parallelism"]) > 1
    assert flags["scale-down-delay-type-local"] == "true"


def minutes(duration: str) -> int:
    match = re.fullmatch(r"(\d+)m0s", duration)
    assert match is not None, f"{duration} is not as Go writes whole minutes"
    return int(match[1])


def test_flexible_nodes_leave_sooner_than_fixed_ones() -> None:
    assert group_options(NodeKind.FIXED) == {}
    for kind in (NodeKind.FLEXIBLE, NodeKind.GPU, NodeKind.SPOT):
        assert float(group_options(kind)["scaledownutilizationthreshold"]) > 0.5
        assert minutes(group_options(kind)["scaledownunneededtime"]) < 10


def test_a_node_is_weighed_by_its_gpus_where_it_has_any() -> None:
    weighed = {kind for kind in NodeKind if "scaledowngpuutilizationthreshold" in group_options(kind)}

    assert weighed == {NodeKind.GPU}


def test_the_image_is_of_the_clusters_minor() -> None:
    assert autoscaler_image("1.35") == "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.2"


def test_every_version_that_the_settings_allow_has_its_own_release_and_no_other_has() -> None:
    assert set(RELEASES) == set(KUBERNETES_VERSIONS)
    assert all(release.startswith(f"v{minor}.") for minor, release in RELEASES.items())


def test_what_changes_something_in_aws_is_bound_to_the_clusters_tags() -> None:
    for statement in cloud_rights("acme")["Statement"]:
        changes = [action for action in statement["Action"] if not action.split(":")[1].startswith(("Describe", "Get"))]
        if changes:
            assert statement["Condition"]["StringEquals"] == {
                "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
                "aws:ResourceTag/k8s.io/cluster-autoscaler/acme": "owned",
            }


def test_it_may_evict_and_taint_but_not_delete_or_rewrite_or_read_secrets() -> None:
    rules = cast("list[dict[str, list[str]]]", CLUSTER_RULES)
    writes = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    }

    assert writes == {
        ("events", "create"),
        ("events", "patch"),
        ("pods/eviction", "create"),
        ("pods/status", "update"),
        ("nodes", "update"),
    }
    assert "secrets" not in json.dumps([*CLUSTER_RULES, *NAMESPACE_RULES])
    assert "*" not in json.dumps([*CLUSTER_RULES, *NAMESPACE_RULES])


def test_it_runs_on_fixed_nodes_and_does_not_move_itself(stack: Recorded) -> None:
    template = pod(stack)

    assert template["spec"]["nodeSelector"] == {"ebbtide.dev/node-kind": "fixed"}
    assert template["metadata"]["annotations"] == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    assert stack.named("autoscaler-budget").inputs["spec"]["selector"]["matchLabels"].items() <= (
        template["metadata"]["labels"].items()
    )


def test_its_rights_are_in_force_before_it_starts(stack: Recorded) -> None:
    before = stack.before(stack.named("autoscaler-deployment"))

    assert {"autoscaler-rights", "autoscaler-identity", "autoscaler-account", "autoscaler-cluster-role"} <= before


def test_its_flags_are_its_command_line(stack: Recorded) -> None:
    (container,) = pod(stack)["spec"]["containers"]

    assert container["args"] == [f"--{flag}={value}" for flag, value in autoscaler_flags(stack_settings()).items()]
    assert {"name": "AWS_REGION", "value": "us-east-1"} in container["env"]
