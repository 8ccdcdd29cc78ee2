"""A Ray cluster as lines and a table for a terminal: the chain from the queue to the pods. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.table import Table

from ebbtide.operate.instants import spoken
from ebbtide.operate.ray.facts import HEAD_GROUP
from ebbtide.operate.ray.view import ABSENT, UNKNOWN, Drivers, RayGroupView, RayView, never_sleeps
from ebbtide.operate.wording import demand_text, ray_reason_text, reading_state
from ebbtide.text.durations import format_duration, whole_minutes
from ebbtide.text.sheet import HUNDREDTHS, Cell, Sheet, left, right
from ebbtide.text.terminal import sheet_table
from ebbtide.vocabulary.workloads import Purpose

_STATES = {
    ABSENT: "does not exist",
    UNKNOWN: "unknown",
    "empty": "has no spec yet, so it has no pods",
    "suspending": "going to sleep: some of its pods are still there",
}
_PURPOSES: Mapping[str, str] = {Purpose.REST: "", Purpose.SPEC: ", to take over a new spec"}
_FIELDS_SHOWN = 8


def ray_lines(view: RayView, timezone: str) -> list[str]:
    """Return one line for each link of the chain, and the reasons for and against sleep."""
    lines = [f"ray {view.name} ({view.namespace})", f"state    {state_text(view, timezone)}"]
    for drivers in view.drivers:
        lines += [f"queue    {_queue(drivers)}", f"drivers  {drivers_text(drivers)}"]
    if not view.drivers:
        lines.append("drivers  no pool of this stack drives it")
    lines.append(
        f"demand   {number(view.desired)} workers wanted by Ray, {number(view.ready)} ready, "
        f"{number(view.available)} available"
    )
    lines += [f"held     {text}" for text in hold_lines(view, timezone)]
    lines += [f"pending  {text}" for text in pending_lines(view)]
    if view.pending:
        lines.append(f"sooner   ebbtide maintenance --ray {view.name}: the new spec may interrupt what runs")
    lines += [f"later    {text}" for text in view.later]
    return lines


def number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def state_text(view: RayView, timezone: str) -> str:
    """Format as `awake since Fri 2026-11-20 09:00 EST (14:00 UTC): business hours`, with the head's report."""
    words = _STATES.get(view.state, view.state)
    if view.state in ("asleep", "suspending"):
        words += _PURPOSES.get(view.asleep_for, ", suspended by another manager")
    words += f" since {spoken(view.since, timezone)}" if view.since is not None else ""
    if view.why is None:
        return f"{words}; why is not known" if view.state not in (ABSENT, UNKNOWN) else words
    return f"{words}: {why_text(view)}"


def why_text(view: RayView) -> str:
    """Return the workload controller's reason, with its evidence."""
    parts = [ray_reason_text(view.why)]
    if view.activity not in (None, "idle", "not read"):
        parts.append(f"there is {view.activity}" if view.busy else f"the head gives no answer: {view.activity}")
    if view.idle_for is not None and view.sleep is not None:
        limit = "" if never_sleeps(view) else f", sleeps after {format_duration(view.sleep.after)}"
        parts.append(f"nothing has run for {whole_minutes(view.idle_for)}{limit}")
    return "; ".join(parts)


def _queue(drivers: Drivers) -> str:
    reading = drivers.reading
    if reading is None:
        return f"{drivers.pool}: {UNKNOWN}"
    state = reading_state(reading)
    return f"{drivers.pool}: {demand_text(reading)}{'' if state == 'known' else f' (reading {state})'}"


def drivers_text(drivers: Drivers) -> str:
    if drivers.missing:
        return f"{drivers.pool}: its Deployment does not exist"
    most = f", at most {drivers.max}" if drivers.max is not None else ""
    return f"{drivers.pool}: {number(drivers.wanted)} wanted, {number(drivers.ready)} ready{most}"


def hold_lines(view: RayView, timezone: str) -> Iterator[str]:
    """Yield an operator's holds."""
    if view.held:
        yield view.held
    if view.wake_until is not None:
        yield f"awake until {spoken(view.wake_until, timezone)}"
    if view.apply_until is not None:
        yield f"a pending spec may interrupt what runs until {spoken(view.apply_until, timezone)}"


def pending_lines(view: RayView) -> list[str]:
    """Return the pending fields, images first, since most people look for them."""
    if view.pending is None:
        return [UNKNOWN] if view.state not in (ABSENT, "empty") else []
    fields = sorted(view.pending, key=lambda field: not field.endswith(".image"))
    shown = [f"{field}{' (old image)' if field.endswith('.image') else ''}" for field in fields[:_FIELDS_SHOWN]]
    more = len(fields) - _FIELDS_SHOWN
    return [*shown, *([f"and {more} more fields"] if more > 0 else [])]


def group_table(view: RayView) -> Table:
    columns = [
        *left("group"),
        *right("wanted", "min", "max"),
        *left("pods", fold=True),
        *right("USD/hour", unit=HUNDREDTHS, unknown=UNKNOWN),
        *left("note", fold=True),
    ]
    return sheet_table(Sheet(columns=columns, rows=[_row(group) for group in (view.head, *view.groups)]))


def _row(group: RayGroupView) -> Sequence[Cell]:
    name, sizes = group.name, [number(size) for size in (group.wanted, group.min, group.max)]
    if name == HEAD_GROUP:
        name, sizes = "head", ["", "", ""]
    return [
        name,
        *sizes,
        pods_text(group),
        group.usd_per_hour,
        "; ".join(filter(None, (_overdue(group), group.waits, group.unpriced))),
    ]


def _overdue(group: RayGroupView) -> str:
    """Return the idle workers that Ray's autoscaler keeps, and the cost of their group's nodes."""
    if not group.overdue:
        return ""
    usd = "unknown dollars" if group.usd_per_hour is None else f"{group.usd_per_hour:.2f} USD"
    return f"{group.overdue} idle and kept by Ray's autoscaler (kuberay#3738): {usd} an hour"


def pods_text(group: RayGroupView) -> str:
    if group.running is None:
        return UNKNOWN
    counts = ((group.running, "running"), (group.pending, "pending"), (group.ending, "ending"))
    return ", ".join(f"{count} {state}" for count, state in counts if count) or "none"


def ray_parts(views: Sequence[RayView], timezone: str, show: Callable[[str | Table], None]) -> None:
    """Show all clusters, each after an empty line."""
    for view in views:
        for part in ("", *ray_lines(view, timezone), group_table(view)):
            show(part)


def ray_warnings(views: Sequence[RayView]) -> list[str]:
    return [f"ray {view.name}: {note}" for view in views for note in view.notes]
