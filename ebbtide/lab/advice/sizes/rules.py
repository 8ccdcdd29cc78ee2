"""Decide a container's requests, one amount at a time, each with its reason. Pure.

Requests hold for every pod, so the busiest one counts. Advice is never below the recorded use, and a request is lowered
only if `_objections` yields nothing.

The margins of flexible containers and the step after a kill equal those of the Vertical Pod Autoscaler's recommender
(kubernetes/autoscaler 1.5: `--recommendation-margin-fraction` 0.15, `--oom-bump-up-ratio` 1.2,
`--oom-min-bump-up-bytes` 100 MiB). Fixed containers and those with state get twice the margin: they are never moved, so
an overfull node stays overfull, and a kill loses state that exists nowhere else.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.lab.advice.sizes.evidence import ContainerUsage, Evidence, MeasuredAmount
from ebbtide.text.quantities import cpu_text, memory_text

MARGIN, LARGER_MARGIN = 0.15, 0.30
AFTER_A_KILL, AT_LEAST_AFTER_A_KILL = 1.2, 100  # MiB
AFTER_THROTTLING = 1.25
THROTTLED = 0.05
"""A container whose limit throttles it in more than one period of twenty is short of CPU."""
WORTH_LOWERING = 0.10
"""Share of the request: a smaller gain is not worth a rollout."""
_REQUIRED_MARGIN = 1 / 3
"""A request is raised once less than this part of its margin is left, so that not every new peak causes new advice."""
_LEAST = {"cpu": 10, "memory": 32}
_NOTHING = 1e-6  # of a millicore or a MiB: rounding errors of sums


class ResourceName(StrEnum):
    CPU = "cpu"
    MEMORY = "memory"

    def text(self, amount: float) -> str:
        whole = math.ceil(amount - 1e-9)
        return cpu_text(whole) if self is ResourceName.CPU else memory_text(whole)

    def used_text(self, amount: float) -> str:
        """Format a used amount, rounded up to a short number."""
        if self is ResourceName.CPU:
            return cpu_text(math.ceil(amount / 10 - 1e-9) * 10)
        return memory_text(math.ceil(amount)) if amount < 1024 else f"{math.ceil(amount / 102.4) / 10:g}Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequests:
    """Requests of one container in the stack file, and the facts that the rules need."""

    cpu: int
    memory: int
    careful: bool = False  # fixed, or with state
    least_memory: int = 0  # its shared memory
    whole_cores: bool = False  # Ray counts whole cores
    limits_cpu: bool = False
    set_by: str = ""  # the manager that sets its requests instead of the file
    scaled_by: frozenset[ResourceName] = frozenset()  # its autoscaler's target is a share of these requests

    def amount(self, resource: ResourceName) -> int:
        return self.cpu if resource is ResourceName.CPU else self.memory

    @property
    def margin(self) -> float:
        return LARGER_MARGIN if self.careful else MARGIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeVerdict:
    resource: ResourceName
    now: int
    to: int  # equal to `now` if nothing changes
    used: float | None
    reason: str
    short: bool = False  # raised because it had too little
    fits: bool = False  # unchanged because it is right

    @property
    def changes(self) -> bool:
        return self.to != self.now

    @property
    def lowers(self) -> bool:
        return self.to < self.now


def decide(resource: ResourceName, requests: ContainerRequests, use: ContainerUsage, evidence: Evidence) -> SizeVerdict:
    now = requests.amount(resource)
    figure = use.cpu if resource is ResourceName.CPU else use.memory

    def verdict(to: int, reason: str, *, short: bool = False, fits: bool = False) -> SizeVerdict:
        used = None if figure is None else figure.total
        return SizeVerdict(resource=resource, now=now, to=to, used=used, reason=reason, short=short, fits=fits)

    if requests.set_by:
        return verdict(now, f"{requests.set_by} sets it")
    if use.days < evidence.least:
        return verdict(now, f"not enough evidence yet: {use.days} days of {evidence.least}")
    if figure is None:
        return verdict(now, "no use of it is recorded")
    needed, why = _needed(resource, requests, use, figure)
    shortage, shortage_why = _after_shortage(resource, requests, use)
    if shortage > now:
        return verdict(_rounded_up(max(shortage, needed), resource, requests), shortage_why, short=True)
    if figure.total * (1 + requests.margin * _REQUIRED_MARGIN) > now:
        return verdict(_rounded_up(needed, resource, requests), why)
    least = requests.least_memory if resource is ResourceName.MEMORY else 0
    lower = _rounded_up(max(needed, shortage, least), resource, requests)
    if lower > now * (1 - WORTH_LOWERING):
        return verdict(now, f"fits: {_used(resource, figure)}", fits=True)
    if objection := next(_objections(resource, requests, use), ""):
        return verdict(now, f"not lowered: {objection}")
    return verdict(lower, why)


def _needed(
    resource: ResourceName, requests: ContainerRequests, use: ContainerUsage, figure: MeasuredAmount
) -> tuple[float, str]:
    growth = ", and higher every day: look for a leak" if resource is ResourceName.MEMORY and use.growing else ""
    why = f"{_used(resource, figure)}{growth}; margin {requests.margin * 100:.0f} %"
    return figure.total * (1 + requests.margin), why


def _used(resource: ResourceName, figure: MeasuredAmount) -> str:
    if resource is ResourceName.CPU:
        return f"95 % of the time {resource.used_text(figure.total)} was enough"
    return f"{resource.used_text(figure.total)} used at most"


def _after_shortage(resource: ResourceName, requests: ContainerRequests, use: ContainerUsage) -> tuple[float, str]:
    """Return the least amount after a shortage, and its reason; 0 if there was none."""
    now = requests.amount(resource)
    if resource is ResourceName.MEMORY and use.kills:
        then = now if use.killed_at is None else use.killed_at
        kills = "a kill" if use.kills == 1 else f"{use.kills} kills"
        reason = f"{kills} for lack of memory at {memory_text(then)}"
        return max(then * AFTER_A_KILL, then + AT_LEAST_AFTER_A_KILL), reason
    if resource is ResourceName.CPU and use.throttled is not None and use.throttled > THROTTLED:
        then = now if use.throttled_at is None else use.throttled_at
        reason = f"its limit throttled it in {use.throttled * 100:.0f} % of all periods at {cpu_text(then)}"
        return then * AFTER_THROTTLING, reason
    return 0.0, ""


def _objections(resource: ResourceName, requests: ContainerRequests, use: ContainerUsage) -> Iterator[str]:
    """Yield the reasons not to lower the request."""
    if resource in requests.scaled_by:
        yield f"its autoscaler's target is a share of its {resource}"
    if resource is ResourceName.MEMORY:
        if use.kills is None:
            yield "kills for lack of memory are not recorded"
        if use.kills:
            yield f"{_after_shortage(resource, requests, use)[1]}, and it was raised since"
        if use.growing:
            yield "its peak was higher every day: look for a leak"
    elif requests.limits_cpu:
        if use.throttled is None:
            yield "it has a limit, and throttling by it is not recorded"
        elif use.throttled > THROTTLED:
            yield f"{_after_shortage(resource, requests, use)[1]}, and it was raised since"


def _rounded_up(amount: float, resource: ResourceName, requests: ContainerRequests) -> int:
    step = 1000 if requests.whole_cores and resource is ResourceName.CPU else 1
    return rounded(-(-math.ceil(amount - _NOTHING) // step) * step, resource)


def rounded(amount: float, resource: ResourceName) -> int:
    """Round up to a short number."""
    least = max(math.ceil(amount - _NOTHING), _LEAST[resource])
    step = _step(least, resource)
    return -(-least // step) * step


def _step(amount: int, resource: ResourceName) -> int:
    if resource is ResourceName.CPU:
        return 10 if amount < 200 else 50 if amount < 1000 else 100
    return 32 if amount < 512 else 128 if amount < 2048 else 256
