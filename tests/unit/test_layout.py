"""No modules import each other in a circle."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.paths import ROOT

PRODUCT = ("infra", "components", "controllers", "ebbtide")


def modules(*packages: str) -> dict[str, Path]:
    paths = (path for package in packages for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports_at_start(path: Path, product_modules: Mapping[str, Path]) -> Iterator[str]:
    """Modules of ours that are imported as `path` is; what a function imports later closes no circle."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                yield inner if inner in product_modules else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def test_no_modules_import_each_other_in_a_circle() -> None:
    product_modules = modules(*PRODUCT)
    ahead = {
        name: {to for to in imports_at_start(path, product_modules) if to in product_modules}
        for name, path in product_modules.items()
    }

    assert len(ahead) > 300, "the packages have moved"
    while leaves := {name for name, to in ahead.items() if not to & ahead.keys()}:
        ahead = {name: to for name, to in ahead.items() if name not in leaves}
    assert sorted(ahead) == [], "a circle, and what leads to it"
