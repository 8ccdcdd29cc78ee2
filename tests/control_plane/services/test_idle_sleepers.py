"""A notebook hub that sleeps when it is idle: the workload controller's process with its rendered rights.

Prometheus is real and scrapes a page with lines as cAdvisor writes them; the hub's API is a stand-in.
"""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane

from components.ownership import REPLICAS
from controllers.adapters.kube_api import ApiError, Json, KubeApi, from_kubeconfig
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.settings.load import stack_of_text
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.control_plane import Fresh, eventually, reasons
from tests.builders.monitoring.servers import Exposed, needs_prometheus, prometheus
from tests.builders.operation import ALWAYS_NIGHT, Process, leading
from tests.builders.recorded import record
from tests.builders.settings import shortest
from tests.builders.workloads.hub import CONNECTED, TOKEN, Hub
from tests.builders.workloads.sleeping import BUNDLED
from tests.control_plane.support.ownership import Provisioner

pytestmark = [pytest.mark.control_plane, needs_prometheus]

AFTER = timedelta(seconds=30)
ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 1440) for day in range(7)))
STACK = f"""
        ebbtide:workloads:
          hub: {{ image: "example.com/hub:1", cpu: 1, memory: 2Gi, category: flexible, kind: stateful-set,
            ports: {{ http: 8000 }}, volumes: {{ data: {{ at: /data, perPod: 1Gi }} }},
            sleep: {{ when: idle, after: 30s, hub: {{ secret: hub, key: token }} }} }}
        {BUNDLED}
        """
CADVISOR = """\
container_cpu_usage_seconds_total{{container="{container}",{pod}}} 7
container_network_receive_bytes_total{{container="",interface="eth0",{pod}}} 10
container_network_transmit_bytes_total{{container="",interface="eth0",{pod}}} 11
"""


@cache
def _resources() -> tuple[Resource, ...]:
    return record(stack_of_text(shortest(more=STACK), stack="acme", file="Pulumi.acme.yaml"))


@dataclass(frozen=True, kw_only=True)
class Scene:
    plane: ControlPlane
    apps: str
    folder: Path
    kubelet: Exposed
    hub: Hub
    prometheus: str

    @property
    def file(self) -> Path:
        return self.folder / "workloads.json"

    @property
    def path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.apps}/statefulsets/hub"

    def rendered(self, kind: str, name: str) -> Json:
        (resource,) = [it for it in _resources() if kind_of(it) == kind and name_of(it) == name]
        text = json.dumps(dict(resource.inputs), default=dict)
        return json.loads(text.replace('"namespace": "ebbtide"', f'"namespace": "{self.apps}"'))

    def write(self, hours: BusinessHours) -> None:
        whole = load(WorkloadsConfig, self.rendered("ConfigMap", WORKLOADS)["data"]["workloads.json"])
        (policy,) = whole.sleepers
        token = self.folder / "token"
        token.write_text(TOKEN)
        policy = replace(policy, namespace=self.apps, hub=self.hub.url, hub_token_file=str(token))
        assert policy.idle_after == AFTER
        config = replace(whole, namespace=self.apps, hours=hours, sleepers=(policy,), prometheus=self.prometheus)
        new = self.file.with_suffix(".new")
        new.write_text(dump(config))
        new.replace(self.file)

    def leader(self, name: str) -> AbstractContextManager[Process]:
        account = self.plane.kubeconfig_as(self.apps, WORKLOADS)
        process = Process(name, self, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - file, folder and apps are all it takes
        return leading(process)

    def replicas(self) -> int:
        return self.plane.api.get(self.path)["spec"].get("replicas", 0)

    def pods(self) -> list[Json]:
        return self.plane.api.get(f"/api/v1/namespaces/{self.apps}/pods")["items"]

    def run(self) -> Json:
        """Let the pod run, as a kubelet reports it: no disk is provisioned here, so no scheduler binds it."""
        (pod,) = self.pods()
        state = {"running": {"startedAt": (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")}}
        (container,) = pod["spec"]["containers"]
        reported = {"name": container["name"], "image": "", "imageID": "", "ready": True, "restartCount": 0}
        status = {"phase": "Running", "containerStatuses": [{**reported, "state": state}]}
        path = f"/api/v1/namespaces/{self.apps}/pods/hub-0/status"
        return self.plane.api.patch(path, {"status": status})

    def expose(self) -> None:
        """Let the kubelet report what its pod uses: nothing."""
        pod = self.run()
        names = f'namespace="{self.apps}",pod="hub-0",id="/kubepods/pod{pod["metadata"]["uid"]}/1"'
        self.kubelet.text = CADVISOR.format(container=pod["spec"]["containers"][0]["name"], pod=names)

    def claim(self) -> str:
        (claim,) = self.plane.api.get(f"/api/v1/namespaces/{self.apps}/persistentvolumeclaims")["items"]
        assert "deletionTimestamp" not in claim["metadata"]
        return claim["metadata"]["uid"]

    def reasons(self) -> set[str]:
        return reasons(self.plane.api, self.apps, WORKLOADS)

    def become(self, replicas: int) -> None:
        eventually(lambda: self.replicas() == replicas, what=f"{replicas} replicas", patience=120)
        eventually(lambda: len(self.pods()) == replicas, what=f"{replicas} pods")


def reported(process: Process, why: str) -> dict[str, Any]:
    """What is reported once the reason is `why`."""
    what = f"the reason {why}"
    return eventually(
        lambda: next((it for it in process.status().get("workloads", ()) if it["why"] == why), None),
        what=what,
        patience=120,
    )


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Iterator[Scene]:
    kubelet, hub = Exposed(""), Hub()
    api, apps = control_plane.api, fresh.namespace("idle")
    with prometheus(tmp_path, {"cadvisor": kubelet.address}) as url:
        scene = Scene(plane=control_plane, apps=apps, folder=tmp_path, kubelet=kubelet, hub=hub, prometheus=url)
        core, rights = f"/api/v1/namespaces/{apps}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{apps}"
        for account in (WORKLOADS, "hub"):
            api.create(f"{core}/serviceaccounts", {"metadata": {"name": account}})
        api.create(f"/apis/coordination.k8s.io/v1/namespaces/{apps}/leases", {"metadata": {"name": WORKLOADS}})
        for kind in ("Role", "RoleBinding"):
            api.create(f"{rights}/{kind.lower()}s", scene.rendered(kind, WORKLOADS))
        Provisioner(api, ignore=[REPLICAS]).create(scene.path, scene.rendered("StatefulSet", "hub"))
        scene.become(1)
        scene.expose()
        yield scene
    hub.end()
    kubelet.close()


def test_a_hub_with_a_connected_user_stays_and_without_one_sleeps_until_the_opening(scene: Scene) -> None:
    claim, scene.hub.answer = scene.claim(), (200, [CONNECTED])
    scene.write(ALWAYS_NIGHT)
    with scene.leader("one") as process:
        stays = reported(process, "in-use")
        assert (stays["state"], stays["activity"]) == ("awake", "a user of the hub has a server")
        assert scene.replicas() == 1
    scene.hub.answer = (200, [])
    with scene.leader("two"):
        scene.become(0)
        eventually(lambda: "IdleForLong" in scene.reasons(), what="the Event of the sleep")
    scene.kubelet.text = None
    with scene.leader("three") as process:  # it remembers nothing, and there is nothing to measure
        assert reported(process, "outside-business-hours")["state"] == "asleep"
    scene.write(ALWAYS_DAY)  # while no controller runs
    assert (scene.replicas(), scene.claim()) == (0, claim)
    with scene.leader("four"):
        scene.become(1)
        eventually(lambda: "BusinessHours" in scene.reasons(), what="the Event of the opening")
    assert scene.claim() == claim
    scene.run()
    scene.write(ALWAYS_NIGHT)
    with scene.leader("five") as process:  # a pod whose samples are missing
        doubt = reported(process, "not-known-idle")
        assert "Prometheus has no container_cpu_usage_seconds_total of hub-0" in doubt["note"]
        _, metrics = process.get("/metrics")
        assert 'state="awake",why="not-known-idle"' in metrics
        assert scene.replicas() == 1


def test_its_account_may_list_pods_and_change_none(scene: Scene) -> None:
    api = KubeApi(from_kubeconfig(str(scene.plane.kubeconfig_as(scene.apps, WORKLOADS))))
    pods = f"/api/v1/namespaces/{scene.apps}/pods"

    assert [pod["metadata"]["name"] for pod in api.get(pods)["items"]] == ["hub-0"]
    for act in (api.delete, api.get):
        with pytest.raises(ApiError) as error:
            act(f"{pods}/hub-0")
        assert error.value.status == 403
