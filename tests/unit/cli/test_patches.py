"""Advice applied to a stack file: all changes or none, and other lines stay."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.cli.advise import command
from ebbtide.cli.advise.stack_file import finish_advice
from ebbtide.settings.patch import Change, changes_json
from tests.paths import STACK_FILES

MAX = ("ebbtide:workers", "train", "max")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stacks").mkdir()
    return Path(shutil.copy(STACK_FILES / "Pulumi.demo.yaml", tmp_path / "stacks"))


def apply(*changes: Change) -> Result:
    Path("advice.json").write_text(json.dumps({"changes": changes_json(changes)}), encoding="utf-8")
    return CliRunner().invoke(command, ["apply", "demo", "advice.json"], catch_exceptions=False)


def new_max(before: object, after: object) -> Change:
    return Change(at=MAX, before=before, after=after, reason="what history would have liked")


def test_the_file_has_the_advised_value_and_every_other_letter_stays(stack: Path) -> None:
    before = stack.read_text(encoding="utf-8")

    result = apply(new_max(24, 20))

    assert result.exit_code == 0, result.output
    assert "-      max: 24\n+      max: 20\n" in result.output
    assert stack.read_text(encoding="utf-8") == before.replace("max: 24\n", "max: 20\n")


def test_an_advice_for_another_value_changes_nothing(stack: Path) -> None:
    before = stack.read_text(encoding="utf-8")
    line = 1 + before[: before.index("max: 24\n")].count("\n")

    result = apply(new_max(30, 20), Change(at=("ebbtide:workers", "train", "cpu"), before=7, after=6, reason=""))

    assert result.exit_code == 1
    assert result.stderr == (
        f"stacks/Pulumi.demo.yaml:{line}: ebbtide:workers.train.max: wanted 30, which the advice was made for, found "
        "24; ask for the advice again\n"
    )
    assert stack.read_text(encoding="utf-8") == before


def test_changes_that_make_the_file_unsound_are_not_made(stack: Path) -> None:
    before = stack.read_text(encoding="utf-8")

    result = apply(new_max(24, -1))

    assert result.exit_code == 1
    assert "would not be valid" in result.stderr
    assert "ebbtide:workers.train.max" in result.stderr
    assert stack.read_text(encoding="utf-8") == before


def test_an_advice_that_was_followed_is_nothing_to_do(stack: Path) -> None:
    apply(new_max(24, 20))
    followed = stack.read_text(encoding="utf-8")

    result = apply(new_max(24, 20))

    assert (result.exit_code, result.output) == (0, "Nothing to do.\n")
    assert stack.read_text(encoding="utf-8") == followed


def test_no_changes_are_nothing_to_do(stack: Path) -> None:
    assert apply().output == "Nothing to do.\n"


@pytest.mark.parametrize("text", ["", "{}", "[1]", None])
def test_a_file_that_is_no_advice_is_refused_in_one_line(stack: Path, text: str | None) -> None:
    if text is not None:
        Path("advice.json").write_text(text, encoding="utf-8")

    result = CliRunner().invoke(command, ["apply", "demo", "advice.json"], catch_exceptions=False)

    assert result.exit_code == 1
    assert result.stderr.startswith("advice.json: wanted ")
    assert result.stderr.count("\n") == 1


def test_an_advice_leaves_its_changes_in_the_figures_and_a_patch(
    stack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish_advice(
        "demo",
        [new_max(24, 20)],
        json_file=Path("figures.json"),
        patch=Path("max.patch"),
        document={"stack": "demo"},
        shown="Advice.",
    )

    assert capsys.readouterr().out == "Advice.\n"
    assert json.loads(Path("figures.json").read_text(encoding="utf-8"))["changes"] == changes_json([new_max(24, 20)])
    assert Path("max.patch").read_text(encoding="utf-8").startswith("--- a/stacks/Pulumi.demo.yaml\n")
