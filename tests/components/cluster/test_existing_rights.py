"""The rights that `ebbtide probe` asks for follow from what a stack on an existing cluster registers."""

from pathlib import Path

from ebbtide.operate.probe.facts import Right
from ebbtide.operate.probe.rights import rights_of
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from tests.builders.existing import onprem, with_everything
from tests.builders.recorded import record
from tests.builders.settings import loaded


def test_each_object_may_be_made_and_deleted_where_it_is_under_the_plural_of_its_kind() -> None:
    asked = rights_of(record(with_everything()))

    assert {Right(verb, "networking.k8s.io", "networkpolicies", "ebbtide") for verb in ("create", "delete")} <= {*asked}
    assert Right("patch", "networking.k8s.io", "ingresses", "ebbtide") in asked
    assert Right("get", "scheduling.k8s.io", "priorityclasses") in asked
    assert len(asked) == len(set(asked))


def test_adopted_pods_need_the_policies_and_budgets_in_the_teams_namespace() -> None:
    asked = {*rights_of(record(with_everything()))}

    for kind in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"):
        assert Right("create", "admissionregistration.k8s.io", kind) in asked
    assert Right("delete", "policy", "poddisruptionbudgets", "team") in asked


def test_what_the_roles_grant_is_asked_for_since_nobody_may_grant_more_than_he_has() -> None:
    asked = rights_of(record(with_everything()))

    assert Right("patch", "apps", "deployments/scale", WORKER_NAMESPACE) in asked
    assert Right("delete", "", "pods", "ebbtide-hub") in asked  # of a workload that starts pods


def test_jobs_are_asked_about_only_where_there_are_some(tmp_path: Path) -> None:
    job = 'ebbtide:jobs: { migrate: { image: "example.com/db:1", cpu: 1, memory: 2Gi, longestRun: 2h } }'
    without, beside = (rights_of(record(loaded(onprem(more=more), tmp_path))) for more in ("", job))

    assert Right("create", "batch", "jobs", WORKER_NAMESPACE) in {*beside} - {*without}
