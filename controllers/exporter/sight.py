"""The caches of the exporter.

If a watch is lost for more than 5 seconds, or silent for more than 150 (`KubeCache`), the metrics omit the objects of
its cache. Nodes and pods are watched as long as the process runs, other objects in the namespaces that the config
lists. Since a team may delete its namespace, the loss of a watch there omits only the objects of that watch.
"""

from collections.abc import Callable, Mapping, Sequence
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
        self.workloads: Mapping[str, KubeCache[str]] = {}
        self.of_teams: Mapping[str, KubeCache[str]] = {}

    def start(self) -> None:
        self.nodes.start()
        self.pods.start()

    def follow(self, config: ExporterConfig) -> None:
        """Watch only the namespaces of this config."""
        spaces = config.hpa_namespaces
        hpas = {f"/apis/autoscaling/v2/namespaces/{space}/horizontalpodautoscalers": hpa for space in spaces}
        self.hpas = self._updated(self.hpas, hpas)
        cron_jobs = {f"/apis/batch/v1/namespaces/{config.namespace}/cronjobs": closing_job}
        self.cron_jobs = self._updated(self.cron_jobs, cron_jobs)
        self.workloads = self._updated(self.workloads, _workloads(config.workload_namespaces))
        self.of_teams = self._updated(self.of_teams, _workloads(config.team_namespaces))

    def _updated(
        self, previous: Mapping[str, KubeCache[T]], wanted: Mapping[str, Callable[[Json], T | None]]
    ) -> Mapping[str, KubeCache[T]]:
        """Return a cache for each wanted path; its function slims the objects."""
        for path in previous.keys() - wanted.keys():
            previous[path].close()
        new = {path: KubeCache(self._api, path, wanted[path], _ignore) for path in wanted if path not in previous}
        for cache in new.values():
            cache.start()
        return {path: new.get(path) or previous[path] for path in wanted}

    def reported_workloads(self) -> Mapping[str, KubeCache[str]]:
        return {**self.workloads, **{path: cache for path, cache in self.of_teams.items() if not cache.trouble()}}

    def trouble_of_teams(self) -> str:
        """Return why the workloads of a team's namespace are omitted; empty if all are reported."""
        return _first(self.of_teams)

    def troubles(self) -> dict[str, str]:
        """Return for each of `KINDS` the reason for which it is omitted; empty if it is reported."""
        return {
            "nodes": self.nodes.trouble(),
            "pods": self.pods.trouble(),
            "hpas": _first(self.hpas),
            "cronjobs": _first(self.cron_jobs),
            "workloads": _first(self.workloads),
        }


def _workloads(namespaces: Sequence[str]) -> Mapping[str, Callable[[Json], str | None]]:
    return {
        f"/apis/apps/v1/namespaces/{namespace}/{kind}s": partial(asleep, kind)
        for namespace in namespaces
        for kind in ("deployment", "statefulset")
    }


def _first(caches: Mapping[str, KubeCache[T]]) -> str:
    return next(filter(None, (cache.trouble() for cache in caches.values())), "")


def _ignore() -> None:
    """Ignore changes: each scrape reads the caches."""
