"""What Ebbtide's own processes write at /metrics: the processes themselves, in this interpreter, without a cluster."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.metrics import broker_families
from controllers.doubt import TRUST
from controllers.exporter import main as exporter
from controllers.exporter.certificates import Certificates
from controllers.exporter.objects import asleep, closing_job, hpa
from controllers.exporter.sight import Sight
from controllers.process import ConfigFile
from controllers.scaler import main as scaler
from controllers.workloads import main as workloads
from controllers.workloads.loop import LoopCounters, metrics
from controllers.workloads.ray.idle import IdleWorkers
from ebbtide.vocabulary.documents import dump, load
from ebbtide.vocabulary.exporter import AdoptedRule, ExporterConfig, GroupMax, LabelValues, Price
from ebbtide.vocabulary.workloads import RayPolicy, WorkloadsConfig
from tests.builders.controllers import NOON, Bench, budgets, config, pool_policy
from tests.builders.monitoring import cluster_objects as objects
from tests.builders.operation import ALWAYS_NIGHT

NOWHERE = "https://127.0.0.1:1"


def kubeconfig(folder: Path) -> str:
    """Leads to no cluster."""
    file = folder / "kubeconfig"
    parts: dict[str, Any] = {
        "clusters": [{"name": "here", "cluster": {"server": NOWHERE}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    file.write_text(json.dumps(parts), encoding="utf-8")
    return str(file)


def of_the_scaler(folder: Path) -> str:
    """Of a leader that sees a pool with waiting jobs and workers, an open budget, and a broker."""
    bench = Bench(config(pool_policy(), budgets=budgets("api")))
    bench.staff("train", 2, busy=1)
    bench.queues["train"].enqueue(3)
    bench.queues["train"].head_waited = timedelta(minutes=20)
    bench.cluster.add_budget("api")
    document = folder / "config.json"
    document.write_text(dump(bench.config), encoding="utf-8")
    process = scaler.ScalerProcess(ConfigFile(document, scaler.read), kubeconfig(folder))
    for _ in range(2):
        bench.pass_time(timedelta(seconds=10))
        process.meter.reconciled(bench.report)
    broker: Any = SimpleNamespace(name="jobs", answer_age=0.4)
    return process.metrics() + "".join(broker_families([broker]))


def of_the_workload_controller(folder: Path) -> str:
    """Of one that looks after a Ray cluster which it cannot see."""
    policy = RayPolicy(name="flow", namespace="ray", head=NOWHERE, token_file="/nowhere", pools=())
    wanted = WorkloadsConfig(namespace="ebbtide", hours=ALWAYS_NIGHT, ray=(policy,))
    document = folder / "workloads.json"
    document.write_text(dump(wanted), encoding="utf-8")
    access = kubeconfig(folder)
    process = workloads.WorkloadProcess(ConfigFile(document, partial(load, WorkloadsConfig)), access)
    term = process.term = workloads.WorkloadsTerm(process, wanted, stream=StringIO())
    term.loop.reconcile(NOON, TRUST)
    term.loop.close()
    return process.metrics()


def of_an_idle_ray_cluster() -> str:
    """What the workload controller adds for one that it sees, with a worker that Ray keeps."""
    tally = LoopCounters()
    tally.writes["raycluster ray/flow", "done"] = 1
    seen = {
        "kind": "RayCluster",
        "namespace": "ray",
        "name": "flow",
        "state": "awake",
        "why": "idle",
        "pending": ("spec",),
        "idleFor": timedelta(),
        "workers": (IdleWorkers(group="gpu", workers=1, idle_for=timedelta(), overdue=1),),
    }
    raised = {"kind": "ScaledObject", "namespace": "ebbtide", "name": "api", "state": "raised", "why": "event"}
    return metrics([seen, {**raised, "floor": 4}], tally)


def of_the_exporter(cost_labels: tuple[str, ...] = ()) -> str:
    """Of one that sees a node, a pod and one that waits, an HPA, a closer that has just run, a workload that was left
    asleep, and then an eviction.
    """
    now = datetime.now(UTC)  # Prometheus compares these instants with its own clock
    waiting = objects.pod("train-2", node="", phase="Pending")
    killed = objects.container_status(1, last=objects.ended("OOMKilled"))
    evicted = objects.pod(containerStatuses=[killed], conditions=[objects.disrupted()])
    seen = objects.Script(
        {
            "/api/v1/nodes": [objects.node()],
            "/api/v1/pods": [objects.pod(containerStatuses=[objects.container_status()]), waiting],
            "hpas": [objects.hpa()],
            "cronjobs": [objects.closing_job(at=now)],
            "deployments": [objects.deployment()],
        },
        {"/api/v1/pods": [objects.event("MODIFIED", evicted)]},
    )
    config = ExporterConfig(
        namespace="ebbtide",
        hpa_namespaces=("ebbtide",),
        prices=(Price(instance_type="g5.xlarge", dollars_per_hour=1.006),),
        tls_endpoints=("redis.example.com:6379",),
        timezone="America/New_York",
        holidays_until=now.date() + timedelta(days=700),
        adopted=(AdoptedRule(name="hub", namespace="jupyter", selector=(LabelValues(key="app", values=("hub",)),)),),
        group_max=(GroupMax(group="flexible", nodes=8),),
        cost_labels=cost_labels,
    )
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder) / "exporter.json"
        document.write_text(dump(config), encoding="utf-8")
        file = ConfigFile(document, partial(load, ExporterConfig))
        process = exporter.ExporterProcess(file, kubeconfig(Path(folder)))
    sight = process.sight = Sight(seen.api, process.tally)
    sight.hpas = {"hpas": KubeCache(seen.api, "hpas", hpa, lambda: None)}
    sight.cron_jobs = {"cronjobs": KubeCache(seen.api, "cronjobs", closing_job, lambda: None)}
    sight.workloads = {"deployments": KubeCache(seen.api, "deployments", partial(asleep, "deployment"), lambda: None)}
    watched = (sight.hpas, sight.cron_jobs, sight.workloads)
    for cache in (sight.nodes, sight.pods, *(cache for caches in watched for cache in caches.values())):
        looked(cache)
    process.certificates = Certificates(read=lambda _: now + timedelta(days=90))
    process.certificates.follow(config.tls_endpoints)
    process.certificates.look()
    process.api.calls["WATCH"] = 4
    return process.metrics()


def looked(cache: KubeCache[Any]) -> None:
    """What its thread does until the watch ends."""
    cache._version = cache._list()
    cache._follow()
