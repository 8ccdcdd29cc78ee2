"""Pages that `ebbtide docs` prints, and the messages that name them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbtide.cli.__main__ import app
from ebbtide.text import pages
from ebbtide.text.pages import NoPage, section, titles
from tests.paths import ROOT

FOLDERS = ("explanation", "how-to", "reference", "runbooks")
LIFE = """\
# Life

Begin.

## A new customer

```sh
# Not a heading
ebbtide new acme
```

### Its `stack`: the file

Below.

## The last day

End.
"""
ANCHORS = "a-new-customer, its-stack-the-file, the-last-day"


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"how-to/life": LIFE, "how-to/services": "# How", "reference/services": "# Which"}.items():
        path = tmp_path / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(pages, "_PAGES", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("life")
def test_a_section_ends_at_the_next_heading_of_its_level() -> None:
    assert section("life#a-new-customer") == LIFE[LIFE.index("## A new") : LIFE.index("## The last")].rstrip()
    assert section("life#its-stack-the-file") == "### Its `stack`: the file\n\nBelow."
    assert section("life#the-last-day") == "## The last day\n\nEnd."


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize("name", ["life", "how-to/life", "docs/how-to/life.md", "../how-to/life.md", "life.md"])
def test_a_page_is_named_as_messages_and_links_name_it(name: str) -> None:
    assert section(name) == LIFE.rstrip("\n")


@pytest.mark.usefixtures("life")
def test_two_pages_of_one_name_are_told_apart_by_their_folders() -> None:
    assert titles() == {"life": "Life", "how-to/services": "How", "reference/services": "Which"}
    assert section("reference/services") == "# Which"


@pytest.mark.usefixtures("life")
@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "services",
            (
                "services: wanted one page, found 2 of this name: `ebbtide docs how-to/services` (How) and "
                "`ebbtide docs reference/services` (Which)"
            ),
        ),
        ("lief", "lief: wanted a page of the documentation, found none of this name; did you mean life?"),
        ("x", "x: wanted a page of the documentation, found none of this name; `ebbtide docs` lists them"),
        (
            "life#end",
            f"life#end: wanted a section of life, found none of this name; there are: {ANCHORS}",
        ),
    ],
)
def test_a_name_that_leads_nowhere_is_told_what_there_is(place: str, message: str) -> None:
    with pytest.raises(NoPage) as missing:
        section(place)

    assert str(missing.value) == message


def test_links_between_pages_lead_to_their_sections() -> None:
    links = {
        f"{folder}/{page}#{anchor}"
        for path in (ROOT / "docs").rglob("*.md")
        for folder, page, anchor in re.findall(r"\]\((?:\.\./)?([\w-]+)/([\w-]+)\.md#([\w-]+)\)", path.read_text())
        if folder in FOLDERS
    }

    assert len(links) > 40
    for link in links:
        assert section(link).startswith("#")


TABLE = """\
# Redis

| key | meaning |
|---|---|
| `ebbtide:redisPassword` | see [secrets](../how-to/secrets.md#set-one) |
"""


def shown(life: Path, *, terminal: bool) -> str:
    (life / "reference" / "redis.md").write_text(TABLE)
    on_terminal = {"FORCE_COLOR": "1", "COLUMNS": "40"} if terminal else {}
    result = CliRunner().invoke(app, ["docs", "redis"], env=on_terminal)
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout)


def test_a_terminal_shows_tables_and_links_without_markdown_and_cuts_no_word(life: Path) -> None:
    page = shown(life, terminal=True)

    assert [mark for mark in ("|", "`", "# ", "](", "…") if mark in page] == []
    assert {"Redis", "key", "meaning", "secrets"} <= {*page.split()}


def test_a_file_or_a_program_receives_the_markdown(life: Path) -> None:
    assert shown(life, terminal=False) == TABLE


def _texts(path: Path) -> Iterator[ast.Constant]:
    """Yield the texts of a module that are no docstrings."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source if "docs/" in source else "")  # of all modules, parsing takes seconds
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node


def _sources() -> Iterator[Path]:
    for package in ("ebbtide", "components", "controllers", "infra"):
        yield from sorted((ROOT / package).rglob("*.py"))


def test_no_message_names_a_file_that_a_teams_repository_lacks() -> None:
    page = re.compile(r"docs/[\w-]+/[\w-]+\.md")

    assert [
        f"{path}:{text.lineno}" for path in _sources() for text in _texts(path) if page.search(str(text.value))
    ] == []


def test_each_page_that_a_message_or_a_workflow_names_exists() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in _sources())
    workflows = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    named = {
        *re.findall(r"""page_command\(['"]([\w#-]+)['"]\)""", sources),
        *re.findall(r"`ebbtide docs ([\w#-]+)`", sources),
        *re.findall(r"ebbtide docs ([\w#-]+)", workflows),
    }

    assert {"life#the-last-day", "stack-file", "queues#rights", "pull-requests"} <= named
    for place in named:
        assert section(place)
