"""The harbour with a Ray cluster: KubeRay's operator, a head, a group of workers, and a pool of drivers."""

import secrets
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from control_plane.nodes.images.recipes import RAY_TAG
from rq.job import Job

from controllers.adapters.kube_api import Json
from ebbtide.jobs.checkpoints.attempts import attempt_key
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.settings import StackSettings
from ebbtide.settings.load import stack_path
from ebbtide.settings.sections.ray import TOKEN_KEY, token_secret
from ebbtide.vocabulary.labels import NAMESPACE
from tests.node import tasks
from tests.node.harbour import DAY, Harbour, config, is_ready, parsed, pool, settle
from tests.paths import DATA

CLUSTER, POOL, GROUP = "flow", "drive", "cpu"
RAY = f"ebbtide-ray-{CLUSTER}"
CLAIM = "ray-checkpoints"
DRIVERS, WORKERS = 3, 2
HEAD = f"ray://{CLUSTER}-head-svc.{RAY}.svc:10001"

PLAYED = 32
_ASKED = (
    *("--trace", "openb2023-a", "--days", "3", "--seed", "0-7", "--vary", "stabilizationWindow=30s,2m"),
    *("--objective", "usd where wait_p95_s <= keda-defaults"),
)


def settings(week: Mapping[str, str] = DAY) -> StackSettings:
    code = {"files": {"tasks.py": Path(tasks.__file__).read_text(encoding="utf-8")}, "at": "/opt/jobs"}
    imported: dict[str, Any] = {"volumes": {"code": code}, "env": {"PYTHONPATH": "/opt/jobs"}}
    return parsed(
        {
            **config(week),
            "ebbtide:ray": {
                CLUSTER: {
                    "version": RAY_TAG.rpartition(":")[2],
                    "image": RAY_TAG,
                    "head": {"cpu": "500m", "memory": "2Gi"},
                    "groups": {GROUP: {"max": WORKERS, "cpu": 1, "memory": "2Gi", "idleAfter": "20s", **imported}},
                    "longestTask": "60s",
                    "sleep": {"when": "outsideBusinessHours", "after": "15s", "wake": ["businessHours", "queue"]},
                }
            },
            "ebbtide:workers": {
                POOL: pool(
                    POOL,
                    image=RAY_TAG,
                    max=DRIVERS,
                    memory="768Mi",
                    ray=CLUSTER,
                    longestJob="12h",
                    checkpoints={"claim": CLAIM, "every": "5s", "saveWithin": "5s"},
                    **imported,
                )
            },
        }
    )


@dataclass(frozen=True)
class Done:
    """A task."""

    number: int
    pod: str
    began: float
    ended: float


class Site:
    """The harbour, with Ray."""

    def __init__(self, harbour: Harbour) -> None:
        self.harbour, self.api, self.wait = harbour, harbour.api, harbour.wait

    def ray(self, group: str) -> list[Json]:
        path, selector = f"/api/v1/namespaces/{RAY}/pods", f"ray.io/group={group}"
        return self.api.get(path, labelSelector=selector)["items"]

    def workers(self) -> list[Json]:
        return self._staying(GROUP)

    def _staying(self, group: str) -> list[Json]:
        return _staying(self.ray(group))

    def ready_workers(self) -> list[Json] | None:
        """All that there may be."""
        ready = [pod for pod in self.workers() if is_ready(pod)]
        return ready if len(ready) == WORKERS else None

    def head(self) -> Json | None:
        """If it is ready."""
        return next((pod for pod in self._staying("headgroup") if is_ready(pod)), None)

    def enqueue(self, count: int, pause: float) -> Job:
        plan, name = {"count": count, "pause": pause}, f"squares-{secrets.token_hex(4)}"
        return self.harbour.enqueue_call("tasks.squares", plan, name=name, queue=POOL)

    def sweep(self, *options: str) -> Job:
        """In a worker's pod; `PLAYED` replays."""
        stacks = {name: stack_path(name, DATA).read_text(encoding="utf-8") for name in ("demo", "example-berlin")}
        plan = {"stacks": stacks, "options": [*_ASKED, *options]}
        return self.harbour.enqueue_call("tasks.swept", plan, name=f"sweep-{secrets.token_hex(4)}", queue=POOL)

    def played(self, job: Job) -> int:
        """Return the number of replays that a running sweep has kept."""
        return sum(self._kept_in(driver, job) for driver in self._drivers())

    def _kept_in(self, driver: Json, job: Job) -> int:
        """Return the results in a driver's pod; 0 in an idle one that the controller removes meanwhile."""
        look = ("sh", "-c", f"ls {tasks.SWEEP}{job.id}/results 2>/dev/null; true")
        try:
            return self.harbour.run_in(driver, *look).count("part-")
        except subprocess.CalledProcessError:
            if driver["metadata"]["name"] in {pod["metadata"]["name"] for pod in self._drivers()}:
                raise
            return 0

    def _drivers(self) -> list[Json]:
        return [pod for pod in _staying(self.harbour.pods(POOL, WORKER_NAMESPACE)) if is_ready(pod)]

    def tasks(self, job: Job) -> list[Done]:
        """In the order in which the driver heard of them, those of former attempts first."""
        found: Any = self.harbour.redis().lrange(tasks.DONE + job.id, 0, -1)
        parts = [line.decode().split() for line in found]
        return [Done(int(number), pod, float(began), float(ended)) for number, pod, began, ended in parts]

    def comebacks(self, job: Job) -> int:
        """How often the job was given back to its queue. Its attempt's number rises then and when the next begins."""
        attempt: Any = self.harbour.redis().hget(attempt_key(job.id), "attempt")
        return (int(attempt) - 1) // 2

    def tell(self, week: Mapping[str, str]) -> None:
        self.harbour.tell(week, settings(week))

    def is_idle(self) -> bool:
        return not self.ray(GROUP) and not self.harbour.pods(POOL, WORKER_NAMESPACE)


def _staying(pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


@contextmanager
def with_ray(harbour: Harbour) -> Generator[Site]:
    """As APPLY.md says, in its order."""
    settle(harbour)
    kubectl = harbour.cluster.plane.kubectl
    files = harbour.rendered(of=settings())
    kubectl("apply", "--server-side", "-f", str(files / "10-namespaces.yaml"))
    token = f"--from-literal={TOKEN_KEY}={secrets.token_hex(32)}"
    for namespace in (NAMESPACE, RAY, WORKER_NAMESPACE):
        kubectl("create", "secret", "generic", token_secret(CLUSTER), "--namespace", namespace, token)
    harbour.share_volume(CLAIM)
    kubectl("apply", "--server-side", "-f", str(files / "20-cluster.yaml"))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/rayclusters.ray.io")
    with harbour.grown(settings()):
        yield Site(harbour)
        harbour.api.delete(f"/apis/ray.io/v1/namespaces/{RAY}/rayclusters/{CLUSTER}")  # while its operator is there
        harbour.wait(lambda: not Site(harbour).ray("headgroup"), "the head to go")
