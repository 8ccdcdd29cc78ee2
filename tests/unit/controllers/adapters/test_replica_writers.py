"""Who wrote the replicas of a Deployment, and who of them conflicts with the controller."""

from typing import Any

import pytest

from controllers.adapters.replica_writers import ReplicaWriters, conflicting_manager, writers_of

BORN, LATER = "2026-03-04T12:00:00Z", "2026-03-04T13:00:00Z"


def owner(manager: str, *, time: str | None = BORN, subresource: str = "", field: str = "f:replicas") -> dict[str, Any]:
    entry: dict[str, Any] = {
        "manager": manager,
        "operation": "Apply",
        "fieldsV1": {"f:spec": {field: {}}},
        "subresource": subresource,
    }
    return entry if time is None else {**entry, "time": time}


OURS = owner("ebbtide-controller", subresource="scale", time=LATER)
HPA = owner("kube-controller-manager", subresource="scale", time=None)
ARGO, APPLY = owner("argocd-controller", time=LATER), owner("kubectl-client-side-apply", time=LATER)


def conflict(*entries: dict[str, Any], created: str | None = BORN, adopted: bool = False, differs: bool = False) -> str:
    writers = writers_of({"creationTimestamp": created, "managedFields": entries})
    return conflicting_manager(writers, adopted=adopted, differs=differs)


@pytest.mark.parametrize(
    ("entry", "created", "rival"),
    [
        (owner("gitops", time=LATER), BORN, "gitops"),
        (owner("gitops", time=BORN), BORN, ""),
        (owner("gitops", time=LATER, field="f:template"), BORN, ""),
        (owner("keda", time=None, subresource="scale"), BORN, "keda (through scale)"),
        (owner("kubectl", time=None, subresource="scale"), BORN, ""),
        (owner("pulumi-kubernetes-1a2b", time=LATER), BORN, ""),
        (OURS, BORN, ""),
        ({"manager": "gitops"}, BORN, ""),
        (owner("helm", time="2026-03-04T12:00:01Z"), BORN, ""),  # the creation fell into two seconds
        (owner("hpa", subresource="scale"), BORN, "hpa (through scale)"),  # however soon
        (owner("keda", time="2026-03-04T12:00:10Z"), BORN, ""),
        (owner("keda", time="2026-03-04T12:00:11Z"), BORN, "keda"),
        (owner("keda", time=None), BORN, "keda"),
        (owner("keda", time=BORN), None, "keda"),
    ],
)
def test_without_a_number_of_the_controllers_a_later_write_or_one_through_scale_conflicts(
    entry: dict[str, Any], created: str | None, rival: str
) -> None:
    assert conflict(entry, created=created) == rival


@pytest.mark.parametrize("adopted", [False, True])
def test_a_manager_beside_the_controller_has_its_number(adopted: bool) -> None:
    assert conflict(OURS, ARGO, HPA, adopted=adopted, differs=True) == ""


def test_another_number_than_the_controllers_conflicts_even_in_the_first_seconds() -> None:
    assert conflict(owner("gitops", time=BORN), differs=True) == "gitops"
    assert conflict(owner("pulumi-kubernetes-1a2b", time=LATER), differs=True) == ""


@pytest.mark.parametrize("entry", [ARGO, APPLY, owner("pulumi-kubernetes-1a2b", time=LATER)])
def test_the_owner_of_an_adopted_pool_may_declare_a_number_until_the_controller_wrote_one(
    entry: dict[str, Any],
) -> None:
    assert conflict(entry, adopted=True) == ""
    assert conflict(entry, adopted=True, differs=True) == entry["manager"]


def test_an_autoscaler_of_an_adopted_pool_conflicts_at_once() -> None:
    assert conflict(ARGO, HPA, adopted=True) == "kube-controller-manager (through scale)"


@pytest.mark.parametrize(
    "entry", [owner("kubectl", subresource="scale"), owner("kubectl-edit"), owner("kubectl-patch"), owner("ebbtide")]
)
def test_a_person_may_set_the_replicas_of_an_adopted_pool(entry: dict[str, Any]) -> None:
    assert conflict(entry, adopted=True, differs=True) == ""


def version(replicas: int, *managers: dict[str, Any], uid: str = "1") -> dict[str, Any]:
    metadata = {"name": "loader", "uid": uid, "creationTimestamp": BORN, "managedFields": managers}
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def conflicts(*versions: dict[str, Any], adopted: bool = True) -> list[str]:
    """The conflicting manager in each version."""
    writers = ReplicaWriters(["loader"] if adopted else [])
    return [writers.conflicting_manager(item) for item in versions]


PERSON = owner("kubectl", subresource="scale", time=LATER)


def test_an_owner_that_overwrites_the_controllers_number_conflicts_until_a_person_writes_one() -> None:
    seen = conflicts(
        version(2, ARGO), version(7, OURS), version(2, ARGO), version(1, ARGO), version(3, PERSON), version(8, OURS)
    )

    assert seen == ["", "", "argocd-controller", "argocd-controller", "", ""]


def test_an_owner_that_is_listed_with_the_agreed_number_does_not_conflict() -> None:
    """As with a policy that keeps the replicas."""
    assert conflicts(version(2, ARGO), version(7, OURS), version(7, ARGO)) == ["", "", ""]
    assert conflicts(version(7, OURS), version(5, PERSON), version(5, ARGO)) == ["", "", ""]
    assert conflicts(version(7, OURS), version(7, ARGO), adopted=False) == ["", ""]


def test_until_the_controller_writes_a_number_the_owner_may_change_its_own() -> None:
    assert conflicts(version(2, ARGO), version(3, ARGO)) == ["", ""]
    assert conflicts(version(2, ARGO), version(3, ARGO), adopted=False) == ["argocd-controller"] * 2


def test_another_deployment_of_the_same_name_begins_without_an_agreed_number() -> None:
    assert conflicts(version(7, OURS), version(1, ARGO, uid="2")) == ["", ""]
