"""A bill and its difference to the ledger as rows, for the terminal and the page alike."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Group, RenderableType

from ebbtide.advice.savings.advice import SavingsAdvice, savings_advice
from ebbtide.advice.savings.usage import usage_of_counts
from ebbtide.ledger.bill.bill import Bill
from ebbtide.ledger.bill.difference import Difference
from ebbtide.ledger.text import span
from ebbtide.report.words import dollars, percent
from ebbtide.settings.model import StackSettings
from ebbtide.terminal import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """A bill, its difference to the ledger, and the advice on plans for its nodes."""

    bill: Bill
    difference: Difference
    advice: SavingsAdvice | None  # None without nodes of a group of the stack


def advice_of(bill: Bill, settings: StackSettings) -> SavingsAdvice | None:
    """Return the advice on Savings Plans for the nodes of the bill."""
    return (
        savings_advice(settings, usage_of_counts(bill.usage, settings, f"AWS' bill of {bill.month.name}"))
        if bill.usage
        else None
    )


def bill_rows(billed: Billed) -> Iterator[tuple[str, str]]:
    yield from ((part, dollars(usd)) for part, usd in billed.bill.parts.items())
    yield "all lines, amortised", dollars(sum(billed.bill.parts.values()))
    for charge, usd in billed.bill.apart.items():
        yield f"apart: {charge.lower()}", dollars(usd)
    for charge, usd in billed.bill.shared_usd.items():
        yield f"without a customer's tag: {charge.lower()}", dollars(usd)


def cause_rows(billed: Billed) -> Iterator[tuple[str, str]]:
    difference = billed.difference
    yield from ((cause.name, span(cause.low_usd, cause.high_usd)) for cause in difference.causes)
    yield "the bill's nodes less the ledger's", span(difference.low_usd, difference.high_usd)


def bill_notes(billed: Billed) -> Iterator[str]:
    yield from billed.bill.notes
    found = billed.bill.commitments
    if found.utilisation is not None:
        yield f"Savings Plans, entire report: {percent(found.utilisation)} of {dollars(found.committed_usd)} used."
    if found.unused_reservation_usd:
        yield f"Reservations, entire report: {dollars(found.unused_reservation_usd)} unused."
    if found.coverage is not None:
        yield f"Commitments cover {percent(found.coverage)} of this stack's nodes at public prices, spot excluded."
    chosen = billed.advice.chosen if billed.advice else None
    if chosen:
        rate = sum(chosen.commitments.values())
        yield (
            f"On this month's hours {chosen.plan} of ${rate:,.3f} an hour would save {percent(chosen.saving)} of the "
            "on-demand price of all nodes, those included that a plan covers now (ebbtide advise savings)."
        )
    elif billed.advice:
        yield "On this month's hours no plan of one year pays."


def bill_text(billed: Billed) -> RenderableType:
    return Group(
        "",
        table(("AWS' bill", ">dollars"), bill_rows(billed)),
        "",
        table(("the bill's nodes against the ledger", ">dollars"), cause_rows(billed)),
        "",
        *(f"- {note}" for note in bill_notes(billed)),
    )
