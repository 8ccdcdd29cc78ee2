"""A service on real nodes, as it is rendered: real kubelets play `preStop`, the signal and the grace, kube-proxy leads.

There is no gateway here: requests go to the service's own name, as they do where no route is given, each over a
connection of its own. One that is kept alive may be closed by a pod that ends just as the next request sets out: what
Envoy sees and most clients repeat.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from control_plane.nodes.images.recipes import BASE_TAG

from controllers.adapters.kube_api import MERGE_PATCH, Json
from ebbtide.demo import load, model_server
from ebbtide.demo.model_server import READY, ModelServer, OnSigterm
from ebbtide.vocabulary.labels import NAMESPACE
from tests.node.harbour import Harbour, config, night, parsed

pytestmark = [pytest.mark.node, pytest.mark.long, pytest.mark.timeout(1800)]

NAME, PODS, PORT = "model", 4, 8000
SECONDS, RATE = 40, 55.0  # more than 2,000 requests
BEGINS = 6  # seconds after which the caller has begun for certain
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"

# What the caller runs in a pod: the load of the demo, which needs the standard library alone.
CALL = f"""
import json, socket, sys
address = (socket.gethostbyname("{NAME}"), {PORT})
stage = LoadStage(seconds=float(sys.argv[1]), rate=float(sys.argv[2]))
answers = asyncio.run(offer(Load(address=lambda: address, stretches=[stage], seed=1, keeps=False)))
print(json.dumps(dict(sent=answers.sent, lost=answers.lost, reasons=dict(answers.reasons),
                      pods=sorted({{each.pod for each in answers.all if each.pod}}))))
"""


def service(server: ModelServer) -> dict[str, Any]:
    files = {"model_server.py": Path(model_server.__file__).read_text()}
    words = json.dumps({key: value for key, value in asdict(server).items() if key != "pod"})
    return {
        "image": BASE_TAG,
        "command": ["python", "/app/model_server.py", words],
        "volumes": {"code": {"files": files, "at": "/app"}},
        "ports": {"http": PORT},
        "port": "http",
        "probes": {"readiness": {"http": READY, "port": "http"}},
        "longestRequest": "10s",
        "cpu": "50m",
        "memory": "64Mi",
        "env": {"POD_NAME": {"field": "metadata.name"}},
        "scale": {"min": PODS, "max": PODS},
    }


def stack(server: ModelServer, **more: Any) -> Any:
    return parsed({**config(**more), "ebbtide:services": {NAME: service(server)}})


QUICK = ModelServer(host="0.0.0.0", port=PORT, service=0.05, concurrency=64)


@pytest.fixture
def served(harbour: Harbour) -> Iterator[Harbour]:
    with harbour.grown(stack(QUICK)):
        harbour.wait(lambda: harbour.ready(NAME, PODS), "the service to be ready")
        yield harbour
    harbour.wait(lambda: not harbour.pods(NAME), "the service to be gone")


def under(harbour: Harbour, happens: Callable[[], object], *, seconds: float = SECONDS, rate: float = RATE) -> Any:
    """What came back at a pod of another workload while something happened."""
    (hub,) = harbour.pods("hub")
    program = Path(load.__file__).read_text() + CALL
    with ThreadPoolExecutor() as pool:
        told = pool.submit(harbour.run_in, hub, "python", "-c", program, str(seconds), str(rate))
        time.sleep(BEGINS)
        happens()
        return json.loads(told.result())


def scale(harbour: Harbour, count: int) -> None:
    harbour.api.patch(f"{PATH}/scale", {"spec": {"replicas": count}}, MERGE_PATCH)


def test_no_request_is_lost_when_a_service_shrinks_and_when_it_is_rolled_out(served: Harbour) -> None:
    def shrunk() -> None:
        scale(served, 1)
        served.wait(lambda: served.ready(NAME, 1) and len(served.pods(NAME)) == 1, "one pod to be left")

    def rolled_out() -> None:
        before = uids(served.pods(NAME))
        served.api.patch(PATH, {"spec": {"template": {"metadata": {"annotations": {"rolled": "yes"}}}}}, MERGE_PATCH)
        served.wait(lambda: not before & uids(served.pods(NAME)) and served.ready(NAME, PODS), "the new pods")

    shrinking = under(served, shrunk)
    scale(served, PODS)
    served.wait(lambda: served.ready(NAME, PODS), "the service to be ready")
    rolling = under(served, rolled_out)

    assert (shrinking["lost"], shrinking["reasons"]) == (rolling["lost"], rolling["reasons"]) == (0, {})
    assert min(shrinking["sent"], rolling["sent"]) > 2000
    assert len(shrinking["pods"]) == PODS
    assert len(rolling["pods"]) > PODS


def test_no_request_is_lost_when_a_node_is_drained_at_night(served: Harbour) -> None:
    def budget() -> int:
        return served.budget(NAME)["status"]["disruptionsAllowed"]

    nodes = [pod["spec"]["nodeName"] for pod in served.pods(NAME)]
    node = max(nodes, key=nodes.count)
    refused = served.drain(node, seconds=5, only=f"app.kubernetes.io/name={NAME}")
    served.tell(night(), stack(QUICK, week=night()))
    served.wait(lambda: budget() == 1, "the budget to be open")
    drained: list[Any] = []
    answers = under(
        served, lambda: drained.append(served.drain(node, seconds=300, only=f"app.kubernetes.io/name={NAME}"))
    )

    assert refused.returncode != 0
    assert drained[0].returncode == 0, drained[0].stderr
    assert (answers["lost"], answers["reasons"]) == (0, {})
    assert node not in {
        pod["spec"]["nodeName"] for pod in served.pods(NAME) if "deletionTimestamp" not in pod["metadata"]
    }


def test_a_server_that_exits_at_once_without_what_is_rendered_loses_some(harbour: Harbour) -> None:
    careless = ModelServer(host="0.0.0.0", port=PORT, service=2.0, concurrency=64, on_sigterm=OnSigterm.EXIT)
    with harbour.grown(stack(careless)):
        container = harbour.deployment(NAME)["spec"]["template"]["spec"]["containers"][0]["name"]
        bare = {"name": container, "lifecycle": None}
        harbour.api.patch(
            PATH, {"spec": {"template": {"spec": {"containers": [bare]}}}}, "application/strategic-merge-patch+json"
        )
        harbour.wait(lambda: harbour.ready(NAME, PODS) and all(map(is_bare, harbour.pods(NAME))), "the bare pods")
        answers = under(harbour, lambda: scale(harbour, 1), seconds=15, rate=30)
    harbour.wait(lambda: not harbour.pods(NAME), "the service to be gone")

    assert 0 < answers["lost"] < answers["sent"]


def is_bare(pod: Json) -> bool:
    return "lifecycle" not in pod["spec"]["containers"][0]


def uids(pods: list[Json]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}
