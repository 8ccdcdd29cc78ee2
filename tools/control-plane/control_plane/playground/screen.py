"""The playground's screen: the customer's clock, nodes with what is on them, pools, budgets, and the last happenings.

Colours only repeat what shades and brackets say, so that a terminal without colours shows the same.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.table import Table
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from control_plane.playground.evening import Phase, phase_at, title_of
from control_plane.playground.seen import SYSTEM, NodeSeen, NodeState, PoolSeen, Seen
from control_plane.playground.story import Happening, Totals, counted
from ebbtide.report.charts.palette import DARK
from ebbtide.vocabulary.controller_config import ControllerConfig
from ebbtide.vocabulary.labels import Category

PICTURE_SIZE = (100, 40)
_QUIET, _ALARM = DARK["quiet"], DARK["g3"]
_INKS: Mapping[str, str] = {
    Category.FIXED: DARK["g0"],
    Category.FLEXIBLE: DARK["g1"],
    Category.WORKER: DARK["g2"],
    SYSTEM: DARK["axis"],
}
_MARKS: Mapping[str, str] = {Category.FIXED: "█", Category.FLEXIBLE: "▓", Category.WORKER: "▒", SYSTEM: "░"}
_PHASES: Mapping[Phase, str] = {Phase.BUSINESS: DARK["g2"], Phase.NIGHT: DARK["g1"], Phase.GUARD: _ALARM}
_CELLS = (10, 8, 6, 4, 2)  # of a node, by how many there are beside it
_NAME = 12  # columns for a group's or a pool's name


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that one picture of the screen shows."""

    config: ControllerConfig
    stack: str
    paste: Sequence[str]  # lines for another terminal
    seen: Seen
    totals: Totals
    happenings: Sequence[Happening]
    usd: float  # an hour, now
    most: Mapping[str, int]  # nodes by group that there may be
    speed: float
    share: float  # of the show that is over, 0 to 1


class Screen:
    """Fits the height that it is given: what is left below the state is for happenings, the last ones first."""

    def __init__(self, view: View) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        state = Group(*_state(self._view, options.max_width))
        left = (options.height or console.height) - len(console.render_lines(state, options.update(height=None))) - 1
        yield state
        for happening in islice(reversed(self._view.happenings), max(0, left)):
            local = self._view.config.hours.local(happening.at)
            yield Text.assemble((f" {local:%H:%M}  ", _QUIET), happening.text, no_wrap=True, overflow="ellipsis")


def _state(view: View, width: int) -> Iterable[RenderableType]:
    yield Text.assemble(
        (" Ebbtide playground ", "bold"), (f"  stack {view.stack}, a real control plane on this machine", _QUIET)
    )
    yield Text(" in another terminal:", _QUIET)
    for line in view.paste:
        yield Text(f"   {line}", overflow="fold")
    yield Rule(style=_QUIET)
    yield _clock(view)
    yield _progress(view, width - 2)
    yield Text()
    yield _money(view)
    for group, most in view.most.items():
        yield _group([node for node in view.seen.nodes if node.group == group], group, most, width)
    yield _legend()
    yield Text()
    yield _pool_table(view.seen.pools)
    yield Text()
    yield _budgets(view.seen.budgets)
    yield _counts(view)
    yield Rule(Text("─ what happened, the last first", _QUIET), align="left", style=_QUIET)


def _clock(view: View) -> Text:
    local = view.config.hours.local(view.seen.at)
    return Text.assemble(
        (f" {local:%a %H:%M} ", "bold"),
        (f"{view.config.hours.timezone}  ", _QUIET),
        (title_of(view.config, view.seen.at), f"bold {_PHASES[phase_at(view.config, view.seen.at)]}"),
    )


def _progress(view: View, width: int) -> Text:
    words = f" {view.share:.0%} of the show, {view.speed:.0f} times as fast"
    room = max(0, width - len(words))
    done = min(room, round(room * view.share))
    return Text.assemble(" ", ("━" * done, _PHASES[Phase.NIGHT]), ("─" * (room - done), _QUIET), (words, _QUIET))


def _money(view: View) -> Text:
    return Text.assemble(
        (f" {len(view.seen.nodes)} nodes", "bold"),
        (f"  {view.totals.most} at the peak", _QUIET),
        (f"     ${view.usd:.2f} an hour", "bold"),
        (f"  ${view.totals.peak_usd:.2f} at the peak", _QUIET),
        (f"     {counted(view.seen.unplaced, 'pod')} without a node" if view.seen.unplaced else "", DARK["g2"]),
    )


def _group(nodes: Sequence[NodeSeen], group: str, most: int, width: int) -> RenderableType:
    row = Table.grid(padding=(0, 1, 0, 0))
    row.add_column(width=_NAME, no_wrap=True)
    row.add_column(width=8, no_wrap=True)
    row.add_column(overflow="fold")
    room = width - _NAME - 12
    cells = next((cells for cells in _CELLS if len(nodes) * (cells + 6) <= room), _CELLS[-1])
    blocks = Text(" ").join(block(node, cells) for node in nodes)
    row.add_row(Text(f" {group}"), Text(f"{len(nodes)} of {most}", _QUIET), blocks)
    return row


def block(node: NodeSeen, cells: int) -> Text:
    """`3[▓▓▓▓▒▒··]`: the number in its name, and its CPU in cells."""
    number = node.name.removeprefix(f"{node.group}-")
    number = number if len(number) <= 3 else ""
    frame = {NodeState.LEAVING: f"bold {_ALARM}", NodeState.STARTING: _QUIET}.get(node.state, "")
    open_, close = ("<", ">") if node.state is NodeState.LEAVING else ("[", "]")
    filled = "".join(_MARKS.get(category, "?") * count for category, count in cells_of(node, cells))
    text = Text.assemble((number, frame or _QUIET), (open_, frame), no_wrap=True)
    for category, count in cells_of(node, cells):
        text.append(_MARKS.get(category, "?") * count, frame or _INKS.get(category, ""))
    text.append("·" * (cells - len(filled)), frame or _QUIET)
    text.append(close, frame)
    return text


def cells_of(node: NodeSeen, cells: int) -> list[tuple[str, int]]:
    """What is there gets a cell at least, while there is one; what fills the node fills all of them."""
    ordered = [category for category in _INKS if category in node.shares]
    found: list[tuple[str, int]] = []
    left = cells
    for category in ordered:
        count = min(left, max(1, round(node.shares[category] * cells)))
        if count:
            found.append((category, count))
        left -= count
    return found


def _legend() -> Text:
    text = Text(" " * (_NAME + 1), _QUIET)
    for category, ink in _INKS.items():
        text.append(f"{_MARKS[category] * 2} ", ink).append(f"{category}   ", _QUIET)
    return text.append("·· free CPU   ", _QUIET).append("< > leaving", _ALARM)


def _pool_table(pools: Sequence[PoolSeen]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), header_style=_QUIET)
    table.add_column(" pool", min_width=_NAME)
    for name in ("waiting", "running", "workers", "at most"):
        table.add_column(name, justify="right")
    for pool in pools:
        style = "" if pool.waiting or pool.running or pool.workers else _QUIET
        counts = (pool.waiting, pool.running, pool.workers, pool.most)
        table.add_row(f" {pool.name}", *(str(count) for count in counts), style=style)
    return table


def _budgets(budgets: Mapping[str, bool]) -> RenderableType:
    row = Table.grid(padding=(0, 2, 0, 0))
    row.add_column(no_wrap=True)
    row.add_column()
    text = Text()
    for name, is_open in budgets.items():
        text.append(f"{name}\N{NO-BREAK SPACE}")
        text.append("open" if is_open else "closed", DARK["g1"] if is_open else _QUIET).append("  ")
    row.add_row(Text(" budgets  "), text)
    return row


def _counts(view: View) -> Text:
    totals, jobs = view.totals, view.seen.jobs
    bad = totals.outside or totals.unsafe or jobs.interrupted
    words = (
        f" evictions  {totals.window} in the window, {totals.outside} outside it     "
        f"jobs  {jobs.done} done, {jobs.interrupted} interrupted"
    )
    return Text(words, f"bold {_ALARM}" if bad else "")


# --- a picture --------------------------------------------------------------------------------------------------------

_SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: "Fira Code", "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_BACK, _FORE = (19, 26, 36), (232, 237, 244)
_THEME = TerminalTheme(_BACK, _FORE, [_FORE] * 8)


def picture(view: View) -> str:
    """The screen as an SVG that loads nothing."""
    width, height = PICTURE_SIZE
    console = Console(
        width=width, height=height, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    console.print(Screen(view), height=height - 1)
    return console.export_svg(title="make playground", theme=_THEME, code_format=_SVG, unique_id="playground")
