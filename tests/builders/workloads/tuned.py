"""Histories of a few hours and stack files for advice on a service: small enough to be searched in a test."""

import math
from functools import cache

from ebbtide.lab.advice.services.place import StackText
from ebbtide.lab.advice.services.targets import TargetAdvice, target_advice
from ebbtide.lab.simulator.services.replay import ServiceOptions
from ebbtide.lab.simulator.trace.counted import RequestTrace
from ebbtide.settings.file.contents import no_files
from tests.builders.workloads.played import a_request_trace
from tests.builders.workloads.services import with_services

SLOW = (
    ("requestTakes: 150ms", "requestTakes: 2s"),
    ("p95: 400ms", "p95: 8s"),
    ("startsWithin: 90s", "startsWithin: 20s"),
)
SCALE = "scale: { metrics: { inFlight: 3, latency: 300ms }, min: 2, max: 12 }"
SMALL = "cpu: 3, memory: 12Gi }\n"
GENEROUS = "scale: { metrics: { inFlight: 3 }, min: 6, max: 12 }"


def a_stack(*changes: tuple[str, str], scale: str = GENEROUS) -> StackText:
    """The embedder with requests of two seconds; `scale` stands at the service."""
    text = with_services(*SLOW, (SCALE, scale), *changes)
    return StackText(text=text, file="stacks/Pulumi.acme.yaml", stack="acme", reader=no_files)


def an_afternoon(peak: float = 1.5, hours: int = 3) -> RequestTrace:
    """Requests a second that rise and fall once."""
    windows = hours * 6
    return a_request_trace([600 * peak * math.sin(math.pi * (place + 0.5) / windows) for place in range(windows)])


@cache
def advice(scale: str = GENEROUS, at_once: int | None = None, *changes: tuple[str, str]) -> TargetAdvice:
    return target_advice(
        a_stack(*changes, scale=scale), "embedder-small", an_afternoon(), ServiceOptions(at_once=at_once)
    )
