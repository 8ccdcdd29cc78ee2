"""What the exporter sees of the cluster, cache by cache.

A watch that is lost is given five seconds to come back, and one that says nothing is believed for 150 (`KubeCache`):
after that nothing of its cache is told. Nodes and pods are watched for as long as the process runs; what the config
names comes and goes with it.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from controllers.adapters.kube_api import Json, KubeApi
from controllers.adapters.kube_cache import KubeCache
from controllers.exporter.objects import ClosingJob, Hpa, Pod, closing_job, hpa, node, pod
from controllers.exporter.tally import Tally
from ebbtide.vocabulary.exporter import ExporterConfig

T = TypeVar("T")

WHAT = ("nodes", "pods", "hpas", "cronjobs")


class _Pods(KubeCache[Pod]):
    """Of all namespaces, so by namespace and name; tells the tally of each that comes by, in order."""

    def __init__(self, api: KubeApi, tally: Tally) -> None:
        super().__init__(api, "/api/v1/pods", pod, _nobody)
        self._tally = tally

    def _list(self) -> str:
        version = super()._list()
        self._tally.keep({it.uid for it in self._kept.values()})
        return version

    def _put(self, where: dict[str, Pod], item: Json, value: Pod | None) -> bool:
        name = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
        if value is not None:
            self._tally.see(value, counted=self.revision > 0)  # the first list shows what was before
        elif (gone := where.get(name)) is not None:
            self._tally.forget(gone.uid)
        return super()._put(where, {"metadata": {"name": name}}, value)


class Sight:
    def __init__(self, api: KubeApi, tally: Tally) -> None:
        self._api = api
        self.nodes = KubeCache(api, "/api/v1/nodes", node, _nobody)
        self.pods = _Pods(api, tally)
        self.hpas: Mapping[str, KubeCache[Hpa]] = {}
        self.cron_jobs: Mapping[str, KubeCache[ClosingJob]] = {}

    def start(self) -> None:
        self.nodes.start()
        self.pods.start()

    def follow(self, config: ExporterConfig) -> None:
        """Look where this config says, and nowhere else."""
        hpas = [f"/apis/autoscaling/v2/namespaces/{it}/horizontalpodautoscalers" for it in config.hpa_namespaces]
        self.hpas = self._followed(self.hpas, hpas, hpa)
        jobs = [f"/apis/batch/v1/namespaces/{config.namespace}/cronjobs"]
        self.cron_jobs = self._followed(self.cron_jobs, jobs, closing_job)

    def _followed(
        self, before: Mapping[str, KubeCache[T]], paths: list[str], slim: Callable[[Json], T | None]
    ) -> Mapping[str, KubeCache[T]]:
        for path in before.keys() - paths:
            before[path].close()
        new = {path: KubeCache(self._api, path, slim, _nobody) for path in paths if path not in before}
        for cache in new.values():
            cache.start()
        return {path: new.get(path) or before[path] for path in paths}

    def troubles(self) -> dict[str, str]:
        """Of each of `WHAT`: why it is not told now; empty if it is."""
        return {
            "nodes": self.nodes.trouble(),
            "pods": self.pods.trouble(),
            "hpas": _first(self.hpas),
            "cronjobs": _first(self.cron_jobs),
        }


def _first(caches: Mapping[str, KubeCache[T]]) -> str:
    return next(filter(None, (cache.trouble() for cache in caches.values())), "")


def _nobody() -> None:
    """Whoever asks looks for himself."""
