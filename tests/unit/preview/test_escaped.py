"""Escaped text in a comment is complete, and is only text."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.preview.render.markdown import code, escaped, fenced
from ebbtide.text.one_line import printable
from tests.builders.preview import Seen

SPACE = "\N{ZERO WIDTH SPACE}"
HOSTILE = [
    "a | b",
    "</details><img src=x onerror=alert(1)>",
    "<!-- ebbtide:demo -->",
    "`code` and ``more",
    "[link](javascript:alert(1)) ![image](https://example.com/x.png)",
    "**bold** _it_ ~~gone~~",
    "\\| \\<b>",
    "$x^2$ :smile:",
    "&lt;b&gt; &#60;",
    "| --- |",
]


def test_hostile_words_are_shown_as_they_are_written() -> None:
    for text in HOSTILE:
        seen = Seen(f"- <b>{escaped(text)}</b>\n\n| a | b |\n| --- | --- |\n| {escaped(text)} | {code(text)} |\n")

        assert seen.words.replace(SPACE, "").count(text) == 3, text
        assert seen.tags <= {"ul", "li", "b", "table", "thead", "tbody", "tr", "th", "td", "code", "p"}, text
        assert (seen.comments, seen.links) == ([], [])
        assert len(seen.cells) == 4


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_no_words_end_a_cell_or_begin_a_tag(text: str) -> None:
    seen = Seen(f"| a | b |\n| --- | --- |\n| x{escaped(text)}x | {code(text)} |\n")

    assert set(escaped(text)).isdisjoint("<>|`*_[]")
    assert len(seen.cells) == 4
    assert seen.cells[2].replace(SPACE, "") == f"x{printable(text)}x".replace(SPACE, "")
    assert seen.tags <= {"table", "thead", "tbody", "tr", "th", "td", "code"}


def test_nobody_is_mentioned_and_no_issue_linked() -> None:
    for text, sign in (
        ("@ops", "@"),
        ("#12", "#"),
        ("GH-12", "GH-"),
        ("https://example.com", "https:"),
        ("www.a.b", "www"),
    ):
        words = Seen(escaped(f"by {text}")).words

        assert f"{sign}{SPACE}" in words
        assert words.replace(SPACE, "").strip() == f"by {text}"


def test_a_line_of_a_difference_cannot_close_its_fence() -> None:
    shown = fenced(["- image: a", "+ image: ```\n```\n<b>bold</b> @ops"])
    seen = Seen(shown)

    assert seen.tags == {"pre", "code"}
    assert shown.count("\n") == 3
