"""What the Vertical Pod Autoscaler may set: the requests of the workload's own container, by the mode of the file."""

import pytest

from components.serving.sizes import vertical_autoscaler
from ebbtide.settings.fragment.size import PodSize
from tests.builders.workloads.services import services_stack

SCALE = "scale: { metrics: { cpu: 70% }, min: 1, max: 6 }"


@pytest.mark.parametrize(("vertical", "mode"), [("initial", "Initial"), ("inPlace", "InPlaceOrRecreate")])
def test_it_sets_the_requests_of_the_own_container_and_of_no_sidecar(vertical: str, mode: str) -> None:
    ranker = services_stack((SCALE, f"vertical: {vertical}")).all_workloads["ranker"]
    spec = vertical_autoscaler("ranker", ranker, None)
    own, others = spec["resourcePolicy"]["containerPolicies"]

    assert spec["updatePolicy"] == {"updateMode": mode}
    assert (own["containerName"], own["controlledResources"]) == ("ranker", ["cpu", "memory"])
    assert others == {"containerName": "*", "mode": "Off"}


@pytest.mark.parametrize(("kind", "target"), [("deployment", "Deployment"), ("stateful-set", "StatefulSet")])
def test_it_looks_at_what_runs_the_pods(kind: str, target: str) -> None:
    ranker = services_stack((SCALE, f"vertical: initial\n    kind: {kind}")).all_workloads["ranker"]

    assert vertical_autoscaler("ranker", ranker, None)["targetRef"] == {
        "apiVersion": "apps/v1",
        "kind": target,
        "name": "ranker",
    }


@pytest.mark.parametrize(
    ("floor", "least"),
    [
        ("\n    verticalMin: { cpu: 250m, memory: 1Gi }", {"cpu": "250m", "memory": "1Gi"}),
        ("\n    verticalMin: { memory: 1536Mi }", {"memory": "1536Mi"}),
        ("", None),
    ],
)
def test_it_never_goes_below_the_floor_of_the_file(floor: str, least: dict[str, str] | None) -> None:
    ranker = services_stack((SCALE, f"vertical: inPlace{floor}")).all_workloads["ranker"]
    own, _ = vertical_autoscaler("ranker", ranker, PodSize(cpu=4000, memory=8192, gpu=0))["resourcePolicy"][
        "containerPolicies"
    ]

    assert own.get("minAllowed") == least
    assert own["maxAllowed"] == {"cpu": "4000m", "memory": "8192Mi"}
