"""Pages from templates: markup escaped by default, one style and one script, and nothing that could be fetched.

Style and script are allowed by their hashes, so that no other can run.
"""

import hashlib
import re
from base64 import b64encode
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ebbtide.lab.report.charts.by_strategy import reason_text
from ebbtide.lab.report.charts.palette import CHART_CSS, DARK, LIGHT, variables
from ebbtide.lab.report.words import glued


@dataclass(frozen=True, slots=True)
class Assets:
    """Style and script of a page, with their hashes for the content security policy."""

    style: Markup
    script: Markup
    style_hash: str
    script_hash: str


def rendered(template: str, **values: object) -> str:
    environment = Environment(
        loader=PackageLoader("ebbtide.lab.report", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(glued=glued, units=_units, reason=reason_text, whole_options=_whole_options)
    return environment.get_template(template).render(assets=_assets(), **values)


def _assets() -> Assets:
    style, script = _style(), _text_of("page.js")
    return Assets(Markup(style), Markup(script), _hash(style), _hash(script))


def _style() -> str:
    """The page's rules after the inks: the dark ones if the reader's browser prefers them, never in print."""
    inks = f":root{{{variables(LIGHT)}color-scheme:light dark}}"
    dark = f"@media screen and (prefers-color-scheme:dark){{:root{{{variables(DARK)}}}}}"
    return f"{inks}{dark}{CHART_CSS}\n{_text_of('page.css')}"


def _text_of(name: str) -> str:
    return files("ebbtide.lab.report.pages").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _units(text: str) -> str:
    """Keeps each figure on one line with its unit."""
    return re.sub(r"(?<=\d) (?=%|(?:s|min|h|d)\b)", "\N{NO-BREAK SPACE}", text)


def _whole_options(text: str) -> Markup:
    """Browsers break a line between the two hyphens of `--start`."""
    return Markup(re.sub(r"--[\w-]+", r'<span class="whole">\g<0></span>', str(escape(text))))
