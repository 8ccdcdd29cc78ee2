"""A section is written once: what it says is on the terminal and in the comment."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from ebbtide.preview.render.blocks import Block, Changes, Finding, Items, Line, Section
from ebbtide.preview.render.comment import as_comment
from ebbtide.preview.render.sections import SECTIONS, sections_of
from ebbtide.preview.render.text import text_parts
from ebbtide.text.sheet import Sheet
from tests.builders.preview import Seen, customer, document, nights

FULL = customer(nights=replace(nights(), warnings=("budgets never open",), sleep=("api sleeps from 22:00",)))


def said(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Line():
                yield block.text
            case Items():
                yield from (entry.what if isinstance(entry, Finding) else entry.text for entry in block.entries)
            case Sheet():
                yield from (cell for row in block.body for cell in row)
            case Changes():
                yield from (change.title for _, changes in block.by_component for change in changes)
            case _:
                pass


def on_terminal(*, full: bool) -> str:
    out = StringIO()
    for part in text_parts(document(FULL), full=full):
        Console(file=out, width=200).print(part)
    return out.getvalue()


@pytest.mark.parametrize("section", sections_of(FULL), ids=lambda section: section.kind)
def test_what_a_section_says_is_on_the_terminal_and_in_the_comment(section: Section) -> None:
    texts = [*said(section.body)]

    assert [text for text in texts if text not in on_terminal(full=True)] == []
    assert [text for text in texts if text not in Seen(as_comment(document(FULL))).words] == []
    assert [text for text in said(section.short) if text not in on_terminal(full=False)] == []


def test_a_customer_with_something_in_each_part_has_every_section() -> None:
    assert len(sections_of(FULL)) == len(SECTIONS)
