"""What a change does to services over a trace of requests, the same in the terminal and in a comment."""

from collections.abc import Callable
from typing import TypeVar

from ebbtide.preview.document import SimulatedServices
from ebbtide.units.durations import latency
from ebbtide.units.money import whole_dollars as usd

SIMULATED_COLUMNS = ("service", "strategy", ">pod-hours", ">US dollars", ">p95", ">beyond the SLO", ">lost")
_NONE = "-"
_Figure = TypeVar("_Figure", str, int, float)


def services_over(found: SimulatedServices) -> str:
    """`7 of 14 days of requests-servegen-m-small`"""
    part = f"{found.days:.3g}" if found.days >= found.trace_days else f"{found.days:.3g} of {found.trace_days:.3g}"
    return f"{part} day{'s' if part != '1' else ''} of {found.trace}"


def simulated_total(found: SimulatedServices) -> str:
    """`351 → 381 pod-hours`, or how many services there are where not all could be played."""
    if any(its.note for its in found.services):
        return f"{len(found.services)} services"
    sides = zip(*(its.pod_hours for its in found.services), strict=True)
    old, new = (sum(hours or 0 for hours in side) if any(side) else None for side in sides)
    return f"{_step((old, new), usd)} pod-hours"


def simulated_service_rows(found: SimulatedServices) -> list[tuple[str, ...]]:
    return [
        (
            its.name,
            _step(its.strategy, str),
            _step(its.pod_hours, usd),
            _step(its.usd, usd),
            _step(its.p95_s, latency),
            _step(its.beyond_slo, lambda share: f"{share:.2%}"),
            _step(its.lost, usd),
        )
        for its in found.services
    ]


def simulated_notes(found: SimulatedServices) -> list[str]:
    """Lost are those that were turned away, too; what could not be played comes last."""
    return [
        "The same requests on both sides. Lost: not within longestRequest, no pod ready, or turned away (429).",
        *(its.note for its in found.services if its.note),
    ]


def _step(sides: tuple[_Figure | None, _Figure | None], said: Callable[[_Figure], str]) -> str:
    """`305 → 298`, or one figure where both read the same or nothing was; a side without one is a dash."""
    old, new = (_NONE if value is None else said(value) for value in sides)
    return new if old in (_NONE, new) else f"{old} → {new}"
