"""The blocks of a page as plain values, independent of previews and of the output format.

`terminal` and `markdown` render them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from ebbtide.text.sheet import Sheet


class Tone(StrEnum):
    """How serious a text is."""

    PLAIN = "plain"
    ASIDE = "aside"
    SAFE = "safe"
    NOTE = "note"
    WARNING = "warning"
    BLOCKING = "blocking"


@dataclass(frozen=True, slots=True)
class Title:
    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Remark:
    """A line about the page itself."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Names:
    """The stacks that the following blocks are about."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`groups` describes many stacks in words, `names` lists others; both are empty if the stack is clear."""

    tone: Tone
    what: str
    advice: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list. A terminal shows the tone of a line in words, Markdown as a sign."""

    entries: tuple[Line | Finding, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A missing value is ""."""

    path: str
    before: str
    after: str


Sign: TypeAlias = Literal["+", "~", "±", "-"]
"""Created, updated, replaced, deleted."""


@dataclass(frozen=True, slots=True)
class Change:
    sign: Sign
    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes by the component that they belong to."""

    by_component: tuple[tuple[str, tuple[Change, ...]], ...]


@dataclass(frozen=True, slots=True)
class Differing:
    """The few blocks that differ between the two media."""

    terminal: "tuple[Block, ...]" = ()
    markdown: "tuple[Block, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page: on a terminal its title and body, in Markdown its body folded under a summary."""

    kind: str  # as a line about left out parts names it
    title: str
    summary: tuple[str, str]  # its beginning in bold, and the rest
    body: "tuple[Block, ...]"
    short: "tuple[Block, ...]" = ()  # shown instead in a short text
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Frame:
    """A stack among several: its sections are under its name, in Markdown folded."""

    name: str
    verdict: str
    tone: Tone
    about: str
    body: "tuple[Block, ...]"


Block: TypeAlias = Title | Heading | Line | Remark | Names | Items | Sheet | Changes | Differing | Section | Frame


def asides(*lines: str) -> Items:
    return Items(tuple(Line(line, Tone.ASIDE) for line in lines))
