"""Disks of a stateful service on a real API server, with its binder of claims: restored, and after a destroy.

There is no EBS: a disk is a PersistentVolume that the test makes by hand, with what the volume's class says.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.stack import APPLY, add_group_node, install

from controllers.adapters.kube_api import ApiError, Json
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import NAMESPACE
from tests.builders.control_plane import eventually
from tests.builders.settings import loaded, shortest
from tests.paths import ROOT

pytestmark = pytest.mark.control_plane

STACK = shortest(
    more="""
  ebbtide:workloads:
    db:
      category: fixed
      kind: stateful-set
      image: "postgres:16"
      cpu: 1
      memory: 1Gi
      volumes: { data: { perPod: 100Gi, at: /data, snapshots: { every: 24h, keep: 7 } } }
"""
)
CLASS, CLAIM, POD = "ebbtide.db.data", "data-db-0", "db-0"
PAGE = (ROOT / "docs" / "how-to" / "life.md").read_text(encoding="utf-8")


class Service:
    """The stack with its service `db`, and an administrator with kubectl."""

    def __init__(self, plane: ControlPlane, settings: StackSettings, folder: Path) -> None:
        self.plane = plane
        self._settings = settings
        self._folder = folder

    def up(self) -> None:
        install(self.plane, self._settings, self._folder)
        self.until_running()

    def again(self) -> None:
        self.plane.kubectl(*APPLY, "-f", str(self._folder / "kubernetes"))

    def down(self) -> None:
        """The namespace goes, and the claims with it; classes and PersistentVolumes are in none."""
        self.plane.kubectl("delete", "--wait=false", "--ignore-not-found", "-f", str(self._folder / "kubernetes"))
        eventually(lambda: self.find(f"/api/v1/namespaces/{NAMESPACE}") is None, what="no namespace", patience=90)

    def kubectl(self, command: str) -> str:
        return self.plane.kubectl("--namespace", NAMESPACE, *command.split())

    def find(self, path: str) -> Json | None:
        try:
            return self.plane.api.get(path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    def claim(self) -> Json:
        return self.plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{CLAIM}")

    def disk(self, name: str) -> Json:
        return self.plane.api.get(f"/api/v1/persistentvolumes/{name}")

    def make_disk(self, name: str) -> None:
        """As the driver would for the claim: what becomes of the disk in the end, its class says."""
        claim = eventually(self.claim, what="the claim, by its StatefulSet")["metadata"]
        class_ = self.plane.api.get(f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}")
        spec: dict[str, Any] = {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": class_["reclaimPolicy"],
            "csi": {"driver": class_["provisioner"], "volumeHandle": f"vol-{name}"},
            "claimRef": {key: claim[key] for key in ("namespace", "name", "uid")},
        }
        self.plane.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})

    def until_running(self) -> None:
        def running() -> bool:
            pod = self.find(f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}")
            return pod is not None and pod["status"].get("phase") == "Running"

        eventually(running, what=f"{POD} to run", patience=60)

    def until_released(self, name: str) -> None:
        """Then the driver deletes it, unless it is to be kept."""
        eventually(lambda: self.disk(name)["status"]["phase"] == "Released", what=f"disk {name} to be released")
        if self.disk(name)["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            self.plane.api.delete(f"/api/v1/persistentvolumes/{name}")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    settings = loaded(STACK, tmp_path)
    with ControlPlane() as plane:
        for number in range(2):
            add_group_node(plane, settings, "fixed", f"fixed-{number}")
        service = Service(plane, settings, tmp_path / "rendered")
        install(plane, settings, tmp_path / "rendered")
        service.make_disk("first")
        service.until_running()
        yield service


def steps() -> tuple[str, str]:
    """From the page: the manifest of a restored disk with its claim, and what stops the service before."""
    section = PAGE.partition("## Restoring a disk from a snapshot")[2].partition("\n## ")[0]
    (manifest,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    stop = next(text for text in re.findall(r"```shell\n(.*?)```", section, re.DOTALL) if "delete pvc" in text)
    return dedent(manifest), dedent(stop)


def test_a_restored_disk_is_taken_up_by_the_pod_whose_claim_was_made_for_it(service: Service, tmp_path: Path) -> None:
    manifest, stop = steps()
    assert service.claim()["spec"]["volumeName"] == "first"

    for command in stop.splitlines():
        service.kubectl(command.removeprefix(f"kubectl -n {NAMESPACE} "))
    service.until_released("first")
    restored = tmp_path / "restored.yaml"
    restored.write_text(manifest.replace("eu-central-1a", "zone-a"), encoding="utf-8")
    service.kubectl(f"apply --validate=strict -f {restored}")
    made = service.claim()["metadata"]["uid"]
    service.kubectl("scale statefulset db --replicas=1")
    service.until_running()

    claim = service.claim()
    assert claim["metadata"]["uid"] == made
    assert (claim["status"]["phase"], claim["spec"]["volumeName"]) == ("Bound", "data-db-0-restored")
    assert service.disk("first")["status"]["phase"] == "Released"
    service.again()
    assert service.claim()["metadata"]["uid"] == made


def test_without_its_set_a_claim_keeps_its_disk(service: Service) -> None:
    service.kubectl("delete statefulset db")

    assert service.claim()["status"]["phase"] == "Bound"
    service.again()
    service.until_running()
    assert service.claim()["spec"]["volumeName"] == "first"


def test_a_disk_outlives_a_destroy_and_the_next_stack_takes_it_up(service: Service) -> None:
    service.down()
    service.until_released("first")

    (patch,) = re.findall(r"kubectl patch pv NAME -p '(\S*claimRef\S*)'", PAGE)
    service.kubectl(f"patch pv first -p {patch}")
    service.up()

    assert service.claim()["spec"]["volumeName"] == "first"
