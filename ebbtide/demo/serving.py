"""The serving part of the demo: a service that grows with its load, shrinks after it, and loses no request.

A real gateway (Envoy), model servers as processes, and an open loop of requests. The arithmetic of the
HorizontalPodAutoscaler decides, with the gateway's own gauge as input; in a cluster the real autoscaler does. Its
times are shortened, and the output says so.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ebbtide.demo.embedded_envoy import EmbeddedEnvoy, Route, Upstream
from ebbtide.demo.load import Load, LoadAnswers, LoadStage, offer
from ebbtide.demo.model_server import ModelServer
from ebbtide.demo.served_pods import Ending, ServedPods
from ebbtide.lab.report.charts.services import LoadStep
from ebbtide.lab.simulator.strategies.hpa import STABILISATION_S, SYNC_S, Hpa, HpaSight, hpa_of_total
from ebbtide.text.counts import number_of

SERVICE = "embedder"
SERVER = ModelServer(port=0, pod=SERVICE, variant=SERVICE, service=0.1, concurrency=2, loading=1.0)
TARGET = 1.5  # requests in flight for each replica
MOST = 6  # replicas
STRETCHES = (LoadStage(seconds=4, rate=6), LoadStage(seconds=10, rate=55), LoadStage(seconds=10, rate=6))
ENDING = Ending(pre_stop=1.0, grace=10.0)
IN_A_CLUSTER = Ending()
SYNC = 1.0  # seconds
STABILIZATION = 3.0  # seconds
POLL = 0.1  # seconds between two readings of the gauge
WINDOW = 1.0  # seconds, of the picture and of the lines
SAY_EVERY = 4  # windows without a change

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Figures of the client, which sees only the gateway."""

    sent: int
    answered: int
    reasons: dict[str, int]  # of the lost requests
    peak: int  # replicas ready at once
    at_the_end: int  # replicas
    killed: int  # pods that outlived their grace period
    step: LoadStep
    latency_p95: float  # seconds

    @property
    def lost(self) -> int:
        return self.sent - self.answered

    def facts(self) -> dict[str, str]:
        """Return the measurements for readers, in words and with units."""
        why = f" ({', '.join(f'{reason}: {count}' for reason, count in self.reasons.items())})" if self.lost else ""
        return {
            "requests sent": str(self.sent),
            "requests answered": str(self.answered),
            "requests lost": f"{self.lost}{why}",
            "replicas": f"1, then {self.peak}, then {self.at_the_end}",
            "request latency": f"p95 {self.latency_p95 * 1000:.0f} ms over the whole run",
        }

    def as_json(self) -> dict[str, Any]:
        """Return the figures for programs."""
        names = ("sent", "answered", "lost", "reasons", "peak", "at_the_end", "killed", "latency_p95")
        return {name: getattr(self, name) for name in names}

    def caption(self) -> list[str]:
        return [
            f"{self.sent} requests sent, {self.answered} answered, {self.lost} lost.",
            "One gateway, model servers as processes of one machine; the autoscaler's times shortened.",
        ]


def run_serving(say: Say) -> Served:
    """Run for half a minute. Raises: `NoEnvoy`."""
    with EmbeddedEnvoy([Upstream(name=SERVICE)], [Route(to={SERVICE: 1})]) as gateway:
        return asyncio.run(_served(gateway, say))


async def _served(gateway: EmbeddedEnvoy, say: Say) -> Served:
    def publish(addresses: Any) -> None:
        gateway.set_endpoints(SERVICE, addresses)

    async with ServedPods(SERVER, publish, ENDING) as pods:
        pods.scale(1)
        await pods.until_ready()
        for line in _beginning(gateway):
            say(line)
        scaler = _Scaler(gateway, pods, say)
        scaling = asyncio.create_task(scaler.run())
        try:
            load = Load(address=lambda: (gateway.host, gateway.port), stretches=STRETCHES, seed=1)
            answers = await offer(load)
            while pods.replicas > 1 and not scaling.done():
                await asyncio.sleep(POLL)
        finally:
            scaling.cancel()
            await asyncio.wait([scaling])
        if not scaling.cancelled():
            scaling.result()  # raises its error
        await pods.until_ended()
        return _counted(answers, scaler, pods)


def _beginning(gateway: EmbeddedEnvoy) -> list[str]:
    server = f"{SERVER.concurrency} requests at a time, {SERVER.service * 1000:.0f} ms each"
    times = (
        f"every {SYNC:g} s (cluster: {SYNC_S:g} s), "
        f"shrinking after {STABILIZATION:g} s (cluster: {STABILISATION_S:g} s)"
    )
    waits = f"waits {ENDING.pre_stop:g} s (cluster: {IN_A_CLUSTER.pre_stop:g} s)"
    return [
        f"Envoy answers on {gateway.host}:{gateway.port}, with 1 replica of {SERVICE} behind it: {server}",
        f"wanted: {TARGET:g} requests in flight for each replica, counted at the gateway",
        f"in a cluster the HorizontalPodAutoscaler decides, here its arithmetic: {times}",
        f"a replica that is removed stops being an endpoint, {waits}, answers its open requests, and ends",
    ]


def _counted(answers: LoadAnswers, scaler: "_Scaler", pods: ServedPods) -> Served:
    windows = scaler.windows
    by_window = [answers.between(index * WINDOW, (index + 1) * WINDOW) for index in range(len(windows))]
    p95 = [part.quantile(0.95) for part in by_window]
    step = LoadStep(
        step=WINDOW,
        rate=[part.sent / WINDOW for part in by_window],
        wanted=[window.replicas for window in windows],
        ready=[window.ready for window in windows],
        p95=[None if math.isnan(value) else value for value in p95],
    )
    return Served(
        sent=answers.sent,
        answered=answers.answered,
        reasons=dict(answers.reasons),
        peak=max(window.ready for window in windows),
        at_the_end=pods.ready,
        killed=pods.killed,
        step=step,
        latency_p95=answers.quantile(0.95),
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """State at the beginning of a window."""

    replicas: int
    ready: int


@dataclass
class _Scaler:
    gateway: EmbeddedEnvoy
    pods: ServedPods
    say: Say
    windows: list[_Window] = field(default_factory=list[_Window])
    _said: int = 0  # the window of the last line

    async def run(self) -> None:
        hpa = Hpa(hpa_of_total(TARGET, least=1, most=MOST, stabilization_s=STABILIZATION))
        began = time.monotonic()
        completed = self._completed()
        while True:
            self.windows.append(_Window(self.pods.replicas, self.pods.ready))
            readings: list[int] = []
            while time.monotonic() < began + SYNC * len(self.windows):
                readings.append(self.gateway.in_flight(SERVICE))
                await asyncio.sleep(POLL)
            in_flight = fmean(readings) if readings else float(self.gateway.in_flight(SERVICE))
            before = self.pods.replicas
            self.pods.scale(hpa.sync(time.monotonic(), HpaSight(before, (in_flight,))))
            previous, completed = completed, self._completed()
            self._report(before, in_flight, (completed - previous) / SYNC)

    def _report(self, before: int, in_flight: float, rate: float) -> None:
        after, now = self.pods.replicas, len(self.windows)
        if after == before and now - self._said < SAY_EVERY:
            return
        self._said = now
        change = f"from {before} to {after} replicas" if after != before else number_of(after, "replica")
        self.say(f"{now:>3} s: {rate:3.0f} answers a second, {in_flight:4.1f} in flight: {change}")

    def _completed(self) -> int:
        counter = f"cluster.{SERVICE}.upstream_rq_completed"
        return self.gateway.stats(counter).get(counter, 0)
