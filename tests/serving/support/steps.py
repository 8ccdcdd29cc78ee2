"""A step of load on a service that grows: what was asked for, what was ready, and what became of the requests."""

import json
import math
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event, Thread
from typing import Any

from ebbtide.demo.load import LoadAnswers
from ebbtide.lab.report import LoadStep, load_step_picture
from ebbtide.vocabulary.labels import NAMESPACE
from tests.paths import ROOT
from tests.serving.support.site import Serving

_LOOK_S = 0.25
_PERIOD_S = 15.0  # of the policy upwards
_LATE_S = 1.0  # two looks of the autoscaler are never quite a period apart
_OUT = ROOT / "out" / "serving"


@dataclass(frozen=True, slots=True)
class Seen:
    at: float  # seconds from the start of the load
    wanted: int
    ready: int


@dataclass
class Watch:
    """Looks at a Deployment four times a second."""

    serving: Serving
    name: str
    seen: list[Seen] = field(default_factory=list[Seen])

    @contextmanager
    def looking(self) -> Generator[None]:
        over = Event()
        thread = Thread(target=self._look, args=[over], name=f"watch of {self.name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _look(self, over: Event) -> None:
        began = time.monotonic()
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{self.name}"
        while not over.wait(_LOOK_S):
            now = self.serving.plane.api.get(path)
            wanted, ready = now["spec"]["replicas"], now["status"].get("readyReplicas", 0)
            self.seen.append(Seen(time.monotonic() - began, wanted, ready))


@dataclass(frozen=True, slots=True)
class Change:
    at: float
    before: int  # replicas that were wanted, one period earlier
    after: int


def changes(seen: Sequence[Seen], period: float = _PERIOD_S) -> list[Change]:
    """Each time that another number was wanted, beside what was wanted just before a period began."""
    found: list[Change] = []
    for place, (earlier, later) in enumerate(pairwise(seen)):
        if earlier.wanted != later.wanted:
            within = [one.wanted for one in seen[: place + 1] if one.at > later.at - period + _LATE_S]
            growing = later.wanted > earlier.wanted
            before = min(within, default=earlier.wanted) if growing else max(within, default=earlier.wanted)
            found.append(Change(later.at, before, later.wanted))
    return found


def is_gradual(change: Change) -> bool:
    """At most doubled or four more; down by a quarter at most, rounded up as HPAs do it."""
    if change.after > change.before:
        return change.after <= max(2 * change.before, change.before + 4)
    return change.after >= change.before - math.ceil(change.before / 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Times in seconds from the step."""

    kind: str
    metrics: str  # as the file has them
    answers: LoadAnswers
    seen: Sequence[Seen]
    step_at: float  # seconds from the start of the load
    busy: float  # seconds that it lasts
    enough: int  # pods that can do the work

    def after_step(self, **least: int) -> float | None:
        ((what, number),) = least.items()
        return next((one.at - self.step_at for one in self.seen if getattr(one, what) >= number), None)

    @property
    def most_wanted(self) -> int:
        return max(one.wanted for one in self.seen)

    @property
    def most_ready(self) -> int:
        return max(one.ready for one in self.seen)

    @property
    def in_busy_phase(self) -> LoadAnswers:
        return self.answers.between(self.step_at, self.step_at + self.busy)

    @property
    def in_quiet_phase(self) -> LoadAnswers:
        """Before the step."""
        return self.answers.between(0, self.step_at)

    @property
    def ready_at_step(self) -> int:
        return self._just_before(self.step_at).ready

    def facts(self) -> dict[str, Any]:
        most = self.most_wanted
        return {
            "kind": self.kind,
            "metrics": self.metrics,
            "enough": self.enough,
            "enough wanted after": self.after_step(wanted=self.enough),
            "enough ready after": self.after_step(ready=self.enough),
            "most": most,
            "most wanted after": self.after_step(wanted=most),
            "most ready after": self.after_step(ready=most),
            "ready at the step": self.ready_at_step,
            "p95 in the quiet phase": self.in_quiet_phase.quantile(0.95),
            "p95 in the busy phase": self.in_busy_phase.quantile(0.95),
            "longest": self.answers.quantile(1),
            "sent": self.answers.sent,
            "lost": self.answers.lost,
            "reasons": dict(self.answers.reasons),
            "steps": [[round(one.at - self.step_at, 1), one.before, one.after] for one in changes(self.seen)],
        }

    def keep(self) -> None:
        """As JSON, and as a picture."""
        _OUT.mkdir(parents=True, exist_ok=True)
        file = _OUT / f"step-{self.kind}"
        file.with_suffix(".json").write_text(json.dumps(self.facts(), indent=1) + "\n", encoding="utf-8")
        file.with_suffix(".svg").write_text(self._picture(), encoding="utf-8")

    def _picture(self) -> str:
        facts = self.facts()
        p95 = facts["p95 in the busy phase"]
        lost = f"{self.answers.sent} requests sent, {self.answers.lost} lost"
        lines = [
            f"{lost}. p95 while it was busy: {p95:.1f} s, of requests that the first pod took before the others came.",
            "Real Envoy, KEDA, Prometheus and HPA on a control plane; models are processes that take a stated time.",
        ]
        return load_step_picture(self._by_second(), f"A step of load, scaled by {{ {self.metrics} }}", lines)

    def _by_second(self) -> LoadStep:
        seconds = range(math.ceil(max(one.at for one in self.seen)))
        at = [self._just_before(second + 1) for second in seconds]
        each = [self.answers.between(second, second + 1) for second in seconds]
        p95 = [one.quantile(0.95) for one in each]
        return LoadStep(
            step=1,
            rate=[one.sent for one in each],
            wanted=[one.wanted for one in at],
            ready=[one.ready for one in at],
            p95=[None if math.isnan(value) else value for value in p95],
        )

    def _just_before(self, at: float) -> Seen:
        return [one for one in self.seen if one.at <= at][-1] if self.seen[0].at <= at else self.seen[0]
