"""Blocks in GitHub Flavored Markdown, and the escaping of all text in it.

Anyone who opens a pull request writes its stack file. The file's text must not end a table or a fold, mention a team,
link an issue, hide in an HTML comment or start a formula. So each letter that could do so becomes a numeric entity,
which GitHub Flavored Markdown never reads as markup (CommonMark, "Entity and numeric character references").

Traps: GitHub looks for mentions and issue numbers after it has replaced entities, so an invisible space separates the
sign from the text after it. A code span would show the entities literally.
"""

import re
from collections.abc import Iterable, Iterator

from ebbtide.preview.render import blocks
from ebbtide.preview.render.blocks import Block, Finding, Line, Tone
from ebbtide.text import sheet
from ebbtide.text.one_line import printable
from ebbtide.text.sheet import Sheet

SIGNS = {Tone.SAFE: "✅", Tone.NOTE: "📝", Tone.WARNING: "⚠️", Tone.BLOCKING: "⛔"}
_MARKUP = re.compile(r"[&<>|`*_~\[\]\\!$#]|:(?=[A-Za-z+-])")  # a colon may begin an emoji
_SPACE = "\N{ZERO WIDTH SPACE}"
_DIFF_SIGNS = {"+": "+", "~": "!", "±": "-", "-": "-"}


def joined(page: Iterable[Block]) -> str:
    return "\n\n".join(filter(None, map(markdown, page)))


def markdown(block: Block) -> str:
    """Return the block without a line end after it; "" if it is empty."""
    match block:
        case blocks.Title():
            return f"### {_signed(block.tone, escaped(block.text))}"
        case blocks.Heading():
            return f"#### {escaped(block.text)}"
        case Line():
            return escaped(block.text)
        case blocks.Remark():
            return f"> {_signed(block.tone, escaped(block.text))}"
        case blocks.Names():
            return ", ".join(map(code, block.names))
        case blocks.Items():
            return "\n".join(map(_entry, block.entries))
        case Sheet():
            return sheet.markdown(block, escaped)
        case blocks.Changes():
            return fenced([*_differences(block)])
        case blocks.Differing():
            return joined(block.markdown)
        case blocks.Section():
            return _folded(block)
        case blocks.Frame():
            return _framed(block)


def escaped(text: str) -> str:
    """Escape a sentence, a table cell or the text of a tag."""
    parted = printable(text).replace("@", f"@{_SPACE}")
    parted = re.sub(r"#(?=\w)", f"#{_SPACE}", parted)
    parted = re.sub(r"(?i)(gh)-(?=\d)", rf"\1-{_SPACE}", parted)
    parted = re.sub(r"(?i)(:)(?=//)|(www)(?=\.)", lambda match: match.group() + _SPACE, parted)
    return _MARKUP.sub(lambda match: f"&#{ord(match.group())};", parted)


def code(text: str) -> str:
    """A name or a value in code font."""
    return f"<code>{escaped(text)}</code>" if text else ""


def fenced(lines: list[str]) -> str:
    """A fenced diff. Each line begins with `+`, `-`, `!`, `#` or `@`, so none can close the fence."""
    return "```diff\n" + "\n".join(printable(line) for line in lines) + "\n```"


def _signed(tone: Tone, text: str) -> str:
    return f"{SIGNS[tone]} {text}" if tone in SIGNS else text


def _entry(entry: Line | Finding) -> str:
    if isinstance(entry, Line):
        return f"- {_signed(entry.tone, escaped(entry.text))}"
    names = ", ".join((*entry.groups, *map(code, entry.names)))
    what = f"{names}: <b>{escaped(entry.what)}</b>" if names else f"<b>{escaped(entry.what)}</b>"
    return f"- {_signed(entry.tone, '<br>'.join((what, *map(escaped, entry.advice))))}"


def _differences(block: blocks.Changes) -> Iterator[str]:
    for component, changes in block.by_component:
        yield f"@@ {component} @@"
        for change in changes:
            yield from _difference(change)


def _difference(change: blocks.Change) -> Iterator[str]:
    yield f"{_DIFF_SIGNS[change.sign]} {change.title}"
    for field in change.fields:
        if not field.before and not field.after:
            yield f"!     {field.path}"
        if field.before:
            yield f"-     {field.path}: {field.before}"
        if field.after:
            yield f"+     {field.path}: {field.after}"


def _folded(section: blocks.Section) -> str:
    bold, rest = map(escaped, section.summary)
    summary = _signed(section.tone, f"<b>{bold}</b>{rest}")
    return f"<details><summary>{summary}</summary>\n\n{joined(section.body)}\n\n</details>"


def _framed(frame: blocks.Frame) -> str:
    title = f"<b>{escaped(frame.name)}</b>{escaped(f': {frame.verdict}, {frame.about}')}"
    body = "".join(f"{markdown(block)}\n" for block in frame.body)
    summary = f"<details><summary>{_signed(frame.tone, title)}</summary>"
    return f"{summary}\n<blockquote>\n\n{body}\n</blockquote>\n</details>"
