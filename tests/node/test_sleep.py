"""A notebook hub that sleeps when it is idle, on real nodes: real counters of real pods, and its disk is intact.

Prometheus is Debian's, beside the nodes, with the rendered job for cAdvisor. The hub is a small program that answers as
JupyterHub does when it is asked for users with a server.
"""

import json
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from control_plane.nodes.images.recipes import BASE_TAG
from control_plane.nodes.network import HOST

from components.monitoring.scraping import Scraping, prometheus_document
from controllers.adapters.kube_api import Json
from ebbtide.demo.embedded import free_port
from ebbtide.settings import StackSettings
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOADS
from tests.builders.monitoring.own_prometheus import Process, write
from tests.node.harbour import DAY, Harbour, config, night, parsed, settle

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.node,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on PATH (Debian's package)"),
]

NAME, TOKEN, SCRAPER = "notebooks", "abc", "scraper"
HUB = """
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

data = Path("/data")
with (data / "starts").open("a") as starts:
    starts.write(os.environ["HOSTNAME"] + chr(10))

class Hub(BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers["Authorization"] == "Bearer abc"
        users = [{"name": "user-7"}] if (data / "connected").exists() else []
        found = users if self.path.startswith("/hub/api/users?state=active") else (data / "starts").read_text().split()
        self.send_response(200 if known else 403)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

HTTPServer(("", 8000), Hub).serve_forever()
"""


def stack(week: Mapping[str, str], prometheus: str) -> StackSettings:
    """The installed stack with a hub that sleeps after a minute."""
    base = config(week)
    hub: dict[str, Any] = {
        "category": "flexible",
        "kind": "stateful-set",
        "image": BASE_TAG,
        "command": ["python", "/opt/programs/hub.py"],
        "ports": {"http": 8000},
        "cpu": "50m",
        "memory": "64Mi",
        "volumes": {
            "programs": {"files": {"hub.py": HUB}, "at": "/opt/programs"},
            "data": {"perPod": "1Gi", "at": "/data"},
        },
        "sleep": {"when": "idle", "after": "1m", "hub": {"secret": f"{NAME}-sleep", "key": "token"}},
    }
    workloads = {**base["ebbtide:workloads"], NAME: hub}
    return parsed({**base, "ebbtide:workloads": workloads, "ebbtide:serving": {"prometheus": prometheus}})


@pytest.fixture(scope="module")
def prometheus(_installed: Harbour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """With an account that may read the metrics of kubelets, as the bundled one has it."""
    plane, folder = _installed.cluster.plane, tmp_path_factory.mktemp("prometheus")
    kubectl = plane.kubectl
    kubectl("create", "serviceaccount", SCRAPER, "--namespace", NAMESPACE)
    kubectl("create", "clusterrole", SCRAPER, "--verb=get,list,watch", "--resource=nodes,nodes/metrics")
    kubectl(
        "create", "clusterrolebinding", SCRAPER, f"--clusterrole={SCRAPER}", f"--serviceaccount={NAMESPACE}:{SCRAPER}"
    )
    document = prometheus_document(Scraping(customer="harbour", targets=(), kubelets_are_known=False))
    (job,) = [job for job in document["scrape_configs"] if job["job_name"] == "cadvisor"]
    del job["kubernetes_sd_configs"]  # Debian's Prometheus has none
    kubelets = [f"{address_of(node)}:10250" for node in plane.api.get("/api/v1/nodes")["items"]]
    job |= {"authorization": {"credentials_file": str(folder / "token")}, "static_configs": [{"targets": kubelets}]}
    waits = {"scrape_interval": "5s"}
    write(
        folder,
        {
            "prometheus.json": {"global": waits, "scrape_configs": [job]},
            "token": plane.token_for(NAMESPACE, SCRAPER),
        },
    )
    address = f"{HOST}:{free_port()}"
    flags = ["--config.file=prometheus.json", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    with Process(command=[str(PROMETHEUS), *flags], folder=folder, address=address) as process:
        yield process


@pytest.fixture(scope="module")
def site(_installed: Harbour, prometheus: Process) -> Iterator[Harbour]:
    harbour, kubectl = _installed, _installed.cluster.plane.kubectl
    settle(harbour)
    harbour.cluster.local_volume(NAME, "n2", "1Gi")
    secret = [f"{NAME}-sleep", "--namespace", NAMESPACE, f"--from-literal=token={TOKEN}"]
    kubectl("create", "secret", "generic", *secret)
    with ExitStack() as installed:
        installed.enter_context(harbour.grown(stack(DAY, prometheus.url)))
        for workload in (NAME, WORKLOADS):
            harbour.wait(lambda workload=workload: harbour.ready(workload, 1), f"{workload} to be ready")
        yield harbour


def test_a_connected_user_keeps_it_awake_and_without_one_it_sleeps_and_finds_its_disk_again(
    site: Harbour, prometheus: Process
) -> None:
    site.run_in(site.pods(NAME)[0], "touch", "/data/connected")
    claim = claims(site)
    kept = '{job="cadvisor",pod="notebooks-0",__name__=~"container_(cpu|network).*_(seconds|bytes)_total"}'
    series = site.wait(lambda: prometheus.ask(kept), "the kubelet to report the pod")
    assert {(it["metric"]["__name__"], it["metric"].get("container", "")) for it in series} == {
        ("container_cpu_usage_seconds_total", NAME),
        ("container_network_receive_bytes_total", ""),
        ("container_network_transmit_bytes_total", ""),
    }
    site.tell({}, stack(night(), prometheus.url))

    stays = site.wait(lambda: reported(site, "in-use"), "the hub to be measured")
    assert (stays["state"], stays["activity"]) == ("awake", "a user of the hub has a server"), stays
    assert site.ready(NAME, 1)

    site.run_in(site.pods(NAME)[0], "rm", "/data/connected")
    site.wait(lambda: not site.pods(NAME), "the hub to sleep")
    assert site.wait(lambda: reported(site, "outside-business-hours"), "the report")["state"] == "asleep"
    assert claims(site) == claim

    site.tell({}, stack(DAY, prometheus.url))
    site.wait(lambda: site.ready(NAME, 1), "the hub to wake")
    assert claims(site) == claim
    assert starts(site) == [f"{NAME}-0", f"{NAME}-0"]
    site.wait(lambda: {"IdleForLong", "BusinessHours"} <= reasons(site), "the Events")


def address_of(node: Json) -> str:
    return next(it["address"] for it in node["status"]["addresses"] if it["type"] == "InternalIP")


def reported(site: Harbour, why: str) -> dict[str, Any] | None:
    (controller,) = site.pods(WORKLOADS)
    rows = site.status(controller).get("workloads", ())
    return next((row for row in rows if row["name"] == NAME and row["why"] == why), None)


def claims(site: Harbour) -> dict[str, str]:
    found = site.api.get(f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims")["items"]
    return {it["metadata"]["name"]: it["metadata"]["uid"] for it in found if NAME in it["metadata"]["name"]}


def starts(site: Harbour) -> list[str]:
    """The names that the hub's starts wrote on its disk."""
    url = f"http://{site.pods(NAME)[0]['status']['podIP']}:8000/"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def reasons(site: Harbour) -> set[str]:
    path, about = f"/api/v1/namespaces/{NAMESPACE}/events", f"involvedObject.name={NAME}"
    return {event["reason"] for event in site.api.get(path, fieldSelector=about)["items"]}
