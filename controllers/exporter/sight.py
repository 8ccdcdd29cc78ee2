"""The caches of the exporter.

If a watch is lost for more than 5 seconds, or silent for more than 150 (`KubeCache`), the metrics omit the objects of
its cache. Nodes and pods are watched as long as the process runs, other objects in the namespaces that the config
lists.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from controllers.adapters.kube_api import Json, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.exporter.objects import ClosingJob, Hpa, Pod, asleep, closing_job, hpa, node, pod
from controllers.exporter.tally import Tally
from ebbtide.vocabulary.exporter import ExporterConfig

T = TypeVar("T")

KINDS = ("nodes", "pods", "hpas", "cronjobs", "workloads")


class _Pods(KubeCache[Pod]):
    """Pods of all namespaces, by namespace and name. Passes each pod of a list or an event to the tally."""

    def __init__(self, api: KubeApi, tally: Tally) -> None:
        super().__init__(api, "/api/v1/pods", pod, _ignore)
        self._tally = tally

    def _list(self) -> str:
        version = super()._list()
        self._tally.keep({pod.uid for pod in self._kept.values()})
        return version

    def _put(self, where: dict[str, Pod], item: Json, value: Pod | None) -> bool:
        name = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
        if value is not None:
            self._tally.see(value, counted=self.revision > 0)  # the first list shows past events
        elif (gone := where.get(name)) is not None:
            self._tally.forget(gone.uid)
        return super()._put(where, {"metadata": {"name": name}}, value)


class Sight:
    def __init__(self, api: KubeApi, tally: Tally) -> None:
        self._api = api
        self.nodes = KubeCache(api, "/api/v1/nodes", node, _ignore)
        self.pods = _Pods(api, tally)
        self.hpas: Mapping[str, KubeCache[Hpa]] = {}
        self.cron_jobs: Mapping[str, KubeCache[ClosingJob]] = {}
        self.deployments: Mapping[str, KubeCache[str]] = {}
        self.stateful_sets: Mapping[str, KubeCache[str]] = {}

    def start(self) -> None:
        self.nodes.start()
        self.pods.start()

    def follow(self, config: ExporterConfig) -> None:
        """Watch only the namespaces of this config."""
        namespaces = config.hpa_namespaces
        hpas = [f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers" for namespace in namespaces]
        self.hpas = self._updated(self.hpas, hpas, hpa)
        cron_jobs = [f"/apis/batch/v1/namespaces/{config.namespace}/cronjobs"]
        self.cron_jobs = self._updated(self.cron_jobs, cron_jobs, closing_job)
        apps = [f"/apis/apps/v1/namespaces/{namespace}" for namespace in config.workload_namespaces]
        deployments, stateful_sets = ([f"{path}/{kind}s" for path in apps] for kind in ("deployment", "statefulset"))
        self.deployments = self._updated(self.deployments, deployments, partial(asleep, "deployment"))
        self.stateful_sets = self._updated(self.stateful_sets, stateful_sets, partial(asleep, "statefulset"))

    def _updated(
        self, previous: Mapping[str, KubeCache[T]], paths: list[str], slim: Callable[[Json], T | None]
    ) -> Mapping[str, KubeCache[T]]:
        for path in previous.keys() - paths:
            previous[path].close()
        new = {path: KubeCache(self._api, path, slim, _ignore) for path in paths if path not in previous}
        for cache in new.values():
            cache.start()
        return {path: new.get(path) or previous[path] for path in paths}

    def troubles(self) -> dict[str, str]:
        """Return for each of `KINDS` the reason for which it is omitted; empty if it is reported."""
        return {
            "nodes": self.nodes.trouble(),
            "pods": self.pods.trouble(),
            "hpas": _first(self.hpas),
            "cronjobs": _first(self.cron_jobs),
            "workloads": _first({**self.deployments, **self.stateful_sets}),
        }


def _first(caches: Mapping[str, KubeCache[T]]) -> str:
    return next(filter(None, (cache.trouble() for cache in caches.values())), "")


def _ignore() -> None:
    """Ignore changes: each scrape reads the caches."""
