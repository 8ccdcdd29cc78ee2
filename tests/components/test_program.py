"""Names importable from `ebbtide.program`: each is a public class or function, and none loads what it does not need."""

import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pulumi
import pytest
import yaml
from pulumi_kubernetes.apps.v1 import Deployment

from ebbtide import program
from ebbtide.findings import Severity
from ebbtide.policies import judge
from ebbtide.provisioning_labels import WORKER_NAMESPACE
from ebbtide.recording.record import record_directory, record_program
from ebbtide.settings import parse_stack
from ebbtide.settings.file.contents import no_files
from ebbtide.settings.load import settings_of_texts
from infra.stack import compose
from tests.builders.charts import MLFLOW, deployment
from tests.builders.mutants import as_pulumi_passes
from tests.builders.recorded import record
from tests.paths import ROOT, STACK_FILES

EXAMPLE = ROOT / "examples" / "own-program"
EXAMPLE_CONFIG = yaml.safe_load((EXAMPLE / "stacks" / "Pulumi.acme.yaml").read_text())["config"]
EBBTIDE = Path(sys.executable).with_name("ebbtide")
BEFORE_ALL = "import sys; import ebbtide.program; assert not any(name.startswith('pulumi') for name in sys.modules)"


def test_each_name_is_defined_in_the_module_that_it_is_exported_from() -> None:
    modules = program._modules()

    assert {"Stack", "StackContext", "WorkerPool", "WorkerPoolArgs", "Network"} <= modules.keys()
    assert {name: getattr(program, name).__module__ for name in modules} == modules


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Ray"):
        _ = program.Ray  # type: ignore[attr-defined]


@pytest.mark.process
def test_a_pod_is_built_without_loading_aws() -> None:
    loads = "from ebbtide.program import Workload; assert 'pulumi_kubernetes' in sys.modules"
    code = f"{BEFORE_ALL}; {loads}; assert not any(name.startswith('pulumi_aws') for name in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_foreign_package_ends_the_program_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "components").mkdir()
    (tmp_path / "components" / "__init__.py").touch()
    (tmp_path / "__main__.py").write_text("from ebbtide.program import run; run()")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.partition(".")[0] == "components"]:
        monkeypatch.delitem(sys.modules, name)

    with pytest.raises(pulumi.RunError) as ended:
        record_directory(tmp_path, {})

    line = "hides Ebbtide's package 'components'; rename it, or move it out of the folders of Python's path"
    assert str(ended.value) == f"{tmp_path}/components/__init__.py: {line}"


@pytest.mark.process
@pytest.mark.parametrize("module", ["infra.py", "components/__init__.py", "controllers/__init__.py"])
def test_a_foreign_package_ends_a_command_with_one_line(module: str, tmp_path: Path) -> None:
    (tmp_path / module).parent.mkdir(exist_ok=True)
    (tmp_path / module).touch()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    done = subprocess.run(
        [EBBTIDE, "check", STACK_FILES / "Pulumi.demo.yaml"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{tmp_path / module}: hides Ebbtide's package ")


@pytest.mark.process
def test_a_folder_without_modules_hides_no_package(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    done = subprocess.run(
        [EBBTIDE, "check", STACK_FILES / "Pulumi.demo.yaml"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0


def test_the_example_adds_its_quota_and_its_chart_after_the_controller() -> None:
    """Ebbtide's own rendering runs no program of a team, so it has all resources but these two."""
    config, _ = as_pulumi_passes(EXAMPLE_CONFIG)
    settings = settings_of_texts(config, stack="acme", file="config", reader=no_files)

    recording = record_directory(EXAMPLE / "program", config, stack="acme")

    *stack, quota, chart = recording.resources
    [controller] = [resource.urn for resource in stack if resource.type == "ebbtide:components:Controller"]
    parts = {resource.urn for resource in stack if resource.parent == controller and resource.custom}
    providers = {resource.provider for resource in stack if resource.urn in parts}
    assert quota.type == "kubernetes:core/v1:ResourceQuota"
    assert quota.inputs["metadata"] == {"name": "gpus", "namespace": WORKER_NAMESPACE}
    assert chart.type == "kubernetes:helm.sh/v4:Chart"
    assert chart.inputs["namespace"] == settings.adopted["mlflow"].namespace
    assert chart.inputs["values"]["replicaCount"] == settings.adopted["mlflow"].replicas
    assert {quota.provider, chart.provider} <= providers
    assert parts
    assert parts <= {*quota.depends_on} & {*chart.depends_on}
    assert recording.outputs.keys() == {"clusterName", "ownership", "controllerConfig", "gpuQuota"}
    assert tuple(stack) == record(settings)


@pytest.mark.parametrize(("adopted", "refused"), [(True, set[str]()), (False, {"EB002"})])
def test_the_policies_accept_a_charts_pods_that_a_rule_covers(adopted: bool, refused: set[str]) -> None:
    config = dict(EXAMPLE_CONFIG)
    if not adopted:
        del config["ebbtide:adopted"]
    settings = parse_stack(config, stack="acme", file="acme.yaml")

    def program() -> None:
        stack = compose(settings)
        mlflow = deployment("mlflow", "mlflow", MLFLOW, replicas=2)
        opts = pulumi.ResourceOptions(provider=stack.provider)
        Deployment("mlflow", metadata=mlflow["metadata"], spec=mlflow["spec"], opts=opts)

    results = judge(settings, record_program(program, stack="acme").resources, date(2026, 11, 20))
    assert {each.code for each in results if each.severity is Severity.BLOCKING} == refused


def test_the_page_shows_lines_of_the_example() -> None:
    page = (ROOT / "docs" / "how-to" / "own-program.md").read_text(encoding="utf-8")
    example = (EXAMPLE / "program" / "__main__.py").read_text(encoding="utf-8")
    _, _, block = page.partition("```python\n")

    shown = block.partition("```")[0].splitlines()
    assert len(shown) > 3
    assert [line for line in shown if line not in example.splitlines()] == []
