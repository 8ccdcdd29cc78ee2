"""What `ebbtide probe` asks of whoever brings monitoring up: its roles cannot be made by one who may less."""

from typing import Any

import pytest

from ebbtide.operate.probe.facts import Right
from ebbtide.operate.probe.wants import wants_of
from ebbtide.settings.sections.monitoring import PROMETHEUS
from ebbtide.vocabulary.exporter import EXPORTER
from tests.builders.monitoring.watched import WATCHED, settings_with
from tests.builders.recorded import record
from tests.builders.stack import Recorded

pytestmark = pytest.mark.whole

RBAC = "rbac.authorization.k8s.io"
BUNDLED = {"prometheus": "bundled"}
BY_FILES = {**WATCHED, "discovery": "config-map"}
MAKE = ("get", "create", "patch", "delete")


@pytest.mark.parametrize("monitoring", [WATCHED, BY_FILES, BUNDLED], ids=["operator", "files", "bundled"])
def test_all_that_the_rendered_roles_grant_is_asked_for_and_that_they_may_be_made(monitoring: dict[str, Any]) -> None:
    settings = settings_with(monitoring=monitoring)
    granted = {
        Right(verb, rule["apiGroups"][0], resource, one.inputs["metadata"].get("namespace", ""))
        for kind in ("ClusterRole", "Role")
        for one in Recorded(record(settings)).of(kind)
        if one.inputs.get("metadata", {}).get("name") in (EXPORTER, PROMETHEUS)
        for rule in one.inputs["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    made = {Right(verb, RBAC, kind) for kind in ("clusterroles", "clusterrolebindings") for verb in MAKE}

    assert len(granted) >= 18
    asked = {*wants_of(settings).rights}
    anywhere = {right._replace(namespace=space) for right in asked if not right.namespace for space in SPACES}
    assert granted | made <= asked | anywhere


SPACES = ("ebbtide", "ebbtide-workers", "ebbtide-ray-flow", "kube-system")
"""A right over the whole cluster is one in each of them."""


@pytest.mark.parametrize(
    ("monitoring", "own"),
    [
        (WATCHED, {"podmonitors", "prometheusrules"}),
        (BY_FILES, {"configmaps"}),
        (BUNDLED, {"nodes/metrics"}),
    ],
    ids=["operator", "files", "bundled"],
)
def test_a_stack_without_one_asks_for_no_right_over_the_whole_cluster_to_read(
    monitoring: dict[str, Any], own: set[str]
) -> None:
    more = {*wants_of(settings_with(monitoring=monitoring)).rights} - {*wants_of(settings_with()).rights}

    assert {it.resource for it in more} == {
        *("clusterroles", "clusterrolebindings", "nodes", "pods", "horizontalpodautoscalers", "cronjobs"),
        *own,
    }
    assert {it.resource for it in more if not it.namespace and it.group == ""} == {"nodes", "pods"} | (
        own & {"nodes/metrics"}
    )
