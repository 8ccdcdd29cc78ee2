"""Comparison of a service's variants, for a terminal."""

from collections.abc import Iterator

from rich.console import Group

from ebbtide.lab.advice.services.stretches import Stretches
from ebbtide.lab.advice.services.targets_text import OUTCOME_COLUMNS, SECONDS, hours_text, outcome_cells, seconds
from ebbtide.lab.advice.services.trial import SettingOutcome
from ebbtide.lab.advice.services.variants import VariantAdvice, VariantRow
from ebbtide.lab.simulator.services.served import SPREAD
from ebbtide.text.counts import known, percent, several
from ebbtide.text.money import dollars
from ebbtide.text.sheet import Sheet, Unit, left, right
from ebbtide.text.terminal import laid_out


def as_text(advice: VariantAdvice) -> Group:
    return laid_out(_parts(advice))


def _parts(advice: VariantAdvice) -> Iterator[str | Sheet]:
    yield f"{advice.service} of {advice.stack} on {advice.trace}, {advice.requests_per_second:,.3g} requests a second"
    yield f"Played: {_last(advice.hours)}. SLO: p95 within {seconds(advice.slo_s)}."
    yield ""
    yield _verdict(advice)
    yield ""
    yield _outcomes(advice)
    yield ""
    yield "Each variant is played alone, with all requests; pod-hours are per month. Assumed for each pod:"
    yield from (f"  {_pod(row)}" for row in advice.rows)
    if advice.shared is not None:
        shares = ", ".join(f"{name} {percent(share)}" for name, share in advice.shares.items())
        yield f"shared: {shares}, each with the min and max of the stack file."
    elif advice.why_not_shared:
        yield f"Not played together: {advice.why_not_shared}."
    yield (
        f"Request times are log-normal with a coefficient of variation of {SPREAD:g}; dollars are the pods' shares of "
        "their nodes, on demand, and of spot nodes the typical price of a month."
    )


def _last(hours: Stretches) -> str:
    if hours.complete:
        return f"the last {hours_text(hours)}".replace("last 1 day", "last day")
    return f"{hours.hours:,.0f} of the last {hours.of_hours:,.0f} hours, the busiest among them"


def _verdict(advice: VariantAdvice) -> str:
    best = advice.cheapest
    if best is None or best.outcome.usd_per_1000 is None:
        return "No variant keeps the SLO by itself on nodes that have a price."
    others = [row for row in advice.rows if row is not best and row.keeps(advice.slo_s)]
    rivals = ", ".join(f"{row.name} {_usd_per_1000(row.outcome)}" for row in others)
    others_text = f" ({rivals})" if rivals else ""
    return f"Cheapest within the SLO: {best.name}, {_usd_per_1000(best.outcome)} for 1,000 requests{others_text}."


def _outcomes(advice: VariantAdvice) -> Sheet:
    rows = [(row.name, row.outcome, row.keeps(advice.slo_s)) for row in advice.rows]
    notes = [] if all(keeps for *_, keeps in rows) else ["* misses the SLO, or loses requests"]
    if advice.shared is not None:
        rows.append(("shared", advice.shared, advice.shared.result.p95_s <= advice.slo_s))
    return Sheet(
        columns=[
            *left(""),
            *right("$ per 1,000", unit=_PER_1000),
            *OUTCOME_COLUMNS,
            *right("p50", "p95", "p99", unit=SECONDS),
            *left(""),
        ],
        rows=[
            (
                name,
                outcome.usd_per_1000,
                *outcome_cells(outcome),
                outcome.result.p50_s,
                outcome.result.p95_s,
                outcome.result.p99_s,
                "" if keeps else "*",
            )
            for name, outcome, keeps in rows
        ],
        notes=notes,
    )


_PER_1000 = Unit("USD", "${:.3g}".format)
"""Three digits: a thousand requests may cost less than a cent."""


def _usd_per_1000(outcome: SettingOutcome) -> str:
    return known(outcome.usd_per_1000, _PER_1000.text)


def _pod(row: VariantRow) -> str:
    price = "no price" if row.usd_per_pod_hour is None else f"{dollars(row.usd_per_pod_hour)} an hour"
    return (
        f"{row.name}: {row.pod}, {price}; a request takes {seconds(row.time.takes.total_seconds())} "
        f"({row.time.source}), {several(row.at_once, 'request')} at a time; at most {several(row.most, 'pod')}"
    )
