"""What a container should ask for, one amount at a time, each with its reason. Pure.

Requests hold for every pod, so the busiest one counts. What is advised is never below what was seen, and a container is
lowered only if nothing speaks against it: each such reason is a line of `_holds`.

The margins of flexible containers and the step after a kill are those of the Vertical Pod Autoscaler's recommender
(kubernetes/autoscaler 1.5: `--recommendation-margin-fraction` 0.15, `--oom-bump-up-ratio` 1.2,
`--oom-min-bump-up-bytes` 100 MiB). Fixed containers and those with state get twice the margin: nobody moves them, so a
node that is too full stays so, and their kills lose what others do not have.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.advice.sizes.evidence import Evidence, Figure, Use
from ebbtide.units.quantities import cpu_text, memory_text

MARGIN, LARGER_MARGIN = 0.15, 0.30
AFTER_A_KILL, AT_LEAST_AFTER_A_KILL = 1.2, 100  # MiB
AFTER_THROTTLING = 1.25
THROTTLED = 0.05
"""A container that its limit holds back in more than one period of twenty is short of CPU."""
WORTH_LOWERING = 0.10
"""Of the request: less is not worth a rollout."""
_KEPT_OF_MARGIN = 1 / 3
"""A request is raised only when this part of its margin is used up, so that a new peak is not a new advice."""
_LEAST = {"cpu": 10, "memory": 32}
_NOTHING = 1e-6  # of a millicore or a MiB, which sums of floats leave


class Resource(StrEnum):
    CPU = "cpu"
    MEMORY = "memory"

    def text(self, amount: float) -> str:
        whole = math.ceil(amount - 1e-9)
        return cpu_text(whole) if self is Resource.CPU else memory_text(whole)

    def seen_text(self, amount: float) -> str:
        """Of what was used, rounded up to what can be read."""
        if self is Resource.CPU:
            return cpu_text(math.ceil(amount / 10 - 1e-9) * 10)
        return memory_text(math.ceil(amount)) if amount < 1024 else f"{math.ceil(amount / 102.4) / 10:g}Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the stack file says of one container, as far as the rules need it."""

    cpu: int
    memory: int
    careful: bool = False  # fixed, or with state
    least_memory: int = 0  # its shared memory
    whole_cores: bool = False  # of Ray
    limits_cpu: bool = False
    set_by: str = ""  # who sets its requests instead of the file
    scaled_by: frozenset[Resource] = frozenset()  # its autoscaler's target is a share of these requests

    def amount(self, resource: Resource) -> int:
        return self.cpu if resource is Resource.CPU else self.memory

    @property
    def margin(self) -> float:
        return LARGER_MARGIN if self.careful else MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    resource: Resource
    now: int
    to: int  # the same where nothing changes
    seen: float | None
    reason: str
    short: bool = False  # it goes up because it had too little
    fits: bool = False  # nothing is to be said of it

    @property
    def changes(self) -> bool:
        return self.to != self.now

    @property
    def lowers(self) -> bool:
        return self.to < self.now


def decide(resource: Resource, asked: Asked, use: Use, evidence: Evidence) -> Verdict:
    now = asked.amount(resource)
    figure = use.cpu if resource is Resource.CPU else use.memory

    def verdict(to: int, reason: str, *, short: bool = False, fits: bool = False) -> Verdict:
        seen = None if figure is None else figure.whole
        return Verdict(resource=resource, now=now, to=to, seen=seen, reason=reason, short=short, fits=fits)

    if asked.set_by:
        return verdict(now, f"{asked.set_by} sets it")
    if use.days < evidence.least:
        return verdict(now, f"not enough evidence yet: {use.days} days of {evidence.least}")
    if figure is None:
        return verdict(now, "nothing is recorded of it")
    wanted, why = _wanted(resource, asked, use, figure)
    forced, forced_why = _forced(resource, asked, use)
    if forced > now:
        return verdict(_whole(max(forced, wanted), resource, asked), forced_why, short=True)
    if figure.whole * (1 + asked.margin * _KEPT_OF_MARGIN) > now:
        return verdict(_whole(wanted, resource, asked), why)
    lower = _whole(max(wanted, forced, asked.least_memory if resource is Resource.MEMORY else 0), resource, asked)
    if lower > now * (1 - WORTH_LOWERING):
        return verdict(now, f"fits: {_seen(resource, figure)}", fits=True)
    if held := next(_holds(resource, asked, use), ""):
        return verdict(now, f"not lowered: {held}")
    return verdict(lower, why)


def _wanted(resource: Resource, asked: Asked, use: Use, figure: Figure) -> tuple[float, str]:
    growth = ", and higher every day: look for a leak" if resource is Resource.MEMORY and use.growing else ""
    return figure.whole * (1 + asked.margin), f"{_seen(resource, figure)}{growth}; margin {asked.margin * 100:.0f} %"


def _seen(resource: Resource, figure: Figure) -> str:
    if resource is Resource.CPU:
        return f"95 % of the time {resource.seen_text(figure.whole)} was enough"
    return f"{resource.seen_text(figure.whole)} used at most"


def _forced(resource: Resource, asked: Asked, use: Use) -> tuple[float, str]:
    """What it must have more than it had when it was short; 0 where it never was."""
    now = asked.amount(resource)
    if resource is Resource.MEMORY and use.kills:
        then = now if use.killed_at is None else use.killed_at
        kills = "a kill" if use.kills == 1 else f"{use.kills} kills"
        reason = f"{kills} for lack of memory at {memory_text(then)}"
        return max(then * AFTER_A_KILL, then + AT_LEAST_AFTER_A_KILL), reason
    if resource is Resource.CPU and use.throttled is not None and use.throttled > THROTTLED:
        then = now if use.throttled_at is None else use.throttled_at
        reason = f"its limit held it back in {use.throttled * 100:.0f} % of all periods at {cpu_text(then)}"
        return then * AFTER_THROTTLING, reason
    return 0.0, ""


def _holds(resource: Resource, asked: Asked, use: Use) -> Iterator[str]:
    """Why it may not be lowered."""
    if resource in asked.scaled_by:
        yield f"its autoscaler's target is a share of its {resource}"
    if resource is Resource.MEMORY:
        if use.kills is None:
            yield "nobody counted kills for lack of memory"
        if use.kills:
            yield f"{_forced(resource, asked, use)[1]}, and it was raised since"
        if use.growing:
            yield "its peak was higher every day: look for a leak"
    elif asked.limits_cpu:
        if use.throttled is None:
            yield "it has a limit, and nobody counted how often that held it back"
        elif use.throttled > THROTTLED:
            yield f"{_forced(resource, asked, use)[1]}, and it was raised since"


def _whole(amount: float, resource: Resource, asked: Asked) -> int:
    step = 1000 if asked.whole_cores and resource is Resource.CPU else 1
    return rounded(-(-math.ceil(amount - _NOTHING) // step) * step, resource)


def rounded(amount: float, resource: Resource) -> int:
    """Up, to what can be read."""
    least = max(math.ceil(amount - _NOTHING), _LEAST[resource])
    step = _step(least, resource)
    return -(-least // step) * step


def _step(amount: int, resource: Resource) -> int:
    if resource is Resource.CPU:
        return 10 if amount < 200 else 50 if amount < 1000 else 100
    return 32 if amount < 512 else 128 if amount < 2048 else 256
