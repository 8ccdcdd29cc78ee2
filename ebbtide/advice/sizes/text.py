"""Advice on sizes for a terminal, and as a JSON document."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any, cast

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ebbtide.advice.sizes.advice import Row, SizesAdvice
from ebbtide.advice.sizes.evidence import Figure
from ebbtide.advice.sizes.gpus import gpu_lines
from ebbtide.advice.sizes.groups import GroupAdvice
from ebbtide.advice.sizes.rules import Verdict
from ebbtide.advice.sizes.shapes import Shape
from ebbtide.terminal import table
from ebbtide.units.money import dollars

SCHEMA = 1
_UNKNOWN = "-"


def as_text(advice: SizesAdvice) -> Group:
    return Group(*chain.from_iterable([part, Text("")] for part in _parts(advice)))


def _parts(advice: SizesAdvice) -> Iterator[Text | Table]:
    days = advice.evidence.days
    yield Text(f"{advice.customer}: what its containers ask for and used, {days} days until now\n{advice.source}")
    yield _containers(advice)
    if advice.groups:
        yield _groups(advice)
    yield Text("\n".join(_verdict(advice)))
    if advice.changes:
        yield Text("\n".join(["Changes:", *(f"  {line}" for line in _changed(advice))]))
    if unchanged := [*_unchanged(advice)]:
        yield Text("\n".join(["Left as it is:", *(f"  {line}" for line in unchanged)]))
    if advice.missing:
        yield Text("\n".join(f"? {what}: {why}" for what, why in advice.missing.items()), style="yellow")
    yield Text("\n".join(_assumptions(advice)))


def _containers(advice: SizesAdvice) -> Table:
    """Those that were seen; of all others there is a line below."""
    seen = [row for row in advice.rows if row.use.days]
    with_vpa = any(row.recommended for row in seen)
    vpa = ["VPA"] if with_vpa else []
    columns = ["CONTAINER", "CPU", ">USED", "MEMORY", ">USED", *vpa, ">PODS", ">DAYS", "CONFIDENCE", ">SAVES"]
    return table(columns, ([*_cells(row, with_vpa=with_vpa)] for row in seen), fold=("CONTAINER",))


def _cells(row: Row, *, with_vpa: bool) -> Iterator[str]:
    yield row.of.path
    for resource, verdict in row.verdicts.items():
        yield resource.text(verdict.now) + (
            f" \N{RIGHTWARDS ARROW} {resource.text(verdict.to)}" if verdict.changes else ""
        )
        yield _UNKNOWN if verdict.seen is None else resource.seen_text(verdict.seen)
    if with_vpa:
        yield ", ".join(resource.text(amount) for resource, amount in row.recommended.items()) or _UNKNOWN
    yield f"{row.pods:.1f}"
    yield str(row.use.days)
    yield row.confidence or _UNKNOWN
    yield _money(row.saves) if row.changes else ""


def _groups(advice: SizesAdvice) -> Table:
    rows = [
        [
            it.name,
            _money(it.monthly(it.now)),
            _money(it.monthly(it.sized)),
            _money(it.monthly(it.other)) if it.other else "",
            ", ".join(it.other.types) if it.other else it.why,
        ]
        for it in advice.groups
    ]
    return table(("NODE GROUP", ">AS IT IS", ">THESE SIZES", ">OTHER NODES", "WHICH"), rows, fold=("WHICH",))


def _verdict(advice: SizesAdvice) -> Iterator[str]:
    if not advice.changes:
        yield "Nothing to do."
    now = [it.monthly(it.now) for it in advice.groups]
    then = [it.monthly(_final(it)) for it in advice.groups]
    if advice.groups and advice.changes and None not in (*now, *then):
        before, after = sum(filter(None, now)), sum(filter(None, then))
        way = f"{dollars(before - after)} less" if after <= before else f"{dollars(after - before)} more"
        yield f"With all of it what ran would cost {dollars(after)} a month, {way}."
    for it in advice.groups:
        if it.other is not None and not it.in_patch:
            yield (
                f"nodeGroups.{it.name}: {', '.join(it.other.types)} would do for {_money(it.monthly(it.other))} a "
                "month; not in the patch, since its fixed pods would move"
            )


def _final(it: GroupAdvice) -> Shape | None:
    return it.other if it.in_patch else it.sized


def _changed(advice: SizesAdvice) -> Iterator[str]:
    for change in advice.changes:
        before = "nothing" if change.before is None else _value(change.before)
        yield f"{change.path.partition(':')[2]}: {before} \N{RIGHTWARDS ARROW} {_value(change.after)}: {change.reason}"


def _value(value: object) -> str:
    return ", ".join(map(str, cast("Sequence[object]", value))) if isinstance(value, list | tuple) else str(value)


def _unchanged(advice: SizesAdvice) -> Iterator[str]:
    """Containers of which both amounts have one reason stand together behind it; what fits is in the table."""
    alike: dict[str, list[str]] = {}
    for row in advice.rows:
        stay = [it for it in row.verdicts.values() if not it.changes and not it.fits]
        reasons = {it.reason for it in stay}
        if len(stay) == len(row.verdicts) and len(reasons) == 1:
            alike.setdefault(reasons.pop(), []).append(row.of.path)
        else:
            yield from (
                f"{row.of.path}.{it.resource.value} stays {it.resource.text(it.now)}: {it.reason}" for it in stay
            )
        yield from gpu_lines(row.of, row.use)
    yield from (f"{', '.join(paths)}: {reason}" for reason, paths in alike.items())


def _assumptions(advice: SizesAdvice) -> Iterator[str]:
    yield "USED: of the busiest pod; CPU that is enough for 95 % of the time, and the most memory."
    if any(row.recommended for row in advice.rows):
        yield "VPA: what the Vertical Pod Autoscaler recommends."
    if advice.groups:
        yield "Dollars: a month at list prices, of what ran, packed on the nodes of each group in the same way."


def _money(usd: float | None) -> str:
    return _UNKNOWN if usd is None else dollars(usd)


def as_json(advice: SizesAdvice) -> dict[str, Any]:
    """Plain values: CPU in millicores, memory in MiB, US dollars a month. Without `changes`, which stand beside it."""
    return {
        "schema": SCHEMA,
        "stack": advice.stack,
        "customer": advice.customer,
        "source": advice.source,
        "evidence": {"days": advice.evidence.days, "least": advice.evidence.least},
        "containers": [_container_json(row) for row in advice.rows],
        "groups": [_group_json(it) for it in advice.groups],
        "missing": dict(advice.missing),
    }


def _container_json(row: Row) -> dict[str, Any]:
    use = row.use
    return {
        "path": row.of.path,
        **asdict(row.of.place),
        "group": row.group or None,
        "pods": row.pods,
        "days": use.days,
        "confidence": row.confidence,
        "saves": row.saves,
        **{resource.value: _verdict_json(it) for resource, it in row.verdicts.items()},
        "oom_kills": use.kills,
        "throttled": use.throttled,
        "memory_grows": use.growing,
        "gpus": row.of.pod.gpu.count,
        "gpu_busy_percent": _whole(use.gpu_busy),
        "gpu_memory": _whole(use.gpu_memory),
        "gpus_used": use.gpus_used,
        "vpa": {resource.value: amount for resource, amount in row.recommended.items()},
    }


def _whole(figure: Figure | None) -> float | None:
    return None if figure is None else figure.whole


def _verdict_json(it: Verdict) -> dict[str, Any]:
    used = None if it.seen is None else math.ceil(it.seen)
    return {"asks": it.now, "used": used, "advised": it.to, "reason": it.reason}


def _group_json(it: GroupAdvice) -> Mapping[str, Any]:
    def shape(found: Shape | None) -> Mapping[str, Any] | None:
        if found is None:
            return None
        return {"types": list(found.types), "node_hours": found.node_hours, "usd": it.monthly(found)}

    return {
        "name": it.name,
        "kind": it.kind,
        "hours": it.hours,
        "as_it_is": shape(it.now),
        "with_these_sizes": shape(it.sized),
        "other_nodes": shape(it.other),
        "in_patch": it.in_patch,
    }
