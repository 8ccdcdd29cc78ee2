"""The whole of a customer's stack on a real API server, by the real engine and the real Kubernetes provider, at night.

The cluster is one that is there already, so nothing here is a stand-in but the pods. The letters are those of
docs/explanation/ownership.md: what a stand-in shows in tests/control_plane/test_ownership.py the provider shows here.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from ebbtide.operate.release import AUTOSCALER
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.labels import FIELD_MANAGER, NAMESPACE
from tests.control_plane.support.applying import controller_of, scale_as_autoscaler, write_all
from tests.engine.project import Project

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NAME = "night"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{WORKER_NAMESPACE}/deployments"
RANKER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/ranker"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
NODES = {"fixed": {"pool": "services"}, "flexible": {"pool": "services"}, "workers": {"pool": "workers"}}
WORKERS = 5
SERVING = 7


def config(image: str = "1") -> dict[str, Any]:
    size = {"cpu": 2, "memory": "2Gi"}
    return {
        "ebbtide:customer": NAME,
        "ebbtide:businessHours": {"timezone": "Europe/Berlin", "week": {"mon-fri": "08:00-18:00"}},
        "ebbtide:cluster": {"kind": "existing", "context": "test", "nodeSelectors": NODES},
        "ebbtide:redis": {"kind": "url", "url": "redis://redis.example.com:6379/0"},
        "ebbtide:workloads": {
            "hub": {"category": "fixed", "image": f"registry.example.com/hub:{image}", **size},
            "api": {"category": "flexible", "image": f"registry.example.com/api:{image}", "replicas": 2, **size},
        },
        "ebbtide:workers": {
            "train": {
                "source": {"kind": "rq", "queues": ["train"]},
                "image": f"registry.example.com/train:{image}",
                "nodeGroup": "workers",
                "max": 8,
                "longestJob": "12h",
                **size,
            }
        },
        "ebbtide:services": {
            "ranker": {
                "image": f"registry.example.com/ranker:{image}",
                "ports": {"http": 8000},
                "port": "http",
                "probes": {"readiness": {"tcp": "http"}},
                "longestRequest": "10s",
                "scale": {"metrics": {"cpu": "70%"}, "min": 2, "max": 9},
                "cpu": "100m",
                "memory": "128Mi",
            }
        },
    }


@pytest.fixture(scope="module")
def project(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp(NAME), (), {"KUBECONFIG": str(plane.kubeconfig)})


@pytest.fixture(scope="module")
def at_night(plane: ControlPlane, project: Project) -> Project:
    """Brought up by day; now the pool is busy and the budgets of flexible workloads are open."""
    project.write(NAME, config())
    project.up(NAME)
    told = load(ControllerConfig, project.stack(NAME).outputs()["controllerConfig"].value)
    with controller_of(plane, told) as controller:
        write_all(controller, told, workers=WORKERS, opening=1)
    scale_as_autoscaler(plane.api, RANKER, SERVING)
    return project


def owners(item: Mapping[str, Any], field: str) -> list[str]:
    entries = item["metadata"]["managedFields"]
    return [each["manager"] for each in entries if f"f:{field}" in each["fieldsV1"].get("f:spec", {})]


def test_what_the_controller_wrote_is_no_change_even_after_a_refresh(at_night: Project) -> None:
    assert at_night.up(NAME).touched == {}
    assert at_night.up(NAME, refresh=True).touched == {}


def test_a_new_image_at_night_leaves_the_busy_pool_and_the_open_budget(at_night: Project, plane: ControlPlane) -> None:
    at_night.write(NAME, config(image="2"))

    told = at_night.up(NAME)

    assert set(told.touched.values()) == {"update"}
    assert told.of("Deployment") == {"hub-deployment", "api-deployment", "train-deployment", "ranker-deployment"}
    pool = plane.api.get(f"{DEPLOYMENTS}/train")
    assert pool["spec"]["template"]["spec"]["containers"][0]["image"].endswith("train:2")
    assert (pool["spec"]["replicas"], owners(pool, "replicas")) == (WORKERS, [FIELD_MANAGER])
    budget = plane.api.get(f"{BUDGETS.format(NAMESPACE)}/api")
    assert (budget["spec"]["maxUnavailable"], owners(budget, "maxUnavailable")) == (1, [FIELD_MANAGER])


def test_a_new_image_at_night_leaves_a_service_as_its_autoscaler_and_the_window_have_it(
    at_night: Project, plane: ControlPlane
) -> None:
    at_night.write(NAME, config(image="3"))

    at_night.up(NAME)

    pods = plane.api.get(RANKER)
    assert pods["spec"]["template"]["spec"]["containers"][0]["image"].endswith("ranker:3")
    assert (pods["spec"]["replicas"], owners(pods, "replicas")) == (SERVING, [AUTOSCALER])
    budget = plane.api.get(f"{BUDGETS.format(NAMESPACE)}/ranker")
    assert (budget["spec"]["maxUnavailable"], owners(budget, "maxUnavailable")) == (1, [FIELD_MANAGER])


def test_other_hours_at_night_open_or_close_nothing(at_night: Project, plane: ControlPlane) -> None:
    """That is the controller's to do, when it has read the new document."""
    changed = config(image="3")
    changed["ebbtide:businessHours"]["week"] = {"mon-sun": "00:10-23:50"}
    at_night.write(NAME, changed)

    told = at_night.up(NAME)

    assert told.of("ConfigMap", "CronJob") == told.named().keys()
    assert plane.api.get(f"{BUDGETS.format(NAMESPACE)}/api")["spec"]["maxUnavailable"] == 1
    assert plane.api.get(f"{DEPLOYMENTS}/train")["spec"]["replicas"] == WORKERS


def test_a_destroy_at_night_ends_and_leaves_nothing_of_the_customer(at_night: Project, plane: ControlPlane) -> None:
    at_night.destroy(NAME)

    left = [each["metadata"]["name"] for each in plane.api.get("/api/v1/namespaces")["items"]]
    assert {NAMESPACE, WORKER_NAMESPACE}.isdisjoint(left)
