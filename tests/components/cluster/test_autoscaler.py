"""The cluster autoscaler: its flags, rights and placement."""

import json
import re
from datetime import timedelta
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from components.cluster.autoscaler import CLUSTER_RULES, NAMESPACE_RULES, cloud_rights
from components.cluster.autoscaler_settings import RELEASES, autoscaler_flags
from ebbtide.settings.sections.eks_versions import KUBERNETES_VERSIONS
from ebbtide.settings.sections.workers import grace_seconds
from tests.builders.stack import Recorded, pool_settings, stack_settings


@given(minutes=st.integers(1, 60 * 24 * 14))
def test_a_drain_never_ends_a_worker_before_its_own_grace_does(minutes: int) -> None:
    pool = pool_settings(timedelta(minutes=minutes))
    flags = autoscaler_flags(stack_settings(workers={"train": pool}))

    assert int(flags["max-graceful-termination-sec"]) >= grace_seconds(pool)


def test_it_finds_the_groups_of_its_own_cluster_only() -> None:
    flags = autoscaler_flags(stack_settings(customer="other"))

    assert flags["node-group-auto-discovery"].endswith(",k8s.io/cluster-autoscaler/other")


def minutes(duration: str) -> int:
    match = re.fullmatch(r"(\d+)m0s", duration)
    assert match is not None, f"{duration} is not as Go writes whole minutes"
    return int(match[1])


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


def test_its_rights_are_in_force_before_it_starts(stack: Recorded) -> None:
    before = stack.before(stack.named("autoscaler-deployment"))

    assert {"autoscaler-rights", "autoscaler-identity", "autoscaler-account", "autoscaler-cluster-role"} <= before
