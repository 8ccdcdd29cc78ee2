"""`ebbtide status`: what the controller sees and wants, and what holds without it.

Asked through the API server with the operator's own rights, so no port need be open. Where the controller is down, the
Lease, the budgets and the replicas are shown all the same: that is when somebody asks.
"""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from controllers.adapters.kube_api import ApiError
from ebbtide.cli.cluster_access import (
    DEFAULT_NAMESPACE,
    Context,
    Kubeconfig,
    Namespace,
    config_of,
    connect,
    fail,
    instant_of,
    told,
)
from ebbtide.cli.controller_status import Document, NoStatus, Outside, at, from_pods, from_url, outside, rows_at
from ebbtide.cli.instants import lasting, spoken
from ebbtide.cli.wording import arrow, demand_text, reading_state, reason_text
from ebbtide.vocabulary.windows import zone_names

command = typer.Typer(add_completion=False, rich_markup_mode=None)

Url = Annotated[
    str,
    typer.Option("--url", envvar="EBBTIDE_CONTROLLER_URL", help="Ask there instead of through the API server."),
]
_PODS = ("running", "idle", "pending", "failing", "unreachable", "terminating")
_WIDE = 110  # columns, from which on the pods of each pool are shown too


@command.command(epilog="Example: ebbtide status --url http://127.0.0.1:8080")
def status(
    *,
    url: Url = "",
    as_json: Annotated[bool, typer.Option("--json", help="The document itself, for tools.")] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> None:
    """Show what the controller sees and wants."""
    out = Console(highlight=False, markup=False, emoji=False)
    if url:
        try:
            document = from_url(url)
        except NoStatus as error:
            fail(str(error))
        _show(out, document, as_json=as_json)
        return
    api, now = connect(kubeconfig, context), datetime.now(UTC)
    with told(api):
        config = config_of(api, namespace)
        try:
            document = from_pods(api, namespace)
        except (NoStatus, ApiError) as error:
            _show_outside(out, outside(api, namespace, config, now), str(error), as_json=as_json)
            raise typer.Exit(1) from None
    _show(out, document, as_json=as_json)


def _show(out: Console, document: Document, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(document, indent=2))
        return
    for line in head_lines(document):
        out.print(line)
    pools, budgets = rows_at(document, "report", "pools"), rows_at(document, "report", "budgets")
    if pools:
        out.print("")
        out.print(pool_table(pools, at(document, "readings"), wide=out.width >= _WIDE))
    if budgets:
        out.print("")
        out.print(budget_table(budgets))
    for warning in warnings_of(document):
        out.print(f"warning: {warning.removeprefix('warning: ')}", style="yellow")


def head_lines(document: Document) -> list[str]:
    """Window, leader, config, clocks: one line each, and none for what the document does not have."""
    lines = [_window_line(document)]
    leader = at(document, "leader", "identity")
    if leader is not None:
        held, why = at(document, "leader", "held"), at(document, "leader", "why")
        lines.append(f"leader   {leader or 'nobody'}{'' if held else ', not this pod'}{f': {why}' if why else ''}")
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
    told = str(at(document, "window", "timezone"))
    timezone = told if told in zone_names() else "UTC"
    until = instant_of(at(document, "window", "until") or at(document, "report", "windowUntil"))
    opening = instant_of(at(document, "window", "nextOpening"))
    line = f"window   {'open' if is_open else 'closed'}: {reason_text(at(document, 'window', 'reason'))}".rstrip(": ")
    if until is not None:
        line += f"; {'closes' if is_open else 'opens'} {spoken(until, timezone)}"
    return line + (f"; next opening hours {spoken(opening, timezone)}" if opening is not None else "")


def _seconds(value: object) -> str:
    return lasting(timedelta(seconds=value)) if isinstance(value, int | float) else "not measured yet"


def pool_table(pools: list[Document], ages: object, *, wide: bool) -> Table:
    """`ages` has the state of each pool's last reading, and the seconds since its queues were last known."""
    table = _table("pool", "jobs", "workers", *(["pods"] if wide else []), "reading", "because")
    for pool in pools:
        reading = at(pool, "reading")
        pods = [f"{pool.get(key) or 0} {key}" for key in _PODS if pool.get(key)]
        table.add_row(
            str(pool.get("name")),
            demand_text(reading),
            arrow(pool.get("workers"), pool.get("wanted")),
            *([", ".join(pods) or "none"] if wide else []),
            _reading(reading, at(ages, str(pool.get("name")))),
            _because(pool, at(reading, "why")),
        )
    return table


def _reading(reading: object, state_and_age: object) -> str:
    if not isinstance(state_and_age, list):
        return reading_state(reading)
    state, age, *_ = [*cast("list[object]", state_and_age), None, None]
    if state == "known" or not isinstance(state, str):
        return reading_state(reading)
    return (
        f"{state}, last known {lasting(timedelta(seconds=age))} ago"
        if isinstance(age, float)
        else f"{state}, never known"
    )


def budget_table(budgets: list[Document]) -> Table:
    table = _table("budget", "state", "because")
    for budget in budgets:
        wanted = budget.get("wanted")
        state = arrow(_word(budget.get("maxUnavailable")), None if wanted is None else _word(wanted))
        table.add_row(str(budget.get("name")), state, _because(budget, None))
    return table


def _because(row: Document, why: object) -> str:
    parts = [reason_text(row.get("reason")), str(row.get("note") or ""), str(why or "")]
    return "; ".join(dict.fromkeys(part for part in parts if part))


def _word(max_unavailable: object) -> str:
    if max_unavailable is None:
        return "missing"
    return {"0": "closed", "1": "open"}.get(str(max_unavailable), f"maxUnavailable {max_unavailable}")


def warnings_of(document: Document) -> list[str]:
    """What concerns no single object, and what the start-up probe found."""
    found: list[Any] = [*(at(document, "report", "trouble") or ()), *(at(document, "probe") or ())]
    return list(dict.fromkeys(str(line) for line in found))


def _show_outside(out: Console, known: Outside, why: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"controller": None, "why": why, "outside": asdict(known)}, indent=2, default=str))
        return
    out.print(f"the controller does not answer: {why}", style="bold red")
    out.print("what the API server knows:")
    for line in outside_lines(known):
        out.print(line)
    out.print("")
    pools = _table("pool", "replicas", "ready", "asked by an operator")
    for pool in known.pools:
        pools.add_row(pool.name, "missing" if pool.replicas is None else str(pool.replicas), str(pool.ready), pool.hold)
    budgets = _table("budget", "state", "disruptions allowed", "asked by an operator")
    for budget in known.budgets:
        budgets.add_row(budget.name, _word(budget.max_unavailable), str(budget.allowed), budget.hold)
    out.print(pools)
    out.print("")
    out.print(budgets)


def outside_lines(known: Outside) -> list[str]:
    state = "open" if known.window_open else "closed"
    until = "" if known.window_until is None else f" until {spoken(known.window_until, known.timezone)}"
    lines = [
        f"leader   {known.leader or 'nobody holds the Lease'}",
        f"window   {state}{until}, by this machine's clock",
    ]
    late = [budget.name for budget in known.budgets if budget.max_unavailable not in (0, None)]
    if late and not known.window_open:
        lines.append(f"OPEN OUTSIDE THE WINDOW: {', '.join(late)} (the closer closes them before opening time)")
    return lines


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("workers", "state"))
    return table
