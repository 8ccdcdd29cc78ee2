"""Workloads that sleep: the workload controller's process with its rendered rights, on real objects with a claim."""

import json
import subprocess
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from control_plane.plane.driver import ControlPlane
from typer.testing import CliRunner

from components.ownership import REPLICAS
from controllers.adapters.kube_api import APPLY, ApiError, Json, KubeApi, from_kubeconfig
from controllers.doubt import TRUST
from controllers.workloads.loop import LoopCounters, WorkloadsLoop
from controllers.workloads.sleep.scales import sleepers
from ebbtide.cli.__main__ import app
from ebbtide.operate.release import owners_of, release_from_autoscaler
from ebbtide.provisioning_labels import NodeKind
from ebbtide.recording.output import document
from ebbtide.recording.resources import Resource, kind_of, name_of
from ebbtide.settings.model import StackSettings
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.labels import CONTROLLER, NODE_KIND, WAKE_UNTIL, WORKLOAD, WORKLOADS
from ebbtide.vocabulary.windows import BusinessHours, WeeklyInterval
from ebbtide.vocabulary.workloads import WorkloadsConfig
from tests.builders.control_plane import Fresh, eventually, reasons
from tests.builders.controllers import config as controller_config
from tests.builders.operation import ALWAYS_NIGHT, Process, leading
from tests.builders.recorded import record
from tests.builders.workloads.sleeping import sleeping_stack
from tests.control_plane.support.ownership import Provisioner
from tests.harness.api_proxy import ApiProxy

pytestmark = pytest.mark.control_plane

KINDS = {"board": "StatefulSet", "notes": "Deployment", "rank": "Deployment"}
AWAKE = {"board": 1, "notes": 2, "rank": 1}
ASLEEP = dict.fromkeys(KINDS, 0)
ALWAYS_DAY = BusinessHours(timezone="UTC", week=tuple(WeeklyInterval(day, 0, 1440) for day in range(7)))
ARGO = "argocd-controller"


@cache
def _resources() -> tuple[Resource, ...]:
    return record(sleeping_stack())


@dataclass(frozen=True, kw_only=True)
class Scene:
    plane: ControlPlane
    apps: str
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "workloads.json"

    def rendered(self, kind: str, name: str) -> Json:
        (resource,) = [it for it in _resources() if kind_of(it) == kind and name_of(it) == name]
        text = json.dumps(dict(resource.inputs), default=dict)
        return json.loads(text.replace('"namespace": "ebbtide"', f'"namespace": "{self.apps}"'))

    def path(self, name: str) -> str:
        return f"/apis/apps/v1/namespaces/{self.apps}/{KINDS[name].lower()}s/{name}"

    def config(self, hours: BusinessHours) -> WorkloadsConfig:
        return self.here(load(WorkloadsConfig, self.rendered("ConfigMap", WORKLOADS)["data"]["workloads.json"]), hours)

    def here(self, config: WorkloadsConfig, hours: BusinessHours) -> WorkloadsConfig:
        sleepers = tuple(replace(policy, namespace=self.apps) for policy in config.sleepers)
        return replace(config, namespace=self.apps, hours=hours, sleepers=sleepers)

    def write(self, hours: BusinessHours) -> None:
        self.mount(self.config(hours))

    def mount(self, config: WorkloadsConfig) -> None:
        """Swapped, as Kubernetes does with a mounted ConfigMap."""
        new = self.file.with_suffix(".new")
        new.write_text(dump(config))
        new.replace(self.file)

    def apply_rendered(self, settings: StackSettings, hours: BusinessHours) -> str:
        """Apply the rendered files that concern these workloads; return the conflicts. All else is applied.

        The document is written and mounted with this namespace and these hours.
        """
        resources, wanted = record(settings), {("Role", WORKLOADS), *((kind, name) for name, kind in KINDS.items())}
        of_these = [it for it in resources if (kind_of(it), name_of(it)) in wanted]
        text = "".join(document(it) for it in of_these).replace("namespace: ebbtide\n", f"namespace: {self.apps}\n")
        try:
            self.plane.kubectl("apply", "--server-side", "-f", "-", stdin=text)
            conflicts = ""
        except subprocess.CalledProcessError as error:
            conflicts = error.stderr
        (held,) = [it for it in resources if (kind_of(it), name_of(it)) == ("ConfigMap", WORKLOADS)]
        config = self.here(load(WorkloadsConfig, held.inputs["data"]["workloads.json"]), hours)
        written = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": WORKLOADS}}
        written["data"] = {"workloads.json": dump(config)}
        path = f"/api/v1/namespaces/{self.apps}/configmaps/{WORKLOADS}"
        self.plane.api.patch(path, written, APPLY, fieldManager="kubectl")
        self.mount(config)
        return conflicts

    def start_from_rendered_files(self) -> None:
        """Replace the program's objects by those of rendered files, at night, with the scaler's document beside."""
        scaler = {"metadata": {"name": CONTROLLER}, "data": {"config.json": dump(controller_config())}}
        self.plane.api.create(f"/api/v1/namespaces/{self.apps}/configmaps", scaler)
        made = [f"{kind.lower()}/{name}" for name, kind in KINDS.items()]
        self.plane.kubectl("delete", f"--namespace={self.apps}", f"role/{WORKLOADS}", *made)
        assert not self.apply_rendered(sleeping_stack(), ALWAYS_NIGHT)

    def ebbtide(self, *arguments: str) -> str:
        kubeconfig = ("--kubeconfig", str(self.plane.kubeconfig), "--namespace", self.apps)
        result = CliRunner().invoke(app, [*arguments, *kubeconfig])
        assert result.exit_code in (0, 1), result.output  # `status` ends with 1 without a scaler
        return result.output

    def leader(self, name: str, server: str = "") -> AbstractContextManager[Process]:
        """`server`: the URL of a proxy before the API server."""
        account = self.plane.kubeconfig_as(self.apps, WORKLOADS)
        if server:
            access = json.loads(account.read_text())
            access["clusters"][0]["cluster"] = {"server": server}
            account.write_text(json.dumps(access))
        process = Process(name, self, kubeconfig=account, module="controllers.workloads")  # pyright: ignore[reportArgumentType] - file, folder and apps are all it takes
        return leading(process)

    def replicas(self) -> dict[str, int]:
        return {name: self.plane.api.get(self.path(name))["spec"].get("replicas", 0) for name in KINDS}

    def owners(self, name: str) -> list[str]:
        return owners_of(self.plane.api.get(self.path(name))["metadata"]["managedFields"], ("spec", "replicas"))

    def pods(self) -> int:
        return len(self.plane.api.get(f"/api/v1/namespaces/{self.apps}/pods")["items"])

    def claim(self) -> str:
        """Return the uid of the StatefulSet's claim; empty if there is none."""
        claims = self.plane.api.get(f"/api/v1/namespaces/{self.apps}/persistentvolumeclaims")["items"]
        return next((it["metadata"]["uid"] for it in claims if "deletionTimestamp" not in it["metadata"]), "")

    def reasons(self) -> set[str]:
        return reasons(self.plane.api, self.apps, WORKLOADS)

    def become(self, replicas: dict[str, int]) -> None:
        eventually(lambda: self.replicas() == replicas, what=f"{replicas}")
        eventually(lambda: self.pods() == sum(replicas.values()), what=f"the pods of {replicas}")


@pytest.fixture
def scene(control_plane: ControlPlane, fresh: Fresh, tmp_path: Path) -> Scene:
    scene = Scene(plane=control_plane, apps=fresh.namespace("sleep"), folder=tmp_path)
    api = control_plane.api
    core, rights = f"/api/v1/namespaces/{scene.apps}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{scene.apps}"
    for account in (WORKLOADS, *KINDS):
        api.create(f"{core}/serviceaccounts", {"metadata": {"name": account}})
    api.create(f"/apis/coordination.k8s.io/v1/namespaces/{scene.apps}/leases", {"metadata": {"name": WORKLOADS}})
    for kind in ("Role", "RoleBinding"):
        api.create(f"{rights}/{kind.lower()}s", scene.rendered(kind, WORKLOADS))
    for name, kind in KINDS.items():
        Provisioner(api, ignore=[REPLICAS]).create(scene.path(name), scene.rendered(kind, name))
    scene.become(AWAKE)
    return scene


def test_they_sleep_and_wake_and_a_killed_controller_changes_nothing(scene: Scene) -> None:
    claim = scene.claim()
    assert claim
    scene.write(ALWAYS_NIGHT)
    with scene.leader("one") as process:
        scene.become(ASLEEP)
        expected = {name: (kind, "asleep", "outside-business-hours") for name, kind in KINDS.items()}

        def reported() -> bool:  # once the controller has seen its own writes
            rows = process.status()["workloads"]
            return {it["name"]: (it["kind"], it["state"], it["why"]) for it in rows} == expected

        eventually(reported, what="the reports")
        eventually(lambda: "OutsideBusinessHours" in scene.reasons(), what="the closing's Events")
    scene.write(ALWAYS_DAY)  # while no controller runs
    assert (scene.replicas(), scene.claim()) == (ASLEEP, claim)
    for name, kind in KINDS.items():  # an update by night
        Provisioner(scene.plane.api, ignore=[REPLICAS]).update(scene.path(name), scene.rendered(kind, name))
    assert scene.replicas() == ASLEEP
    with scene.leader("two"):
        scene.become(AWAKE)
        eventually(lambda: "BusinessHours" in scene.reasons(), what="the opening's Events")
    assert scene.claim() == claim
    assert {name: scene.owners(name) for name in KINDS} == {name: [WORKLOADS] for name in KINDS}


def test_without_sleep_the_program_writes_the_number_again_once_it_is_released(scene: Scene) -> None:
    without, body = Provisioner(scene.plane.api, ignore=[]), scene.rendered("Deployment", "notes")
    body["spec"]["replicas"] = 3
    scene.write(ALWAYS_NIGHT)
    with scene.leader("one"):
        scene.become(ASLEEP)
    with pytest.raises(ApiError, match=WORKLOADS) as error:
        without.update(scene.path("notes"), body)
    assert error.value.status == 409
    (released,) = release_from_autoscaler(scene.plane.api, scene.apps, ["notes"])
    assert released.done
    assert scene.replicas() == ASLEEP
    without.update(scene.path("notes"), body)
    assert scene.replicas() == {**ASLEEP, "notes": 3}


def test_behind_the_api_servers_clock_they_wake_when_that_one_says_open(scene: Scene) -> None:
    """By this machine's clock it opens in 70 minutes; the server's, as its answers show it, is 90 minutes ahead."""
    opening = datetime.now(UTC) + timedelta(minutes=70)
    start = opening.hour * 60 + opening.minute
    week = tuple(WeeklyInterval(day, start, start + 720) for day in range(7))
    scene.write(BusinessHours(timezone="UTC", week=week))
    with scene.leader("one"):
        scene.become(ASLEEP)
    authority = str(scene.plane.configuration().ssl_ca_cert)
    with ApiProxy(scene.plane.url, authority) as proxy:
        proxy.ahead = timedelta(minutes=90)
        with scene.leader("two", proxy.url) as process:
            scene.become(AWAKE)

            def told() -> bool:  # once the controller has seen its own writes
                reports = process.status()["workloads"]
                whys = {it["name"]: (it["state"], it["why"]) for it in reports}
                return whys == dict.fromkeys(KINDS, ("awake", "business-hours")) and all(
                    "the API server is" in it["note"] and "s ahead of ours" in it["note"] for it in reports
                )

            eventually(told, what="the condition of each")
            eventually(lambda: "BusinessHours" in scene.reasons(), what="the opening's Events")
            assert process.status()["clocks"] == process.status()["workloads"][0]["note"]
    with scene.leader("three"):
        scene.become(ASLEEP)


def test_beside_another_writer_it_holds(scene: Scene) -> None:
    scene.write(ALWAYS_NIGHT)
    with scene.leader("one") as process:
        scene.become(ASLEEP)
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "notes"}, "spec": {"replicas": 2}}
        scene.plane.api.patch(scene.path("notes"), body, APPLY, fieldManager=ARGO, force="true")

        def holds() -> bool:
            reports = {it["name"]: it for it in process.status()["workloads"]}
            notes = reports.get("notes", {"why": "nothing was reconciled yet"})
            return notes["why"] == "another-writer-of-replicas" and ARGO in notes["note"]

        eventually(holds, what="the condition")
        assert scene.replicas() == {**ASLEEP, "notes": 2}
        _, metrics = process.get("/metrics")
        assert 'writes_total{workload="deployment ' + scene.apps + '/notes",outcome="done"} 1' in metrics
    with scene.leader("two") as process:  # it remembers nothing and holds as well
        eventually(holds, what="the condition")
        assert scene.owners("notes") == [ARGO]


def test_an_owner_that_declares_the_number_by_day_keeps_it_by_night(scene: Scene) -> None:
    """As Argo CD does whose Application does not ignore `/spec/replicas`: at each sync it writes its own number."""
    scene.plane.api.patch(scene.path("notes"), {"spec": {"replicas": 2}}, fieldManager="pulumi")
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "notes"}, "spec": {"replicas": 2}}
    scene.plane.api.patch(scene.path("notes"), body, APPLY, fieldManager=ARGO, force="true")
    scene.write(ALWAYS_NIGHT)
    with scene.leader("one") as process:
        scene.become({**ASLEEP, "notes": 2})
        notes = eventually(lambda: {it["name"]: it for it in process.status()["workloads"]}["notes"], what="the report")
        assert (notes["state"], notes["why"]) == ("awake", "another-writer-of-replicas")
        assert ARGO in notes["note"]


NEVER, NO_KEY = "sleep: { when: never }", "labels: {}"


def with_three_pods(settings: StackSettings) -> StackSettings:
    notes = settings.workloads["notes"].model_copy(update={"replicas": 3})
    return settings.model_copy(update={"workloads": {**settings.workloads, "notes": notes}})


def test_a_sleep_that_is_removed_in_two_steps_by_applied_files_is_awake_at_once_and_then_free(scene: Scene) -> None:
    """At night, so that only the end of the sleep can wake it."""
    scene.start_from_rendered_files()
    with scene.leader("one"):
        scene.become(ASLEEP)
        conflicts = scene.apply_rendered(sleeping_stack(notes=NEVER), ALWAYS_NIGHT)
        assert conflicts.count(f'1 conflict: conflict with "{WORKLOADS}" with subresource "scale": .spec.replicas') == 1
        scene.become({**ASLEEP, "notes": 2})
        assert not scene.apply_rendered(sleeping_stack(notes=NEVER), ALWAYS_NIGHT), "awake it is applied"
        assert {*scene.owners("notes")} == {WORKLOADS, "kubectl"}
        assert "owner now: kubectl" in scene.ebbtide("release", "notes")
        assert not scene.apply_rendered(with_three_pods(sleeping_stack(notes=NO_KEY)), ALWAYS_NIGHT)
        scene.become({**ASLEEP, "notes": 3})
        assert scene.owners("notes") == ["kubectl"]
    account = KubeApi(from_kubeconfig(str(scene.plane.kubeconfig_as(scene.apps, WORKLOADS))))
    with pytest.raises(ApiError, match="forbidden"):
        account.patch(f"{scene.path('notes')}/scale", {"spec": {"replicas": 0}})


def test_a_sleep_that_is_removed_in_one_step_is_listed_until_an_entry_wakes_it(scene: Scene) -> None:
    scene.start_from_rendered_files()
    with scene.leader("one"):
        scene.become(ASLEEP)
        assert json.loads(scene.ebbtide("status", "--json")).get("leftAsleep") is None
        assert WORKLOADS in scene.apply_rendered(sleeping_stack(notes=NO_KEY), ALWAYS_DAY)
        scene.become({**AWAKE, "notes": 0})
        listed = json.loads(scene.ebbtide("status", "--json"))["leftAsleep"]
        assert listed == [{"kind": "Deployment", "namespace": scene.apps, "name": "notes"}]
        assert WORKLOADS in scene.apply_rendered(sleeping_stack(notes=NEVER), ALWAYS_DAY)
        scene.become(AWAKE)
        assert json.loads(scene.ebbtide("status", "--json")).get("leftAsleep") is None


@pytest.mark.parametrize("writer", ["kubectl", "kube-controller-manager"])
def test_an_entry_that_never_slept_keeps_its_number_and_its_owner(scene: Scene, writer: str) -> None:
    owner = "replicasOwner: hpa, " if writer == "kube-controller-manager" else ""
    scale = {"spec": {"replicas": 0}}
    scene.plane.api.patch(f"{scene.path('notes')}/scale", scale, fieldManager=writer)
    scene.apply_rendered(sleeping_stack(notes=f"{owner}{NEVER}"), ALWAYS_DAY)
    with scene.leader("one") as process:

        def reported() -> bool:
            notes = {it["name"]: it for it in process.status()["workloads"]}.get("notes", {})
            return (notes.get("why"), notes.get("activity")) == ("never-sleeps", "remove its key sleep")

        eventually(reported, what="the report")
        _, metrics = process.get("/metrics")
        assert "/notes" not in "".join(line for line in metrics.splitlines() if "writes_total" in line)
    assert WORKLOADS not in scene.owners("notes")


def test_a_zero_of_another_manager_ends_at_the_opening_and_one_that_it_writes_again_stays(scene: Scene) -> None:
    """As Argo CD does whose Application has `replicas: 0`: once by a sync at night, and then with self-heal."""
    zero = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "notes"}, "spec": {"replicas": 0}}

    def argo() -> None:
        scene.plane.api.patch(scene.path("notes"), zero, APPLY, fieldManager=ARGO, force="true")

    def holds(process: Process) -> bool:
        notes = {it["name"]: it for it in process.status()["workloads"]}.get("notes", {"why": ""})
        return notes["why"] == "another-writer-of-replicas" and ARGO in notes["note"]

    scene.write(ALWAYS_NIGHT)
    with scene.leader("night"):
        scene.become(ASLEEP)
    argo()
    now = datetime.now(UTC)
    hour = (now + timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
    minute = hour.hour * 60
    hours = BusinessHours(timezone="UTC", week=(WeeklyInterval(hour.weekday(), minute, minute + 60),))
    opening = now + timedelta(seconds=6)  # a week knows whole minutes, so the lead makes it so soon
    config = scene.config(hours)
    scene.mount(replace(config, sleepers=tuple(replace(it, lead=hour - opening) for it in config.sleepers)))
    with scene.leader("opening") as process:
        scene.become(AWAKE)
        assert scene.owners("notes") == [WORKLOADS]
        assert datetime.now(UTC) >= opening
        argo()
        eventually(lambda: holds(process), what="the condition")
    with scene.leader("later") as process:  # it remembers nothing, and holds as well
        eventually(lambda: holds(process), what="the condition")
        assert scene.replicas() == {**AWAKE, "notes": 0}
        assert scene.owners("notes") == [ARGO]
        _, metrics = process.get("/metrics")
        assert not [line for line in metrics.splitlines() if "writes_total{" in line]
    reconcile_once(scene, config, hour + timedelta(days=7))
    assert scene.replicas()["notes"] == 2, "each opening wakes it once"


CLOCK_CHANGES = {  # Berlin's: the end of Saturday's hours, and Sunday's opening
    "autumn": (datetime(2026, 10, 24, 16, tzinfo=UTC), datetime(2026, 10, 25, 7, tzinfo=UTC)),
    "spring": (datetime(2027, 3, 27, 17, tzinfo=UTC), datetime(2027, 3, 28, 6, tzinfo=UTC)),
}


@pytest.mark.parametrize("season", CLOCK_CHANGES)
def test_over_a_clock_change_a_controller_that_starts_at_any_instant_has_the_same_night(
    scene: Scene, season: str
) -> None:
    """Each instant has a controller of its own, which remembers nothing of those before it."""
    closing, opening = CLOCK_CHANGES[season]
    hours = BusinessHours(timezone="Europe/Berlin", week=tuple(WeeklyInterval(day, 480, 1080) for day in range(7)))
    config, moment = scene.config(hours), timedelta(seconds=1)
    leads = {policy.name: policy.lead for policy in config.sleepers}
    middle = closing + (opening - closing) / 2
    for now in (closing - moment, closing, middle, *sorted(opening - lead for lead in set(leads.values()))):
        expected = {name: AWAKE[name] * (now < closing or now >= opening - leads[name]) for name in KINDS}
        reconcile_once(scene, config, now)
        assert scene.replicas() == expected, now
        reconcile_once(scene, config, now + moment)
        assert scene.replicas() == (expected if now >= closing else ASLEEP), now
    assert len(set(leads.values())) == 2


def reconcile_once(scene: Scene, config: WorkloadsConfig, now: datetime) -> None:
    """One turn of the production loop with the account's rights, at an instant of its own."""
    api = KubeApi(from_kubeconfig(str(scene.plane.kubeconfig_as(scene.apps, WORKLOADS))))
    kind = sleepers(api, config, lambda: None)
    loop = WorkloadsLoop(api, kind.workloads, may_write=lambda: True, tally=LoopCounters(), stream=StringIO())
    kind.start()
    try:
        eventually(lambda: not kind.trouble(), what="the caches")
        loop.reconcile(now, TRUST)
    finally:
        kind.close()
        loop.close()


def test_a_node_beside_workloads_that_sleep_is_drained(scene: Scene, fresh: Fresh) -> None:
    """Awake, `notes` keeps the node by its closed budget; asleep, the same budget keeps nothing."""
    api = scene.plane.api
    budgets = f"/apis/policy/v1/namespaces/{scene.apps}/poddisruptionbudgets"
    for name in KINDS:
        api.create(budgets, scene.rendered("PodDisruptionBudget", name))
    api.patch(f"{budgets}/rank", {"spec": {"maxUnavailable": 1}})
    node = fresh.node(labels={NODE_KIND: NodeKind.FLEXIBLE.value})
    drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")

    def pods_there() -> list[str]:
        pods = api.get(f"/api/v1/namespaces/{scene.apps}/pods", fieldSelector=f"spec.nodeName={node}")["items"]
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return sorted(pod["metadata"]["labels"][WORKLOAD] for pod in running)

    eventually(lambda: pods_there() == ["notes", "notes", "rank"], what="the pods on the node")
    with pytest.raises(subprocess.CalledProcessError, match="drain") as refused:
        scene.plane.kubectl(*drain, "--timeout=8s")
    assert "notes" in refused.value.stderr
    scene.plane.kubectl("uncordon", node)
    eventually(lambda: pods_there() == ["notes", "notes", "rank"], what="the pods on the node again")
    api.patch(scene.path("rank"), {"metadata": {"annotations": {WAKE_UNTIL: "2999-01-01T00:00:00Z"}}})
    scene.write(ALWAYS_NIGHT)
    with scene.leader("one"):
        eventually(lambda: scene.replicas() == {**ASLEEP, "rank": 1}, what="the sleep")
        assert api.get(f"{budgets}/notes")["spec"]["maxUnavailable"] == 0
        scene.plane.kubectl(*drain, "--timeout=45s")
        assert pods_there() == []


def test_an_operator_sends_a_workload_to_sleep_by_day_and_wakes_it(scene: Scene) -> None:
    api = scene.plane.api
    documents = {
        (CONTROLLER, "config.json"): dump(controller_config()),
        (WORKLOADS, "workloads.json"): dump(scene.config(ALWAYS_DAY)),
    }
    for (name, key), text in documents.items():
        body = {"metadata": {"name": name}, "data": {key: text}}
        api.create(f"/api/v1/namespaces/{scene.apps}/configmaps", body)

    assert "asleep until" in scene.ebbtide("sleep", "board", "--until", "2h")
    scene.write(ALWAYS_DAY)
    with scene.leader("one"):
        scene.become({**AWAKE, "board": 0})
        assert "by the calendar: awake" in scene.ebbtide("why", "workload", "board")
    scene.ebbtide("wake", "board", "--until", "2h")
    with scene.leader("two"):
        scene.become(AWAKE)
    assert "board" in scene.ebbtide("resume", "board")


def test_its_account_may_write_nothing_but_these_scales(scene: Scene) -> None:
    api = KubeApi(from_kubeconfig(str(scene.plane.kubeconfig_as(scene.apps, WORKLOADS))))
    for path in (scene.path("notes"), scene.path("notes").replace("notes", "other") + "/scale"):
        with pytest.raises(ApiError) as error:
            api.patch(path, {"spec": {"replicas": 0}})
        assert error.value.status == 403
