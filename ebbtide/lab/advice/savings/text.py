"""Advice about commitments for a terminal of 80 columns, and as a JSON document."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group

from ebbtide.lab.advice.savings.advice import Offer, SavingsAdvice
from ebbtide.lab.report.pages.sentences import unpriced_line
from ebbtide.text.counts import known
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import Sheet, Unit, exact_share, left, right
from ebbtide.text.terminal import laid_out

SCHEMA = 1

_MONTH = Unit("USD", "${:,.0f}".format)
_LOADS = {0.5: "halves", 2.0: "doubles"}


def as_json(advice: SavingsAdvice) -> dict[str, Any]:
    """Return plain values; `chosen` is the name of a plan, or null if no plan of a year pays."""
    chosen = advice.chosen
    return {
        "schema": SCHEMA,
        **plain_values(advice),
        "chosen": None if chosen is None else chosen.plan,
    }


def as_text(advice: SavingsAdvice) -> Group:
    return laid_out(_parts(advice))


def _parts(advice: SavingsAdvice) -> Iterator[str | Sheet]:
    yield from _verdict(advice)
    yield ""
    yield Sheet(
        columns=[
            *left("usage"),
            *right("node-hours"),
            *right("runs in", unit=exact_share(0)),
            *right("on demand", unit=_MONTH, unknown="-"),
        ],
        rows=[(layer.name, layer.node_hours, layer.share_of_hours, layer.on_demand_usd) for layer in advice.layers],
    )
    yield ""
    if advice.offers:
        yield _offers(advice.offers)
        yield ""
        yield from _beyond(advice)
        yield ""
    yield "Assumed:"
    yield from (f"- {sentence}" for sentence in advice.assumptions)


def _offers(offers: Sequence[Offer]) -> Sheet:
    return Sheet(
        columns=[
            *left("plan"),
            *right("commitment", unit=Unit("USD", _rate)),
            *right("saves", unit=exact_share(1)),
            *right("covers", "used", unit=exact_share(0)),
            *right("breaks even at", unit=Unit("", "{:.0%} of the load".format)),
        ],
        rows=[
            (
                offer.plan,
                sum(offer.commitments.values()),
                offer.saving,
                offer.coverage,
                offer.utilisation,
                offer.break_even_load,
            )
            for offer in offers
        ],
    )


def _verdict(advice: SavingsAdvice) -> Iterator[str]:
    label = " (approximate)" if advice.approximate else ""
    yield f"{advice.stack} in {advice.region}, {advice.hours} hours of {advice.source}"
    if advice.overload:
        yield f"Demand exceeds the stack: {advice.overload}. No plan is compared."
        return
    if line := unpriced_line(advice.unpriced):
        yield line
        yield "No plan is compared."
        return
    yield f"On demand its nodes cost {_month(advice.on_demand_usd)} a month."
    if not advice.offers and any(layer.node_hours for layer in advice.layers):
        yield "The price tables hold no plan rates for these nodes: no plan is compared."
        return
    chosen = advice.chosen
    if chosen is None:
        yield "No plan of one year pays: leave everything on demand."
        return
    amounts = ", ".join(
        f"{_rate(usd)} an hour" + ("" if scope == "all" else f" for {scope}")
        for scope, usd in chosen.commitments.items()
        if usd
    )
    yield f"Commit {amounts} as {chosen.plan}: {_month(chosen.usd)} a month, {chosen.saving:.1%} less{label}."
    for under in chosen.loads:
        if under.load in _LOADS:
            yield (
                f"If the load {_LOADS[under.load]}: {_month(under.usd)} a month, {_month(under.regret_usd)} more than "
                "with the best commitment for that load."
            )


def _beyond(advice: SavingsAdvice) -> Iterator[str]:
    offer = advice.chosen or advice.offers[0]
    if offer.best <= offer.floor:
        yield "More than the proven floor, what every hour used, would not pay on this usage."
    elif advice.beyond_floor:
        yield (
            f"The proven floor is {_rate(offer.floor)} an hour under {offer.plan}; the commitment above it is paid "
            "also in hours that do not use it."
        )
    else:
        yield (
            f"Commitments stay at the proven floor, what every hour used. With usage like this, {_rate(offer.best)} "
            f"an hour of {offer.plan} would cost least: --beyond-floor shows that."
        )


def _rate(usd: float) -> str:
    return f"${usd:,.3f}"


def _month(usd: float | None) -> str:
    return known(usd, _MONTH.text, "-")
