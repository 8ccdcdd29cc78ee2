"""`/status` and the API server's view as lines and tables for a terminal. Pure."""

import json
from datetime import timedelta
from typing import Any, cast

from rich.table import Table

from ebbtide.operate.instants import spoken
from ebbtide.operate.objects import Document, at, budget_limit, parse_instant
from ebbtide.operate.status import ServerView
from ebbtide.operate.wording import arrow, demand_text, notes_of, reading_state, reason_text
from ebbtide.text.durations import whole_minutes
from ebbtide.text.sheet import Sheet, left
from ebbtide.text.terminal import sheet_table
from ebbtide.vocabulary.windows import zone_names

_PODS = ("running", "idle", "pending", "failing", "unreachable", "terminating")


def head_lines(document: Document) -> list[str]:
    """Return one line each for window, leader, config and clock, if the document has it."""
    lines = [_window_line(document)]
    leader = at(document, "leader", "identity")
    if leader is not None:
        leads, why = at(document, "leader", "held"), at(document, "leader", "why")
        lines.append(f"leader   {leader or 'none'}{'' if leads else ', not this pod'}{f': {why}' if why else ''}")
    good = at(document, "config", "good")
    if good is not None:
        lines.append(f"config   {'good' if good else at(document, 'config', 'why') or 'bad'}")
    if at(document, "wake"):
        lines.append(f"wake     {at(document, 'wake')}")
    clocks = at(document, "clocks")
    if clocks:
        lines.append(f"clocks   {clocks if isinstance(clocks, str) else json.dumps(clocks)}")
    if at(document, "tzdata"):
        lines.append(f"tzdata   {at(document, 'tzdata')}")
    drain, start = at(document, "measures", "drainP99"), at(document, "measures", "startupP99")
    if drain is not None or start is not None:
        lines.append(f"p99      drain {_seconds(drain)}, start-up {_seconds(start)}")
    return lines


def _window_line(document: Document) -> str:
    is_open = at(document, "window", "open")
    if is_open is None:
        is_open = at(document, "report", "windowOpen")
    if is_open is None:
        return "window   not known: this pod does not act"
    zone = str(at(document, "window", "timezone"))
    timezone = zone if zone in zone_names() else "UTC"
    until = parse_instant(at(document, "window", "until") or at(document, "report", "windowUntil"))
    opening = parse_instant(at(document, "window", "nextOpening"))
    line = f"window   {'open' if is_open else 'closed'}: {reason_text(at(document, 'window', 'reason'))}".rstrip(": ")
    if until is not None:
        line += f"; {'closes' if is_open else 'opens'} {spoken(until, timezone)}"
    return line + (f"; business hours start {spoken(opening, timezone)}" if opening is not None else "")


def _seconds(value: object) -> str:
    return whole_minutes(timedelta(seconds=value)) if isinstance(value, int | float) else "not measured yet"


def pool_table(pools: list[Document], ages: object, *, wide: bool) -> Table:
    """Return the table; `ages` has each pool's last reading state, and the seconds since its queues were last known."""
    pods = left(*["pods"] if wide else [], fold=True)
    columns = [*left("pool", "jobs", fold=True), *left("workers"), *pods, *left("reading", "reason", fold=True)]
    return sheet_table(Sheet(columns=columns, rows=[_pool_row(pool, ages, wide=wide) for pool in pools]))


def _pool_row(pool: Document, ages: object, *, wide: bool) -> list[str]:
    reading = at(pool, "reading")
    pods = [f"{pool.get(key) or 0} {key}" for key in _PODS if pool.get(key)]
    return [
        str(pool.get("name")),
        demand_text(reading),
        arrow(pool.get("workers"), pool.get("wanted")),
        *([", ".join(pods) or "none"] if wide else []),
        _reading_text(reading, at(ages, str(pool.get("name")))),
        _reason_of(pool),
    ]


def _reading_text(reading: object, state_and_age: object) -> str:
    if not isinstance(state_and_age, list):
        return reading_state(reading)
    state, age, *_ = [*cast("list[object]", state_and_age), None, None]
    if state == "known" or not isinstance(state, str):
        return reading_state(reading)
    return (
        f"{state}, last known {whole_minutes(timedelta(seconds=age))} ago"
        if isinstance(age, float)
        else f"{state}, never known"
    )


def budget_table(budgets: list[Document]) -> Table:
    columns = [*left("budget", fold=True), *left("state"), *left("reason", fold=True)]
    return sheet_table(Sheet(columns=columns, rows=[_budget_row(budget) for budget in budgets]))


def _budget_row(budget: Document) -> list[str]:
    target = budget.get("wanted")
    state = arrow(_state_of(budget.get("maxUnavailable")), None if target is None else _state_of(target))
    return [str(budget.get("name")), state, _reason_of(budget)]


def _reason_of(row: Document) -> str:
    parts = [reason_text(row.get("reason")), *notes_of(row)]
    return "; ".join(dict.fromkeys(part for part in parts if part))


def _state_of(max_unavailable: object) -> str:
    if max_unavailable is None:
        return "missing"
    return {"0": "closed", "1": "open"}.get(str(max_unavailable), budget_limit(max_unavailable))


def warning_lines(document: Document) -> list[str]:
    """Return problems that concern no single object, and findings of the start-up probe."""
    lines: list[Any] = [*(at(document, "report", "trouble") or ()), *(at(document, "probe") or ())]
    return list(dict.fromkeys(str(line) for line in lines))


def server_lines(view: ServerView) -> list[str]:
    state = "open" if view.window_open else "closed"
    until = "" if view.window_until is None else f" until {spoken(view.window_until, view.timezone)}"
    lines = [
        f"leader   {view.leader or 'no process holds the Lease'}",
        f"window   {state}{until}, by this machine's clock",
    ]
    late = [budget.name for budget in view.budgets if budget.max_unavailable not in (0, None) and not budget.always]
    if late and not view.window_open:
        lines.append(f"OPEN OUTSIDE THE WINDOW: {', '.join(late)} (the closer closes them before business hours)")
    return lines


def server_tables(view: ServerView) -> tuple[Table, Table]:
    """Return the tables of pools and budgets, with an operator's holds."""
    pools = Sheet(
        columns=left("pool", "replicas", "ready", "held by an operator", fold=True),
        rows=[
            (pool.name, "missing" if pool.replicas is None else str(pool.replicas), str(pool.ready), pool.hold)
            for pool in view.pools
        ],
    )
    budgets = Sheet(
        columns=[
            *left("budget", fold=True),
            *left("state"),
            *left("disruptions allowed", "held by an operator", fold=True),
        ],
        rows=[
            (budget.name, _state_of(budget.max_unavailable), str(budget.allowed), budget.hold)
            for budget in view.budgets
        ],
    )
    return sheet_table(pools), sheet_table(budgets)
