"""`python -m controllers --config FILE`: of all such processes, the one that holds the Lease acts; the others wait.

A leader wires its edges for one term. A lost Lease or another config ends the term, and nothing that was remembered
outlives it: the next one starts from what the world says.
"""

import faulthandler
import os
import sys
import threading
from datetime import timedelta
from functools import partial
from time import monotonic

from controllers.adapters.clock import ClockCheck, SystemClock
from controllers.adapters.config_file import ConfigFile
from controllers.adapters.journal import Events, LineJournal, objects_of, write_line
from controllers.adapters.kube_api import KubeApi, from_pod_or
from controllers.adapters.kube_cluster import KubeCluster
from controllers.adapters.lease import Lease
from controllers.adapters.metrics import FORMAT, Meter, family
from controllers.adapters.probe import probe
from controllers.adapters.process import start
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import demand_sources, prefixes_to_watch
from controllers.adapters.server import document, verdict
from controllers.adapters.waker import EventWaker
from controllers.adapters.wakers import TrackingListener
from controllers.ports import Ports
from controllers.scaler.loop import Loop
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import encoded, load
from ebbtide.vocabulary.labels import NAMESPACE
from ebbtide.vocabulary.windows import tzdata_version

_STANDBY, _TICK = timedelta(seconds=1), timedelta(milliseconds=50)
_SYNC = 5.0  # seconds that a new term waits for its caches before it reconciles without them
_PATIENCE = 30.0  # seconds beside three resyncs: without a reconcile for so long the process is unhealthy


def main(arguments: list[str]) -> int:
    about = "Scales queue workers and flips budgets."
    return start("controllers", about, "the controller config document", read, Process, arguments)


def read(text: str) -> ControllerConfig:
    """Raises ValueError or OSError for a document that cannot be carried out here."""
    config = load(ControllerConfig, text)
    prefixes_to_watch(config)
    connect(config.redis, os.environ).close()
    return config


class Term:
    """What one leadership under one config is wired to."""

    def __init__(self, process: "Process", config: ControllerConfig, api: KubeApi) -> None:
        clock, waker, doubt = process.clock, process.waker, process.doubt
        self.config, self._now = config, clock.now
        connection, notify = partial(connect, config.redis, os.environ), waker.notify
        self.cluster = KubeCluster(api, config, may_write=process.lease.held, notify=notify)
        self.p99 = self.cluster.measures.p99
        self.demand = demand_sources(config, connection, on_time=partial(process.clocks.compare, "Redis"))
        self.listener = TrackingListener(connection, prefixes_to_watch(config), notify)
        self.events = Events(api, objects_of(config))
        self.journal = LineJournal(sys.stdout, process.meter, self.events, lambda: self.cluster.last_error)
        ports = Ports(
            demand=self.demand, cluster=self.cluster, clock=clock, waker=waker, journal=self.journal, doubt=doubt
        )
        self.loop = Loop(config, ports)
        self.faults: list[str] = []
        self._too_short = False

    def start(self) -> None:
        self.cluster.start()
        self.listener.start()
        threading.Thread(target=self._probe, name="probe", daemon=True).start()

    def close(self) -> None:
        self.events.close()
        self.listener.close()
        self.cluster.close()

    def warn(self) -> None:
        """What pods need must fit into the closing guard."""
        guard, needed = self.config.closing_guard.total_seconds(), sum(filter(None, self.p99().values()))
        if (too_short := needed > guard) != self._too_short:
            self._too_short = too_short
            message = f"{guard:.0f} s, and pods need {needed:.0f} s (p99) to end and to start again"
            self.journal.noted(self._now(), "closing guard", message)

    def _probe(self) -> None:
        self.faults = probe(self.config, os.environ)
        for fault in self.faults:
            self.journal.noted(self._now(), "redis", fault)


class Process:
    def __init__(self, file: ConfigFile[ControllerConfig], kubeconfig: str | None) -> None:
        self._file, self.clock, self.waker, self.meter = file, SystemClock(), EventWaker(), Meter()
        self.clocks = ClockCheck(self.clock.now)
        self._api = KubeApi(from_pod_or(kubeconfig), partial(self.clocks.compare, "the API server"))
        self._me = os.environ.get("POD_NAME") or f"{os.uname().nodename}-{os.getpid()}"
        self.lease = Lease(self._api, os.environ.get("POD_NAMESPACE", NAMESPACE), self._me)
        self._term: Term | None = None
        self._beat = monotonic()
        self.pages = {  # the server calls them from threads of its own
            "/healthz": lambda: verdict(self._unhealthy()),
            "/readyz": lambda: verdict(self._unready()),
            "/status": lambda: document(self._status()),
            "/metrics": lambda: (200, FORMAT, self._metrics()),
        }

    def stop(self, *_: object) -> None:
        """A signal's handler. Whatever still hangs then is ended, and shown: process 1 ignores an alarm of its own."""
        faulthandler.dump_traceback_later(4, exit=True)  # seconds
        self.waker.stop()

    def doubt(self) -> str:
        return self._file.why or self.clocks.doubt()

    def run(self) -> None:
        self.lease.start(self.waker.notify)
        going, why = True, ""
        while going:
            self._beat = monotonic()
            self._file.changed()
            if why != (why := self.lease.why):
                write_line(sys.stdout, self.clock.now(), "noted", subject="Lease", message=why or "in reach again")
            going = self._lead() if self.lease.held() else self.waker.wait(_STANDBY)

    def _lead(self) -> bool:
        """Until the Lease is lost or the config changes (True), or it is time to stop (False)."""
        term = self._term = Term(self, self._file.config, self._api)
        term.start()
        latest = monotonic() + _SYNC
        while not term.cluster.ready() and monotonic() < latest and self.waker.wait(_TICK):
            pass
        try:
            return self._reconcile(term)
        finally:
            self._term = self.meter.report = None
            term.close()

    def _reconcile(self, term: Term) -> bool:
        next_look = 0.0
        while self.lease.held():
            self._beat = began = monotonic()
            if began > next_look:
                next_look = began + term.config.resync.total_seconds()
                term.warn()
                if self._file.changed():
                    term.loop.stop(self.clock.now(), keep={budget.name for budget in self._file.config.budgets})
                    return True
            pause = term.loop.reconcile(self.clock.now())
            self.meter.timed(monotonic() - began)
            if not self.waker.wait(pause):
                term.loop.stop(self.clock.now())
                self.lease.release()
                return False
        return True

    def _unhealthy(self) -> str:
        silent, limit = monotonic() - self._beat, _PATIENCE + 3 * self._file.config.resync.total_seconds()
        return f"no reconcile for {silent:.0f} s" if silent > limit else ""

    def _unready(self) -> str:
        """A standby is ready: to take over."""
        term = self._term
        return "the caches are not synced" if term is not None and not term.cluster.ready() else self.lease.why

    def _status(self) -> dict[str, object]:
        term, now, config, report = self._term, self.clock.now(), self._file.config, self.meter.report
        window = {"open": config.window.is_open(now), "until": encoded(config.window.next_change(now))}
        window |= {"nextOpening": encoded(config.hours.next_opening(now)), "timezone": config.hours.timezone}
        return {
            "at": encoded(now),
            "customer": config.customer,
            "leader": {"identity": self.lease.holder, "held": self.lease.held(), "me": self._me, "why": self.lease.why},
            "config": {"good": not self._file.why, "why": self._file.why},
            "clocks": self.clocks.doubt() or "agree",
            "tzdata": tzdata_version(),
            "wake": term.listener.mode() if term else "standby",
            "probe": term.faults if term else [],
            "measures": {f"{name}P99": p99 for name, p99 in term.p99().items()} if term else {},
            "window": {**window, "reason": report.window_reason if report else ""},
            "readings": self.meter.readings(now),
            "report": encoded(report),
        }

    def _metrics(self) -> str:
        term, calls = self._term, [({"verb": verb}, count) for verb, count in sorted(self._api.calls.items())]
        families = [
            family("leader", "1 if this replica holds the Lease", [({}, self.lease.held())]),
            family("config_good", "1 if the config document is valid", [({}, not self._file.why)]),
            family("clocks_agree", "1 if the clocks agree", [({}, not self.clocks.doubt())]),
        ]
        families.append(family("api_calls_total", "Requests to the API server", calls))
        if term is not None:
            families += [
                family(f"{name}_p99_seconds", f"99th percentile of the {name} time of flexible pods", [({}, p99)])
                for name, p99 in term.p99().items()
            ]
            families.append(family("redis_calls_total", "Queue readings", [({}, term.demand.calls)]))
        return "".join([*families, self.meter.text(self.clock.now())])
