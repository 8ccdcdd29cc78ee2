"""`ebbtide top` as lines and tables for a terminal, with `?` for unknown values. Pure."""

from collections.abc import Iterator
from datetime import timedelta, tzinfo

from rich.console import Group, RenderableType
from rich.text import Text

from ebbtide.operate.top.view import GroupRow, PoolRow, Share, TopView
from ebbtide.text.durations import short, whole_minutes
from ebbtide.text.sheet import HUNDREDTHS, Cell, Sheet, left, right
from ebbtide.text.terminal import sheet_table

_POOLS = (
    *left("POOL"),
    *left("QUEUES", fold=True),
    *right("WAITING", "RUNNING", "OLDEST", "P95 1H", "WORKERS", "PENDING"),
    *left("WHY", fold=True),
)
_NODES = (
    *left("NODES", "KIND"),
    *right("NUMBER", "READY", "CPU REQ", "USED", "MEM REQ", "USED", "GPU REQ", "USED"),
    *right("$/H", unit=HUNDREDTHS, unknown="?"),
)
_BUDGETS = (*left("BUDGET", "STATE"), *left("WHY", fold=True))


def top_text(view: TopView, zone: tzinfo, *, failed: str = "") -> RenderableType:
    """Lay out the view; `failed` is the reason why it is outdated, or empty."""
    return Group(*_parts(view, zone, failed))


def _parts(view: TopView, zone: tzinfo, failed: str) -> Iterator[RenderableType]:
    yield Text(f"{view.customer}  {view.at.astimezone(zone):%a %H:%M:%S %Z}", style="bold")
    if failed:
        yield Text(f"not refreshed since: {failed}", style="bold red")
    yield from (Text(line) for line in view.heads)
    if view.pools:
        yield Text("")
        yield sheet_table(Sheet(columns=_POOLS, rows=[_pool(row) for row in view.pools]))
    if view.groups is not None:
        yield Text("")
        yield sheet_table(Sheet(columns=_NODES, rows=[_group(row) for row in view.groups]))
        yield Text(f"pods without a node: {_number(view.pods_pending)}")
    if view.budgets:
        yield Text("")
        yield sheet_table(Sheet(columns=_BUDGETS, rows=[(row.name, row.state, row.why) for row in view.budgets]))
    yield Text("")
    yield Text(f"evictions in the last hour: {_evictions(view)}")
    if view.notes:
        yield Text("")
        yield from (Text(f"? {line}", style="yellow") for line in view.notes)


def _pool(row: PoolRow) -> list[str]:
    return [
        row.name,
        ",".join(row.queues),
        _number(row.waiting),
        _number(row.running),
        "-" if row.waiting == 0 else _seconds(row.oldest_wait),
        "-" if row.wait_p95 == 0 else _seconds(row.wait_p95),
        f"{_number(row.workers)}/{_number(row.wanted)}",
        _number(row.pending),
        row.why,
    ]


def _group(row: GroupRow) -> list[Cell]:
    shares = [cell for share in (row.cpu, row.memory, row.gpu) for cell in _share(share, row.nodes)]
    return [row.name or "(no group)", row.kind or "-", str(row.nodes), str(row.ready), *shares, row.dollars_per_hour]


def _share(share: Share | None, nodes: int) -> list[str]:
    if share is None or not nodes:
        return ["-", "-"]
    return ["?" if part is None else f"{part * 100:.0f}%" for part in (share.requested, share.used)]


def _evictions(view: TopView) -> str:
    if view.evictions is None:
        return "?"
    return ", ".join(f"{name or '(no workload)'} {count:.0f}" for name, count in view.evictions.items()) or "none"


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _seconds(value: float | None) -> str:
    return "?" if value is None else short(whole_minutes(timedelta(seconds=value)))
