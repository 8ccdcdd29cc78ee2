"""From a job to Ray's first task, and from its last one to no pod, on real nodes: `python -m benchmarks.ray.nodes`.

Two ways, on the same nodes with the same operator, image and group: a job of the queue, whose worker comes from zero
and drives Ray; and KubeRay alone, where `ray job submit` runs the driver on the head. Needs what `make test-node` does.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from control_plane.nodes.cluster import RealCluster

from controllers.adapters.kube_api import Json
from ebbtide.labels import WORKER_NAMESPACE
from ebbtide.settings.sections.ray import RAY_CONTAINER
from tests.node.harbour import Harbour, boot_nodes
from tests.node.ray_site import GROUP, POOL, Site, with_ray

ROUNDS = 3
ALONE = """
import ray, time
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=1)
def task():
    began = time.time()
    time.sleep(1)
    return began, time.time()
done = ray.get([task.remote() for _ in range(4)])
print("TOLD", min(each[0] for each in done), max(each[1] for each in done))
"""


def main() -> int:
    with RealCluster() as cluster, tempfile.TemporaryDirectory() as folder:
        boot_nodes(cluster)
        harbour = Harbour(cluster, Path(folder))
        harbour.install()
        with with_ray(harbour) as site:
            head = site.wait(site.head, "the head to be ready")
            print(f"head, idle: {_megabytes(site, head):.0f} MiB PSS")
            for way in (_by_queue, _alone):
                runs = [_run(site, way) for _ in range(ROUNDS)]
                for number, what in enumerate(("first task", "Ray's workers gone", "drivers gone")):
                    values = sorted(run[number] for run in runs)
                    told = " ".join(f"{value:.0f}" for value in values)
                    print(f"{way.__name__[1:]}: {what}: {median(values):.0f} s ({told})", flush=True)
    return 0


def _by_queue(site: Site) -> tuple[float, float]:
    job = site.enqueue(4, 1.0)
    site.wait(lambda: job.get_status(refresh=True) == "finished", "the job to end")
    done = site.tasks(job)
    return min(task.began for task in done), max(task.ended for task in done)


def _alone(site: Site) -> tuple[float, float]:
    head = site.wait(site.head, "the head to be ready")
    site.harbour.run_in(head, "sh", "-c", f"cat > /tmp/alone.py <<'END'\n{ALONE}END\n")
    submit = ("ray", "job", "submit", "--address", "http://127.0.0.1:8265", "--", "python", "/tmp/alone.py")
    (told,) = (line for line in site.harbour.run_in(head, *submit).splitlines() if line.startswith("TOLD"))
    first, last = map(float, told.split()[1:])
    return first, last


def _megabytes(site: Site, pod: Json) -> float:
    """Of Ray itself, without the autoscaler beside it; what its processes share counts once (PSS)."""
    (ray,) = (each for each in pod["status"]["containerStatuses"] if each["name"] == RAY_CONTAINER)
    pod = {**pod, "status": {**pod["status"], "containerStatuses": [ray]}}
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in site.harbour.cluster.processes_of(pod)]
    return sum(int(text.split("Pss:")[1].split()[0]) for text in rollups) / 1024


def _run(site: Site, way: Callable[[Site], tuple[float, float]]) -> tuple[float, float, float]:
    """Seconds until the first task, and after the last one until each kind of pod is gone; the group's idle time, which
    is the same in both ways, is in it."""
    site.wait(site.is_idle, "nothing to be there")
    begun = time.time()
    first, last = way(site)
    workers = site.wait(lambda: time.time() if not site.ray(GROUP) else None, "Ray's workers to go")
    gone = site.wait(
        lambda: time.time() if not site.harbour.pods(POOL, WORKER_NAMESPACE) else None, "the drivers to go"
    )
    return first - begun, workers - last, gone - last


if __name__ == "__main__":
    sys.exit(main())
