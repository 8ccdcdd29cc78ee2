"""`python -m controllers.workloads --config FILE`: of all such processes, the one that holds the Lease acts.

As in the scaler, a lost Lease or another config ends a term, and nothing that was remembered outlives it. On the way
out everything stays as it is: what is awake stays awake, what sleeps sleeps.
"""

import faulthandler
import os
import sys
from datetime import timedelta
from functools import partial
from time import monotonic

from controllers.adapters.clock import ClockCheck, SystemClock
from controllers.adapters.config_file import ConfigFile
from controllers.adapters.journal import write_line
from controllers.adapters.kube_api import KubeApi, from_pod_or
from controllers.adapters.lease import Lease
from controllers.adapters.metrics import FORMAT
from controllers.adapters.process import start
from controllers.adapters.server import document, verdict
from controllers.adapters.waker import EventWaker
from controllers.workloads.floors.autoscalers import Floors
from controllers.workloads.frame import Loop, Tally, metrics, process_metrics, status
from controllers.workloads.ray.clusters import RayClusters
from controllers.workloads.words import Kind
from ebbtide.vocabulary.documents import encoded, load
from ebbtide.vocabulary.windows import tzdata_version
from ebbtide.vocabulary.workloads import WorkloadsConfig

_STANDBY, _TICK = timedelta(seconds=1), timedelta(milliseconds=50)
_SYNC = 5.0  # seconds that a new term waits for its caches before it reconciles without them
_PATIENCE = 120.0  # seconds without a reconcile after which the process is unhealthy: a head may be slow to answer


def main(arguments: list[str]) -> int:
    about = "Writes specs and sleep of Ray clusters, and floors of services."
    return start(
        "controllers.workloads",
        about,
        "the workload controller's document",
        partial(load, WorkloadsConfig),
        Process,
        arguments,
    )


class Term:
    """What one leadership under one config is wired to. A further kind of workload is one more entry in `kinds`."""

    def __init__(self, process: "Process", config: WorkloadsConfig, api: KubeApi) -> None:
        self.kinds: list[Kind] = [
            RayClusters(api, config, process.waker.notify),
            Floors(api, config, process.waker.notify),
        ]
        workloads = [workload for kind in self.kinds for workload in kind.workloads]
        self.loop = Loop(api, workloads, may_write=process.lease.held, tally=process.tally)

    def start(self) -> None:
        for kind in self.kinds:
            kind.start()

    def trouble(self) -> str:
        return next(filter(None, (kind.trouble() for kind in self.kinds)), "")

    def close(self) -> None:
        self.loop.close()
        for kind in self.kinds:
            kind.close()


class Process:
    def __init__(self, file: ConfigFile[WorkloadsConfig], kubeconfig: str | None) -> None:
        self._file, self.clock, self.waker, self.tally = file, SystemClock(), EventWaker(), Tally()
        self.clocks = ClockCheck(self.clock.now)
        self._api = KubeApi(from_pod_or(kubeconfig), partial(self.clocks.compare, "the API server"))
        self._me = os.environ.get("POD_NAME") or f"{os.uname().nodename}-{os.getpid()}"
        self.lease = Lease(self._api, file.config.namespace, self._me, file.config.lease)
        self._term: Term | None = None
        self._beat = monotonic()
        self.pages = {  # the server calls them from threads of its own
            "/healthz": lambda: verdict(self._unhealthy()),
            "/readyz": lambda: verdict(self._unready()),
            "/status": lambda: document(self._status()),
            "/metrics": lambda: (200, FORMAT, self._metrics()),
        }

    def stop(self, *_: object) -> None:
        """A signal's handler. Whatever still hangs then is ended, and shown."""
        faulthandler.dump_traceback_later(4, exit=True)  # seconds
        self.waker.stop()

    def run(self) -> None:
        self.lease.start(self.waker.notify)
        going, why = True, ""
        while going:
            self._beat = monotonic()
            self._file.changed()
            if why != (why := self.lease.why):
                write_line(sys.stdout, self.clock.now(), "noted", subject="Lease", message=why or "in reach again")
            going = self._lead() if self.lease.held() else self.waker.wait(_STANDBY)
        self.lease.release()

    def _lead(self) -> bool:
        """Until the Lease is lost or the config changes (True), or it is time to stop (False)."""
        term = self._term = Term(self, self._file.config, self._api)
        term.start()
        try:
            latest = monotonic() + _SYNC
            while term.trouble() and monotonic() < latest:
                if not self.waker.wait(_TICK):
                    return False
            while self.lease.held():
                self._beat = monotonic()
                if self._file.changed():
                    return True
                doubt = self._file.why or self.clocks.doubt()
                if not self.waker.wait(term.loop.reconcile(self.clock.now(), doubt)):
                    return False
            return True
        finally:
            self._term = None
            term.close()

    def _unhealthy(self) -> str:
        silent = monotonic() - self._beat
        return f"no reconcile for {silent:.0f} s" if silent > _PATIENCE else ""

    def _unready(self) -> str:
        """A standby is ready: to take over."""
        term = self._term
        return (term.trouble() if term is not None else "") or self.lease.why

    def _status(self) -> dict[str, object]:
        term, now, config = self._term, self.clock.now(), self._file.config
        return {
            "at": encoded(now),
            "leader": {"identity": self.lease.holder, "held": self.lease.held(), "me": self._me, "why": self.lease.why},
            "config": {"good": not self._file.why, "why": self._file.why},
            "clocks": self.clocks.doubt() or "agree",
            "tzdata": tzdata_version(),
            "hours": {"open": config.hours.is_open(now), "until": encoded(config.hours.next_change(now))},
            "workloads": status(term.loop.reports) if term is not None else [],
        }

    def _metrics(self) -> str:
        term = self._term
        flags = {"leader": self.lease.held(), "config_good": not self._file.why}
        flags["clocks_agree"] = not self.clocks.doubt()
        reports = term.loop.reports if term is not None else ()
        return process_metrics(flags, self._api.calls) + metrics(reports, self.tally)
