"""The rendered Prometheus and Alertmanager, real ones, on a real API server: with the rights of the rendered account.

Pods have addresses of this machine (127/8), so what Kubernetes' discovery finds is scraped as it is found. The pods'
pages are Ebbtide's own, of a controller without a Lease; the kubelet's are a few lines of a stand-in, which looks up
who asks as a kubelet does.
"""

import json
import os
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from control_plane.plane.binaries import ALERTMANAGER, OF_MONITORING, PROMETHEUS, PROMTOOL, find, how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.enclosure import enclosure_refused

from components.monitoring.alerting import DEAD_MAN_DIRECTORY, SECRET_DIRECTORY
from components.monitoring.scraping import DIRECTORY, TOKEN_DIRECTORY
from controllers.adapters.metrics import FORMAT
from controllers.adapters.server import Server
from ebbtide.recording.output import output_files
from ebbtide.settings.file.problems import SECRET
from ebbtide.settings.model import StackSettings
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.labels import WORKLOAD
from tests.builders.authority import AUTHORITY
from tests.builders.control_plane import eventually
from tests.builders.monitoring.bundled import HELD, on_an_existing_cluster, settings
from tests.builders.monitoring.expositions import of_the_scaler
from tests.builders.monitoring.own_prometheus import KubeletPages, Process, address, hurried, moved, quick, write
from tests.builders.monitoring.rule_files import at_once
from tests.builders.monitoring.servers import Receiver, asked
from tests.builders.recorded import record
from tests.builders.stack import Recorded

pytestmark = pytest.mark.control_plane

ACCOUNT = "ebbtide-prometheus"
BEAT = 1.0  # seconds between two messages of the dead man's alert, here
NET = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250)}"
JOBS = {
    *("ebbtide/ebbtide", "ebbtide/ebbtide-pods", "ebbtide-workers/ebbtide-pods"),
    *("kubelet", "kubelet-resource", "cadvisor"),
}
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True, kw_only=True)
class Site:
    plane: ControlPlane
    folder: Path
    prometheus: Process
    alertmanager: Process
    told: Receiver
    missed: Receiver  # where the dead man's alert goes

    def up(self) -> dict[str, str]:
        """By job, of the targets that were found."""
        return {one["metric"]["job"]: one["value"][1] for one in self.prometheus.ask("up")}

    def beats(self) -> int:
        return sum(alert["labels"]["alertname"] == "EbbtideDeadMan" for alert in self.missed.alerts)

    def held_alerts(self) -> list[Any]:
        """By Alertmanager."""
        with urllib.request.urlopen(f"{self.alertmanager.url}/api/v2/alerts", timeout=10) as answer:
            return json.loads(answer.read())

    def beats_go_on(self) -> None:
        before = self.beats()
        eventually(lambda: self.beats() > before + 1, what="further messages of the dead man's alert")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    if lacking := [*missing(), *missing(OF_MONITORING)]:
        pytest.skip(how_to_get(lacking))
    with ControlPlane(with_nodes=False) as made:
        yield made


@pytest.fixture(scope="module")
def rendered(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """What the stack registers; of it the API server has the namespaces, the accounts and their rights."""
    made = record(settings())
    folder = tmp_path_factory.mktemp("rendered")
    write_directory(folder, output_files(made))
    kinds = ["Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    objects = [one for file in sorted((folder / "kubernetes").iterdir()) for one in _documents(file)]
    wanted = [one for kind in kinds for one in objects if one["kind"] == kind]
    plane.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(map(json.dumps, wanted)))
    return Recorded(made)


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    yield from (one for one in yaml.safe_load_all(file.read_text(encoding="utf-8")) if one)


@pytest.fixture(scope="module")
def site(plane: ControlPlane, rendered: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("bundled")
    told, missed, alertmanager = Receiver(), Receiver(), address()
    folders = {
        DIRECTORY: folder,
        SECRET_DIRECTORY: folder / "receiver",
        DEAD_MAN_DIRECTORY: folder / "dead-man",
        SERVICE_ACCOUNT: folder / "account",
    }
    data = {
        name: json.loads(moved(text, folders))
        for part in ("prometheus", "alertmanager")
        for name, text in rendered.named(f"monitoring-{part}-config", ":ConfigMap").inputs["data"].items()
    }
    write(
        folder,
        {
            "prometheus.json": quick(data["prometheus.json"], plane.kubeconfig_as("ebbtide", ACCOUNT), alertmanager),
            "rules.json": at_once(data["rules.json"]),
            "alertmanager.json": hurried(data["alertmanager.json"]),
            "receiver/url": told.url,
            "dead-man/url": missed.url,
            "account/token": plane.token_for("ebbtide", ACCOUNT),
            "account/ca.crt": (plane.folder / "certificates" / "apiserver.crt").read_text(),
        },
    )
    pages(plane, of_the_scaler(folder))
    with ExitStack() as stack:
        tells = stack.enter_context(alerting(folder, alertmanager))
        yield Site(
            plane=plane,
            folder=folder,
            prometheus=stack.enter_context(scraping(folder)),
            alertmanager=tells,
            told=told,
            missed=missed,
        )


def alerting(folder: Path, where: str) -> Process:
    flags = ["--config.file=alertmanager.json", "--storage.path=alerts", "--cluster.listen-address="]
    return Process(
        command=[program(ALERTMANAGER), *flags, f"--web.listen-address={where}"], folder=folder, address=where
    )


def scraping(folder: Path, *before: str, data: str = "data") -> Process:
    where = address()
    flags = ["--config.file=prometheus.json", f"--storage.tsdb.path={data}", "--rules.alert.resend-delay=1s"]
    command = [*before, program(PROMETHEUS), *flags, f"--web.listen-address={where}"]
    return Process(command=command, folder=folder, address=where)


def program(name: str) -> str:
    found = find(name)
    assert found is not None
    return str(found)


def pages(plane: ControlPlane, ours: str) -> None:
    """A node, and pods that run, have ended, and are not the stack's."""
    kubelet = KubeletPages(plane)
    plane.api.create("/api/v1/nodes", {"metadata": {"name": "one"}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.server_port}},
    }
    plane.api.patch("/api/v1/nodes/one/status", {"status": status})
    for number, (space, workload, port, text) in enumerate(
        (
            ("ebbtide", "ebbtide-controller", ("http", 8080), ours),
            ("ebbtide", "api", ("metrics", 9090), 'mine{customer="other"} 1\n'),
            ("ebbtide-workers", "train", ("metrics", 9100), "mine 2\n"),
            ("ebbtide", "stranger", ("metrics", 9090), "mine 3\n"),
        ),
        start=1,
    ):
        host = f"{NET}.{number}"
        Server(host, port[1], {"/metrics": lambda text=text: (200, FORMAT, text)})
        pod(plane, space, f"{workload}-0", workload, port, host)
    pod(plane, "ebbtide-workers", "train-ended", "train", ("metrics", 9100), f"{NET}.9", phase="Succeeded")


def pod(
    plane: ControlPlane, space: str, name: str, workload: str, port: tuple[str, int], host: str, phase: str = "Running"
) -> None:
    safe = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    ports = [{"name": port[0], "containerPort": port[1]}]
    spec = {"nodeName": "one", "containers": [{"name": "a", "image": "a:1", "ports": ports, "securityContext": safe}]}
    path = f"/api/v1/namespaces/{space}/pods"
    plane.api.create(path, {"metadata": {"name": name, "labels": {WORKLOAD: workload}}, "spec": spec})
    status = {"phase": phase, "podIP": host, "podIPs": [{"ip": host}]}
    plane.api.patch(f"{path}/{name}/status", {"status": status})


TOKEN = {"url": "https://m.example:8443/push", "secret": "beat"}
ROLE = {
    "url": "https://aps-workspaces.us-east-1.amazonaws.com/api/v1/remote_write",
    "role": "arn:aws:iam::123456789012:role/writer",
}
HELD_TOKEN = {**HELD["secrets"], "beat": {"url": SECRET, "token": SECRET}}
PROXY = {"httpsProxy": "http://10.9.9.9:3128"}


@pytest.mark.parametrize(
    "made",
    [
        settings(more={"secrets": HELD_TOKEN}, remoteWrite=TOKEN),
        settings(more={"egress": PROXY}, remoteWrite=ROLE),
        on_an_existing_cluster(),
    ],
    ids=["token", "role and proxy", "existing cluster"],
)
def test_its_own_check_takes_each_config_whole(made: StackSettings, tmp_path: Path) -> None:
    if lacking := missing(OF_MONITORING):
        pytest.skip(how_to_get(lacking))
    data = Recorded(record(made)).named("monitoring-prometheus-config", ":ConfigMap").inputs["data"]
    folders = {folder: tmp_path / folder.rpartition("/")[2] for folder in (TOKEN_DIRECTORY, SERVICE_ACCOUNT)}
    folders[DIRECTORY] = tmp_path
    write(tmp_path, {name: moved(text, folders) for name, text in data.items()})
    for file in ("prometheus-remote-write/token", "serviceaccount/token", "serviceaccount/ca.crt"):
        write(tmp_path, {file: AUTHORITY})
    command = [program(PROMTOOL), "check", "config", str(tmp_path / "prometheus.json")]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


def test_discovery_finds_what_the_stack_has_with_the_rights_of_its_account_alone(site: Site) -> None:
    eventually(lambda: site.up() == dict.fromkeys(JOBS, "1"), what="each job to be up")
    targets = asked(site.prometheus.url, "targets")["activeTargets"]
    labels = {(one["labels"]["job"], one["labels"].get("pod", "")): one["labels"] for one in targets}

    assert {name for _, name in labels} == {"", "ebbtide-controller-0", "api-0", "train-0"}
    assert {one["customer"] for one in labels.values()} == {"demo"}
    assert labels["cadvisor", ""]["node"] == "one"
    assert labels["ebbtide-workers/ebbtide-pods", "train-0"]["workload"] == "train"
    assert labels["ebbtide-workers/ebbtide-pods", "train-0"]["namespace"] == "ebbtide-workers"
    assert [one["metric"]["customer"] for one in site.prometheus.ask("mine")] == ["demo", "demo"]


def test_of_cadvisor_the_series_of_containers_that_rules_use_and_the_network_of_pods_are_kept(site: Site) -> None:
    kept = eventually(lambda: site.prometheus.ask('{job="cadvisor",__name__=~"container_.*"}'), what="series")
    values = {one["metric"]["__name__"]: one["value"][1] for one in kept}

    assert values == {
        "container_cpu_usage_seconds_total": "7",
        "container_network_receive_bytes_total": "10",
        "container_network_transmit_bytes_total": "11",
    }
    assert {one["metric"]["pod"] for one in kept} == {"train-0"}
    assert {one["metric"]["node"] for one in kept} == {"one"}


def test_an_account_without_the_right_to_metrics_of_nodes_is_refused_by_kubelets(site: Site) -> None:
    """So that the stand-in's check, and with it the test above, means something."""
    token = site.folder / "account" / "token"
    granted = token.read_text()
    token.write_text(site.plane.token_for("ebbtide", "ebbtide-controller"))
    eventually(lambda: site.up()["cadvisor"] == "0", what="the kubelet's refusal")
    token.write_text(granted)
    eventually(lambda: site.up()["cadvisor"] == "1", what="the kubelet's pages")


def test_every_rule_is_evaluated_and_alerts_arrive_where_the_file_says(site: Site) -> None:
    expected = {"EbbtideNoLeader", "EbbtideWorkersPending"}
    eventually(lambda: expected <= {it["labels"]["alertname"] for it in site.told.alerts}, what="the alerts")
    groups = asked(site.prometheus.url, "rules")["groups"]
    (leaderless, *_) = [it for it in site.told.alerts if it["labels"]["alertname"] == "EbbtideNoLeader"]

    assert [rule["name"] for group in groups for rule in group["rules"] if rule["health"] != "ok"] == []
    assert leaderless["labels"] == {"alertname": "EbbtideNoLeader", "severity": "critical", "customer": "demo"}
    assert leaderless["annotations"]["runbook"] == "ebbtide docs no-leader"
    site.beats_go_on()
    assert {it["labels"]["alertname"] for it in site.missed.alerts} == {"EbbtideDeadMan"}
    assert "EbbtideDeadMan" not in {it["labels"]["alertname"] for it in site.told.alerts}


def test_killed_it_tells_nobody_until_it_is_back_with_what_it_knew(site: Site) -> None:
    eventually(lambda: site.prometheus.ask("mine"), what="a sample")
    site.prometheus.kill()
    try:
        silent(site)
    finally:
        site.prometheus.start()
    old = site.prometheus.ask("count_over_time(mine[10m])")

    assert min(int(one["value"][1]) for one in old) > 1
    site.beats_go_on()


def silent(site: Site) -> None:
    """Alertmanager holds an alert for a few seconds that nobody confirms: from then on nothing arrives."""
    eventually(lambda: site.held_alerts() == [], what="Alertmanager to forget the alerts")
    before = site.beats()
    time.sleep(3 * BEAT)
    assert site.beats() == before


def test_what_it_knew_is_gone_with_its_volume_and_it_scrapes_on(site: Site) -> None:
    site.prometheus.kill()
    shutil.rmtree(site.folder / "data")
    site.prometheus.start()
    eventually(lambda: site.up() == dict.fromkeys(JOBS, "1"), what="each job to be up")

    site.beats_go_on()


@pytest.mark.skipif(bool(enclosure_refused()), reason="no namespaces of users on this machine")
def test_with_a_full_disk_it_records_nothing_tells_on_and_records_again_once_there_is_room(site: Site) -> None:
    """So the dead man's alert does not tell of it. On a disk of its own of 24 MiB, in a namespace of mounts."""
    disk = site.folder / "small"
    disk.mkdir()
    mounted = f'mount -t tmpfs -o size=24m none {disk} && exec "$@"'
    site.prometheus.kill()
    before = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh"]
    try:
        with scraping(site.folder, *before, data=str(disk / "data")) as small:
            eventually(lambda: small.ask("mine"), what="a sample")
            filler = Path(f"/proc/{small.pid}/root{disk}/filler")
            with filler.open("wb", buffering=0) as file:
                while fill(file.fileno()):
                    pass
            eventually(lambda: "no space left on device" in small.log.read_text(), what="the disk to be full")
            last = newest(small)
            site.beats_go_on()
            assert newest(small) == last
            filler.unlink()
            begun = time.time()
            eventually(lambda: newest(small) > begun, what="a new sample")
    finally:
        site.prometheus.start()


def newest(prometheus: Process) -> float:
    """When the newest sample of the pods' own metric was taken."""
    return max(float(one["value"][1]) for one in prometheus.ask("timestamp(mine)"))


def fill(file: int) -> bool:
    try:
        return os.write(file, b"0" * 4096) > 0
    except OSError:
        return False
