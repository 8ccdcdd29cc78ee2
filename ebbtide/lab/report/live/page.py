"""The page, and the figures above its charts."""

from datetime import timedelta
from pathlib import Path

from ebbtide.lab.report.live.charts import value_text
from ebbtide.lab.report.live.figures import length, live_figures
from ebbtide.lab.report.live.record import Band, Part, Record, ResourceSeries, mean, numbers_of
from ebbtide.lab.report.pages.page import Tile
from ebbtide.lab.report.pages.template import rendered
from ebbtide.monitoring.client import UnknownAnswer
from ebbtide.text.counts import count, percent
from ebbtide.text.durations import HOUR_S, duration, whole_minutes
from ebbtide.text.files import write_file
from ebbtide.text.money import dollars
from ebbtide.text.sheet import SHARE, Cell, Sheet, Unit, left, right

_NOT = "not recorded"
_UNKNOWN = "?"


def write_live(record: Record, path: Path) -> None:
    """Write the page atomically. Raises: `Unwritable`."""
    write_file(path, render_live(record))


def render_live(record: Record) -> str:
    begin = record.start
    end = begin + timedelta(seconds=record.horizon)
    return rendered(
        "live.html.j2",
        title=f"Ebbtide live: {record.customer}",
        verdict=verdict(record),
        begin=f"{begin:%a} {begin.day} {begin:%b %H:%M}",
        end=f"{end:%a} {end.day} {end:%b %H:%M %Z}",
        source=record.source,
        step=whole_minutes(timedelta(seconds=record.step)),
        tiles=tiles(record),
        figures=[*live_figures(record)],
        sizes=sizes(record),
    )


def verdict(record: Record) -> str:
    """Summarize the known values in one sentence."""
    parts = [f"{record.customer}, {length(record.horizon)}"]
    hours, spent = amount(record.nodes, record.step), amount(record.dollars, record.step)
    if hours is not None:
        parts.append(f"{count(hours)} node-hours")
    if spent is not None:
        parts.append(f"{dollars(spent)} at list price")
    shares = [(name, share_used(resource)) for name, resource in (("CPU", record.cpu), ("memory", record.memory))]
    parts += [f"{percent(share)} of the {name} paid for was used" for name, share in shares if share is not None]
    return f"{parts[0]}: {', '.join(parts[1:])}" if len(parts) > 1 else f"{parts[0]}: nothing was recorded"


def amount(part: Part, step: float) -> float | None:
    """Return the integral over the recorded steps, in hours of the unit."""
    return None if isinstance(part, UnknownAnswer) else sum(numbers_of(part.total)) * step / HOUR_S


def share_used(resource: ResourceSeries) -> float | None:
    """Return used by paid over the steps in which both are known."""
    return _ratio(resource.used, resource.paid)


def _ratio(part: Part, total: Part) -> float | None:
    if isinstance(part, UnknownAnswer) or isinstance(total, UnknownAnswer):
        return None
    both = [
        (value, total_value)
        for value, total_value in zip(part.total, total.total, strict=True)
        if value is not None and total_value is not None
    ]
    paid = sum(total_value for _, total_value in both)
    return sum(value for value, _ in both) / paid if paid else None


def tiles(record: Record) -> list[Tile]:
    hours, spent = amount(record.nodes, record.step), amount(record.dollars, record.step)
    used, requested = share_used(record.cpu), _ratio(record.cpu.requested, record.cpu.paid)
    return [
        Tile(_UNKNOWN if hours is None else count(hours), "node-hours", _peak(record.nodes, "at most", "nodes")),
        Tile(_UNKNOWN if spent is None else dollars(spent), "at list price", _recorded(record.dollars)),
        Tile(
            _UNKNOWN if used is None else percent(used),
            "of the CPU paid for was used",
            _NOT if requested is None else f"{percent(requested)} was requested",
        ),
        Tile(
            _most(_picked(record.jobs, "waiting")),
            "jobs waiting at most",
            _peak(record.workers, "", "workers", "running"),
        ),
        _longest_wait(record.waits),
        Tile(_most(record.evictions), "evictions in an hour at most", _recorded(record.evictions)),
    ]


def _picked(part: Part, name: str) -> Part:
    if isinstance(part, UnknownAnswer):
        return part
    return Band(values={name: part.values[name]} if name in part.values else {}, recorded=part.recorded)


def _most(part: Part) -> str:
    return _UNKNOWN if isinstance(part, UnknownAnswer) else value_text(max(numbers_of(part.total), default=0.0))


def _peak(part: Part, before: str, noun: str, name: str = "") -> str:
    part = _picked(part, name) if name else part
    return _NOT if isinstance(part, UnknownAnswer) else f"{before} {_most(part)} {noun}".strip()


def _longest_wait(waits: Part) -> Tile:
    if isinstance(waits, UnknownAnswer):
        return Tile(_UNKNOWN, "longest p95 wait", _NOT)
    longest = max((value for values in waits.values.values() for value in numbers_of(values)), default=0.0)
    recorded = sum(waits.recorded)
    unknown = sorted(name for name, values in waits.values.items() if len(numbers_of(values)) < recorded)
    return Tile(
        _UNKNOWN if unknown and not longest else duration(longest),
        "longest p95 wait",
        f"of an hour; not all known for {', '.join(unknown)}" if unknown else "of an hour, in any pool",
    )


def _recorded(part: Part) -> str:
    if isinstance(part, UnknownAnswer):
        return _NOT
    share = sum(part.recorded) / len(part.recorded)
    return "all of the time recorded" if share == 1 else f"{percent(share)} of the time recorded"


def sizes(record: Record) -> Sheet | None:
    """Requested and used resources of each workload, to find requests that are too large."""
    parts = [record.cpu.requested, record.cpu.used, record.memory.requested, record.memory.used]
    names = sorted({name for part in parts if isinstance(part, Band) for name in part.values})
    if not names:
        return None

    def row(name: str) -> list[Cell]:
        means = [mean(part.values[name]) if isinstance(part, Band) and name in part.values else None for part in parts]
        shares = [
            None if not requested or used is None else used / requested
            for requested, used in ((means[0], means[1]), (means[2], means[3]))
        ]
        return [name, *means[:2], shares[0], *means[2:], shares[1]]

    amount, used = Unit("", value_text), right("used", unit=SHARE)
    return Sheet(
        caption="Means over the time recorded",
        columns=[
            *left("workload"),
            *right("cores requested", "cores used", unit=amount),
            *used,
            *right("GiB requested", "GiB used", unit=amount),
            *used,
        ],
        rows=[row(name) for name in names],
    )
