"""Requests to pods in virtual time: a loop over the requests, with a sync of the autoscaler every 15 s.

A request takes one heap operation to begin and one to end, so two weeks of one request a second play in seconds. Its
outcome is known when it arrives: its pod is chosen, the pod's queue is first come, first served, and no request
overtakes another.

- No pod is ready: lost at once (503). More than `maxInFlight` in flight: refused at once (429).
- Longer than `longestRequest`, waiting included: cancelled then, and lost. If it still waited, it never takes a place.
- A stopping pod gets no new requests and finishes its own: the stack file's grace is long enough.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from random import Random
from typing import Protocol

from ebbtide.lab.simulator.services.fleet import Replica, ReplicaFleet
from ebbtide.lab.simulator.services.served import ServiceModel
from ebbtide.lab.simulator.strategies.hpa import SYNC_S
from ebbtide.settings.sections.serving.routes import BalanceKind

LATENCY_SYNCS = 8  # of 15 s: the window of the metric `latency`
THROUGHPUT_SYNCS = 4
PERCENTILE = 0.95
_MINUTE_SYNCS = 4


@dataclass(frozen=True, slots=True)
class ServiceSight:
    """The input of a decision. `sent`: the requests of each complete minute since the begin."""

    replicas: int
    ready: int
    values: Sequence[float | None]  # of the service's metrics; None: missing
    sent: Sequence[int]
    clock: float  # seconds of the trace, without times in which the load is unknown


class Decider(Protocol):
    """A strategy: the number of pods to request."""

    @property
    def least(self) -> int:
        """The floor of the last decision."""
        ...

    def first(self) -> int: ...

    def decide(self, now: float, sight: ServiceSight, /) -> int: ...


@dataclass(slots=True)
class MinuteSeries:
    """One value for each minute from the begin: of the minute, at its end, or a total up to its end."""

    sent: list[int] = field(default_factory=list[int])
    floor: list[int] = field(default_factory=list[int])  # at its end, as the next two
    replicas: list[int] = field(default_factory=list[int])
    ready: list[int] = field(default_factory=list[int])
    answered: list[int] = field(default_factory=list[int])  # total, an index into `latencies`
    unanswered: list[int] = field(default_factory=list[int])  # total: lost or refused
    pod_hours: list[float] = field(default_factory=list[float])  # total; a stopping pod counts to its end

    def p95(self, latencies: Sequence[float], minutes: int) -> Iterator[float | None]:
        """The p95 in seconds of the requests answered in each span of `minutes`; None without one."""
        begin, steps = 0, self.answered[minutes - 1 :: minutes]
        for until in steps if len(self.answered) % minutes == 0 else [*steps, self.answered[-1]]:
            ordered = sorted(latencies[begin:until])
            yield quantile(ordered, PERCENTILE) if ordered else None
            begin = until


@dataclass(slots=True, kw_only=True)
class ServedRequests:
    """sent = answered + lost + turned_away. `latencies`: seconds of answered requests, in the order of their ends."""

    sent: int = 0
    lost: int = 0
    turned_away: int = 0
    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    pod_hours: float = 0.0
    fewest_replicas: int = 0
    most_replicas: int = 0
    series: MinuteSeries = field(default_factory=MinuteSeries)

    @property
    def answered(self) -> int:
        return len(self.latencies)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The nearest rank; 0 without values."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """Seconds of the trace."""

    begin: float
    end: float

    def holds(self, at: float) -> bool:
        return self.begin <= at < self.end


def play(
    service: ServiceModel,
    decider: Decider,
    arrivals: Iterable[float],
    span: TraceSpan,
    *,
    seed: int = 0,
    blind: Sequence[TraceSpan] = (),
    held: Sequence[TraceSpan] = (),
) -> ServedRequests:
    """Play the requests of the span. Those in flight at its end are answered after it.

    All metrics are missing in `blind` spans. In `held` spans the load is unknown, and the number of pods stays.
    """
    run = _Run(service, span, seed)
    run.fleet.begin(span.begin, decider.first())
    sent = run.served.series.sent
    upcoming = (at for at in arrivals if span.begin <= at < span.end)
    ahead = next(upcoming, math.inf)
    held_s = 0.0
    syncs = math.ceil((span.end - span.begin) / SYNC_S)
    for sync in range(syncs):
        now = span.begin + sync * SYNC_S
        if sync and sync % _MINUTE_SYNCS == 0:
            run.note_minute(now, decider.least)
        values = run.measured(missing=any(gap.holds(now) for gap in blind))
        if any(gap.holds(now) for gap in held):
            held_s += SYNC_S
        else:
            sight = ServiceSight(run.fleet.replicas, len(run.fleet.ready), values, sent, now - held_s)
            run.scale(now, decider.decide(now, sight))
        ahead = run.serve(ahead, upcoming, min(now + SYNC_S, span.end))
    return run.ended(decider.least)


class _Run:
    def __init__(self, service: ServiceModel, span: TraceSpan, seed: int) -> None:
        self.service, self._end_s = service, span.end
        self.fleet = ReplicaFleet(service.pod)
        self.served = ServedRequests(fewest_replicas=service.most)
        self._times = service.pod.times()
        self._taking, self._picking = Random(f"{seed} times"), Random(f"{seed} balancing")
        self._in_flight: list[tuple[float, int, float, Replica]] = []  # end, number, begin (NaN: lost), pod
        self._turn = 0  # of round robin
        self._history: deque[tuple[int, int]] = deque([(0, 0)], maxlen=LATENCY_SYNCS + 1)  # answered, sent at each sync
        self._busy = 0.0
        self._sent_before = 0

    def scale(self, now: float, replicas: int) -> None:
        self.fleet.scale(now, replicas)
        self.served.fewest_replicas = min(self.served.fewest_replicas, replicas)
        self.served.most_replicas = max(self.served.most_replicas, replicas)

    def note_minute(self, now: float, floor: int) -> None:
        served, series = self.served, self.served.series
        series.sent.append(served.sent - self._sent_before)
        self._sent_before = served.sent
        series.floor.append(floor)
        series.replicas.append(self.fleet.replicas)
        series.ready.append(len(self.fleet.ready))
        series.answered.append(served.answered)
        series.unanswered.append(served.lost + served.turned_away)
        series.pod_hours.append(self.fleet.hours(now))

    def serve(self, ahead: float, upcoming: Iterator[float], until: float) -> float:
        """Play all requests before `until`, and return the first one after it."""
        fleet, served, in_flight = self.fleet, self.served, self._in_flight
        ready, times, count = fleet.ready, self._times, len(self._times)
        take, pick = self._taking.random, self._choice()
        longest, most = self.service.longest_s, self.service.max_in_flight or math.inf
        answer = served.latencies.append
        number, next_ready = served.sent, fleet.next_ready
        lost = turned_away = 0
        while ahead < until:
            at = ahead
            ahead = next(upcoming, math.inf)
            number += 1
            if at >= next_ready:
                fleet.become_ready(at)
                next_ready = fleet.next_ready
            while in_flight and in_flight[0][0] <= at:
                end, _, begin, replica = heappop(in_flight)
                replica.active -= 1
                if begin == begin:  # not NaN
                    answer(end - begin)
            takes = times[int(take() * count)]
            if not ready:
                lost += 1
                continue
            if len(in_flight) >= most:
                turned_away += 1
                continue
            replica = pick(ready)
            slots = replica.slots
            begins = slots[0] if slots[0] > at else at
            end, limit = begins + takes, at + longest
            begin = at
            if end > limit:
                end, begin = limit, math.nan
                lost += 1
            heapreplace(slots, end)  # free by this request's limit, and later requests have later limits
            replica.active += 1
            heappush(in_flight, (end, number, begin, replica))
        served.sent = number
        served.lost += lost
        served.turned_away += turned_away
        self._settle(until)
        fleet.become_ready(until)
        return ahead

    def _settle(self, now: float) -> None:
        in_flight = self._in_flight
        while in_flight and in_flight[0][0] <= now:
            end, _, begin, replica = heappop(in_flight)
            replica.active -= 1
            if begin == begin:
                self.served.latencies.append(end - begin)

    def _choice(self) -> "_Choice":
        match self.service.balance:
            case BalanceKind.LEAST_REQUEST:
                return self._least_request
            case BalanceKind.ROUND_ROBIN:
                return self._round_robin
            case BalanceKind.RANDOM | BalanceKind.CONSISTENT_HASH:
                return self._at_random

    def _least_request(self, ready: Sequence[Replica]) -> Replica:
        """Envoy's choice: the less busy of two random pods, which may be the same. One gateway sees all requests."""
        size, chance = len(ready), self._picking.random
        first, second = ready[int(chance() * size)], ready[int(chance() * size)]
        return first if first.active <= second.active else second

    def _round_robin(self, ready: Sequence[Replica]) -> Replica:
        self._turn += 1
        return ready[self._turn % len(ready)]

    def _at_random(self, ready: Sequence[Replica]) -> Replica:
        return ready[int(self._picking.random() * len(ready))]

    def measured(self, *, missing: bool) -> tuple[float | None, ...]:
        """The service's metrics at a sync, in their order."""
        at_once = self.service.pod.at_once
        active = [replica.active for replica in self.fleet.ready]
        busy = sum(min(count, at_once) for count in active)
        used = (busy + self._busy) / 2  # the mean of two syncs, since utilization is measured over half a minute
        self._busy = busy
        values: dict[str, float | None] = {
            "inFlight": len(self._in_flight),
            "queue": sum(max(0, count - at_once) for count in active),
            "cpu": 100 * used / (at_once * len(active)) if active else None,
            "gpu": 100 * used / (at_once * len(active)) if active else None,
        }
        keys = [metric.key for metric in self.service.metrics]
        if "latency" in keys:
            begin, _ = self._history[0]
            values["latency"] = quantile(sorted(self.served.latencies[begin:]), PERCENTILE)
        if "throughput" in keys:
            syncs = min(THROUGHPUT_SYNCS, len(self._history))
            begin, _ = self._history[-syncs]
            values["throughput"] = (self.served.answered - begin) / (syncs * SYNC_S)
        self._history.append((self.served.answered, self.served.sent))
        return tuple(None if missing else values[key] for key in keys)

    def ended(self, floor: int) -> ServedRequests:
        self.note_minute(self._end_s, floor)
        self.served.pod_hours = self.served.series.pod_hours[-1]
        self._settle(math.inf)
        return self.served


class _Choice(Protocol):
    def __call__(self, ready: Sequence[Replica], /) -> Replica: ...
