"""Replays of jobs and of requests on both sides of a change."""

from collections.abc import Callable
from typing import TypeVar

from ebbtide.preview.document import CustomerPreview, Simulated, SimulatedServices
from ebbtide.preview.render.blocks import Line, Section, Tone, asides
from ebbtide.preview.render.cost import step
from ebbtide.text.durations import duration, latency
from ebbtide.text.money import whole_dollars as usd
from ebbtide.text.sheet import Sheet, left, right

_NONE = "-"
_Figure = TypeVar("_Figure", str, int, float)


def simulated_section(customer: CustomerPreview) -> Section | None:
    replay = customer.simulated
    if replay is None:
        return None
    sheet, days, note = simulated_sheet(replay), over(replay), replay.note
    title = f"simulated over {days}"
    return Section(
        kind="simulation",
        title=title,
        summary=("Simulated", f" over {days}: {step(*replay.node_hours)} node-hours"),
        body=(sheet, *([Line(note, Tone.ASIDE)] if note else [])),
        short=(Line(f"{title}:"), sheet, *([Line(note)] if note else [])),
    )


def simulated_sheet(replay: Simulated) -> Sheet:
    before, after = replay.coverage
    return Sheet(
        columns=[*left("", fold=True), *right("before → after", fold=True)],
        rows=[
            ("node-hours", step(*replay.node_hours)),
            ("US dollars", step(*replay.usd)),
            ("95 of 100 jobs wait less than", _step(replay.p95_wait, duration)),
            ("jobs interrupted", step(*replay.interrupted)),
            ("jobs unfinished when the last day ends", step(*replay.unfinished)),
            ("jobs that the pools can run", f"{step(None if before is None else 100 * before, 100 * after)} %"),
        ],
    )


def simulated_services_section(customer: CustomerPreview) -> Section | None:
    replay = customer.simulated_services
    if replay is None:
        return None
    sheet, days = services_sheet(replay), over(replay)
    title = f"services simulated over {days}"
    return Section(
        kind="simulation of services",
        title=title,
        summary=("Services simulated", f" over {days}: {simulated_total(replay)}"),
        body=(sheet, asides(*services_notes(replay))),
        short=(Line(f"{title}:"), sheet),
    )


def services_sheet(replay: SimulatedServices) -> Sheet:
    compared = right("pod-hours", "US dollars", "p95", "beyond the SLO", "lost", fold=True)
    rows = [
        (
            service.name,
            _step(service.strategy, str),
            _step(service.pod_hours, usd),
            _step(service.usd, usd),
            _step(service.p95_s, latency),
            _step(service.beyond_slo, lambda share: f"{share:.2%}"),
            _step(service.lost, usd),
        )
        for service in replay.services
    ]
    return Sheet(columns=[*left("service", "strategy", fold=True), *compared], rows=rows)


def services_notes(replay: SimulatedServices) -> list[str]:
    """The definition of "lost", then the services that could not be replayed."""
    return [
        "The same requests on both sides. Lost: not within longestRequest, no pod ready, or turned away (429).",
        *(service.note for service in replay.services if service.note),
    ]


def simulated_total(replay: SimulatedServices) -> str:
    """`351 → 381 pod-hours`, or the number of services if not all could be replayed."""
    if any(service.note for service in replay.services):
        return f"{len(replay.services)} services"
    sides = zip(*(service.pod_hours for service in replay.services), strict=True)
    old, new = (sum(hours or 0 for hours in side) if any(side) else None for side in sides)
    return f"{_step((old, new), usd)} pod-hours"


def over(replay: Simulated | SimulatedServices) -> str:
    """`7 of 28 days of surf2022-july`"""
    days, all_days = (
        str(number) if isinstance(number, int) else f"{number:.3g}" for number in (replay.days, replay.trace_days)
    )
    part = f"{days} of {all_days}" if replay.days < replay.trace_days else days
    return f"{part} day{'s' if part != '1' else ''} of {replay.trace}"


def _step(sides: tuple[_Figure | None, _Figure | None], text_of: Callable[[_Figure], str]) -> str:
    """`305 → 298`, or one figure if both texts are equal or there is none before; a missing side is a dash."""
    old, new = (_NONE if value is None else text_of(value) for value in sides)
    return new if old in (_NONE, new) else f"{old} → {new}"
