"""The pages of docs/reference agree with the code."""

import re
from functools import cache

from tests.paths import ROOT
from tools.docs.reference import documents

DOCUMENTS = cache(documents)
METRIC = re.compile(r"(?<!:)\bebbtide_[a-z_]+\b")  # no recording rule


def test_generated_documents_are_up_to_date() -> None:
    old = [path.name for path, text in DOCUMENTS().items() if path.read_text(encoding="utf-8") != text]

    assert old == [], "out of date; run: make schema"


def test_every_table_is_on_a_page() -> None:
    pages = {path.stem for path in DOCUMENTS() if path.suffix == ".md"}

    assert pages == {
        *("index", "aws-provider", "cli", "fidelity", "metrics", "monitoring", "policies", "preview"),
        "stack-file-keys",
    }


def test_pages_name_metrics_that_our_processes_write() -> None:
    reference, how_to = ROOT / "docs" / "reference" / "metrics.md", ROOT / "docs" / "how-to" / "monitoring.md"
    page = reference.read_text(encoding="utf-8")
    generated = {name for row in page.splitlines() if row.startswith("| `") for name in METRIC.findall(row)}
    pages = [reference, how_to, *(ROOT / "docs" / "runbooks").glob("*.md")]

    assert len(generated) > 40
    named = {name for path in pages for name in METRIC.findall(path.read_text(encoding="utf-8"))}
    assert named >= generated
    assert named - generated == set()


def test_a_key_that_yaml_would_misread_is_quoted() -> None:
    page = (ROOT / "docs" / "reference" / "stack-file-keys.md").read_text(encoding="utf-8")

    assert '| `"1.35"` |' in page
    assert '"08:00-19:00"' in page


def test_every_key_has_a_meaning_in_the_tables_of_keys() -> None:
    page = (ROOT / "docs" / "reference" / "stack-file-keys.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|.*\|(.*)\|$", page, re.MULTILINE)

    assert len(rows) > 300
    assert [key for key, meaning in rows if not meaning.strip()] == []
