"""`python -m controllers --config FILE`: scale queue workers and flip budgets while holding the Lease."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from controllers.adapters.journal import Events, LineJournal, objects_of
from controllers.adapters.kube_cluster import KubeCluster
from controllers.adapters.metrics import Meter, broker_families, family
from controllers.adapters.probe import follow_faults, probe
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import Demand, demand_sources, prefixes_to_watch
from controllers.adapters.wakers import PUBLISHED, TrackingListener
from controllers.ports import Ports
from controllers.process import ConfigFile, ElectedProcess, start
from controllers.scaler.budgets import OPEN, closed_by_any, window_at
from controllers.scaler.loop import Loop
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.documents import encoded, load
from ebbtide.vocabulary.labels import CONTROLLER, NAMESPACE

if TYPE_CHECKING:
    from controllers.adapters.broker_demand import BrokerDemand

_PATIENCE = 30.0  # seconds beyond three resyncs: after this time without a reconcile the process is unhealthy


def main(arguments: list[str]) -> int:
    description = "Scales queue workers and flips budgets."
    return start("controllers", description, "the controller config document", read, ScalerProcess, arguments)


def read(text: str) -> ControllerConfig:
    """Parse the config document. Raises ValueError or OSError for a document that this process cannot carry out."""
    config = load(ControllerConfig, text)
    prefixes_to_watch(config)
    connect(config.redis, os.environ).close()
    _broker_demands(config, lambda: None)
    return config


def _broker_demands(config: ControllerConfig, notify: Callable[[], object]) -> "Sequence[BrokerDemand]":
    """Return the sources of pools in message brokers; they connect to nothing until they start."""
    if not config.extended:
        return ()
    from controllers.adapters.broker_demand import broker_demands

    return broker_demands(config, os.environ, partial(connect, config.redis, os.environ), notify)


class ScalerTerm:
    """The inputs and outputs of one leadership under one config, and the loop that connects them."""

    def __init__(self, process: "ScalerProcess", config: ControllerConfig) -> None:
        self._config, self._clock, self._meter = config, process.clock, process.meter
        redis, notify = partial(connect, config.redis, os.environ), process.waker.notify
        self._cluster = KubeCluster(process.api, config, may_write=process.lease.held, notify=notify)
        in_redis = demand_sources(config, redis, on_time=partial(process.clocks.compare, "Redis"))
        self._brokers = _broker_demands(config, notify)
        self.demand = Demand([*in_redis.sources, *self._brokers])
        self.listener = TrackingListener(redis, prefixes_to_watch(config), notify)
        self._producers = TrackingListener(redis, [PUBLISHED] if self._brokers else [], self._published)
        self._events = Events(process.api, objects_of(config))
        self._journal = LineJournal(sys.stdout, process.meter, self._events, lambda: self._cluster.last_error)
        ports = Ports(
            demand=self.demand,
            cluster=self._cluster,
            clock=process.clock,
            waker=process.waker,
            journal=self._journal,
            doubt=process.doubt,
        )
        self.loop = Loop(config, ports)
        self.faults: list[str] = []  # in the connections to Redis and to brokers
        self._closing = threading.Event()
        self._next_check, self._too_short = 0.0, False

    def start(self) -> None:
        self._cluster.start()
        self.listener.start()
        self._producers.start()
        for broker in self._brokers:
            broker.start()
        threading.Thread(target=self._probe, name="probe", daemon=True).start()

    def trouble(self) -> str:
        return self._cluster.trouble()

    def p99(self) -> dict[str, float | None]:
        return self._cluster.measures.p99()

    def broker_families(self) -> Iterator[str]:
        return broker_families(self._brokers)

    def wake(self) -> str:
        """Return how the controller notices changes: of queues in Redis, and of producers that use a broker."""
        in_redis = self.listener.mode()
        return f"{in_redis}; producers on brokers: {self._producers.mode()}" if self._brokers else in_redis

    def reconcile(self) -> timedelta:
        began = monotonic()
        if began >= self._next_check:
            self._next_check = began + self._config.resync.total_seconds()
            self._check_closing_guard()
        pause = self.loop.reconcile(self._clock.now())
        self._meter.timed(monotonic() - began)
        return pause

    def close(self) -> None:
        self._meter.report = None
        self._closing.set()
        self._events.close()
        self.listener.close()
        self._producers.close()
        for broker in self._brokers:
            broker.close()
        self._cluster.close()

    def _published(self) -> None:
        """Ask the brokers at once, unless the listener only polls: it would ask them several times a second."""
        if self._producers.mode() == "tracking":
            for broker in self._brokers:
                broker.published()

    def _check_closing_guard(self) -> None:
        """Report a closing guard that is shorter than the time in which pods end and start again."""
        guard, needed = self._config.closing_guard.total_seconds(), sum(filter(None, self.p99().values()))
        if (too_short := needed > guard) != self._too_short:
            self._too_short = too_short
            message = f"{guard:.0f} s, and pods need {needed:.0f} s (p99) to end and to start again"
            self._journal.noted(self._clock.now(), "closing guard", message)

    def _probe(self) -> None:
        follow_faults(partial(probe, self._config, os.environ), self._show_faults, self._closing.wait)

    def _show_faults(self, faults: list[str], new: Sequence[str]) -> None:
        self.faults = faults
        for fault in new:
            self._journal.noted(self._clock.now(), "connections", fault)


class ScalerProcess(ElectedProcess[ControllerConfig, ScalerTerm]):
    clocks_help = "1 if the clocks agree"

    def __init__(self, file: ConfigFile[ControllerConfig], kubeconfig: str | None) -> None:
        namespace = os.environ.get("POD_NAMESPACE", NAMESPACE)
        super().__init__(file, kubeconfig, namespace=namespace, lease=CONTROLLER)
        self.meter = Meter()

    def new_term(self) -> ScalerTerm:
        return ScalerTerm(self, self.file.config)

    def end_term(self, term: ScalerTerm, successor: ControllerConfig | None) -> None:
        """Close all budgets except those that the new config still contains."""
        term.loop.stop(self.clock.now(), keep={budget.name for budget in successor.budgets} if successor else set())

    def silence_limit(self) -> float:
        return _PATIENCE + 3 * self.file.config.resync.total_seconds()

    def status(self) -> dict[str, object]:
        term, now, config, report = self.term, self.clock.now(), self.file.config, self.meter.report
        window_now = closed_by_any(window_at(now, config.window), now, config.window, self.doubt())
        window = {
            "open": window_now.decision.max_unavailable == OPEN,
            "until": encoded(window_now.until),
            "nextOpening": encoded(config.hours.next_opening(now)),
            "timezone": config.hours.timezone,
            "reason": report.window_reason if report else "",
        }
        return {
            **super().status(),
            "customer": config.customer,
            "wake": term.wake() if term else "standby",
            "probe": term.faults if term else [],
            "measures": {f"{name}P99": p99 for name, p99 in term.p99().items()} if term else {},
            "window": window,
            "readings": self.meter.readings(now),
            "report": encoded(report),
        }

    def metrics(self) -> str:
        families, term = [super().metrics()], self.term
        if term is not None:
            families += [
                family(f"{name}_p99_seconds", f"99th percentile of the {name} time of flexible pods", [({}, p99)])
                for name, p99 in term.p99().items()
            ]
            families.append(family("redis_calls_total", "Queue readings", [({}, term.demand.calls)]))
            families += term.broker_families()
        return "".join([*families, self.meter.text(self.clock.now())])
