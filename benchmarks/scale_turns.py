"""The controller's loop in this process, turn by turn, with the events of its watches: a process exports only sums."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kubernetes.client import Configuration
from urllib3 import BaseHTTPResponse

from benchmarks.control_plane_process import SilentJournal, until
from controllers.adapters.clock import EventWaker, SystemClock
from controllers.adapters.kube_api import KubeApi
from controllers.adapters.kube_cluster import KubeCluster
from controllers.adapters.redis_connection import connect
from controllers.adapters.redis_demand import demand_sources
from controllers.ports import Ports
from controllers.scaler.loop import Loop
from ebbtide.vocabulary.controller_config import ControllerConfig


@dataclass
class Turns:
    """One entry per turn, and the `events` and `bytes` of the watches in the same time."""

    wall_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])
    events: int = 0
    bytes: int = 0
    minutes: float = 0.0


def back_to_back(config: ControllerConfig, configuration: Configuration, number: int) -> Turns:
    """Run `number` turns without a pause, after one that fills the caches."""
    return _run(config, configuration, lambda turns, _: len(turns.wall_ms) < number, paced=False)


def as_woken(config: ControllerConfig, configuration: Configuration, seconds: float) -> Turns:
    """Run turns like the controller: at each event, and at each resync."""
    return _run(config, configuration, lambda _, spent: spent < seconds, paced=True)


def _run(
    config: ControllerConfig, configuration: Configuration, goes_on: Callable[[Turns, float], bool], *, paced: bool
) -> Turns:
    clock, waker, api, turns = SystemClock(), EventWaker(), _TappedApi(configuration), Turns()
    cluster = KubeCluster(api, config, may_write=lambda: True, notify=waker.notify)
    demand = demand_sources(config, partial(connect, config.redis, {}))
    journal = SilentJournal()
    loop = Loop(config, Ports(demand=demand, cluster=cluster, clock=clock, waker=waker, journal=journal))
    cluster.start()
    with closing(cluster):
        until(lambda: not cluster.trouble(), "the caches to be filled")
        pause, events, size, first = loop.reconcile(clock.now()), api.events, api.bytes, time.monotonic()
        while goes_on(turns, time.monotonic() - first):
            if paced:
                waker.wait(pause)
            began, began_cpu = time.perf_counter(), time.thread_time()
            pause = loop.reconcile(clock.now())
            turns.cpu_ms.append((time.thread_time() - began_cpu) * 1000)
            turns.wall_ms.append((time.perf_counter() - began) * 1000)
    if journal.report is None or len(journal.report.pools) != len(config.pools):
        raise RuntimeError("the turns decided nothing")
    turns.events, turns.bytes = api.events - events, api.bytes - size
    turns.minutes = (time.monotonic() - first) / 60
    return turns


class _TappedApi(KubeApi):
    """Counts the events and bytes of its watches."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.events = self.bytes = 0

    def _send(
        self, verb: str, path: str, query: Mapping[str, str], kind: str = "application/json", **how: Any
    ) -> BaseHTTPResponse:
        response = super()._send(verb, path, query, kind, **how)
        if "watch" in query:
            response.stream = partial(self._counted, response.stream)  # pyright: ignore[reportAttributeAccessIssue] - the same to whoever calls it
        return response

    def _counted(self, stream: Callable[..., Iterator[bytes]], **how: Any) -> Iterator[bytes]:
        for chunk in stream(**how):
            self.events += chunk.count(b"\n")
            self.bytes += len(chunk)
            yield chunk
