"""Search settings on a small grid that does not depend on the stack file, so advice is stable once followed.

For each metric and target, bisection finds the smallest `min` that keeps enough, with a generous `max`; then other
`max` are tried for the cheapest of each metric. The file's own setting is tried too, and its `max` with each of these.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ebbtide.lab.advice.services.stretches import Stretches
from ebbtide.lab.advice.services.trial import ScaleEntry, SettingOutcome, Trials, VariantScale
from ebbtide.lab.simulator.services.replay import ServiceCourse
from ebbtide.lab.simulator.services.served import USED
from ebbtide.monitoring.serving import counts_requests
from ebbtide.settings.model import StackSettings
from ebbtide.settings.sections.serving.services import Hardware
from ebbtide.settings.sections.types import MOST
from ebbtide.settings.sections.workloads import Vertical

SHARES = (0.4, 0.55, 0.7, 0.85, 1.0, 1.3)
"""Targets in flight, as shares of a pod's concurrent requests."""
BELOW = (0.75, 0.5, 0.25, 0.0)
"""Subtracted from that number if it is only assumed from the target: the results round up to it."""
PERCENTS = (50, 60, 70, 80, 90)
QUEUED = (1, 2, 4, 8)
LEAST_AT = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
"""`min`, as the pods that suffice for this share of the minutes."""
ABOVE = (1.25, 1.5, 2.0)
"""`min`, as multiples of the busiest minute's need: a window does not show bursts of requests."""
ROOM = 3.0
MOST_AT = (1.5, 2.0, ROOM)
"""`max`, as multiples of the busiest minute's need. It bounds the cost of a fault or a rush, so it stays above the need
of one history."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Goal:
    """Least share of requests answered within the SLO, and largest share lost."""

    within: float
    lost: float = 0.0

    @property
    def lost_text(self) -> str:
        return f"at most {100 * self.lost:g}%" if self.lost else "none"

    def kept(self, outcome: SettingOutcome) -> bool:
        result = outcome.result
        return outcome.within >= self.within and result.lost <= self.lost * result.sent


@dataclass(frozen=True, slots=True)
class Tried:
    scale: VariantScale
    outcome: SettingOutcome
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
            raise ValueError("the stack file itself is invalid")
        self._now, self._known_at_once = now, known_at_once
        self._needs = _needs(now, hours)

    def run(self) -> Sequence[Tried]:
        """Play the grid and return all settings that were played; the file's own is the first."""
        targets = [*self._metrics()]
        leasts = self._leasts()
        metrics_count = len({tuple(metrics) for metrics in targets})
        self._total = 1 + len(targets) * (1 + math.ceil(math.log2(len(leasts)))) + metrics_count * (len(MOST_AT) + 1)
        self._try(self._place.scale)
        best = [tried for metrics in targets if (tried := self._least(metrics, leasts)) is not None]
        for tried in _cheapest_of_each(best):
            for most in (*self._mosts(), self._place.scale.max):
                self._try(VariantScale(metrics=tried.scale.metrics, min=tried.scale.min, max=most))
        self._progress(1, 1)
        return self.tried

    def _try(self, scale: VariantScale) -> Tried | None:
        played = next((tried for tried in self.tried if tried.scale == scale), None)
        if played is not None:
            return played
        outcome = self._trials.played(scale, self._hours)
        if outcome is None:
            return None
        self.tried.append(Tried(scale, outcome, self._goal.kept(outcome)))
        self._progress(min(len(self.tried), self._total), self._total)
        return self.tried[-1]

    def _least(self, metrics: Mapping[str, object], leasts: Sequence[int]) -> Tried | None:
        """Try the smallest min that keeps enough, or the largest if none does."""
        most = max(self._mosts()[-1], leasts[-1] + 1)
        low, high = 0, len(leasts) - 1
        while low < high:
            middle = (low + high) // 2
            tried = self._try(VariantScale(metrics=metrics, min=leasts[middle], max=most))
            if tried is not None and tried.keeps:
                high = middle
            else:
                low = middle + 1
        return self._try(VariantScale(metrics=metrics, min=leasts[low], max=most))

    @property
    def _floors(self) -> Sequence[int]:
        """Pods of the file's calendar: each is above min, and at most max."""
        scale = self._place.settings.scale
        return [*([] if scale.open is None else [scale.open]), *(event.min for event in scale.events)]

    def _leasts(self) -> Sequence[int]:
        """Return candidates for min; never 1 if the file has more, since a single pod is never evicted."""
        lowest = min(2, self._place.scale.min)
        highest = min(self._floors, default=MOST) - 1
        needs = self._needs
        by_share = (needs[math.ceil(share * (len(needs) - 1))] for share in LEAST_AT)
        above = (math.ceil(share * needs[-1]) for share in ABOVE)
        return sorted({min(highest, max(lowest, pods)) for pods in (*by_share, *above)})

    def _mosts(self) -> Sequence[int]:
        return sorted({max(math.ceil(share * self._needs[-1]), *self._floors, 1) for share in MOST_AT})

    def _metrics(self) -> Iterator[Mapping[str, object]]:
        place, settings = self._place, self._trials.stack.settings
        at_once = self._now.service.pod.at_once
        own = place.scale.metrics
        distinct: list[Mapping[str, object]] = []
        for metrics in (own, *_others(place, settings, may_differ=self._known_at_once or at_once == 1)):
            targets = _targets(metrics, at_once, known=self._known_at_once)
            distinct += [target for target in targets if target not in distinct]
        yield from distinct


def _cheapest_of_each(best: Sequence[Tried]) -> Iterator[Tried]:
    """Yield the cheapest setting of each set of metrics; those that keep enough come first."""
    yielded: set[frozenset[str]] = set()
    for tried in sorted(best, key=lambda tried: (not tried.keeps, tried.pod_hours)):
        if (keys := frozenset(tried.scale.metrics)) not in yielded:
            yielded.add(keys)
            yield tried


def _needs(course: ServiceCourse, hours: Stretches) -> Sequence[int]:
    """Return the pods that each minute needs at full load, ascending, whatever the targets are."""
    bears = course.service.full_rate * USED
    spans = [(round(part.span.begin / 60), round(part.span.end / 60)) for part in hours.parts]
    rates = [rate for begin, end in spans for rate in course.minutes.rates[begin:end] if rate is not None]
    return sorted(max(1, math.ceil(rate / bears - 1e-9)) for rate in rates) or [1]


def _others(place: ScaleEntry, settings: StackSettings, *, may_differ: bool) -> Iterator[Mapping[str, object]]:
    """Yield other single metrics for which the assumed concurrency of a pod still holds."""
    own = place.scale.metrics
    if {"memory", "query", "queue"} & own.keys():  # the history of requests says nothing about them
        return
    if place.of.route is not None and counts_requests(settings) and (may_differ or "inFlight" in own):
        yield {"inFlight": own.get("inFlight", 1)}
    gpu = place.settings.hardware is Hardware.GPU or place.settings.gpu.count
    if may_differ and not gpu and place.settings.vertical is Vertical.OFF:
        yield {"cpu": own.get("cpu", "70%")}


def _targets(metrics: Mapping[str, object], at_once: int, *, known: bool) -> Iterator[Mapping[str, object]]:
    """Yield the same metrics with other targets for the first; the others stay unchanged."""
    if "inFlight" in metrics:
        key = "inFlight"
        if known:
            targets = [_written(at_once * share) for share in SHARES]
        else:
            targets = [_plain(at_once - below) for below in BELOW]
    elif "cpu" in metrics or "gpu" in metrics:
        key = "cpu" if "cpu" in metrics else "gpu"
        targets = [f"{percent}%" for percent in PERCENTS]
    elif "queue" in metrics:
        queue = cast("Mapping[str, Any]", metrics["queue"])
        key, targets = "queue", [{**queue, "target": length} for length in QUEUED]
    else:
        return
    for target in targets:
        yield {**metrics, key: target}


def _written(value: float) -> float | int:
    """Round to two digits, as a person would write it."""
    return _plain(float(f"{value:.2g}") if value < 10 else round(value))


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else value
