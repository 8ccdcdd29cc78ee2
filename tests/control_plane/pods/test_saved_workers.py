"""What the Eviction API grants of workers whose jobs have checkpoints, of a stack as rendered and applied."""

from collections.abc import Iterator

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import add_group_node, install

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.settings import loaded, shortest

pytestmark = pytest.mark.control_plane

PODS = f"/api/v1/namespaces/{WORKER_NAMESPACE}/pods"
BUDGETS = f"/apis/policy/v1/namespaces/{WORKER_NAMESPACE}/poddisruptionbudgets"
GRANTED, FORBIDDEN, REFUSED = 201, 403, 429
WORKERS = 2


SIZE = 'image: "a:1", max: 4, cpu: 1, memory: 1Gi, longestJob: 12h'
STORE = "store: s3://acme-checkpoints"
SPOT = f"checkpoints: {{ {STORE}, required: true }}, nodeGroup: spot"
STACK = (
    shortest()
    + f"    saved: {{ source: {{ queues: [saved] }}, {SIZE}, checkpoints: {{ {STORE} }} }}\n"
    + f"    cheap: {{ source: {{ queues: [cheap] }}, {SIZE}, {SPOT} }}\n"
    + "  ebbtide:nodeGroups: { spot: { max: 4 } }\n"
)
GRACE = 240  # of `cheap`: 90 s for a save, and two minutes, in whole minutes


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With two workers of each pool on nodes of their groups, said to be ready; KWOK leaves them alone."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    folder = tmp_path_factory.mktemp("saved")
    settings = loaded(STACK, folder)
    with ControlPlane(hands_off=f"{WORKLOAD} in (train,saved,cheap)") as plane:
        for number in range(2):
            add_group_node(plane, settings, "flexible", f"flexible-{number}")
            add_group_node(plane, settings, "spot", f"spot-{number}")
        install(plane, settings, folder / "rendered")
        plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", "--all", f"--replicas={WORKERS}")
        yield plane


def workers(plane: ControlPlane, pool: str, budget: str) -> list[str]:
    """The paths of two workers that run, which the budget has counted."""

    def bound() -> list[str]:
        pods = plane.api.get(PODS, labelSelector=f"{WORKLOAD}={pool}")["items"]
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")]
        return [f"{PODS}/{pod['metadata']['name']}" for pod in alive] if len(alive) == WORKERS else []

    paths = eventually(bound, what=f"the workers of {pool} to have nodes")
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for path in paths:
        plane.api.patch(f"{path}/status", {"status": ready}, "application/strategic-merge-patch+json")
    eventually(
        lambda: plane.api.get(f"{BUDGETS}/{budget}")["status"].get("currentHealthy") == WORKERS, what="the count"
    )
    return paths


def evicted(plane: ControlPlane, path: str, grace: int | None = None) -> int:
    """The status of the answer."""
    options: Json = {} if grace is None else {"deleteOptions": {"gracePeriodSeconds": grace}}
    try:
        plane.api.create(f"{path}/eviction", {"metadata": {"name": path.rpartition("/")[2]}, **options})
    except ApiError as error:
        return error.status
    return GRANTED


def test_a_worker_without_checkpoints_is_never_evicted(plane: ControlPlane) -> None:
    assert [evicted(plane, path) for path in workers(plane, "train", "train")] == [REFUSED, REFUSED]


def test_a_saved_worker_is_evicted_once_its_budget_is_open_and_one_at_a_time(plane: ControlPlane) -> None:
    paths = workers(plane, "saved", "saved")
    assert [evicted(plane, path) for path in paths] == [REFUSED, REFUSED]

    plane.api.patch(f"{BUDGETS}/saved", {"spec": {"maxUnavailable": 1}})
    eventually(lambda: plane.api.get(f"{BUDGETS}/saved")["status"]["disruptionsAllowed"] == 1, what="the opening")

    assert [evicted(plane, path) for path in paths] == [GRANTED, REFUSED]
    told = plane.api.get(paths[0])["metadata"]
    assert told["deletionGracePeriodSeconds"] == 12 * 3600 + 120  # a job without a checkpoint still ends


def test_all_workers_of_spot_nodes_that_must_save_are_told_at_once_with_the_time_of_a_save(plane: ControlPlane) -> None:
    paths = workers(plane, "cheap", "cheap.spot")

    assert evicted(plane, paths[0], grace=GRACE - 1) == FORBIDDEN
    assert [evicted(plane, path) for path in paths] == [GRANTED, GRANTED]
    assert {plane.api.get(path)["metadata"]["deletionGracePeriodSeconds"] for path in paths} == {GRACE}
