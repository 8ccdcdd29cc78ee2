"""Plays every pod of the cluster: its containers as processes, in a network of the pod's own, with its volumes mounted.

It heeds what matters to a request: readiness (HTTP and TCP probes), `preStop` (sleep, HTTP and a command), SIGTERM, the
grace, and SIGKILL at its end. Left out, since only a real node has it: images (a folder of programs stands for one,
first on PATH), users, limits, init containers and liveness. A container without a program is just said to run. A pod
whose requests are changed while it runs is said to have the new ones, or, without `has_room`, that its node cannot.

Each pod has a thread: what happens to one waits for no other.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, RLock, Thread
from types import TracebackType
from typing import Any, Self

from control_plane.plane import enclosure_boot
from control_plane.plane.containers import Container, Containers, What
from control_plane.plane.driver import ControlPlane
from control_plane.plane.enclosure import Image
from control_plane.plane.pod_status import STRATEGIC_MERGE
from control_plane.plane.probes import accepts, text_at

from controllers.adapters.kube_api import ApiError, Json
from controllers.adapters.kube_cache import KubeCache
from tests.serving.support.network import HOST, Networks, in_network
from tests.serving.support.volumes import PodFiles, expanded

DRAINED = Path("/tmp/shutdown-ready")
"""What one container of Envoy's pods leaves for the other. A pod has a /tmp of its own; those played here share one,
and what an earlier pod left there would end the next one's drain before it began."""
_TICK = 0.1  # seconds between two looks at a pod's processes
_LONGEST_WAIT = 5.0  # seconds before a process is started again
_IMAGE = "/image"
_PATH = f"{_IMAGE}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NAMES = {"/etc/hosts": "127.0.0.1 localhost\n", "/etc/resolv.conf": f"nameserver {HOST}\n"}
PLAIN = "process"  # the image of a container whose command is run as it stands


class Kubelet:
    """`images`: by the image's name without registry and tag. Use with `with`."""

    def __init__(self, plane: ControlPlane, folder: Path, images: Mapping[str, Image]) -> None:
        self.plane, self.folder, self.images = plane, folder, images
        self.networks = Networks()
        for at, text in NAMES.items():
            (folder / Path(at).name).write_text(text, encoding="utf-8")
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.has_room = True  # for a pod that is to become larger where it is
        self._pods: dict[str, PlayedPod] = {}  # by uid
        self._news, self._closed = Event(), Event()

    def __enter__(self) -> Self:
        self.containers = Containers(self.logs)
        self._cache: KubeCache[Json] = KubeCache(self.plane.api, "/api/v1/pods", lambda pod: pod, self._news.set)
        self._cache.start()
        self._thread = Thread(target=self._run, name="kubelet", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._news.set()
        self._cache.close()
        self._thread.join()
        self.containers.close()
        for pod in self._pods.values():
            pod.close()

    def playing(self) -> "list[PlayedPod]":
        return list(self._pods.copy().values())

    def kill(self, pod: str) -> None:
        """SIGKILL to each of its processes, from outside."""
        for each in self.playing():
            if each.name == pod:
                each.kill(What.STRUCK)

    def _run(self) -> None:
        while not self._closed.is_set():
            self._news.wait(1.0)
            self._news.clear()
            bound = {
                pod["metadata"]["uid"]: pod for pod in self._cache.snapshot().values() if pod["spec"].get("nodeName")
            }
            for uid in self._pods.keys() - bound.keys():
                self._pods.pop(uid).abandon()
            for uid, seen in bound.items():
                if uid in self._pods:
                    self._pods[uid].see(seen)
                elif seen.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                    self._pods[uid] = PlayedPod(self, seen)


@dataclass(slots=True)
class _Played:
    """A container, and what is known of it."""

    spec: Json
    process: Container
    started: int = 0
    start_at: float = 0.0
    ready: bool = False
    probe_at: float = 0.0
    failures: int = 0
    given: Json = field(default_factory=dict[str, Any])  # requests and limits
    finished: int | None = None  # the exit code of one that is not started again
    nothing_to_run: bool = False

    @property
    def runs(self) -> bool:
        return self.nothing_to_run or self.process.pid is not None


class PlayedPod:
    def __init__(self, kubelet: Kubelet, seen: Json) -> None:
        self._kubelet, self._pod, self._lock = kubelet, seen, RLock()
        metadata = seen["metadata"]
        self.name, self.namespace, self.node = metadata["name"], metadata["namespace"], seen["spec"]["nodeName"]
        self._path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self._home = kubelet.folder / "pods" / metadata["uid"]
        self._deleted, self._gone = Event(), Event()
        self._written: Json = {}
        self._began = _now()
        self._changed: dict[str, tuple[bool, str]] = {}
        self.address, self._network = "", ""
        self._containers = [
            _Played(one, kubelet.containers.new(f"{self.name}.{one['name']}")) for one in seen["spec"]["containers"]
        ]
        if "deletionTimestamp" in metadata:
            self._deleted.set()
        self._thread = Thread(target=self._live, name=f"pod {self.name}", daemon=True)
        self._thread.start()

    def see(self, seen: Json) -> None:
        self._pod = seen
        if "deletionTimestamp" in seen["metadata"]:
            self._deleted.set()

    def abandon(self) -> None:
        """Its object is gone: deleted by force, or with its node."""
        self._gone.set()
        self._deleted.set()

    def close(self) -> None:
        self._gone.set()
        self._deleted.set()
        self._thread.join(10)

    def kill(self, why: What) -> None:
        for one in self._containers:
            one.process.kill(why)

    def pids(self) -> dict[str, int]:
        """By container."""
        return {one.spec["name"]: pid for one in self._containers if (pid := one.process.pid) is not None}

    # --- its thread -----------------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._home.mkdir(parents=True)
            self._network, self.address = self._kubelet.networks.add()
            while not self._deleted.wait(_TICK) and not self._is_over():
                self._tend()
            if self._deleted.is_set():
                self._end()
        except Exception as error:
            with (self._kubelet.logs / f"{self.name}.kubelet.log").open("a", encoding="utf-8") as log:
                log.write(f"{error!r}\n")
            raise
        finally:
            self.kill(What.WITHOUT_POD)
            for one in self._containers:
                self._kubelet.containers.drop(one.process)
            if self._network:
                self._kubelet.networks.remove(self._network)

    def _tend(self) -> None:
        for one in self._containers:
            if one.process.reap():
                self._note_exit(one)
            if not one.runs and one.finished is None and time.monotonic() >= one.start_at:
                self._start(one)
            self._probe(one)
            if self._kubelet.has_room or not one.given:
                one.given = self._asked(one)
        self._tell()

    def _asked(self, one: _Played) -> Json:
        now = next(it for it in self._pod["spec"]["containers"] if it["name"] == one.spec["name"])
        return now.get("resources", {})

    def _note_exit(self, one: _Played) -> None:
        code, policy = one.process.code or 0, self._pod["spec"].get("restartPolicy", "Always")
        one.ready = False
        one.start_at = time.monotonic() + min(0.5 * 2.0**one.started, _LONGEST_WAIT)
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            one.finished = code

    def _start(self, one: _Played) -> None:
        try:
            command = self._command(one)
        except ApiError as error:  # a Secret that is not there yet
            one.process.trouble = str(error)
            one.start_at = time.monotonic() + 0.5
            return
        if command is None:
            one.nothing_to_run = True
            return
        one.started += 1
        one.process.start(command, self._environment)
        one.probe_at = time.monotonic() + one.spec.get("readinessProbe", {}).get("initialDelaySeconds", 0)

    def _command(self, one: _Played) -> list[str] | None:
        spec, kubelet = one.spec, self._kubelet
        server = (HOST, kubelet.plane.port_of("kube-apiserver"))
        files = PodFiles(kubelet.plane.api, self._pod, self._home, address=self.address, server=server)
        image = kubelet.images.get(_short(spec["image"]))
        if image is None and _short(spec["image"]) != PLAIN:
            return None
        own = files.environment(spec)
        words = [*spec.get("command", image.command if image else ()), *spec.get("args", ())]
        program = [expanded(word, own) for word in words]
        if image is None:
            self._environment = {**os.environ, **own}
            return in_network(self._network, *program)
        self._environment = dict(os.environ)
        root = self._home / f"root-{spec['name']}"
        root.mkdir(exist_ok=True)
        said = {
            "root": str(root),
            "folder": spec.get("workingDir", "/"),
            "command": program,
            "environment": {"PATH": _PATH, **own},
            "volumes": [
                *files.mounts(spec),
                {"from": str(image.programs), "at": _IMAGE, "readOnly": False},
                *({"from": str(kubelet.folder / Path(at).name), "at": at, "readOnly": False} for at in NAMES),
            ],
        }
        file = self._home / f"{spec['name']}.json"
        file.write_text(json.dumps(said), encoding="utf-8")
        boot = [sys.executable, "-S", str(enclosure_boot.__file__), str(file)]
        return in_network(self._network, "unshare", "--mount", *boot)

    def _probe(self, one: _Played) -> None:
        probe = one.spec.get("readinessProbe")
        if not one.runs:
            one.ready = False
        elif probe is None or one.nothing_to_run:
            one.ready = True
        elif time.monotonic() >= one.probe_at:
            # A kubelet waits the whole period before its first success too; here a pod is ready as soon as it is.
            one.probe_at = time.monotonic() + (probe.get("periodSeconds", 10) if one.ready else 0.25)
            passed = self._passes(one.spec, probe)
            one.failures = 0 if passed else one.failures + 1
            if passed or one.failures >= probe.get("failureThreshold", 3):
                one.ready = passed

    def _passes(self, spec: Json, probe: Json) -> bool:
        if "httpGet" in probe:
            return self._http(spec, probe["httpGet"], probe.get("timeoutSeconds", 1))
        if "tcpSocket" in probe:
            return accepts(self._port(spec, probe["tcpSocket"]["port"]), self.address)
        return True

    def _http(self, spec: Json, get: Json, patience: float) -> bool:
        port, path = self._port(spec, get["port"]), get.get("path", "/")
        scheme = get.get("scheme", "HTTP").lower()
        try:
            if scheme == "https":
                text_at(f"https://{self.address}:{port}{path}")
                return True
            with urllib.request.urlopen(f"http://{self.address}:{port}{path}", timeout=patience) as answer:
                return bool(200 <= answer.status < 400)
        except OSError:
            return False

    @staticmethod
    def _port(spec: Json, port: int | str) -> int:
        if isinstance(port, int):
            return port
        return next(int(one["containerPort"]) for one in spec.get("ports", ()) if one.get("name") == port)

    # --- its end --------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """The grace begins with the deletion, and `preStop` is a part of it."""
        grace = float(self._pod["metadata"].get("deletionGracePeriodSeconds", 30))
        deadline = time.monotonic() + grace
        DRAINED.unlink(missing_ok=True)
        ends = [Thread(target=self._stop, args=(one, deadline), daemon=True) for one in self._containers]
        for thread in ends:
            thread.start()
        for thread in ends:
            thread.join()
        if self._gone.is_set():
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._pod["metadata"]["uid"]}}
        with suppress(ApiError):  # it is gone
            self._kubelet.plane.api._answer("DELETE", self._path, {}, options)

    def _stop(self, one: _Played, deadline: float) -> None:
        hook = one.spec.get("lifecycle", {}).get("preStop")
        if hook is not None and one.process.pid is not None:
            self._hook(one, hook, deadline)
        told = False
        while one.process.pid is not None and not one.process.reap():
            if not told:
                told = True
                one.process.stop()
            if time.monotonic() >= deadline or self._gone.is_set():
                one.process.kill(What.OUT_OF_GRACE)
            time.sleep(_TICK / 5)

    def _hook(self, one: _Played, hook: Json, deadline: float) -> None:
        if "sleep" in hook:
            self._gone.wait(min(hook["sleep"]["seconds"], max(0.0, deadline - time.monotonic())))
        elif "httpGet" in hook:
            self._http(one.spec, hook["httpGet"], max(0.1, deadline - time.monotonic()))
        elif "exec" in hook:
            self._exec(one, hook["exec"]["command"], max(0.1, deadline - time.monotonic()))

    def _exec(self, one: _Played, command: Sequence[str], patience: float) -> None:
        """Beside the container's process, in its mounts and its network."""
        pid = one.process.pid
        if pid is None:
            return
        told = (text.partition("=") for text in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in text)
        enter = [str(shutil.which("nsenter")), f"--target={pid}", "--mount", "--net", "--root", "--wd"]
        with suppress(subprocess.TimeoutExpired), (self._kubelet.logs / f"{self.name}.kubelet.log").open("a") as log:
            environment = {name: value for name, _, value in told}
            # As in a container the process 1 is not the machine's: Envoy Gateway writes its log to that one's output.
            words = [*enter, "unshare", "--pid", "--fork", "--propagation=unchanged", "--mount-proc", *command]
            subprocess.run(words, env=environment, stdout=log, stderr=log, check=False, timeout=patience)

    # --- what it tells --------------------------------------------------------------------------------------------

    def _is_over(self) -> bool:
        return all(one.finished is not None for one in self._containers)

    def _tell(self) -> None:
        status = self._status()
        if status == self._written or self._gone.is_set():
            return
        body = {"metadata": {"uid": self._pod["metadata"]["uid"]}, "status": status}
        try:
            self._kubelet.plane.api.patch(f"{self._path}/status", body, STRATEGIC_MERGE)
            self._written = status
        except ApiError as error:
            if error.status not in (0, 404, 409, 429, 500, 503):
                raise

    def _status(self) -> Json:
        ready = all(one.ready for one in self._containers)
        phase = "Running" if any(one.runs or one.started for one in self._containers) else "Pending"
        if self._is_over():
            phase = "Failed" if any(one.finished for one in self._containers) else "Succeeded"
            ready = False
        return {
            "phase": phase,
            "startTime": self._began,
            "hostIP": HOST,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [self._condition(kind, ready) for kind in ("ContainersReady", "Ready")]
            + [self._condition("Initialized", holds=True), *self._resize()],
            "containerStatuses": [self._container_status(one) for one in self._containers],
        }

    def _condition(self, kind: str, holds: bool) -> Json:
        before, since = self._changed.get(kind, (not holds, self._began))
        if before != holds:
            since = _now()
        self._changed[kind] = holds, since
        return {"type": kind, "status": str(holds), "lastTransitionTime": since}

    def _resize(self) -> list[Json]:
        if all(one.given in ({}, self._asked(one)) for one in self._containers):
            return []
        return [{**self._condition("PodResizePending", holds=True), "reason": "Infeasible"}]

    def _container_status(self, one: _Played) -> Json:
        state: dict[str, Any]
        if one.finished is not None:
            state = {"terminated": {"exitCode": one.finished, "startedAt": self._began, "finishedAt": self._began}}
        elif one.runs:
            state = {"running": {"startedAt": self._began}}
        else:
            state = {"waiting": {"reason": "CrashLoopBackOff" if one.started else "ContainerCreating"}}
        return {
            "name": one.spec["name"],
            "image": one.spec["image"],
            "imageID": "",
            "ready": one.ready,
            "started": one.runs,
            "restartCount": max(0, one.started - 1),
            "resources": one.given,
            "state": state,
        }


def _short(image: str) -> str:
    """`metrics-server` of `registry.k8s.io/metrics-server/metrics-server:v1`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
