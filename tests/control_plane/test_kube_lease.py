"""The Lease on a real API server, with the rights that the controller has: read and update of that one object."""

from collections.abc import Iterator

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import KubeApi
from controllers.adapters.lease import Lease
from tests.builders.control_plane import Fresh, eventually

pytestmark = pytest.mark.control_plane

NAME = "ebbtide-controller"


class Candidates:
    def __init__(self, api: KubeApi, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{NAME}"
        self._started: list[Lease] = []

    def start(self, identity: str, duration: int = 15) -> Lease:
        lease = Lease(self.api, self.namespace, identity, duration=duration)
        self.changes: list[tuple[str, bool, str]] = []
        lease.start(lambda: self.changes.append((identity, lease.held(), lease.holder)))
        self._started.append(lease)
        return lease

    def end(self) -> None:
        for lease in self._started:
            lease.release()


@pytest.fixture
def candidates(control_plane: ControlPlane, fresh: Fresh) -> Iterator[Candidates]:
    namespace = fresh.namespace()
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [NAME],
        "verbs": ["get", "update"],
    }
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    api = control_plane.api
    api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": NAME}})
    api.create(f"{rbac}/roles", {"metadata": {"name": NAME}, "rules": [rule]})
    api.create(f"{rbac}/rolebindings", {"metadata": {"name": NAME}, "roleRef": role, "subjects": [account]})
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", {"metadata": {"name": NAME}})
    found = Candidates(control_plane.api_as(namespace, NAME), namespace)
    yield found
    found.end()


def test_one_wins_and_keeps_it(candidates: Candidates) -> None:
    first = candidates.start("a")
    eventually(first.held, what="the first to hold it")
    second = candidates.start("b")

    eventually(lambda: second.holder == "a", what="the second to see the first")
    transitions = candidates.api.get(candidates.path)["spec"]["leaseTransitions"]
    renewed = candidates.api.get(candidates.path)["spec"]["renewTime"]
    eventually(lambda: candidates.api.get(candidates.path)["spec"]["renewTime"] != renewed, what="a renewal")
    assert (first.held(), second.held(), transitions) == (True, False, 1)


def test_what_is_given_back_is_taken_without_a_wait(candidates: Candidates) -> None:
    first = candidates.start("a")
    eventually(first.held, what="the first to hold it")
    second = candidates.start("b")
    eventually(lambda: second.holder == "a", what="the second to see the first")

    first.release()

    assert not first.held()
    assert candidates.api.get(candidates.path)["spec"]["holderIdentity"] in ("", "b")
    eventually(second.held, what="the second to hold it")
    assert ("b", True, "b") in candidates.changes


def test_a_frozen_server_costs_the_hold_and_it_comes_back(control_plane: ControlPlane, candidates: Candidates) -> None:
    lease = candidates.start("a", duration=3)
    eventually(lease.held, what="the hold")
    control_plane.suspend("kube-apiserver")
    try:
        eventually(lambda: not lease.held(), what="the hold to end")
    finally:
        control_plane.resume("kube-apiserver")
    eventually(lease.held, what="the hold to come back")
