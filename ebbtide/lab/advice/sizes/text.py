"""Advice on sizes for a terminal, and as a JSON document."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ebbtide.lab.advice.sizes.advice import SizeRow, SizesAdvice
from ebbtide.lab.advice.sizes.changes import gpu_lines
from ebbtide.lab.advice.sizes.evidence import MeasuredAmount
from ebbtide.lab.advice.sizes.groups import GroupAdvice
from ebbtide.lab.advice.sizes.rules import SizeVerdict
from ebbtide.lab.advice.sizes.shapes import Shape
from ebbtide.text.counts import known
from ebbtide.text.money import dollars
from ebbtide.text.records import plain_values
from ebbtide.text.sheet import DOLLARS, Cell, Sheet, Unit, left, right
from ebbtide.text.terminal import sheet_table

SCHEMA = 1
_UNKNOWN = "-"


def as_text(advice: SizesAdvice) -> Group:
    return Group(*chain.from_iterable([part, Text("")] for part in _parts(advice)))


def _parts(advice: SizesAdvice) -> Iterator[Text | Table]:
    days = advice.evidence.days
    yield Text(f"{advice.customer}: requests and use of its containers, {days} days until now\n{advice.source}")
    yield _containers(advice)
    if advice.groups:
        yield _groups(advice)
    yield Text("\n".join(_verdict(advice)))
    if advice.changes:
        yield Text("\n".join(["Changes:", *(f"  {line}" for line in _changed(advice))]))
    if unchanged := [*_unchanged(advice)]:
        yield Text("\n".join(["Left unchanged:", *(f"  {line}" for line in unchanged)]))
    if advice.missing:
        yield Text("\n".join(f"? {what}: {why}" for what, why in advice.missing.items()), style="yellow")
    yield Text("\n".join(_assumptions(advice)))


def _containers(advice: SizesAdvice) -> Table:
    """Return the table of recorded containers; the others get a line below it."""
    recorded = [row for row in advice.rows if row.use.days]
    with_vpa = any(row.recommended for row in recorded)
    columns = [
        *left("CONTAINER", fold=True),
        *left("CPU"),
        *right("USED"),
        *left("MEMORY"),
        *right("USED"),
        *left(*["VPA"] if with_vpa else []),
        *right("PODS", unit=Unit("", "{:.1f}".format)),
        *right("DAYS"),
        *left("CONFIDENCE"),
        *right("SAVES", unit=DOLLARS, unknown=_UNKNOWN),
    ]
    return sheet_table(Sheet(columns=columns, rows=[[*_cells(row, with_vpa=with_vpa)] for row in recorded]))


def _cells(row: SizeRow, *, with_vpa: bool) -> Iterator[Cell]:
    yield row.container.path
    for resource, verdict in row.verdicts.items():
        yield resource.text(verdict.now) + (
            f" \N{RIGHTWARDS ARROW} {resource.text(verdict.to)}" if verdict.changes else ""
        )
        yield _UNKNOWN if verdict.used is None else resource.used_text(verdict.used)
    if with_vpa:
        yield ", ".join(resource.text(amount) for resource, amount in row.recommended.items()) or _UNKNOWN
    yield row.pods
    yield row.use.days
    yield row.confidence or _UNKNOWN
    yield row.saves if row.changes else ""


def _groups(advice: SizesAdvice) -> Table:
    rows = [
        [
            group.name,
            group.monthly(group.now),
            group.monthly(group.sized),
            group.monthly(group.other) if group.other else "",
            ", ".join(group.other.types) if group.other else group.why,
        ]
        for group in advice.groups
    ]
    columns = [
        *left("NODE GROUP"),
        *right("AS IT IS", "THESE SIZES", "OTHER NODES", unit=DOLLARS, unknown=_UNKNOWN),
        *left("WHICH", fold=True),
    ]
    return sheet_table(Sheet(columns=columns, rows=rows))


def _verdict(advice: SizesAdvice) -> Iterator[str]:
    if not advice.changes:
        yield "Nothing to do."
    now = [group.monthly(group.now) for group in advice.groups]
    then = [group.monthly(_final(group)) for group in advice.groups]
    if advice.groups and advice.changes and None not in (*now, *then):
        before, after = sum(filter(None, now)), sum(filter(None, then))
        change = f"{dollars(before - after)} less" if after <= before else f"{dollars(after - before)} more"
        yield f"With all changes the recorded pods would cost {dollars(after)} a month, {change}."
    for group in advice.groups:
        if group.other is not None and not group.in_patch:
            yield (
                f"nodeGroups.{group.name}: {', '.join(group.other.types)} would do for "
                f"{_money(group.monthly(group.other))} a month; not in the patch, since its fixed pods would move"
            )


def _final(group: GroupAdvice) -> Shape | None:
    return group.other if group.in_patch else group.sized


def _changed(advice: SizesAdvice) -> Iterator[str]:
    for change in advice.changes:
        before = "nothing" if change.before is None else _value(change.before)
        yield f"{change.path.partition(':')[2]}: {before} \N{RIGHTWARDS ARROW} {_value(change.after)}: {change.reason}"


def _value(value: object) -> str:
    return ", ".join(map(str, cast("Sequence[object]", value))) if isinstance(value, list | tuple) else str(value)


def _unchanged(advice: SizesAdvice) -> Iterator[str]:
    """Yield unchanged containers, grouped if both amounts have one reason; those that fit are in the table."""
    by_reason: dict[str, list[str]] = {}
    for row in advice.rows:
        unchanged = [verdict for verdict in row.verdicts.values() if not verdict.changes and not verdict.fits]
        reasons = {verdict.reason for verdict in unchanged}
        path = row.container.path
        if len(unchanged) == len(row.verdicts) and len(reasons) == 1:
            by_reason.setdefault(reasons.pop(), []).append(path)
        else:
            yield from (
                f"{path}.{verdict.resource.value} stays {verdict.resource.text(verdict.now)}: {verdict.reason}"
                for verdict in unchanged
            )
        yield from gpu_lines(row.container, row.use)
    yield from (f"{', '.join(paths)}: {reason}" for reason, paths in by_reason.items())


def _assumptions(advice: SizesAdvice) -> Iterator[str]:
    yield "USED: by the busiest pod; CPU that is enough for 95 % of the time, and the most memory."
    if any(row.recommended for row in advice.rows):
        yield "VPA: recommended by the Vertical Pod Autoscaler."
    if advice.groups:
        yield "Dollars: a month of the recorded pods at list prices, packed on the nodes of each group in the same way."


def _money(usd: float | None) -> str:
    return known(usd, dollars, _UNKNOWN)


def as_json(advice: SizesAdvice) -> dict[str, Any]:
    """Return plain values: CPU in millicores, memory in MiB, US dollars a month. The caller adds `changes`."""
    return {
        "schema": SCHEMA,
        "stack": advice.stack,
        "customer": advice.customer,
        "source": advice.source,
        "evidence": {"days": advice.evidence.days, "least": advice.evidence.least},
        "containers": [_container_json(row) for row in advice.rows],
        "groups": [_group_json(group) for group in advice.groups],
        "missing": dict(advice.missing),
    }


def _container_json(row: SizeRow) -> dict[str, Any]:
    use = row.use
    return {
        "path": row.container.path,
        **plain_values(row.container.place),
        "group": row.group or None,
        "pods": row.pods,
        "days": use.days,
        "confidence": row.confidence,
        "saves": row.saves,
        **{resource.value: _verdict_json(verdict) for resource, verdict in row.verdicts.items()},
        "oom_kills": use.kills,
        "throttled": use.throttled,
        "memory_grows": use.growing,
        "gpus": row.container.pod.gpu.count,
        "gpu_busy_percent": _total(use.gpu_busy),
        "gpu_memory": _total(use.gpu_memory),
        "gpus_used": use.gpus_used,
        "vpa": {resource.value: amount for resource, amount in row.recommended.items()},
    }


def _total(figure: MeasuredAmount | None) -> float | None:
    return None if figure is None else figure.total


def _verdict_json(verdict: SizeVerdict) -> dict[str, Any]:
    used = None if verdict.used is None else math.ceil(verdict.used)
    return {"asks": verdict.now, "used": used, "advised": verdict.to, "reason": verdict.reason}


def _group_json(group: GroupAdvice) -> Mapping[str, Any]:
    def shape_json(shape: Shape | None) -> Mapping[str, Any] | None:
        if shape is None:
            return None
        return {"types": list(shape.types), "node_hours": shape.node_hours, "usd": group.monthly(shape)}

    return {
        "name": group.name,
        "kind": group.kind,
        "hours": group.hours,
        "as_it_is": shape_json(group.now),
        "with_these_sizes": shape_json(group.sized),
        "other_nodes": shape_json(group.other),
        "in_patch": group.in_patch,
    }
