"""The house stays tidy: folders that can be looked over, no modules that import each other in a circle."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.paths import ROOT

PRODUCT = ("infra", "components", "controllers", "ebbtide")
MOST_FILES = 30


def modules(*packages: str) -> dict[str, Path]:
    found = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def imports_at_start(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Modules of ours that are imported as `path` is; what a function imports later closes no circle."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in known else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_no_folder_holds_more_python_files_than_one_can_look_over() -> None:
    files = Counter(path.parent for path in modules(*PRODUCT, "benchmarks", "tests", "tools").values())

    assert len(files) > 50, "the folders have moved"
    assert {str(folder.relative_to(ROOT)): count for folder, count in files.items() if count > MOST_FILES} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules(*PRODUCT)
    ahead = {name: {to for to in imports_at_start(path, known) if to in known} for name, path in known.items()}

    assert len(ahead) > 300, "the packages have moved"
    while leaves := {name for name, to in ahead.items() if not to & ahead.keys()}:
        ahead = {name: to for name, to in ahead.items() if name not in leaves}
    assert sorted(ahead) == [], "a circle, and what leads to it"
