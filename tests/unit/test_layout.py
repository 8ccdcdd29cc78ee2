"""Who may import whom: no circles, no package without a layer, and no lab in commands that need none."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.paths import ROOT, STACK_FILES

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


def test_every_folder_of_modules_is_a_package() -> None:
    """The tools that check imports pass over others. What a team runs as a folder imports the product from outside."""
    folders = {path.parent for path in modules(*PRODUCT).values()}

    assert {str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()} == {
        "ebbtide/policies/pack",
        "ebbtide/project/repository/policies",
        "ebbtide/project/repository/program",
    }


@pytest.mark.parametrize("package", ["ebbtide", "ebbtide/lab"])
def test_what_is_above_all_layers_imports_nothing(package: str) -> None:
    (docstring,) = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")).body

    assert isinstance(docstring, ast.Expr)


def test_every_package_has_a_layer() -> None:
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = (table["layers"] for table in tables if table.get("id") == "layers")
    placed = {name for layer in layers for name in layer.replace("|", ":").replace(" ", "").split(":")}
    packages = {
        name
        for name in modules(*PRODUCT)
        if name.count(".") == name.startswith("ebbtide") + name.startswith("ebbtide.lab.")
    }

    assert placed == packages - {"ebbtide", "ebbtide.lab"}


RUNS = """
import contextlib, io, sys
from ebbtide.cli.__main__ import app

for arguments in {commands!r}:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
        app(arguments, prog_name="ebbtide")
    assert out.getvalue(), arguments
print(*sys.modules)
"""


@pytest.mark.process
def test_commands_that_estimate_nothing_load_nothing_of_the_lab(tmp_path: Path) -> None:
    """Without a cluster, those of an operator end at their first question, with all their modules loaded."""
    nowhere, demo = ["--kubeconfig", str(tmp_path / "none")], str(STACK_FILES / "Pulumi.demo.yaml")
    commands = [
        *(["check", demo], ["stacks"], ["explain", demo], ["render", demo], ["preview", demo], ["changed"]),
        *(["idle", demo, *nowhere], ["status", *nowhere], ["top", *nowhere], ["why", "node", "a", *nowhere]),
        *(["pause", *nowhere], ["probe", *nowhere], ["prices", "show"]),
        *([name, "--help"] for name in ("init", "new", "adopt", "maintenance", "dashboards", "release")),
    ]
    run = [sys.executable, "-c", RUNS.format(commands=commands)]

    loaded = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()

    assert {"ebbtide.cli.top", "ebbtide.operate.idle", "ebbtide.preview.page"} <= {*loaded}
    assert [name for name in loaded if name.startswith("ebbtide.lab")] == []
