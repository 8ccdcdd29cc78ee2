"""The site of the documents: every page is in the navigation, and broken links are named."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT
from tools.docs.site import problems

SETTINGS = tomllib.loads((ROOT / "tools" / "docs" / "zensical.toml").read_text(encoding="utf-8"))["project"]


def pages(entry: Any) -> set[str]:
    """The pages of a navigation: a list of mappings from a title to a page or to a list of the same kind."""
    if isinstance(entry, str):
        return {entry}
    return {page for titled in entry for inner in titled.values() for page in pages(inner)}


def site(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return folder


def test_every_page_has_a_place_in_the_navigation() -> None:
    docs = ROOT / "docs"
    written = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    decisions = {name for name in written if name.startswith("adr/0")}

    assert pages(SETTINGS["nav"]) == written - decisions


def test_no_font_is_fetched() -> None:
    assert SETTINGS["theme"]["font"] is False


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="gone.html">', "a.html: gone.html: there is no such file in the site"),
        ('<a href="b.html#gone">', "a.html: b.html#gone: the page has no such anchor"),
        ('<a href="#gone">', "a.html: #gone: the page has no such anchor"),
        ('<img src="gone.svg">', "a.html: gone.svg: there is no such file in the site"),
        ('<a href="../tests">', "a.html: ../tests: there is no such file in the site"),
        (
            '<script src="https://example.com/x.js">',
            "a.html: loads https://example.com/x.js from the network, wanted a file of the site",
        ),
        (
            '<link rel="stylesheet" href="//example.com/x.css">',
            "a.html: loads //example.com/x.css from the network, wanted a file of the site",
        ),
    ],
)
def test_what_leads_nowhere_is_named(tmp_path: Path, body: str, fault: str) -> None:
    assert list(problems(site(tmp_path, a=body, b="<p>"))) == [fault]


def test_what_leads_somewhere_is_fine(tmp_path: Path) -> None:
    links = '<a href="b.html#there"><a href="/b.html"><a href="https://example.com"><a href="#here" id="here">'

    assert list(problems(site(tmp_path, a=links, b='<h2 id="there">'))) == []
