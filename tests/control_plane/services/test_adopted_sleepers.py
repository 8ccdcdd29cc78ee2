"""Charts that sleep: the workload controller's process with its rendered rights and policies, beside a team's tools.

No controller of Kubernetes runs, so that each number of replicas is the one that a tool or Ebbtide wrote.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner

from controllers.adapters.kube_api import APPLY, ApiError, Json, KubeApi, from_kubeconfig
from ebbtide.cli.__main__ import app
from ebbtide.operate.release import owners_of
from ebbtide.recording.output import output_files
from ebbtide.settings.load import stack_of_text
from ebbtide.settings.model import StackSettings
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.control_plane import eventually, reasons
from tests.builders.operation import ALWAYS_NIGHT, Process, leading
from tests.builders.recorded import record
from tests.builders.settings import shortest
from tests.control_plane.support.applying import Applying, objects_in, quiet_plane
from tests.harness.api_proxy import ApiFault, ApiProxy

pytestmark = pytest.mark.control_plane

TEAM = "jupyter"
ARGO, HELM, FLUX = "argocd-controller", "helm", "kustomize-controller"
STRATEGIC = "application/strategic-merge-patch+json"
HPAS = f"/apis/autoscaling/v2/namespaces/{TEAM}/horizontalpodautoscalers"
ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 1440) for day in range(7)))
KINDS = {"hub": "Deployment", "labels": "StatefulSet", "staging": "Deployment"}
KEPT = ("hub", "labels")
CLOCK = "outsideBusinessHours"


def stack(when: str = CLOCK, *, hub_sleeps: bool = True) -> StackSettings:
    """`when` is the hub's; `staging` has an owner whose number no policy keeps."""
    rules = list[str]()
    for name, kind in KINDS.items():
        kept = ", replicas: kept" if name in KEPT else ""
        scale = f"scale: {{ kind: {kind}, name: {name}{kept} }}"
        sleep = f", sleep: {{ when: {when if name == 'hub' else CLOCK}, {scale} }}"
        asleep = sleep if hub_sleeps or name != "hub" else ""
        keys = f"namespace: {TEAM}, selector: {{ app: {name} }}, category: fixed, replicas: 2, cpu: 1, memory: 1Gi"
        rules.append(f"{name}: {{ {keys}{asleep} }}")
    text = shortest(more="\n  ".join(['ebbtide:cluster: { version: "1.36" }\nebbtide:adopted:', *rules]))
    return stack_of_text(text, stack="acme", file="Pulumi.acme.yaml")


def manifest(name: str, replicas: int | None, image: str = "app:1") -> Json:
    labels = {"app": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    spec: Json = {"selector": {"matchLabels": labels}, "template": pod}
    if replicas is not None:
        spec["replicas"] = replicas
    if KINDS[name] == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": KINDS[name], "metadata": {"name": name, "namespace": TEAM}, "spec": spec}


@dataclass(frozen=True, kw_only=True)
class Scene:
    plane: ControlPlane
    folder: Path
    rendered: Path
    applying: Applying
    apps: str = NAMESPACE

    @property
    def file(self) -> Path:
        return self.folder / "workloads.json"

    def render(self, settings: StackSettings) -> None:
        """Apply the rendered files of this stack."""
        write_directory(self.rendered, output_files(record(settings)))
        self.applying.apply(objects_in(self.rendered))

    def config(self, hours: BusinessHours) -> WorkloadsConfig:
        held = self.plane.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{WORKLOADS}")
        return replace(load(WorkloadsConfig, held["data"]["workloads.json"]), hours=hours)

    def mount(self, hours: BusinessHours, **times: timedelta) -> None:
        """Swapped, as Kubernetes does with a mounted ConfigMap. `times` are those of each policy."""
        config = self.config(hours)
        config = replace(config, adopted_sleepers=tuple(replace(it, **times) for it in config.adopted_sleepers))
        new = self.file.with_suffix(".new")
        new.write_text(dump(config))
        new.replace(self.file)

    def close_at(self, closing: datetime) -> None:
        """Business hours know whole minutes: they ended at midnight, and the time after them makes it so exact."""
        midnight = closing.replace(hour=0, minute=0, second=0, microsecond=0)
        yesterday = (midnight - timedelta(days=1)).weekday()
        hours = BusinessHours(timezone="UTC", week=(WeeklyInterval(yesterday, 0, 1440),))
        self.mount(hours, after=closing - midnight)

    def open_at(self, opening: datetime) -> None:
        midnight = (opening + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        hours = BusinessHours(timezone="UTC", week=(WeeklyInterval(midnight.weekday(), 0, 1440),))
        self.mount(hours, lead=midnight - opening)

    def process(self, name: str, server: str = "") -> Process:
        account = self.plane.kubeconfig_as(NAMESPACE, WORKLOADS)
        if server:
            access = json.loads(account.read_text())
            access["clusters"][0]["cluster"] = {"server": server}
            account.write_text(json.dumps(access))
        return Process(name, self, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - file, folder and apps are all it takes

    def path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{TEAM}/{KINDS[name].lower()}s/{name}"

    def item(self, name: str) -> Json:
        return self.plane.api.get(self.path(name))

    def replicas(self, *names: str) -> list[int]:
        return [self.item(name)["spec"]["replicas"] for name in names]

    def owners(self, name: str) -> list[str]:
        return owners_of(self.item(name)["metadata"]["managedFields"], ("spec", "replicas"))

    def image(self, name: str) -> str:
        return self.item(name)["spec"]["template"]["spec"]["containers"][0]["image"]

    def become(self, *names: str, replicas: int) -> None:
        eventually(lambda: self.replicas(*names) == [replicas] * len(names), what=f"{replicas} of {names}")

    def applies(self, name: str, replicas: int | None, *, manager: str = ARGO, image: str = "app:1") -> None:
        """As a tool that applies on the server with force."""
        body = manifest(name, replicas, image)
        self.plane.api.patch(self.path(name), body, APPLY, fieldManager=manager, force="true")

    def upgrades(self, name: str, replicas: int, image: str) -> None:
        """As Helm, whose patch restores each value of its chart that differs from the present one."""
        self.plane.api.patch(self.path(name), manifest(name, replicas, image), STRATEGIC, fieldManager=HELM)

    def install(self, *names: str, replicas: int = 2) -> None:
        for name in names:
            path = self.path(name).rpartition("/")[0]
            self.plane.api.create(path, manifest(name, replicas), fieldManager=HELM)

    def report(self, process: Process, name: str) -> dict[str, Any]:
        return {it["name"]: it for it in process.status()["workloads"]}.get(name, {})

    def reports(self, process: Process, name: str, why: str, note: str) -> bool:
        report = self.report(process, name)
        return report.get("why") == why and note in report["note"]

    def ebbtide(self, *arguments: str) -> tuple[int, str]:
        kubeconfig = ("--kubeconfig", str(self.plane.kubeconfig), "--namespace", NAMESPACE)
        result = CliRunner().invoke(app, [*arguments, *kubeconfig])
        return result.exit_code, result.output


@pytest.fixture(scope="module")
def _plane() -> Iterator[tuple[ControlPlane, Applying]]:
    with quiet_plane() as plane:
        plane.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        yield plane, Applying(plane.api)


@pytest.fixture
def scene(_plane: tuple[ControlPlane, Applying], tmp_path: Path) -> Iterator[Scene]:
    plane, applying = _plane
    scene = Scene(plane=plane, folder=tmp_path, rendered=tmp_path / "rendered", applying=applying)
    scene.render(stack())
    scene.mount(ALWAYS_NIGHT)
    yield scene
    for path in [*map(scene.path, KINDS), *(f"{HPAS}/{it['metadata']['name']}" for it in plane.api.get(HPAS)["items"])]:
        try:
            plane.api.delete(path)
        except ApiError as error:
            if error.status != 404:
                raise


def await_policy(scene: Scene, name: str) -> None:
    """The API server knows the policy a moment after it was applied; the rest then holds at each write."""
    eventually(lambda: kept(scene, name), what="the policy to be in force")


def kept(scene: Scene, name: str) -> bool:
    body = manifest(name, scene.replicas(name)[0] + 1)
    answer = scene.plane.api.patch(scene.path(name), body, STRATEGIC, fieldManager=HELM, dryRun="All")
    return answer["spec"]["replicas"] == scene.replicas(name)[0]


@pytest.mark.parametrize("manager", [ARGO, FLUX])
def test_an_owner_that_resets_the_number_again_and_again_changes_it_neither_by_night_nor_by_day(
    scene: Scene, manager: str
) -> None:
    scene.install(*KEPT)
    for name in KEPT:
        scene.applies(name, 2, manager=manager)
        await_policy(scene, name)
    with leading(scene.process("night")):
        scene.become(*KEPT, replicas=0)
        for turn in range(5):
            for name in KEPT:
                scene.applies(name, 2 + turn % 2, manager=manager, image=f"app:{turn}")
                assert (scene.replicas(name), scene.image(name)) == ([0], f"app:{turn}")
        assert scene.owners("hub") == [manager], "the owner has the field, with the controller's number"
        eventually(lambda: "OutsideBusinessHours" in reasons(scene.plane.api, TEAM, WORKLOADS), what="the Events")
    scene.mount(ALWAYS_DAY)
    with leading(scene.process("day")) as process:
        scene.become(*KEPT, replicas=2)
        for turn in range(5):
            for name in KEPT:
                scene.applies(name, turn % 2, manager=manager)
                assert scene.replicas(name) == [2], "neither 0 nor 1 by day"
        eventually(lambda: scene.reports(process, "hub", "business-hours", ""), what="the report")
        assert not scene.report(process, "hub")["note"]


def test_an_upgrade_of_a_chart_while_it_sleeps_changes_the_image_and_wakes_nothing(scene: Scene) -> None:
    scene.install(*KEPT)
    await_policy(scene, "hub")
    with leading(scene.process("night")) as process:
        scene.become(*KEPT, replicas=0)
        for name in KEPT:
            scene.upgrades(name, 2, "app:2")
        assert (scene.replicas(*KEPT), scene.image("hub")) == ([0, 0], "app:2")
        assert scene.owners("hub") == [HELM]
        eventually(lambda: scene.reports(process, "hub", "outside-business-hours", ""), what="the report")
        assert not scene.report(process, "hub")["note"]
    scene.mount(ALWAYS_DAY)
    with leading(scene.process("day")):
        scene.become(*KEPT, replicas=2)


def test_without_the_policy_an_owner_that_writes_again_is_awake_until_the_next_closing(scene: Scene) -> None:
    """The first night takes the number over from the chart; its upgrade at night takes it back."""
    scene.install("staging")
    closing = datetime.now(UTC) + timedelta(seconds=6)
    scene.close_at(closing)
    with leading(scene.process("closing")) as process:
        scene.become("staging", replicas=0)
        assert datetime.now(UTC) >= closing
        scene.upgrades("staging", 2, "app:2")
        note = "helm writes its replicas, too; sleep.scale.replicas: kept keeps them"
        eventually(lambda: scene.reports(process, "staging", "another-writer-of-replicas", note), what="the condition")
    with leading(scene.process("later")) as process:  # it remembers nothing, and holds as well
        eventually(lambda: scene.reports(process, "staging", "another-writer-of-replicas", note), what="the condition")
        assert scene.replicas("staging") == [2]


def test_without_the_policy_a_lower_number_of_the_owner_rises_once_at_the_opening_and_is_then_held(
    scene: Scene,
) -> None:
    scene.install("staging", replicas=1)
    opening = datetime.now(UTC) + timedelta(seconds=6)
    scene.open_at(opening)
    with leading(scene.process("opening")) as process:
        scene.become("staging", replicas=2)
        assert datetime.now(UTC) >= opening
        scene.applies("staging", 1)
        note = f"holding at 1: {ARGO} writes its replicas, too"
        eventually(lambda: scene.reports(process, "staging", "another-writer-of-replicas", note), what="the condition")
    with leading(scene.process("later")) as process:
        eventually(lambda: scene.reports(process, "staging", "another-writer-of-replicas", note), what="the condition")
        assert scene.replicas("staging") == [1]


def test_while_the_controller_is_away_kubectl_scale_wakes_what_the_owner_cannot(scene: Scene) -> None:
    scene.install("hub")
    await_policy(scene, "hub")
    with leading(scene.process("night")):
        scene.become("hub", replicas=0)
    scene.applies("hub", 2)
    assert scene.replicas("hub") == [0]
    scene.plane.kubectl("-n", TEAM, "scale", "deployment/hub", "--replicas=2")
    assert scene.replicas("hub") == [2]


def test_an_api_server_that_is_away_over_the_opening_delays_it_and_no_more(scene: Scene) -> None:
    scene.install(*KINDS)
    await_policy(scene, "hub")
    scene.mount(ALWAYS_NIGHT)
    with leading(scene.process("night")):
        scene.become(*KEPT, replicas=0)
    authority = str(scene.plane.configuration().ssl_ca_cert)
    with ApiProxy(scene.plane.url, authority) as proxy, leading(scene.process("opening", proxy.url)):
        proxy.fault = ApiFault.ERROR
        scene.mount(ALWAYS_DAY)
        eventually(lambda: proxy.hits[ApiFault.ERROR] > 5, what="requests that fail")
        assert scene.replicas(*KEPT) == [0, 0]
        proxy.fault = ApiFault.NONE
        scene.become(*KEPT, replicas=2)


def test_a_rule_is_removed_in_two_steps_at_night_and_its_owner_has_the_number_again(scene: Scene) -> None:
    scene.install("hub")
    await_policy(scene, "hub")
    with leading(scene.process("one")):
        scene.become("hub", replicas=0)
        scene.upgrades("hub", 2, "app:2")
        assert scene.owners("hub") == [HELM], "the controller no longer owns the number that it wrote"
    scene.render(stack("never"))
    scene.mount(ALWAYS_NIGHT)
    code, text = scene.ebbtide("release", "hub")
    assert (code, scene.replicas("hub")) == (1, [0]), text
    with leading(scene.process("two")):
        scene.become("hub", replicas=2)
        code, text = scene.ebbtide("release", "hub")
        assert code == 0, text
        scene.render(stack(hub_sleeps=False))
        scene.mount(ALWAYS_NIGHT)
    assert WORKLOADS not in scene.owners("hub")
    eventually(lambda: not kept(scene, "hub"), what="the policy to let it go")
    scene.applies("hub", 3)
    assert scene.replicas("hub") == [3]


def test_what_an_autoscaler_or_an_operator_scales_is_never_lowered_and_wakes_if_it_slept(scene: Scene) -> None:
    scene.install(*KEPT)
    await_policy(scene, "hub")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hub"}
    hpa = {"metadata": {"name": "grows"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5}}
    owner = {"apiVersion": "postgresql.cnpg.io/v1", "kind": "Cluster", "name": "main", "uid": "1"}
    scene.plane.api.patch(scene.path("labels"), {"metadata": {"ownerReferences": [owner]}})
    with leading(scene.process("one")) as process:
        scene.become("hub", replicas=0)
        noted = "it does not sleep: Cluster main owns it, whose operator writes its replicas"
        eventually(lambda: scene.reports(process, "labels", "owned-by-an-operator", noted), what="the condition")
        assert scene.replicas("labels") == [2]
        scene.applies("labels", 3)
        assert scene.replicas("labels") == [3], "its operator's number counts"
    scene.plane.api.create(HPAS, hpa)
    with leading(scene.process("two")) as process:
        scene.become("hub", replicas=2)
        noted = "it does not sleep: HorizontalPodAutoscaler grows scales it"
        eventually(lambda: scene.reports(process, "hub", "scaled-by-an-autoscaler", noted), what="the condition")
        assert scene.replicas(*KEPT) == [2, 3]


def test_its_account_may_write_nothing_but_these_scales_there(scene: Scene) -> None:
    scene.install("hub")
    api = KubeApi(from_kubeconfig(str(scene.plane.kubeconfig_as(NAMESPACE, WORKLOADS))))
    other = scene.path("hub").replace("/hub", "/other")
    for path in (scene.path("hub"), f"{other}/scale", f"{HPAS}/grows"):
        with pytest.raises(ApiError) as error:
            api.patch(path, {"spec": {"replicas": 0}})
        assert error.value.status == 403
    api.patch(f"{scene.path('hub')}/scale", {"spec": {"replicas": 1}})
