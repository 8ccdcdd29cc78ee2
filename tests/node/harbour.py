"""A small customer on real nodes: a fixed hub, a flexible service of two pods, RQ workers, Redis on a local volume."""

import json
import secrets
import subprocess
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import yaml
from control_plane.nodes.cluster import NAMES, RealCluster
from control_plane.nodes.images.recipes import BASE_TAG, WORKER_TAG
from redis import Redis
from rq import Queue, Retry, Worker
from rq.job import Job

from controllers.adapters.kube_api import Json, KubeApi
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.output import output_files
from ebbtide.settings import StackSettings, parse_stack
from ebbtide.text.files import write_directory
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE, WORKLOAD
from tests.builders.control_plane import eventually
from tests.builders.recorded import record

POOL = "prep"
PASSWORD = "harbour-of-the-tests"
PATIENCE = 400.0  # seconds; nothing here is asserted to be quick

NODES = {"n1": "fixed", "n2": "flexible", "n3": "flexible"}
DAY = {"mon-sun": "00:00-24:00"}

_SERVE = "trap 'exit 0' TERM; python -m http.server 8080 --directory /tmp & wait"
_HOLD = "until [ -e /tmp/{name} ]; do sleep 0.2; done"
_NO_CHANGES: Mapping[str, Mapping[str, Any]] = {}
_T = TypeVar("_T")


def settings(week: Mapping[str, str] = DAY, changes: Mapping[str, Mapping[str, Any]] = _NO_CHANGES) -> StackSettings:
    return parsed(config(week, changes))


def parsed(config: Mapping[str, object]) -> StackSettings:
    return parse_stack(config, stack="harbour", file="harbour.yaml")


def boot_nodes(cluster: RealCluster) -> None:
    """Those that the stack is for, until all are ready."""
    for name, kind in NODES.items():
        cluster.boot(name, labels={"set": kind, "topology.kubernetes.io/zone": "a"})
    cluster.wait_until_ready(*NODES)


def night() -> dict[str, str]:
    """A week whose business hours are three days away."""
    return {(datetime.now(UTC) + timedelta(days=3)).strftime("%a").lower(): "10:00-11:00"}


def config(week: Mapping[str, str] = DAY, changes: Mapping[str, Mapping[str, Any]] = _NO_CHANGES) -> dict[str, Any]:
    """`changes` by workload or pool."""
    return {
        "ebbtide:customer": "harbour",
        "ebbtide:businessHours": {"timezone": "UTC", "week": dict(week)},
        "ebbtide:cluster": {
            "kind": "existing",
            "context": "real-nodes",
            "nodeSelectors": {"fixed": {"set": "fixed"}, "flexible": {"set": "flexible"}},
        },
        "ebbtide:controller": {"replicas": 2},
        "ebbtide:workloads": {
            "hub": {"category": "fixed", **_web(), **changes.get("hub", {})},
            "api": {"category": "flexible", "replicas": 2, **_web(), **changes.get("api", {})},
        },
        "ebbtide:workers": {POOL: pool(POOL, **changes.get(POOL, {}))},
    }


def pool(queue: str, **more: object) -> dict[str, object]:
    return {
        "source": {"kind": "rq", "queues": [queue]},
        "image": WORKER_TAG,
        "max": 4,
        "cpu": "50m",
        "memory": "192Mi",
        "longestJob": "10m",
        "stabilizationWindow": "10s",
        **more,
    }


def _web() -> dict[str, Any]:
    return {
        "image": BASE_TAG,
        "command": ["sh", "-c", _SERVE],
        "ports": {"http": 8080},
        "cpu": "50m",
        "memory": "64Mi",
    }


class Harbour:
    """The stack, and what its operator sees of it."""

    def __init__(self, cluster: RealCluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder
        self.accepted: tuple[str, ...] = ()
        self._held: list[Job] = []
        self._told: set[str] = set()  # that these may end, by the pods' UIDs
        self._released: dict[str, Mapping[str, Any]] = {}

    @property
    def api(self) -> KubeApi:
        return self.cluster.plane.api

    # --- installing -----------------------------------------------------------------------------------------------

    def install(self) -> None:
        """As APPLY.md says, in its order."""
        files = self.rendered()
        self.cluster.local_volume("redis", "n1")
        kubectl = self.cluster.plane.kubectl
        kubectl("apply", "--server-side", "-f", str(files / "10-namespaces.yaml"))
        for namespace in (NAMESPACE, WORKER_NAMESPACE):
            url = f"redis://:{PASSWORD}@ebbtide-redis.{NAMESPACE}.svc:6379/0"
            values = (f"--from-literal=password={PASSWORD}", f"--from-literal=url={url}")
            kubectl("create", "secret", "generic", "ebbtide-redis", "--namespace", namespace, *values)
        told = kubectl("apply", "--server-side", "--validate=strict", "--output=name", "-f", str(files))
        self.accepted = tuple(told.split())
        kubectl("--namespace", WORKER_NAMESPACE, "scale", "deployment", "--all", "--replicas=0")

    def rendered(self, week: Mapping[str, str] = DAY, of: StackSettings | None = None) -> Path:
        """What is installed, with these business hours; or another stack."""
        write_directory(self._folder, output_files(record(of or settings(week, self._released))))
        return self._folder / "kubernetes"

    @contextmanager
    def grown(self, into: StackSettings) -> Generator[None]:
        """A larger stack in the place of the installed one, until the `with` ends."""
        kubectl = self.cluster.plane.kubectl
        installed = set(map(_identity, _objects(self.rendered())))
        files = self.rendered(of=into)
        more = [each for each in _objects(files) if _identity(each) not in installed]
        kubectl("apply", "--server-side", "--validate=strict", "-f", str(files))
        try:
            yield
        finally:
            kubectl("delete", "--wait=false", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(more))
            kubectl("apply", "--server-side", "-f", str(self.rendered()))

    def tell(self, week: Mapping[str, str], of: StackSettings | None = None) -> None:
        """Other business hours, as an `up` would bring them: the controller reads the file that the kubelet swaps.

        `of`: a larger stack, with business hours of its own.
        """
        self.cluster.plane.kubectl("apply", "--server-side", "-f", str(self.rendered(week, of) / "40-config.yaml"))

    def release(self, name: str, **changes: Any) -> None:
        """Another image or environment of a workload or pool; later releases keep what earlier ones brought."""
        self._released[name] = {**self._released.get(name, {}), **changes}
        self.cluster.plane.kubectl("apply", "--server-side", "-f", str(self.rendered() / "60-workloads.yaml"))

    def make_day(self) -> None:
        self.tell(DAY)
        self.wait(lambda: self.budget("api")["spec"].get("maxUnavailable", 0) == 0, "the budget to be closed")

    def make_night(self) -> None:
        self.tell(night())
        self.wait(lambda: self.budget("api")["status"]["disruptionsAllowed"] == 1, "the budget to be open")

    def share_volume(self, name: str) -> None:
        """A claim of this name, for the workers of all nodes at once."""
        self.cluster.shared_volume(name, NAMES, "1Gi")
        claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name}
        self.api.create(
            f"/api/v1/namespaces/{WORKER_NAMESPACE}/persistentvolumeclaims",
            {"metadata": {"name": name}, "spec": {**claim, "resources": {"requests": {"storage": "1Gi"}}}},
        )

    # --- looking --------------------------------------------------------------------------------------------------

    def wait(self, look: Callable[[], _T | None], what: str) -> _T:
        return eventually(look, what=what, patience=PATIENCE)

    def budget(self, name: str) -> Json:
        return self.api.get(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{name}")

    def deployment(self, name: str, namespace: str = NAMESPACE) -> Json:
        return self.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")

    def pool(self) -> Json:
        """Its `metadata.generation` counts every change of what is asked for, the number of workers included."""
        return self.deployment(POOL, WORKER_NAMESPACE)

    def pods(self, workload: str, namespace: str = NAMESPACE) -> list[Json]:
        selector = f"{WORKLOAD}={workload}"
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector)["items"]

    def workers(self) -> list[Json]:
        return self.pods(POOL, WORKER_NAMESPACE)

    def ready(self, workload: str, count: int, namespace: str = NAMESPACE) -> bool:
        pods = [pod for pod in self.pods(workload, namespace) if "deletionTimestamp" not in pod["metadata"]]
        return len(pods) == count and all(map(is_ready, pods))

    def leader(self) -> str:
        """The pod that holds the Lease."""
        lease = self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}")
        holder = str(lease["spec"].get("holderIdentity", ""))
        return next((name for pod in self.pods(CONTROLLER) if (name := pod["metadata"]["name"]) in holder), "")

    def status(self, pod: Json) -> dict[str, Any]:
        """What a controller tells of itself."""
        with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/status", timeout=30) as answer:
            return json.load(answer)

    def pod(self, name: str, namespace: str = NAMESPACE) -> Json:
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def log(self, pod: Json) -> str:
        """What its first container has said since it started last."""
        metadata = pod["metadata"]
        return self.cluster.plane.kubectl("logs", "--namespace", metadata["namespace"], metadata["name"])

    def told_about(self, name: str, namespace: str) -> list[str]:
        """The messages of the object's Events."""
        path, about = f"/api/v1/namespaces/{namespace}/events", f"involvedObject.name={name}"
        return [event["message"] for event in self.api.get(path, fieldSelector=about)["items"]]

    def run_in(self, pod: Json, *command: str) -> str:
        """What a command in the pod's first container prints."""
        metadata = pod["metadata"]
        return self.cluster.plane.kubectl(
            "exec", "--namespace", metadata["namespace"], metadata["name"], "--", *command
        )

    # --- jobs, and drains -----------------------------------------------------------------------------------------

    def redis(self) -> Redis:
        """As RQ needs it: replies in bytes."""
        (server,) = self.pods("ebbtide-redis")
        return Redis(host=server["status"]["podIP"], password=PASSWORD, socket_timeout=30, socket_connect_timeout=30)

    def enqueue(self, seconds: int, count: int = 1) -> list[Job]:
        return [self.enqueue_call("time.sleep", seconds) for _ in range(count)]

    def enqueue_call(
        self, function: str, argument: object, retry: Retry | None = None, *, name: str = "", queue: str = POOL
    ) -> Job:
        whole = Queue(queue, connection=self.redis())
        return whole.enqueue(function, argument, job_timeout=600, retry=retry, job_id=name or None)

    def enqueue_held(self, count: int = 1) -> list[Job]:
        """Jobs that last until `let_end`."""
        names = [f"held-{secrets.token_hex(4)}" for _ in range(count)]
        commands = {name: ("sh", "-c", _HOLD.format(name=name)) for name in names}
        jobs = [self.enqueue_call("subprocess.check_call", command, name=name) for name, command in commands.items()]
        self._held += jobs
        return jobs

    def nobody_works(self) -> bool:
        """Lets the held jobs that a failed test has left end, too."""
        pods = self.workers()
        for pod in pods:
            if self._held and pod["metadata"]["uid"] not in self._told and pod["status"]["phase"] == "Running":
                with suppress(subprocess.CalledProcessError):  # it may be on its way out
                    self.run_in(pod, "touch", *(f"/tmp/{job.id}" for job in self._held))
                    self._told.add(pod["metadata"]["uid"])
        if not pods:
            self._held = []
        return not pods

    def let_end(self, *jobs: Job) -> None:
        """Says it in every worker's pod, so Redis is not needed."""
        self.wait(lambda: all(pod["status"]["phase"] != "Pending" for pod in self.workers()), "the workers to run")
        for pod in self.workers():
            if pod["status"]["phase"] == "Running":
                self.run_in(pod, "touch", *(f"/tmp/{job.id}" for job in jobs))

    def begun(self, *jobs: Job) -> bool:
        return all(job.get_status(refresh=True) in ("started", "finished", "failed") for job in jobs)

    def busy_workers(self, *jobs: Job) -> list[Json]:
        """The pods in which these jobs run, once all have begun."""
        self.wait(lambda: self.begun(*jobs), "the jobs to begin")
        return self.wait(  # a job may have begun before the kubelet has told of its container
            lambda: workers if all(map(is_ready, workers := self.workers())) else None, "the workers to be ready"
        )

    def has_heard(self, pod: str) -> bool:
        """Whether its worker has heard the signal to stop: it writes that down."""
        connection = self.redis()
        (worker,) = (worker for worker in Worker.all(connection=connection) if worker.hostname == pod)
        return connection.hget(worker.key, "shutdown_requested_date") is not None

    def done(self, *jobs: Job) -> bool:
        return all(job.get_status(refresh=True) == "finished" for job in jobs)

    def drain(
        self, node: str, seconds: int, only: str = "", *, force: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        """`kubectl drain` as an operator calls it, for so long. `only` selects by label, `force` evicts bare pods."""
        command = ["drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={seconds}s"]
        command += [f"--pod-selector={only}"] if only else []
        command += ["--force"] if force else []
        try:
            told = self.cluster.plane.kubectl(*command, limit=seconds + PATIENCE)
        except subprocess.CalledProcessError as error:
            return subprocess.CompletedProcess(command, error.returncode, error.stdout, error.stderr)
        return subprocess.CompletedProcess(command, 0, told, "")

    def cordon(self, node: str) -> None:
        self.cluster.plane.kubectl("cordon", node)

    def uncordon(self, node: str) -> None:
        self.cluster.plane.kubectl("uncordon", node)


def _objects(files: Path) -> list[Json]:
    return [each for file in sorted(files.iterdir()) for each in yaml.safe_load_all(file.read_text()) if each]


def _identity(found: Json) -> tuple[str, str, str]:
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def settle(harbour: Harbour) -> None:
    for node in NODES:
        harbour.uncordon(node)
    harbour.cluster.wait_until_ready(*NODES)
    for workload, count in (("ebbtide-redis", 1), (CONTROLLER, 2), ("hub", 1), ("api", 2)):
        harbour.wait(lambda workload=workload, count=count: harbour.ready(workload, count), f"{workload} to be ready")
    harbour.make_day()
    harbour.wait(harbour.nobody_works, "no worker to be left")
