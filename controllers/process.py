"""The common base of all processes of the controller's image: arguments, config, health, pages, signals and Lease.

Of the replicas of an `ElectedProcess`, only the holder of the Lease acts, term by term. A lost Lease or a new config
ends a term; a term's memory ends with it.
"""

import argparse
import faulthandler
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Generic, Protocol, TypeVar

from controllers.adapters.clock import ClockCheck, EventWaker, SystemClock
from controllers.adapters.journal import write_line
from controllers.adapters.kube_api import KubeApi, NoCluster, from_pod_or
from controllers.adapters.lease import Lease
from controllers.adapters.metrics import FORMAT, family
from controllers.adapters.server import Page, Server, document, verdict
from controllers.doubt import Doubt
from controllers.ports import Clock
from controllers.reconciling import Notes
from ebbtide.vocabulary.documents import encoded
from ebbtide.vocabulary.windows import tzdata_version

ConfigT = TypeVar("ConfigT")
TermT = TypeVar("TermT", bound="Term")

_STANDBY, _TICK = timedelta(seconds=1), timedelta(milliseconds=50)
_SYNC = 5.0  # seconds that a new term waits for its caches before it reconciles without them
_CONFIG_INTERVAL = 2.0  # seconds between two reads of the config file; reconciles may be more frequent
_STOP_LIMIT = 4  # seconds after which a process that hangs while stopping is killed


def argument_parser(prog: str, description: str, document: str) -> argparse.ArgumentParser:
    """Return a parser for the arguments that every entry point has; `document` is the help of `--config`."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--config", required=True, type=Path, metavar="FILE", help=document)
    parser.add_argument("--kubeconfig", metavar="FILE", help="how to reach the cluster (default: the pod's account)")
    return parser


class ConfigFile(Generic[ConfigT]):
    """The config document: a file that may change while the process runs, as a mounted ConfigMap does.

    `config` is the last valid document. `load` raises ValueError or OSError for an invalid document, and so does the
    constructor. An invalid document never replaces a valid one; while the file is invalid, `why` has the error, and the
    process distrusts its config. Contents are compared, not dates, since Kubernetes swaps a link.
    """

    def __init__(self, path: Path, load: Callable[[str], ConfigT]) -> None:
        self._path, self._load = path, load
        self._text = path.read_text(encoding="utf-8")
        self.config = self._load(self._text)
        self.why = ""  # empty: `config` is the file's content

    def changed(self) -> bool:
        """Read the file again; return True if it contains another valid config."""
        try:
            text = self._path.read_text(encoding="utf-8")
            config = self.config if text == self._text else self._load(text)
        except (OSError, ValueError) as error:
            self.why = f"the config document is bad, following the last good one: {error}"
            return False
        previous, self.config, self._text, self.why = self.config, config, text, ""
        return config != previous


class Process(ABC, Generic[ConfigT]):
    """A process that follows its config and answers probes and Prometheus until a signal ends it."""

    metric_prefix = ""
    clocks_help = "1 if its clock and the API server's agree"

    def __init__(self, file: ConfigFile[ConfigT], kubeconfig: str | None) -> None:
        self.file, self.waker = file, EventWaker()
        self.clock: Clock = SystemClock()
        self.clocks = ClockCheck(self.clock.now)
        self.api = KubeApi(from_pod_or(kubeconfig), partial(self.clocks.compare, "the API server"))
        self.notes = Notes(self._note)
        self._last_turn = monotonic()
        self.pages: Mapping[str, Callable[[], Page]] = {  # called from the server's threads
            "/healthz": lambda: verdict(self._unhealthy()),
            "/readyz": lambda: verdict(self.unready()),
            "/status": lambda: document(self.status()),
            "/metrics": lambda: (200, FORMAT, self.metrics()),
        }

    @abstractmethod
    def run(self) -> None:
        """Work until `waker` returns False."""

    @abstractmethod
    def unready(self) -> str:
        """Return why the process is not ready; empty if it is."""

    @abstractmethod
    def silence_limit(self) -> float:
        """Return the seconds without a turn of the main loop after which the process is unhealthy."""

    def status(self) -> dict[str, object]:
        return {
            "at": encoded(self.clock.now()),
            "config": {"good": not self.file.why, "why": self.file.why},
            "clocks": self.clocks.doubt().why or "agree",
        }

    def metrics(self) -> str:
        prefix, calls = self.metric_prefix, sorted(self.api.calls.items())
        families = [
            family(f"{prefix}config_good", "1 if the config document is valid", [({}, not self.file.why)]),
            family(f"{prefix}clocks_agree", self.clocks_help, [({}, not self.clocks.doubt())]),
            family(
                f"{prefix}api_calls_total",
                "Requests to the API server",
                [({"verb": verb}, count) for verb, count in calls],
            ),
        ]
        return "".join(families)

    def doubt(self) -> Doubt:
        """Return why the config or the clock is distrusted."""
        clocks = self.clocks.doubt()
        return Doubt("; ".join(filter(None, (self.file.why, clocks.why))), clocks.leads)

    def begin_turn(self) -> None:
        self._last_turn = monotonic()

    def stop(self, *_: object) -> None:
        """Handle a signal. Since PID 1 ignores an alarm that it sets itself, a thread kills a hanging process."""
        faulthandler.dump_traceback_later(_STOP_LIMIT, exit=True)
        self.waker.stop()

    def _note(self, at: datetime, subject: str, message: str) -> None:
        write_line(sys.stdout, at, "noted", subject=subject, message=message)

    def _unhealthy(self) -> str:
        silent = monotonic() - self._last_turn
        return f"the main loop has not run for {silent:.0f} s" if silent > self.silence_limit() else ""


class Term(Protocol):
    """The objects that one leadership under one config needs."""

    def start(self) -> None: ...
    def trouble(self) -> str:
        """Return why the caches may be stale; empty if they are current."""
        ...

    def reconcile(self) -> timedelta:
        """Return the longest pause until the next reconcile."""
        ...

    def close(self) -> None: ...


class ElectedProcess(Process[ConfigT], Generic[ConfigT, TermT]):
    """A process with several replicas, of which only the holder of the Lease acts."""

    def __init__(self, file: ConfigFile[ConfigT], kubeconfig: str | None, *, namespace: str, lease: str) -> None:
        super().__init__(file, kubeconfig)
        self._identity = os.environ.get("POD_NAME") or f"{os.uname().nodename}-{os.getpid()}"
        self.lease = Lease(self.api, namespace, self._identity, lease)
        self.term: TermT | None = None  # None while another replica leads

    @abstractmethod
    def new_term(self) -> TermT: ...

    def end_term(self, term: TermT, successor: ConfigT | None) -> None:
        """Act for the last time before the term ends: because of a new config, or because the process stops (None)."""

    def run(self) -> None:
        self.lease.start(self.waker.notify)
        going = True
        while going:
            self.begin_turn()
            self.file.changed()
            self.notes.note(self.clock.now(), "Lease", self.lease.why)
            going = self._lead() if self.lease.held() else self.waker.wait(_STANDBY)

    def _lead(self) -> bool:
        """Reconcile until the Lease is lost or the config changes (True), or until the process must stop (False)."""
        term = self.term = self.new_term()
        term.start()
        try:
            going, next_check = self._wait_for_caches(term), 0.0
            while going and self.lease.held():
                self.begin_turn()
                if monotonic() >= next_check:
                    next_check = monotonic() + _CONFIG_INTERVAL
                    if self.file.changed():
                        self.end_term(term, self.file.config)
                        return True
                going = self.waker.wait(term.reconcile())
            if not going:
                self.end_term(term, None)
                self.lease.release()
            return going
        finally:
            self.term = None
            term.close()

    def _wait_for_caches(self, term: TermT) -> bool:
        """Return False if the process must stop."""
        latest = monotonic() + _SYNC
        while term.trouble() and monotonic() < latest:
            if not self.waker.wait(_TICK):
                return False
        return True

    def unready(self) -> str:
        """Return why the process is not ready. A standby is ready to take over."""
        term = self.term
        return (term.trouble() if term is not None else "") or self.lease.why

    def status(self) -> dict[str, object]:
        lease = self.lease
        leader = {"identity": lease.holder, "held": lease.held(), "me": self._identity, "why": lease.why}
        return {**super().status(), "leader": leader, "tzdata": tzdata_version()}

    def metrics(self) -> str:
        name, meaning = f"{self.metric_prefix}leader", "1 if this replica holds the Lease"
        return family(name, meaning, [({}, self.lease.held())]) + super().metrics()


def start(
    prog: str,
    description: str,
    document: str,
    load: Callable[[str], ConfigT],
    new_process: Callable[[ConfigFile[ConfigT], str | None], Process[ConfigT]],
    arguments: Sequence[str],
) -> int:
    """Run until a signal; return 2 if the document, the cluster or the port cannot be used."""
    parser = argument_parser(prog, description, document)
    parser.add_argument("--listen", default="0.0.0.0:8080", metavar="ADDRESS:PORT", help="for probes and metrics")
    options = parser.parse_args(arguments)
    source = f"--config {options.config}"
    try:
        file = ConfigFile(options.config, load)
        source = f"--kubeconfig {options.kubeconfig}" if options.kubeconfig else "the pod's own cluster"
        process = new_process(file, options.kubeconfig)
        source = f"--listen {options.listen}"
        host, _, port = options.listen.rpartition(":")
        Server(host.strip("[]"), int(port), process.pages)
    except (NoCluster, ValueError, OSError, OverflowError) as error:
        print(f"{prog}: {source}: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, process.stop)
    signal.signal(signal.SIGINT, process.stop)
    process.run()
    return 0
