"""Figures of a page as texts, the same in the terminal and in a comment: cost, nights, and replays."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from ebbtide.preview.document import (
    Amounts,
    ComingNights,
    CostComparison,
    CostLine,
    CostTotal,
    ServiceCostLine,
    Simulated,
    SimulatedServices,
    line_key,
)
from ebbtide.prices.missing import at_least, named
from ebbtide.units.durations import duration, latency
from ebbtide.units.money import whole_dollars as usd

NAMED = 4
"""Maximum stacks that a line names. A line about more stacks has their number instead."""

_NONE = "-"
SIMULATED_COLUMNS = ("service", "strategy", ">pod-hours", ">US dollars", ">p95", ">beyond the SLO", ">lost")
_Figure = TypeVar("_Figure", str, int, float)


def step(before: float | None, after: float | None) -> str:
    """`1,200 → 1,500`, or one figure without a change or without a value before."""
    if before is None or usd(before) == usd(after):
        return usd(after)
    return f"{usd(before)} → {'unknown' if after is None else usd(after)}"


def amounts_step(before: Amounts | None, after: Amounts | None, field: str) -> str:
    """The field of both sides; a missing line is 0."""
    old = usd(0 if before is None else _amount(before, field))
    new = usd(0 if after is None else _amount(after, field))
    return new if old == new else " → ".join("unknown" if shown == _NONE else shown for shown in (old, new))


def line_step(line: CostLine, field: str, cost: CostComparison) -> str:
    """The line's amounts; a new customer has one figure, since its cost before was not 0."""
    before = line.after if cost.before is None and line.before is None else line.before
    return amounts_step(before, line.after, field)


def total_text(total: CostTotal) -> str:
    """`US dollars a month of 200 stacks: 31,000 → 32,000 at min (+1,000), 95,000 at max`"""
    amounts = [
        f"{shown} at {side}{_difference(total, side)}"
        for shown, side in zip(total_steps(total), ("min", "max"), strict=True)
    ]
    notes = [
        f"{reason}: {stacks_text(stacks)}"
        for reason, stacks in (
            ("without some prices", total.incomplete),
            ("with estimated prices", total.estimated),
            ("not counted, since the cost is not known", total.not_counted),
        )
        if stacks
    ]
    return "; ".join([f"US dollars a month of {total.stacks} stacks: {', '.join(amounts)}", *notes])


def stacks_text(stacks: Sequence[str]) -> str:
    """Return the names of a few stacks, or the number of many."""
    return ", ".join(stacks) if len(stacks) <= NAMED else f"{len(stacks)} stacks"


def total_steps(total: CostTotal) -> list[str]:
    """The amounts at min and at max."""
    least = "at least " if total.incomplete else ""
    return [
        least + step(None if total.before is None else _amount(total.before, side), _amount(total.after, side))
        for side in ("min", "max")
    ]


def _difference(total: CostTotal, side: str) -> str:
    old, new = _amount(total.before, side), _amount(total.after, side)
    changed = not total.incomplete and old is not None and new is not None and usd(old) != usd(new)
    return f" ({new - old:+,.0f})" if changed and old is not None and new is not None else ""


SERVICES_TITLE = "of these, the nodes that services take, on demand"
SERVICE_COLUMNS = ("service", ">pods", ">at min", ">at max")


def service_rows(cost: CostComparison) -> list[tuple[str, ...]]:
    return [_service_row(line, new=cost.before is None) for line in cost.services]


def _service_row(line: ServiceCostLine, *, new: bool) -> tuple[str, ...]:
    before, pods_before = (line.after, line.pods_after) if new else (line.before, line.pods_before)
    return (
        line.name,
        _pods_step(pods_before, line.pods_after),
        *(amounts_step(before, line.after, field) for field in ("min", "max")),
    )


def _pods_step(before: tuple[int, int] | None, after: tuple[int, int] | None) -> str:
    old, new = (_NONE if pods is None else f"{pods[0]} to {pods[1]}" for pods in (before, after))
    return new if old == new else f"{old} → {new}"


def _amount(amounts: Amounts | None, field: str) -> float | None:
    return None if amounts is None else {"min": amounts.at_min, "max": amounts.at_max, "usage": amounts.at_usage}[field]


def money_text(cost: CostComparison) -> str:
    """`1,200 → 2,300 at min (+1,100), 5,000 at max`: US dollars a month of the stack."""
    fields = [field for field in cost_fields(cost) if _total(cost, field) != _NONE]
    amounts = ", ".join(f"{_total(cost, field)} at {field}{_more(cost, field)}" for field in fields)
    return at_least(amounts, _without(cost)) if amounts else "not known"


def _without(cost: CostComparison) -> list[str]:
    """The lines that lack a price on either side, with the side if the other one has a price."""
    old, new = cost.without
    lines = {line_key(line.name): line for line in cost.lines}

    def side(name: str) -> str:
        line = lines.get(name)
        if line is None or line.before is None or line.after is None or (name in old) is (name in new):
            return name
        return f"{name} (no price {'before' if name in old else 'now'})"

    return list(dict.fromkeys(map(side, (*new, *old))))


def _more(cost: CostComparison, field: str) -> str:
    """The difference; none of sums that lack a line."""
    old, new = (_amount(amounts, field) for amounts in cost.compared)
    changed = not any(cost.without) and old is not None and new is not None and usd(old) != usd(new)
    return f" ({new - old:+,.0f})" if changed and old is not None and new is not None else ""


def cost_fields(cost: CostComparison) -> tuple[str, ...]:
    """The columns: `usage` only if a usage is stated."""
    stated = any(amounts is not None and amounts.at_usage is not None for amounts in (cost.before, cost.after))
    return ("min", "max", "usage") if stated else ("min", "max")


def _total(cost: CostComparison, field: str) -> str:
    before, after = cost.compared
    return amounts_step(before, after, field) if before else usd(_amount(after, field))


def totals(cost: CostComparison, fields: Sequence[str] = ("min", "max", "usage")) -> list[str]:
    amounts = [_total(cost, field) for field in fields]
    return [f"at least {amount}" if any(cost.without) and amount != _NONE else amount for amount in amounts]


def total_note(cost: CostComparison) -> str:
    """The note of the total's row."""
    return f"without {named(without)}" if (without := _without(cost)) else ""


def cost_notes(cost: CostComparison) -> list[str]:
    """Each note once, with its lines."""
    names: dict[str, list[str]] = {}
    for line in cost.lines:
        if line.note:
            names.setdefault(line.note, []).append(line.name)
    return [f"{', '.join(lines)}: {note}" for note, lines in names.items()]


def hours_lines(cost: CostComparison) -> list[str]:
    """Hours of a mean month inside and outside business hours, with their cost if known."""
    rows = (
        ("business hours", cost.open_hours, cost.open_usd),
        ("outside business hours", cost.closed_hours, cost.closed_usd),
    )
    return [
        f"{name}: {step(*hours)} h a month"
        + (f", {step(*money)} USD of the stated usage" if money[1] is not None else "")
        for name, hours, money in rows
    ]


def basis(cost: CostComparison) -> str:
    dates = ", ".join(sorted({day.isoformat() for day in cost.prices_of}))
    return f"{cost.confidence}; prices of {dates}" if dates else cost.confidence


def night_rows(nights: ComingNights) -> tuple[str, list[tuple[str, str, str]]]:
    """The time zone, and the local time, UTC and note of each window."""
    ends = {row.local.rpartition(" (")[2] for row in nights.rows if row.local.endswith(")")}
    zone = next(iter(ends)).removesuffix(")") if len(ends) == 1 else ""
    rows = [
        (row.local.removesuffix(f" ({zone})"), f"{_instant(row.opens)} → {_instant(row.closes)}", row.note)
        for row in nights.rows
    ]
    return zone or "local time", rows


def _instant(at: datetime) -> str:
    return f"{at.day} {at:%b %H:%M}"


def simulated_over(replay: Simulated) -> str:
    """`7 of 28 days of surf2022-july`"""
    part = f"{replay.days} of {replay.trace_days}" if replay.days < replay.trace_days else str(replay.days)
    return f"{part} day{'s' if part != '1' else ''} of {replay.trace}"


def simulated_rows(replay: Simulated) -> list[tuple[str, str]]:
    before, after = replay.coverage
    return [
        ("node-hours", step(*replay.node_hours)),
        ("US dollars", step(*replay.usd)),
        ("95 of 100 jobs wait less than", _wait_step(*replay.p95_wait)),
        ("jobs interrupted", step(*replay.interrupted)),
        ("jobs unfinished when the last day ends", step(*replay.unfinished)),
        ("jobs that the pools can run", f"{step(None if before is None else 100 * before, 100 * after)} %"),
    ]


def _wait_step(before: float | None, after: float) -> str:
    old, new = None if before is None else duration(before), duration(after)
    return new if old in (None, new) else f"{old} → {new}"


def services_over(replay: SimulatedServices) -> str:
    """`7 of 14 days of requests-servegen-m-small`"""
    part = f"{replay.days:.3g}" if replay.days >= replay.trace_days else f"{replay.days:.3g} of {replay.trace_days:.3g}"
    return f"{part} day{'s' if part != '1' else ''} of {replay.trace}"


def simulated_total(replay: SimulatedServices) -> str:
    """`351 → 381 pod-hours`, or the number of services if not all could be replayed."""
    if any(service.note for service in replay.services):
        return f"{len(replay.services)} services"
    sides = zip(*(service.pod_hours for service in replay.services), strict=True)
    old, new = (sum(hours or 0 for hours in side) if any(side) else None for side in sides)
    return f"{_step((old, new), usd)} pod-hours"


def simulated_service_rows(replay: SimulatedServices) -> list[tuple[str, ...]]:
    return [
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


def simulated_notes(replay: SimulatedServices) -> list[str]:
    """The definition of "lost", then the services that could not be replayed."""
    return [
        "The same requests on both sides. Lost: not within longestRequest, no pod ready, or turned away (429).",
        *(service.note for service in replay.services if service.note),
    ]


def _step(sides: tuple[_Figure | None, _Figure | None], text_of: Callable[[_Figure], str]) -> str:
    """`305 → 298`, or one figure if both texts are equal or there is none before; a missing side is a dash."""
    old, new = (_NONE if value is None else text_of(value) for value in sides)
    return new if old in (_NONE, new) else f"{old} → {new}"
