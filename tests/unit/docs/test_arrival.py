"""The pages for newcomers match the code: the picture of the layers, where a line goes, and the reading order."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
MOST_OFF = 0.1  # of the lines of a day's reading


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the only table, without its head."""
    lines = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


def paths(text: str) -> list[str]:
    return [path for path in re.findall(r"`([^`]+)`", text) if "/" in path and " " not in path]


def layers(contract: int) -> list[list[str]]:
    found = [table["layers"] for table in CONTRACTS if table["type"] == "layers"][contract]
    return [[name.split(".")[-1] for name in layer.split(" | ")] for layer in found]


def picture() -> Iterator[list[str]]:
    """The names of each line of the picture; a line of several layers gives one list for each of them."""
    (drawn,) = re.findall(r"```text\n(.*?)```", section(ARCHITECTURE, "The layers"), re.DOTALL)
    for line in drawn.splitlines():
        names = line.split("  ")[0] if "\u25b8" not in line else line.strip()
        if names and not names.startswith(("-", "lab")):
            yield from ([name.strip() for name in layer.split("|")] for layer in names.split("\u25b8"))


def test_the_picture_has_the_layers_of_both_contracts_in_their_order() -> None:
    drawn = list(picture())
    inside = drawn.index(["settings"]) + 1
    count = next(number for number, names in enumerate(drawn[inside:]) if names == ["prices"])

    assert drawn[:inside] + drawn[inside + count :] == layers(0)
    of_settings = [name for layer in drawn[inside : inside + count] for name in layer]
    assert [name for layer in layers(1) for name in layer if name in of_settings] == of_settings
    folders = {path.parent.name for path in (ROOT / "ebbtide" / "settings").glob("*/__init__.py")}
    assert folders <= {*of_settings}


def test_the_number_of_contracts_is_told() -> None:
    assert f"enforces {len(CONTRACTS)} import contracts" in ARCHITECTURE


@pytest.mark.parametrize(
    "text",
    [
        section(CONTRIBUTING, "Where does a new line go?"),
        section(CONTRIBUTING, "A reading order for one week"),
        section(ARCHITECTURE, "The files of each path"),
    ],
    ids=["new-line", "reading", "paths"],
)
def test_every_file_that_a_table_names_exists(text: str) -> None:
    named = paths(text)

    assert len(named) > 10
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("row", rows(section(CONTRIBUTING, "What is in each folder")), ids=lambda row: row[0])
def test_a_folder_has_the_parts_that_are_described(row: list[str]) -> None:
    folders = [ROOT, *(ROOT / path for path in paths(row[0]))]

    assert all((ROOT / path).exists() for path in paths(row[0]))
    assert [path for path in paths(row[1]) if not any((folder / path).exists() for folder in folders)] == []


def test_a_new_key_touches_as_many_files_as_its_list_has_lines() -> None:
    text = section(CONTRIBUTING, "A new key of a stack file")
    steps = re.findall(r"^(\d)\. ", text, re.MULTILINE)

    assert "touches five files:" in text
    assert steps == ["1", "2", "3", "4", "5"]
    assert [path for path in paths(text) if not (ROOT / path).exists()] == []


def test_twenty_questions_have_a_first_file() -> None:
    questions = rows(section(CONTRIBUTING, "Where does a new line go?"))

    assert len(questions) >= 20
    assert [row for row in questions if len(row) != 3 or not paths(row[1])] == []


def test_every_package_has_a_row_and_a_day() -> None:
    product = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "ebbtide").glob("*/__init__.py")}
    lab = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "ebbtide" / "lab").glob("*/__init__.py")}
    described = {path.rstrip("/") for path in paths(section(CONTRIBUTING, "What is in each folder"))}
    read = {path.rstrip("/") for path in paths(section(CONTRIBUTING, "A reading order for one week"))}

    assert (product - {"ebbtide/lab"}) | lab | {"components", "controllers", "infra"} <= described
    assert product | {"infra"} <= read | {"infra"}


@pytest.mark.parametrize("row", rows(section(CONTRIBUTING, "A reading order for one week")), ids=lambda row: row[0])
def test_a_days_reading_has_about_the_lines_that_it_says(row: list[str]) -> None:
    named = re.findall(r"`([a-z_/]+(?:\.py)?)`", row[1])
    files = [file for name in named for file in modules(ROOT / name)]
    lines = sum(file.read_bytes().count(b"\n") for file in files)

    assert int(row[2].replace(",", "")) == pytest.approx(lines, rel=MOST_OFF)


def modules(path: Path) -> list[Path]:
    return [path] if path.is_file() else [*path.rglob("*.py")]
