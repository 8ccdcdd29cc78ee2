"""The owner of a pod, found by reading its controllers."""

from collections.abc import Mapping
from typing import Any

import pytest

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.operate.owners import Owners

SET = "/apis/apps/v1/namespaces/team/replicasets/api-1"
JOB = "/apis/batch/v1/namespaces/team/jobs/night-1"


class Answers:
    """An API that answers by path. An int is the status of a refusal; what it does not know does not exist."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers, self.asked = answers, list[str]()

    def get(self, path: str, **query: str) -> Json:
        assert not query
        self.asked.append(path)
        answer = self._answers.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(answer, "no")
        return answer


def owned(*owners: tuple[str, str, str]) -> dict[str, Any]:
    """An object of the namespace `team` with these controllers: API version, kind, name."""
    keys = ("apiVersion", "kind", "name")
    references = [{**dict(zip(keys, owner, strict=True)), "controller": True} for owner in owners]
    return {"metadata": {"namespace": "team", "ownerReferences": references}}


REPLICA_SET, A_JOB = ("apps/v1", "ReplicaSet", "api-1"), ("batch/v1", "Job", "night-1")


@pytest.mark.parametrize(
    ("pod", "answers", "named"),
    [
        (owned(REPLICA_SET), {SET: owned(("apps/v1", "Deployment", "api"))}, "Deployment team/api"),
        (owned(REPLICA_SET), {SET: owned(("argoproj.io/v1alpha1", "Rollout", "api"))}, "Rollout team/api"),
        (owned(REPLICA_SET), {SET: owned()}, "ReplicaSet team/api-1"),
        (owned(REPLICA_SET), {SET: 403}, "ReplicaSet team/api-1"),
        (owned(A_JOB), {JOB: owned(("batch/v1", "CronJob", "night"))}, "CronJob team/night"),
        (owned(A_JOB), {}, "Job team/night-1"),
        (owned(("postgresql.cnpg.io/v1", "Cluster", "main")), {}, "Cluster team/main"),
        (owned(), {}, "no owner"),
    ],
)
def test_the_owner_is_the_object_that_a_person_would_edit(pod: Any, answers: Mapping[str, Any], named: str) -> None:
    assert str(Owners(Answers(answers)).of(pod)) == named


def test_a_reference_that_does_not_control_is_no_owner() -> None:
    pod = owned(REPLICA_SET)
    del pod["metadata"]["ownerReferences"][0]["controller"]

    assert str(Owners(Answers({})).of(pod)) == "no owner"


def test_pods_of_one_owner_are_one_request() -> None:
    api = Answers({SET: owned(("apps/v1", "Deployment", "api"))})
    owners = Owners(api)

    assert owners.of(owned(REPLICA_SET)) == owners.of(owned(REPLICA_SET))
    assert api.asked == [SET]


def test_a_server_that_cannot_be_reached_ends_the_search() -> None:
    with pytest.raises(ApiError):
        Owners(Answers({SET: 0})).of(owned(REPLICA_SET))


@pytest.mark.parametrize(
    ("owner", "scaled"),
    [
        (REPLICA_SET, True),
        (("apps/v1", "StatefulSet", "db"), True),
        (A_JOB, False),
        (("example.com/v1", "Cluster", "main"), True),
        (("example.com/v1", "Task", "one"), False),
        (("other.example.com/v1", "Cluster", "main"), None),
    ],
)
def test_a_kind_of_a_definition_has_a_scale_if_its_group_lists_one(
    owner: tuple[str, str, str], scaled: bool | None
) -> None:
    names = {"clusters": "Cluster", "clusters/status": "Cluster", "clusters/scale": "Scale", "tasks": "Task"}
    resources = [{"name": name, "kind": kind} for name, kind in names.items()]
    owners = Owners(Answers({"/apis/example.com/v1": {"resources": resources}}))

    assert owners.has_scale(owners.of(owned(owner))) is scaled
