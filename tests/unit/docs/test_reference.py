"""The pages of docs/reference agree with the code."""

import re
from functools import cache
from itertools import pairwise

import pytest

from ebbtide.cli.__main__ import FORMER
from tests.paths import ROOT
from tools.docs.keys import further_keys, refused_on_existing_clusters
from tools.docs.reference import documents

DOCUMENTS = cache(documents)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
METRIC = re.compile(r"(?<!:)\bebbtide_[a-z_]+\b")  # no recording rule


def test_generated_documents_are_up_to_date() -> None:
    old = [path.name for path, text in DOCUMENTS().items() if path.read_text(encoding="utf-8") != text]

    assert old == [], "out of date; run: make schema"


def test_every_table_is_on_a_page() -> None:
    pages = {path.stem for path in DOCUMENTS() if path.suffix == ".md"}

    assert pages == {
        *("index", "aws-provider", "cli", "fidelity", "metrics", "monitoring", "policies", "preview"),
        *("stack-file", "stack-file-keys", "existing-cluster"),
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


CLUSTER_PAGE = """
## `ebbtide:cluster` on EKS

| key | meaning |
|---|---|
| `version`, `zones` | by hand |

<!-- generated: further-keys -->
| `admins` | generated before |
<!-- end -->

## `ebbtide:cluster` on existing clusters

| key | meaning |
|---|---|
| `kind` | by hand |

<!-- generated: further-keys -->
<!-- end -->
"""


def further(page: str, heading: str) -> set[str]:
    return set(
        re.findall(r"^\| `(\w+)", further_keys(page, page.index("<!-- generated", page.index(heading))), re.MULTILINE)
    )


def test_a_page_gets_the_keys_that_its_own_tables_lack() -> None:
    on_eks = further(CLUSTER_PAGE, "on EKS")

    assert {"provisioner", "parallelDrains", "admins"} <= on_eks
    assert on_eks.isdisjoint({"version", "zones", "kind", "context", "nodePools"})


def test_keys_without_effect_on_a_kind_of_cluster_are_not_listed_for_it() -> None:
    assert further(CLUSTER_PAGE, "on existing") == {
        *("context", "clusterId", "nodeSelectors", "nodeShapes", "nodePools", "rayOperator", "parallelDrains")
    }


def test_a_key_that_is_refused_only_sometimes_is_listed_with_its_condition() -> None:
    refused = refused_on_existing_clusters()

    assert "`cluster.parallelDrains` without `cluster.nodePools`" in refused
    assert refused.count("cluster.nodePools") == 1
    assert "`ebbtide:network`" in refused


@pytest.mark.parametrize(("command", "option"), [(name, old) for name, options in FORMER.items() for old in options])
def test_no_page_names_a_former_option(command: str, option: str) -> None:
    former = re.compile(rf"\b{command}\b[^\n`]*{option}\b")

    assert [page.name for page in PAGES if former.search(page.read_text(encoding="utf-8"))] == []


def test_no_page_shows_a_paragraph_or_a_command_twice_in_a_row() -> None:
    twice: list[str] = []
    for page in PAGES:
        blocks = [block.strip() for block in page.read_text(encoding="utf-8").split("\n\n")]
        twice += [f"{page.name}: {block}" for block, following in pairwise(blocks) if block and block == following]

    assert twice == []
