"""The tables and sentences of a ledger and its bill, for the terminal and the page alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType

from ebbtide.ledger.bill.bill import Bill
from ebbtide.ledger.bill.difference import Difference
from ebbtide.ledger.month import SPOT, Ledger, NodeHours
from ebbtide.report.pages.sheets import Sheet, SheetRow
from ebbtide.report.words import DASH, count, dollars, percent
from ebbtide.terminal import table

NO_GROUP = "no group"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerView:
    """`sheets` and `assumptions` have names; those of a bill are there if it was read."""

    ledger: Ledger
    sheets: Mapping[str, Sheet]
    assumptions: Mapping[str, Sequence[str]]


def view_of(ledger: Ledger, bill: Bill | None = None, difference: Difference | None = None) -> LedgerView:
    sheets = {"paid": _paid(ledger), "saved": _instead(ledger), "caused by": _caused(ledger)}
    gaps = [
        f"Not recorded: {gap.begin:%Y-%m-%d %H:%M} to {gap.end:%Y-%m-%d %H:%M} UTC, "
        f"{span(gap.low_usd, gap.high_usd)} ({gap.why})."
        for gap in ledger.gaps
    ]
    assumptions = {
        **{entry.name: [*entry.assumptions, *filter(None, [entry.why])] for entry in ledger.alternatives},
        "month": [*gaps, *ledger.notes],
        "prices": [f"{kind}: {source}" for kind, source in ledger.prices.items()],
    }
    if bill is not None and difference is not None:
        sheets |= {"bill": _bill(bill), "bill and ledger": _difference(difference)}
        assumptions["bill"] = [*_bill_notes(bill)]
    return LedgerView(ledger=ledger, sheets=sheets, assumptions=assumptions)


def headline(ledger: Ledger) -> str:
    return f"{ledger.customer}, {ledger.month.name}: nodes cost {span(ledger.low_usd, ledger.high_usd)}"


def as_text(view: LedgerView) -> RenderableType:
    ledger = view.ledger
    plan = f", of it {dollars(ledger.plan_usd)} by the assumed plan" if ledger.plan_usd else ""
    lines = [
        f"{headline(ledger)}.",
        f"Recorded: {dollars(ledger.recorded_usd)}{plan}. Boots, estimated: {dollars(ledger.boot_usd)}.",
        *([f"Incomplete: {ledger.incomplete}."] if ledger.incomplete else []),
    ]
    tables = [
        table(
            (sheet.over, *(f">{column}" for column in sheet.columns)),
            ((row.name, *row.cells) for row in (*sheet.rows, *filter(None, [sheet.total]))),
            fold=(sheet.over,),
        )
        for sheet in view.sheets.values()
    ]
    assumed = [f"- {name}: {sentence}" for name, sentences in view.assumptions.items() for sentence in sentences]
    return Group(*lines, *(part for table_ in tables for part in ("", table_)), "", "Assumed:", *assumed)


def span(low: float | None, high: float | None) -> str:
    """Return `$5`, or `$5 to $9`, or a dash."""
    return DASH if low is None or high is None else " to ".join(dict.fromkeys((dollars(low), dollars(high))))


def saved_text(saved: Sequence[float] | None) -> str:
    return "not enough data" if saved is None else span(*saved)


def share_text(ledger: Ledger, usd: float) -> str:
    total = sum(share.usd for share in ledger.shares)
    return percent(usd / total) if total else DASH


def _paid(ledger: Ledger) -> Sheet:
    groups: dict[str, list[NodeHours]] = {}
    for row in ledger.paid:
        groups.setdefault(row.group or NO_GROUP, []).append(row)
    lines = {"assumed plan": dollars(ledger.plan_usd)} if ledger.plan_usd else {}
    if ledger.gaps:
        lines["gaps"] = span(sum(gap.low_usd for gap in ledger.gaps), sum(gap.high_usd for gap in ledger.gaps))
    total = span(ledger.low_usd - ledger.boot_usd, ledger.high_usd - ledger.boot_usd)
    return Sheet(
        caption="Nodes at the prices below. Boots are estimated, and gaps have bounds instead of a figure.",
        over="group",
        columns=["dollars", "node-hours", "on spot", "boots", "boots, estimated"],
        rows=[
            *(_paid_row(name, rows, dollars(sum(row.usd for row in rows))) for name, rows in groups.items()),
            *(SheetRow(name, [usd, "", "", "", ""]) for name, usd in lines.items()),
        ],
        total=_paid_row("total", ledger.paid, total),
    )


def _paid_row(name: str, rows: Sequence[NodeHours], usd: str) -> SheetRow:
    hours = sum(row.hours for row in rows)
    on_spot = sum(row.hours for row in rows if row.capacity_type == SPOT)
    boots, boot_usd = sum(row.boots for row in rows), sum(row.boot_usd for row in rows)
    return SheetRow(name, [usd, count(hours), count(on_spot), count(boots), dollars(boot_usd)])


def _instead(ledger: Ledger) -> Sheet:
    rows = [
        SheetRow(entry.name, [saved_text(ledger.saved[entry.name]), span(entry.low_usd, entry.high_usd)])
        for entry in ledger.alternatives
    ]
    caption = "Dollars of the alternative less those of the month. Each is a range; the assumptions are below."
    return Sheet(caption=caption, over="fleet", columns=["saved", "dollars"], rows=rows)


def _caused(ledger: Ledger) -> Sheet:
    rows = [
        SheetRow(
            share.workload, [dollars(share.usd), share_text(ledger, share.usd), share.group or NO_GROUP, share.category]
        )
        for share in ledger.shares
    ]
    if ledger.plan_usd:
        rows.append(SheetRow("assumed plan", [dollars(ledger.plan_usd), "", "", ""]))
    columns = ["dollars", "share", "group", "category"]
    caption = "Dollars of each group's nodes by the resources that pods requested. Idle: requested by no pod."
    return Sheet(caption=caption, over="caused by", columns=columns, rows=rows)


def _bill(bill: Bill) -> Sheet:
    lines = {
        **bill.parts,
        "all lines, amortised": sum(bill.parts.values()),
        **{f"apart: {charge.lower()}": usd for charge, usd in bill.apart.items()},
        **{f"without a customer's tag: {charge.lower()}": usd for charge, usd in bill.shared_usd.items()},
    }
    rows = [SheetRow(name, [dollars(usd)]) for name, usd in lines.items()]
    caption = "Amortised cost. Taxes, credits and refunds are apart."
    return Sheet(caption=caption, over="line of AWS' bill", columns=["dollars"], rows=rows)


def _difference(difference: Difference) -> Sheet:
    rows = [SheetRow(name, [span(*usd)]) for name, usd in difference.causes.items()]
    total = SheetRow("the bill's nodes less the ledger's", [span(difference.low_usd, difference.high_usd)])
    return Sheet(caption="Causes add up to the difference.", over="cause", columns=["dollars"], rows=rows, total=total)


def _bill_notes(bill: Bill) -> Iterator[str]:
    yield "Effective (amortised) cost. The bill's month is one of UTC, the ledger's one of the stack's zone."
    if bill.accounts > 1:
        yield f"Rows of {bill.accounts} accounts have this customer's tag."
    if bill.shared_usd:
        yield "Rows without a customer's tag are of all of an organisation, and in no line of this stack."
    if bill.utilisation is not None:
        yield f"Savings Plans, entire report: {percent(bill.utilisation)} of {dollars(bill.committed_usd)} used."
    if bill.unused_reservation_usd:
        yield f"Reservations, entire report: {dollars(bill.unused_reservation_usd)} unused."
    if bill.coverage is not None:
        yield f"Commitments cover {percent(bill.coverage)} of this stack's nodes at public prices, spot excluded."
