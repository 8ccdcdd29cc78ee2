"""Web, API and a worker of the example as processes, with the rendered command, environment and mounts.

The processes are real, and so are Redis, RQ and the API server that tells the kubelet what a pod is. Stand-ins: the
kubelet (`control_plane.plane.kubelet`), and the programs of images that nobody has published.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from control_plane.plane.binaries import how_to_get, missing
from control_plane.plane.driver import ControlPlane
from control_plane.plane.enclosure import Enclosure, Image, enclosure_refused
from control_plane.plane.kubelet import Kubelet, What
from control_plane.plane.stack import add_group_node, install

from controllers.adapters.kube_api import Json
from ebbtide.demo.embedded_redis import find_server
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.vocabulary.labels import NAMESPACE, WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.example import example
from tests.paths import ROOT

pytestmark = pytest.mark.control_plane

IMAGES = "registry.example.com/labelling"
REDIS = "ebbtide-redis.ebbtide.svc"
PROGRAMS = ROOT / "tests" / "control_plane" / "support" / "programs"
SECRETS = {
    "db-login": {"password": "postgres' own word"},
    "platform": {"SESSION_KEY": "of sessions", "SIGNING_KEY": "of signatures"},
    "ebbtide-redis": {"password": "of-redis", "url": f"redis://:of-redis@{REDIS}:6379/0"},
}
ASK = """
import sys
from urllib.request import ProxyHandler, build_opener
sys.stdout.write(build_opener(ProxyHandler({})).open(sys.argv[1], timeout=5).read().decode())
"""
ENQUEUE = """
import sys, time
from redis import Redis
from rq import Queue
job = Queue("import", connection=Redis(password="of-redis")).enqueue("os.getenv", "DATABASE_HOST")
while job.get_status(refresh=True) not in ("finished", "failed"):
    time.sleep(0.1)
sys.stdout.write(str(job.return_value()))
"""


@dataclass(frozen=True, kw_only=True)
class Node:
    plane: ControlPlane
    enclosure: Enclosure
    workers: Kubelet

    def pod(self, workload: str) -> Json:
        """The workload's only pod, once it has a process."""

        def found() -> Json | None:
            pods = self.plane.api.get("/api/v1/pods", labelSelector=f"{WORKLOAD}={workload}")["items"]
            live = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
            return live[0] if len(live) == 1 and live[0]["status"].get("phase") == "Running" else None

        return eventually(found, what=f"{workload}'s pod to run")

    def run(self, script: str, *words: str) -> str:
        """What a program of this machine prints, run in the pods' network."""
        command = self.enclosure.inside(sys.executable, "-c", script, *words)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def probed(self, workload: str) -> str:
        """The answer to the pod's own readiness probe."""
        container = self.pod(workload)["spec"]["containers"][0]
        probe = container["readinessProbe"]["httpGet"]
        (port,) = (one["containerPort"] for one in container["ports"] if one["name"] == probe["port"])

        def asked() -> str:
            with suppress(subprocess.CalledProcessError):  # nobody listens yet
                return self.run(ASK, f"http://127.0.0.1:{port}{probe['path']}")
            return ""

        return eventually(asked, what=f"{workload} to answer its probe")


def image(folder: Path, program: str, command: Sequence[str] = ()) -> Image:
    """Of one program, which needs the standard library alone."""
    folder.mkdir()
    interpreter = Path(sys.executable).resolve()  # not the virtual environment, which a volume may hide
    text = (PROGRAMS / f"{program}.py").read_text(encoding="utf-8")
    (folder / program).write_text(f"#!{interpreter}\n{text}", encoding="utf-8")
    (folder / program).chmod(0o755)
    return Image(programs=folder, command=command)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    if lacking := missing():
        pytest.skip(how_to_get(lacking))
    if refused := enclosure_refused():
        pytest.skip(f"no namespaces for pods' processes on this machine: {refused}")
    folder = tmp_path_factory.mktemp("processes")
    images = {
        f"{IMAGES}/web": image(folder / "web", "nginx", ["nginx", "/etc/nginx/conf.d"]),
        f"{IMAGES}/api": image(folder / "api", "gunicorn"),
        f"{IMAGES}/worker": Image(programs=Path(sys.executable).parent),  # where `rq` is
    }
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(hands_off=WORKLOAD))
        enclosure = stack.enter_context(Enclosure(plane.api, folder, images, hosts=[REDIS]))
        for group in ("fixed", "flexible", "gpu"):
            add_group_node(plane, example(), group, group)
        install(plane, example(), folder / "rendered")
        for namespace in (NAMESPACE, WORKER_NAMESPACE):
            for name, values in SECRETS.items():
                body = {"metadata": {"name": name}, "stringData": values}
                plane.api.create(f"/api/v1/namespaces/{namespace}/secrets", body)
        redis = enclosure.inside(str(find_server()), "--bind", "127.0.0.1", "--requirepass", "of-redis", "--save", "")
        server = subprocess.Popen(redis, stdout=subprocess.DEVNULL)
        stack.callback(server.wait)
        stack.callback(server.kill)
        # One copy each, since the pods share a network.
        plane.kubectl("--namespace", NAMESPACE, "scale", "deployment", "web", "api", "--replicas=1")
        plane.kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", "import", "--replicas=1")
        logs = folder / "logs"
        logs.mkdir()
        kubelets = [
            stack.enter_context(Kubelet(plane.api, namespace, enclosure.command, log_folder=logs))
            for namespace in (NAMESPACE, WORKER_NAMESPACE)
        ]
        yield Node(plane=plane, enclosure=enclosure, workers=kubelets[-1])


def test_the_web_server_answers_its_probe_as_its_mounted_file_says(node: Node) -> None:
    assert node.probed("web") == "ok"


def test_the_api_has_the_rendered_arguments_files_and_variables(node: Node) -> None:
    pod = node.pod("api")

    told = json.loads(node.probed("api"))

    assert told["app"] == "labelling.wsgi:application"
    assert told["workers"] == 4  # of conf/gunicorn.conf.py
    assert told["files"] == ["gunicorn.conf.py", "logging.yaml"]
    assert told["writable"] == ["/var/spool/uploads"]
    given = told["environment"]
    assert given["DATABASE_PASSWORD"] == SECRETS["db-login"]["password"]
    assert {name: given[name] for name in SECRETS["platform"]} == SECRETS["platform"]
    assert (given["LOG_LEVEL"], given["POD_NAME"]) == ("info", pod["metadata"]["name"])


def test_a_worker_takes_a_job_with_the_rendered_command_and_ends_when_its_pod_goes(node: Node) -> None:
    pod = node.pod("import")["metadata"]["name"]

    assert node.run(ENQUEUE) == "postgres.ebbtide.svc"

    node.plane.kubectl("--namespace", WORKER_NAMESPACE, "delete", "pod", pod, "--wait=false")
    eventually(lambda: node.workers.history(pod)[-1].what is What.EXITED, what="the worker to end")
    _, told, ended = node.workers.history(pod)
    assert (told.what, ended.code) == (What.TOLD_TO_STOP, 0)
