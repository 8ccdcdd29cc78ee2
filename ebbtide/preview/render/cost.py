"""The monthly cost of a stack, on both sides of a change."""

from collections.abc import Iterable, Sequence

from ebbtide.preview.cost.monthly import GroupCost
from ebbtide.preview.document import (
    Amounts,
    CostComparison,
    CostLine,
    CostTotal,
    CustomerPreview,
    ServiceCostLine,
    line_key,
)
from ebbtide.preview.render.blocks import Block, Differing, Line, Section, asides
from ebbtide.preview.render.words import stacks_text
from ebbtide.prices.missing import at_least, named
from ebbtide.text.money import whole_dollars as usd
from ebbtide.text.sheet import Column, Sheet, left, right

_NONE = "-"
ALWAYS = "all pods at their minimum by the calendar (nights, sleep), on the nodes that they need"
"""The definition of the amount."""


def cost_section(customer: CustomerPreview) -> Section | None:
    cost = customer.cost
    if cost is None:
        return None
    title, money = "US dollars a month", money_text(cost)
    how = " (--full shows how to add their prices)" if any(cost.without) else ""
    short = [Line(f"{title}: {money}{how}")]
    if estimated := [line.name for line in cost.lines if line.estimated]:
        short.append(Line(f"by estimated prices of {named(estimated)} (--full shows their source)"))
    cheaper = [Line(f"cheaper: {sentence}") for sentence in cost.cheaper]
    return Section(
        kind="cost",
        title=title,
        summary=("Cost", f", USD a month: {money}"),
        body=(
            Differing((_sheet(cost, "line"),), (_sheet(cost, title),)),
            *_services(cost),
            *cheaper,
            asides(f"always: {ALWAYS}", *line_notes(cost.lines), *_hours_lines(cost), _basis(cost)),
        ),
        short=(*short, *cheaper),
    )


def _sheet(cost: CostComparison, over: str) -> Sheet:
    fields = _fields(cost)
    note = f"without {named(without)}" if (without := _without(cost)) else ""
    return Sheet(
        columns=[
            *left(over, fold=True),
            *_steps(*map(_named, fields)),
            *left("price basis", fold=True),
        ],
        rows=[
            (line.name, *(_line_step(line, field, cost) for field in fields), line.assumption) for line in cost.lines
        ],
        total=("total", *totals(cost, fields), note),
    )


def _services(cost: CostComparison) -> Sequence[Block]:
    if not cost.services:
        return ()
    caption = "of these, the nodes that services take, on demand"
    return Differing((Line(caption),), (Line(f"{caption.capitalize()}:"),)), services_sheet(cost)


def services_sheet(cost: CostComparison) -> Sheet:
    rows = [_service_row(line, new=cost.before is None) for line in cost.services]
    return Sheet(columns=[*left("service", fold=True), *_steps("pods", "always", "at max")], rows=rows)


def _steps(*names: str) -> list[Column]:
    return right(*names, fold=True, steps=True)


def _service_row(line: ServiceCostLine, *, new: bool) -> tuple[str, ...]:
    before, pods_before = (line.after, line.pods_after) if new else (line.before, line.pods_before)
    return (
        line.name,
        _pods_step(pods_before, line.pods_after),
        *(_amounts_step(before, line.after, field) for field in ("always", "max")),
    )


def _pods_step(before: tuple[int, int] | None, after: tuple[int, int] | None) -> str:
    old, new = (_NONE if pods is None else f"{pods[0]} to {pods[1]}" for pods in (before, after))
    return new if old == new else f"{old} → {new}"


def money_text(cost: CostComparison) -> str:
    """`1,200 → 2,300 always (+1,100), 5,000 at max`: US dollars a month of the stack."""
    fields = [field for field in _fields(cost) if _total(cost, field) != _NONE]
    amounts = ", ".join(f"{_total(cost, field)} {_named(field)}{_more(cost, field)}" for field in fields)
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
    """The difference; empty if a line lacks a price."""
    old, new = (_amount(amounts, field) for amounts in cost.compared)
    return "" if any(cost.without) else _difference(old, new)


def _fields(cost: CostComparison) -> tuple[str, ...]:
    """The columns: `usage` only if a usage is stated."""
    stated = any(amounts is not None and amounts.at_usage is not None for amounts in (cost.before, cost.after))
    return ("always", "max", "usage") if stated else ("always", "max")


def _named(field: str) -> str:
    return field if field == "always" else f"at {field}"


def _total(cost: CostComparison, field: str) -> str:
    before, after = cost.compared
    return _amounts_step(before, after, field) if before else usd(_amount(after, field))


def always_and_at_max(cost: CostComparison | None) -> list[str]:
    return [_NONE, _NONE] if cost is None else totals(cost, ("always", "max"))


def totals(cost: CostComparison, fields: Sequence[str]) -> list[str]:
    amounts = [_total(cost, field) for field in fields]
    return [f"at least {amount}" if any(cost.without) and amount != _NONE else amount for amount in amounts]


def line_notes(lines: Iterable[CostLine | GroupCost]) -> list[str]:
    """Each note once with all its lines: in a region without prices every line has the same note."""
    names: dict[str, list[str]] = {}
    for line in lines:
        if line.note:
            names.setdefault(line.note, []).append(line.name)
    return [f"{', '.join(of)}: {note}" for note, of in names.items()]


def _hours_lines(cost: CostComparison) -> list[str]:
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


def _basis(cost: CostComparison) -> str:
    dates = ", ".join(sorted({day.isoformat() for day in cost.prices_of}))
    return f"{cost.confidence}; prices of {dates}" if dates else cost.confidence


def total_text(total: CostTotal) -> str:
    """`US dollars a month of 200 stacks: 31,000 → 32,000 always (+1,000), 95,000 at max`"""
    amounts: list[str] = []
    for side, shown in zip(("always", "max"), total_steps(total), strict=True):
        more = "" if total.incomplete else _difference(_amount(total.before, side), _amount(total.after, side))
        amounts.append(f"{shown} {_named(side)}{more}")
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


def total_steps(total: CostTotal) -> list[str]:
    """The amounts always and at max."""
    least = "at least " if total.incomplete else ""
    return [
        least + step(None if total.before is None else _amount(total.before, side), _amount(total.after, side))
        for side in ("always", "max")
    ]


def _line_step(line: CostLine, field: str, cost: CostComparison) -> str:
    """The line's amounts; a new customer has one figure, since its cost before was not 0."""
    before = line.after if cost.before is None and line.before is None else line.before
    return _amounts_step(before, line.after, field)


def _amounts_step(before: Amounts | None, after: Amounts | None, field: str) -> str:
    """The field of both sides; a missing line is 0."""
    old = usd(0 if before is None else _amount(before, field))
    new = usd(0 if after is None else _amount(after, field))
    return new if old == new else " → ".join("unknown" if shown == _NONE else shown for shown in (old, new))


def step(before: float | None, after: float | None) -> str:
    """`1,200 → 1,500`, or one figure without a change or without a value before."""
    if before is None or usd(before) == usd(after):
        return usd(after)
    return f"{usd(before)} → {'unknown' if after is None else usd(after)}"


def _difference(old: float | None, new: float | None) -> str:
    return "" if old is None or new is None or usd(old) == usd(new) else f" ({new - old:+,.0f})"


def _amount(amounts: Amounts | None, field: str) -> float | None:
    if amounts is None:
        return None
    return {"always": amounts.always, "max": amounts.at_max, "usage": amounts.at_usage}[field]
