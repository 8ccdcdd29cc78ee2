"""What `ebbtide probe` asks of whoever brings an exporter up: its roles cannot be made by one who may less."""

from ebbtide.operate.probe.facts import Right
from ebbtide.operate.probe.wants import wants_of
from ebbtide.vocabulary.exporter import EXPORTER
from tests.builders.monitoring.watched import settings, settings_with, stack

RBAC = "rbac.authorization.k8s.io"


def test_all_that_the_rendered_roles_grant_is_asked_for_and_that_they_may_be_made() -> None:
    granted = {
        Right(verb, rule["apiGroups"][0], resource, one.inputs["metadata"].get("namespace", ""))
        for kind in ("ClusterRole", "Role")
        for one in stack().of(kind)
        if one.inputs.get("metadata", {}).get("name") == EXPORTER
        for rule in one.inputs["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    kinds, verbs = ("clusterroles", "clusterrolebindings"), ("get", "create", "patch", "delete")
    made = {Right(verb, RBAC, kind) for kind in kinds for verb in verbs}

    assert len(granted) == 18
    assert granted | made <= {*wants_of(settings()).rights}


def test_a_stack_without_one_asks_for_no_right_over_the_whole_cluster_to_read() -> None:
    more = {*wants_of(settings()).rights} - {*wants_of(settings_with()).rights}

    assert {it.resource for it in more} == {
        *("clusterroles", "clusterrolebindings", "nodes", "pods", "horizontalpodautoscalers", "cronjobs"),
    }
    assert {it.resource for it in more if not it.namespace and it.group == ""} == {"nodes", "pods"}
