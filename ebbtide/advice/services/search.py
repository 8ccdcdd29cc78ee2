"""Which settings are tried: a small grid that does not hang on what the stack file says, so that advice that was
followed is followed by none.

For each metric and target the smallest `min` that keeps enough is found by halving, with a `max` that leaves room;
then other `max` are tried for the cheapest of each metric. What the file says is tried too, and its `max` with each of
these.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ebbtide.advice.services.stretches import Stretches
from ebbtide.advice.services.trial import Outcome, Place, Scale, Trials
from ebbtide.monitoring.serving import counts_requests
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.services import Hardware
from ebbtide.settings.sections.types import MOST
from ebbtide.settings.sections.workloads import Vertical
from ebbtide.simulator.services.replay import ServiceCourse
from ebbtide.simulator.services.served import USED

SHARES = (0.4, 0.55, 0.7, 0.85, 1.0, 1.3)
"""Targets in flight, as shares of the requests that a pod works on at a time."""
BELOW = (0.75, 0.5, 0.25, 0.0)
"""The same where that number is only assumed from the target: all that are rounded up to it."""
PERCENTS = (50, 60, 70, 80, 90)
QUEUED = (1, 2, 4, 8)
LEAST_AT = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""`min`, by the pods that such a share of the minutes needs at most."""
ABOVE = (1.25, 1.5, 2.0)
"""The same as a multiple of what the busiest minute needs: requests come in bursts, of which a window tells nothing."""
ROOM = 3.0
MOST_AT = (1.5, 2.0, ROOM)
"""`max`, by the pods that the busiest minute needs. It bounds what a fault or a rush can cost, so it is never as low as
what one history needed."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Goal:
    """Shares of the requests: answered within the SLO at least, and lost at most."""

    within: float
    lost: float = 0.0

    @property
    def lost_text(self) -> str:
        return f"at most {100 * self.lost:g}%" if self.lost else "none"

    def kept(self, outcome: Outcome) -> bool:
        result = outcome.result
        return outcome.within >= self.within and result.lost <= self.lost * result.sent


@dataclass(frozen=True, slots=True)
class Tried:
    scale: Scale
    outcome: Outcome
    keeps: bool

    @property
    def pod_hours(self) -> float:
        return self.outcome.result.pod_hours

    @property
    def missed(self) -> float:
        return self.outcome.result.beyond_slo


class Search:
    def __init__(
        self, trials: Trials, hours: Stretches, goal: Goal, progress: Progress, *, known_at_once: bool
    ) -> None:
        self.tried: list[Tried] = []
        self._trials, self._hours, self._goal = trials, hours, goal
        self._place, self._progress = trials.place, progress
        now = trials.course(self._place.scale)
        if now is None:
            raise ValueError("the stack file itself is not sound")
        self._now, self._known_at_once = now, known_at_once
        self._needs = _needs(now, hours)

    def found(self) -> Sequence[Tried]:
        """All settings that were played; the file's own is the first."""
        kinds = [*self._metrics()]
        leasts = self._leasts()
        kinds_of_metrics = len({tuple(it) for it in kinds})
        self._total = 1 + len(kinds) * (1 + math.ceil(math.log2(len(leasts)))) + kinds_of_metrics * (len(MOST_AT) + 1)
        self._try(self._place.scale)
        best = [it for metrics in kinds if (it := self._least(metrics, leasts)) is not None]
        for it in _cheapest_of_each(best):
            for most in (*self._mosts(), self._place.scale.max):
                self._try(Scale(metrics=it.scale.metrics, min=it.scale.min, max=most))
        self._progress(1, 1)
        return self.tried

    def _try(self, scale: Scale) -> Tried | None:
        known = next((it for it in self.tried if it.scale == scale), None)
        if known is not None:
            return known
        outcome = self._trials.played(scale, self._hours)
        if outcome is None:
            return None
        self.tried.append(Tried(scale, outcome, self._goal.kept(outcome)))
        self._progress(min(len(self.tried), self._total), self._total)
        return self.tried[-1]

    def _least(self, metrics: Mapping[str, object], leasts: Sequence[int]) -> Tried | None:
        """With the smallest min that keeps enough, or the largest where none does."""
        most = max(self._mosts()[-1], leasts[-1] + 1)
        low, high = 0, len(leasts) - 1
        while low < high:
            middle = (low + high) // 2
            found = self._try(Scale(metrics=metrics, min=leasts[middle], max=most))
            if found is not None and found.keeps:
                high = middle
            else:
                low = middle + 1
        return self._try(Scale(metrics=metrics, min=leasts[low], max=most))

    @property
    def _floors(self) -> Sequence[int]:
        """What the file's calendar has pods for: each is above min, and at most max."""
        scale = self._place.settings.scale
        return [*([] if scale.open is None else [scale.open]), *(event.min for event in scale.events)]

    def _leasts(self) -> Sequence[int]:
        """Never 1 where the file has more: a pod that may be alone is never moved."""
        lowest = min(2, self._place.scale.min)
        highest = min(self._floors, default=MOST) - 1
        needs = self._needs
        at = (needs[math.ceil(share * (len(needs) - 1))] for share in LEAST_AT)
        above = (math.ceil(share * needs[-1]) for share in ABOVE)
        return sorted({min(highest, max(lowest, pods)) for pods in (*at, *above)})

    def _mosts(self) -> Sequence[int]:
        return sorted({max(math.ceil(share * self._needs[-1]), *self._floors, 1) for share in MOST_AT})

    def _metrics(self) -> Iterator[Mapping[str, object]]:
        place, settings = self._place, self._trials.stack.settings
        at_once = self._now.service.pod.at_once
        own = place.scale.metrics
        told: list[Mapping[str, object]] = []
        for metrics in (own, *_others(place, settings, may_differ=self._known_at_once or at_once == 1)):
            told += [it for it in _targets(metrics, at_once, known=self._known_at_once) if it not in told]
        yield from told


def _cheapest_of_each(best: Sequence[Tried]) -> Iterator[Tried]:
    """Of all that have the same metrics; of those that keep enough, if any does."""
    told: set[frozenset[str]] = set()
    for it in sorted(best, key=lambda it: (not it.keeps, it.pod_hours)):
        if (keys := frozenset(it.scale.metrics)) not in told:
            told.add(keys)
            yield it


def _needs(course: ServiceCourse, hours: Stretches) -> Sequence[int]:
    """Pods of each minute, from the fewest, if each has as much to do as it bears; whatever the targets are."""
    bears = course.service.full_rate * USED
    spans = [(round(it.span.begin / 60), round(it.span.end / 60)) for it in hours.each]
    rates = [rate for begin, end in spans for rate in course.minutes.rates[begin:end] if rate is not None]
    return sorted(max(1, math.ceil(rate / bears - 1e-9)) for rate in rates) or [1]


def _others(place: Place, settings: StackSettings, *, may_differ: bool) -> Iterator[Mapping[str, object]]:
    """Other metrics alone: those with which a pod is still assumed to work on as many at a time."""
    own = place.scale.metrics
    if {"memory", "query", "queue"} & own.keys():  # they stand for something that requests do not tell
        return
    if place.of.route is not None and counts_requests(settings) and (may_differ or "inFlight" in own):
        yield {"inFlight": own.get("inFlight", 1)}
    gpu = place.settings.hardware is Hardware.GPU or place.settings.gpu.count
    if may_differ and not gpu and place.settings.vertical is Vertical.OFF:
        yield {"cpu": own.get("cpu", "70%")}


def _targets(metrics: Mapping[str, object], at_once: int, *, known: bool) -> Iterator[Mapping[str, object]]:
    """The same metrics with other targets for the first of them; the others stay as they are."""
    if "inFlight" in metrics:
        key = "inFlight"
        targets = [_written(at_once * it) for it in SHARES] if known else [_plain(at_once - it) for it in BELOW]
    elif "cpu" in metrics or "gpu" in metrics:
        key = "cpu" if "cpu" in metrics else "gpu"
        targets = [f"{it}%" for it in PERCENTS]
    elif "queue" in metrics:
        queue = cast("Mapping[str, Any]", metrics["queue"])
        key, targets = "queue", [{**queue, "target": it} for it in QUEUED]
    else:
        return
    for target in targets:
        yield {**metrics, key: target}


def _written(value: float) -> float | int:
    """Two digits, as a person would write it."""
    return _plain(float(f"{value:.2g}") if value < 10 else round(value))


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else value
