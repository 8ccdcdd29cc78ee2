"""Documents that name a test as their proof name one that exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT

FEATURES = ROOT / "docs" / "evidence" / "features.md"
PROOFS = ROOT / "docs" / "evidence" / "proofs.md"
FAULTS = ROOT / "docs" / "evidence" / "faults.md"
NAMED = [(FEATURES, "tests/components"), (PROOFS, "tests/control_plane"), (FAULTS, "tests/unit/controllers")]


def named(document: Path, folder: str) -> Iterator[tuple[Path, str]]:
    """Files and functions; a name without a path is in `folder`."""
    for file, _, function in re.findall(r"`((?:tests/)?[\w/]*test_\w+(?:\.py)?)(::(\w+))?`", document.read_text()):
        path = file if file.startswith("tests/") else f"{folder}/{file}"
        yield ROOT / (path if path.endswith(".py") else f"{path}.py"), function


@pytest.mark.parametrize(("document", "folder"), NAMED)
def test_a_document_names_tests_that_exist(document: Path, folder: str) -> None:
    found = list(named(document, folder))

    missing = [
        f"{file.relative_to(ROOT)}::{function}"
        for file, function in found
        if not file.exists() or (function and f"def {function}(" not in file.read_text())
    ]
    assert (missing, len(found) > 10) == ([], True)


CHECKPOINTS = ROOT / "docs" / "evidence" / "checkpoints.md"


def test_the_table_of_what_survives_names_parts_of_tests_that_exist() -> None:
    text = CHECKPOINTS.read_text()
    files = dict(re.findall(r"`([A-Z])` is\s+`([\w/]+\.py)`", text))
    cells = re.findall(r"\b([A-Z]) `(\w+)`", text)

    missing = [
        f"{letter} {part}"
        for letter, part in cells
        if not re.search(rf"def test_\w*{part}", (ROOT / files[letter]).read_text())
    ]
    assert (missing, len(cells) > 20, len(files)) == ([], True, 10)
