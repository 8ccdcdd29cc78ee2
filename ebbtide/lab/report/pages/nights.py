"""A stack's nights as sentences, as a terminal table and as a page: the nodes that go, and what that saves."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebbtide.lab.report.charts import by_strategy, hover, over_time
from ebbtide.lab.report.charts.by_strategy import retained_reasons
from ebbtide.lab.report.pages.figures import Figure, FigurePlan, figure_of
from ebbtide.lab.report.pages.page import Tile
from ebbtide.lab.report.pages.sentences import empty_nodes
from ebbtide.lab.report.pages.sheets import sheets
from ebbtide.lab.report.pages.template import rendered
from ebbtide.lab.simulator.replay.nights import WITH, WITHOUT, NightGroup, NightReplay
from ebbtide.prices.missing import how_to_price, named
from ebbtide.text.counts import count, number_of, percent, several
from ebbtide.text.files import write_file
from ebbtide.text.money import dollars
from ebbtide.text.pages import page_command
from ebbtide.text.sheet import DOLLARS, Sheet, left, right


def night_lines(nights: NightReplay, *, assumptions: bool) -> Iterator[str | Sheet]:
    """Yield what the terminal shows."""
    yield f"{headline(nights)}."
    yield f"{scope_line(nights)}."
    yield ""
    yield groups_sheet(nights)
    yield ""
    yield from notes(nights)
    if assumptions:
        yield from ("Assumed:", *(f"- {assumption}" for assumption in nights.replay.assumptions))


def headline(nights: NightReplay) -> str:
    """Return one sentence: the nodes that go, and what that saves."""
    gone, nodes = sum(map(_gone, nights.groups)), sum(group.nodes for group in nights.groups)
    if not gone and not _changed(nights):
        if nights.replay.constant_nodes:
            return f"No autoscaler removes nodes; with Ebbtide {empty_nodes(nights.replay, WITH)}"
        return f"No node goes at night: {nights.replay.stack} keeps {several(nodes, 'node')} at all hours"
    what = f"up to {gone} of {number_of(nodes, 'node')} go" if gone else "smaller nodes take over"
    return f"At night {what}: {_verdict(nights)} over {several(nights.replay.days, 'day')} than without Ebbtide"


def _verdict(nights: NightReplay) -> str:
    """Return the dollars saved and their share, or the node-hours if a node that goes has no price."""
    usd = _saved_usd(nights.groups)
    if usd is None:
        hours = sum(group.node_hours_without for group in nights.groups)
        return f"{count(_saved(nights))} node-hours less ({percent(-_saved(nights) / hours)})"
    known_usd = [group.usd_without for group in nights.groups if group.usd_without is not None]
    share = f" ({percent(-usd / sum(known_usd))})" if len(known_usd) == len(nights.groups) and sum(known_usd) else ""
    return f"{dollars(abs(usd))} {'less' if usd >= 0 else 'more'}{share}"


def _changed(nights: NightReplay) -> bool:
    """True if the nodes differ from those without Ebbtide by more than the seconds of a launch."""
    usd = _saved_usd(nights.groups)
    return abs(_saved(nights)) >= _LEAST_HOURS or (usd is not None and abs(usd) >= _LEAST_USD)


_LEAST_HOURS, _LEAST_USD = 0.5, 0.005  # less is shown as 0


def _gone(group: NightGroup) -> int:
    return max(0, group.nodes - group.at_night)


def _saved(nights: NightReplay) -> float:
    return sum(group.node_hours_without - group.node_hours for group in nights.groups)


def _saved_usd(groups: Sequence[NightGroup]) -> float | None:
    """Return the dollars that the groups cost less; None if one that changed has no price."""
    saved = 0.0
    for group in groups:
        if group.usd is not None and group.usd_without is not None:
            saved += group.usd_without - group.usd
        elif group.node_hours != group.node_hours_without:
            return None
    return saved


def scope_line(nights: NightReplay) -> str:
    replay = nights.replay
    begin = f"{replay.start:%a} {replay.start.day} {replay.start:%b %Y, %H:%M}"
    return f"Replayed: {several(replay.days, 'day')} from {begin} ({replay.start.tzinfo}), seed {replay.seed}"


def groups_sheet(nights: NightReplay) -> Sheet:
    """Return a row for each group. Hours, node-hours and dollars are of the entire replay."""
    groups = nights.groups
    return Sheet(
        caption=f"Nodes over {several(nights.replay.days, 'day')}, by group",
        columns=[
            *left("nodes of"),
            *right("nodes", "at night"),
            *right("saved", unit=DOLLARS),  # a telephone shows it without scrolling
            *right("hours fewer", "node-hours", "node-hours saved"),
        ],
        rows=[
            (
                group.name,
                group.nodes,
                group.at_night,
                _saved_usd([group]),
                group.hours_fewer,
                group.node_hours_without,
                _plain(group.node_hours_without - group.node_hours),
            )
            for group in groups
        ],
        total=(
            "total",
            sum(group.nodes for group in groups),
            sum(group.at_night for group in groups),
            _saved_usd(groups),
            "",
            sum(group.node_hours_without for group in groups),
            _plain(_saved(nights)),
        ),
    )


def _plain(hours: float) -> float:
    """Return 0 for what would be shown as -0."""
    return 0.0 if abs(hours) < _LEAST_HOURS else hours


def notes(nights: NightReplay) -> Iterator[str]:
    """Yield what the table leaves open: its terms, why nodes stay, and missing prices."""
    replay, result = nights.replay, nights.result
    yield (
        "Nodes, node-hours: without Ebbtide, where pods neither sleep nor move. At night: the fewest outside business "
        "hours. Hours fewer: fewer nodes run than without Ebbtide."
    )
    for name, needed in nights.too_many.items():
        yield f"The pods need {needed} nodes of {name}, more than its max: some never run, with Ebbtide or without."
    yield (
        f"Evictions: {count(result.evictions_in_window)} in the disruption window, "
        f"{count(result.evictions_in_business_hours)} in business hours."
    )
    for reason, hours in retained_reasons(result).items():
        if hours >= 1:
            yield f"Stays at night: {several(round(hours), 'node-hour')}, {reason}."
    if replay.constant_nodes:
        yield (
            f"Nodes of {', '.join(replay.constant_nodes)} have no autoscaler and count as present at all hours. On "
            f"average {empty_nodes(replay, WITH)}, which could be switched off; without Ebbtide "
            f"{sum(nights.without.empty_nodes.values()):.1f}."
        )
    elif not _changed(nights):
        yield (
            "Pods that start tightly packed need all nodes at night, too. Rules that sleep free some "
            f"({page_command('adoption#let-a-chart-sleep')}). `ebbtide adopt {replay.stack}` shows which nodes the "
            "running pods keep tonight."
        )
    if replay.unpriced:
        names = named([group.name for group in replay.unpriced])
        yield f"No price is known for the nodes of {names}. {how_to_price(replay.unpriced[0].region)}."


def write_nights(nights: NightReplay, path: Path) -> None:
    """Write the page atomically. Raises: `Unwritable`."""
    write_file(path, render_nights(nights))


def render_nights(nights: NightReplay) -> str:
    return rendered(
        "nights.html.j2",
        title=f"Ebbtide replay: nights of {nights.replay.stack}",
        verdict=headline(nights),
        scope=scope_line(nights),
        tiles=list(_tiles(nights)),
        groups=groups_sheet(nights),
        notes=list(notes(nights)),
        figures=_figures(nights),
        covers=several(nights.replay.days, "day"),
        replay=nights.replay,
        command=command(nights),
    )


def _tiles(nights: NightReplay) -> Iterator[Tile]:
    usd, over = _saved_usd(nights.groups), f"over {several(nights.replay.days, 'day')}"
    if usd is not None:
        yield Tile(dollars(usd), "saved", f"{over}, nodes only")
    without = sum(group.node_hours_without for group in nights.groups)
    yield Tile(count(_plain(_saved(nights))), "node-hours saved", f"of {count(without)} {over}")
    nodes = sum(group.nodes for group in nights.groups)
    yield Tile(f"{sum(map(_gone, nights.groups))} of {nodes}", "nodes go at night", "at most")
    yield Tile(
        count(nights.result.evictions_in_business_hours),
        "evictions in business hours",
        f"{count(nights.result.evictions_in_window)} in the disruption window",
    )


def _figures(nights: NightReplay) -> list[Figure]:
    replay = nights.replay
    data, tables = hover.night_documents(replay, WITH), sheets(replay, WITH)
    plans = {
        "nodes": FigurePlan(
            heading="Nodes by group",
            note="With Ebbtide; business hours shaded.",
            chart=lambda view: over_time.nodes_chart(replay, WITH, view),
        ),
        "strip": FigurePlan(
            heading="Nodes with Ebbtide and without",
            note=f"All nodes on one scale: with Ebbtide ({WITH}), and pods that neither sleep nor move ({WITHOUT}).",
            chart=lambda view: over_time.strip_chart(replay, view),
        ),
    }
    if retained_reasons(nights.result):
        plans["kept"] = FigurePlan(
            heading="Nodes retained in the disruption window",
            note="Node-hours in the disruption window, when budgets are open, by the reason for retaining the node.",
            chart=lambda view: by_strategy.retained_chart(replay, WITH, view),
        )
    return [figure_of(name, plan, tables[name], data.get(name)) for name, plan in plans.items()]


def command(nights: NightReplay) -> str:
    """Return the command that repeats this replay."""
    replay = nights.replay
    stack = replay.stack if replay.typed is None else replay.typed.stack
    prices = ["--prices", replay.typed.prices] if replay.typed is not None and replay.typed.prices else []
    words = ["ebbtide", "simulate", stack, "--start", replay.start.isoformat(), "--days", str(replay.days)]
    words += ["--seed", str(replay.seed), *([] if replay.rollouts else ["--no-rollouts"]), *prices]
    return shlex.join([*words, "--report", "report.html"])
