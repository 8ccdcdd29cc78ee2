"""What the controller asks of the API server when nothing changes, by the server's own count."""

import time
from collections.abc import Iterator

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane

from controllers.adapters.kube_api import ApiError
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE
from tests.builders.operation import Scene
from tests.control_plane.support.rest import RENEWAL, Request, come_to_rest, night_of_demo, request_counts

pytestmark = [pytest.mark.control_plane, pytest.mark.redis]

WATCHED = 12.0  # seconds: six sweeps, two renewals of the Lease or three
RENEWED = 5.0  # seconds that a renewal waits for the one before


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A plane of its own, without nodes and managers: the controller is the only one there that asks."""
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    with ControlPlane(with_nodes=False) as plane, night_of_demo(plane) as night:
        folder = tmp_path_factory.mktemp("controller")
        scene = Scene(plane=plane, redis=night.redis, apps=NAMESPACE, workers=WORKER_NAMESPACE, folder=folder)
        scene.write(dump(night.config))
        with scene.leader():
            come_to_rest(night)
            yield scene


def test_at_rest_it_asks_for_nothing_but_its_lease(at_rest: Scene) -> None:
    began, before = time.monotonic(), request_counts(at_rest.plane)
    time.sleep(WATCHED)
    made = request_counts(at_rest.plane).since(before)
    took = time.monotonic() - began

    assert made.beside_the_servers_own == {}
    assert 1 <= made.by_accounts <= took / RENEWED + 1  # however slow the machine, never more often
    assert made.requests[RENEWAL] >= made.by_accounts


def test_what_it_must_not_do_would_have_been_counted(at_rest: Scene) -> None:
    """A read by its verb; a write that its Role refuses as one more request of an account."""
    api, pods = at_rest.plane.api_as(NAMESPACE, CONTROLLER), f"/api/v1/namespaces/{NAMESPACE}/pods"
    before = request_counts(at_rest.plane)
    for _ in range(10):
        api.get(pods)
        with pytest.raises(ApiError, match="forbidden"):
            api.delete(f"{pods}/any")

    made = request_counts(at_rest.plane).since(before)

    assert made.beside_the_servers_own == {Request("LIST", "pods", "200"): 10}
    assert made.by_accounts >= 20
