"""`python -m controllers.exporter --config FILE`: watches, and tells Prometheus. It writes nothing, so has no Lease."""

import faulthandler
import sys
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TypeVar

from controllers.adapters.clock import ClockCheck, SystemClock
from controllers.adapters.config_file import ConfigFile
from controllers.adapters.journal import write_line
from controllers.adapters.kube_api import KubeApi, from_pod_or
from controllers.adapters.kube_cache import KubeCache
from controllers.adapters.metrics import FORMAT, family
from controllers.adapters.process import start
from controllers.adapters.server import document, verdict
from controllers.adapters.waker import EventWaker
from controllers.exporter.certificates import Certificates
from controllers.exporter.exposition import Seen, process_text, text
from controllers.exporter.sight import Sight
from controllers.exporter.tally import Tally
from ebbtide.vocabulary.documents import encoded, load
from ebbtide.vocabulary.exporter import ExporterConfig

T = TypeVar("T")

_TURN = timedelta(seconds=5)  # between two looks at the config
_PATIENCE = 60.0  # seconds without one after which the process is unhealthy


def main(arguments: list[str]) -> int:
    about = "Tells Prometheus what the cluster has and what is asked of it."
    return start(
        "controllers.exporter", about, "the exporter's document", partial(load, ExporterConfig), Process, arguments
    )


class Process:
    def __init__(self, file: ConfigFile[ExporterConfig], kubeconfig: str | None) -> None:
        self._file, self._clock, self._waker = file, SystemClock(), EventWaker()
        self._clocks = ClockCheck(self._clock.now)
        self._api = KubeApi(from_pod_or(kubeconfig), partial(self._clocks.compare, "the API server"))
        self.tally, self.certificates = Tally(), Certificates()
        self.sight = Sight(self._api, self.tally)
        self._noted: dict[str, str] = {}
        self._beat = monotonic()
        self.pages = {  # the server calls them from threads of its own
            "/healthz": lambda: verdict(self._unhealthy()),
            "/readyz": lambda: verdict(next(filter(None, self.sight.troubles().values()), "")),
            "/status": lambda: document(self._status()),
            "/metrics": lambda: (200, FORMAT, self.metrics()),
        }

    def stop(self, *_: object) -> None:
        """A signal's handler. Whatever still hangs then is ended, and shown."""
        faulthandler.dump_traceback_later(4, exit=True)  # seconds
        self._waker.stop()

    def run(self) -> None:
        """Until it is time to stop: the caches and the certificates have threads of their own."""
        self._follow()
        self.sight.start()
        self.certificates.start()
        going = True
        while going:
            self._beat = monotonic()
            if self._file.changed():
                self._follow()
            self._note({"config": self._file.why, "clocks": self._clocks.doubt(), **self.sight.troubles()})
            self._note(self.certificates.whys)
            going = self._waker.wait(_TURN)

    def _follow(self) -> None:
        self.sight.follow(self._file.config)
        self.certificates.follow(self._file.config.tls_endpoints)

    def _note(self, whys: Mapping[str, str]) -> None:
        """Tell a condition when it begins, changes or ends."""
        for subject, why in whys.items():
            if self._noted.get(subject, "") != why:
                self._noted[subject] = why
                write_line(sys.stdout, self._clock.now(), "noted", subject=subject, message=why or "well again")

    def _unhealthy(self) -> str:
        silent = monotonic() - self._beat
        return f"no turn for {silent:.0f} s" if silent > _PATIENCE else ""

    def _status(self) -> dict[str, object]:
        return {
            "at": encoded(self._clock.now()),
            "config": {"good": not self._file.why, "why": self._file.why},
            "clocks": self._clocks.doubt() or "agree",
            "sees": {what: why or "well" for what, why in self.sight.troubles().items()},
            "certificates": {it: why or "read" for it, why in self.certificates.whys.items()},
        }

    def metrics(self) -> str:
        config, sight = self._file.config, self.sight
        troubles = sight.troubles()
        seen = Seen(
            nodes=_kept({"": sight.nodes}, troubles["nodes"]),
            pods=_kept({"": sight.pods}, troubles["pods"]),
            hpas=_kept(sight.hpas, troubles["hpas"]),
            cronjobs=_kept(sight.cron_jobs, troubles["cronjobs"]),
        )
        own = process_text(
            config_good=not self._file.why,
            clocks_agree=not self._clocks.doubt(),
            holidays_end=config.holidays_end,
            certificate_ends=self.certificates.ends,
        )
        calls = [({"verb": verb}, count) for verb, count in sorted(self._api.calls.items())]
        told = family("exporter_api_calls_total", "Requests to the API server", calls)
        return own + told + text(seen, self.tally, config.dollars_per_hour)


def _kept(caches: Mapping[str, KubeCache[T]], trouble: str) -> Collection[T] | None:
    return None if trouble else [it for cache in caches.values() for it in cache.snapshot().values()]
