"""Build the documents into out/site; fail on a dead link, a dead anchor or a resource from the network.

`make docs` runs it in `.venvs/docs`. Zensical checks the links between pages; pictures, files, folders, and scripts and
fonts from the network are checked here, on the pages that it wrote.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that a browser loads by itself; only readers follow a plain `<a>`."""
_SHIM = "https://unpkg.com/iframe-worker/shim"
"""Script of the offline search for pages on a disk; Zensical links an address, this site includes a file."""


class Page(HTMLParser):
    """The anchors of one page, its links, and the resources that a browser would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        address = attributes.get(_FETCHED.get(tag, ""))
        if address is not None and attributes.get("rel") != "canonical":
            self.fetched.append(address)


def problems(site: Path) -> Iterator[str]:
    """Yield one line for each dead reference in the HTML files below `site`, or one that loads from the network."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        for address in page.fetched:
            if _is_external(address):
                yield f"{where}: loads {address} from the network, wanted a file of the site"
        for address in [*page.links, *page.fetched]:
            if not _is_external(address) and (fault := _fault(site.resolve(), path, address, pages)):
                yield f"{where}: {address}: {fault}"


def _is_external(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "mailto", "data")


def _fault(site: Path, path: Path, address: str, pages: dict[Path, Page]) -> str:
    parts = urlsplit(address)
    relative = unquote(parts.path)
    start = site if relative.startswith("/") else path.parent  # the 404 page is served at any depth
    target = (start / relative.lstrip("/")).resolve() if relative else path
    if not target.is_file():
        return "there is no such file in the site"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "the page has no such anchor"
    return ""


def build(out: Path) -> int:
    """Write the site to `out/site`; return the exit code."""
    shutil.rmtree(out / "docs", ignore_errors=True)
    shutil.copytree(ROOT / "docs", out / "docs")
    shutil.copy(ROOT / "tools" / "docs" / "site.css", out / "docs")
    settings = shutil.copy(ROOT / "tools" / "docs" / "zensical.toml", out / "zensical.toml")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", settings], check=False
    )
    if built.returncode != 0:
        return built.returncode
    _add_shim(out / "site")
    faults = list(problems(out / "site"))
    print("\n".join([*faults, f"{len(faults)} dead references; the site is in {out / 'site'}"]))
    return 1 if faults else 0


def _add_shim(site: Path) -> None:
    shutil.copy(ROOT / "tools" / "docs" / "file-worker.js", site / "assets" / "javascripts")
    for path in site.rglob("*.html"):
        up = "../" * (len(path.relative_to(site).parts) - 1)
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(_SHIM, f"{up}assets/javascripts/file-worker.js"), encoding="utf-8")


if __name__ == "__main__":
    home = ROOT / "out"
    home.mkdir(exist_ok=True)
    sys.exit(build(home))
