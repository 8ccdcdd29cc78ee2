"""One table as Markdown, as CSV and on a terminal."""

from dataclasses import replace

import pytest

from ebbtide.text.sheet import DOLLARS, DURATION, Column, Sheet, csv_text, left, markdown, right
from ebbtide.text.terminal import laid_out, sheet_parts
from tests.builders.terminal import shown_text

PAID = Sheet(
    columns=[*left("group"), *right("dollars", unit=DOLLARS), *right("boots"), *left("label", code=True)],
    rows=[("flexible", 1234.5, 51, "pool|a"), ("gpu", None, "none", "")],
    total=("total", "$1,234 at least", 51, "all"),
    caption="What *nodes* cost",
    notes=("Without <disks>.",),
)


def starred(text: str) -> str:
    """A stand-in for the escaping of Markdown."""
    return text.replace("|", "!").replace("*", "!").replace("<", "!")


def on_terminal(sheet: Sheet, width: int = 80) -> list[str]:
    return shown_text(sheet_parts(sheet), width).splitlines()


def test_markdown_aligns_figures_and_escapes_every_text() -> None:
    assert markdown(PAID, starred).splitlines() == [
        "What !nodes! cost",
        "",
        "| group | dollars | boots | label |",
        "| --- | ---: | ---: | --- |",
        "| flexible | $1,234 | 51 | <code>pool!a</code> |",
        "| gpu | \N{EN DASH} | none |  |",
        "| **total** | **$1,234 at least** | **51** | <code>all</code> |",
        "",
        "- Without !disks>.",
    ]


def test_markdown_escapes_headings_too() -> None:
    assert markdown(Sheet(columns=left("a|b"), rows=[]), starred) == "| a!b |\n| --- |"


def test_markdown_shows_changed_figures_in_bold_and_keeps_cells_on_one_line() -> None:
    columns = [*right("before → after", steps=True), *left("note"), Column("verdict", unbroken=True)]
    sheet = Sheet(columns=columns, rows=[("1 → 2", "a → b", "is safe"), ("3", "", "")], total=("4 → 5", "", ""))

    assert markdown(sheet, starred).splitlines()[2:] == [
        "| **1 → 2** | a → b | is\N{NO-BREAK SPACE}safe |",
        "| 3 |  |  |",
        "| **4 → 5** |  |  |",
    ]


def test_csv_has_bare_numbers_with_their_unit_and_no_total() -> None:
    assert csv_text(PAID).splitlines() == ["group,dollars (USD),boots,label", "flexible,1234.5,51,pool|a", "gpu,,none,"]


def test_a_terminal_shows_the_caption_all_rows_and_the_notes() -> None:
    assert on_terminal(PAID) == [
        "What *nodes* cost",
        "group             dollars  boots  label",
        "flexible           $1,234     51  pool|a",
        "gpu                     \N{EN DASH}   none",
        "total     $1,234 at least     51  all",
        "Without <disks>.",
    ]


def test_a_terminal_shows_no_empty_line_for_a_sheet_without_a_caption() -> None:
    assert on_terminal(replace(PAID, caption="", notes=()))[0].startswith("group")


def test_lines_and_tables_are_laid_out_below_each_other() -> None:
    bars = Sheet(columns=[*left(""), *right("")], rows=[("day 1", 9), ("day 2", 10)])

    assert shown_text(laid_out(["Jobs:", bars, "", "All [bold]days[/]."])).splitlines() == [
        "Jobs:",
        "day 1   9",
        "day 2  10",
        "",
        "All [bold]days[/].",
    ]


def test_a_column_chooses_its_unit_and_its_sign_for_the_unknown() -> None:
    (waits,) = right("wait", unit=DURATION, unknown="?")

    assert [waits.text(cell) for cell in (224, None, "never")] == ["3 min 44 s", "?", "never"]


def test_only_folding_columns_wrap_on_a_narrow_terminal() -> None:
    sheet = Sheet(columns=[*left("name"), *left("reason", fold=True)], rows=[("a name with blanks", "one two three")])

    assert on_terminal(sheet, width=26) == [
        "name                reason",
        "a name with blanks  one",
        "                    two",
        "                    three",
    ]


def test_a_row_needs_a_cell_for_each_column() -> None:
    with pytest.raises(ValueError, match="shorter"):
        assert Sheet(columns=[Column("a"), Column("b")], rows=[("1",)]).body
