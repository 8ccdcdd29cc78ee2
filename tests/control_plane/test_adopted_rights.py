"""Who may do what in a team's namespace, by the API server: the controller, the closer, and whoever creates pods."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

import pytest
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError, Json, KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.closer import close
from controllers.ports import ObservedCluster, Outcome, SetBudget
from ebbtide.recording.output import output_files
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import CLOSED_MINIMUM, CLOSER, FIELD_MANAGER, NAMESPACE
from tests.builders.control_plane import eventually
from tests.builders.recorded import record
from tests.builders.settings import loaded, shortest
from tests.control_plane.support.applying import Applying, controller_of, objects_in

pytestmark = pytest.mark.control_plane

TEAM = "team"
BY_DAY = datetime(2026, 11, 23, 12, tzinfo=UTC)
BUDGETS = f"/apis/policy/v1/namespaces/{TEAM}/poddisruptionbudgets"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
STACK = shortest(
    more=f"""
      ebbtide:cluster: {{ version: "1.36" }}
      ebbtide:adopted:
        api: {{ namespace: {TEAM}, selector: {{ app: api }}, category: flexible, replicas: 3, cpu: 1, memory: 2Gi }}
        web: {{ namespace: {TEAM}, selector: {{ app: web }}, category: flexible, pods: 4, cpu: 1, memory: 2Gi }}
        hub: {{ namespace: {TEAM}, selector: {{ app: hub }}, category: fixed, replicas: 1, cpu: 1, memory: 2Gi }}
        tasks: {{ namespace: {TEAM}, selector: {{ app: task }}, category: worker, usually: 2, cpu: 1, memory: 2Gi }}
    """
)


@dataclass(frozen=True, kw_only=True)
class Adopted:
    plane: ControlPlane
    config: ControllerConfig
    controller: KubeCluster
    own: KubeApi  # with the controller's token

    def budget(self, name: str) -> dict[str, int]:
        spec = self.plane.api.get(f"{BUDGETS}/{name}")["spec"]
        return {key: spec[key] for key in ("minAvailable", "maxUnavailable") if key in spec}

    def seen(self, budget: str) -> tuple[int, str]:
        cluster = self.controller.observe()
        assert isinstance(cluster, ObservedCluster)
        return cluster.budgets[budget].max_unavailable, cluster.budgets[budget].version

    def set(self, budget: str, max_unavailable: int) -> Outcome:
        _, version = self.seen(budget)
        return self.controller.act(
            SetBudget(budget=budget, max_unavailable=max_unavailable, version=version, reason="test")
        )


@pytest.fixture(scope="module")
def adopted(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Adopted]:
    folder = tmp_path_factory.mktemp("adopted")
    write_directory(folder, output_files(record(loaded(STACK, tmp_path_factory.mktemp("stack")))))
    plane.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
    Applying(plane.api).apply(objects_in(folder))
    for name, closed in (
        ("ebbtide-api", {"maxUnavailable": 0}),
        ("ebbtide-web.pods", {"minAvailable": CLOSED_MINIMUM}),
    ):
        plane.api.patch(f"{BUDGETS}/{name}", {"spec": closed})  # a rendered file leaves out what Pulumi hands over
    config = load(ControllerConfig, (folder / "controller-config.json").read_text(encoding="utf-8"))
    with controller_of(plane, config) as controller:
        own = plane.api_as(NAMESPACE, "ebbtide-controller")
        eventually(lambda: _is_limited(own), what="the admission policy to be in force")
        yield Adopted(plane=plane, config=config, controller=controller, own=own)


def _is_limited(own: KubeApi) -> bool:
    """The API server takes a moment to learn of a policy."""
    try:
        own.patch(f"{BUDGETS}/ebbtide-web.pods", {"spec": {"minAvailable": 2}}, dryRun="All")
    except ApiError as error:
        return "minAvailable must stay" in str(error)
    return False


@pytest.mark.parametrize(
    ("rule", "pdb", "opened", "shut"),
    [
        ("api", "ebbtide-api", {"maxUnavailable": 1}, {"maxUnavailable": 0}),
        ("web", "ebbtide-web.pods", {"minAvailable": 3}, {"minAvailable": CLOSED_MINIMUM}),
    ],
)
def test_the_controller_opens_and_the_closer_closes_budgets_in_the_teams_namespace(
    adopted: Adopted, rule: str, pdb: str, opened: dict[str, int], shut: dict[str, int]
) -> None:
    assert adopted.set(rule, 1) is Outcome.DONE
    assert adopted.budget(pdb) == opened
    eventually(lambda: adopted.seen(rule)[0] == 1, what="the controller to see the open budget")

    closer = adopted.plane.api_as(NAMESPACE, CLOSER)
    policy = next(budget for budget in adopted.config.closed_by_day if budget.name == rule)
    assert close(policy, adopted.config, closer, [BY_DAY])
    assert adopted.budget(pdb) == shut


@pytest.mark.parametrize(
    ("pdb", "spec"),
    [
        ("ebbtide-web.pods", {"minAvailable": 2}),
        ("ebbtide-web.pods", {"minAvailable": 0}),
        ("ebbtide-api", {"maxUnavailable": 2}),
        ("ebbtide-hub", {"maxUnavailable": 1}),
        ("ebbtide-tasks.pods", {"minAvailable": 3}),
    ],
    ids=["fewer pods than declared", "none", "two at a time", "a fixed one", "of workers"],
)
def test_no_other_number_and_no_other_budget_is_granted(adopted: Adopted, pdb: str, spec: dict[str, int]) -> None:
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": pdb}, "spec": spec}
    before = adopted.budget(pdb)

    with pytest.raises(ApiError):
        adopted.own.apply(f"{BUDGETS}/{pdb}", body, manager=FIELD_MANAGER)
    assert adopted.budget(pdb) == before


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("patch", f"{PODS}/some"),
        ("get", f"/api/v1/namespaces/{TEAM}/secrets"),
        ("get", f"/api/v1/namespaces/{TEAM}/configmaps"),
        ("patch", f"/apis/apps/v1/namespaces/{TEAM}/deployments/some"),
        ("patch", f"/apis/apps/v1/namespaces/{TEAM}/deployments/some/scale"),
        ("delete", f"{BUDGETS}/ebbtide-api"),
    ],
)
def test_nothing_else_of_a_team_is_granted(adopted: Adopted, verb: str, path: str) -> None:
    with pytest.raises(ApiError) as refused:
        adopted.own.patch(path, {}) if verb == "patch" else getattr(adopted.own, verb)(path)
    assert refused.value.status == 403


def test_who_may_create_pods_may_claim_a_fixed_rule_up_to_the_teams_quota(adopted: Adopted) -> None:
    """A quota on the priority class of fixed pods is the limit that docs/how-to/adoption.md shows."""
    api = adopted.plane.api
    account = {"metadata": {"name": "tenant", "namespace": TEAM}}
    api.create(f"/api/v1/namespaces/{TEAM}/serviceaccounts", account)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}"
    api.create(
        f"{rbac}/roles",
        {"metadata": {"name": "tenant"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]},
    )
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": TEAM}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    api.create(f"{rbac}/rolebindings", {"metadata": {"name": "tenant"}, "roleRef": role, "subjects": [subject]})
    tenant = adopted.plane.api_as(TEAM, "tenant")

    def created(name: str) -> Json:
        spec = {"containers": [{"name": "main", "image": "example.com/any:1"}]}
        return tenant.create(PODS, {"metadata": {"name": name, "labels": {"app": "hub"}}, "spec": spec})

    first = eventually(lambda: created("mine"), what="the tenant's right to be known")
    assert first["metadata"]["labels"]["ebbtide.dev/category"] == "fixed"
    assert first["spec"]["priorityClassName"] == "system-cluster-critical"

    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}
    quota = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [scope]}}
    path = f"/api/v1/namespaces/{TEAM}/resourcequotas"
    api.create(path, {"metadata": {"name": "fixed-pods"}, "spec": quota})
    api.patch(f"{path}/fixed-pods/status", {"status": {"hard": {"pods": "1"}, "used": {"pods": "1"}}})
    attempts = count()

    def is_refused() -> bool:
        try:
            created(f"another-{next(attempts)}")
        except ApiError as error:
            return "exceeded quota: fixed-pods" in str(error)
        return False

    eventually(is_refused, what="the quota to be known")
