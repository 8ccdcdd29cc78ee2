"""A hub's user pod, adopted on real nodes: it keeps the node that the night wants to take, until it ends."""

from collections.abc import Iterator
from typing import Any

import pytest
from control_plane.nodes.images.recipes import BASE_TAG

from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import CATEGORY
from tests.node.harbour import DAY, Harbour, config, is_ready, night, parsed

pytestmark = [pytest.mark.node, pytest.mark.timeout(1800)]

SPACE = "jupyter"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
USERS = {"component": "singleuser-server"}
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget"


def grown(week: dict[str, str]) -> StackSettings:
    users = {"namespace": SPACE, "selector": USERS, "category": "worker", "usually": 1, "cpu": "50m", "memory": "64Mi"}
    return parsed({**config(week), "ebbtide:adopted": {"users": users}})


@pytest.fixture
def adopting(harbour: Harbour) -> Iterator[Harbour]:
    harbour.api.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    with harbour.grown(grown(DAY)):
        yield harbour
    harbour.api.delete(f"/api/v1/namespaces/{SPACE}")
    harbour.wait(lambda: not _exists(harbour), "the namespace to be gone")


def _exists(harbour: Harbour) -> bool:
    spaces = harbour.api.get("/api/v1/namespaces")["items"]
    return any(space["metadata"]["name"] == SPACE for space in spaces)


def test_a_users_pod_keeps_its_node_at_night_until_it_ends(adopting: Harbour) -> None:
    container = {
        "name": "notebook",
        "image": BASE_TAG,
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"],
    }
    metadata = {"name": "jupyter-user", "labels": USERS}
    adopting.wait(
        lambda: adopting.api.get(f"/api/v1/namespaces/{SPACE}/serviceaccounts")["items"], "the namespace's account"
    )
    body = {"metadata": metadata, "spec": {"containers": [container]}}

    def in_force() -> bool:
        """The API server takes a moment to learn of a policy."""
        return CATEGORY in adopting.api.create(PODS, body, dryRun="All")["metadata"]["labels"]

    adopting.wait(in_force, "the admission policy to be in force")
    adopting.api.create(PODS, body)

    def running() -> dict[str, Any] | None:
        pod = adopting.pod("jupyter-user", SPACE)
        return pod if is_ready(pod) else None

    pod = adopting.wait(running, "the user's pod to run")
    node = pod["spec"]["nodeName"]
    assert (pod["metadata"]["labels"][CATEGORY], pod["spec"]["nodeSelector"]) == ("worker", {"set": "flexible"})

    adopting.tell(night(), grown(night()))
    adopting.wait(lambda: adopting.budget("api")["status"]["disruptionsAllowed"] == 1, "the night to begin")
    refused = adopting.drain(node, seconds=5, only="component=singleuser-server", force=True)
    kept = adopting.pod("jupyter-user", SPACE)
    adopting.api.delete(f"{PODS}/jupyter-user")  # as a culler does
    drained = adopting.drain(node, seconds=120, only="component=singleuser-server", force=True)

    assert refused.returncode != 0
    assert REFUSED in refused.stderr
    assert kept["metadata"]["uid"] == pod["metadata"]["uid"]
    assert drained.returncode == 0, drained.stderr
