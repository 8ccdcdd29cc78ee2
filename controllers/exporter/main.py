"""`python -m controllers.exporter --config FILE`: report the cluster to Prometheus. It only reads, and has no Lease."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from typing import TypeVar

from controllers.adapters.kube_cache import KubeCache
from controllers.exporter.certificates import Certificates
from controllers.exporter.cost_labels import CostLabels
from controllers.exporter.exposition import ClusterObjects, process_text, text
from controllers.exporter.sight import Sight
from controllers.exporter.tally import Tally
from controllers.process import ConfigFile, Process, start
from ebbtide.vocabulary.documents import load
from ebbtide.vocabulary.exporter import ExporterConfig

T = TypeVar("T")

_TURN = timedelta(seconds=5)  # between two reads of the config
_PATIENCE = 60.0  # seconds without a turn after which the process is unhealthy


def main(arguments: list[str]) -> int:
    description, read = "Reports the cluster's capacity and requests to Prometheus.", partial(load, ExporterConfig)
    return start("controllers.exporter", description, "the exporter's document", read, ExporterProcess, arguments)


class ExporterProcess(Process[ExporterConfig]):
    metric_prefix = "exporter_"

    def __init__(self, file: ConfigFile[ExporterConfig], kubeconfig: str | None) -> None:
        super().__init__(file, kubeconfig)
        self.tally, self.certificates, self.cost_labels = Tally(), Certificates(), CostLabels()
        self.sight = Sight(self.api, self.tally)

    def run(self) -> None:
        """Apply each new config; caches and certificates have their own threads."""
        self.follow()
        self.sight.start()
        self.certificates.start()
        going = True
        while going:
            self.begin_turn()
            if self.file.changed():
                self.follow()
            conditions = {"config": self.file.why, "clocks": self.clocks.doubt().why, **self.sight.troubles()}
            conditions["workloads of teams"] = self.sight.trouble_of_teams()
            for subject, condition in {**conditions, **self.certificates.whys}.items():
                self.notes.note(self.clock.now(), subject, condition)
            going = self.waker.wait(_TURN)

    def follow(self) -> None:
        self.sight.follow(self.file.config)
        self.certificates.follow(self.file.config.tls_endpoints)

    def unready(self) -> str:
        return next(filter(None, self.sight.troubles().values()), "")

    def silence_limit(self) -> float:
        return _PATIENCE

    def status(self) -> dict[str, object]:
        return {
            **super().status(),
            "sees": {objects: why or "well" for objects, why in self.sight.troubles().items()},
            "certificates": {endpoint: why or "read" for endpoint, why in self.certificates.whys.items()},
        }

    def metrics(self) -> str:
        config, sight = self.file.config, self.sight
        troubles = sight.troubles()
        objects = ClusterObjects(
            nodes=_objects({"": sight.nodes}, troubles["nodes"]),
            pods=_objects({"": sight.pods}, troubles["pods"]),
            hpas=_objects(sight.hpas, troubles["hpas"]),
            cronjobs=_objects(sight.cron_jobs, troubles["cronjobs"]),
            workloads=_objects(sight.reported_workloads(), troubles["workloads"]),
        )
        process_families = process_text(
            holidays_end=config.holidays_end, certificate_ends=self.certificates.ends, max_nodes=config.max_nodes
        )
        cost_labels = partial(self.cost_labels.of, keys=config.cost_labels)
        described = text(objects, self.tally, config.dollars_per_hour, config.adopted, config.sleepers, cost_labels)
        return super().metrics() + process_families + described


def _objects(caches: Mapping[str, KubeCache[T]], trouble: str) -> Collection[T] | None:
    return None if trouble else [item for cache in caches.values() for item in cache.snapshot().values()]
