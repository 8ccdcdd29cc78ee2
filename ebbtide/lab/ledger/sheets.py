"""The tables and sentences of a ledger and its bill, for the terminal and the page alike."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType

from ebbtide.lab.ledger.allocation import placed_sheets, split_notes, split_sheets
from ebbtide.lab.ledger.bill.bill import Bill, LeftOut
from ebbtide.lab.ledger.bill.difference import Difference
from ebbtide.lab.ledger.bill.lines import Part
from ebbtide.lab.ledger.bill.rates import LEAST_BILLED, billed_percent
from ebbtide.lab.ledger.month import (
    BEFORE,
    LIST_PRICES,
    SPOT,
    Alternative,
    Amount,
    Gap,
    LabelShare,
    Ledger,
    NodeHours,
    bounds_of,
)
from ebbtide.text.counts import DASH, count, number_of, percent
from ebbtide.text.durations import HOUR_S
from ebbtide.text.money import LEAST_SHOWN, about_dollars, cents, dollar_range, dollars
from ebbtide.text.sheet import CENTS, DOLLARS, Cell, Column, Sheet, left, right
from ebbtide.text.terminal import sheet_table
from ebbtide.vocabulary.exporter import MOST_LABEL_VALUES, OTHER_VALUES

_GAPS_SHOWN = 10
NO_GROUP, UNTYPED = "no group", "instance type unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """`sheets` and `assumptions` are by name; entries of a bill exist only if it was read."""

    ledger: Ledger
    sheets: Mapping[str, Sheet]
    assumptions: Mapping[str, Sequence[str]]
    difference: Difference | None


def view_of(
    ledger: Ledger, bill: Bill | None = None, difference: Difference | None = None, unchecked: str = ""
) -> LedgerView:
    """Return the view. `unchecked`: why the month's file was not compared with its commits."""
    sheets = {"paid": _paid(ledger), "saved": _instead(ledger, difference), "caused by": _caused(ledger)}
    sheets |= {f"caused by {label}": _by_label(label, shares) for label, shares in ledger.labels.items()}
    assumptions = {
        **{
            entry.name: [*entry.assumptions, *filter(None, [entry.why]), *_saved_by_model(ledger, entry)]
            for entry in ledger.alternatives
        },
        "month": [
            *gap_notes(ledger.gaps, ledger.recorded_usd + ledger.boot_usd),
            *ledger.notes,
            *filter(None, [unchecked]),
        ],
        "prices": [f"{kind}: {source}" for kind, source in ledger.prices.items()],
    }
    if bill is not None:
        sheets |= {"bill": bill_sheet(bill), **placed_sheets(bill), **split_sheets(bill, ledger.shares)}
        assumptions["bill"] = [*bill_notes(bill), *split_notes(bill)]
    if difference is not None:
        sheets["bill and ledger"] = _difference(difference)
        assumptions["saved at the bill's rates"] = [*difference.assumptions]
    return LedgerView(ledger=ledger, sheets=sheets, assumptions=assumptions, difference=difference)


def gap_notes(gaps: Sequence[Gap], recorded_usd: float = 0.0) -> Iterator[str]:
    """Yield the width of all gaps together, and the gaps with most dollars.

    With `recorded_usd`, of the rest of the month, it has the width as a share of the month's dollars by the model.
    """
    if not gaps:
        return
    low, high = bounds_of((), gaps)
    models = [gap.model_usd for gap in gaps if gap.model_usd is not None]
    month_usd, share = recorded_usd + sum(models), ""
    model = f" The model's figure is {dollars(sum(models))}." if len(models) == len(gaps) else ""
    if recorded_usd and model and month_usd:
        share = f", {percent((high - low) / month_usd)} of the month's {dollars(month_usd)} by the model"
    hours = sum((gap.end - gap.begin).total_seconds() for gap in gaps) / HOUR_S
    yield (
        f"{number_of(len(gaps), 'gap')}, {count(hours)} hours: {span(low, high)}, "
        f"uncertain by {about_dollars(high - low, at_most=True)}{share}.{model}"
    )
    widest = sorted(sorted(gaps, key=lambda gap: gap.low_usd - gap.high_usd)[:_GAPS_SHOWN], key=lambda gap: gap.begin)
    for gap in widest:
        between = "" if gap.model_usd is None else f", model {dollars(gap.model_usd)}"
        yield (
            f"Not recorded: {gap.begin:%Y-%m-%d %H:%M} to {gap.end:%Y-%m-%d %H:%M} UTC, "
            f"{span(gap.low_usd, gap.high_usd)}{between} ({gap.why})."
        )
    if len(gaps) > len(widest):
        yield f"{number_of(len(gaps) - len(widest), 'gap')} with fewer uncertain dollars not listed here."


def headline(view: LedgerView) -> str:
    """Return the bill's amounts, or else the ledger's with its prices."""
    ledger, difference = view.ledger, view.difference
    if difference is None:
        text = f"nodes cost {cost_text(ledger)} {basis(ledger)}"
    else:
        text = billed_text(difference.nodes_usd, difference.all_usd)
        if difference.billed_share is not None and difference.billed_share < LEAST_BILLED:
            text += f", but only {billed_percent(difference.billed_share)} of the recorded node-hours"
    return f"{ledger.customer}, {ledger.month.name}: {text}"


def billed_text(nodes_usd: float, all_usd: float) -> str:
    return f"AWS' bill has {cents(nodes_usd)} for nodes, {cents(all_usd)} for all lines"


def basis(ledger: Ledger) -> str:
    """Return the prices of a ledger's dollars."""
    return prices_text(ledger.basis, planned=bool(ledger.plan_usd))


def prices_text(prices: str, *, planned: bool = False) -> str:
    """Return the prices of dollars. `planned`: the dollars include the stack file's assumed plan."""
    before = f", before {'other ' if planned else ''}commitments and discounts" if prices == LIST_PRICES else ""
    return f"at {prices}{' and the assumed plan' if planned else ''}{before}"


def recorded_text(ledger: Ledger) -> str:
    return span(*(usd + ledger.plan_usd for usd in bounds_of(ledger.paid)))


def as_text(view: LedgerView) -> RenderableType:
    ledger = view.ledger
    plan = f", including {dollars(ledger.plan_usd)} by the assumed plan" if ledger.plan_usd else ""
    beside = f"Nodes cost {cost_text(ledger)} {basis(ledger)}."
    lines = [
        f"{headline(view)}.",
        *([] if view.difference is None else [beside]),
        f"Recorded: {recorded_text(ledger)}{plan}. Boots, estimated: {dollars(ledger.boot_usd)}.",
        *([f"Incomplete: {ledger.incomplete}."] if ledger.incomplete else []),
    ]
    tables = (part for sheet in view.sheets.values() for part in ("", sheet_table(sheet)))
    assumed = [f"- {name}: {sentence}" for name, sentences in view.assumptions.items() for sentence in sentences]
    return Group(*lines, *tables, "", "Assumed:", *assumed)


def span(low: float | None, high: float | None) -> str:
    """Return `$5`, or `$5 to $9`, or a dash."""
    return DASH if low is None or high is None else dollar_range(low, high)


_WIDE = 0.1
"""Width of gaps over the month's dollars by the model, from which on the model's figure comes first."""


def about(gaps: Sequence[Gap], model_usd: float | None) -> str:
    """Return the model's figure, as `about $2,400`, if the bounds of gaps are too wide to be one; otherwise nothing.

    `model_usd`: the dollars of recorded nodes and gaps, or None.
    """
    low, high = bounds_of((), gaps)
    return "" if model_usd is None or high - low <= _WIDE * model_usd else f"about {about_dollars(model_usd)}"


def led_by_model(bounds: tuple[float, float], gaps: Sequence[Gap], model_usd: float | None) -> str:
    """Return bounds of dollars, after the model's figure if there is one to lead with."""
    figure = about(gaps, model_usd)
    return f"{figure} by a model of the gaps (range: {span(*bounds)})" if figure else span(*bounds)


def cost_text(ledger: Ledger) -> str:
    return led_by_model((ledger.low_usd, ledger.high_usd), ledger.gaps, ledger.model_usd)


def saved_text(ledger: Ledger, name: str, saved: Sequence[float] | None, billed_usd: float | None = None) -> str:
    """Return the saving of an alternative. `billed_usd`: of the nodes, for a saving at the bill's rates."""
    if saved is None:
        return "not enough data"
    return span(*saved) if ledger.measurable(name, saved, billed_usd) else "no measurable difference"


def about_saved(ledger: Ledger, entry: Alternative) -> str:
    """Return the middle of a constant fleet's dollars less the model's of the month, if gaps are wide.

    A replay saves nothing in gaps, so its range has no such figure.
    """
    if entry.paired or entry.low_usd is None or entry.high_usd is None or ledger.model_usd is None:
        return ""
    saved = (entry.low_usd + entry.high_usd) / 2 - ledger.model_usd
    return f"about {about_dollars(saved)}" if about(ledger.gaps, ledger.model_usd) else ""


def _saved_by_model(ledger: Ledger, entry: Alternative) -> Iterator[str]:
    if figure := about_saved(ledger, entry):
        yield f"saved by a model of the gaps: {figure}"


def could_save_text(ledger: Ledger) -> str:
    """Return what fewer nodes save at the ledger's prices."""
    usd = ledger.could_save_usd
    return "an unknown amount" if usd is None else f"about {dollars(usd)} at {ledger.basis}"


def saved_by(ledger: Ledger, difference: Difference | None) -> tuple[tuple[float, float] | None, float | None]:
    """Return what was saved against the fleet before, and the bill's dollars of nodes if it is at the bill's rates.

    None if it is not known.
    """
    if difference is None or not difference.saved:
        return ledger.saved.get(BEFORE), None
    return difference.saved.get(BEFORE), difference.nodes_usd


def dollars_of(amounts: Iterable[Amount | NodeHours], gaps: Sequence[Gap] = ()) -> str:
    """Return the dollars of recorded nodes and of gaps, as a range if there are spot nodes or gaps."""
    return span(*bounds_of(amounts, gaps))


def share_text(ledger: Ledger, usd: float) -> str:
    total = sum(share.usd for share in ledger.shares)
    return percent(usd / total) if total else DASH


def _paid(ledger: Ledger) -> Sheet:
    groups: dict[str, list[NodeHours]] = {}
    for row in ledger.paid:
        groups.setdefault((row.group or NO_GROUP) if row.is_priced else UNTYPED, []).append(row)
    untyped = groups.pop(UNTYPED, [])
    lines: dict[str, Cell] = {"assumed plan": ledger.plan_usd} if ledger.plan_usd else {}
    if ledger.gaps:
        lines["gaps"] = span(*bounds_of((), ledger.gaps))
    total = span(ledger.low_usd - ledger.boot_usd, ledger.high_usd - ledger.boot_usd)
    return Sheet(
        caption=f"Nodes {basis(ledger)}. Boots are estimated; spot nodes and gaps have bounds instead of a figure.",
        columns=[*_first("group"), *right("dollars", unit=DOLLARS), *_PAID],
        rows=[
            *((name, dollars_of(rows), *_sums(rows)) for name, rows in groups.items()),
            *([(UNTYPED, DASH, *_sums(untyped))] if untyped else []),
            *((name, cell, *[""] * len(_PAID)) for name, cell in lines.items()),
        ],
        total=("total", total, *_sums(ledger.paid)),
    )


def _first(name: str) -> list[Column]:
    return left(name)


_PAID: Mapping[Column, Callable[[NodeHours], float]] = {
    Column("node-hours", right=True): lambda row: row.hours,
    Column("on spot", right=True): lambda row: row.hours if row.capacity_type == SPOT else 0,
    Column("boots", right=True): lambda row: row.boots,
    Column("boots, estimated", DOLLARS, right=True): lambda row: row.boot_usd,
}
"""The columns after the dollars; each is a sum over rows."""


def _sums(rows: Sequence[NodeHours]) -> list[float]:
    return [sum(map(of, rows)) for of in _PAID.values()]


def _instead(ledger: Ledger, difference: Difference | None) -> Sheet:
    billed = difference if difference is not None and difference.saved else None
    by_bill = right("saved by the bill") if billed else []
    other = " By the bill: at its rates." if billed else ""
    return Sheet(
        caption=f"Saved: dollars of the alternative less the month's, {basis(ledger)}.{other}",
        columns=[*_first("fleet"), *by_bill, *right("saved", "dollars")],
        rows=[
            (
                entry.name,
                *([saved_text(ledger, entry.name, billed.saved.get(entry.name), billed.nodes_usd)] if billed else []),
                saved_text(ledger, entry.name, ledger.saved[entry.name]),
                span(entry.low_usd, entry.high_usd),
            )
            for entry in ledger.alternatives
        ],
    )


def _caused(ledger: Ledger) -> Sheet:
    rows = [
        (share.workload, share.usd, share_text(ledger, share.usd), share.group or NO_GROUP, share.category)
        for share in ledger.shares
        if share.usd >= LEAST_SHOWN
    ]
    if ledger.plan_usd:
        rows.append(("assumed plan", ledger.plan_usd, "", "", ""))
    return Sheet(
        caption="Dollars of each group's nodes by the resources that pods requested. Idle: requested by no pod.",
        columns=[*_first("caused by"), *right("dollars", unit=DOLLARS), *right("share", "group", "category")],
        rows=rows,
    )


def _by_label(label: str, shares: Sequence[LabelShare]) -> Sheet:
    total = sum(share.usd for share in shares)
    folded = any(share.value == OTHER_VALUES for share in shares)
    incomplete = (
        f" Each value may have more: {OTHER_VALUES} also has what came after {MOST_LABEL_VALUES} values."
        if folded
        else ""
    )
    return Sheet(
        caption=f"Dollars of the nodes by the label {label} of the pods that requested them.{incomplete}",
        columns=[*_first(label), *right("dollars", unit=DOLLARS), *right("share")],
        rows=[(share.value, share.usd, percent(share.usd / total)) for share in shares],
    )


def bill_sheet(bill: Bill) -> Sheet:
    lines: dict[str, Cell] = {
        **bill.parts,
        "all lines, amortised": bill.amortised_usd,
        **{f"apart: {charge.lower()}": usd for charge, usd in bill.apart.items()},
        **{f"without a customer's tag: {charge.lower()}": usd for charge, usd in bill.shared_usd.items()},
        **({"this customer's other regions, clusters or accounts": bill.elsewhere_usd} if bill.elsewhere_usd else {}),
        **({"rows of this customer without a region": bill.unplaced_usd} if bill.unplaced_usd else {}),
        **{f"{number_of(rows.rows, 'row')} {what}": _amount(rows) for what, rows in bill.left_out.items()},
    }
    before = "" if bill.has_discounts else " before negotiated discounts"
    return Sheet(
        caption=f"Amortised cost{before}. Taxes, credits and refunds are listed apart.",
        columns=[*_first("line of AWS' bill"), *right("dollars", unit=CENTS)],
        rows=[*lines.items()],
    )


def _difference(difference: Difference) -> Sheet:
    return Sheet(
        caption="Causes add up to the difference.",
        columns=[*_first("cause"), *right("dollars")],
        rows=[(name, span(*usd)) for name, usd in difference.causes.items()],
        total=("the bill's nodes less the ledger's", span(difference.low_usd, difference.high_usd)),
    )


def _amount(rows: LeftOut) -> Cell:
    return rows.amount if rows.currency == "USD" else f"{rows.amount:,.2f} {rows.currency}".rstrip()


def bill_notes(bill: Bill) -> Iterator[str]:
    yield "Effective (amortised) cost. The bill's month is in UTC, the ledger's in the stack's time zone."
    if not bill.has_discounts:
        yield "Before negotiated discounts: the report has no net costs and no rows of discounts."
    if bill.equal_rows:
        yield f"{number_of(bill.equal_rows, 'equal row')} left out: each row counts once."
    if bill.accounts > 1:
        yield f"Rows of {bill.accounts} accounts have this customer's tag, and no row names the cluster."
    if bill.elsewhere_usd or bill.unplaced_usd:
        yield "This customer has charges in other regions, clusters or accounts, which are in no line of this stack."
    if bill.shared_usd:
        yield "Rows without a customer's tag belong to the entire organisation and are in no line of this stack."
    if bill.utilisation is not None:
        yield f"Savings Plans, entire report: {percent(bill.utilisation)} of {dollars(bill.committed_usd)} used."
    if bill.unused_reservation_usd:
        yield f"Reservations, entire report: {dollars(bill.unused_reservation_usd)} unused."
    if idle_usd := bill.parts.get(Part.UNUSED_CAPACITY):
        yield f"Idle: {dollars(idle_usd)} for capacity reservations of this stack in which no instance ran."
    if bill.shared_capacity_usd:
        yield (
            f"Idle: {dollars(bill.shared_capacity_usd)} for capacity reservations without a customer's tag in which no "
            "instance ran."
        )
    if bill.coverage is not None:
        yield f"Commitments cover {percent(bill.coverage)} of this stack's nodes at public prices, spot excluded."
