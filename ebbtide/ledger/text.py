"""The ledger as text for a terminal."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Group, RenderableType

from ebbtide.ledger.month import Alternative, Ledger, NodeHours
from ebbtide.report.words import DASH, count, percent
from ebbtide.terminal import table
from ebbtide.units.money import dollars

_SHARES = 20


def as_text(ledger: Ledger) -> RenderableType:
    groups = table(
        ("group", ">node-hours", ">dollars", ">boots", ">boot dollars"),
        (
            (name or "no group", count(row.hours), dollars(row.usd), str(row.boots), dollars(row.boot_usd))
            for name, row in by_group(ledger.paid).items()
        ),
    )
    others = table(
        ("instead", ">dollars", ">saved"),
        ((entry.name, span(entry.low_usd, entry.high_usd), saved_text(ledger, entry)) for entry in ledger.alternatives),
    )
    shares = ledger.shares[:_SHARES]
    caused = table(
        ("group", "caused by", ">dollars", ">share"),
        (
            (share.group or "no group", share.workload, dollars(share.usd), share_text(ledger, share.usd))
            for share in shares
        ),
    )
    return Group(*_head(ledger), "", groups, "", others, "", caused, *_more(ledger), "", *_assumed(ledger))


def headline(ledger: Ledger) -> str:
    return f"{ledger.customer}, {ledger.month.name}: nodes cost {span(ledger.low_usd, ledger.high_usd)}"


def _head(ledger: Ledger) -> Iterator[str]:
    yield f"{headline(ledger)}."
    plan = f", of it {dollars(ledger.plan_usd)} by the assumed plan" if ledger.plan_usd else ""
    yield f"Recorded: {dollars(ledger.recorded_usd)}{plan}. Boots, estimated: {dollars(ledger.boot_usd)}."
    if ledger.incomplete:
        yield f"Incomplete: {ledger.incomplete}."
    yield from gap_lines(ledger)


def gap_lines(ledger: Ledger) -> Iterator[str]:
    for gap in ledger.gaps:
        yield (
            f"Not recorded: {gap.begin:%Y-%m-%d %H:%M} to {gap.end:%Y-%m-%d %H:%M} UTC, "
            f"{span(gap.low_usd, gap.high_usd)} ({gap.why})."
        )


def _more(ledger: Ledger) -> Iterator[str]:
    rest = ledger.shares[_SHARES:]
    if rest:
        yield f"and {len(rest)} more, {dollars(sum(share.usd for share in rest))}"


def _assumed(ledger: Ledger) -> Iterator[str]:
    yield "Assumed:"
    for entry in ledger.alternatives:
        yield from (f"- {entry.name}: {sentence}" for sentence in entry.assumptions)
        if entry.why:
            yield f"- {entry.name}: {entry.why}"
    yield from (f"- {note}" for note in ledger.notes)
    yield from (f"- Prices {kind}: {source}." for kind, source in ledger.prices.items())


def by_group(rows: Iterable[NodeHours]) -> Mapping[str, NodeHours]:
    """Return the sum of each group; the other fields are those of one of its rows."""
    sums: dict[str, NodeHours] = {}
    for row in rows:
        so_far = sums.get(row.group)
        sums[row.group] = (
            row if so_far is None else replace(row, **{name: _sum(name, so_far, row) for name in _AMOUNTS})
        )
    return sums


_AMOUNTS = ("hours", "usd", "boots", "boot_usd")


def _sum(name: str, first: NodeHours, second: NodeHours) -> Any:
    return getattr(first, name) + getattr(second, name)


def span(low: float | None, high: float | None) -> str:
    """Return `$5`, or `$5 to $9`, or a dash."""
    if low is None or high is None:
        return DASH
    texts = dict.fromkeys((dollars(low), dollars(high)))
    return " to ".join(texts)


def saved_text(ledger: Ledger, entry: Alternative) -> str:
    saved = ledger.saved(entry)
    return "not enough data" if saved is None else span(*saved)


def share_text(ledger: Ledger, usd: float) -> str:
    total = sum(share.usd for share in ledger.shares)
    return percent(usd / total) if total else DASH
