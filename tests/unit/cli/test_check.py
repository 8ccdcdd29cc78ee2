"""`ebbtide check`: its output and its exit code."""

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.__main__ import COMMANDS, Command, app
from ebbtide.settings import Caution, StackSettings, warnings_of
from tests.builders.settings import shortest
from tests.paths import ROOT, STACK_FILES


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty stacks/ folder in a temporary working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "stacks"
    folder.mkdir()
    return folder


def ebbtide(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def in_august(stack: StackSettings) -> tuple[Caution, ...]:
    """In August the default version of a cluster has no warning about the end of support yet."""
    return warnings_of(stack, date(2026, 8, 1))


def test_a_sound_stack_is_summed_up(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.cli.stacks.warnings_of", in_august)
    (stacks / "Pulumi.acme.yaml").write_text(shortest(more='ebbtide:cluster: { version: "1.35" }'), encoding="utf-8")

    result = ebbtide("check", "acme")

    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "acme: OK",
        "  customer acme, open mon-fri 08:00-18:00 (Europe/Berlin)",
        "  nodes    fixed: 2 to 6 of m7i.2xlarge",
        "  nodes    flexible: 0 to 20 of m7i.4xlarge or m6i.4xlarge",
        "  workers  train: 0 to 4 on flexible, 4 CPU, 16Gi, jobs up to 12h, queue train",
        "  warning: controller.image: the default image has no digest, so it can change without a change of this file",
    ]


def test_stacks_are_those_of_the_project_from_any_folder_below_it(
    stacks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stacks / "Pulumi.acme.yaml").write_text(shortest(), encoding="utf-8")
    (stacks.parent / "Pulumi.yaml").touch()
    (stacks / "conf").mkdir()
    monkeypatch.chdir(stacks / "conf")

    assert ebbtide("check").output.startswith("acme: OK\n")


def test_all_faults_are_shown_each_on_one_line(stacks: Path) -> None:
    text = shortest(train="maxx: 1, stabilizationWindow: -5m").replace("Europe/Berlin", "Berlin")
    (stacks / "Pulumi.acme.yaml").write_text(text, encoding="utf-8")

    result = ebbtide("check", "acme")

    assert result.exit_code == 1
    head, *faults = result.output.splitlines()
    assert head == "acme: 3 problems"
    assert [line.split(": wanted")[0] for line in faults] == [
        "  stacks/Pulumi.acme.yaml:3: ebbtide:businessHours.timezone",
        "  stacks/Pulumi.acme.yaml:5: ebbtide:workers.train.maxx",
        "  stacks/Pulumi.acme.yaml:5: ebbtide:workers.train.stabilizationWindow",
    ]


def test_one_bad_stack_among_good_ones_is_a_no(stacks: Path) -> None:
    (stacks / "Pulumi.acme.yaml").write_text(shortest(), encoding="utf-8")
    (stacks / "Pulumi.zeta.yaml").write_text("config: {}", encoding="utf-8")

    result = ebbtide("check")

    assert result.exit_code == 1
    assert "acme: OK" in result.output
    assert "zeta: 3 problems" in result.output


def test_a_missing_stack_lists_those_that_exist(stacks: Path) -> None:
    (stacks / "Pulumi.acme.yaml").write_text(shortest(), encoding="utf-8")

    result = ebbtide("check", "amce")

    assert result.exit_code == 1
    assert "stacks/Pulumi.amce.yaml: wanted the stack 'amce', found no such file; stacks here: acme" in result.output


@pytest.mark.usefixtures("stacks")
def test_a_folder_without_stacks_says_so() -> None:
    result = ebbtide("check")

    assert result.exit_code == 1
    assert result.output == "no stacks: there is no stacks/Pulumi.<name>.yaml here\n"


def test_text_that_looks_like_markup_is_shown_as_it_is(stacks: Path) -> None:
    (stacks / "Pulumi.acme.yaml").write_text(shortest(train="stabilizationWindow: '[bold]x'"), encoding="utf-8")

    assert "found '[bold]x'" in ebbtide("check", "acme").output


def test_secrets_stay_out_of_the_whole_output(stacks: Path) -> None:
    more = "ebbtide:redisPassword: { secure: v1:canary }\naws:token: canary\nebbtide:wrong: canary"
    text = "encryptionsalt: v1:canary\n" + shortest(train="maxx: 1", more=more)
    (stacks / "Pulumi.acme.yaml").write_text(text, encoding="utf-8")

    result = ebbtide("check", "acme")

    assert result.exit_code == 1
    assert "canary" not in result.output


def test_wrong_use_is_2_and_help_has_an_example() -> None:
    assert ebbtide("chek").exit_code == 2
    assert "Did you mean 'check'?" in ebbtide("chek").output
    assert "Example: ebbtide check demo" in ebbtide("--help").output
    assert "Example: ebbtide check demo" in ebbtide("check", "--help").output


def test_help_lists_commands_without_importing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "demo", Command("no.such.module", "demo", "Gone."))

    result = ebbtide("--help")

    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


def test_a_command_whose_packages_are_missing_says_what_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "demo", Command("missing_package", "demo", "Gone."))

    result = ebbtide("demo")

    assert result.exit_code == 2
    assert result.output == "ebbtide demo needs missing_package, which is not installed; pip install 'ebbtide[demo]'\n"


@pytest.mark.parametrize("argument", ["acme", "stacks/Pulumi.acme.yaml"])
def test_a_stack_is_called_by_its_name_also_if_a_path_leads_to_it(stacks: Path, argument: str) -> None:
    (stacks / "Pulumi.acme.yaml").write_text(shortest(), encoding="utf-8")

    assert ebbtide("check", argument).output.startswith("acme: OK\n")


def test_an_interrupt_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ebbtide.cli.stacks.stack_names", interrupted)

    result = ebbtide("check")

    assert (result.exit_code, result.output) == (130, "interrupted\n")


@pytest.mark.process
def test_check_does_not_import_pulumi() -> None:
    stack = str(STACK_FILES / "Pulumi.demo.yaml")
    program = (
        f"import sys; sys.argv[1:] = ['check', {stack!r}]\nfrom ebbtide.cli.__main__ import main\ntry:\n    main()\n"
    )
    program += "finally:\n    assert not {'pulumi', 'kubernetes', 'redis'} & set(sys.modules), 'heavy imports'"

    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "customer demo, open" in done.stdout
