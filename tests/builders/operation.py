"""The controller as a process of its own, on a real control plane, with the rights that are rendered for it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from control_plane.plane.driver import ControlPlane

from components.controller.rights import system_rules, worker_rules
from ebbtide.demo.embedded import free_port
from ebbtide.demo.embedded_redis import EmbeddedRedis
from ebbtide.vocabulary.controller_config import BudgetPolicy, ControllerConfig
from ebbtide.vocabulary.documents import dump
from ebbtide.vocabulary.labels import CONTROLLER, WORKLOAD
from ebbtide.vocabulary.windows import BusinessHours
from tests.builders.control_plane import Fresh, events_of, eventually
from tests.builders.controllers import config, pool_policy
from tests.builders.redis import endpoint
from tests.paths import ROOT

ALWAYS_NIGHT = BusinessHours(timezone="UTC", week=())
GRACE = 5  # seconds that a pod is given to end


class Process:
    """One controller process, killed at the end at the latest."""

    def __init__(
        self, name: str, scene: "Scene", *, kubeconfig: Path | None = None, module: str = "controllers"
    ) -> None:
        """`module` is run with the controller's arguments; the default kubeconfig is of the controller's account."""
        self.name, self._port = name, free_port()
        self.log = scene.folder / f"{name}.log"
        environment = {**os.environ, **_image_environment(), "POD_NAME": name, "POD_NAMESPACE": scene.apps}
        kubeconfig = kubeconfig or scene.plane.kubeconfig_as(scene.apps, CONTROLLER)
        arguments = [
            "--config",
            str(scene.file),
            "--kubeconfig",
            str(kubeconfig),
            "--listen",
            f"127.0.0.1:{self._port}",
        ]
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        self.pid = self._child.pid

    def get(self, path: str) -> tuple[int, str]:
        """HTTP status and text; 0 while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def status(self) -> dict[str, Any]:
        code, text = self.get("/status")
        return json.loads(text) if code == 200 else {}

    def leads(self) -> bool:
        assert self._child.poll() is None, "the controller process has ended"
        return bool(self.status().get("leader", {}).get("held"))

    def kill(self) -> None:
        self._child.kill()
        self._child.wait()

    def terminate(self) -> int:
        """Its exit code, as a pod is ended: SIGTERM, and not longer than the grace."""
        self._child.send_signal(signal.SIGTERM)
        return self._child.wait(timeout=GRACE)


_P = TypeVar("_P", bound=Process)


@contextmanager
def running(process: _P) -> Generator[_P]:
    """Kill the process at the end; a failed assertion shows its log."""
    try:
        yield process
    except AssertionError as error:
        error.add_note(process.log.read_text())
        raise
    finally:
        process.kill()


@contextmanager
def leading(process: _P) -> Generator[_P]:
    """As `running`, from the moment at which the process leads."""
    with running(process):
        eventually(process.leads, what=f"{process.name} to lead")
        yield process


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A pool `train` at zero and a budget `api`, in fresh namespaces; it is always night there."""

    plane: ControlPlane
    redis: EmbeddedRedis
    apps: str
    workers: str
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "config.json"

    def config(self, **changes: Any) -> ControllerConfig:
        pool = pool_policy(namespace=self.workers, max_workers=changes.pop("most", 10))
        edges = {"budgets": (BudgetPolicy(name="api", namespace=self.apps),), "redis": endpoint(self.redis)}
        return config(pool, **{"hours": ALWAYS_NIGHT, "resync": timedelta(seconds=1), **edges, **changes})

    def write(self, text: str) -> None:
        """Swapped, as Kubernetes does with a mounted ConfigMap."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)

    def enqueue(self, *jobs: str) -> None:
        with self.redis.client() as client:
            client.rpush("rq:queue:train", *jobs)

    def replicas(self) -> int:
        deployment = self.plane.api.get(f"/apis/apps/v1/namespaces/{self.workers}/deployments/train")
        return int(deployment["spec"].get("replicas", 0))

    def max_unavailable(self) -> int:
        budget = self.plane.api.get(f"/apis/policy/v1/namespaces/{self.apps}/poddisruptionbudgets/api")
        return int(budget["spec"]["maxUnavailable"])

    def events(self, namespace: str) -> list[dict[str, Any]]:
        return events_of(self.plane.api, namespace, CONTROLLER)

    def lease_holder(self) -> str:
        lease = self.plane.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.apps}/leases/{CONTROLLER}")
        return str(lease.get("spec", {}).get("holderIdentity", ""))

    def process(self, name: str = "one", **how: Any) -> AbstractContextManager[Process]:
        """As `Process`."""
        return running(Process(name, self, **how))

    def leader(self, name: str = "one", **how: Any) -> AbstractContextManager[Process]:
        return leading(Process(name, self, **how))


def make_scene(plane: ControlPlane, fresh: Fresh, redis: EmbeddedRedis, folder: Path) -> Scene:
    scene = Scene(
        plane=plane, redis=redis, apps=fresh.namespace("apps"), workers=fresh.namespace("workers"), folder=folder
    )
    account = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": scene.apps}
    plane.api.create(f"/api/v1/namespaces/{scene.apps}/serviceaccounts", {"metadata": {"name": CONTROLLER}})
    _grant(plane, scene.apps, account, system_rules(lease=CONTROLLER, budgets=["api"]))
    _grant(plane, scene.workers, account, worker_rules(pools=["train"]))
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{scene.apps}/leases"
    plane.api.create(leases, {"metadata": {"name": CONTROLLER}})
    selector = {"matchLabels": {"app": "api"}}
    budget = {"metadata": {"name": "api"}, "spec": {"maxUnavailable": 0, "selector": selector}}
    plane.api.create(f"/apis/policy/v1/namespaces/{scene.apps}/poddisruptionbudgets", budget)
    plane.api.create(f"/apis/apps/v1/namespaces/{scene.workers}/deployments", _deployment("train"))
    scene.write(dump(scene.config()))
    return scene


def _image_environment() -> dict[str, str]:
    """What the image sets, but for its path: asserts and docstrings are gone there, so they are here."""
    _, _, last_stage = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")
    lines: list[str] = re.findall(r"^ENV (.*)$", last_stage, re.MULTILINE)
    settings = dict(setting.split("=", 1) for line in lines for setting in line.split())
    return {name: value for name, value in settings.items() if name != "PYTHONPATH"}


def _deployment(name: str) -> dict[str, Any]:
    labels = {WORKLOAD: name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "worker", "image": "worker"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": name}, "spec": spec}


def _grant(plane: ControlPlane, namespace: str, account: dict[str, str], rules: Sequence[Any]) -> None:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    spelled = [{_camel(key): value for key, value in rule.items()} for rule in rules]
    plane.api.create(f"{rbac}/roles", {"metadata": {"name": CONTROLLER}, "rules": spelled})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CONTROLLER}
    plane.api.create(f"{rbac}/rolebindings", {"metadata": {"name": CONTROLLER}, "roleRef": role, "subjects": [account]})


def _camel(key: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), key)
