"""Pages of the documentation, as the wheel holds them for `ebbtide docs`.

A team's repository has no such pages. Messages therefore name the command that prints a section, and never a file.
`ebbtide/docs` links to the folders of the pages, so the wheel packs them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path

_PAGES = Path(__file__).parents[1] / "docs"
_HEADING = re.compile(r"(#+) (.+)")


class NoPage(Exception):
    """No page or no section has this name. The message is one line."""


def page_command(place: str) -> str:
    """Return the command that prints a page, `life`, or a section of one, `life#the-last-day`."""
    return f"ebbtide docs {place}"


def titles() -> Mapping[str, str]:
    """Return the title of each page by its name: the file's, with its folder where two files have the same."""
    return {name: _lines(path)[0].removeprefix("# ") for name, path in _paths().items()}


def section(place: str) -> str:
    """Return the text of a page or of one section. Names of files are read, too: `docs/how-to/life.md#the-last-day`.

    Raises `NoPage`.
    """
    page, _, anchor = place.partition("#")
    name, path = _page(page)
    lines = _lines(path)
    if not anchor:
        return "\n".join(lines)
    headings = list(_headings(lines))
    found = next((heading for heading in headings if heading[2] == anchor), None)
    if found is None:
        sections = ", ".join(heading[2] for heading in headings[1:])
        raise NoPage(f"{place}: wanted a section of {name}, found none of this name; there are: {sections}")
    start, level, _ = found
    end = next((line for line, depth, _ in headings if line > start and depth <= level), len(lines))
    return "\n".join(lines[start:end]).rstrip()


def _page(name: str) -> tuple[str, Path]:
    paths = _paths()
    plain = re.sub(r"^(\.\./|docs/)+", "", name).removesuffix(".md")
    matching = [each for each, path in paths.items() if plain in (path.stem, f"{path.parent.name}/{path.stem}")]
    if len(matching) > 1:
        found = " and ".join(f"`{page_command(each)}` ({titles()[each]})" for each in matching)
        raise NoPage(f"{name}: wanted one page, found {len(matching)} of this name: {found}")
    if not matching:
        near = get_close_matches(plain, paths, n=1)
        hint = f"did you mean {near[0]}?" if near else "`ebbtide docs` lists them"
        raise NoPage(f"{name or 'no name'}: wanted a page of the documentation, found none of this name; {hint}")
    return matching[0], paths[matching[0]]


def _paths() -> dict[str, Path]:
    files = sorted(_PAGES.glob("*/*.md"), key=lambda path: (path.stem, path))
    stems = Counter(path.stem for path in files)
    return {path.stem if stems[path.stem] == 1 else f"{path.parent.name}/{path.stem}": path for path in files}


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield line, level and anchor of each heading outside code blocks."""
    in_code = False
    for number, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and (heading := _HEADING.fullmatch(line)):
            yield number, len(heading[1]), _anchor(heading[2])


def _anchor(heading: str) -> str:
    """Return the anchor that the site gives a heading."""
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", words)
