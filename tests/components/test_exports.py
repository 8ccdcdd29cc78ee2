"""What is importable from `components`: each name once, and none loads what it does not need."""

import ast
import subprocess
import sys

import pytest

import components
from tests.paths import ROOT

BEFORE_ALL = "import sys; import components; assert not any(name.startswith('pulumi') for name in sys.modules)"


def declared() -> dict[str, str]:
    """What type checkers are told: the module of each name."""
    tree = ast.parse((ROOT / "components" / "__init__.py").read_text(encoding="utf-8"))
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0)
    ours = (node for node in imports if (node.module or "").startswith("components."))
    return {alias.name: node.module or "" for node in ours for alias in node.names}


def test_each_name_is_where_type_checkers_find_it() -> None:
    assert {name: f"components.{module}" for name, module in components._HOME.items()} == declared()
    assert all(getattr(components, name).__module__ == module for name, module in declared().items())


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Ray"):
        _ = components.Ray  # type: ignore[attr-defined]


@pytest.mark.process
def test_a_pod_is_built_without_loading_aws() -> None:
    asks = "from components import Workload; assert 'pulumi_kubernetes' in sys.modules"
    code = f"{BEFORE_ALL}; {asks}; assert not any(name.startswith('pulumi_aws') for name in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
