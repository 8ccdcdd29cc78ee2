"""Blocks on a terminal."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rich.console import RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from ebbtide.preview.render import blocks
from ebbtide.preview.render.blocks import Block, Finding, Line, Tone
from ebbtide.text.one_line import printable
from ebbtide.text.sheet import Sheet
from ebbtide.text.terminal import sheet_table

_STYLES = {
    Tone.PLAIN: "",
    Tone.ASIDE: "dim",
    Tone.SAFE: "green",
    Tone.NOTE: "cyan",
    Tone.WARNING: "yellow",
    Tone.BLOCKING: "red",
}
_SIGN_STYLES = {"+": "green", "~": "yellow", "±": "magenta", "-": "red"}


def on_terminal(page: Iterable[Block]) -> Iterator[RenderableType]:
    for block in page:
        yield from _parts(block)


def _parts(block: Block) -> Iterator[RenderableType]:
    match block:
        case blocks.Title():
            yield _title(block.text, block.tone)
        case blocks.Heading():
            yield Padding(_line(block.text, "bold"), (1, 0, 0, 0), expand=False)
        case Line() | blocks.Remark():
            yield _line(block.text, _STYLES[block.tone])
        case blocks.Names():
            yield _indented(", ".join(block.names), 2)
        case blocks.Items():
            for entry in block.entries:
                yield from _entry(entry)
        case Sheet():
            yield sheet_table(replace(block, rows=[[*map(printable, row)] for row in block.body], total=None))
        case blocks.Changes():
            for component, changes in block.by_component:
                yield _line(component, "bold")
                for change in changes:
                    yield from _change(change)
        case blocks.Differing():
            yield from on_terminal(block.terminal)
        case blocks.Section():
            yield from on_terminal((blocks.Heading(block.title), *block.body))
        case blocks.Frame():
            yield Rule(_title(f"{block.name}: {block.verdict}", block.tone), align="left")
            yield from on_terminal((Line(block.about), *block.body))


def _entry(entry: Line | Finding) -> Iterator[RenderableType]:
    style = _STYLES[entry.tone]
    if isinstance(entry, Line):
        yield _line(f"{entry.tone}: {entry.text}" if entry.tone is Tone.WARNING else entry.text, style)
        return
    names = ", ".join((*entry.groups, *entry.names))
    what = f"{names}: {entry.what}" if names else entry.what
    yield Text.assemble((f"{entry.tone}: ", f"bold {style}"), printable(what))
    for line in entry.advice:
        yield _indented(line, 4)


def _change(change: blocks.Change) -> Iterator[RenderableType]:
    yield _indented(f"{change.sign} {change.title}", 2, _SIGN_STYLES[change.sign])
    for field in change.fields:
        yield _indented(_field(field), 6)


def _field(field: blocks.Field) -> str:
    if not field.before and not field.after:
        return field.path
    return f"{field.path}: {field.before or '(none)'} → {field.after or '(none)'}"


def _title(text: str, tone: Tone) -> Text:
    return _line(text, f"bold {_STYLES[tone]}")


def _indented(text: str, by: int, style: str = "") -> Padding:
    return Padding(_line(text, style), (0, 0, 0, by), expand=False)


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style)
