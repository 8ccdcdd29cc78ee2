"""Advice about commitments for a terminal of 80 columns, and as a JSON document."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ebbtide.advice.savings.advice import Offer, SavingsAdvice
from ebbtide.report.pages.sentences import unpriced_line

SCHEMA = 1

_LOADS = {0.5: "halves", 2.0: "doubles"}


def as_json(advice: SavingsAdvice) -> dict[str, Any]:
    """Return plain values; `chosen` is the name of a plan, or null if no plan of a year pays."""
    chosen = advice.chosen
    return {
        "schema": SCHEMA,
        **asdict(advice),
        "prices_of": advice.prices_of.isoformat(),
        "plans_of": advice.plans_of.isoformat(),
        "chosen": None if chosen is None else chosen.plan,
    }


def as_text(advice: SavingsAdvice) -> str:
    lines = [
        *_verdict(advice),
        "",
        f"{'usage':<24}{'node-hours':>12}{'runs in':>10}{'on demand':>14}",
        *(
            f"{layer.name:<24}{layer.node_hours:>12,.0f}{layer.share_of_hours:>10.0%}{_month(layer.on_demand_usd):>14}"
            for layer in advice.layers
        ),
        "",
        *(_plans(advice) if advice.offers else ()),
        "Assumed:",
        *(f"- {sentence}" for sentence in advice.assumptions),
    ]
    return "\n".join(lines)


def _plans(advice: SavingsAdvice) -> Iterator[str]:
    yield f"{'plan':<24}{'commitment':>12}{'saves':>8}{'covers':>8}{'used':>7}{'breaks even at':>16}"
    yield from (_offer_row(offer) for offer in advice.offers)
    yield ""
    yield from _beyond(advice)
    yield ""


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


def _offer_row(offer: Offer) -> str:
    return (
        f"{offer.plan:<24}{_rate(sum(offer.commitments.values())):>12}{offer.saving:>8.1%}{offer.coverage:>8.0%}"
        f"{offer.utilisation:>7.0%}{f'{offer.break_even_load:.0%} of the load':>16}"
    )


def _beyond(advice: SavingsAdvice) -> Iterator[str]:
    offer = advice.chosen or advice.offers[0]
    if offer.best <= offer.floor:
        yield "More than the proven floor, what every hour used, would not pay on this usage."
    elif advice.beyond_floor:
        yield (
            f"The proven floor is {_rate(offer.floor)} an hour under {offer.plan}; what is committed above it is paid "
            "in hours that do not use it."
        )
    else:
        yield (
            f"Commitments stay at the proven floor, what every hour used. On this usage {_rate(offer.best)} an hour "
            f"of {offer.plan} would cost least, if it goes on like this: --beyond-floor shows that."
        )


def _rate(usd: float) -> str:
    return f"${usd:,.3f}"


def _month(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:,.0f}"
