"""Two autoscalers with floors as they are rendered, the account that may write them, and its process."""

import json
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from control_plane.plane.driver import ControlPlane

from components.definitions import release
from components.ownership import MIN_REPLICA_COUNT, MIN_REPLICAS
from controllers.adapters.kube_api import ApiError, Json
from ebbtide.operate.release import owners_of
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import WORKLOADS
from ebbtide.vocabulary.workloads import PlannedEvent, WorkloadsConfig
from tests.builders.control_plane import Fresh, eventually
from tests.builders.operation import ALWAYS_NIGHT, Process, leading
from tests.builders.recorded import record
from tests.builders.workloads.services import services_stack
from tests.control_plane.support.ownership import Provisioner

_RENDERED = (
    ("min: 2, max: 12", "min: 2, max: 12, floor: calendar, open: 4"),
    ("min: 1, max: 6", "min: 1, max: 6, floor: calendar, open: 2"),
)
KINDS = {
    "ranker": ("/apis/autoscaling/v2", "HorizontalPodAutoscaler", MIN_REPLICAS),
    "embedder-small": ("/apis/keda.sh/v1alpha1", "ScaledObject", MIN_REPLICA_COUNT),
}


@cache
def _resources() -> tuple[Resource, ...]:
    return record(services_stack(*_RENDERED))


@dataclass(frozen=True, kw_only=True)
class FloorScene:
    plane: ControlPlane
    fresh: Fresh
    apps: str
    folder: Path
    workers: str = "none"

    @property
    def file(self) -> Path:
        return self.folder / "workloads.json"

    def rendered(self, kind: str, name: str) -> Json:
        """As the program declares it, in the namespace of this scene."""
        (found,) = [it for it in _resources() if kind_of(it) == kind and name_of(it) == name]
        text = json.dumps(dict(found.inputs), default=dict)
        text = text.replace("serviceaccount:ebbtide:", f"serviceaccount:{self.apps}:")
        return json.loads(text.replace('"namespace": "ebbtide"', f'"namespace": "{self.apps}"'))

    def path(self, name: str) -> str:
        api, kind, _ = KINDS[name]
        return f"{api}/namespaces/{self.apps}/{kind.lower()}s/{name}"

    def provisioner(self, name: str) -> Provisioner:
        return Provisioner(self.plane.api, ignore=[KINDS[name][2]])

    def up(self, name: str, **labels: str) -> None:
        """An update of the program, which changes these labels and nothing else."""
        body = self.rendered(KINDS[name][1], name)
        body["metadata"]["labels"] |= labels
        self.provisioner(name).update(self.path(name), body)

    def floor(self, name: str) -> int:
        return self.plane.api.get(self.path(name))["spec"][_field(name)]

    def owners(self, name: str) -> list[str]:
        return owners_of(self.plane.api.get(self.path(name))["metadata"]["managedFields"], ("spec", _field(name)))

    def owned(self, name: str) -> set[str]:
        """All that the controller owns of the object."""
        entries = self.plane.api.get(self.path(name))["metadata"]["managedFields"]
        fields = [it["fieldsV1"] for it in entries if it["manager"] == WORKLOADS]
        return {f"{above}.{key}" for it in fields for above, inner in it.items() for key in inner}

    def config(self, *events: PlannedEvent, lead: timedelta = timedelta()) -> WorkloadsConfig:
        """The rendered one; it is always night, and these events come."""
        whole = load(WorkloadsConfig, self.rendered("ConfigMap", WORKLOADS)["data"]["workloads.json"])
        floors = tuple(
            replace(it, namespace=self.apps, lead=lead, events=events) for it in whole.floors if it.name in KINDS
        )
        return replace(whole, namespace=self.apps, hours=ALWAYS_NIGHT, floors=floors)

    def write(self, config: WorkloadsConfig) -> None:
        """Swapped, as Kubernetes does with a mounted ConfigMap."""
        new = self.file.with_suffix(".new")
        new.write_text(dump(config))
        new.replace(self.file)

    def leader(self, name: str = "one") -> AbstractContextManager[Process]:
        account = self.plane.kubeconfig_as(self.apps, WORKLOADS)
        process = Process(name, self, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - file, folder and apps are all it takes
        return leading(process)


def event(begins: datetime, lasting: timedelta, pods: int) -> tuple[PlannedEvent, timedelta]:
    """An event that stands from that very instant on, and the lead that makes it so: its time is of whole minutes."""
    at = begins.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    whole = PlannedEvent(day=at.date(), at=at.hour * 60 + at.minute, lasting=lasting - (at - begins), pods=pods)
    return whole, at - begins


def _field(name: str) -> str:
    return KINDS[name][2].removeprefix("spec.")


@contextmanager
def make_floor_scene(plane: ControlPlane, fresh: Fresh, folder: Path) -> Generator[FloorScene]:
    _define(plane)
    scene = FloorScene(plane=plane, fresh=fresh, apps=fresh.namespace("floors"), folder=folder)
    api = plane.api
    api.create(f"/api/v1/namespaces/{scene.apps}/serviceaccounts", {"metadata": {"name": WORKLOADS}})
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{scene.apps}/leases", {"metadata": {"name": WORKLOADS}})
    rights = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{scene.apps}"
    for kind in ("Role", "RoleBinding"):
        api.create(f"{rights}/{kind.lower()}s", scene.rendered(kind, WORKLOADS))
    admission = "/apis/admissionregistration.k8s.io/v1"
    for resource in ("horizontalpodautoscalers", "scaledobjects"):
        own = f"{scene.apps}-{resource}"
        for kind, path in (("", "validatingadmissionpolicies"), ("Binding", "validatingadmissionpolicybindings")):
            body = scene.rendered(f"ValidatingAdmissionPolicy{kind}", f"ebbtide-{resource}")
            body["metadata"]["name"] = own
            if kind:
                body["spec"]["policyName"] = own
            fresh.create(f"{admission}/{path}", body)
    for name in KINDS:
        scene.provisioner(name).create(scene.path(name), scene.rendered(KINDS[name][1], name))
    scene.write(scene.config())
    yield scene


def _define(plane: ControlPlane) -> None:
    """KEDA's definition of a ScaledObject; stays, for it is the same for all tests."""
    (crd,) = [it for it in release("keda")["crds"] if it["metadata"]["name"] == "scaledobjects.keda.sh"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
    kind: dict[str, Any] = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}

    def served() -> bool:
        try:
            found = plane.api.get(path)
        except ApiError:
            plane.api.apply(path, {**kind, **crd}, manager="keda")
            return False
        return "deletionTimestamp" not in found["metadata"] and "items" in plane.api.get(
            "/apis/keda.sh/v1alpha1/scaledobjects"
        )

    eventually(served, what="the definition")
