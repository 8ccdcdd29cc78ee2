"""Comparison of a service's variants, for a terminal."""

from collections.abc import Iterator

from ebbtide.advice.services.stretches import Stretches
from ebbtide.advice.services.targets_text import hours_text, seconds
from ebbtide.advice.services.trial import Outcome
from ebbtide.advice.services.variants import VariantAdvice, VariantRow
from ebbtide.report.words import DASH, count, dollars, percent, several
from ebbtide.simulator.services.served import SPREAD


def as_text(advice: VariantAdvice) -> str:
    return "\n".join(_lines(advice))


def _lines(advice: VariantAdvice) -> Iterator[str]:
    yield f"{advice.service} of {advice.stack} on {advice.trace}, {advice.requests_per_second:,.3g} requests a second"
    yield f"Played: {_last(advice.hours)}. SLO: p95 within {seconds(advice.slo_s)}."
    yield ""
    yield _verdict(advice)
    yield ""
    names = [row.name for row in advice.rows] + (["shared"] if advice.shared is not None else [])
    width = max(map(len, names)) + 2
    yield (
        f"{'':<{width}}{'$ per 1,000':>12}{'a month':>10}{'pod-hours':>11}{'beyond':>8}{'lost':>7}{'p50':>8}{'p95':>8}"
        f"{'p99':>8}"
    )
    for row in advice.rows:
        yield _figures(row.name, row.outcome, width, keeps=row.keeps(advice.slo_s))
    if advice.shared is not None:
        yield _figures("shared", advice.shared, width, keeps=advice.shared.result.p95_s <= advice.slo_s)
    if not all(row.keeps(advice.slo_s) for row in advice.rows):
        yield "* misses the SLO, or loses requests"
    yield ""
    yield "Each variant alone has all requests; pod-hours are of a month. Assumed of a pod:"
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
        return "None of the variants keeps the SLO alone, or its nodes have no price."
    others = [row for row in advice.rows if row is not best and row.keeps(advice.slo_s)]
    rivals = ", ".join(f"{row.name} {_usd_per_1000(row.outcome)}" for row in others)
    others_text = f" ({rivals})" if rivals else ""
    return f"Cheapest within the SLO: {best.name}, {_usd_per_1000(best.outcome)} for 1,000 requests{others_text}."


def _figures(name: str, outcome: Outcome, width: int, *, keeps: bool) -> str:
    result, usd = outcome.result, outcome.month_usd
    return (
        f"{name:<{width}}{_usd_per_1000(outcome):>12}{DASH if usd is None else dollars(usd):>10}"
        f"{count(outcome.month_pod_hours):>11}{f'{result.beyond_slo:.2%}':>8}{count(result.lost):>7}"
        f"{seconds(result.p50_s):>8}{seconds(result.p95_s):>8}{seconds(result.p99_s):>8}{'' if keeps else '*'}"
    )


def _usd_per_1000(outcome: Outcome) -> str:
    """Show three digits: a thousand requests may cost less than a cent."""
    usd = outcome.usd_per_1000
    return DASH if usd is None else f"${usd:.3g}"


def _pod(row: VariantRow) -> str:
    price = "no price" if row.usd_per_pod_hour is None else f"{dollars(row.usd_per_pod_hour)} an hour"
    return (
        f"{row.name}: {row.pod}, {price}; a request takes {seconds(row.time.takes.total_seconds())} "
        f"({row.time.source}), {several(row.at_once, 'request')} at a time; at most {several(row.most, 'pod')}"
    )
