"""Pages and pictures, looked at without a browser: tags in their order, and where the words of a chart are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

from ebbtide.lab.report.charts.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Outline(HTMLParser):
    """Every opening tag with its attributes, in order, and the tags that were open around it."""

    tags: list[tuple[str, dict[str, str], tuple[str, ...]]] = field(
        default_factory=list[tuple[str, dict[str, str], tuple[str, ...]]]
    )
    around: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}, tuple(self.around)))
        if tag not in ("meta", "br"):
            self.around.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}, tuple(self.around)))

    def handle_endtag(self, tag: str) -> None:
        assert self.around.pop() == tag


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    return parsed


@dataclass(frozen=True, slots=True, order=True)
class Word:
    """A text of a picture, where it begins and ends in pixels; letters are taken to be rather wide."""

    y: str
    left: float
    right: float
    text: str


def words_in(picture: str) -> Iterator[Word]:
    for text in ElementTree.fromstring(str(picture)).iter(f"{SVG}text"):
        wide, x = text_width(text.text or ""), float(text.get("x", 0))
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[text.get("text-anchor", "start")]
        yield Word(text.get("y", ""), left, left + wide, text.text or "")


def words_outside(picture: str, width: float) -> list[Word]:
    return [word for word in words_in(picture) if word.left < -1 or word.right > width + 1]


def words_overlapping(picture: str) -> list[tuple[Word, Word]]:
    """Of those on one line."""
    both = pairwise(sorted(words_in(picture)))
    return [(first, second) for first, second in both if first.y == second.y and first.right > second.left + 1]


def paths(picture: str, ink: str) -> list[str]:
    elements = ElementTree.fromstring(str(picture)).iter(f"{SVG}path")
    return [path.attrib["d"] for path in elements if path.get("class") == ink]
