"""Requests against pods, in virtual time: one loop over the requests, interrupted every 15 s by the autoscaler.

A request takes one heap operation to begin and one to end, so that two weeks of one request a second play in seconds.
What happens to it is known when it comes: its pod is chosen, its pod's queue is first come first served, and nothing
overtakes it.

- Nobody is ready: lost at once (503). More than `maxInFlight` under way: turned away at once (429).
- Longer than `longestRequest`, waiting included: given up then, and lost; one that still waited never takes a place.
- A pod that is told to stop gets no new requests and ends those it has: the stack file's grace is long enough for it.
"""

import math
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from random import Random
from typing import Protocol

from ebbtide.settings.sections.serving.routes import BalanceKind
from ebbtide.simulator.services.fleet import Fleet, Replica
from ebbtide.simulator.services.served import SimulatedService
from ebbtide.simulator.strategies.hpa import SYNC_S

LATENCY_BEATS = 8  # of 15 s: what the metric `latency` looks back at
THROUGHPUT_BEATS = 4
PERCENTILE = 0.95
_MINUTE_BEATS = 4


@dataclass(frozen=True, slots=True)
class ServiceSight:
    """What is known at a beat. `sent` are the requests of each whole minute since the beginning."""

    replicas: int
    ready: int
    values: Sequence[float | None]  # of the service's metrics; None: missing
    sent: Sequence[int]
    clock: float  # seconds of the trace in which somebody decided: it stands still while nothing is known


class Decider(Protocol):
    """A strategy: how many pods there should be."""

    @property
    def least(self) -> int:
        """Pods at least, as it last decided."""
        ...

    def first(self) -> int: ...

    def decide(self, now: float, seen: ServiceSight, /) -> int: ...


@dataclass(slots=True)
class MinuteSeries:
    """One value for each minute from the beginning: of the minute, as it is when it ends, or all until then."""

    sent: list[int] = field(default_factory=list[int])
    floor: list[int] = field(default_factory=list[int])  # at its end, as the next two
    asked: list[int] = field(default_factory=list[int])
    ready: list[int] = field(default_factory=list[int])
    answered: list[int] = field(default_factory=list[int])  # until then, so that `latencies` can be cut
    unanswered: list[int] = field(default_factory=list[int])  # until then: lost or turned away
    pod_hours: list[float] = field(default_factory=list[float])  # until then; a pod that ends counts to its end

    def p95(self, latencies: Sequence[float], minutes: int) -> Iterator[float | None]:
        """Seconds, of what was answered in each so many minutes; None: nothing was."""
        begin, steps = 0, self.answered[minutes - 1 :: minutes]
        for until in steps if len(self.answered) % minutes == 0 else [*steps, self.answered[-1]]:
            some = sorted(latencies[begin:until])
            yield quantile(some, PERCENTILE) if some else None
            begin = until


@dataclass(slots=True, kw_only=True)
class Served:
    """sent = answered + lost + turned_away; `latencies`, in seconds, are of the answered ones in the order they end."""

    sent: int = 0
    lost: int = 0
    turned_away: int = 0
    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    pod_hours: float = 0.0
    least_asked: int = 0
    most_asked: int = 0
    series: MinuteSeries = field(default_factory=MinuteSeries)

    @property
    def answered(self) -> int:
        return len(self.latencies)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank; of none 0."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds of the trace."""

    begin: float
    end: float

    def holds(self, at: float) -> bool:
        return self.begin <= at < self.end


def play(
    service: SimulatedService,
    decider: Decider,
    arrivals: Iterable[float],
    span: Span,
    *,
    seed: int = 0,
    blind: Sequence[Span] = (),
    held: Sequence[Span] = (),
) -> Served:
    """Requests of the span; those under way at its end are answered after it.

    All metrics are missing while blind. While held, nothing is known of the load, and nobody decides.
    """
    run = _Run(service, span, seed)
    run.fleet.begin(span.begin, decider.first())
    sent = run.found.series.sent
    coming = (at for at in arrivals if span.begin <= at < span.end)
    ahead = next(coming, math.inf)
    held_s = 0.0
    beats = math.ceil((span.end - span.begin) / SYNC_S)
    for beat in range(beats):
        now = span.begin + beat * SYNC_S
        if beat and beat % _MINUTE_BEATS == 0:
            run.note_minute(now, decider.least)
        values = run.measured(missing=any(it.holds(now) for it in blind))
        if any(it.holds(now) for it in held):
            held_s += SYNC_S
        else:
            seen = ServiceSight(run.fleet.asked, len(run.fleet.ready), values, sent, now - held_s)
            run.scale(now, decider.decide(now, seen))
        ahead = run.serve(ahead, coming, min(now + SYNC_S, span.end))
    return run.ended(decider.least)


class _Run:
    def __init__(self, service: SimulatedService, span: Span, seed: int) -> None:
        self.service, self._end_s = service, span.end
        self.fleet = Fleet(service.pod)
        self.found = Served(least_asked=service.most)
        self._times = service.pod.times()
        self._taking, self._picking = Random(f"{seed} times"), Random(f"{seed} balancing")
        self._under_way: list[tuple[float, int, float, Replica]] = []  # end, number, begin (nan: lost), pod
        self._turn = 0  # of round robin
        self._lately: deque[tuple[int, int]] = deque([(0, 0)], maxlen=LATENCY_BEATS + 1)  # answered, sent until a beat
        self._busy = 0.0
        self._sent_before = 0

    def scale(self, now: float, replicas: int) -> None:
        self.fleet.scale(now, replicas)
        self.found.least_asked = min(self.found.least_asked, replicas)
        self.found.most_asked = max(self.found.most_asked, replicas)

    def note_minute(self, now: float, floor: int) -> None:
        found, series = self.found, self.found.series
        series.sent.append(found.sent - self._sent_before)
        self._sent_before = found.sent
        series.floor.append(floor)
        series.asked.append(self.fleet.asked)
        series.ready.append(len(self.fleet.ready))
        series.answered.append(found.answered)
        series.unanswered.append(found.lost + found.turned_away)
        series.pod_hours.append(self.fleet.hours(now))

    def serve(self, ahead: float, coming: Iterator[float], until: float) -> float:
        """All requests before `until`; the first one after it is returned."""
        fleet, found, under_way = self.fleet, self.found, self._under_way
        ready, times, count = fleet.ready, self._times, len(self._times)
        take, pick = self._taking.random, self._choice()
        longest, most = self.service.longest_s, self.service.max_in_flight or math.inf
        answer = found.latencies.append
        number, next_ready = found.sent, fleet.next_ready
        lost = turned_away = 0
        while ahead < until:
            at = ahead
            ahead = next(coming, math.inf)
            number += 1
            if at >= next_ready:
                fleet.become_ready(at)
                next_ready = fleet.next_ready
            while under_way and under_way[0][0] <= at:
                end, _, begin, replica = heappop(under_way)
                replica.active -= 1
                if begin == begin:  # not NaN
                    answer(end - begin)
            takes = times[int(take() * count)]
            if not ready:
                lost += 1
                continue
            if len(under_way) >= most:
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
            heapreplace(slots, end)  # no place is taken beyond its request's limit, and so beyond none after it
            replica.active += 1
            heappush(under_way, (end, number, begin, replica))
        found.sent = number
        found.lost += lost
        found.turned_away += turned_away
        self._settle(until)
        fleet.become_ready(until)
        return ahead

    def _settle(self, now: float) -> None:
        under_way = self._under_way
        while under_way and under_way[0][0] <= now:
            end, _, begin, replica = heappop(under_way)
            replica.active -= 1
            if begin == begin:
                self.found.latencies.append(end - begin)

    def _choice(self) -> "_Choice":
        match self.service.balance:
            case BalanceKind.LEAST_REQUEST:
                return self._least_request
            case BalanceKind.ROUND_ROBIN:
                return self._round_robin
            case BalanceKind.RANDOM | BalanceKind.CONSISTENT_HASH:
                return self._at_random

    def _least_request(self, ready: Sequence[Replica]) -> Replica:
        """Envoy's: the less busy of two that are chosen at random, and may be the same. One gateway that sees all."""
        size, chance = len(ready), self._picking.random
        one, other = ready[int(chance() * size)], ready[int(chance() * size)]
        return one if one.active <= other.active else other

    def _round_robin(self, ready: Sequence[Replica]) -> Replica:
        self._turn += 1
        return ready[self._turn % len(ready)]

    def _at_random(self, ready: Sequence[Replica]) -> Replica:
        return ready[int(self._picking.random() * len(ready))]

    def measured(self, *, missing: bool) -> tuple[float | None, ...]:
        """The service's metrics at a beat, in their order."""
        at_once = self.service.pod.at_once
        active = [replica.active for replica in self.fleet.ready]
        busy = sum(min(count, at_once) for count in active)
        used = (busy + self._busy) / 2  # of two beats, since use is measured over half a minute
        self._busy = busy
        values: dict[str, float | None] = {
            "inFlight": len(self._under_way),
            "queue": sum(max(0, count - at_once) for count in active),
            "cpu": 100 * used / (at_once * len(active)) if active else None,
            "gpu": 100 * used / (at_once * len(active)) if active else None,
        }
        keys = [metric.key for metric in self.service.metrics]
        if "latency" in keys:
            begin, _ = self._lately[0]
            values["latency"] = quantile(sorted(self.found.latencies[begin:]), PERCENTILE)
        if "throughput" in keys:
            beats = min(THROUGHPUT_BEATS, len(self._lately))
            begin, _ = self._lately[-beats]
            values["throughput"] = (self.found.answered - begin) / (beats * SYNC_S)
        self._lately.append((self.found.answered, self.found.sent))
        return tuple(None if missing else values[key] for key in keys)

    def ended(self, floor: int) -> Served:
        self.note_minute(self._end_s, floor)
        self.found.pod_hours = self.found.series.pod_hours[-1]
        self._settle(math.inf)
        return self.found


class _Choice(Protocol):
    def __call__(self, ready: Sequence[Replica], /) -> Replica: ...
